"""
Suites that prove an adapter: one class a slot, one sentence a clause.

They hold clauses only. How an adapter is opened is handed in by the `open_adapter` fixture of `agentbox.testing`.
"""

"""Adapters of the orchestrator slot."""

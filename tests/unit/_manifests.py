"""The manifests that the architecture shows."""

__all__ = ["CLIENT_BLOCK", "STANDALONE_BLOCK"]

CLIENT_BLOCK = """\
[adapters]                              # and, for standalone: local-sqlite, local-solid-rs,
beads = "external"                      # embedded-ruvector, local-jsonl, local-process-manager
pods = "external"
memory = "external-pg"
events = "external"
orchestrator = "stdio-bridge"
[federation]
mode = "client"
external_url = "http://host-orchestrator:7070"
"""

STANDALONE_BLOCK = """\
[adapters]
beads = "local-sqlite"
pods = "local-solid-rs"
memory = "embedded-ruvector"
events = "local-jsonl"
orchestrator = "local-process-manager"
[federation]
mode = "standalone"
"""

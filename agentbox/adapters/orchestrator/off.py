"""The orchestrator slot when it is off."""

from agentbox.adapters._off import off
from agentbox_contracts.orchestrator import CONTRACT

Adapter = off(CONTRACT)

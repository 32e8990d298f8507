"""The pods slot when it is off."""

from agentbox.adapters._off import off
from agentbox_contracts.pods import CONTRACT

Adapter = off(CONTRACT)

"""The memory slot when it is off."""

from agentbox.adapters._off import off
from agentbox_contracts.memory import CONTRACT

Adapter = off(CONTRACT)

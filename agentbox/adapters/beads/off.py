"""The beads slot when it is off."""

from agentbox.adapters._off import off
from agentbox_contracts.beads import CONTRACT

Adapter = off(CONTRACT)

"""The beads slot of agentbox on a store that speaks memcached's protocol."""

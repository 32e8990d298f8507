"""Adapters of the beads slot."""

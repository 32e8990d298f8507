"""Adapters of the memory slot."""

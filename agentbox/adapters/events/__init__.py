"""Adapters of the events slot."""

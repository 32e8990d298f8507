"""Adapters of the pods slot."""

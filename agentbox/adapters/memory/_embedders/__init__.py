"""Embedders, one module each, with a `create(settings)`."""

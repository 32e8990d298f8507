"""Adapters, one folder a slot, one module an implementation."""

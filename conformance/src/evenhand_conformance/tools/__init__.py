"""Adapters of tools: a file each, read by path in the tool's own environment."""

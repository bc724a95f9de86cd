"""Adapters of other tools: a file each, read by path in the tool's own environment. None of them imports evenhand."""

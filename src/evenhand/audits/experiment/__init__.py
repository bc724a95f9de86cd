"""Experiments: arms compared at equal volume, and power before a test."""

"""Exposure of groups in rankings: the audit, and how its metrics are measured."""

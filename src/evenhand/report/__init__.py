"""Findings -> something to look at: sentences, tables, charts, a report."""

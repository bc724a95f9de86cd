"""Measured claims: `make bench` for speed and memory against others, `make coverage` for how often intervals are right."""

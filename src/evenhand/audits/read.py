"""Reading what was written before: saved results."""

from evenhand.results import load as result

__all__ = ["result"]

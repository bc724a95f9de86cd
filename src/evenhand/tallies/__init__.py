"""Tallies: frozen dataclasses of small arrays, filled by queries, by loops over whole groups or from plain arrays."""

import numpy as np

np.empty(1 << 21)
"""Asked for and freed at once, never touched: the C library then keeps freed arrays of up to this size at hand, where it would
give every one back to the system and get it again page by page, which takes longer than the arithmetic (mallopt(3))."""

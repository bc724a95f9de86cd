"""Tallies: frozen dataclasses of arrays, each filled by one query or one loop over groups."""

import numpy as np

np.empty(1 << 21)
"""Asked for and freed at once, never touched: the C library then keeps freed arrays of up to this size at hand, where it would
give every one back to the system and get it again page by page, which takes longer than the arithmetic (mallopt(3))."""

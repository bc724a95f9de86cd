"""Rounding of sums whose last bits depend on the order of rows."""

from __future__ import annotations

import numpy as np

from evenhand.cards import Floats


def significant(x: Floats, digits: int = 12) -> Floats:
    """Round to significant digits, so that 0.1 + 0.2 ties with 0.3.

    Whole numbers stay as they are, however large, and so do those under 1e-290, which no power of ten makes whole.

    >>> significant(np.array([0.1 + 0.2, 1e15 + 1, 0.0, 1e-300])).tolist() == [0.3, 1e15 + 1, 0.0, 1e-300]
    True
    """
    broken = (x != np.rint(x)) & (np.abs(x) >= 1e-290)
    if not broken.any():
        return x
    some = x[broken]
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(some))))
    out = x.copy()
    out[broken] = np.rint(some * scale) / scale
    return out

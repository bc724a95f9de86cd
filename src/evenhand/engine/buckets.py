"""Ids as numbers without gaps, for clusters of outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np


def dense(ids: Any) -> tuple[Any, int]:
    """Ids as 0, 1, ... without gaps, and how many there are."""
    if ids.dtype.is_integer() and len(ids):
        least, most = int(ids.min()), int(ids.max())
        if most - least < 4 * len(ids) + 1_000:
            values = ids.to_numpy() - least
            seen = np.zeros(most - least + 1, dtype=np.int32)
            seen[values] = 1
            place = np.cumsum(seen, dtype=np.int32) - 1
            return place[values], int(place[-1]) + 1
    frame = ids.to_frame("id")
    known = frame.unique().with_row_index("place")
    return frame.join(known, on="id", how="left", maintain_order="left")["place"].to_numpy(), known.height

"""Ranked lists of many users over one catalogue, as the attention that each item gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.attention import parse
from evenhand.cards import Floats, is_whole
from evenhand.errors import EvenhandError


@dataclass(frozen=True)
class Lists:
    """What items get from users.

    Attributes
    ----------
    received : (J,) attention on each item, averaged over users.
    square : sum over items of the squared attention that a user gives each, averaged over users.
    """

    received: Floats
    square: float

    @classmethod
    def of(cls, lists: Any, items: Any = None, attention: Any = "rbp(patience=0.8)") -> Lists:
        """Of each user, the numbers of the items shown (from 0), best first; `items` is how many there are.

        >>> Lists.of([[0, 1], [1]], items=3, attention="rbp(patience=0.5)").received.tolist()
        [0.5, 0.75, 0.0]
        """
        if not is_whole(items, least=0):
            raise EvenhandError(f"items={items!r} is not the size of a catalogue. Pass how many items there are.")
        lengths = np.array([len(row) for row in lists], dtype=np.int64)
        shown = np.array([item for row in lists for item in row])
        if shown.size and (shown.dtype.kind not in "iu" or shown.min() < 0 or shown.max() >= items):
            raise EvenhandError(f"lists holds what is no item. Pass numbers from 0 to {items - 1}.")
        rows = np.repeat(np.arange(len(lengths)), lengths)
        if len(np.unique(rows * max(items, 1) + shown.astype(np.int64))) < len(shown):
            raise EvenhandError("A list shows an item twice. Pass each item of a user once.")
        model = parse(attention)
        if model.needs_relevance:
            raise EvenhandError(
                f"attention={attention!r} needs relevance, which lists do not have. Pass rbp, log or geometric."
            )
        ranks = np.arange(len(shown)) - np.repeat(lengths.cumsum() - lengths, lengths)
        weight = model.weights(int(lengths.max(initial=0)))[ranks]
        if not len(lengths):
            return cls(np.zeros(0), 0.0)
        found = np.bincount(shown.astype(np.int64), weight, minlength=items) / len(lengths)
        return cls(found.astype(np.float64), float((weight**2).sum() / len(lengths)))

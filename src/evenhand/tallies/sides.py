"""Which groups of users stand against which: the source's group a is `versus`, its group b is `protected`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evenhand.labels import in_order, missing, plain, several


@dataclass(frozen=True, slots=True)
class Sides:
    """User groups as rows of a tally.

    Attributes
    ----------
    names : the groups, one row each; behind them come a row for users of unknown group and a row for nobody.
    rows : the row of each label as the user wrote it; labels taken together share one.
    pairs : (versus, protected) rows to compare.
    """

    names: tuple[str, ...]
    rows: Mapping[Any, int]
    pairs: tuple[tuple[int, int], ...]

    @property
    def unknown(self) -> int:
        return len(self.names)

    @property
    def nobody(self) -> int:
        return len(self.names) + 1

    @property
    def groups(self) -> int:
        return len(self.names) + 2

    @classmethod
    def of(cls, labels: Iterable[Any], protected: Any = None, versus: Any = None) -> Sides:
        """Every pair of groups, or those that `protected` and `versus` (a label, or several taken together) leave.

        Left to themselves, the first of two groups in order is `versus` and the second `protected`, as in the seed.

        >>> Sides.of(["a", "b", "c"], protected="c").pairs
        ((0, 2), (1, 2))
        """
        known = in_order({label for label in labels if not missing(label)})
        b, a = _together(protected), _together(versus)
        merged = {**dict.fromkeys(a, a), **dict.fromkeys(b, b)}
        parts = list(dict.fromkeys([merged.get(label, (label,)) for label in known]))
        parts += [side for side in (a, b) if side and side not in parts]
        at = {part: i for i, part in enumerate(parts)}
        nobody = len(parts) + 1
        if a and b:
            pairs = [(at[a], at[b])]
        elif b:
            pairs = [(i, at[b]) for part, i in at.items() if part != b] or [(nobody, at[b])]
        elif a:
            pairs = [(at[a], i) for part, i in at.items() if part != a] or [(at[a], nobody)]
        else:
            pairs = list(combinations(range(len(parts)), 2)) or [(0, nobody)]
        rows = {label: at[merged.get(label, (label,))] for label in (*known, *merged)}
        return cls(tuple(", ".join(map(str, part)) for part in parts), rows, tuple(pairs))

    def codes(self, labels: Any) -> np.typing.NDArray[np.int64]:
        """The row of every user."""
        if isinstance(labels, np.ndarray) and labels.dtype.kind in "iuUSb":
            distinct, where = np.unique(labels, return_inverse=True)
            return np.array([self.rows.get(plain(label), self.unknown) for label in distinct], dtype=np.int64)[where]
        return np.fromiter((self.rows.get(plain(label), self.unknown) for label in labels), dtype=np.int64)

    def name(self, row: int) -> str:
        return self.names[row] if row < len(self.names) else "(nobody)"


def _together(side: Any) -> tuple[Any, ...]:
    return tuple(in_order({plain(label) for label in several(side)}))

"""Which groups of users stand against which: the source's group a is `versus`, its group b is `protected`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np


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
        known = sorted({label for label in labels if not unknown(label)}, key=label_order)
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
    if side is None:
        return ()
    side = one_or_several(side)
    return (
        tuple(sorted({plain(label) for label in side}, key=label_order)) if isinstance(side, list) else (plain(side),)
    )


def one_or_several(side: Any) -> Any:
    """A label as it is; several in whatever holds them (a list, a set, a range, a column) as a list."""
    if isinstance(side, (list, tuple, set, frozenset, range)):
        return list(side)
    return listed_labels(side) if hasattr(side, "__len__") and hasattr(side, "dtype") and len(side.shape) else side


def listed_labels(labels: Any) -> list[Any]:
    """Plain Python labels: PyArrow would hand out scalars, and pandas writes a missing text or category as NaN."""
    for unpack in ("to_pylist", "to_list", "tolist"):
        if hasattr(labels, unpack):
            listed = list(getattr(labels, unpack)())
            break
    else:
        listed = list(labels)
    lost = labels.isna() if hasattr(labels, "isna") and labels.dtype.kind != "f" else [False] * len(listed)
    return [
        None if gone or type(label).__name__ == "NAType" else label for label, gone in zip(listed, lost, strict=True)
    ]


def plain(label: Any) -> Any:
    """A numpy scalar as a Python one."""
    return label.item() if isinstance(label, np.generic) else label


def label_order(label: Any) -> tuple[str, Any]:
    """Numbers among numbers, text among text."""
    return ("number", label) if isinstance(label, (bool, int, float)) else (type(label).__name__, str(label))


def unknown(label: Any) -> bool:
    """Whether a user's group is not known."""
    return label is None or (isinstance(label, float) and bool(np.isnan(label)))

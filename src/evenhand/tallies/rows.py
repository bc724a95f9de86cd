"""Candidates one by one, for exact tests of groups with few outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.tallies.ragged import Bools, Ints


@dataclass(frozen=True)
class Rows:
    """Score, outcome, bin and group code of rows, in an order that no engine changes.

    `weight` is None where every row counts once, `cluster` (codes from 0) where no rows share shocks, `treated` where nobody
    was left out.
    """

    score: Floats
    outcome: Floats
    bin: Ints
    group: Ints
    weight: Floats | None = None
    cluster: Ints | None = None
    treated: Bools | None = None

    @classmethod
    def from_arrays(cls, score: Any, *, outcome: Any, groups: Any, treated: Any = None, weight: Any = None) -> Rows:
        """Rows from arrays; groups are codes from 0."""
        s, y = np.asarray(score, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
        g = np.asarray(groups, dtype=np.int64)
        if not s.shape == y.shape == g.shape or s.ndim != 1:
            raise EvenhandError("Scores, outcomes and groups differ in length. Pass one entry of each per row.")
        w = None if weight is None else np.asarray(weight, dtype=np.float64)
        return cls(
            s, y, np.zeros(len(s), dtype=np.int64), g, w, None, None if treated is None else np.asarray(treated) > 0
        )

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Rows:
        """Rows from columns `code`, `outcome` and, if present, `score`, `weight`, `cluster`, `used`."""
        code = columns["code"]
        nothing = np.zeros(len(code))
        used = columns.get("used")
        return cls(
            columns.get("score", nothing), columns["outcome"], nothing.astype(np.int64), code, columns.get("weight"),
            columns.get("cluster"), None if used is None else used > 0,
        )  # fmt: skip

    def reason(self) -> str:
        return "" if len(self.score) else "empty"

    @property
    def mass(self) -> Floats:
        """The weight of each row."""
        return np.ones_like(self.score) if self.weight is None else self.weight

    def _at(self, at: Any) -> Rows:
        parts: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: part[at] for name, part in parts.items() if part is not None})

    def within(self, low: float, high: float) -> Rows:
        """The rows with scores from one end to the other."""
        inside = (self.score >= low) & (self.score <= high)
        return self if inside.all() else self._at(inside)

    def binned(self, edges: Floats) -> Rows:
        """These rows in right-closed bins with these inner edges, ordered by bin and else as before."""
        bins = np.searchsorted(edges, self.score)
        order = np.argsort(bins, kind="stable")
        return replace(self._at(order), bin=bins[order])

    def merged(self, into: Ints) -> Rows:
        """These rows in coarser bins."""
        return replace(self, bin=into[self.bin])

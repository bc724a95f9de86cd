"""Scored candidates of every request: slots before and after a reallocation, neighbours in a list, rows one by one for exact tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.tallies.ragged import Bools, Ints

if TYPE_CHECKING:
    from evenhand.sources.outcomes import Outcomes


@dataclass(frozen=True)
class Candidates:
    """Rows that may get a slot, by request and falling score; equal scores keep their order.

    Attributes
    ----------
    request : (n,) request codes from 0, never decreasing.
    bin, group : (n,) score bin that predicts the row, and its group.
    score, offset : (n,) the score, and its distance from the origin of its bin.
    outcome : (n,) what became of the row; 0 where nobody saw.
    treated : (n,) rows that hold a slot now.
    fitted : (n,) rows whose outcome enters the regressions.
    shape : number of bins and groups.
    reference : position of the reference group.
    cluster : (n,) codes from 0 of the rows that share shocks: those of a request, or each row alone where there is one pool.
    """

    request: Ints
    bin: Ints
    group: Ints
    score: Floats
    offset: Floats
    outcome: Floats
    treated: Bools
    fitted: Bools
    shape: tuple[int, int]
    reference: int
    cluster: Ints

    @classmethod
    def from_arrays(
        cls,
        request: Any,
        score: Any,
        group: Any,
        outcome: Any,
        treated: Any,
        *,
        edges: Floats,
        groups: int,
        reference: int,
        scope: tuple[float, float],
    ) -> Candidates:
        """Sort and code rows; `edges` are inner edges of bins, `scope` the range of scores fitted.

        Scores outside the bins are predicted by the nearest one.
        """
        s = np.asarray(score, dtype=np.float64)
        codes = np.unique(np.asarray(request), return_inverse=True)[1].reshape(-1)
        order = np.lexsort((-s, codes))
        s, y, is_treated = (
            s[order],
            np.asarray(outcome, dtype=np.float64)[order],
            np.asarray(treated, dtype=bool)[order],
        )
        at = np.searchsorted(edges, s)
        count = np.bincount(at[is_treated], minlength=len(edges) + 1)
        centre = np.bincount(at[is_treated], s[is_treated], len(edges) + 1) / np.maximum(count, 1)
        return cls(
            codes[order], at, np.asarray(group, dtype=np.int64)[order], s, s - centre[at], np.where(is_treated, y, 0.0), is_treated,
            is_treated & (s >= scope[0]) & (s <= scope[1]), (len(edges) + 1, groups), reference,
            codes[order],
        )  # fmt: skip

    def pooled(self, part: Ints) -> Candidates:
        """Rows without requests, in parts (one code per row) that each give their own slots."""
        order = np.lexsort((-self.score, part))
        names = ("bin", "group", "score", "offset", "outcome", "treated", "fitted")
        moved = {name: getattr(self, name)[order] for name in names}
        return replace(self, request=part[order], cluster=np.arange(len(part)), **moved)

    @cached_property
    def requests(self) -> int:
        return int(self.request[-1]) + 1 if len(self.request) else 0

    @cached_property
    def clusters(self) -> int:
        return int(self.cluster.max()) + 1 if len(self.cluster) else 0

    @cached_property
    def position(self) -> Ints:
        """Place of each row in its request, best score first, counted from 1."""
        starts = np.searchsorted(self.request, np.arange(self.requests))
        return np.arange(len(self.request)) - starts[self.request] + 1

    @cached_property
    def slots(self) -> Ints:
        """Slots that each request has to give."""
        return np.bincount(self.request[self.treated], minlength=self.requests)

    @cached_property
    def given(self) -> Bools:
        """Places, in any order of the rows within their requests, that hold a slot."""
        return np.asarray(self.position <= self.slots[self.request])


@dataclass(frozen=True)
class Allocation:
    """Who holds the slots, and what that is worth; leading axes are draws.

    Attributes
    ----------
    slots : (..., G) slots of each group.
    rank : (..., G) mean place of its slots; NaN where it has none.
    outcome : (...) sum of the outcomes that are expected of those who hold them.
    """

    slots: Floats
    rank: Floats
    outcome: Floats

    @classmethod
    def from_arrays(cls, slots: Any, rank: Any, outcome: Any) -> Allocation:
        return cls(*(np.asarray(x, dtype=np.float64) for x in (slots, rank, outcome)))


@dataclass(frozen=True)
class Change:
    """Slots before and after."""

    before: Allocation
    after: Allocation

    @classmethod
    def from_arrays(cls, before: Allocation, after: Allocation) -> Change:
        return cls(before, after)

    @property
    def outcome_change(self) -> Floats:
        """Relative change of the outcome; NaN where there was none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(
                (self.after.outcome - self.before.outcome) / np.where(self.before.outcome, self.before.outcome, np.nan)
            )


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
        return np.ones_like(self.score) if self.weight is None else self.weight

    def _at(self, at: Any) -> Rows:
        parts: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: part[at] for name, part in parts.items() if part is not None})

    def within(self, low: float, high: float) -> Rows:
        inside = (self.score >= low) & (self.score <= high)
        return self if inside.all() else self._at(inside)

    def binned(self, edges: Floats) -> Rows:
        """These rows in right-closed bins with these inner edges, ordered by bin and else as before."""
        bins = np.searchsorted(edges, self.score)
        order = np.argsort(bins, kind="stable")
        return replace(self._at(order), bin=bins[order])

    def merged(self, into: Ints) -> Rows:
        return replace(self, bin=into[self.bin])


PLACES = ("below", "above")
"""Where the group stands next to the reference: the axis of all sums."""

SUMS = {
    "pairs": "SUM(pairs)", "gap": "SUM(gap)", "gap_gap": "SUM(gap * gap)", "gap_pairs": "SUM(gap * pairs)",
    "pairs_pairs": "SUM(pairs * pairs)", "clusters": "COUNT(*)", "unequal": "SUM(unequal)",
}  # fmt: skip
"""Sums over clusters, which have some pairs and the sum of their gaps."""


@dataclass(frozen=True)
class Neighbours:
    """Sums over pairs of a group's and a reference candidate with no other score between theirs in a list.

    The gap of a pair is the outcome of the group's candidate minus that of the reference's. Candidates of one list with equal
    scores have no order: those of a group count as one, with their mean outcome. Shapes are (2, groups), see `PLACES`.

    Attributes
    ----------
    pairs, gap : number of pairs, and sum of their gaps. unequal : pairs whose outcomes differ.
    clusters : clusters that hold such pairs. gap_gap, gap_pairs, pairs_pairs : sums over clusters of products of their sums.
    """

    pairs: Floats
    gap: Floats
    gap_gap: Floats
    gap_pairs: Floats
    pairs_pairs: Floats
    clusters: Floats
    unequal: Floats

    @classmethod
    def from_table(cls, view: Outcomes) -> Neighbours:
        """Pairs of all lists, counted by one query."""
        reference = view.reference
        cluster = "cluster" if view.roles.cluster is not None else "request"
        levels = (
            f"SELECT request, code, score, AVG(outcome) AS outcome, MIN({cluster}) AS cluster FROM ({view.scope}) AS scope "
            f"JOIN {view.group_codes} AS labels ON labels.label IS NOT DISTINCT FROM scope.label GROUP BY request, code, score"
        )
        placed = (
            f"SELECT *, DENSE_RANK() OVER (PARTITION BY request ORDER BY score DESC) AS place FROM ({levels}) AS levels"
        )
        of_group = f"CASE WHEN above.code = {reference} THEN below.code ELSE above.code END AS code"
        sign = f"CASE WHEN above.code = {reference} THEN 1 ELSE -1 END"
        pairs = (
            f"SELECT above.cluster, {of_group}, CASE WHEN above.code = {reference} THEN 0 ELSE 1 END AS side, "
            f"{sign} * (below.outcome - above.outcome) AS gap FROM placed AS above JOIN placed AS below "
            "ON below.request = above.request AND below.place = above.place + 1 AND below.code <> above.code "
            f"WHERE above.code = {reference} OR below.code = {reference}"
        )
        by_cluster = (
            "SELECT code, side, SUM(gap) AS gap, CAST(COUNT(*) AS DOUBLE) AS pairs, SUM(CASE WHEN gap <> 0 THEN 1 ELSE 0 END) "
            f"AS unequal FROM ({pairs}) AS pairs GROUP BY cluster, code, side"
        )
        sums = ", ".join(f"CAST({value} AS DOUBLE) AS {name}" for name, value in SUMS.items())
        cells = view.engine.cells(
            f"WITH placed AS ({placed}) SELECT code, side, {sums} FROM ({by_cluster}) AS clusters GROUP BY code, side"
        )
        arrays = {name: np.zeros((len(PLACES), len(view.labels))) for name in SUMS}
        at = cells.integers("side"), cells.integers("code")
        for name, array in arrays.items():
            array[at] = cells.floats(name)
        return cls(**arrays)

    @classmethod
    def from_arrays(
        cls, scores: Any, *, outcome: Any, groups: Any, protected: Any, versus: Any, requests: Any = None
    ) -> Neighbours:
        """Pairs of two groups from arrays; `versus` is the reference, and every request a cluster."""
        requests = ["all"] * len(scores) if requests is None else requests
        if not len(scores) == len(outcome) == len(groups) == len(requests):
            raise EvenhandError(
                "Scores, outcomes, groups and requests differ in length. Pass one entry of each per row."
            )
        lists: dict[Any, dict[Any, dict[Any, list[float]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        for score, y, group, request in zip(scores, outcome, groups, requests, strict=True):
            lists[request][score][group].append(float(y))
        sums = np.zeros((len(SUMS), len(PLACES), 1))
        for levels in lists.values():
            gaps: tuple[list[float], list[float]] = ([], [])
            for upper, lower in pairwise(sorted(levels, reverse=True)):
                for (above, y_above), (below, y_below) in product(levels[upper].items(), levels[lower].items()):
                    difference = float(np.mean(y_below) - np.mean(y_above))
                    if (above, below) == (versus, protected):
                        gaps[0].append(difference)
                    elif (above, below) == (protected, versus):
                        gaps[1].append(-difference)
            for side, values in enumerate(gaps):
                n, gap = len(values), sum(values)
                sums[:, side, 0] += np.array([n, gap, gap**2, gap * n, n**2, n > 0, np.count_nonzero(values)])
        return cls(*sums)

    def reason(self) -> str:
        return "" if self.pairs.any() else "no_pairs"

"""Bins of a score: exact quantiles or given edges, and every other number of bins that the same pass can tell of."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np

from evenhand.audits.declare import Takes
from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.sources.outcomes import NARROWEST, Outcomes
from evenhand.sources.quantiles import Range, quantile_means, quantiles_within
from evenhand.tallies.binned import Bins as ScoreBins
from evenhand.tallies.moments import Ints

MOST_BINS = 1_000
MOST_GAPS = 6_000


def _read_bins(words: list[str]) -> int | list[float]:
    """A number of bins, or edges with commas between."""
    text = ",".join(words)
    try:
        return int(text) if "," not in text and "." not in text else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise EvenhandError(f"--bins {text!r} cannot be read. Write a number, or edges such as 0.2,0.5,0.8.") from error


Bins = Annotated[int | Sequence[float], Takes("N|EDGES", many=True, read=_read_bins)]


@dataclass(frozen=True)
class Grid:
    """Fine bins of which every wanted number of bins is a merger.

    Attributes
    ----------
    edges : inner edges of the fine bins.
    main : which bin of the test each fine bin belongs to.
    others : the same for other numbers of bins, to see whether the answer hangs on that choice.
    asked : how many bins were asked for.
    """

    edges: Floats
    main: Ints
    others: dict[int, Ints]
    asked: int

    @classmethod
    def from_view(
        cls, view: Outcomes, bins: int | Sequence[float], low: float, high: float, *, fewest: int = 0
    ) -> Grid:
        """Bins of the scores from `low` to `high`; an edge is the mean of `fewest` scores where that is more than one."""
        if not isinstance(bins, int):
            return cls._given(bins, low, high)
        counts = counts_of(bins)
        if fewest > 1:
            return cls._found(bins, counts, mean_edges(view, counts, (low, high), fewest))
        return cls._found(bins, counts, score_edges(view, [(counts, (low, high))])[0])

    @classmethod
    def pair(
        cls, view: Outcomes, bins: int | Sequence[float], low: float, high: float, *, fewest: int = 0
    ) -> tuple[Grid, Grid]:
        """Bins of the scores from `low` to `high`, and the same number of all scores, with no others beside them."""
        wide = view.score_ends
        if not isinstance(bins, int):
            return cls._given(bins, low, high), cls._given(bins, *wide, alone=True)
        if fewest > 1:
            (alone,) = score_edges(view, [([bins], wide)])
            return cls.from_view(view, bins, low, high, fewest=fewest), cls._found(bins, [bins], alone)
        counts = counts_of(bins)
        inside, alone = score_edges(view, [(counts, (low, high)), ([bins], wide)])
        return cls._found(bins, counts, inside), cls._found(bins, [bins], alone)

    @classmethod
    def _given(cls, bins: Sequence[float], low: float, high: float, *, alone: bool = False) -> Grid:
        given = given_edges(bins)
        wanted = given[(given >= low) & (given < high)]
        sets = {(len(wanted) + 2) // 2: wanted[1::2]} if len(wanted) > 1 and not alone else {}
        return cls._of(wanted, sets, len(given) + 1)

    @classmethod
    def _found(cls, bins: int, counts: Sequence[int], edges: Sequence[Floats]) -> Grid:
        sets = dict(zip(counts, edges, strict=True))
        return cls._of(sets.pop(bins), sets, bins)

    @classmethod
    def _of(cls, wanted: Floats, sets: dict[int, Floats], asked: int) -> Grid:
        every = np.unique(np.concatenate([wanted, *sets.values()]))
        into = {count: _into(every, edges) for count, edges in sets.items() if len(edges) != len(wanted)}
        return cls(every, _into(every, wanted), into, asked)

    def ends(self, low: float, high: float) -> Floats:
        """The edges of the test's bins, with both ends of the scope."""
        return np.concatenate([[low], self._inner(self.main), [high]])

    def binnings(self, low: float, high: float) -> list[ScoreBins]:
        """The test's bins, then those of every other number."""
        return [ScoreBins(self._inner(into), low, high) for into in (self.main, *self.others.values())]

    def _inner(self, into: Ints) -> Floats:
        return np.asarray(self.edges[np.flatnonzero(np.diff(into))])


def score_edges(view: Outcomes, wanted: Sequence[tuple[Sequence[int], Range]]) -> list[list[Floats]]:
    """For each number of bins of each range of scores the distinct inner edges: exact inverted-CDF quantiles of its rows."""
    shares = [shares_of(bins) for bins, _ in wanted]
    low, high = min(part[0] for _, part in wanted), max(part[1] for _, part in wanted)
    asked = [(own, part) for own, (_, part) in zip(shares, wanted, strict=True) if own]
    scores = view.scores(low, high)
    found = iter(quantiles_within(view.source, scores, asked, (low, high)) if asked else ())
    edges = [next(found) if own else np.zeros(0) for own in shares]
    return [_distinct(bins, own, at, part[1]) for (bins, part), own, at in zip(wanted, shares, edges, strict=True)]


def mean_edges(view: Outcomes, bins: Sequence[int], ends: Range, fewest: int) -> list[Floats]:
    """The same where an edge is the mean of `fewest` scores around it, since it leaves and is else somebody's own score."""
    shares = shares_of(bins)
    edges = quantile_means(view.source, view.scores(*ends), shares, ends, fewest) if shares else np.zeros(0)
    return _distinct(bins, shares, edges, ends[1])


def shared_ends(view: Outcomes, low: float, high: float, fewest: int) -> Range:
    """The ends of a scope as they may leave: the mean of its `fewest` lowest scores, and of its highest."""
    both = [Fraction(0), Fraction(1)]
    least, most = quantile_means(view.source, view.scores(low, high), both, (low, high), fewest).tolist()
    return float(least), float(most)


def _distinct(bins: Sequence[int], shares: Sequence[Fraction], edges: Floats, high: float) -> list[Floats]:
    at = dict(zip(shares, edges, strict=True))
    return [np.unique([e for d in range(1, b) if (e := at[Fraction(d, b)]) < high]).astype(np.float64) for b in bins]


def shares_of(bins: Sequence[int]) -> list[Fraction]:
    """Where the edges of so many bins, or so many, lie: shares of the rows."""
    return list(_shares_of(tuple(bins)))


@functools.lru_cache(maxsize=8)
def _shares_of(bins: tuple[int, ...]) -> tuple[Fraction, ...]:
    return tuple(sorted({Fraction(d, b) for b in bins for d in range(1, b)}))


def refuse_many_gaps(groups: int, grid: Grid) -> None:
    """Where clusters reach over bins, the joint test holds the covariance of every gap with every other one."""
    gaps = groups * (1 + max(int(into[-1]) for into in (grid.main, *grid.others.values())))
    if gaps > MOST_GAPS:
        raise EvenhandError(
            f"bins={grid.asked} makes up to {gaps:,} gaps of {groups} groups, more than the {MOST_GAPS:,} that can be tested "
            "together. Pass fewer bins, or fewer groups."
        )


def refuse_crowded(score: str, widths: Floats) -> None:
    """Scores that differ, but by so little that their powers are lost, would give wrong errors and no sign of it."""
    if np.any((widths > 0) & (widths < NARROWEST)):
        raise EvenhandError(
            f"score={score!r} has bins of a width below {NARROWEST:g}, too little for a line along them. "
            "Take logarithms of the scores, or pass fewer bins."
        )


def counts_of(bins: int) -> list[int]:
    """The number of bins that was asked for, half and twice as many."""
    return sorted({bins, max(1, bins // 2), min(MOST_BINS, 2 * bins)})


def given_edges(bins: Sequence[float]) -> Floats:
    """The scores at which one bin ends and the next begins."""
    try:
        given = np.asarray(bins, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EvenhandError(
            f"bins={bins!r} holds edges that are not numbers. Pass scores such as [0.2, 0.5]."
        ) from error
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all() or np.any(np.diff(given) <= 0):
        raise EvenhandError(f"bins={bins!r} is not a rising list of scores. Pass edges such as [0.2, 0.5].")
    return given


def _into(every: Floats, edges: Floats) -> Ints:
    """Which bin each fine bin belongs to: a fine bin ends at `every`, a bin at `edges`."""
    return np.concatenate([np.searchsorted(edges, every), [len(edges)]]).astype(np.int64)

"""Moments of a table of candidates: one query of sums per score bin and group, and one loop over clusters where errors are clustered."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evenhand.cards import Floats
from evenhand.sources.sql import count_where, double
from evenhand.tallies.clusters import ClusterLoop, PendingClusters
from evenhand.tallies.moments import POWERS, STEEP, Ints, Moments

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells
    from evenhand.sources.outcomes import Outcomes

LOSS = 1e-3
"""Sums are taken again around better lines when less than this share of them is what matters."""


@dataclass(frozen=True)
class Bins:
    """Right-closed bins of the scores from `low` to `high`, with these inner edges."""

    edges: Floats
    low: float
    high: float


@dataclass(frozen=True)
class Use:
    """Which fine bins one binning is made of: those from `first` up to, not including, `last`, joined as `into` says."""

    first: int
    last: int
    into: Ints

    @classmethod
    def from_edges(cls, fine_edges: Floats, bins: Bins) -> Use:
        first, last = np.searchsorted(fine_edges, [bins.low, bins.high])
        into = np.concatenate([np.searchsorted(bins.edges, fine_edges[first:last]), [len(bins.edges)]])
        return cls(int(first), int(last) + 1, into.astype(np.int64))

    def of(self, fine: Moments) -> Moments:
        """The moments of this binning."""
        return fine.part(self.first, self.last).merged(self.into)


@dataclass(frozen=True)
class BinnedMoments:
    """Sums over fine bins, of which every binning that was asked for is a merger.

    Attributes
    ----------
    view : the table. rows : the query of the rows in the bins.
    edges : inner edges of the fine bins. fine : their moments.
    uses : the binnings.
    """

    view: Outcomes
    rows: str
    edges: Floats
    fine: Moments
    uses: Sequence[Use]

    @classmethod
    def from_table(cls, view: Outcomes, binnings: Sequence[Bins], *, clustered: bool = False) -> BinnedMoments:
        """Sums per bin and group by one query, around a score within each bin and the mean outcome.

        Where that would lose digits to cancellation (outcomes that follow the score almost exactly, scores crowded in a corner of
        a wide bin) the same query runs again around fitted lines; and before clusters are read, whose sums are squared.
        """
        low, high = min(bins.low for bins in binnings), max(bins.high for bins in binnings)
        edges = _fine_edges(binnings, low, high)
        rows, uses = view.within(low, high), [Use.from_edges(edges, bins) for bins in binnings]
        shape = (len(edges) + 1, len(view.labels))
        around = (_origins(edges, low, high), np.full(shape, view.outcome_mean), np.zeros(shape))
        fine = _summed(view, rows, edges, *around)
        if clustered or any(_loses_digits(use.of(fine)) for use in uses):
            better = fine.shifted(_mean_scores(fine))
            fine = _summed(view, rows, edges, better.origin, *_fitted(better))
        return cls(view, rows, edges, fine, uses)

    @property
    def moments(self) -> list[Moments]:
        """The moments of every binning."""
        return [use.of(self.fine) for use in self.uses]

    def with_clusters(self, ask: Callable[[Sequence[Moments]], None]) -> list[Moments]:
        """The moments of every binning, with clusters that answer what `ask` asks of them: all rows are read once, by cluster."""
        pending = [PendingClusters(*m.rows.shape) for m in self.moments]
        moments = [replace(m, clusters=one) for m, one in zip(self.moments, pending, strict=True)]
        with np.errstate(all="ignore"):  # placeholders are no numbers to work with
            ask(moments)
        questions = tuple(tuple(one.questions.values()) for one in pending)
        loop = ClusterLoop(self.fine, tuple(self.uses), questions)
        weight = ", weight" if self.view.weighted else ""
        codes = f"JOIN {self.view.group_codes} AS labels ON labels.label IS NOT DISTINCT FROM scope.label"
        query = (
            f"SELECT cluster, labels.code * {len(self.edges) + 1} + {bin_of(self.edges)} AS place, score, outcome{weight}\n"
            f"FROM ({self.rows}) AS scope {codes}"
        )
        answers = functools.reduce(loop.merge, self.view.source.tallied(query, ["cluster"], ["place"], loop))
        for one, own in zip(pending, loop.finished(answers), strict=True):
            one.answer(own)
        return moments


def _fine_edges(binnings: Sequence[Bins], low: float, high: float) -> Floats:
    """Inner edges of bins that end wherever one of any binning does."""
    ends = [np.nextafter(bins.low, -np.inf) for bins in binnings if bins.low > low]
    ends += [bins.high for bins in binnings if bins.high < high]
    return np.unique(np.concatenate([*(bins.edges for bins in binnings), ends]))


def _origins(edges: Floats, low: float, high: float) -> Floats:
    """A score within each bin: the middle; the inner edge of the outermost bins, whose tails are long."""
    if not len(edges):
        return np.array([low / 2 + high / 2])
    return np.concatenate([edges[:1], edges[:-1] / 2 + edges[1:] / 2, edges[-1:]])


def bin_of(edges: Floats) -> str:
    """SQL of the number of edges below a score: which bin it is in, from 0."""

    def between(first: int, last: int) -> str:
        if first == last:
            return str(first)
        middle = (first + last) // 2
        return f"CASE WHEN score <= {double(edges[middle])} THEN {between(first, middle)} ELSE {between(middle + 1, last)} END"

    return between(0, len(edges))


def sums_query(rows: str, edges: Floats, lines: str, outcome_ends: tuple[float, float], *, weighted: bool) -> str:
    """The query whose rows are the cells of `Moments`: sums of u^i v^j per bin and group of the candidates in `rows`.

    `lines` is a table with the origin, level and slope of every bin and label: u is the score from the origin, v the outcome from
    the line.
    """
    factors = {"sum": ["weight"], "square": ["weight", "weight"]} if weighted else {"sum": []}
    sums = {
        f"{kind}_{i}{j}": "SUM(" + (" * ".join([*weights, *["u"] * i, *["v"] * j]) or "1") + ")"
        for kind, weights in factors.items()
        for i, j in POWERS
    }
    least, most = outcome_ends
    sums |= {"above": count_where(f"outcome > {double(least)}"), "below": count_where(f"outcome < {double(most)}")}
    sums |= {"row_count": "COUNT(*)", "low": "MIN(score)", "high": "MAX(score)"}
    answers = ",\n  ".join(f"{expression} AS {name}" for name, expression in sums.items())
    weight = ", weight" if weighted else ""
    return (
        f"SELECT bin, label,\n  {answers}\n"
        f"FROM (\n"
        f"  SELECT binned.bin, binned.label, score, outcome{weight},\n"
        f"    score - origin AS u, outcome - level - slope * (score - origin) AS v\n"
        f"  FROM (SELECT *, {bin_of(edges)} AS bin FROM ({rows}) AS scope) AS binned\n"
        f"  JOIN {lines} AS lines ON lines.bin = binned.bin AND lines.label IS NOT DISTINCT FROM binned.label\n"
        f") AS centred\n"
        f"GROUP BY bin, label"
    )


def _summed(view: Outcomes, rows: str, edges: Floats, origin: Floats, level: Floats, slope: Floats) -> Moments:
    bins, groups = level.shape
    lines = view.bring_cells(bins, origin=np.repeat(origin, groups), level=level.ravel(), slope=slope.ravel())
    cells = view.source.cells(sums_query(rows, edges, lines, view.outcome_ends, weighted=view.weighted))
    return _moments(cells, cells.integers("bin") * groups + view.codes(cells), origin, level, slope)


def _moments(cells: Cells, at: Ints, origin: Floats, level: Floats, slope: Floats) -> Moments:
    def place(name: str, blank: float = 0.0) -> Floats:
        out = np.full(level.size, blank)
        out[at] = cells.floats(name)
        return out.reshape(level.shape)

    def powers(kind: str) -> Floats:
        sums = np.zeros((*level.shape, 5, 3))
        for i, j in POWERS:
            sums[..., i, j] = place(f"{kind}_{i}{j}")
        return sums

    is_weighted = "square_00" in cells.names
    return Moments(
        powers("sum"), origin, level, slope, place("low", np.inf), place("high", -np.inf), place("above"), place("below"),
        squares=powers("square") if is_weighted else None, held=place("row_count") if is_weighted else None,
    )  # fmt: skip


def _mean_scores(tally: Moments) -> Floats:
    mass = tally.mass.sum(-1)
    offset = np.divide(tally.sums[..., 1, 0].sum(-1), mass, out=np.zeros_like(mass), where=mass > 0)
    return np.asarray(tally.origin + offset)


def _fitted(tally: Moments) -> tuple[Floats, Floats]:
    """Lines to measure from: the mean of each cell and the slope of its bin; that of all bins where a bin has none of its own."""
    mass = np.where(tally.mass > 0, tally.mass, 1.0)
    offset = tally.sums[..., 1, 0] / mass
    within = (tally.sums[..., 2, 0] - offset * tally.sums[..., 1, 0]).sum(-1)
    across = (tally.sums[..., 1, 1] - offset * tally.sums[..., 0, 1]).sum(-1)
    is_steady = (tally.low < tally.high).any(-1) & (within > STEEP * tally.sums[..., 2, 0].sum(-1))
    common = across[is_steady].sum() / within[is_steady].sum() if is_steady.any() else 0.0
    slope = np.divide(across, within, out=np.full(within.shape, common), where=is_steady)
    level = tally.level + tally.sums[..., 0, 1] / mass - slope[:, None] * offset
    return level, np.repeat(slope[:, None], tally.rows.shape[1], axis=1)


def _loses_digits(tally: Moments) -> bool:
    """Whether squares around the origins are much larger than what is left of them in the regression."""
    better = tally.shifted(_mean_scores(tally))
    residual = better.measured_from(*_fitted(better))
    varies = tally.low.min(-1) < tally.high.max(-1)
    spread, around = better.sums[..., 2, 0].sum(-1), tally.sums[..., 2, 0].sum(-1)
    left, before = residual.sums[..., 0, 2], tally.sums[..., 0, 2]
    # Cells of one outcome have no squares of their own, whatever is left.
    varied = (tally.above > 0) & (tally.below > 0)
    unsure = varied & (LOSS * left < residual.unsure)
    left, before = left.sum(-1), before.sum(-1)
    lost = np.any(varies & (spread < LOSS * around)) or np.any((before > 0) & (left < LOSS * before))
    return bool(lost or unsure.any())

"""Sums of scores and outcomes per score bin and group: all that the outcome test may see.

Every row of a cell is written as `score = origin + u` and `outcome = level + slope * u + v`, with an origin per bin and a
level and slope per cell. What is kept are sums of u^i v^j. Where origin, level and slope are close to the data, nothing
is lost to cancellation; they can be changed afterwards, so bins can be merged and models compared without reading again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.sources.sql import count_where, double
from evenhand.tallies.clusters import ClusterLoop, Clusters, PendingClusters
from evenhand.tallies.ragged import Ints, sums_by

if TYPE_CHECKING:
    from evenhand.sources.outcomes import Outcomes

POWERS = tuple((i, j) for j in range(3) for i in range(5 - j))
"""The twelve sums: u^i v^j for j up to 2 and i + j up to 4. They give coefficients and robust errors of any line per cell."""

EPSILON = float(np.finfo(np.float64).eps)
ROUNDINGS = 16
"""Roundings, in epsilons, that a number takes which is worked out of a few sums."""

STEEP = 1e-3
"""Share of the squares of a bin's scores that must lie within groups for a slope to measure from: of less, rounding makes lines so
steep that the rows of joined bins would be lost beside them."""

_IN_POWERS = np.array([[(i, j) in POWERS for j in range(3)] for i in range(5)])
_BINOMIALS = np.array([[comb(i, k) for k in range(5)] for i in range(5)], dtype=np.float64)
_EXPONENTS = np.maximum(np.arange(5)[:, None] - np.arange(5), 0)


@dataclass(frozen=True)
class Moments:
    """Sums per bin and group; leading axes are replicates.

    Attributes
    ----------
    sums : (..., B, G, 5, 3) sums of u^i v^j over the rows of a cell, each times its weight, at [i, j]; zero where not kept.
    origin : (..., B) score at which u is zero.
    level, slope : (..., B, G) the line that v is measured from.
    low, high : (..., B, G) smallest and largest score in the cell; inf and -inf where it is empty.
    above, below : (..., B, G) rows whose outcome lies above the smallest, below the largest outcome of all.
    clusters : the same rows summed per cluster, of a table that is read once what is asked of them; or None.
    squares : the same sums with squared weights, which robust errors need; None where every weight is one.
    row_counts : (..., B, G) rows per cell; None where every weight is one, and `sums` count them.
    v_rounding : (..., B, G) how much of the squares of v may be rounding, since v was measured from other lines before; None for none.
    u_rounding : (..., B, G) how much of the squares of u may be rounding, since u was measured from other scores before; None for none.
    """

    sums: Floats
    origin: Floats
    level: Floats
    slope: Floats
    low: Floats
    high: Floats
    above: Floats
    below: Floats
    clusters: Clusters | PendingClusters | None = None
    squares: Floats | None = None
    row_counts: Floats | None = None
    v_rounding: Floats | None = None
    u_rounding: Floats | None = None

    @property
    def rows(self) -> Floats:
        return self.mass if self.row_counts is None else self.row_counts

    @property
    def mass(self) -> Floats:
        """Weight per cell: its rows, where they have none."""
        return self.sums[..., 0, 0]

    @property
    def squared(self) -> Floats:
        return self.sums if self.squares is None else self.squares

    @cached_property
    def mean_offset(self) -> Floats:
        """Mean of u per cell; NaN where the cell is empty."""
        with np.errstate(invalid="ignore"):
            return self.sums[..., 1, 0] / self.mass

    @property
    def mean_score(self) -> Floats:
        return self.origin[..., None] + self.mean_offset

    @cached_property
    def mean_outcome(self) -> Floats:
        """Mean outcome per cell; NaN where the cell is empty."""
        with np.errstate(invalid="ignore"):
            return self.level + self.slope * self.mean_offset + self.sums[..., 0, 1] / self.mass

    @cached_property
    def _mean_of_all(self) -> Floats:
        mass = self.mass.sum((-1, -2), keepdims=True)
        total = (self.mass * np.nan_to_num(self.mean_outcome)).sum((-1, -2), keepdims=True)
        return np.asarray(np.divide(total, mass, out=np.zeros_like(total), where=mass > 0))

    @property
    def v_error(self) -> Floats:
        """How much of the squares of v may be rounding."""
        added_up = self._sum_error(self.sums[..., 0, 2])
        return added_up if self.v_rounding is None else np.maximum(self.v_rounding, added_up)

    @property
    def u_error(self) -> Floats:
        """How much of the squares of u may be rounding, beside that of adding them up."""
        return np.zeros_like(self.mass) if self.u_rounding is None else self.u_rounding

    def _sum_error(self, sums: Floats) -> Floats:
        """How much of sums over rows may be rounding, also of what is worked out of them."""
        return np.asarray(EPSILON * (self.rows + ROUNDINGS) * np.abs(sums))

    def reason(self) -> str:
        present = (self.rows.sum(-2) > 0).sum(-1)
        return "empty" if not self.rows.any() else "one_group_only" if np.all(present < 2) else ""

    def measured_from(self, level: Floats, slope: Floats) -> Moments:
        """These rows with v measured from another line per cell."""
        by, turn = self.level - level, self.slope - slope
        lines = {"level": level + 0 * self.level, "slope": slope + 0 * self.slope}
        clusters = None if self.clusters is None else self.clusters.tilted(by, turn)
        squares = None if self.squares is None else _tilted(self.squares, by, turn)
        rounding = (
            self.v_error + self._sum_error(by**2 * self.mass + turn**2 * self.sums[..., 2, 0]) + turn**2 * self.u_error
        )
        return replace(
            self, sums=_tilted(self.sums, by, turn), squares=squares, clusters=clusters, v_rounding=rounding, **lines
        )

    def residuals(self, level: Floats, slope: Floats) -> Moments:
        """Residuals: v measured from these lines, zero where rows lie on them but for rounding.

        A cell's rows lie on its line where their squares beside it are no more than rounding makes. A sum of n terms is
        known to n epsilons of what was added up (and `ROUNDINGS` more), and so is what is left of squares when they cancel
        out. And each row may be off by twice as many of its outcome, of the mean of all outcomes and of slope times score.
        """
        moments = self.measured_from(level, slope)
        reach = np.where(self.mass > 0, np.maximum(np.abs(self.low), np.abs(self.high)), 0.0)
        rounding = 2 * ROUNDINGS * EPSILON  # the outcome and the line are worked out of a few numbers each
        size = rounding * (np.abs(level) + np.abs(slope) * reach + np.abs(self._mean_of_all))
        on_line = moments.sums[..., 0, 2] <= moments.v_error + size**2 * self.mass
        for sums in (moments.sums, moments.squares):
            if sums is not None:
                sums[on_line, :, 1:] = 0.0
        if moments.clusters is None or not on_line.any():
            return moments
        return replace(moments, clusters=moments.clusters.zeroed(on_line.ravel()))

    def shifted(self, origin: Floats) -> Moments:
        """These rows with u measured from other scores; the lines stay where they are."""
        by = self.origin - origin
        level = self.level - self.slope * by[..., None]
        u_rounding = self._sum_error(self.sums[..., 2, 0] + by[..., None] ** 2 * self.mass)
        return replace(
            self, sums=_moved(self.sums, by), origin=origin + 0 * self.origin, level=level,
            squares=None if self.squares is None else _moved(self.squares, by),
            clusters=None if self.clusters is None else self.clusters.shifted(by),
            u_rounding=self.u_error + u_rounding,
        )  # fmt: skip

    def part(self, first: int, last: int) -> Moments:
        """The bins from `first` up to, not including, `last`; clusters are those with a row in them."""
        if (first, last) == (0, self.origin.shape[-1]):
            return self
        cells = {name: x[..., first:last, :] for name in _PER_CELL if (x := getattr(self, name)) is not None}
        powers = {name: x[..., first:last, :, :, :] for name in _SUMS if (x := getattr(self, name)) is not None}
        clusters = None if self.clusters is None else self.clusters.part(first, last)
        return replace(self, origin=self.origin[..., first:last], clusters=clusters, **cells, **powers)

    def merged(self, into: Ints) -> Moments:
        """Bins joined: bin b goes to bin `into[b]`, where `into` counts up from 0 without a gap."""
        bins = int(into[-1]) + 1
        if bins == len(into):
            return self
        rows = self.mass.sum(-1)
        first = np.searchsorted(into, np.arange(bins))

        def join(x: Floats, axis: int) -> Floats:
            return np.asarray(np.add.reduceat(x, first, axis=axis))

        with np.errstate(invalid="ignore"):
            centre = join(self.origin * rows, -1) / join(rows, -1)
        centre = np.where(np.isfinite(centre), centre, self.origin[..., first])
        flat = self.shifted(centre[..., into])
        mass = join(self.mass, -2)
        level, slope = (
            np.divide(join(self.mass * line, -2), mass, out=line[..., first, :].copy(), where=mass > 0)
            for line in (flat.level, flat.slope)
        )
        flat = flat.measured_from(level[..., into, :], slope[..., into, :])
        added = {
            name: join(x, -2) for name in ("above", "below", "row_counts") if (x := getattr(flat, name)) is not None
        }
        added |= {name: join(x, -4) for name in _SUMS if (x := getattr(flat, name)) is not None}
        return Moments(
            origin=centre, level=level, slope=slope, low=np.minimum.reduceat(flat.low, first, axis=-2),
            high=np.maximum.reduceat(flat.high, first, axis=-2), clusters=None if flat.clusters is None else flat.clusters.merged(into),
            v_rounding=join(flat.v_error, -2), u_rounding=join(flat.u_error, -2), **added,
        )  # fmt: skip

    @classmethod
    def from_arrays(
        cls, score: Any, outcome: Any, bin: Any, group: Any, *, shape: tuple[int, int], cluster: Any = None, weight: Any = None
    ) -> Moments:  # fmt: skip
        """Tally arrays of rows with bin and group codes; `shape` is the number of bins and groups."""
        bins, groups = shape
        size = bins * groups
        s, y = np.asarray(score, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
        w = np.ones_like(s) if weight is None else np.asarray(weight, dtype=np.float64)
        b = np.asarray(bin, dtype=np.int64)
        cell = b * groups + np.asarray(group, dtype=np.int64)
        mass = np.bincount(b, w, bins)
        origin = np.divide(np.bincount(b, w * s, bins), mass, out=np.zeros(bins), where=mass > 0)
        low, high = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(low, cell, s)
        np.maximum.at(high, cell, s)
        above, below = (sums_by(cell, side, size) for side in (y > y.min(initial=np.inf), y < y.max(initial=-np.inf)))
        per_cell = {"low": low, "high": high, "above": above, "below": below}
        per_cell = {name: x.reshape(shape) for name, x in per_cell.items()}
        u = s - origin[b]
        means = np.full(shape, np.average(y, weights=w) if len(y) else 0.0)
        rough = _powers(w, u, y - means.ravel()[cell], cell, shape)
        level, slope = _fitted(cls(rough, origin, means, np.zeros(shape), clusters=None, **per_cell))
        v = y - level.ravel()[cell] - slope.ravel()[cell] * u
        clusters = None if cluster is None else Clusters.from_arrays(np.asarray(cluster), cell, u, v, shape, weight)
        if weight is not None:
            per_cell["squares"] = _powers(w * w, u, v, cell, shape)
            per_cell["row_counts"] = sums_by(cell, np.ones_like(s), size).reshape(shape)
        return cls(_powers(w, u, v, cell, shape), origin, level, slope, clusters=clusters, **per_cell)


_PER_CELL = ("level", "slope", "low", "high", "above", "below", "row_counts", "v_rounding", "u_rounding")
_SUMS = ("sums", "squares")


def zero_rounding(variance: Any, rowwise: Floats, rows: Any) -> Floats:
    """Variances over clusters; zero where they are no more than rounding of the sum over `rows`.

    >>> zero_rounding(np.array([1e-17, 1e-9]), np.array([1.0, 1.0]), 100).tolist()
    [0.0, 1e-09]
    """
    return np.asarray(np.where(np.abs(variance) <= EPSILON * (rows + ROUNDINGS) * rowwise, 0.0, variance))


def _powers(w: Floats, u: Floats, v: Floats, cell: Ints, shape: tuple[int, int]) -> Floats:
    sums = np.zeros((shape[0] * shape[1], 5, 3))
    part = w
    for j in range(3):
        power = part
        for i in range(5 - j):
            sums[:, i, j] = np.bincount(cell, power, len(sums))
            power = power * u
        part = part * v
    return sums.reshape(*shape, 5, 3)


def _moved(sums: Floats, by: Floats) -> Floats:
    """Sums after u is replaced by u + by."""
    steps = _BINOMIALS * by[..., None, None] ** _EXPONENTS
    return np.asarray(np.where(_IN_POWERS, steps[..., None, :, :] @ sums, 0.0))


def _tilted(sums: Floats, by: Floats, turn: Floats) -> Floats:
    """Sums after v is replaced by v + by + turn * u."""
    d, t = by[..., None], turn[..., None]
    out = np.broadcast_to(sums, (*np.broadcast_shapes(by.shape, turn.shape, sums.shape[:-2]), 5, 3)).copy()
    flat, once = sums[..., 0], sums[..., 1]
    out[..., :4, 1] += d * flat[..., :4] + t * flat[..., 1:]
    cross = d * once[..., :3] + t * once[..., 1:4]
    square = d**2 * flat[..., :3] + 2 * d * t * flat[..., 1:4] + t**2 * flat[..., 2:]
    out[..., :3, 2] += 2 * cross + square
    return out


@dataclass(frozen=True)
class ScoreBins:
    """Right-closed bins of the scores from `low` to `high`, with these inner edges."""

    edges: Floats
    low: float
    high: float

    @property
    def all_edges(self) -> Floats:
        return np.concatenate([[self.low], self.edges, [self.high]])


@dataclass(frozen=True)
class Use:
    """The fine bins of one binning: `first` up to (not with) `last`, joined into bins `into`."""

    first: int
    last: int
    into: Ints

    @classmethod
    def from_edges(cls, fine_edges: Floats, bins: ScoreBins) -> Use:
        first, last = np.searchsorted(fine_edges, [bins.low, bins.high])
        into = np.concatenate([np.searchsorted(bins.edges, fine_edges[first:last]), [len(bins.edges)]])
        return cls(int(first), int(last) + 1, into.astype(np.int64))

    def merge_bins(self, fine: Moments) -> Moments:
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
    def from_table(cls, view: Outcomes, binnings: Sequence[ScoreBins], *, clustered: bool = False) -> BinnedMoments:
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
        if clustered or any(_loses_digits(use.merge_bins(fine)) for use in uses):
            better = fine.shifted(_mean_scores(fine))
            fine = _summed(view, rows, edges, better.origin, *_fitted(better))
        return cls(view, rows, edges, fine, uses)

    @property
    def moments(self) -> list[Moments]:
        return [use.merge_bins(self.fine) for use in self.uses]

    def with_clusters(self, record: Callable[[Sequence[Moments]], None]) -> list[Moments]:
        """Moments of every binning, with the results of the cluster calls that `record` makes."""
        pending = [PendingClusters.from_shape(*m.rows.shape) for m in self.moments]
        moments = [replace(m, clusters=clusters) for m, clusters in zip(self.moments, pending, strict=True)]
        with np.errstate(all="ignore"):  # placeholders are no numbers to work with
            record(moments)
        calls = tuple(tuple(clusters.calls.values()) for clusters in pending)
        loop = ClusterLoop(self.fine, tuple(self.uses), calls)
        weight = ", weight" if self.view.weighted else ""
        codes = f"JOIN {self.view.group_codes} AS labels ON labels.label IS NOT DISTINCT FROM scope.label"
        query = (
            f"SELECT cluster, labels.code * {len(self.edges) + 1} + {bin_of(self.edges)} AS place, score, outcome{weight}\n"
            f"FROM ({self.rows}) AS scope {codes}"
        )
        answers = functools.reduce(loop.merge, self.view.engine.tallied(query, ["cluster"], ["place"], loop))
        for clusters, of_binning in zip(pending, loop.finished(answers), strict=True):
            clusters.answer(of_binning)
        return moments


def _fine_edges(binnings: Sequence[ScoreBins], low: float, high: float) -> Floats:
    """Inner edges of bins that end wherever one of any binning does."""
    ends = [np.nextafter(bins.low, -np.inf) for bins in binnings if bins.low > low]
    ends += [bins.high for bins in binnings if bins.high < high]
    return np.unique(np.concatenate([*(bins.edges for bins in binnings), ends]))


def _origins(edges: Floats, low: float, high: float) -> Floats:
    """A score within each bin: the middle, or the inner edge of an outermost bin (long tails)."""
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
    """SQL of the cells of `Moments`: sums of u^i v^j per bin and group of the rows.

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
    """The moments of the rows in fine bins, measured from these lines."""
    bins, groups = level.shape
    lines = view.bring_cells(bins, origin=np.repeat(origin, groups), level=level.ravel(), slope=slope.ravel())
    cells = view.engine.cells(sums_query(rows, edges, lines, view.outcome_ends, weighted=view.weighted))
    at = cells.integers("bin") * groups + view.codes(cells)

    def place(name: str, blank: float = 0.0) -> Floats:
        out = np.full(level.size, blank)
        out[at] = cells.floats(name)
        return out.reshape(level.shape)

    def powers(kind: str) -> Floats:
        sums = np.zeros((*level.shape, 5, 3))
        for i, j in POWERS:
            sums[..., i, j] = place(f"{kind}_{i}{j}")
        return sums

    return Moments(
        powers("sum"), origin, level, slope, place("low", np.inf), place("high", -np.inf), place("above"), place("below"),
        squares=powers("square") if view.weighted else None, row_counts=place("row_count") if view.weighted else None,
    )  # fmt: skip


def _mean_scores(tally: Moments) -> Floats:
    mass = tally.mass.sum(-1)
    offset = np.divide(tally.sums[..., 1, 0].sum(-1), mass, out=np.zeros_like(mass), where=mass > 0)
    return np.asarray(tally.origin + offset)


def _fitted(tally: Moments) -> tuple[Floats, Floats]:
    """Level of each cell and slope of its bin, or of all bins where its scores hardly differ."""
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
    """Whether squares around the origins are much larger than their residuals in the regression."""
    share = 1e-3  # of less, sums are taken again around better lines
    better = tally.shifted(_mean_scores(tally))
    residual = better.measured_from(*_fitted(better))
    varies = tally.low.min(-1) < tally.high.max(-1)
    spread, around = better.sums[..., 2, 0].sum(-1), tally.sums[..., 2, 0].sum(-1)
    left, before = residual.sums[..., 0, 2], tally.sums[..., 0, 2]
    # Cells of one outcome have no squares of their own, whatever is left.
    varied = (tally.above > 0) & (tally.below > 0)
    unsure = varied & (share * left < residual.v_error)
    left, before = left.sum(-1), before.sum(-1)
    loses = np.any(varies & (spread < share * around)) or np.any((before > 0) & (left < share * before))
    return bool(loses or unsure.any())

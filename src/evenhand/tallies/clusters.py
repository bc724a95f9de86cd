"""Sums per cluster and cell of the outcome test: all that clustered errors need.

Clustered errors are squares of sums over whole clusters. Whatever line the rows are measured from and whatever each row
weighs, such a sum is linear in five sums per cell: those of 1, u, v, u^2 and uv. `Clusters` has these sums. Of a table with
many clusters they are read some clusters at a time, and only the results of calls are kept (`PendingClusters`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.ragged import Bools, Ints, batches_of_rows, run_starts, sums_by

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch
    from evenhand.tallies.moments import Moments, Use

FLIPPED = 2_000
"""Clusters up to which the part that each adds is kept: of more, a sum of randomly flipped parts is as good as normal."""


@dataclass(frozen=True)
class Clusters:
    """The rows of each cluster and cell added up.

    Attributes
    ----------
    cluster : (L,) cluster codes; rows are sorted by cluster, then group, then bin, and no cell comes twice.
    cell : (L,) bin times number of groups plus group.
    sums : five columns (L,), the sums of 1, u, v, u^2 and uv, each times the weight of its row.
    bins, groups : how many there are.
    """

    cluster: Ints
    cell: Ints
    sums: tuple[Floats, ...]
    bins: int
    groups: int

    @classmethod
    def from_arrays(
        cls, cluster: Any, cell: Ints, u: Floats, v: Floats, shape: tuple[int, int], weight: Any = None
    ) -> Clusters:
        """Tally rows with their cluster and cell, of so many bins and groups."""
        codes = np.unique(cluster, return_inverse=True)[1].reshape(-1)
        order = np.lexsort((cell // shape[1], cell % shape[1], codes))
        w = None if weight is None else np.asarray(weight, dtype=np.float64)[order]
        return cls.from_sorted(codes[order], cell[order], u[order], v[order], shape, w)

    @classmethod
    def from_sorted(
        cls, cluster: Ints, cell: Ints, u: Floats, v: Floats, shape: tuple[int, int], weight: Any
    ) -> Clusters:
        """Tally rows sorted by cluster, group and bin; `weight` is None where every row weighs one."""
        starts = run_starts(cluster, cell)
        w = np.ones_like(u) if weight is None else weight
        wu, wv = w * u, w * v
        parts = (w, wu, wv, wu * u, wu * v)
        sums = tuple(np.add.reduceat(part, starts) if len(starts) else part for part in parts)
        return cls(cluster[starts], cell[starts], sums, *shape)

    @property
    def bin(self) -> Ints:
        return self.cell // self.groups

    def total(self) -> int:
        return int(np.count_nonzero(np.diff(self.cluster))) + 1 if len(self.cluster) else 0

    @property
    def codes(self) -> int:
        """The largest cluster code, and one."""
        return int(self.cluster[-1]) + 1 if len(self.cluster) else 0

    def per_bin(self) -> Ints:
        return np.bincount(np.unique(self.cluster * self.bins + self.bin) % self.bins, minlength=self.bins)

    def batches(self, columns: int) -> Iterator[tuple[slice, int, int]]:
        """Rows, first cluster and number of neighbouring clusters, few enough for so many columns."""
        at_once = max(1, (1 << 22) // columns)  # 32 MB
        for start in range(0, self.codes, at_once):
            first, last = np.searchsorted(self.cluster, [start, start + at_once])
            yield slice(int(first), int(last)), start, min(at_once, self.codes - start)

    def per_cell(self) -> Ints:
        return np.bincount(self.cell, minlength=self.bins * self.groups)

    def tilted(self, by: Floats, turn: Floats) -> Clusters:
        """Sums with v replaced by v + by + turn * u."""
        d, t = by.ravel()[self.cell], turn.ravel()[self.cell]
        n, u, v, uu, uv = self.sums
        return replace(self, sums=(n, u, v + d * n + t * u, uu, uv + d * u + t * uu))

    def zeroed(self, cells: Bools) -> Clusters:
        """Sums with v set to zero in these cells."""
        is_zero = cells[self.cell]
        n, u, v, uu, uv = self.sums
        return replace(self, sums=(n, u, np.where(is_zero, 0.0, v), uu, np.where(is_zero, 0.0, uv)))

    def shifted(self, by: Floats) -> Clusters:
        """Sums with u replaced by u + by."""
        d = by[self.bin]
        n, u, v, uu, uv = self.sums
        return replace(self, sums=(n, u + d * n, v, uu + 2 * d * u + d * d * n, uv + d * v))

    def part(self, first: int, last: int) -> Clusters:
        """The bins from `first` up to, not including, `last`, and the clusters that have rows there."""
        inside = (self.bin >= first) & (self.bin < last)
        sums = tuple(column[inside] for column in self.sums)
        cell = self.cell[inside] - first * self.groups
        return Clusters(self.cluster[inside], cell, sums, last - first, self.groups)

    def merged(self, into: Ints) -> Clusters:
        """Bins joined; u and v of the joined bins must already agree."""
        cell = into[self.bin] * self.groups + self.cell % self.groups
        first = run_starts(self.cluster, cell)  # joining bins keeps the order
        added = tuple(np.add.reduceat(column, first) for column in self.sums) if len(first) else self.sums
        return Clusters(self.cluster[first], cell[first], added, int(into[-1]) + 1, self.groups)

    def products(self, flat: Floats, tilt: Floats, bins: int | None = None) -> Floats:
        """Sum over clusters of z z', where z adds v * (flat + tilt * u) over the rows of a cluster.

        `flat` and `tilt` are (cells, H). With `bins` a cluster's sums are kept apart per bin, and the result is
        (bins * H, bins * H).
        """
        wide, slots = flat.shape[1], bins or 1
        out = np.zeros((slots, wide, slots, wide))
        for rows, start, size in self.batches(slots * wide):
            cell, v, uv = self.cell[rows], self.sums[2][rows], self.sums[4][rows]
            place = (self.cluster[rows] - start) * slots + (0 if bins is None else cell // self.groups)
            used = np.flatnonzero(flat.any(0) | tilt.any(0)).tolist()  # the reference has no gap to itself
            scores = {
                h: np.bincount(place, flat[cell, h] * v + tilt[cell, h] * uv, size * slots).reshape(size, slots)
                for h in used
            }
            for h, i in itertools.product(used, used):
                out[:, h, :, i] += scores[h].T @ scores[i]
        return out.reshape(slots * wide, slots * wide)

    def parts(self, flat: Floats, tilt: Floats) -> Floats:
        """(clusters,) what each adds to the sum of v * (flat + tilt * u); both are (cells,)."""
        each = flat[self.cell] * self.sums[2] + tilt[self.cell] * self.sums[4]
        return sums_by(self.cluster, each, self.codes)

    def pulls(self, flat: Floats, tilt: Floats, chosen: Bools) -> Floats:
        """(2 bins + 2, bins) sums over clusters that say how far each pulls the level of the chosen cells of a bin.

        With a the sum of flat + tilt * u of a cluster in each bin, d its weight there, and their totals: a a', d d', then
        the total of a times a times d, last the square of the total of v.
        """
        out = np.zeros((2 * self.bins + 2, self.bins))
        for rows, start, size in self.batches(2 * self.bins):
            cell, (n, u, v, _, _) = self.cell[rows], (column[rows] for column in self.sums)
            place, is_chosen = (self.cluster[rows] - start) * self.bins + cell // self.groups, chosen[cell]
            each = (is_chosen * (flat[cell] * n + tilt[cell] * u), is_chosen * n, is_chosen * v)
            a, d, rest = (np.bincount(place, x, size * self.bins).reshape(size, self.bins) for x in each)
            squared = np.full(self.bins, (rest.sum(1) ** 2).sum())
            out += np.vstack([a.T @ a, d.T @ d, (a.sum(1, keepdims=True) * a * d).sum(0), squared])
        return out

    def squares(self) -> Floats:
        """The squared sums of v of each cluster in a cell, added up."""
        return sums_by(self.cell, self.sums[2] ** 2, self.bins * self.groups)

    def squared_sizes(self, flat: Floats, tilt: Floats, bend: Floats) -> float:
        """Sum over clusters of squared sums of weight * (flat + tilt * u + bend * u^2)."""
        n, u, _, uu, _ = self.sums
        each = flat[self.cell] * n + tilt[self.cell] * u + bend[self.cell] * uu
        return float((np.bincount(self.cluster, each, self.codes) ** 2).sum())


@dataclass(frozen=True)
class ClusterCall:
    """A call of a method of `Clusters`, after `steps` that change its lines or join its bins."""

    name: str
    arguments: tuple[Any, ...]
    steps: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """Hashable identity of the call, which is made twice with equal arguments."""
        steps = [(name, *map(_bytes, arguments)) for name, arguments in self.steps]
        return (self.name, *map(_bytes, self.arguments), *steps)


def _bytes(argument: Any) -> Any:
    return argument.tobytes() if isinstance(argument, np.ndarray) else argument


STEPS = ("tilted", "shifted", "zeroed", "part", "merged")
"""Methods of `Clusters` that give clusters; what its others give is kept."""


@dataclass(frozen=True)
class PendingClusters:
    """Stands for clusters that are read once: records calls of methods of `Clusters`, and later returns their results.

    Which sums over clusters an error is made of (residuals of which lines, times which weights) follows from the moments alone.
    So errors are worked out twice: over `none`, which holds no clusters, to record the calls, and over the results.
    """

    none: Clusters
    calls: dict[tuple[Any, ...], ClusterCall] = field(default_factory=dict)
    answers: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    steps: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @classmethod
    def from_shape(cls, bins: int, groups: int) -> PendingClusters:
        """Clusters of so many bins and groups, of which nothing is known yet."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(Clusters(nothing, nothing, (np.zeros(0),) * 5, bins, groups))

    def answer(self, answers: Sequence[Any]) -> None:
        self.answers.update(zip(self.calls, answers, strict=True))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.none, name)

        def after_step(*arguments: Any) -> PendingClusters:
            return replace(self, none=method(*arguments), steps=(*self.steps, (name, arguments)))

        def result(*arguments: Any) -> Any:
            call = ClusterCall(name, arguments, self.steps)
            if self.answers:
                return self.answers[call.key]
            self.calls.setdefault(call.key, call)
            return method(*arguments)

        return after_step if name in STEPS else result


@dataclass(frozen=True)
class Parts:
    """Nonzero contributions of clusters with their ids; `values` is None if they are too many."""

    values: Floats | None
    ids: list[Any]

    @classmethod
    def from_values(cls, values: Floats, ids: Sequence[Any]) -> Parts:
        chosen = np.flatnonzero(values)
        if _too_many(values):
            return cls(None, [])
        return cls(values[chosen], [ids[i] for i in chosen.tolist()])

    def __add__(self, other: Parts) -> Parts:
        if self.values is None or other.values is None:
            return Parts(None, [])
        values = np.concatenate([self.values, other.values])
        return Parts(None, []) if _too_many(values) else Parts(values, self.ids + other.ids)

    def in_order(self) -> Floats | None:
        if self.values is None:
            return None
        return np.asarray(self.values[sorted(range(len(self.ids)), key=self.ids.__getitem__)])


def _too_many(parts: Floats) -> bool:
    size = np.abs(parts)
    rounding = 1e-12 * size.max(initial=0.0)
    return int(np.count_nonzero(size > rounding)) > FLIPPED


Answers = list[list[Any]]
"""Results of the calls of every binning."""


@dataclass(frozen=True)
class ClusterLoop:
    """Results of the recorded calls, for every binning, over a batch of whole clusters."""

    fine: Moments
    uses: tuple[Use, ...]
    calls: tuple[tuple[ClusterCall, ...], ...]

    def __call__(self, batch: Batch) -> Answers:
        bins, groups = self.fine.rows.shape
        place = batch.integers("place")
        code, bin = place // bins, place % bins
        cell = bin * groups + code
        u = batch.floats("score") - self.fine.origin[bin]
        v = batch.floats("outcome") - self.fine.level.ravel()[cell] - self.fine.slope.ravel()[cell] * u
        weight = batch.floats("weight") if "weight" in batch.names else None
        cluster = np.repeat(np.arange(batch.groups), np.diff(batch.starts))
        ids = batch.firsts(["cluster"]).values("cluster")
        parts = []
        for first, last in batches_of_rows(batch.starts, 1 << 16):  # rows at a time, for arrays to stay in the cache
            rows = slice(int(batch.starts[first]), int(batch.starts[last]))
            w = None if weight is None else weight[rows]
            clusters = Clusters.from_sorted(cluster[rows] - first, cell[rows], u[rows], v[rows], (bins, groups), w)
            binned = [use.merge_bins(replace(self.fine, clusters=clusters)).clusters for use in self.uses]
            pairs = zip(binned, self.calls, strict=True)
            parts.append([_answer(clusters, calls, ids[first:last]) for clusters, calls in pairs])
        return functools.reduce(self.merge, parts)

    def merge(self, first: Answers, second: Answers) -> Answers:
        """The results over the clusters of two batches: everything adds up."""
        pairs = zip(first, second, strict=True)
        return [[a + b for a, b in zip(left, right, strict=True)] for left, right in pairs]

    def finished(self, answers: Answers) -> Answers:
        return [[a.in_order() if isinstance(a, Parts) else a for a in of_binning] for of_binning in answers]


def _answer(clusters: Any, calls: Sequence[ClusterCall], ids: Sequence[Any]) -> list[Any]:
    answers, measured = [], dict[tuple[Any, ...], Any]()
    for call in calls:
        stepped, key = clusters, tuple[Any, ...]()
        for name, arguments in call.steps:
            key = (*key, name, *map(id, arguments))
            if key not in measured:
                measured[key] = getattr(stepped, name)(*arguments)
            stepped = measured[key]
        value = getattr(stepped, call.name)(*call.arguments)
        answers.append(Parts.from_values(value, ids) if call.name == "parts" else value)
    return answers

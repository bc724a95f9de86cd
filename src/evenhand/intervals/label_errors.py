"""Metrics where labels are a sample, partly wrong or missing (F19).

A sample of labels: a group's exposure is the sum over its labelled items of exposure over inclusion probability, scaled to all
exposure (Hajek). Draws resample requests and label draws; what label draws add to the spread between requests is taken off the
first, so that it counts once. Wrong labels: observed exposure times the inverse of the confusion matrix, whose own sampling
error is drawn where it was counted.

Missing labels: least and most over all ways to label the items that have none. Every labeling is tried where there are at most
`MOST`. Otherwise the attention of unlabelled items is shared out freely: the largest distance from a target is then reached with
one label for all, and the smallest is that of the two sets of groups that lie furthest apart whatever the labels, by the
data-processing inequality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.requests import picks
from evenhand.metrics.prefix import looked_at, scores_of
from evenhand.tallies.exposure import Exposed, Exposure, Policy
from evenhand.tallies.placement import Placement
from evenhand.tallies.ragged import Bools, Ints


@dataclass(frozen=True)
class Confusion:
    """(G, G) shares of observed labels (columns) among items of each true label; `counts` where a labelled sample gave them."""

    matrix: Floats
    counts: Floats | None = None

    def inverses(self, draws: int, rng: np.random.Generator) -> Floats:
        """(draws, G, G) inverses of matrices as other samples would give them; the same one where it is taken as known."""
        if self.counts is None:
            return np.broadcast_to(np.linalg.inv(self.matrix), (draws, *self.matrix.shape))
        rows = [rng.multinomial(round(float(n.sum())), n / n.sum(), draws) / n.sum() for n in self.counts]
        matrices = np.stack(rows, axis=1)
        singular = np.abs(np.linalg.det(matrices)) < 1e-9  # no sample that could be corrected
        return np.where(
            singular[:, None, None], np.nan, np.linalg.inv(np.where(singular[:, None, None], self.matrix, matrices))
        )


@dataclass(frozen=True)
class LabelDraws:
    """Labelled items of a slice: their group, exposure and inverse inclusion probability.

    `within` : (G, G) what label draws add to the cross products of requests. `unranked` : (G,) variance of the groups' sizes that
    comes from labelled items which no ranking holds.
    """

    codes: Ints
    exposure: Floats
    inverse: Floats
    within: Floats
    unranked: Floats

    @property
    def effective(self) -> float:
        """How many labels of equal weight these are worth."""
        weight = self.inverse * self.exposure
        return float(weight.sum() ** 2 / max((weight**2).sum(), 1e-300))

    def deviations(self, draws: int, groups: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """(draws, G) by which other label draws move exposure, and the size, of groups.

        Their spread is estimated from few labels: draws vary as Student's t does, with as many degrees of freedom.
        """
        spread = np.sqrt(np.maximum(1 - 1 / self.inverse, 0.0)) * self.inverse
        moved = [np.zeros((draws, groups)) for _ in range(2)]
        at_once = max(1, (1 << 20) // max(1, len(self.codes)))
        member = np.equal.outer(self.codes, np.arange(groups)).astype(np.float64)
        for start in range(0, draws, at_once):
            rows = slice(start, min(start + at_once, draws))
            z = (picks(len(self.codes), rows.stop - rows.start, rng) - 1) * spread
            moved[0][rows], moved[1][rows] = (z * self.exposure) @ member, z @ member
        moved[1] += rng.normal(size=(draws, groups)) * np.sqrt(self.unranked)
        freedom = max(self.effective - 1, 1.0)
        scale = np.sqrt(freedom / rng.chisquare(freedom, (draws, 1)))
        return moved[0] * scale, moved[1] * scale


@dataclass(frozen=True)
class PooledSlice:
    """(U, G) exposure of groups by request (or cluster), as weighted by inclusion probability or as observed.

    `whole` : (U,) all exposure. weight : (U,). sizes : (G,) of groups, weighted or observed.
    """

    received: Floats
    whole: Floats
    weight: Floats
    sizes: Floats
    labels: LabelDraws | None = None
    confusion: Confusion | None = None

    def totals(self) -> tuple[Floats, ...]:
        inverse: Floats | None = None
        if self.confusion is not None:
            inverse = np.asarray(np.linalg.inv(self.confusion.matrix)[None], dtype=np.float64)
        sums = (self.received.sum(0)[None], self.whole.sum()[None], self.weight.sum()[None], self.sizes[None])
        return self._corrected(*sums, inverse)

    def draws(self, draws: int, rng: np.random.Generator) -> tuple[Floats, ...]:
        times = picks(len(self.weight), draws, rng)
        received, whole, weight = times @ self.received, times @ self.whole, times @ self.weight
        sizes = np.repeat(self.sizes[None], draws, axis=0)
        if self.labels is not None:
            by_labels, by_size = self.labels.deviations(draws, len(self.sizes), rng)
            centre = self.received.sum(0)
            received = np.maximum(centre + self.between * (received - centre) + by_labels, 0.0)
            sizes = np.maximum(sizes + by_size, 0.0)
        inverses = None if self.confusion is None else self.confusion.inverses(draws, rng)
        return self._corrected(received, whole, weight, sizes, inverses)

    @property
    def between(self) -> float:
        """How much of the spread of shares between requests, as a standard deviation, is not that of label draws."""
        assert self.labels is not None  # noqa: S101
        share = self.received.sum(0) / max(self.received.sum(), 1e-300)
        contrast = np.eye(len(share)) - share[:, None]  # rows of exposure to deviations from the overall shares
        off = self.received @ contrast.T
        spread = float((off**2).sum())
        noise = float(np.trace(contrast @ self.labels.within @ contrast.T))
        return float(np.sqrt(max(0.0, 1 - noise / spread))) if spread > 0 else 0.0

    def _corrected(
        self, received: Floats, whole: Floats, weight: Floats, sizes: Floats, inverses: Floats | None
    ) -> tuple[Floats, ...]:
        if inverses is not None:
            received, sizes = (
                np.einsum("bg,bgh->bh", x, np.broadcast_to(inverses, (len(x), *inverses.shape[1:])))
                for x in (received, sizes)
            )
            negative = (received < -1e-9 * np.abs(received).max(-1, keepdims=True)).any(-1)
            return np.where(negative[:, None], np.nan, received), whole, weight, sizes
        with np.errstate(divide="ignore", invalid="ignore"):
            return whole[:, None] * received / received.sum(-1, keepdims=True), whole, weight, sizes


@dataclass(frozen=True)
class PooledMetric:
    """A metric of pooled exposure: a resampler of its slices.

    `target` : (G,) shares where they are fixed; None: those of the sizes.
    """

    ask: MetricSpec
    slices: Sequence[PooledSlice]
    starts: Ints
    policy: Policy
    target: Floats | None

    def value(self, part: slice) -> float:
        return float(self.on(self.slice_at(part).totals())[0])

    def reason(self, part: slice) -> str:
        pooled = self.slice_at(part)
        if pooled.confusion is not None and np.isnan(pooled.totals()[0]).any():
            return "confusion_too_large"
        return "no_labelled_items" if not pooled.received.any() else "zero_over_zero"

    def draws(self, part: slice, draws: int, rng: np.random.Generator) -> Floats | None:
        pooled = self.slice_at(part)
        return self.on(pooled.draws(draws, rng)) if len(pooled.weight) else None

    def draws_of_labels(self, part: slice, draws: int, rng: np.random.Generator) -> Floats:
        """The metric on other label draws for the same requests."""
        pooled = self.slice_at(part)
        assert pooled.labels is not None  # noqa: S101
        moved, resized = pooled.labels.deviations(draws, len(pooled.sizes), rng)
        received = np.maximum(pooled.received.sum(0) + moved, 0.0)
        return self.on(
            (received, pooled.whole.sum(), np.full(draws, pooled.weight.sum()), np.maximum(pooled.sizes + resized, 0.0))
        )

    def slice_at(self, part: slice) -> PooledSlice:
        return self.slices[int(np.searchsorted(self.starts, part.start, side="right")) - 1]

    def on(self, totals: tuple[Floats, ...]) -> Floats:
        received, _, weight, sizes = totals
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.ask.card.needs is Exposed:
                aim = sizes / sizes.sum(-1, keepdims=True) if self.target is None else self.target
                seen = Exposed(received, aim, np.ones(len(received)), self.policy.protected)
                return np.asarray(self.ask.on(seen))
            tally = Exposure(weight, received, sizes=sizes, protected=self.policy.protected, versus=self.policy.versus)
            if not self.ask.settled("per_item"):
                return np.asarray(self.ask.on(tally))
            rows = zip(weight, received, sizes, strict=True)
            return np.array([float(self.ask.on(replace(tally, weight=w, received=r, sizes=n))) for w, r, n in rows])


MOST = 4_096
"""Labelings that are tried one by one: some milliseconds for a list."""


@dataclass(frozen=True)
class Range:
    """(n,) least and most of a metric; where a labeling reaches both, and where some labeling leaves it undefined."""

    least: Floats
    most: Floats
    reached: Bools
    may_lack: Bools

    @classmethod
    def from_values(cls, values: Floats, *, reached: bool = True) -> Range:
        """From (labelings, n) values, NaN where undefined."""
        undefined = np.isnan(values)
        least, most = np.where(undefined, np.inf, values).min(0), np.where(undefined, -np.inf, values).max(0)
        never = undefined.all(0)
        return cls(
            np.where(never, np.nan, least),
            np.where(never, np.nan, most),
            np.full(len(least), reached),
            np.asarray(undefined.any(0) & ~never),
        )

    def part(self, rows: slice) -> Range:
        return Range(self.least[rows], self.most[rows], self.reached[rows], self.may_lack[rows])

    def mean(self, weights: Floats) -> tuple[float, float]:
        """Least and most of the mean over those that are defined."""
        return -_largest_mean(-self.least, weights, self.may_lack), _largest_mean(self.most, weights, self.may_lack)


def _largest_mean(values: Floats, weights: Floats, may_lack: Bools) -> float:
    """The largest weighted mean: of all that must be counted, and of those others that raise it."""
    used = ~np.isnan(values) & (weights > 0)
    must, may = used & ~may_lack, used & may_lack
    total, mass = float(values[must] @ weights[must]), float(weights[must].sum())
    order = np.argsort(-values[may], kind="stable")
    for value, weight in zip(values[may][order].tolist(), weights[may][order].tolist(), strict=True):
        if mass > 0 and value <= total / mass:
            break
        total, mass = total + value * weight, mass + weight
    return total / mass if mass > 0 else np.nan


def count_labelings(items: Any, groups: int) -> Any:
    """How many labelings so many items have; far beyond `MOST`, some larger number."""
    return float(groups) ** np.minimum(items, 60)


def all_labelings(items: int, groups: int) -> Ints:
    """(labelings, items) every way to give items a group.

    >>> all_labelings(2, 2).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    number = np.arange(round(float(groups) ** items))[:, None]
    return np.asarray(number // np.array([groups**i for i in range(items)], dtype=np.int64) % max(groups, 1))


def one_hot(labelings: Ints, groups: int) -> Floats:
    return np.asarray((labelings[..., None] == np.arange(groups)).astype(np.float64))


def range_of_shares(spec: MetricSpec, seen: Exposed, free: Floats, slack: Floats) -> Range:
    """A range that holds for every way to share out `free` attention, and `slack` of the target, over the groups."""
    groups, corners = seen.received.shape[-1], np.eye(seen.received.shape[-1])
    target = np.broadcast_to(seen.target, seen.received.shape)
    received = seen.received + corners[:, None, None, :] * free[:, None]
    aims = target + corners[None, :, None, :] * slack[:, None]
    shape = (groups, groups, *seen.received.shape)
    ends = replace(seen, received=np.broadcast_to(received, shape), target=np.broadcast_to(aims, shape))
    values = np.asarray(spec.on(ends)).reshape(groups * groups, -1)
    corner = Range.from_values(values, reached=False)
    # near a corner without a value (odds of a share of 1) the metric grows without bound
    most = np.where(corner.may_lack, np.inf, corner.most)
    if spec.params.get("signed"):
        return replace(corner, most=most)
    whole = seen.whole + free
    with np.errstate(divide="ignore", invalid="ignore"):
        share = seen.received / whole[:, None]
    above = share > target
    first = np.where(above, share, 0.0).sum(-1)
    second = 1 - np.where(above, 0.0, target).sum(-1)
    sides = [np.stack([x, 1 - x], axis=-1) for x in (first, second)]
    turned = [np.where(above[:, :1], x, x[:, ::-1]) for x in sides]
    distance = spec.on(replace(seen, received=turned[0], target=turned[1], protected=(0,)))
    least = np.where(first > second + 1e-12, distance, 0.0)  # shares add up to 1 but for rounding
    return replace(corner, least=np.where(np.isnan(corner.least), np.nan, np.fmin(least, corner.least)), most=most)


def range_over_rankings(spec: MetricSpec, p: Placement, unlabelled: Ints) -> Range:
    """Least and most of a prefix metric on each ranking; `unlabelled` are places of its codes.

    A ranking with too many labelings has the range that the metric has at all.
    """
    if "sides" in spec.metric.reads(**spec.params) and p.protected is not None:
        p = p.sides()
    many, groups = len(p), len(p.groups)
    edges = np.searchsorted(unlabelled, p.starts)
    labelings = count_labelings(np.diff(edges), groups)
    few = labelings <= MOST
    least, most = (np.full(many, float(end)) for end in spec.span)
    may_lack = ~few
    cells = np.cumsum(np.where(few, labelings * p.lengths, 0))
    for at in np.split(np.flatnonzero(few), np.flatnonzero(np.diff(cells[few] // (1 << 19))) + 1):
        codes, counts = [p.codes[:0]], []
        for r in at.tolist():
            first, last = int(p.starts[r]), int(p.starts[r + 1])
            places = unlabelled[edges[r] : edges[r + 1]] - first
            labels = all_labelings(len(places), groups)
            lists = np.tile(p.codes[first:last], (len(labels), 1))
            lists[:, places] = labels
            codes.append(lists.reshape(-1))
            counts.append(len(labels))
        lengths = np.repeat(p.lengths[at], counts)
        tried = replace(p, codes=np.concatenate(codes), starts=np.concatenate([[0], np.cumsum(lengths)]))
        values = np.asarray(scores_of(spec, looked_at(spec, tried), chance=False).values)
        parts = np.split(values, np.cumsum(counts)[:-1]) if counts else []
        for r, part in zip(at.tolist(), parts, strict=True):
            ends = Range.from_values(part[:, None])
            least[r], most[r], may_lack[r] = ends.least[0], ends.most[0], ends.may_lack[0]
    return Range(least, most, few, may_lack)

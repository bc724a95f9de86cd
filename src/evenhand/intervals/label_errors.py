"""Metrics of pooled exposure where labels are a sample, or partly wrong (F19): the estimate and its draws.

A sample of labels: a group's exposure is the sum over its labelled items of exposure over inclusion probability, scaled to all
exposure (Hajek). Draws resample requests and label draws; what label draws add to the spread between requests is taken off the
first, so that it counts once. Wrong labels: observed exposure times the inverse of the confusion matrix, whose own sampling
error is drawn where it was counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenhand.cards import Floats, MetricSpec
from evenhand.intervals.requests import picks
from evenhand.tallies.exposure import Exposed, Exposure, Policy
from evenhand.tallies.ragged import Ints


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

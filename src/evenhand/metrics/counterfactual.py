"""What if the slots went to those with the highest predicted outcome? Nobody gets more slots; others get them.

A prediction that is made from the same outcomes it is judged by promises a gain even where there is none: in every bin the
predictions of those treated add up to their outcomes, and the new allocation takes the highest. So one part of the
requests predicts for the other, whose own outcomes then value both allocations; and the change is held against what
outcomes without any group difference would have given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.candidates import Bools, Candidates
from evenhand.tallies.moments import Ints
from evenhand.tallies.reallocated import Allocation, Change

DIGITS = 12
"""Predictions that agree to this many digits tie; the better score then goes first."""

FLAT = 1e-10
MOST_CELLS = 1 << 22


@dataclass(frozen=True)
class Sums:
    """Sums per fold, bin and group (..., F, B, G) of 1, u, u^2, y and uy over the rows that are fitted."""

    rows: Floats
    u: Floats
    uu: Floats
    y: Floats
    uy: Floats

    def without(self, folds: int) -> Sums:
        """For each fold the sums of all the others; of all rows where there is one fold."""
        if folds == 1:
            return self
        parts = [x.sum(-3, keepdims=True) - x for x in (self.rows, self.u, self.uu, self.y, self.uy)]
        return Sums(*parts)

    def alike(self) -> tuple[Floats, Floats]:
        """Slope and level of one line through all groups, per fold and bin: the model without group terms."""
        slope, level = _line(*(x.sum(-1, keepdims=True) for x in (self.rows, self.u, self.uu, self.y, self.uy)))
        return slope[..., None], level

    def beyond_score(self) -> Sums:
        """The same sums of what the lines without group terms leave over."""
        slope, level = self.alike()
        y, uy = self.y - level * self.rows - slope * self.u, self.uy - level * self.u - slope * self.uu
        return replace(self, y=y, uy=uy)


@dataclass(frozen=True)
class Predictor:
    """Lines per fold, bin and group: `level + slope * u`."""

    level: Floats
    slope: Floats

    def __call__(self, c: Candidates, fold: Ints) -> Floats:
        """The predicted outcome of every row by the lines of its request's fold; leading axes are draws."""
        bins, groups = c.shape
        cell = (fold[c.request] * bins + c.bin) * groups + c.group
        level = self.level.reshape(*self.level.shape[:-3], -1)
        slope = np.repeat(self.slope[..., None], groups, axis=-1).reshape(*self.slope.shape[:-2], -1)
        return np.asarray(level[..., cell] + slope[..., cell] * c.offset)


def predictor(s: Sums, reference: int, *, grouped: bool = True) -> Predictor:
    """Least squares of the outcome on group and score per bin; without group terms if not `grouped`.

    A group that a bin lacks is predicted as the reference; a bin that lacks the reference, or in which group and score
    cannot be told apart, predicts without group terms.
    """
    alike_slope, alike = s.alike()
    level_alike = np.broadcast_to(alike, np.broadcast_shapes(alike.shape, s.rows.shape))
    if not grouped:
        return Predictor(level_alike, alike_slope[..., 0])
    slope, level = _line(s.rows, s.u, s.uu, s.y, s.uy)
    home = s.rows[..., reference, None] > 0
    level = np.where(s.rows > 0, level, level[..., reference, None])
    varies = _varies(s.rows.sum(-1), s.u.sum(-1), s.uu.sum(-1))
    told = home[..., 0] & (_varies_within(s) | ~varies)
    return Predictor(np.where(told[..., None], level, level_alike), np.where(told, slope, alike_slope[..., 0]))


def _line(rows: Floats, u: Floats, uu: Floats, y: Floats, uy: Floats) -> tuple[Floats, Floats]:
    some = np.maximum(rows, 1)
    mean = u / some
    spread, across = (uu - mean * u).sum(-1), (uy - mean * y).sum(-1)
    steep = spread > FLAT * uu.sum(-1)
    slope = np.divide(across, spread, out=np.zeros(np.broadcast_shapes(across.shape, spread.shape)), where=steep)
    return slope, y / some - slope[..., None] * mean


def _varies(rows: Floats, u: Floats, uu: Floats) -> Bools:
    return np.asarray(uu - u * u / np.maximum(rows, 1) > FLAT * uu)


def _varies_within(s: Sums) -> Bools:
    within = (s.uu - s.u * s.u / np.maximum(s.rows, 1)).sum(-1)
    return np.asarray(within > FLAT * s.uu.sum(-1))


@dataclass(frozen=True)
class Reallocation:
    """The plan of a counterfactual: which request is in which fold, and what the new slots are held against.

    `baseline` "recalibrated" compares with the slots that predictions without group terms would give, so that what is
    left is the effect of the group terms.
    """

    candidates: Candidates
    fold: Ints
    folds: int
    recalibrated: bool = False

    def change(self) -> Change:
        """The slots that the outcomes as they were would give."""
        c = self.candidates
        return self._run(self._sums(c.outcome), c.outcome, exact=True)

    def null(self, draws: int, rng: np.random.Generator) -> Change:
        """The same under outcomes without any group difference: a restricted wild bootstrap by request.

        Outcomes are what the lines without group terms predict, plus the request's own residuals with a random sign (a
        row's where the table has no requests). The
        residuals are then freed of lines of their own, so that every draw has the lines of the data: what the score alone
        gains or loses is the same in all of them, whatever its relation to the outcome, and only the groups' part varies.
        """
        seen = self._sums(self.candidates.outcome)
        left = seen.beyond_score()
        base = replace(seen, y=seen.y - left.y, uy=seen.uy - left.uy)
        parts = []
        for turned in self._signed(seen, self._residual(seen), draws, rng):
            noise = turned.beyond_score()
            drawn = replace(base, y=base.y + noise.y, uy=base.uy + noise.uy)
            parts.append(self._run(drawn, None, exact=False))
        return Change(_joined([p.before for p in parts]), _joined([p.after for p in parts]))

    def _residual(self, s: Sums) -> Floats:
        """What lines without group terms leave over, made as large again as fitting has made it smaller.

        By row as in HC2, and by the number of clusters in a fold as in CR1. Leave-one-out residuals (HC3) are a little too
        large where a bin holds few rows.
        """
        c, (slope, level) = self.candidates, s.alike()
        rows, u, uu = (x.sum(-1) for x in (s.rows, s.u, s.uu))
        mean = u / np.maximum(rows, 1)
        spread = np.where(uu - mean * u > FLAT * uu, uu - mean * u, np.inf)
        own = self.fold[c.request] * c.shape[0] + c.bin
        slope, level, rows, mean, spread = (x.ravel()[own] for x in (slope, level, rows, mean, spread))
        residual = np.where(c.fitted, c.outcome - level - slope * c.offset, 0.0)
        free = 1 - 1 / np.maximum(rows, 1) - (c.offset - mean) ** 2 / spread
        root = np.sqrt(np.maximum(free * (1 - self.folds / max(c.clusters, 2 * self.folds)), FLAT))
        return np.asarray(np.divide(residual, root, out=np.zeros_like(residual), where=free > FLAT))

    def _cell(self) -> Ints:
        c = self.candidates
        bins, groups = c.shape
        return (self.fold[c.request] * bins + c.bin) * groups + c.group

    def _sums(self, outcome: Floats) -> Sums:
        c, shape = self.candidates, (self.folds, *self.candidates.shape)
        cell, u, y = (x[c.fitted] for x in (self._cell(), c.offset, outcome))
        size = int(np.prod(shape))
        weights = (np.ones_like(u), u, u * u, y, u * y)
        return Sums(*(np.asarray(np.bincount(cell, w, size), dtype=np.float64).reshape(shape) for w in weights))

    def _signed(self, s: Sums, residual: Floats, draws: int, rng: np.random.Generator) -> Iterator[Sums]:
        """Sums of the residuals, those of every cluster turned by a random sign, a few draws at a time."""
        c, shape = self.candidates, (self.folds, *self.candidates.shape)
        size = int(np.prod(shape))
        fitted = np.flatnonzero(c.fitted)
        cell, cluster, e, u = self._cell()[fitted], c.cluster[fitted], residual[fitted], c.offset[fitted]
        at_once = max(1, MOST_CELLS // max(1, len(c.request), size))
        for start in range(0, draws, at_once):
            count = min(at_once, draws - start)
            signs = rng.integers(0, 2, (count, c.clusters), dtype=np.int8) * 2 - 1
            turned = e * signs[:, cluster]
            place = (np.arange(count)[:, None] * size + cell).ravel()
            y, uy = (np.bincount(place, x.ravel(), count * size).astype(np.float64) for x in (turned, turned * u))
            yield replace(s, y=y.reshape(count, *shape), uy=uy.reshape(count, *shape))

    def _run(self, s: Sums, outcome: Floats | None, *, exact: bool) -> Change:
        """Allocate with the other folds' lines, value with the own fold's."""
        c = self.candidates
        others = s.without(self.folds)
        chosen = predictor(others, c.reference)(c, self.fold)
        worth = predictor(s, c.reference)(c, self.fold)
        if self.recalibrated:
            alike = predictor(others, c.reference, grouped=False)(c, self.fold)
            before = self._worth(self._order(np.broadcast_to(alike, chosen.shape), exact=exact), worth)
        else:
            before = self._held(worth if outcome is None or self.folds > 1 else outcome)
        return Change(before, self._worth(self._order(chosen, exact=exact), worth))

    def _order(self, predicted: Floats, *, exact: bool) -> Ints:
        """The rows that get the slots: of each request the highest predictions, then the best scores."""
        c = self.candidates
        size = np.abs(predicted).max(-1, keepdims=True)
        low = -np.round(predicted / np.where(size > 0, size, 1.0), DIGITS)
        if exact:
            return np.lexsort((low, c.request))[c.given]
        # One number to sort by: the request, and within it how far below the highest prediction.
        return np.argsort(c.request + 0.49 * low, axis=-1, kind="stable")[..., c.given]

    def _worth(self, rows: Ints, worth: Floats) -> Allocation:
        c = self.candidates
        place, groups = c.position[c.given].astype(np.float64), c.group[rows]
        mine = [groups == g for g in range(c.shape[1])]
        slots = np.stack([m.sum(-1) for m in mine], axis=-1).astype(np.float64)
        ranks = np.stack([(m * place).sum(-1) for m in mine], axis=-1)
        return Allocation(slots, _mean(ranks, slots), np.take_along_axis(worth, rows, -1).sum(-1))

    def _held(self, worth: Floats) -> Allocation:
        """The slots as they are."""
        c = self.candidates
        held = np.flatnonzero(c.treated)
        slots = np.bincount(c.group[held], minlength=c.shape[1]).astype(np.float64)
        ranks = np.asarray(np.bincount(c.group[held], c.position[held], c.shape[1]), dtype=np.float64)
        return Allocation(slots, _mean(ranks, slots), np.asarray(worth[..., held].sum(-1)))


def _mean(total: Floats, count: Floats) -> Floats:
    return np.asarray(np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0))


def _joined(parts: list[Allocation]) -> Allocation:
    """Draws of several batches as one; what does not vary between draws is repeated."""
    groups = parts[0].slots.shape[-1]
    slots, rank = (
        np.concatenate([np.broadcast_to(x, (len(p.outcome), groups)) for p, x in pairs])
        for pairs in ([(p, p.slots) for p in parts], [(p, p.rank) for p in parts])
    )
    return Allocation(slots, rank, np.concatenate([p.outcome for p in parts]))


def folded(clusters: int, folds: int, rng: np.random.Generator) -> Ints:
    """Whole requests dealt into folds of nearly equal size, or rows where the table has no requests."""
    return np.asarray(rng.permutation(clusters) % folds, dtype=np.int64)

"""What if the slots went to those with the highest predicted outcome? Slots, mean ranks and outcome, before and after.

A prediction that is made from the same outcomes it is judged by promises a gain even where there is none: in every bin the
predictions of those treated add up to their outcomes, and the new allocation takes the highest. So one part of the
requests predicts for the other, whose own outcomes then value both allocations; and the change is held against what
outcomes without any group difference would have given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.tallies.candidates import Allocation, Candidates, Change
from evenhand.tallies.ragged import Ints

FLAT = 1e-10
"""A variance below this share of the mean square is rounding: the score does not vary."""


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
        return Sums(*(x.sum(-3, keepdims=True) - x for x in (self.rows, self.u, self.uu, self.y, self.uy)))

    def alike(self) -> tuple[Floats, Floats]:
        """Slope and level per fold and bin of one line through all groups: no group terms."""
        slope, level = _line(*(x.sum(-1, keepdims=True) for x in (self.rows, self.u, self.uu, self.y, self.uy)))
        return slope[..., None], level

    def beyond_score(self) -> Sums:
        """Sums of the residuals of the lines without group terms."""
        slope, level = self.alike()
        y, uy = self.y - level * self.rows - slope * self.u, self.uy - level * self.u - slope * self.uu
        return replace(self, y=y, uy=uy)


@dataclass(frozen=True)
class Predictor:
    """Lines per fold, bin and group: `level + slope * u`."""

    level: Floats
    slope: Floats

    def __call__(self, cell: Ints, offset: Floats) -> Floats:
        """Predicted outcome of rows, by their fold, bin and group; leading axes are draws."""
        level = self.level.reshape(*self.level.shape[:-3], -1)
        slope = np.broadcast_to(self.slope[..., None], self.level.shape).reshape(level.shape)
        return np.asarray(level.take(cell, axis=-1) + slope.take(cell, axis=-1) * offset)


def predictor(s: Sums, reference: int, *, grouped: bool = True) -> Predictor:
    """Least-squares lines of the outcome on the score per bin, with a level per group if `grouped`.

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
    rows, u, uu = s.rows.sum(-1), s.u.sum(-1), s.uu.sum(-1)
    varies = uu - u * u / np.maximum(rows, 1) > FLAT * uu
    varies_within = (s.uu - s.u * s.u / np.maximum(s.rows, 1)).sum(-1) > FLAT * uu
    separable = home[..., 0] & (varies_within | ~varies)
    return Predictor(
        np.where(separable[..., None], level, level_alike), np.where(separable, slope, alike_slope[..., 0])
    )


def _line(rows: Floats, u: Floats, uu: Floats, y: Floats, uy: Floats) -> tuple[Floats, Floats]:
    some = np.maximum(rows, 1)
    mean = u / some
    spread, across = (uu - mean * u).sum(-1), (uy - mean * y).sum(-1)
    steep = spread > FLAT * uu.sum(-1)
    slope = np.divide(across, spread, out=np.zeros(np.broadcast_shapes(across.shape, spread.shape)), where=steep)
    return slope, y / some - slope[..., None] * mean


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
        c, change = self.candidates, self._run(self._observed)
        if self.folds > 1 or self.recalibrated:
            return change
        return replace(change, before=replace(change.before, outcome=np.asarray(c.outcome[c.treated].sum())))

    def null(self, draws: int, rng: np.random.Generator) -> Change:
        """Changes without any group difference: a restricted wild bootstrap by request.

        Outcomes are what the lines without group terms predict, plus the request's own residuals with a random sign (a row's
        where the table has no requests). The residuals are then freed of lines of their own, so that what the score alone
        gains or loses is the same in all draws, whatever its relation to the outcome, and only the groups' part varies.
        """
        seen = self._observed
        left = seen.beyond_score()
        base = replace(seen, y=seen.y - left.y, uy=seen.uy - left.uy)
        parts = []
        for turned in self._flip_signs(seen, self._residual(seen), draws, rng):
            noise = turned.beyond_score()
            drawn = replace(base, y=base.y + noise.y, uy=base.uy + noise.uy)
            parts.append(self._run(drawn))
        return Change(_concatenate([p.before for p in parts]), _concatenate([p.after for p in parts]))

    def _residual(self, s: Sums) -> Floats:
        """Residuals of the lines without group terms, scaled up for what fitting took away.

        By row as in HC2, and by the number of clusters in a fold as in CR1. Leave-one-out residuals (HC3) are a little too
        large where a bin holds few rows.
        """
        c, (slope, level) = self.candidates, s.alike()
        rows, u, uu = (x.sum(-1) for x in (s.rows, s.u, s.uu))
        mean = u / np.maximum(rows, 1)
        spread = np.where(uu - mean * u > FLAT * uu, uu - mean * u, np.inf)
        fold_bin = self.fold[c.request] * c.shape[0] + c.bin
        slope, level, rows, mean, spread = (x.ravel()[fold_bin] for x in (slope, level, rows, mean, spread))
        residual = np.where(c.fitted, c.outcome - level - slope * c.offset, 0.0)
        free = 1 - 1 / np.maximum(rows, 1) - (c.offset - mean) ** 2 / spread
        root = np.sqrt(np.maximum(free * (1 - self.folds / max(c.clusters, 2 * self.folds)), FLAT))
        return np.asarray(np.divide(residual, root, out=np.zeros_like(residual), where=free > FLAT))

    @cached_property
    def _cell(self) -> Ints:
        """The fold, bin and group of every row, as one number."""
        c = self.candidates
        bins, groups = c.shape
        return (self.fold[c.request] * bins + c.bin) * groups + c.group

    @cached_property
    def _observed(self) -> Sums:
        c = self.candidates
        cell, u, y = self._cell[c.fitted], c.offset[c.fitted], c.outcome[c.fitted]
        return Sums(*(self._sum_by_cell(cell, weights) for weights in (None, u, u * u, y, u * y)))

    def _sum_by_cell(self, cell: Ints, weights: Floats | Ints | None = None) -> Floats:
        """Rows, or sums of their weights, per fold, bin and group; leading axes of `cell` are draws."""
        lead, shape = cell.shape[:-1], (self.folds, *self.candidates.shape)
        size, draws = math.prod(shape), math.prod(lead)
        place = cell.reshape(draws, -1) + size * np.arange(draws)[:, None] if lead else cell
        counted = np.bincount(place.ravel(), None if weights is None else weights.ravel(), size * draws)
        return np.asarray(counted, dtype=np.float64).reshape(*lead, *shape)

    def _flip_signs(self, s: Sums, residual: Floats, draws: int, rng: np.random.Generator) -> Iterator[Sums]:
        """Sums of the residuals with a random sign per cluster, a few draws at a time."""
        c = self.candidates
        fitted = np.flatnonzero(c.fitted)
        cell, cluster, e, u = self._cell[fitted], c.cluster[fitted], residual[fitted], c.offset[fitted]
        large = max(1, len(c.request), self.folds * math.prod(c.shape))
        at_once, step = max(1, (1 << 22) // large), max(1, (1 << 20) // large)  # drawn at a time; summed, in cache
        for start in range(0, draws, at_once):
            signs = rng.integers(0, 2, (min(at_once, draws - start), c.clusters), dtype=np.int8) * 2 - 1
            for first in range(0, len(signs), step):
                turned = e * signs[first : first + step].take(cluster, axis=1)
                every = np.broadcast_to(cell, turned.shape)
                yield replace(s, y=self._sum_by_cell(every, turned), uy=self._sum_by_cell(every, turned * u))

    def _run(self, s: Sums) -> Change:
        """Allocate with the other folds' lines, value with the own fold's."""
        reference, others = self.candidates.reference, s.without(self.folds)
        worth = predictor(s, reference)
        after = self._allocate(predictor(others, reference), worth)
        if self.recalibrated:
            return Change(self._allocate(predictor(others, reference, grouped=False), worth), after)
        return Change(self._current.worth(worth), after)

    def _allocate(self, lines: Predictor, worth: Predictor) -> Allocation:
        """Slots that go to the highest predictions."""
        c = self.candidates
        rows = self._order(lines(self._cell, c.offset))
        return self._slots(rows, np.broadcast_to(c.position[c.given], rows.shape)).worth(worth)

    def _order(self, predicted: Floats) -> Ints:
        """Rows that get the slots: per request the highest predictions, then the best scores."""
        c = self.candidates
        size = np.abs(predicted).max(-1, keepdims=True, initial=0.0)
        low = -np.round(
            predicted / np.where(size > 0, size, 1.0), 12
        )  # equal ones tie: the better score then goes first
        order, request, fine, places = self._sort_keys
        # One number to sort by: the request, how far below the highest prediction, and the place by score.
        keys = np.rint((low.take(order, axis=-1) + 1) * fine).astype(np.int64)
        keys *= places
        keys += request
        keys.sort(axis=-1, kind="stable")  # which finds runs that rise or fall
        keys &= places - 1
        keys += np.arange(1, len(c.request) + 1) - c.position
        return keys.compress(c.given, axis=-1)

    @cached_property
    def _sort_keys(self) -> tuple[Ints, Ints, float, int]:
        """Order by request, bin and group; sort key; resolution; a power of two above all places.

        In that order predictions rise or fall in runs, which the sort makes use of.
        """
        c = self.candidates
        places = 1 << int(c.position.max(initial=1)).bit_length()
        fine = (1 << 62) // (max(1, c.requests) * places)
        order = np.lexsort((c.position, c.group, c.bin, c.request))
        return order, (c.request * (fine * places) + c.position - 1)[order], (fine - 1) / 2, places

    @cached_property
    def _current(self) -> SlotSums:
        c = self.candidates
        return self._slots(np.flatnonzero(c.treated), c.position[c.treated])

    def _slots(self, rows: Ints, place: Ints) -> SlotSums:
        cell = self._cell.take(rows)
        weights = (None, self.candidates.offset.take(rows), place)
        return SlotSums(*(self._sum_by_cell(cell, weight) for weight in weights))


@dataclass(frozen=True)
class SlotSums:
    """Sums per fold, bin and group of 1, u and place over the rows that hold slots."""

    rows: Floats
    u: Floats
    place: Floats

    def worth(self, lines: Predictor) -> Allocation:
        """Slots, mean rank and predicted outcome of these rows."""
        slots = self.rows.sum((-3, -2))
        outcome = (lines.level * self.rows).sum((-3, -2, -1)) + (lines.slope * self.u.sum(-1)).sum((-2, -1))
        rank = np.divide(self.place.sum((-3, -2)), slots, out=np.full(slots.shape, np.nan), where=slots > 0)
        return Allocation(slots, rank, np.asarray(outcome))


def _concatenate(parts: list[Allocation]) -> Allocation:
    """Draws of several batches as one; what does not vary between draws is repeated."""
    shapes = [(len(p.outcome), p.slots.shape[-1]) for p in parts]
    slots = np.concatenate([np.broadcast_to(p.slots, shape) for p, shape in zip(parts, shapes, strict=True)])
    rank = np.concatenate([np.broadcast_to(p.rank, shape) for p, shape in zip(parts, shapes, strict=True)])
    return Allocation(slots, rank, np.concatenate([p.outcome for p in parts]))


def folded(clusters: int, folds: int, rng: np.random.Generator) -> Ints:
    """Random fold of every request, or of every row in tables without requests."""
    return np.asarray(rng.permutation(clusters) % folds, dtype=np.int64)


EXAMPLE = Change(Allocation.from_arrays([10, 5], [2, 3], 6.0), Allocation.from_arrays([12, 3], [2.5, 1], 6.6))
"""Two groups with 10 and 5 slots at mean ranks 2 and 3, and with 12 and 3 slots after the change (for doctests)."""


def _card(name: str, title: str, question: str, formula: str, sentence: str = "", **more: Any) -> Card:
    usual: dict[str, Any] = {
        "span": (-math.inf, math.inf), "ideal": math.nan, "better": "", "undefined": "never", "needs": Change,
        "references": ("yu2022",), "family": "outcome", "example": "a group holds 10 slots, and 12 after reallocation",
    }  # fmt: skip
    return Card(name=name, title=title, asks=question, formula=formula, says=sentence, **usual | more)


@metric(_card(
    "slots_before", "Slots before reallocation", "How many slots does the group hold?", r"N^g",
    "{group} has {estimate:number} slots.",
    span=(0.0, math.inf),
))  # fmt: skip
def slots_before(c: Change) -> Floats:
    """Slots of each group.

    >>> slots_before.on(EXAMPLE).tolist()
    [10.0, 5.0]
    """
    return c.before.slots


@metric(_card(
    "slots_after", "Slots after reallocation", "How many slots would the group hold?", r"N^g_{cf}",
    "{group} would hold {estimate:number} slots.",
    span=(0.0, math.inf),
))  # fmt: skip
def slots_after(c: Change) -> Floats:
    """Slots of each group when they go to the highest predicted outcomes.

    >>> slots_after.on(EXAMPLE).tolist()
    [12.0, 3.0]
    """
    return c.after.slots


@metric(_card(
    "slots_gained", "Slots gained", "How many slots would the group gain?", r"N^g_{cf} - N^g",
    variants=("Never read it without `slots_gained_null`, what chance alone gives.",),
))  # fmt: skip
def slots_gained(c: Change) -> Floats:
    """Slots that each group gains.

    >>> slots_gained.on(EXAMPLE).tolist()
    [2.0, -2.0]
    """
    return np.asarray(c.after.slots - c.before.slots)


@metric(_card(
    "slots_relative_change", "Relative change of slots", "By what share of its slots would the group gain?",
    r"(N^g_{cf} - N^g) / N^g",
    span=(-1.0, math.inf),
    undefined="the group holds no slot", otherwise="zero_denominator",
))  # fmt: skip
def slots_relative_change(c: Change) -> Floats:
    """Slots gained over slots held (the source's N%Δ, as a fraction).

    >>> slots_relative_change.on(EXAMPLE).tolist()
    [0.2, -0.4]
    """
    before = np.where(c.before.slots > 0, c.before.slots, np.nan)
    return np.asarray((c.after.slots - before) / before)


@metric(_card(
    "mean_rank_before", "Mean rank as it was", "At what mean rank are the group's slots?", r"\bar r^g",
    "The mean rank of {group} is {estimate:number}.",
    span=(1.0, math.inf),
    undefined="the group holds no slot", otherwise="nothing_shown",
))  # fmt: skip
def mean_rank_before(c: Change) -> Floats:
    """Mean place of each group's slots.

    >>> mean_rank_before.on(EXAMPLE).tolist()
    [2.0, 3.0]
    """
    return c.before.rank


@metric(_card(
    "mean_rank_after", "Mean rank after reallocation", "At what mean rank would they be?", r"\bar r^g_{cf}",
    "The mean rank of {group} would be {estimate:number}.",
    span=(1.0, math.inf),
    undefined="the group holds no slot", otherwise="nothing_shown",
))  # fmt: skip
def mean_rank_after(c: Change) -> Floats:
    """Mean place of each group's slots when they are reallocated.

    >>> mean_rank_after.on(EXAMPLE).tolist()
    [2.5, 1.0]
    """
    return c.after.rank


@metric(_card(
    "mean_rank_change", "Change of the mean rank", "Would the group move up or down?", r"\bar r^g_{cf} - \bar r^g",
    undefined="the group holds no slot", otherwise="nothing_shown",
    variants=("Below zero is up. It is over a changed set: new members enter last, so a group that gains slots can fall.",),
))  # fmt: skip
def mean_rank_change(c: Change) -> Floats:
    """How far each group's mean place moves; negative is up.

    >>> mean_rank_change.on(EXAMPLE).tolist()
    [0.5, -2.0]
    """
    return np.asarray(c.after.rank - c.before.rank)


@metric(_card(
    "outcome_before", "Outcome before reallocation", "What are the slots worth as they were?", r"\sum_i Y_i",
    "The slots before reallocation are worth an outcome of {estimate:number}.",
))  # fmt: skip
def outcome_before(c: Change) -> Floats:
    """Outcomes that are expected of those who hold the slots, added up.

    >>> float(outcome_before.on(EXAMPLE))
    6.0
    """
    return c.before.outcome


@metric(_card(
    "outcome_after", "Outcome after reallocation", "What would the slots be worth?", r"\sum_i \hat Y_i",
    "The reallocated slots are worth an outcome of {estimate:number}.",
))  # fmt: skip
def outcome_after(c: Change) -> Floats:
    """Outcome if slots went to the highest predicted outcomes.

    >>> float(outcome_after.on(EXAMPLE))
    6.6
    """
    return c.after.outcome


@metric(_card(
    "outcome_relative_change", "Relative change of the outcome", "By what share would the outcome rise?",
    r"(\sum \hat Y_{cf} - \sum Y) / \sum Y",
    undefined="there was no outcome", otherwise="zero_denominator",
    variants=(
        "As printed in the source (folds=1) it is never below zero, bias or not: never read it without "
        "`outcome_relative_change_null`.",
    ),
))  # fmt: skip
def outcome_relative_change(c: Change) -> Floats:
    """Change of the outcome over what it was (the source's Y%Δ, as a fraction).

    >>> round(float(outcome_relative_change.on(EXAMPLE)), 9)
    0.1
    """
    return c.outcome_change


def _null(name: str, of: str) -> Card:
    return _card(
        f"{name}_null", f"{of}, by chance", f"What would chance alone make of the {of.lower()}?",
        r"\mathrm{median}_d \text{ over draws without a group difference}", undefined="no draw has it",
        otherwise="zero_denominator", variants=("Its low and high are the band that chance alone passes rarely.",),
    )  # fmt: skip


@metric(_null("slots_gained", "Slots gained"))
def slots_gained_null(c: Change) -> Floats:
    """Median over draws (the first axis) of the slots gained where groups do not differ.

    >>> held, given = Allocation.from_arrays([[10], [10], [10]], 1, 0), Allocation.from_arrays([[9], [11], [12]], 1, 0)
    >>> slots_gained_null.on(Change(held, given)).tolist()
    [1.0]
    """
    return np.asarray(np.nanmedian(c.after.slots - c.before.slots, axis=0))


@metric(_null("mean_rank_change", "Change of the mean rank"))
def mean_rank_change_null(c: Change) -> Floats:
    """Median over draws of the change of the mean rank where groups do not differ.

    >>> held, given = Allocation.from_arrays(0, [[2], [2], [2]], 0), Allocation.from_arrays(0, [[2], [3], [3]], 0)
    >>> mean_rank_change_null.on(Change(held, given)).tolist()
    [1.0]
    """
    return np.asarray(np.nanmedian(c.after.rank - c.before.rank, axis=0))


@metric(_null("outcome_relative_change", "Relative change of the outcome"))
def outcome_relative_change_null(c: Change) -> Floats:
    """Median over draws of the change of the outcome where groups do not differ.

    >>> float(outcome_relative_change_null.on(Change(Allocation.from_arrays(0, 0, [4, 4, 4]), Allocation.from_arrays(0, 0, [4, 5, 6]))))
    0.25
    """
    return np.asarray(np.nanmedian(c.outcome_change, axis=0))

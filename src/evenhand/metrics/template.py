"""The template that every prefix metric follows: (1/Z) sum_i F(i) / discount(i), eq. 1 of Draws et al. (2020).

Values are computed for whole blocks of rankings. What a ranking shares with every other order of its labels, the
normaliser Z and the chance level, is computed once per distinct composition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError, listing
from evenhand.labels import match
from evenhand.metrics.chance import expected_terms
from evenhand.metrics.differences import Difference
from evenhand.metrics.normalizers import arranged, largest_of_groups, largest_of_sides
from evenhand.metrics.terms import Terms
from evenhand.tallies.placement import Kinds, Placement
from evenhand.tallies.ragged import Ints

Discount = Literal["log2(i)", "log2(i+1)"]
NOTHING = 1e-13
"""A normaliser this small is the rounding of 0: no order of the list differs from the whole."""


@dataclass(frozen=True)
class Scores:
    """One prefix metric on many rankings: arrays of one entry per ranking."""

    values: Floats
    normalizers: Floats
    chances: Floats


@dataclass(frozen=True)
class Template:
    """One prefix metric with its parameters settled."""

    difference: Difference  # F(i)
    # "max" the exact maximum, "published" protected items first (last where only shortfall counts), "bound" the sum
    # of discounts, None 1
    normalizer: str | None
    step: int = 1  # only prefixes of a multiple of this length are looked at
    discount: Discount = "log2(i+1)"  # what F(i) is divided by
    target: Any = None  # share of each group to compare with, instead of the whole list's

    def __post_init__(self) -> None:
        if self.step == 1 and self.discount == "log2(i)":
            raise EvenhandError("step=1 with discount='log2(i)' divides by log2(1) = 0. Pass discount='log2(i+1)'.")

    def values(self, p: Placement) -> Floats:
        """(R,) the metric on every ranking; NaN where it does not exist."""
        return self.scores(p, chance=False).values

    def scores(self, p: Placement, *, chance: bool = True) -> Scores:
        """Values, normalisers and chance levels of the metric on every ranking."""
        return Reading.from_placement(self, p).scores(chance=chance)

    def reasons(self, p: Placement, values: Floats) -> npt.NDArray[Any]:
        """(R,) reason codes where the value does not exist, else nothing."""
        return Reading.from_placement(self, p).reasons(values)

    def weights(self, width: int) -> Floats:
        """(width,) 1 / discount at the ranks looked at, 0 elsewhere."""
        ranks = np.arange(1.0, width + 1)
        with np.errstate(divide="ignore"):
            inverse = 1 / np.log2(ranks + (self.discount == "log2(i+1)"))
        return np.where(ranks % self.step == 0, inverse, 0.0)


@dataclass(frozen=True)
class Reading:
    """A template applied to rankings."""

    template: Template
    placement: Placement  # the rankings as the difference sees them: two sides, or every group
    shares: Floats | None  # (g,) the target, or None when each list is compared with itself

    @classmethod
    def from_placement(cls, template: Template, p: Placement) -> Reading:
        target = template.target
        if template.difference.sided:
            return cls(template, p.sides(), None if target is None else _sides(target, p))
        if p.rows is not None and template.normalizer == "max":
            raise EvenhandError(
                "normalizer='max' needs one label per item, not shares. Pass normalizer='bound' or None."
            )
        seen = p.unsided()
        if isinstance(target, Mapping):  # groups that only the target names are missed in every list
            named = [match(g, p.groups) for g in target]
            seen = seen.with_groups(tuple(dict.fromkeys([*p.groups, *named])))
        return cls(template, seen, None if target is None else _shares(target, p.groups, seen.groups))

    def scores(self, *, chance: bool = True) -> Scores:
        """Values, normalisers and chance levels of the metric on every ranking."""
        normalizers, chances = self.settled(chance=chance)
        with np.errstate(divide="ignore", invalid="ignore"):
            return Scores(self.sums() / normalizers, normalizers, chances / normalizers)

    def reasons(self, values: Floats) -> npt.NDArray[Any]:
        """(R,) reason codes where the value does not exist, else nothing."""
        missing = np.isnan(values)
        codes = self.placement.reasons()
        if self.shares is not None:
            codes = np.where(codes == "one_group_only", "", codes)  # that alone leaves a distance to a target
        basic = np.where(missing, codes, "")
        lacking = self.shares is not None and bool((self.shares <= 0).any())
        short = self.placement.lengths < self.template.step
        later = np.where(short, "too_short", "no_common_support" if lacking else "zero_normalizer")
        return np.where(missing & (basic == ""), later, basic)

    @cached_property
    def _kinds(self) -> Kinds:
        p = self.placement
        if self.template.difference.sided:
            return p.first_kinds
        return p.kinds if self.shares is None else Kinds.from_placement(p, p.counts, by_group=True)

    @property
    def kinds(self) -> Ints:
        """(R, G) the kind of list that each ranking is for each group looked at."""
        return self._kinds.which

    @cached_property
    def terms(self) -> Terms:
        """The terms of every kind."""
        kinds = self._kinds
        part, whole = kinds.counts, kinds.sizes
        if self.shares is not None:
            part, whole = self.shares[kinds.groups], np.ones(len(kinds.groups))
        return Terms(self.template.difference.term, kinds.counts, kinds.sizes, part, whole)

    def sums(self) -> Floats:
        """(R,) the sum over prefixes, not yet normalised."""
        totals = np.zeros(len(self.placement))
        ends = slice(self.template.step - 1, None, self.template.step)
        for b in self.placement.batches():
            weights, kinds, sums = self.weights(b.width)[ends], self.kinds[b.where], np.zeros(len(b.codes))
            for g in range(kinds.shape[1] if len(weights) else 0):
                terms = self.terms.at(b.cum_counts(g)[:, ends], b.seen[..., ends], kinds[:, g, None])
                if not b.complete and self.shares is not None:  # against itself, a list is at 0 from its end on
                    terms = np.where(np.arange(1, b.width + 1)[ends] <= b.lengths[:, None], terms, 0.0)
                # Not a matrix product: its last bits would depend on the block and on the threads.
                sums += np.einsum("ij,j->i", terms, weights)
            totals[b.where] = sums
        return totals

    def weights(self, width: int) -> Floats:
        """(width,) the template's weights; 0 past the ranks that are looked at."""
        inverse = self.template.weights(width)
        if self.placement.depth is not None:
            inverse[self.placement.depth :] = 0.0
        return inverse

    def settled(self, *, chance: bool) -> tuple[Floats, Floats]:
        """(R,) normalisers, NaN where the metric does not exist; (R,) mean sums of random orders."""
        normalizers, chances = (np.full(len(self.placement), np.nan) for _ in range(2))
        means: dict[int, Floats] = {}
        for mix in self.placement.mixes:
            counts = self.placement.counts[mix.first]
            # Two groups to compare, or one and a target; and a prefix to look at.
            enough = (counts > NOTHING).sum(1) >= 2 if self.shares is None else counts.sum(1) > 0
            defined = np.flatnonzero(enough & (mix.lengths >= self.template.step))
            weights = mix.weights(self.weights(mix.is_labelled.shape[1]))[defined]
            kinds = self.kinds[mix.first[defined]]
            by_mix = np.full((2, len(mix.first)), np.nan)
            z = self._normalizers(weights, kinds)
            by_mix[0, defined] = np.where((z > NOTHING) & np.isfinite(z), z, np.nan)
            normalizers[mix.at] = by_mix[0].take(mix.which)
            if chance and self.placement.rows is None:
                means |= {q: expected_terms(self.terms, q) for q in set(kinds.ravel().tolist()) - means.keys()}
                by_mix[1, defined] = [
                    sum(means[q] @ row[: len(means[q])] for q in mix_kinds)
                    for row, mix_kinds in zip(weights, kinds.tolist(), strict=True)
                ]
                chances[mix.at] = by_mix[1].take(mix.which)
        return normalizers, chances

    def _normalizers(self, weights: Floats, kinds: Ints) -> Floats:
        t = self.template
        if t.normalizer is None:
            return np.ones(len(kinds))
        if t.normalizer == "bound":
            return np.asarray(weights.sum(1))
        if not t.difference.sided:
            return np.array([largest_of_groups(self.terms, *row) for row in zip(weights, kinds, strict=True)])
        if t.normalizer == "published":
            return arranged(self.terms, weights, kinds[:, 0], first=not t.difference.falling)
        return largest_of_sides(t.difference, self.terms, weights, kinds[:, 0])


def _sides(target: Any, p: Placement) -> Floats:
    """(2,) target shares of the protected side and of the other; a bare number is the first."""
    if isinstance(target, (int, float)) and not isinstance(target, bool):
        if not 0 <= target <= 1:
            raise EvenhandError(f"target={target!r} is no share. Pass a number from 0 to 1, or {{group: share}}.")
        return np.array([float(target), 1 - float(target)])
    protected = float(_shares(target, p.groups, p.groups)[list(p.protected or ())].sum())
    return np.array([protected, 1 - protected])


def _shares(target: Any, groups: tuple[Any, ...], among: tuple[Any, ...]) -> Floats:
    """(g,) target shares of `among`: the groups of the lists and others that the target names."""
    if isinstance(target, str) and target == "equal":
        return np.full(len(groups), 1 / max(1, len(groups)))
    if not isinstance(target, Mapping):
        raise EvenhandError(
            f"target={target!r} cannot be read. Pass {{group: share}}, 'equal', or None for the list itself."
        )
    try:
        shares = np.array([float(share) for share in target.values()])
    except (TypeError, ValueError) as error:
        raise EvenhandError(f"target={target!r} holds what is no number. Pass {{group: share}}.") from error
    if not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-6:
        raise EvenhandError(f"target={target!r} does not sum to 1. Pass shares of zero or more that sum to 1.")
    named = {match(g, groups): float(share) for g, share in target.items()}
    if groups and not any(g in groups for g in named):
        raise EvenhandError(f"target={target!r} names no label of the list. Its labels: {listing(map(repr, groups))}.")
    return np.array([named.get(g, 0.0) for g in among])

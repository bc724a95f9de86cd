"""Does every top of a ranking mirror the whole? nDD, nDR, nDKL and nDJS of draws2020, and the PreF family of raj2022.

Every metric reads a Placement and returns one value per ranking. Higher is less fair, and 0 means that every prefix
has the mix of the whole list; a random order is not 0, so read each value beside its chance level. None of them says
who is favoured: `lean` does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from evenhand.cards import Between, Card, Floats, Metric, MetricSpec, metric
from evenhand.errors import EvenhandError, listing, unknown_name
from evenhand.labels import match
from evenhand.metrics import prefix_terms as f
from evenhand.metrics.prefix_terms import (
    Difference,
    Terms,
    arranged,
    expected_terms,
    largest_of_groups,
    largest_of_sides,
)
from evenhand.tallies.exposure import target_shares
from evenhand.tallies.placement import Batch, Kinds, Placement
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
        return Reading.from_placement(self, p).scores(chance=chance)


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
        seen = replace(p, protected=None)
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
        """(width,) 1 / discount at the ranks that are looked at, 0 elsewhere."""
        ranks, depth = np.arange(1.0, width + 1), self.placement.depth or width
        with np.errstate(divide="ignore"):
            inverse = 1 / np.log2(ranks + (self.template.discount == "log2(i+1)"))
        return np.where((ranks % self.template.step == 0) & (ranks <= depth), inverse, 0.0)

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
    if isinstance(target, Mapping):
        target = {match(g, groups): share for g, share in target.items()}
        if groups and not any(g in groups for g in target):
            listed = listing(map(repr, groups))
            raise EvenhandError(f"target={target!r} names no label of the list. Its labels: {listed}.")
    shares = target_shares(target, groups)
    return np.array([shares.get(g, 0.0) for g in among])


Step = Annotated[int, Between(1, math.inf)]
Smoothing = Annotated[float, Between(0, 0.5, open_low=True)]
Reference = Literal["prefix", "list"]
"""With a cutoff, what the tops are held against: the first k ranks alone, or the whole list."""

ND = Difference(f.nd, sided=True, symmetric=True)
RD = Difference(f.rd, sided=True)
RD_ONE_SIDED = Difference(f.rd_one_sided, sided=True, falling=True)
KL_OF_SIDES = Difference(f.kl_of_sides(None), sided=True, symmetric=True)
KL = Difference(f.kl, sided=False)
JS = Difference(f.js, sided=False)

TEMPLATES: dict[str, Callable[..., Template]] = {}
"""How each prefix metric fills the template in; audits ask it for chance levels, reasons and random orders too."""

TWO_SIDES = frozenset({"sides", "labels"})
"""What metrics of a protected side read, item by item."""

WHEN = "the list is empty, has no labelled item, or holds one group only"
UNAIMED = f"{WHEN} and there is no target"
BESIDE = "[; random order would give {chance:number}][ ({p:p})]."
RANDOM = "A random order does not score 0: nDD of 10 items, 5 of them protected, is 0.56 by chance alone."


def reading_of(spec: MetricSpec, p: Placement) -> Reading | None:
    """The metric's template on these rankings; None where it has none."""
    if spec.card.name not in TEMPLATES or "convention" in spec.params:
        return None
    return Reading.from_placement(TEMPLATES[spec.card.name](p, **spec.params), p)


def scores_of(spec: MetricSpec, p: Placement, reading: Reading | None = None, *, chance: bool) -> Scores:
    reading = reading or reading_of(spec, p)
    if reading is not None:
        return reading.scores(chance=chance)
    nothing = np.full(len(p), np.nan)
    chances = spec.metric.by_chance(p, **spec.params) if chance else nothing
    return Scores(np.broadcast_to(spec.on(p), nothing.shape), nothing, np.broadcast_to(chances, nothing.shape))


def reasons_of(spec: MetricSpec, p: Placement, values: Floats) -> Any:
    """(R,) why a ranking has no value."""
    reading = reading_of(spec, p)
    if reading is not None:
        return reading.reasons(values)
    return spec.card.reasons(p, np.isnan(values), **spec.params)


def looked_at(spec: MetricSpec, p: Placement) -> Placement:
    """Rankings as a metric with a cutoff sees them: cut, or as a part of the whole list."""
    if spec.cutoff is None:
        return p
    return replace(p, depth=spec.cutoff) if spec.settled("reference") == "list" else p.cut(spec.cutoff)


def _card(name: str, symbol: str, title: str, reading: str = "0 is proportional at every depth", **fields: Any) -> Card:
    """Card of a prefix metric; `reading` says what its value means."""
    shared: dict[str, Any] = {
        "needs": Placement, "per": "ranking", "family": "prefix", "ideal": 0.0, "better": "lower", "undefined": UNAIMED,
        "says": f"{symbol}: {{estimate:number}} on average over {{units}}{{interval}} ({reading}){BESIDE}",
    }  # fmt: skip
    return Card(name=name, symbol=symbol, title=title, **shared | fields)


def prefix_metric(card: Card) -> Callable[[Callable[..., Template]], Metric]:
    """Declare a metric by its template, which gives value, chance level and reason codes."""

    def declare(fill: Callable[..., Template]) -> Metric:
        @functools.wraps(fill)
        def values(p: Placement, **params: Any) -> Floats:
            return fill(p, **params).values(p)

        def reason(p: Placement, **params: Any) -> str:
            reading = Reading.from_placement(fill(p, **params), p)
            return str(reading.reasons(reading.scores(chance=False).values)[0])

        values.__annotations__ = {**fill.__annotations__, "return": "Floats"}
        TEMPLATES[card.name] = fill
        declared = metric(replace(card, otherwise=reason))(values)
        declared.chance(lambda p, **params: fill(p, **params).scores(p).chances)
        return declared

    return declare


@prefix_metric(_card(
    "ndd", "nDD", "Normalised discounted difference", "0 is proportional at every depth, 1 the worst possible",
    span=lambda normalizer: (0.0, 1.0 if normalizer == "max" else math.inf),
    asks="How far is the protected share of each top of the list from its share of the whole list?",
    formula=r"\frac1Z\sum_{i=1}^{N}\frac{1}{\log_2(i+1)}\left|\frac{c_i}{i}-\frac{S_p}{N}\right|",
    example="[p, u, p, u] -> 0.6490",
    variants=(
        RANDOM,
        "normalizer='published' divides by the value of \"all protected first\"; above 1 for a protected majority.",
        "rND of Yang and Stoyanovich is pref_nd with step=10 and discount='log2(i+1)'.",
        "ndd@10 takes the first ten ranks for the whole; ndd(reference='list')@10 the list that they are cut from.",
    ),
    references=("draws2020", "yang2017"), reads=TWO_SIDES,
))  # fmt: skip
def ndd(
    p: Placement, *, normalizer: Literal["max", "published"] | None = "max", target: Any = None,
    reference: Reference = "prefix",
) -> Template:  # fmt: skip
    r"""Discounted distance between the protected share of each prefix and of the whole list.

    Z is the largest sum that any order of the same items has. Unknown items keep their rank and count in no share.
    `target`, a share or `{label: share}`, takes the place of the whole list's. With a cutoff (`ndd@10`) the whole is the
    first ten ranks; `reference="list"` holds the tops of those ten against the list they are cut from, and Z and chance
    are those of orders of the whole list.

    >>> round(ndd(["p", "u", "p", "u"], protected="p", target=0.25), 4)
    0.795
    >>> round(ndd(["p", "u", "p", "u"], protected="p"), 4)
    0.649
    >>> ndd(["u", "u", "p", "p"], protected="p")
    1.0
    """
    return Template(ND, normalizer, target=target)


@prefix_metric(_card(
    "ndr", "nDR", "Normalised discounted ratio",
    span=lambda normalizer, one_sided: (
        0.0,
        1.0 if normalizer == "max" or (one_sided and normalizer) else math.inf,
    ),
    asks="How far is the ratio of protected to other items in each top of the list from that of the whole list?",
    undefined=WHEN,
    formula=r"\frac1Z\sum_{i=1}^{N}\frac{1}{\log_2(i+1)}\left|\frac{c_i}{i-c_i}-\frac{S_p}{S_u}\right|",
    example="[p, p, u, u] -> 1",
    variants=(
        "Not recommended by its own paper: the published Z is not a maximum, so single lists reach 26.",
        "normalizer='max' is exact and squeezes nearly all lists to about 0.01.",
        "one_sided=True sees under-representation only; its Z, all protected last, is the exact maximum.",
    ),
    references=("draws2020", "yang2017"), reads=TWO_SIDES,
))  # fmt: skip
def ndr(
    p: Placement, *, normalizer: Literal["published", "max"] | None = "published", one_sided: bool = False,
    reference: Reference = "prefix",
) -> Template:  # fmt: skip
    r"""Discounted distance between the protected-to-other ratio of each prefix and the whole.

    A fraction with denominator 0 counts as 0, so a pure protected prefix looks fair and one unprotected item in it
    looks terrible.

    >>> ndr(["p", "p", "u", "u"], protected="p")
    1.0
    >>> ndr(["p", "p", "u", "u"], protected="p", one_sided=True)
    0.0
    """
    return Template(RD_ONE_SIDED if one_sided else RD, normalizer)


@prefix_metric(_card(
    "ndkl", "nDKL", "Normalised discounted Kullback-Leibler divergence",
    "0 is proportional at every depth, 1 the worst possible",
    span=lambda normalizer: (0.0, 1.0 if normalizer == "max" else math.inf),
    asks="How surprising is the mix of the two sides in each top of the list, given the whole list?",
    formula=r"\frac1Z\sum_{i=1}^{N}\frac{D_{KL}(P_i\,\|\,Q)}{\log_2(i+1)},\quad P_i=(c_i/i,\,1-c_i/i)",
    example="[u, p, u, u, p, u] -> 0.2321",
    variants=(
        "Not the NDKL of Geyik et al. (LinkedIn, FairRankTune), which is geyik_ndkl here: another Z, natural logs.",
        "A prefix of one side only is smoothed to 0.001/0.999, whichever side; smoothing=None leaves it.",
    ),
    references=("draws2020", "yang2017"), reads=TWO_SIDES,
))  # fmt: skip
def ndkl(
    p: Placement, *, normalizer: Literal["max", "published"] | None = "max", smoothing: Smoothing | None = 0.001,
    target: Any = None, reference: Reference = "prefix",
) -> Template:  # fmt: skip
    r"""Divergence of the two sides in each prefix from the whole list, near ranks counting most.

    `target` and `reference` are those of `ndd`.

    >>> round(ndkl(["u", "p", "u", "u", "p", "u"], protected="p"), 4)
    0.2321
    """
    return Template(Difference(f.kl_of_sides(smoothing), sided=True, symmetric=True), normalizer, target=target)


@prefix_metric(_card(
    "ndjs", "nDJS", "Normalised discounted Jensen-Shannon divergence",
    span=lambda normalizer: (0.0, 1.0 if normalizer else math.inf),
    asks="How far is the mix of all labels in each top of the list from the mix of the whole list?",
    formula=r"\frac1Z\sum_{i=1}^{N}\frac{JSD(P_i\,\|\,Q)}{\log_2(i+1)},\quad Z=\sum_i\frac{1}{\log_2(i+1)}",
    example="[a, a, b, b, c, c] -> 0.2848",
    variants=(
        "The default Z is a bound that no list reaches: the worst order of 3 or 4 groups is at 0.2 to 0.4 of it.",
        "So values cannot be compared with nDD or nDKL; normalizer='max' divides by the worst order instead.",
        "Reads every label; a protected side plays no role.",
        "The divergence in bits, not its square root (scipy's jensenshannon is the root).",
    ),
    references=("draws2020", "lin1991"),
))  # fmt: skip
def ndjs(
    p: Placement, *, normalizer: Literal["bound", "max"] | None = "bound", target: Any = None,
    reference: Reference = "prefix",
) -> Template:  # fmt: skip
    r"""Discounted divergence of the mix of all labels in each prefix from the whole list.

    Items may belong to several groups by shares; the mix of a prefix is then the mean of its rows. `target`
    (`{label: share}` or "equal") and `reference` are those of `ndd`.

    >>> round(ndjs(["a", "a", "b", "b", "c", "c"]), 4)
    0.2848
    """
    return Template(JS, normalizer, target=target)


def _pref_card(name: str, symbol: str, what: str, **fields: Any) -> Card:
    return _card(
        name, symbol, f"Prefix fairness, {what}", f"{what} between each prefix and the whole list",
        span=lambda normalizer: (0.0, 1.0 if normalizer else math.inf),
        undefined=f"{UNAIMED}, is shorter than one step, or exactly one step long",
        formula=r"\frac1Z\sum_{i=10,20,\dots\le N}\frac{\Delta(L_{\le i},\hat p)}{\log_2 i}",
        variants=("Yang and Stoyanovich's program discounts by log2(i+1): pass discount='log2(i+1)'.",),
        references=("raj2022", "yang2017"), **fields,
    )  # fmt: skip


@prefix_metric(_pref_card(
    "pref_nd", "PreF-ND", "difference",
    asks="How far is the protected share of the top 10, 20, 30, ... from its share of the whole list?",
    example="12 protected items first of 30 -> 1",
    reads=TWO_SIDES,
))  # fmt: skip
def pref_nd(
    p: Placement, *, step: Step = 10, target: Any = None, discount: Discount = "log2(i)",
    normalizer: Literal["max"] | None = "max",
) -> Template:  # fmt: skip
    r"""Distance between the protected share of every tenth prefix and of the whole list (rND).

    .. math:: \frac1Z\sum_{i=10,20,\dots}\frac{|c_i/i-\hat p|}{\log_2 i}

    What stands after the last full step is never looked at. `target` replaces the list's own share.

    >>> round(pref_nd([1, 0, 0, 1, 0, 0], protected=1, step=2), 4)
    0.3333
    """
    return Template(ND, normalizer, step, discount, target)


@prefix_metric(_pref_card(
    "pref_rd", "PreF-RD", "ratio",
    asks="How far is the ratio of protected to other items in the top 10, 20, 30, ... from that of the whole list?",
    example="12 protected items last of 30 -> 0.0984",
    reads=TWO_SIDES,
))  # fmt: skip
def pref_rd(
    p: Placement, *, step: Step = 10, target: Any = None, discount: Discount = "log2(i)",
    normalizer: Literal["max"] | None = "max", one_sided: bool = False,
) -> Template:  # fmt: skip
    r"""Distance between the protected-to-other ratio of every tenth prefix and the whole (rRD).

    .. math:: \frac1Z\sum_{i=10,20,\dots}\frac{|c_i/(i-c_i)-\hat p/(1-\hat p)|}{\log_2 i}

    A fraction with denominator 0 counts as 0.

    >>> pref_rd([1, 0, 0, 1, 0, 0], protected=1, step=3)
    0.0
    """
    return Template(RD_ONE_SIDED if one_sided else RD, normalizer, step, discount, target)


@prefix_metric(_pref_card(
    "pref_kl", "PreF-KL", "divergence",
    asks="How surprising is the mix of labels in the top 10, 20, 30, ..., given the whole list?",
    example="12 protected items first of 30 -> 1",
))  # fmt: skip
def pref_kl(
    p: Placement, *, step: Step = 10, target: Any = None, discount: Discount = "log2(i)",
    normalizer: Literal["max"] | None = "max",
) -> Template:  # fmt: skip
    r"""Divergence of the mix of every tenth prefix from the whole list (rKL).

    .. math:: \frac1Z\sum_{i=10,20,\dots}\frac{D_{KL}(P_i\,\|\,\hat p)}{\log_2 i}

    With `protected`, two sides; without, every label. Items that belong to several groups by shares have no exact
    maximum: the sum is then returned without Z.

    >>> round(pref_kl(list("abcabc"), step=2), 4)
    0.3342
    """
    if p.rows is not None:  # no exact maximum exists for shares, so the sum is returned as it is
        return Template(KL, None, step, discount, target)
    return Template(KL if p.protected is None else KL_OF_SIDES, normalizer, step, discount, target)


@prefix_metric(_card(
    "geyik_ndkl", "NDKL", "Normalised discounted cumulative KL divergence of Geyik et al.",
    span=(0.0, math.inf),
    asks="How far is the mix of all labels in each top of the list from the target, as LinkedIn and FairRankTune put it?",
    says="NDKL of Geyik et al.: {estimate:number} on average over {units}{interval} (0 is proportional at every depth)"
    + BESIDE,
    formula=r"\frac1Z\sum_{i=1}^{N}\frac{D_{KL}(P_i\,\|\,\hat p)}{\log_2(i+1)},\quad Z=\sum_i\frac{1}{\log_2(i+1)}",
    example="[a, a, b, b] -> 0.4524",
    variants=("For comparing with other tools: natural logs, 1e-7 added to every share. Not nDKL of Draws et al.",),
    references=("geyik2019",),
))  # fmt: skip
def geyik_ndkl(p: Placement, *, target: Any = None, epsilon: Annotated[float, Between(0, 0.1)] = 1e-7) -> Template:
    """NDKL of other libraries: natural-log divergences averaged with discount weights.

    `epsilon` is added to every share because those libraries do; 0 is fair and there is no upper bound.

    >>> round(geyik_ndkl(["a", "a", "b", "b"]), 4)
    0.4524
    """
    return Template(Difference(f.kl_with_added(epsilon), sided=False), "bound", target=target)


PREF = {"nd": pref_nd, "rd": pref_rd, "kl": pref_kl}


def pref(labels: Any, *, distance: str = "nd", **keywords: Any) -> float:
    """A member of the PreF family on one ranking: `distance` is "nd", "rd" or "kl".

    >>> round(pref(list("abcabc"), distance="kl", step=2), 4)
    0.3342
    """
    if not isinstance(distance, str) or distance not in PREF:
        raise unknown_name("distance", str(distance), list(PREF), what="a known distance")
    if distance != "rd" and keywords.get("one_sided") is False:
        del keywords["one_sided"]  # only a ratio has a side to leave out
    return PREF[distance](labels, **keywords)


def lean_and_spread(p: Placement) -> tuple[Floats, Floats, Floats]:
    """(R, g) lean of each group, (R, g) its exact standard deviation and (R, g) third central moment over random orders.

    The lean is the sum over prefixes of (share among the first i - share of the list) / log2(i + 1): above zero where the
    group stands higher than its share, which no prefix metric tells; over random orders its mean is 0. Item by item, it
    adds up how much each rank counts: sum of 1 / (k log2(i + 1)) over the prefixes with k labelled items that hold it.

    >>> leans, spreads, _ = lean_and_spread(Placement.from_arrays(["p", "u"]))
    >>> leans.round(3).tolist(), spreads.round(3).tolist()
    ([[0.5, -0.5]], [[0.5, 0.5]])
    """
    leans, spread, thirds = np.zeros((3, len(p), len(p.groups)))
    for batch in p.batches():
        ranks, labelled = np.arange(batch.width), batch.is_labelled
        inside = ranks < np.minimum(batch.lengths, p.depth or batch.width)[:, None]
        seen = np.broadcast_to(batch.seen, inside.shape)
        weight = np.where(inside & (seen > 0), 1 / np.log2(ranks + 2.0) / np.maximum(seen, 1), 0.0)
        counts = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1] * labelled
        size = np.maximum(labelled.sum(1), 1)[:, None]
        off = np.where(labelled, counts - counts.sum(1, keepdims=True) / size, 0.0)
        varied, cubed = ((off**k).sum(1, keepdims=True) for k in (2, 3))
        share = p.counts[batch.where] / size
        for g in range(batch.groups):
            leans[batch.where, g] = ((batch.cum_counts(g) - seen * share[:, g : g + 1]) * weight).sum(1)
        spread[batch.where] = np.sqrt(varied * share * (1 - share) * size / np.maximum(size - 1, 1))
        few = np.maximum((size - 1) * (size - 2), 1)
        thirds[batch.where] = cubed * share * (1 - share) * (1 - 2 * share) * size**2 / few
    return leans, spread, thirds


OF_NUMBERS = "ranks by a number"
"""The family of metrics that read labels as numbers (kulshrestha2019): a leaning from -1 to 1, a price, an age."""
UNLABELLED = "the list has no labelled item"


def label_numbers(p: Placement) -> Floats:
    try:
        return np.array([float(label) for label in p.groups])
    except (TypeError, ValueError):
        odd = next(label for label in p.groups if not isinstance(label, (int, float)))
        raise EvenhandError(
            f"The labels hold {odd!r}, and this metric reads numbers. Pass a column of numbers, such as a leaning from -1 to 1."
        ) from None


def _rank_weights(b: Batch, depth: int | None) -> Floats:
    """(m, W) weight of each labelled rank in the mean over prefixes of the mean of each prefix; 0 elsewhere."""
    ranks = np.arange(b.width)
    seen = np.broadcast_to(b.seen, b.codes.shape)
    counted = (ranks < np.minimum(b.lengths, depth or b.width)[:, None]) & (seen > 0)
    per_prefix = counted / np.maximum(seen, 1) / np.maximum(counted.sum(1, keepdims=True), 1)
    return np.asarray(np.cumsum(per_prefix[:, ::-1], axis=1)[:, ::-1] * b.is_labelled)


def number_leans(p: Placement) -> tuple[Floats, Floats, Floats]:
    """(R, 1) ranking bias, its exact standard deviation and third central moment over random orders.

    Random orders of one list: a sum of weights times values in another order, whose moments are products of theirs.
    """
    numbers = label_numbers(p)
    moments = np.zeros((3, len(p), 1))
    for b in p.batches():
        labelled = b.is_labelled
        n = np.maximum(labelled.sum(1, keepdims=True), 1)
        values = np.where(labelled, numbers[b.codes] if len(numbers) else 0.0, 0.0)
        values = np.where(labelled, values - values.sum(1, keepdims=True) / n, 0.0)
        off = np.where(labelled, _rank_weights(b, p.depth) - 1 / n, 0.0)
        square, cube = ((off**k).sum(1) * (values**k).sum(1) for k in (2, 3))
        size = n[:, 0]
        moments[0, b.where, 0] = (off * values).sum(1)
        moments[1, b.where, 0] = np.sqrt(square / np.maximum(size - 1, 1))
        moments[2, b.where, 0] = cube * size / np.maximum((size - 1) * (size - 2), 1)
    lean, spread, third = moments
    return lean, spread, third


@metric(Card(
    name="ranking_bias", symbol="RB", title="Bias of ranks by a number", needs=Placement,
    span=(-math.inf, math.inf), ideal=0.0, better="ideal",
    asks="Is the mean of a number near the top of the list above that of the whole list?",
    undefined=UNLABELLED, otherwise="no_labelled_items",
    says="Ranking bias: {estimate:number} on average over {units}{interval} (the mean at the top less that of the whole list)"
    "[; random order would give {chance:number}][ ({p:p})].",
    formula=r"\mathrm{RB}(r) = \frac1r \sum_{i=1}^{r} \frac1i \sum_{j \le i} s_j - \frac1N \sum_{j=1}^{N} s_j",
    example="[1, 0, -1] -> 0.5",
    variants=(
        "Output bias less input bias: the mean over prefixes of the mean of each prefix, less the mean of the whole list.",
        "ranking_bias@10 looks at the first ten prefixes and holds them against the whole list; reference='prefix' against the ten.",
        "A random order gives 0 on average, whatever the values. Means only: a list that mixes extremes at the top scores 0 too.",
    ),
    references=("kulshrestha2019", "draws2020"), per="ranking", family=OF_NUMBERS, reads=frozenset({"labels"}),
))  # fmt: skip
def ranking_bias(p: Placement, *, reference: Reference = "list") -> Floats:
    """Mean over prefixes of the mean label of each, less the mean of the whole list.

    >>> ranking_bias([1, 0, -1])
    0.5
    """
    return np.where(p.labelled > 0, number_leans(p)[0][:, 0], np.nan)


@ranking_bias.chance
def _(p: Placement, *, reference: Reference = "list") -> Floats:
    """In random order every prefix has the mean of the list on average."""
    return np.where(p.labelled > 0, 0.0, np.nan)


@metric(Card(
    name="output_bias", symbol="OB", title="Mean of a number near the top", needs=Placement,
    span=(-math.inf, math.inf), ideal=math.nan, better="",
    asks="What is the mean of a number in what is seen, if every prefix of the list is as likely to be all that is read?",
    undefined=UNLABELLED, otherwise="no_labelled_items",
    says="Output bias: {estimate:number} on average over {units}{interval}[; random order would give {chance:number}].",
    formula=r"\mathrm{OB}(r) = \frac1r \sum_{i=1}^{r} \frac1i \sum_{j \le i} s_j", example="[1, 0, -1] -> 0.5",
    variants=("Chance is the input bias: the mean of the whole list.",),
    references=("kulshrestha2019",), per="ranking", family=OF_NUMBERS, reads=frozenset({"labels"}),
))  # fmt: skip
def output_bias(p: Placement, *, reference: Reference = "list") -> Floats:
    """Mean over prefixes of the mean label of each.

    >>> output_bias([1, 0, -1])
    0.5
    """
    return np.asarray(ranking_bias.on(p) + _list_means(p))


@output_bias.chance
def _(p: Placement, *, reference: Reference = "list") -> Floats:
    """In random order: the mean of the whole list."""
    return _list_means(p)


def _list_means(p: Placement) -> Floats:
    return np.asarray(
        np.divide(p.counts @ label_numbers(p), p.labelled, out=np.full(len(p), np.nan), where=p.labelled > 0)
    )

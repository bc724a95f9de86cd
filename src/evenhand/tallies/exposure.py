"""Attention that groups or items received and were due: all that an exposure metric may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from evenhand.attention import Attention, parse
from evenhand.cards import Floats
from evenhand.errors import EvenhandError, listing
from evenhand.labels import UNKNOWN_LABEL, Unknown, all_but, matches
from evenhand.sources.sql import columns, exact_sum, select
from evenhand.tallies.placement import Placement
from evenhand.tallies.ragged import Ints
from evenhand.tallies.requests import Requests, Summable

if TYPE_CHECKING:
    from evenhand.sources.engine import Cells
    from evenhand.sources.judged_rankings import JudgedRankings


@dataclass(frozen=True)
class AttentionSpec:
    """A browsing model, and the rank at which a metric cuts."""

    attention: Attention
    cutoff: int | None = None

    def __str__(self) -> str:
        return str(self.attention) if self.cutoff is None else f"{self.attention}@{self.cutoff}"

    @property
    def is_by_rank(self) -> bool:
        """Whether the rank alone decides, so that a query can sum; a cascade needs the items above."""
        return not self.attention.needs_relevance

    def by_place(self, depth: int) -> Floats:
        """The weight of the places from 1 to `depth`, before anybody stops at an item above."""
        weights = np.asarray(self.attention.at(np.arange(1.0, depth + 1)), dtype=np.float64)
        return weights if self.cutoff is None else np.where(np.arange(depth) < self.cutoff, weights, 0.0)


@dataclass(frozen=True)
class RequiredSums:
    """Sums that the metrics of a call need.

    Attributes
    ----------
    specs : attention to add up by ranking and group.
    gained : those whose attention times relevance is needed too; due : those with the exposure under the ideal policy;
        items : those with norms over items; squared : those whose variance over random orders is asked for.
    scores : whether predicted utility is added up; judged : whether relevance is, request by request.
    by_item : attention to add up item by item, as (attention, pooled).
    """

    specs: tuple[AttentionSpec, ...]
    gained: frozenset[AttentionSpec] = field(default_factory=frozenset)
    due: frozenset[AttentionSpec] = field(default_factory=frozenset)
    items: frozenset[AttentionSpec] = field(default_factory=frozenset)
    squared: frozenset[AttentionSpec] = field(default_factory=frozenset)
    scores: bool = False
    judged: bool = False
    by_item: tuple[tuple[AttentionSpec, bool], ...] = ()

    @property
    def by_rank(self) -> list[AttentionSpec]:
        return [spec for spec in self.specs if spec.is_by_rank]

    @property
    def by_list(self) -> list[AttentionSpec]:
        """Those that are read off whole lists."""
        needed = self.items | {spec for spec, _ in self.by_item}
        return [spec for spec in self.specs if not spec.is_by_rank or spec in needed]

    @property
    def needs_items(self) -> bool:
        return bool(self.items or self.by_item)

    @property
    def arrays(self) -> int:
        """How many numbers are held for each ranking and group."""
        return (
            1 + len(self.specs) + len(self.gained) + len(self.due) + len(self.squared) + 2 * self.judged + self.scores
        )

    def among(self, chosen: frozenset[AttentionSpec]) -> list[AttentionSpec]:
        return [spec for spec in self.specs if spec in chosen]


@dataclass(frozen=True)
class GroupExposure:
    """Sums per ranking and group, rankings within requests within slices.

    The last column of every (R, G + 1) and (Q, G + 1) array belongs to items without a label.

    Attributes
    ----------
    keys : (R,) rows with the slice, request and sample of each ranking.
    within : the Q requests within their slices; request q holds rankings request_starts[q] to request_starts[q + 1].
    probability : (R,) of each draw, as given; weight : (Q,) of each request.
    labels : names of the G groups.
    items : (R, G + 1) number of items. attended, gained, squared : by attention, its sums, those of attention times relevance,
        and those of its squares. share_squares : (R, G + 1) squared shares of items, where items have shares.
    scores : predicted utility. unjudged : ranked items without a judgment.
    judged : (Q,) whether anybody judged an item of the request; None where judgments were not asked for.
    worth, relevant, due : (Q, G + 1) what is judged; due_norms : (Q,) by attention, squared target exposure over items.
    norms : (Q, 5) by attention, over items: |e|^2, e.e* and the draws' own squares; the means of the first two over random
        orders.
    """

    keys: Cells
    within: Requests
    request_starts: Ints
    probability: Floats
    weight: Floats
    known_probability: bool
    labels: tuple[Any, ...]
    items: Floats
    attended: Mapping[AttentionSpec, Floats]
    gained: Mapping[AttentionSpec, Floats] = field(default_factory=dict)
    squared: Mapping[AttentionSpec, Floats] = field(default_factory=dict)
    share_squares: Floats | None = None
    scores: Floats | None = None
    unjudged: int = 0
    judged: npt.NDArray[np.bool_] | None = None
    worth: Floats | None = None
    relevant: Floats | None = None
    due: Mapping[AttentionSpec, Floats] = field(default_factory=dict)
    due_norms: Mapping[AttentionSpec, Floats] = field(default_factory=dict)
    norms: Mapping[AttentionSpec, Floats] = field(default_factory=dict)

    @classmethod
    def from_rankings(cls, tables: JudgedRankings, required: RequiredSums, labels: tuple[Any, ...]) -> GroupExposure:
        """The sums of one query; `ranked_lists` and `judge_requests` add theirs."""
        depth = tables.depth
        weights = {f"attention_{i}": spec.by_place(depth) for i, spec in enumerate(required.by_rank)}
        attention = tables.engine.bring({"place": np.arange(1, depth + 1, dtype=np.int64), **weights})
        cells = tables.engine.cells(query(tables, required, len(labels), attention))
        return cls.from_cells(cells, tables.slices, required, labels)

    @classmethod
    def from_cells(
        cls, cells: Cells, slices: Sequence[str], required: RequiredSums, labels: tuple[Any, ...]
    ) -> GroupExposure:
        """The rows of the query as dense arrays, rankings in the order of their keys."""
        requests = [*slices, "request"]
        rankings = [*requests, "sample"] if "sample" in cells.names else requests
        cells = cells.sorted_by(rankings)
        ranking = cells.runs(rankings)
        first = np.flatnonzero(np.diff(ranking, prepend=-1))
        keys = cells.select(rankings).take(first)
        starts = np.append(np.flatnonzero(np.diff(keys.runs(requests), prepend=-1)), len(keys))
        heads, code = first[starts[:-1]], cells.integers("code")

        def dense(name: str) -> Floats:
            sums = np.zeros((len(first), len(labels) + 1))
            sums[ranking, code] = cells.floats(name)
            return sums

        return cls(
            keys=keys,
            within=Requests.from_heads(cells.take(heads), slices),
            request_starts=starts,
            probability=_per_key(cells, "probability", first, "draw"),
            weight=_per_key(cells, "weight", heads, "request"),
            known_probability="probability" in cells.names,
            labels=labels,
            items=dense("items"),
            attended={spec: dense(f"attention_{i}") for i, spec in enumerate(required.by_rank)},
            gained={
                spec: dense(f"gain_{i}") for i, spec in enumerate(required.by_rank) if spec in required.gained
            },
            squared={
                spec: dense(f"square_{i}") for i, spec in enumerate(required.by_rank) if spec in required.squared
            },
            share_squares=dense("share_squares") if "share_squares" in cells.names else None,
            scores=dense("scores") if required.scores else None,
            unjudged=round(float(cells.floats("unjudged").sum())) if "unjudged" in cells.names else 0,
        )  # fmt: skip

    def only_judged(self) -> GroupExposure:
        """These sums without weight on requests without judgments: their ideal policy is unknown."""
        return self if self.judged is None else replace(self, weight=np.where(self.judged, self.weight, 0.0))

    @property
    def slices(self) -> Sequence[tuple[Any, ...]]:
        return self.within.slices

    @property
    def requests(self) -> Any:
        return self.within.ids

    @cached_property
    def request_of(self) -> Ints:
        return np.repeat(np.arange(len(self.requests)), np.diff(self.request_starts))

    @cached_property
    def draws(self) -> Ints:
        return np.diff(self.request_starts)

    @cached_property
    def mass(self) -> Floats:
        """(Q,) what the probabilities of a request's rankings add up to."""
        return self.sum_per_request(self.probability)

    @cached_property
    def share(self) -> Floats:
        """(R,) probability of each ranking given its request."""
        return np.asarray(self.probability / self.mass[self.request_of])

    def sum_per_request(self, values: Floats) -> Floats:
        if not len(values):
            return np.zeros((0, *values.shape[1:]))
        return np.asarray(np.add.reduceat(values, self.request_starts[:-1], axis=0))

    def expected(self, values: Floats) -> Floats:
        """Means over the rankings of each request, by their probability."""
        share = self.share if values.ndim == 1 else self.share[:, None]
        return self.sum_per_request(values * share)

    def unlabelled_share(self, attention: AttentionSpec, part: slice) -> float:
        """Share of all attention in a slice that went to items without a label."""
        attended = self.expected(self.attended[attention])[part] * self.weight[part][:, None]
        whole = attended.sum()
        return float(attended[:, -1].sum() / whole) if whole else 0.0

    def part(self, s: int) -> slice:
        return self.within.part(s)

    def rankings_of(self, part: slice) -> slice:
        return slice(int(self.request_starts[part.start]), int(self.request_starts[part.stop]))


@dataclass(frozen=True)
class Policy:
    """How unlabelled items are counted, and which groups are compared.

    Attributes
    ----------
    labels : the groups that metrics see.
    protected, versus : indices into them; None where no side was named.
    onto : index of the group that unlabelled items count in, or None when they are left out.
    """

    unknown: Unknown
    labels: tuple[Any, ...]
    protected: tuple[int, ...] | None
    versus: tuple[int, ...] | None
    onto: int | None

    def assign_unlabelled(self, values: Floats) -> Floats:
        """(..., G) from (..., G + 1), of which the last column belongs to unlabelled items."""
        if self.unknown == "group":
            return values
        labelled = values[..., :-1]
        if self.onto is None:
            return labelled
        labelled = labelled.copy()
        labelled[..., self.onto] += values[..., -1]
        return labelled

    @classmethod
    def from_sides(
        cls,
        unknown: Unknown,
        labels: Sequence[Any],
        protected: tuple[int, ...] | None,
        versus: tuple[int, ...] | None,
    ) -> Policy:
        """The groups and where unlabelled items go, given the two sides."""
        if unknown == "group":
            return cls(unknown, (*labels, UNKNOWN_LABEL), protected, versus, None)
        if unknown != "unprotected":
            return cls(unknown, tuple(labels), protected, versus, None)
        if protected is None or versus is None or len(versus) != 1:
            raise EvenhandError(
                "unknown='unprotected' needs to know which group that is. Pass protected=, and versus= where several groups are left."
            )
        return cls(unknown, tuple(labels), protected, versus, versus[0])


def query(tables: JudgedRankings, required: RequiredSums, groups: int, attention: str) -> str:
    """SQL of items, attention and attention times relevance per ranking and group `code`.

    `attention` is a table with the weight of every place.
    """
    specs, factors = required.by_rank, tables.factors
    weights = [" * ".join([*factors, f"attention.attention_{i}"]) for i in range(len(specs))]
    sums = {"items": exact_sum(" * ".join(factors)) if factors else "COUNT(*)"}
    sums |= {f"attention_{i}": exact_sum(weight) for i, weight in enumerate(weights)}
    sums |= {
        f"gain_{i}": exact_sum(f"{weights[i]} * COALESCE({tables.relevance}, 0)")
        for i, spec in enumerate(specs)
        if spec in required.gained
    }
    sums |= {
        f"square_{i}": exact_sum(f"{weights[i]} * attention.attention_{i}")
        for i, spec in enumerate(specs)
        if spec in required.squared
    }
    if required.squared and tables.soft:
        sums["share_squares"] = exact_sum(" * ".join([*factors, "ranked.share"]))
    if required.scores:
        sums["scores"] = exact_sum("ranked.share * ranked.score")
    for name in ("probability", "weight"):
        if name in tables.types:
            sums |= {name: f"MAX(ranked.{name})", f"least_{name}": f"MIN(ranked.{name})"}
    if "cluster" in tables.types:
        sums["cluster"] = "MIN(ranked.cluster)"
    if tables.judged is not None:
        sums["unjudged"] = exact_sum(f"CASE WHEN {tables.relevance} IS NULL THEN ranked.share ELSE 0 END")
    keys = columns(tables.rankings, table="ranked")
    return f"""
    SELECT {keys}, COALESCE(ranked.label, {groups}) AS code,
        {select(sums)}
    FROM {tables.source(relevance=tables.judged is not None)}
    LEFT JOIN {attention} AS attention ON attention.place = ranked.place
    GROUP BY {keys}, ranked.label
    """


def _per_key(cells: Cells, name: str, first: Ints, what: str) -> Floats:
    """One number per ranking or request (beginning at `first`), from a column constant in it."""
    if name not in cells.names:
        return np.ones(len(first))
    if not len(first):
        return np.zeros(0)
    highest = np.maximum.reduceat(cells.floats(name), first)
    lowest = np.minimum.reduceat(cells.floats(f"least_{name}"), first)
    varying = int((highest != lowest).sum())
    if varying:
        raise EvenhandError(
            f"{name} differs between rows of the same {what} in {varying:,} of {len(first):,}. Give each {what} one {name}."
        )
    return np.asarray(highest, dtype=np.float64)


@dataclass(frozen=True)
class Exposed:
    """Attention on each group in each ranking, beside the target.

    Attributes
    ----------
    received : (..., G) attention on the items of each group; unlabelled items keep their rank and are left out.
    target : (..., G) share each group should get.
    items : (...,) items in each ranking, unlabelled ones included.
    protected : indices of the labels that together are the protected group, or None.
    """

    unlabelled: ClassVar[str] = "take attention, count in no share"

    received: Floats
    target: Floats
    items: Floats
    protected: tuple[int, ...] | None = None

    @classmethod
    def from_arrays(
        cls, labels: Any, target: Any = None, attention: Any = "geometric(stop=0.5)", protected: Any = None, groups: Any = None,
        relevance: Any = None,
    ) -> Exposed:  # fmt: skip
        """One ranking: labels by rank (None: unknown), `{group: share}` per rank, or an (n, g) array.

        >>> Exposed.from_arrays(["m", "f", None], target={"f": 0.5, "m": 0.5}).received.tolist()
        [0.25, 0.5]
        """
        placed = Placement.from_arrays(labels, groups=groups)
        shares = target_shares(target, placed.groups)
        placed = placed.with_groups(tuple(shares))
        tally = cls.from_placement(placed, parse(attention), np.array(list(shares.values())), relevance)
        codes = None if protected is None else side_codes("protected", protected, placed.groups)
        return replace(tally, received=tally.received[0], items=tally.items[0], protected=codes)

    @classmethod
    def from_placement(cls, placed: Placement, attention: Attention, target: Floats, relevance: Any = None) -> Exposed:
        """Attention on each group in every ranking of a placement, a block of rankings at a time."""
        received = np.zeros((len(placed.groups), len(placed))).T  # group by group, for numpy is slow along a short axis
        deepest = int(placed.lengths.max(initial=0))
        base = None if attention.needs_relevance else attention.weights(deepest)
        if base is None:
            grades = np.zeros(len(placed.codes)) if relevance is None else np.asarray(relevance, dtype=np.float64)
            if len(placed) > 1:
                raise EvenhandError(f"{attention} over arrays takes one ranking at a time. Use eh.exposure for many.")
            base = attention.weights(len(placed.codes), None if relevance is None else grades)
        for block in placed.batches():
            weights = base[: block.width]
            if block.rows is not None:
                received[block.where] = np.matmul(weights, np.nan_to_num(block.rows))
                continue
            for g in range(block.groups):
                received[block.where, g] = (block.codes == g) @ weights
        return cls(received, target, placed.lengths.astype(np.float64))

    @classmethod
    def from_sums(cls, sums: GroupExposure, policy: Policy, attention: AttentionSpec, target: Floats) -> Exposed:
        """One row per ranking, for metrics of single rankings; `target` is (G,), (Q, G) or (R, G)."""
        aim = target[sums.request_of] if target.ndim == 2 and len(target) == len(sums.requests) else target
        return cls(policy.assign_unlabelled(sums.attended[attention]), aim, sums.items.sum(-1), policy.protected)

    @cached_property
    def whole(self) -> Floats:
        return np.asarray(self.received.sum(-1))

    @cached_property
    def shares(self) -> Floats:
        """(..., G) each group's share of the attention on labelled items."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.received / self.whole[..., None])

    def side(self, of: Floats) -> Floats:
        """(...,) what the protected group holds of a quantity given per group."""
        if self.protected is None:
            raise EvenhandError(
                "This distance looks at one group. Pass protected= with its label, or use js, kl or tv."
            )
        return np.asarray(of[..., list(self.protected)].sum(-1))

    def others(self, of: Floats) -> Floats:
        """(...,) what all groups but the protected one hold of it."""
        return np.asarray(np.delete(of, list(self.protected or ()), axis=-1).sum(-1))

    def reason(self) -> str:
        return str(self.reasons().reshape(-1)[0]) if self.items.size else "empty"

    def reasons(self) -> npt.NDArray[Any]:
        lost = np.isnan(self.target).any(-1) | (self.target.sum(-1) == 0)
        lost = np.broadcast_to(lost, self.items.shape)
        return np.select(
            [self.items == 0, self.received.sum(-1) == 0, lost],
            ["empty", "no_labelled_items", "no_relevant_in_group"],
            default="",
        )


def side_codes(role: str, labels: Any, groups: Sequence[Any]) -> tuple[int, ...]:
    """Codes of a label, or of several merged, among the groups; an unknown label is refused."""
    if not len(groups):
        return ()
    return tuple(sorted({list(groups).index(label) for label in matches(role, labels, groups)}))


def two_sides(
    labels: Sequence[Any], protected: Any, versus: Any, *, needed: bool
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Codes of the protected labels and of those that they are compared with; None where that is open.

    Where `versus` is left out it is the one other label; of several, one must be named if two sides are `needed`.
    """
    versus = all_but(versus, protected, labels)
    first = None if protected is None else side_codes("protected", protected, labels)
    second = None if versus is None else side_codes("versus", versus, labels)
    if first is not None and second is None:
        others = tuple(i for i in range(len(labels)) if i not in first)
        second = others if len(others) <= 1 else None
        if second is None and needed:
            left = listing(repr(labels[i]) for i in others)
            raise EvenhandError(
                f"protected={protected!r} leaves several groups: {left}. Pass versus= with one of them, or '*' for all."
            )
    if first and second and set(first) & set(second):
        raise EvenhandError(f"protected={protected!r} and versus={versus!r} overlap. Pass two different groups.")
    return first, second


def target_shares(target: Any, groups: Sequence[Any]) -> dict[Any, float]:
    """Target share of every group seen or named: `"equal"`, or `{group: share}`, else zero."""
    if isinstance(target, str) and target == "equal":
        return {g: 1 / len(groups) for g in groups}
    if target is None:
        raise EvenhandError("target is missing. Pass {group: share}, or 'equal'.")
    if not isinstance(target, Mapping):
        raise EvenhandError(f"target={target!r} cannot be read. Pass {{group: share}}, or 'equal'.")
    try:
        shares = {g: float(s) for g, s in target.items()}
    except (TypeError, ValueError) as error:
        raise EvenhandError(f"target={target!r} holds shares that are not numbers. Pass {{group: share}}.") from error
    if not shares or not all(0 <= s <= 1 for s in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:  # as typed
        raise EvenhandError(
            f"target={dict(target)!r} is not a distribution. Pass shares of zero or more that add up to 1."
        )
    return {g: shares.get(g, 0.0) for g in dict.fromkeys([*groups, *shares])}


@dataclass(frozen=True)
class OrderMoments:
    """Exposure of groups over random orders of each ranking; only labelled items move, among the ranks they hold.

    Attributes
    ----------
    means : (R, G). variances : (R,) added up over groups.
    """

    means: Floats
    variances: Floats

    @classmethod
    def from_sums(cls, sums: GroupExposure, policy: Policy, attention: AttentionSpec) -> OrderMoments:
        """Exact where the rank alone decides: sums of n weights drawn without replacement."""
        items = policy.assign_unlabelled(sums.items)
        shares = items if sums.share_squares is None else policy.assign_unlabelled(sums.share_squares)
        weight, squares = (policy.assign_unlabelled(x[attention]).sum(-1) for x in (sums.attended, sums.squared))
        n = items.sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = np.nan_to_num(items * (weight / n)[:, None])
            spread = (squares - weight**2 / n) * (shares.sum(-1) - (items**2).sum(-1) / n) / (n - 1)
        return cls(means, np.where(n > 1, np.maximum(np.nan_to_num(spread), 0.0), 0.0))

    def variance_of_requests(self, sums: GroupExposure) -> Floats:
        """(Q,) the variance of a request's exposure, its draws in orders of their own."""
        return sums.sum_per_request(self.variances * sums.share**2)


@dataclass(frozen=True)
class Exposure(Summable):
    """Exposure that each group received and was due, weighted sums over requests.

    Every array but `sizes` is a sum over requests, so a resample of requests is a sum of rows.

    Attributes
    ----------
    weight : (...,) weight of the requests.
    received : (..., G) expected attention.
    utility : (..., G) relevance of all judged items; `gained`: relevance times attention of the ranked ones.
    due : (..., G) attention under the ideal policy.
    norms : (..., 5) per request, at the level asked for: |e|^2, e.e*, |e*|^2 and the part of |e|^2 that the small number of
        draws adds (each times the weight), and that last part times the weight squared.
    sizes : (G,) items of each group.
    protected, versus : indices of the labels on the two sides; None where nobody named them.
    """

    unlabelled: ClassVar[str] = "take attention, are left out or a group"
    axes: ClassVar[Mapping[str, int]] = {"weight": 0, "received": 1, "utility": 1, "gained": 1, "due": 1, "norms": 1}

    weight: Floats
    received: Floats
    utility: Floats | None = None
    gained: Floats | None = None
    due: Floats | None = None
    norms: Floats | None = None
    sizes: Floats | None = None
    protected: tuple[int, ...] | None = (0,)
    versus: tuple[int, ...] | None = (1,)

    @classmethod
    def from_arrays(
        cls, received: Any, utility: Any = None, gained: Any = None, due: Any = None, sizes: Any = None,
        protected: int = 0, versus: int = 1,
    ) -> Exposure:  # fmt: skip
        """Expected attention per group or item, with what else a metric needs, in the same order.

        >>> Exposure.from_arrays([1.5, 0.5]).received.tolist()
        [1.5, 0.5]
        """
        arrays = {"received": received, "utility": utility, "gained": gained, "due": due, "sizes": sizes}
        amounts = {name: None if x is None else _amounts(name, x) for name, x in arrays.items()}
        length = len(amounts["received"])  # type: ignore[arg-type]
        wrong = [name for name, x in amounts.items() if x is not None and len(x) != length]
        if wrong:
            raise EvenhandError(f"{listing(wrong)} and received differ in length. Pass one number per group in each.")
        sides = [(i,) if 0 <= i < length else () for i in (protected, versus)]
        return cls(np.array(1.0), protected=sides[0], versus=sides[1], **amounts)  # type: ignore[arg-type]

    @classmethod
    def from_sums(
        cls, sums: GroupExposure, policy: Policy, attention: AttentionSpec, sizes: Floats, norms: Literal["group", "item"] | None = None,
        shares: Floats | None = None, moments: OrderMoments | None = None,
    ) -> Exposure:  # fmt: skip
        """One row per request, weights applied: what a resample of requests adds up.

        `norms` are those of each request. With `shares` (G,) a group is due its share of all labelled exposure of the request,
        not what relevance says. With `moments`, what is received and its norms are means over random orders.
        """
        w = sums.weight[:, None]
        in_order = policy.assign_unlabelled(sums.attended[attention]) if moments is None else moments.means
        received = sums.expected(in_order)
        due = policy.assign_unlabelled(sums.due[attention]) if attention in sums.due else None
        if shares is not None:
            due = received.sum(-1, keepdims=True) * shares
        squares = None
        if norms is not None:
            each = (
                _item_norms(sums, attention, by_chance=moments is not None)
                if norms == "item"
                else _group_norms(sums, in_order, received, due, moments)
            )
            squares = np.column_stack([w * each, sums.weight**2 * each[:, 3]])
        return cls(
            weight=sums.weight,
            received=w * received,
            utility=None if sums.worth is None else w * policy.assign_unlabelled(sums.worth),
            gained=w * sums.expected(policy.assign_unlabelled(sums.gained[attention]))
            if attention in sums.gained
            else None,
            due=None if due is None else w * due,
            norms=squares,
            sizes=policy.assign_unlabelled(sizes),
            protected=policy.protected,
            versus=policy.versus,
        )

    def both(self, of: Floats | None, what: str = "relevance") -> tuple[Floats, Floats]:
        """A quantity of the protected side and of the other side, per unit of request weight."""
        if of is None:
            raise EvenhandError(f"This metric needs {what}. Pass {what}=.")
        protected, versus = self._sides()
        received = [np.asarray(of[..., side].sum(-1) / self.weight) for side in (protected, versus)]
        return received[0], received[1]

    def side_sizes(self) -> tuple[float, float]:
        if self.sizes is None:
            raise EvenhandError("This metric needs the number of items of each group. Pass sizes=.")
        protected, versus = self._sides()
        return float(self.sizes[protected].sum()), float(self.sizes[versus].sum())

    def _sides(self) -> tuple[list[int], list[int]]:
        if self.protected is None or self.versus is None:
            raise EvenhandError(
                "This metric compares two groups. Pass protected=, and versus= where several groups are left."
            )
        return list(self.protected), list(self.versus)

    def reasons(self) -> npt.NDArray[Any]:
        return np.where(self.weight == 0, "zero_weight", "")


@dataclass(frozen=True)
class Amortised(Summable):
    """Attention and predicted utility of each group (or item), added up over rankings.

    Attributes
    ----------
    attention, utility : (..., G). Where shares are compared ranking by ranking each ranking's add up to its weight.
    shown : whether anything was ranked at all.
    """

    unlabelled: ClassVar[str] = "take attention, are left out or a group"
    axes: ClassVar[Mapping[str, int]] = {"attention": 1, "utility": 1}

    attention: Floats
    utility: Floats
    shown: bool = True

    @classmethod
    def from_arrays(cls, attention: Any, utility: Any) -> Amortised:
        """Attention and predicted utility, in the same order of groups or items.

        >>> Amortised.from_arrays([2, 1], [4, 2]).utility.tolist()
        [4.0, 2.0]
        """
        received, worth = _amounts("attention", attention), _amounts("utility", utility)
        if len(received) != len(worth):
            raise EvenhandError("attention and utility differ in length. Pass one number per group in both.")
        return cls(received, worth, bool(received.any()))

    @classmethod
    def from_sums(cls, sums: GroupExposure, policy: Policy, attention: AttentionSpec, *, pooled: bool) -> Amortised:
        """Attention and predicted utility per request, as shares of each ranking unless `pooled`."""
        received, utility = policy.assign_unlabelled(sums.attended[attention]), policy.assign_unlabelled(sums.scores)  # type: ignore[arg-type]
        shown = bool(sums.attended[attention].any())
        if not pooled:
            with np.errstate(divide="ignore", invalid="ignore"):
                received = received / received.sum(-1, keepdims=True)
                utility = utility / utility.sum(-1, keepdims=True)
            whole = np.isfinite(received).all(-1) & np.isfinite(utility).all(-1)
            received, utility = (np.where(whole[:, None], x, 0.0) for x in (received, utility))
        w = sums.weight[:, None]
        return cls(w * sums.expected(received), w * sums.expected(utility), shown)

    def reason(self) -> str:
        if not self.attention.shape[-1]:
            return "no_labelled_items" if self.shown else "empty"
        return "" if self.shown else "empty"

    def reasons(self) -> npt.NDArray[Any]:
        return np.where(self.attention.sum(-1) > 0, "", "no_labelled_items")


def targets(sums: GroupExposure, policy: Policy, target: Any, sizes: Floats) -> Floats:
    """Target shares: (G,) of the population or as typed, (R, G) per list, (Q, G) of the relevant."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if isinstance(target, Mapping):
            return np.array([float(target.get(g, 0.0)) for g in policy.labels])
        if target == "equal":
            return np.full(len(policy.labels), 1 / max(1, len(policy.labels)))
        if target == "population":
            amounts = policy.assign_unlabelled(sizes)
        elif target == "ranking":
            amounts = policy.assign_unlabelled(sums.items)
        else:
            amounts = policy.assign_unlabelled(sums.relevant)  # type: ignore[arg-type]
        return np.asarray(amounts / amounts.sum(-1, keepdims=True))


def _group_norms(
    sums: GroupExposure, by_ranking: Floats, received: Floats, due: Floats | None, moments: OrderMoments | None
) -> Floats:
    """(Q, 4) |e|^2, e.e*, |e*|^2 over groups, and what few draws add to the first."""
    target = np.zeros_like(received) if due is None else due
    draw_squares = sums.expected((by_ranking**2).sum(-1))
    square = (received**2).sum(-1)
    if moments is not None:
        square = square + moments.variance_of_requests(sums)
        draw_squares = draw_squares + sums.expected(moments.variances)
    products = (received * target).sum(-1), (target**2).sum(-1)
    return np.column_stack([square, *products, _excess(sums, draw_squares - square)])


def _item_norms(sums: GroupExposure, attention: AttentionSpec, *, by_chance: bool) -> Floats:
    """(Q, 4) the same over items."""
    norms = sums.norms[attention]
    first = 3 if by_chance else 0
    square, product = norms[:, first] / sums.mass**2, norms[:, first + 1] / sums.mass
    draw_squares = norms[:, 2] / sums.mass  # with equal probabilities of 1: the mean over draws of a draw's square
    target = sums.due_norms.get(attention, np.zeros(len(sums.requests)))
    return np.column_stack([square, product, target, _excess(sums, draw_squares - square)])


def _excess(sums: GroupExposure, spread: Floats) -> Floats:
    """(Q,) expected excess of |e|^2 of a mean of S draws over the policy's: the variance over S.

    Draws with known probabilities are the policy itself, and exceed nothing. A single draw says nothing: NaN.
    """
    if sums.known_probability:
        return np.zeros_like(spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums.draws > 1, spread / (sums.draws - 1), np.nan)


def _amounts(name: str, x: Any) -> Floats:
    try:
        amounts = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EvenhandError(f"{name} must be numbers. Pass one number per group.") from error
    if amounts.ndim != 1 or not np.isfinite(amounts).all() or (amounts < 0).any():
        raise EvenhandError(f"{name} must be a list of finite numbers of zero or more. Pass one number per group.")
    return amounts

"""Attention that groups received in each ranking and were due in each request, by one query and one stream.

The ideal policy ranks by falling relevance with ties in random order, so what is due to an item depends on its request
and grade alone: whole requests are streamed as counts of items by grade and group (`JudgedRequests`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.attention import Attention
from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import UNKNOWN_LABEL, Unknown
from evenhand.sources.sql import columns, exact_sum, select
from evenhand.tallies.ragged import Ints, run_bounds, sums_by
from evenhand.tallies.requests import Requests

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch, Cells
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
        first = run_bounds(ranking)[:-1]
        keys = cells.select(rankings).take(first)
        starts = run_bounds(keys.runs(requests))
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


def scatter(parts: Iterable[tuple[Ints, Floats]], rows: int, width: int) -> Floats:
    """(rows, width) values at the cells that each part names; zero elsewhere.

    >>> scatter([(np.array([3]), np.array([0.5]))], 2, 2).tolist()
    [[0.0, 0.0], [0.0, 0.5]]
    """
    table = np.zeros(rows * width)
    for cells, values in parts:
        table[cells] = values
    return table.reshape(rows, width)


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
class JudgedRequests:
    """What is due to an item of each grade in the ranked requests.

    Attributes
    ----------
    requests : (U,) rows with the distinct ranked requests; which : (Q,) the one that each request of a slice is.
    grades : columns `number` (of the request), `relevance`, `due_0`, ...
    """

    requests: Cells
    which: Ints
    grades: Mapping[str, Any]


def judge_requests(
    tables: JudgedRankings, exposure: GroupExposure, required: RequiredSums
) -> tuple[GroupExposure, JudgedRequests]:
    """Exposure with the judgments of every request (zeros where there is none): one stream over whole requests."""
    which, requests = exposure.keys.take(exposure.request_starts[:-1]).numbered(["request"])
    specs = required.among(required.due)
    groups = len(exposure.labels)
    judge = partial(_judge_batch, specs=tuple(specs), groups=groups)
    query = judged_query(tables, groups, tables.engine.bring(requests))
    parts = tables.engine.tallied(query, ["number"], ["falling"], judge)

    def sums(name: str) -> Floats:
        return np.asarray(scatter(((part.cells, part.sums[name]) for part in parts), len(requests), groups + 1)[which])

    judged, norms = np.zeros(len(requests), dtype=bool), np.zeros((len(specs), len(requests)))
    for part in parts:
        judged[part.numbers], norms[:, part.numbers] = True, part.norms
    names = ["number", "relevance", *(f"due_{j}" for j in range(len(specs)))]
    grades = {n: np.concatenate([part.grades[n] for part in parts]) if parts else np.zeros(0) for n in names}
    exposure = replace(
        exposure,
        judged=judged[which],
        worth=sums("worth"),
        relevant=sums("relevant"),
        due={spec: sums(f"due_{j}") for j, spec in enumerate(specs)},
        due_norms={spec: norms[j][which] for j, spec in enumerate(specs)},
    )
    return exposure, JudgedRequests(requests, which, grades)


def judged_query(tables: JudgedRankings, groups: int, numbers: str) -> str:
    """SQL of items by request, grade and group `code`, of the ranked requests in `numbers`."""
    items = exact_sum("judged.share") if tables.soft else "COUNT(*)"
    return f"""
    SELECT numbers.number, -counted.relevance AS falling, COALESCE(counted.label, {groups}) AS code, counted.items
    FROM (
        SELECT judged.request, judged.relevance, judged.label, CAST({items} AS DOUBLE) AS items
        FROM ({tables.judged_items}) AS judged
        GROUP BY judged.request, judged.relevance, judged.label
    ) AS counted
    JOIN {numbers} AS numbers ON numbers.request = counted.request
    """


@dataclass(frozen=True)
class BatchSums:
    """Sums of a batch of requests, by request and group (`cells`) and by request (`numbers`)."""

    cells: Ints
    sums: Mapping[str, Floats]
    numbers: Ints
    norms: Floats
    grades: Mapping[str, Any]


def _judge_batch(batch: Batch, specs: tuple[AttentionSpec, ...], groups: int) -> BatchSums:
    """Sums over a batch of whole requests, from counts by grade and group."""
    number, grade, items = batch.integers("number"), -batch.floats("falling"), batch.floats("items")
    request = np.repeat(np.arange(batch.groups), np.diff(batch.starts))
    bounds = run_bounds(request, grade)  # cells of one request and grade
    first = bounds[:-1]
    block = np.repeat(np.arange(len(first)), np.diff(bounds))
    many = np.rint(np.add.reduceat(items, first)).astype(np.int64) if len(first) else np.zeros(0, dtype=np.int64)
    owner = request[first]
    due = [due_by_grade(spec, many, grade[first], owner) for spec in specs]
    cells, at = np.unique(number * (groups + 1) + batch.integers("code"), return_inverse=True)
    values = {"worth": grade, "relevant": (grade > 0).astype(np.float64)}
    values |= {f"due_{j}": weights[block] for j, weights in enumerate(due)}
    return BatchSums(
        cells,
        {name: sums_by(at.reshape(-1), items * each, len(cells)) for name, each in values.items()},
        number[batch.starts[:-1]],
        np.array([sums_by(owner, many * t * t, batch.groups) for t in due]).reshape(-1, batch.groups),
        {"number": number[first], "relevance": grade[first], **{f"due_{j}": t for j, t in enumerate(due)}},
    )


def due_by_grade(spec: AttentionSpec, many: Ints, grade: Floats, request: Ints) -> Floats:
    """(blocks,) mean attention on the ranks of each request and grade, best grade first.

    `many` items are in each block. Items that tie have the same grade, so whoever stands where, the weights of their ranks
    are the same and each gets their mean.
    """
    if not len(many):
        return np.zeros(0)
    heads = run_bounds(request)
    going_on, survival = np.ones(len(many)), np.ones(len(many))
    for stopped_at, share in spec.attention.keeps().items():
        hit = grade > 0 if stopped_at is None else grade == stopped_at
        going_on = np.where(hit, share, going_on)
        survival = survival * share ** _above(np.where(hit, many, 0), heads).astype(np.float64)
    return survival * _mean_weights(spec, _above(many, heads), many, going_on)


def _above(many: Ints, heads: Ints) -> Ints:
    """(blocks,) items in better blocks of the same request; requests begin at `heads`."""
    before = np.cumsum(many) - many
    return np.asarray(before - np.repeat(before[heads[:-1]], np.diff(heads)))


def _mean_weights(spec: AttentionSpec, above: Ints, many: Ints, going_on: Floats) -> Floats:
    """(blocks,) mean weight of `many` ranks below `above`; a share of readers goes on each time.

    Blocks of the same ranks are worked out once: there are far fewer of them than items.
    """
    shares, share = np.unique(going_on, return_inverse=True)
    longest = int(many.max()) + 1
    distinct, which = np.unique((above * longest + many) * len(shares) + share.reshape(-1), return_inverse=True)
    first, sizes = np.divmod(distinct // len(shares), longest)
    ends = np.cumsum(sizes)
    within = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    weights = spec.by_place(int((first + sizes).max()))[np.repeat(first, sizes) + within]
    weights = weights * np.repeat(shares[distinct % len(shares)], sizes) ** within.astype(np.float64)
    return np.asarray((np.add.reduceat(weights, ends - sizes) / sizes)[which.reshape(-1)])


def refuse_strangers(exposure: GroupExposure, first_judged: Any) -> None:
    """Judgments of other requests than those ranked are a mistake in the ids, not a finding."""
    none = exposure.judged is not None and not exposure.judged.any()
    if none and first_judged is not None and len(exposure.requests):
        raise EvenhandError(
            f"relevance judges none of the ranked requests: it has {first_judged!r}, the rankings have "
            f"{exposure.requests[0]!r}. Use the same request ids in both."
        )

"""Attention that groups received in each ranking, by one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.attention import Attention
from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import UNKNOWN_LABEL, Unknown
from evenhand.sources.sql import columns, exact_sum, select
from evenhand.tallies.ragged import Ints
from evenhand.tallies.requests import Requests

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

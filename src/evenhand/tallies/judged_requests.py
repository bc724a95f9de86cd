"""Judgments by request and group: relevance, relevant items, exposure in the ideal policy.

The ideal policy ranks by falling relevance with ties in random order, so what is due to an item depends on its request
and grade alone: whole requests are streamed as counts of items by grade and group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.sources.sql import exact_sum
from evenhand.tallies.group_exposure import AttentionSpec, GroupExposure, RequiredSums, scatter
from evenhand.tallies.ragged import Bools, Ints, run_bounds, sums_by

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch, Cells
    from evenhand.sources.judged_rankings import JudgedRankings


@dataclass(frozen=True)
class JudgedRequests:
    """Judgments of the ranked requests, added up.

    Attributes
    ----------
    requests : (U,) rows with the distinct ranked requests; which : (Q,) the one that each request of a slice is.
    judged : (U,) whether anybody judged an item. worth, relevant, due : (U, G + 1).
    due_norms : (U,) by attention. grades : columns `number`, `relevance`, `due_0`, ...: what is due to an item of a grade.
    """

    requests: Cells
    which: Ints
    judged: Bools
    worth: Floats
    relevant: Floats
    due: Mapping[AttentionSpec, Floats]
    due_norms: Mapping[AttentionSpec, Floats]
    grades: Mapping[str, Any]

    @classmethod
    def from_rankings(cls, tables: JudgedRankings, exposure: GroupExposure, required: RequiredSums) -> JudgedRequests:
        """One stream over whole requests of the judgments, of those that are ranked."""
        which, requests = exposure.keys.take(exposure.request_starts[:-1]).numbered(["request"])
        specs = required.among(required.due)
        groups = len(exposure.labels)
        numbers = tables.engine.bring(requests)
        judge = partial(_judge_batch, specs=tuple(specs), groups=groups)
        parts = tables.engine.tallied(query(tables, groups, numbers), ["number"], ["falling"], judge)

        def sums(name: str) -> Floats:
            return scatter(((part.cells, part.sums[name]) for part in parts), len(requests), groups + 1)

        judged, norms = np.zeros(len(requests), dtype=bool), np.zeros((len(specs), len(requests)))
        for part in parts:
            judged[part.numbers], norms[:, part.numbers] = True, part.norms
        names = ["number", "relevance", *(f"due_{j}" for j in range(len(specs)))]
        return cls(
            requests,
            which,
            judged,
            sums("worth"),
            sums("relevant"),
            {spec: sums(f"due_{j}") for j, spec in enumerate(specs)},
            dict(zip(specs, norms, strict=True)),
            {n: np.concatenate([part.grades[n] for part in parts]) if parts else np.zeros(0) for n in names},
        )

    def add_to(self, exposure: GroupExposure) -> GroupExposure:
        """The exposure of groups with the judgments of every request; zeros where there is none."""
        which = self.which
        return replace(
            exposure,
            judged=self.judged[which],
            worth=self.worth[which],
            relevant=self.relevant[which],
            due={spec: sums[which] for spec, sums in self.due.items()},
            due_norms={spec: sums[which] for spec, sums in self.due_norms.items()},
        )


def query(tables: JudgedRankings, groups: int, numbers: str) -> str:
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

"""Judgments by request and group: relevance, relevant items, and exposure under the ideal policy.

The ideal policy ranks by falling relevance with ties in random order, so what is due to an item depends on its request
and grade alone: whole requests are streamed as counts of items by grade and group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.sources.sql import exact_sum
from evenhand.tallies.group_exposure import AttentionSpec, GroupExposure, RequiredSums, grouped_sums, run_starts

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch, Cells
    from evenhand.sources.judged_rankings import JudgedRankings

Ints = npt.NDArray[np.int64]


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
    judged: npt.NDArray[np.bool_]
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
        counted = RequestBatch(tuple(specs), groups)
        numbers = tables.engine.bring(requests)
        parts = tables.engine.tallied(query(tables, groups, numbers), ["number"], ["falling"], counted)
        width = groups + 1

        def dense(name: str) -> Floats:
            sums = np.zeros(len(requests) * width)
            for part in parts:
                sums[part.cells] = part.sums[name]
            return sums.reshape(-1, width)

        def joined(arrays: Sequence[Any]) -> Any:
            return np.concatenate(arrays) if arrays else np.zeros(0)

        number = joined([part.numbers for part in parts]).astype(np.int64)
        judged, norms = np.zeros(len(requests), dtype=bool), np.zeros((len(specs), len(requests)))
        judged[number] = True
        for part in parts:
            norms[:, part.numbers] = part.norms
        return cls(
            requests,
            which,
            judged,
            dense("worth"),
            dense("relevant"),
            {spec: dense(f"due_{j}") for j, spec in enumerate(specs)},
            dict(zip(specs, norms, strict=True)),
            {name: joined([part.grades[name] for part in parts]) for name in counted.grade_columns},
        )

    def beside(self, exposure: GroupExposure) -> GroupExposure:
        """The exposure of groups with what is judged of every request; requests without a judgment have zeros."""
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
    """Items by request, grade and group (its `code`), of the ranked requests, which have `numbers`."""
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
    """Sums of a batch of whole requests: by request and group (`cells`), and by request (`numbers`)."""

    cells: Ints
    sums: Mapping[str, Floats]
    numbers: Ints
    norms: Floats
    grades: Mapping[str, Any]


@dataclass(frozen=True)
class RequestBatch:
    """Turns a batch of counts by grade and group into sums."""

    specs: tuple[AttentionSpec, ...]
    groups: int

    @property
    def grade_columns(self) -> list[str]:
        return ["number", "relevance", *(f"due_{j}" for j in range(len(self.specs)))]

    def __call__(self, batch: Batch) -> BatchSums:
        number, grade, items = batch.integers("number"), -batch.floats("falling"), batch.floats("items")
        width = self.groups + 1
        request = np.repeat(np.arange(batch.groups), np.diff(batch.starts))
        changed = (np.diff(grade, prepend=np.nan) != 0) | (np.diff(request, prepend=-1) != 0)
        block = np.cumsum(changed) - 1  # cells of one request and grade
        first = run_starts(block)[:-1]
        many = np.rint(np.add.reduceat(items, first)).astype(np.int64) if len(first) else np.zeros(0, dtype=np.int64)
        due = [due_by_grade(spec, many, grade[first], request[first]) for spec in self.specs]
        key = number * width + batch.integers("code")
        cells, at = np.unique(key, return_inverse=True)
        values = {"worth": grade, "relevant": (grade > 0).astype(np.float64)}
        values |= {f"due_{j}": weights[block] for j, weights in enumerate(due)}
        owner = request[first]
        return BatchSums(
            cells,
            {name: grouped_sums(at.reshape(-1), items * each, len(cells)) for name, each in values.items()},
            number[batch.starts[:-1]],
            np.array([grouped_sums(owner, many * t * t, batch.groups) for t in due]).reshape(-1, batch.groups),
            {"number": number[first], "relevance": grade[first], **{f"due_{j}": t for j, t in enumerate(due)}},
        )


def due_by_grade(spec: AttentionSpec, many: Ints, grade: Floats, request: Ints) -> Floats:
    """(blocks,) mean attention on the ranks that the items of each request and grade share, best grade of a request first.

    `many` items are in each block. Items that tie have the same grade, so whoever stands where, the weights of their ranks
    are the same and each gets their mean.
    """
    if not len(many):
        return np.zeros(0)
    heads = run_starts(request)
    going_on, survival = np.ones(len(many)), np.ones(len(many))
    for stopped_at, share in spec.attention.keeps().items():
        hit = grade > 0 if stopped_at is None else grade == stopped_at
        going_on = np.where(hit, share, going_on)
        survival = survival * share ** _above(np.where(hit, many, 0), heads).astype(np.float64)
    return survival * _mean_weights(spec, _above(many, heads), many, going_on)


def _above(many: Ints, heads: Ints) -> Ints:
    """(blocks,) how many items the better blocks of the same request have; requests begin at `heads`."""
    before = np.cumsum(many) - many
    return np.asarray(before - np.repeat(before[heads[:-1]], np.diff(heads)))


def _mean_weights(spec: AttentionSpec, above: Ints, many: Ints, going_on: Floats) -> Floats:
    """(blocks,) mean weight of `many` ranks below `above`; of each item a share of readers goes on to the next.

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

"""What judgments say of each request and group: relevance, relevant items, and the exposure under the ideal policy.

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
    SELECT numbers.number, -judged.relevance AS falling, COALESCE(judged.label, {groups}) AS code,
        CAST({items} AS DOUBLE) AS items
    FROM ({tables.judged_items}) AS judged
    JOIN {numbers} AS numbers ON numbers.request = judged.request
    GROUP BY numbers.number, judged.relevance, judged.label
    """


@dataclass(frozen=True)
class BatchSums:
    """What a batch of whole requests adds: sums by request and group (`cells`), and by request (`numbers`)."""

    cells: Ints
    sums: Mapping[str, Floats]
    numbers: Ints
    norms: Floats
    grades: Mapping[str, Any]


@dataclass(frozen=True)
class RequestBatch:
    """What turns a batch of counts by grade and group into sums."""

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
    ends = np.cumsum(many)
    of = np.repeat(np.arange(len(many)), many)  # the block of every item
    heads = run_starts(request)[:-1]
    above = (
        ends - many - np.repeat((ends - many)[heads], np.diff(np.append(heads, len(many))))
    )  # items of better grades
    within = np.arange(len(of)) - np.repeat(ends - many, many)
    rank = above[of] + within
    weights = spec.by_place(int(rank.max(initial=-1)) + 1)[rank]
    for kept_grade, going_on in spec.attention.keeps().items():
        hit = grade > 0 if kept_grade is None else grade == kept_grade
        stopped = np.where(hit, many, 0)
        before = np.cumsum(stopped) - stopped
        before = before - np.repeat(before[heads], np.diff(np.append(heads, len(many))))
        weights = weights * going_on ** (before[of] + np.where(hit[of], within, 0)).astype(np.float64)
    return np.asarray(np.add.reduceat(weights, ends - many) / many)


def refuse_strangers(exposure: GroupExposure, first_judged: Any) -> None:
    """Judgments of other requests than those ranked are a mistake in the ids, not a finding."""
    none = exposure.judged is not None and not exposure.judged.any()
    if none and first_judged is not None and len(exposure.requests):
        raise EvenhandError(
            f"relevance judges none of the ranked requests: it has {first_judged!r}, the rankings have "
            f"{exposure.requests[0]!r}. Use the same request ids in both."
        )

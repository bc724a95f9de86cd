"""Pairs of items per request and groups, and those with the more relevant item ranked above.

Counted by one loop over whole requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import UNKNOWN_LABEL, Unknown, in_order
from evenhand.sources.sql import columns
from evenhand.tallies.exposure import two_sides
from evenhand.tallies.ragged import Ints, batches_of_rows, cells_of, order_by, starts_of
from evenhand.tallies.requests import Requests, Summable, sort_heads

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch, Cells
    from evenhand.sources.judged_rankings import Judgments, MissingRelevance
    from evenhand.sources.labels import CodedLabels
    from evenhand.sources.rankings import Rankings


@dataclass(frozen=True)
class Pairs(Summable):
    """How often an item of one group, more relevant than one of another, stood above it.

    Attributes
    ----------
    wins : (..., g, g) pairs (more relevant, less relevant) that are in the right order; a tied score counts one half.
    pairs : (..., g, g) all such pairs. Leading axes are requests, replicates or both.
    groups : the labels; first axis the more relevant item, second the less relevant one.
    protected, versus : indices of the two sides.
    """

    unlabelled: ClassVar[str] = "are in no pair, or are a group"
    looks_at: ClassVar[str] = "pairs of items"
    always: ClassVar[frozenset[str]] = frozenset({"relevance", "labels"})
    axes: ClassVar[Mapping[str, int]] = {"wins": 2, "pairs": 2}

    wins: Floats
    pairs: Floats
    groups: tuple[Any, ...]
    protected: int = -1
    versus: int = -1

    @classmethod
    def from_arrays(
        cls, scores: Any, relevance: Any, groups: Any, protected: Any = None, versus: Any = None, requests: Any = None
    ) -> Pairs:
        """Tally plain arrays, one entry per item; `requests` tells lists apart.

        >>> found = Pairs.from_arrays([4, 3, 2, 1], [1, 0, 1, 0], ["U", "U", "P", "P"], protected="P")
        >>> found.wins.tolist(), found.pairs.tolist()
        ([[1.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]])
        """
        score, grade = (np.asarray(a, dtype=np.float64) for a in (scores, relevance))
        labels = list(groups)
        if not len(score) == len(grade) == len(labels):
            raise EvenhandError(
                f"There are {len(score):,} scores, {len(grade):,} relevances and {len(labels):,} groups. Pass one of each per item."
            )
        if np.isnan(score).any() or np.isnan(grade).any():
            raise EvenhandError("scores or relevance hold NaN. Leave items without a score out.")
        distinct = in_order({g for g in labels if g is not None})
        codes = np.array([distinct.index(g) if g is not None else -1 for g in labels], dtype=np.int64)
        where = (
            np.zeros(len(score), dtype=np.int64) if requests is None else np.unique(requests, return_inverse=True)[1]
        )
        wins, pairs = counted_pairs(np.asarray(where), score, grade, codes, len(distinct))
        return cls(wins.sum(0), pairs.sum(0), tuple(distinct)).between(protected, versus)

    def between(self, protected: Any, versus: Any = None) -> Pairs:
        """This tally with two sides named; `versus` may be left out when one other group exists."""
        if protected is None:
            return self
        if versus is None:
            others = [g for g in self.groups if g != protected]
            if len(others) > 1:
                raise EvenhandError(
                    f"There are {len(others)} groups beside {protected!r}. Name one of them as versus=."
                )
            versus = others[0] if others else None
        place = {g: i for i, g in enumerate(self.groups)}
        return replace(self, protected=place.get(protected, -1), versus=place.get(versus, -1))

    def accuracy(self, above: int, below: int) -> Floats:
        """Share of pairs in the right order; NaN where there is none, or no such group."""
        if above < 0 or below < 0:
            return np.full(self.pairs.shape[:-2], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.wins[..., above, below] / self.pairs[..., above, below])

    def cell(self, above: int, below: int | None = None) -> Pairs:
        """The pairs of two groups alone, or of a group and anyone, as one cell."""
        below_ones = slice(None) if below is None else [below]
        wins, pairs = (x[..., above, below_ones].sum(-1)[..., None, None] for x in (self.wins, self.pairs))
        return replace(self, wins=wins, pairs=pairs, groups=(self.groups[above],), protected=-1, versus=-1)

    def equally_weighted(self) -> Pairs:
        """Every request with a weight of one, however many pairs it has: shares instead of wins."""
        has_pairs = self.pairs > 0
        shares = np.divide(self.wins, self.pairs, out=np.zeros_like(self.wins), where=has_pairs)
        return replace(self, wins=shares, pairs=has_pairs.astype(np.float64))

    def count(self, *, within: bool = True, between: bool = True) -> Floats:
        """(...,) pairs within or between the two sides; all where no sides were named."""
        named = [i for i in (self.versus, self.protected) if i >= 0]
        if not named:
            return np.asarray(self.pairs.sum((-1, -2)))
        cells = [(i, j) for i in named for j in named if (within if i == j else between)]
        return np.asarray(sum((self.pairs[..., i, j] for i, j in cells), np.zeros(self.pairs.shape[:-2])))

    def reason(self) -> str:
        return "" if self.pairs.any() else "no_pairs"


def counted_pairs(request: Ints, score: Floats, relevance: Floats, group: Ints, groups: int) -> tuple[Floats, Floats]:
    """Wins and pairs (Q, g, g) in O(n log n); request and group are codes, -1 is unknown.

    Two items of different relevance differ first at one bit of their relevance rank. Level by level, items that agree
    above that bit, a family, stand together in order of score, and running counts of those with a 0 there tell every
    item with a 1 how many it beats.
    """
    requests = int(request.max()) + 1 if len(request) else 0
    is_labelled = group >= 0
    if not is_labelled.all():
        request, group = request[is_labelled], group[is_labelled]
        score, relevance = score[is_labelled], relevance[is_labelled]
    wins, pairs = np.zeros((requests, groups, groups)), np.zeros((requests, groups, groups))
    if not len(request):
        return wins, pairs
    grades = np.unique(relevance)
    # Ranks among all requests order the items of each; narrow integers are sorted in linear time.
    rank = np.searchsorted(grades, relevance).astype(np.min_scalar_type(len(grades)))
    order = order_by(request, score)
    request, score, group, rank = request[order], score[order], group[order], rank[order]
    for level in range((len(grades) - 1).bit_length()):
        bit, family = ((rank >> level) & 1).astype(bool), rank >> (level + 1)
        order = np.argsort(family, kind="stable")  # those of a family stay in order of request and score
        _add_level(wins, pairs, request[order], family[order], score[order], bit[order], group[order])
    return wins, pairs


def _add_level(
    wins: Floats,
    pairs: Floats,
    request: Ints,
    family: npt.NDArray[Any],
    score: Floats,
    bit: npt.NDArray[np.bool_],
    group: Ints,
) -> None:
    """Add the pairs that differ first at this bit; rows are sorted by family, request, score."""
    requests, groups, _ = wins.shape
    better = np.flatnonzero(bit)
    is_first = np.ones(len(bit), dtype=bool)
    is_first[1:] = (request[1:] != request[:-1]) | (family[1:] != family[:-1])
    run, run_end = _spans(is_first, better)
    is_first[1:] |= score[1:] != score[:-1]
    tie, tie_end = _spans(is_first, better)
    cell = request[better] * groups + group[better]
    for g in range(groups):
        seen = np.zeros(len(bit) + 1, dtype=np.int64)
        np.cumsum(~bit & (group == g), out=seen[1:])  # less relevant items of the group up to each row
        before = seen[run]
        won = (seen[tie] + seen[tie_end]) / 2 - before  # a tied score counts one half
        for total, counts in ((wins, won), (pairs, seen[run_end] - before)):
            total[:, :, g] += np.bincount(cell, counts, minlength=requests * groups).reshape(requests, groups)


def _spans(is_first: npt.NDArray[np.bool_], at: Ints) -> tuple[Ints, Ints]:
    """Start and end of the runs that hold the rows `at`; `is_first` marks where a run begins."""
    starts = np.flatnonzero(is_first)
    run = np.searchsorted(starts, at, side="right")
    return starts[run - 1], np.append(starts, len(is_first))[run]


def sampled_pairs(
    request: Ints, score: Floats, relevance: Floats, group: Ints, groups: int, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Wins and pairs from `draws` less relevant items per item, drawn with replacement.

    Rows come sorted by request and relevance. A draw stands for as many pairs as there are opponents per draw, so that the
    sums estimate those of all pairs.
    """
    requests = int(request.max()) + 1 if len(request) else 0
    is_labelled = group >= 0
    request, group = request[is_labelled], group[is_labelled]
    score, relevance = score[is_labelled], relevance[is_labelled]
    wins, pairs = np.zeros((2, requests, groups, groups))
    new_request = np.concatenate([[True], request[1:] != request[:-1]])[: len(request)]
    new_grade = new_request | np.concatenate([[True], relevance[1:] != relevance[:-1]])[: len(request)]
    row = np.arange(len(request))
    first = np.maximum.accumulate(np.where(new_request, row, 0))
    below = np.maximum.accumulate(np.where(new_grade, row, 0)) - first
    better = np.flatnonzero(below)
    reach, at_once = np.cumsum(np.minimum(below[better], draws)), 1 << 21  # draws
    for some in np.split(better, np.searchsorted(reach, np.arange(at_once, reach.max(initial=0), at_once))):
        if not len(some):
            continue
        many = np.minimum(below[some], draws)
        upper, weight = np.repeat(some, many), np.repeat(below[some] / many, many)
        place = np.arange(len(upper)) - np.repeat(np.cumsum(many) - many, many)
        drawn = np.floor(rng.random(len(upper)) * below[upper]).astype(np.int64)
        lower = first[upper] + np.where(below[upper] > draws, drawn, place)
        right = (score[upper] > score[lower]) + 0.5 * (score[upper] == score[lower])
        base = int(request[some[0]])
        cell = ((request[upper] - base) * groups + group[upper]) * groups + group[lower]
        span = slice(base, int(request[some[-1]]) + 1)
        shape = wins[span].shape
        wins[span] += np.bincount(cell, right * weight, minlength=wins[span].size).reshape(shape)
        pairs[span] += np.bincount(cell, weight, minlength=pairs[span].size).reshape(shape)
    return wins, pairs


@dataclass(frozen=True)
class ComparedGroups:
    """The protected labels, those they are compared with, and what becomes of unlabelled items."""

    protected: Any
    versus: Any
    unknown: Unknown
    needed: bool = False

    def codes(self, labels: tuple[Any, ...]) -> tuple[tuple[Any, ...], Ints, int, int]:
        """Merged labels; (labels + 1,) codes of the old ones, the unlabelled last; the two sides."""
        named = (*labels, UNKNOWN_LABEL) if self.unknown == "group" and UNKNOWN_LABEL not in labels else labels
        sides = two_sides(named, self.protected, self.versus, needed=self.needed or self.unknown == "unprotected")
        protected, others = (side or () for side in sides)
        merged = [i for i in range(len(named)) if i not in protected[1:] and i not in others[1:]]
        head = {i: i for i in range(len(named))} | dict.fromkeys(protected, protected[0] if protected else 0)
        head |= dict.fromkeys(others, others[0] if others else 0)
        place = {i: n for n, i in enumerate(merged)}
        names = tuple(
            ", ".join(str(named[j]) for j in head if head[j] == i) if i in (*protected, *others) else named[i]
            for i in merged
        )
        unlabelled = -1
        if self.unknown == "group":
            unlabelled = place[head[named.index(UNKNOWN_LABEL)]]
        elif self.unknown == "unprotected" and others:
            unlabelled = place[others[0]]
        codes = np.array([*(place[head[i]] for i in range(len(labels))), unlabelled])
        return names, codes, place[protected[0]] if protected else -1, place[others[0]] if others else -1


@dataclass(frozen=True)
class PairCounts:
    """Wins and pairs of every request, requests within slices.

    Attributes
    ----------
    within : the requests within their slices.
    pairs : the tally, with the Q requests as its first axis.
    counts : what a reader of the numbers should know about the rows.
    """

    within: Requests
    pairs: Pairs
    counts: Mapping[str, Any]

    @classmethod
    def from_scores(
        cls,
        scores: Rankings,
        labels: CodedLabels,
        sides: ComparedGroups,
        judgments: Judgments,
        missing: MissingRelevance,
        *,
        negatives: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> PairCounts:
        """Pairs of all requests; with `negatives`, that many opponents are drawn for each item."""
        names, merged, protected, versus = sides.codes(labels.labels)
        engine, keys, heads = scores.engine, list(scores.keys), list(scores.heads)
        lost = judgments.count_unjudged(judgments.join(scores.sql, scores.types), missing, "scored items")
        query = (
            f"SELECT {columns(heads)}, item, score, COALESCE(relevance, 0) AS relevance, CAST(COALESCE(label, -1) AS INTEGER) AS label "
            f"FROM ({judgments.join(labels.rows, scores.types)}) AS judged"
            + (" WHERE relevance IS NOT NULL" if missing == "drop" else "")
        )
        read = partial(ScoredItems.from_batch, names=heads, merged=merged)
        no_heads = engine.cells(f"SELECT {columns(heads)} FROM ({scores.sql}) AS scored LIMIT 0")
        if negatives is None or rng is None:
            needed = f"SELECT {columns([*heads, 'score', 'relevance', 'label'])} FROM ({query}) AS scored"
            parts = engine.tallied(needed, keys, [], partial(_count, read=read, groups=len(names)))
            requests, order = sort_heads([no_heads, *(part_heads for part_heads, _, _ in parts)], keys)
            _refuse_many(len(requests), len(names))
            none = np.zeros((0, len(names), len(names)))
            wins, pairs = (np.concatenate([none, *(counts[i] for _, counts, _ in parts)])[order] for i in (0, 1))
            unlabelled = sum(absent for _, _, absent in parts)
        else:
            # Draws go on from one request to the next, so requests are brought into order first.
            items = ScoredItems.joined(engine.tallied(query, keys, ["relevance", "item"], read), no_heads, keys)
            wins, pairs = items.count_pairs(len(names), negatives, rng)
            requests, unlabelled = items.heads, items.unlabelled
        if sides.unknown == "raise" and unlabelled:
            raise EvenhandError(
                f"{unlabelled:,} scored items have no group. Add them to groups, or pass unknown='drop' or 'group'."
            )
        facts = {
            "scored_items_without_judgment": lost, "unlabelled_scored_items": unlabelled, "requests": len(requests),
        }  # fmt: skip
        tally = Pairs(wins, pairs, names, protected, versus)
        return cls(Requests.from_heads(requests, scores.slices), tally, facts)


@dataclass(frozen=True)
class ScoredItems:
    """Items of whole requests: request q has the rows `starts[q]` to `starts[q + 1]`.

    `heads` says what the requests are called, `group` has codes, `unlabelled` counts the items without a label.
    """

    heads: Cells
    starts: Ints
    score: Floats
    relevance: Floats
    group: Ints
    unlabelled: int

    @classmethod
    def from_batch(cls, batch: Batch, names: Sequence[str], merged: Ints) -> ScoredItems:
        """The rows of a batch; `merged` has the group of every label, and of the unlabelled last."""
        labels = batch.integers("label")
        group, unlabelled = merged.take(labels, mode="wrap"), int((labels < 0).sum())
        return cls(
            batch.firsts(names), batch.starts, batch.floats("score"), batch.floats("relevance"), group, unlabelled
        )

    @classmethod
    def joined(cls, parts: Sequence[ScoredItems], no_heads: Cells, keys: Sequence[str]) -> ScoredItems:
        heads, order = sort_heads([no_heads, *(part.heads for part in parts)], keys)
        none = np.zeros(0, dtype=np.int64)
        starts = starts_of(np.concatenate([none, *(np.diff(part.starts) for part in parts)]))
        at, ends = cells_of(starts, order)
        score, relevance, group = (
            np.concatenate([np.zeros(0, dtype=kind), *(getattr(part, name) for part in parts)])[at]
            for name, kind in (("score", float), ("relevance", float), ("group", np.int64))
        )
        return cls(heads, ends, score, relevance, group, sum(part.unlabelled for part in parts))

    def count_pairs(
        self, groups: int, negatives: int | None = None, rng: np.random.Generator | None = None
    ) -> tuple[Floats, Floats]:
        """(Q, g, g) wins and pairs of every request, with `negatives` of drawn opponents."""
        requests = len(self.starts) - 1
        _refuse_many(requests, groups)
        wins, pairs = np.zeros((2, requests, groups, groups))
        for first, last in batches_of_rows(self.starts, 1 << 15):  # rows at a time, for arrays to stay in the cache
            at = slice(int(self.starts[first]), int(self.starts[last]))
            request = np.repeat(np.arange(last - first), np.diff(self.starts[first : last + 1]))
            rows = (request, self.score[at], self.relevance[at], self.group[at], groups)
            counts = counted_pairs(*rows) if negatives is None or rng is None else sampled_pairs(*rows, negatives, rng)
            wins[first:last], pairs[first:last] = counts
        return wins, pairs


def _count(batch: Batch, read: Callable[[Batch], ScoredItems], groups: int) -> tuple[Cells, tuple[Floats, Floats], int]:
    """What the requests are called, their wins and pairs, and how many items have no label."""
    items = read(batch)
    return items.heads, items.count_pairs(groups), items.unlabelled


def _refuse_many(requests: int, groups: int) -> None:
    if requests * max(1, groups) ** 2 > 200_000_000:  # 1.6 GB each of wins and pairs
        raise EvenhandError(
            f"{requests:,} requests times {groups:,} groups squared are too many to hold. Use broader groups."
        )

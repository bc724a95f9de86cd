"""Wins and pairs per request and pair of groups: which items of higher relevance are ranked above the others.

Counted by one loop over whole requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import UNKNOWN_LABEL, Unknown, all_but, in_order
from evenhand.sources.sql import columns
from evenhand.tallies.exposure import side_codes
from evenhand.tallies.requests import Requests

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch, Cells
    from evenhand.sources.judgments import Judgments, MissingRelevance
    from evenhand.sources.labels import CodedLabels
    from evenhand.sources.rankings import Rankings

Ints = npt.NDArray[np.int64]

DRAWS_AT_ONCE = 1 << 21
"""Pairs drawn at a time."""

ROWS_AT_ONCE = 1 << 15
"""Rows whose pairs are counted at a time: few enough for what is made of them to stay in the cache."""

MOST_CELLS = 200_000_000
"""Requests times pairs of groups that are held; more is refused with a remedy."""


@dataclass(frozen=True)
class Pairs:
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

    def alike(self) -> Pairs:
        """Requests that count alike, however many pairs they have: shares instead of wins, and whether there is one."""
        has_pairs = self.pairs > 0
        shares = np.divide(self.wins, self.pairs, out=np.zeros_like(self.wins), where=has_pairs)
        return replace(self, wins=shares, pairs=has_pairs.astype(np.float64))

    def count(self, *, within: bool = True, between: bool = True) -> Floats:
        """(...,) pairs among the two sides, or all where none were named: of one side, of different sides, or both."""
        named = [i for i in (self.versus, self.protected) if i >= 0]
        if not named:
            return np.asarray(self.pairs.sum((-1, -2)))
        cells = [(i, j) for i in named for j in named if (within if i == j else between)]
        return np.asarray(sum((self.pairs[..., i, j] for i, j in cells), np.zeros(self.pairs.shape[:-2])))

    def stacked(self) -> Floats:
        """(..., K) all sums side by side, for resampling."""
        flat = (*self.pairs.shape[:-2], self.pairs.shape[-1] * self.pairs.shape[-2])
        return np.concatenate([self.wins.reshape(flat), self.pairs.reshape(flat)], axis=-1)

    def with_sums(self, sums: Floats) -> Pairs:
        """This tally with other sums, laid out as `stacked` lays them out."""
        shape, half = (*sums.shape[:-1], *self.pairs.shape[-2:]), sums.shape[-1] // 2
        return replace(self, wins=sums[..., :half].reshape(shape), pairs=sums[..., half:].reshape(shape))

    def reason(self) -> str:
        return "" if self.pairs.any() else "no_pairs"


def counted_pairs(request: Ints, score: Floats, relevance: Floats, group: Ints, groups: int) -> tuple[Floats, Floats]:
    """Wins and pairs (Q, g, g) of all requests at once, in O(n log n) each; request and group are codes, -1 is unknown.

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
    order, rank = _by_score(request, score), _graded(request, relevance)
    packed = _Packed.for_lists(int(np.bincount(request).max()), groups)
    request, score, group, rank = request.take(order), score.take(order), group.take(order), rank.take(order)
    for level in range(int(rank.max()).bit_length()):
        bit, family = ((rank >> level) & 1).astype(bool), rank >> (level + 1)
        if not family.any():
            _add_level(wins, pairs, packed, request, family, score, bit, group)
            continue
        order = np.argsort(family, kind="stable")  # those of a family stay in order of request and score
        rows: list[Any] = [column.take(order) for column in (request, family, score, bit, group)]
        _add_level(wins, pairs, packed, *rows)
    return wins, pairs


def _by_score(request: Ints, score: Floats) -> Ints:
    """The order of rows by request and score; where requests stand one after another, each is sorted by itself."""
    lengths = np.bincount(request)
    wide = int(lengths.max())
    if len(lengths) * wide > 2 * len(request) or (request[1:] < request[:-1]).any() or not np.isfinite(score).all():
        return np.lexsort((score, request))
    first = (np.cumsum(lengths) - lengths)[:, None]
    if len(lengths) * wide == len(request):
        return (np.argsort(score.reshape(-1, wide), axis=1) + first).ravel()
    inside = np.arange(wide) < lengths[:, None]
    block = np.full(inside.shape, np.inf)
    block[inside] = score
    return np.asarray((np.argsort(block, axis=1) + first)[inside])  # what stands past the end is sorted to the end


FEW_GRADES = 64
"""Grades of relevance that are ranked over all requests; of more, those of each request are."""


def _graded(request: Ints, relevance: Floats) -> npt.NDArray[Any]:
    """Whole numbers from 0 that order the items of a request as their relevance does."""
    if relevance.min() >= 0 and relevance.max() < FEW_GRADES and (relevance.astype(np.uint8) == relevance).all():
        return relevance.astype(np.uint8)
    grades = np.unique(relevance)
    if len(grades) <= FEW_GRADES:
        return np.searchsorted(grades, relevance).astype(np.uint8)
    ranks = _rank_within(request, relevance)
    return ranks.astype(np.uint16) if ranks.max() < 2**16 else ranks  # short numbers are sorted without comparing them


def _rank_within(request: Ints, relevance: Floats) -> Ints:
    """Dense rank of relevance within each request, from 0."""
    order = np.lexsort((relevance, request))
    new = np.zeros(len(order), dtype=np.int64)
    r, y = request[order], relevance[order]
    same = r[1:] == r[:-1]
    new[1:] = np.where(same, y[1:] != y[:-1], 0)
    running = np.cumsum(new)
    first = np.concatenate([[True], ~same])
    base = np.maximum.accumulate(np.where(first, running, 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = running - base
    return rank


@dataclass(frozen=True)
class _Packed:
    """Counts of several groups side by side in the bits of one number, so that one sum adds up all of them.

    Attributes
    ----------
    bits : of each count. Twice the pairs of a request fit, and all counts of a number fit a float exactly.
    words : (numbers, groups + 1) what an item of each group adds to each number; the last column is that of no item.
    """

    bits: int
    words: Ints

    @classmethod
    def for_lists(cls, longest: int, groups: int) -> _Packed:
        """For requests of at most so many items: of n items, n * n / 4 pairs at most are of different relevance."""
        bits = int(max(2 * longest, longest * longest // 2)).bit_length()
        each = max(1, 53 // bits)
        words = np.zeros((-(-groups // each), groups + 1), dtype=np.int64)
        for g in range(groups):
            words[g // each, g] = 1 << (bits * (g % each))
        return cls(bits, words)

    def unpacked(self, word: int, sums: Floats) -> tuple[slice, Floats]:
        """The groups that a number holds, and their counts, from sums of it; they stand in a new last axis."""
        packed_groups = np.flatnonzero(self.words[word])
        if len(packed_groups) == 1:
            return slice(int(packed_groups[0]), int(packed_groups[0]) + 1), sums[..., None]
        shifts = self.bits * np.arange(len(packed_groups))
        counts = (sums.astype(np.int64)[..., None] >> shifts) & ((1 << self.bits) - 1)
        return slice(int(packed_groups[0]), int(packed_groups[-1]) + 1), counts.astype(np.float64)


def _add_level(
    wins: Floats,
    pairs: Floats,
    packed: _Packed,
    request: Ints,
    family: npt.NDArray[Any],
    score: Floats,
    bit: npt.NDArray[np.bool_],
    group: Ints,
) -> None:
    """Count the pairs that differ first at this bit; rows come sorted by family and request, and those of both by score."""
    groups = wins.shape[-1]
    better = np.flatnonzero(bit)
    new = np.ones(len(bit), dtype=bool)
    new[1:] = (request[1:] != request[:-1]) | (family[1:] != family[:-1])
    run, run_end = _spans(new, better)
    new[1:] |= score[1:] != score[:-1]
    tie, tie_end = _spans(new, better)
    place = request.take(better) * groups + group.take(better)
    worse = np.where(bit, groups, group)
    for word, added in enumerate(packed.words):
        seen = np.zeros(len(bit) + 1, dtype=np.int64)
        np.cumsum(added.take(worse), out=seen[1:])  # may run over: differences are right all the same
        before, upto = seen.take(run), seen.take(tie)
        for total, counts, unit in (
            (wins, upto + seen.take(tie_end) - 2 * before, 0.5),
            (pairs, seen.take(run_end) - before, 1.0),
        ):
            sums = np.bincount(place, counts, minlength=wins.shape[0] * groups)
            below, group_counts = packed.unpacked(word, sums.astype(np.float64, copy=False))
            total[:, :, below] += unit * group_counts.reshape(wins.shape[0], groups, -1)


def _spans(new: npt.NDArray[np.bool_], at: Ints) -> tuple[Ints, Ints]:
    """Where the runs begin and end that rows `at` stand in; `new` says at which rows a run begins."""
    starts = np.flatnonzero(new)
    if len(starts) == len(new):
        return at, at + 1
    run = np.searchsorted(starts, at, side="right")
    return starts.take(run - 1), np.append(starts, len(new)).take(run)


def sampled_pairs(
    request: Ints, score: Floats, relevance: Floats, group: Ints, groups: int, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Wins and pairs from `draws` less relevant items per item, drawn with replacement; all where there are no more.

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
    reach = np.cumsum(np.minimum(below[better], draws))
    for some in np.split(
        better, np.searchsorted(reach, np.arange(DRAWS_AT_ONCE, reach[-1] if len(reach) else 0, DRAWS_AT_ONCE))
    ):
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
class Sides:
    """Which labels are protected and which they are compared with, and what becomes of unlabelled items."""

    protected: Any
    versus: Any
    unknown: Unknown
    needed: bool = False

    def codes(self, labels: tuple[Any, ...]) -> tuple[tuple[Any, ...], Ints, int, int]:
        """Labels after labels taken together became one; (labels + 1,) their codes, the unlabelled last; the two sides."""
        named = (*labels, UNKNOWN_LABEL) if self.unknown == "group" and UNKNOWN_LABEL not in labels else labels
        protected = () if self.protected is None else side_codes("protected", self.protected, named)
        versus = all_but(self.versus, self.protected, named)
        others = () if versus is None else side_codes("versus", versus, named)
        if set(protected) & set(others):
            raise EvenhandError(
                f"protected={self.protected!r} and versus={self.versus!r} overlap. Pass two different groups."
            )
        if protected and not others:
            others = self._others(named, protected)
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

    def _others(self, labels: tuple[Any, ...], protected: tuple[int, ...]) -> tuple[int, ...]:
        others = tuple(i for i in range(len(labels)) if i not in protected)
        if len(others) > 1 and (self.needed or self.unknown == "unprotected"):
            left = ", ".join(repr(labels[i]) for i in others)
            raise EvenhandError(
                f"protected={self.protected!r} leaves several groups: {left}. Pass versus= with one of them, or '*' for all."
            )
        return others if len(others) == 1 else ()


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
        sides: Sides,
        judgments: Judgments,
        missing: MissingRelevance,
        *,
        negatives: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> PairCounts:
        """Count the pairs of all requests; with `negatives`, that many opponents are drawn for each item."""
        names, merged, protected, versus = sides.codes(labels.labels)
        engine, keys = scores.engine, list(scores.keys)
        lost = judgments.count_unjudged(judgments.join(scores.sql, scores.types), missing, "scored items")
        query = (
            f"SELECT {columns(keys)}, item, score, COALESCE(relevance, 0) AS relevance, CAST(COALESCE(label, -1) AS INTEGER) AS label "
            f"FROM ({judgments.join(labels.rows, scores.types)}) AS judged"
            + (" WHERE relevance IS NOT NULL" if missing == "drop" else "")
        )
        needed = [*keys, "score", "relevance", "label"]
        if negatives is None or rng is None:
            count = partial(_count, keys=keys, merged=merged, groups=len(names))
            parts = engine.tallied(f"SELECT {columns(needed)} FROM ({query}) AS scored", keys, [], count)
            requests = _Requests.merge(parts, keys)
        else:
            # draws go on from one request to the next, so that requests are brought into order first
            lists = engine.tallied(query, keys, ["relevance", "item"], partial(_read, keys=keys, merged=merged))
            requests = _sample(lists, keys, len(names), negatives, rng)
        if requests is None:
            heads = engine.cells(f"SELECT {columns(keys)} FROM ({query}) AS scored LIMIT 0")
            none = np.zeros((0, len(names), len(names)))
            requests = _Requests(heads, none, none, 0)
        if sides.unknown == "raise" and requests.unlabelled:
            raise EvenhandError(
                f"{requests.unlabelled:,} scored items have no group. Add them to groups, or pass unknown='drop' or 'group'."
            )
        _refuse_many(len(requests.heads), len(names))
        facts = {
            "scored_items_without_judgment": lost, "unlabelled_scored_items": requests.unlabelled,
            "requests": len(requests.heads),
        }  # fmt: skip
        tally = Pairs(requests.wins, requests.pairs, names, protected, versus)
        return cls(Requests.from_heads(requests.heads, scores.slices), tally, facts)


@dataclass(frozen=True)
class _Requests:
    """Some whole requests: what they are called, (Q, g, g) wins and pairs, and how many items have no label."""

    heads: Cells
    wins: Floats
    pairs: Floats
    unlabelled: int

    @classmethod
    def merge(cls, parts: Sequence[_Requests], keys: Sequence[str]) -> _Requests | None:
        """All requests, in the order of what they are called; None where there is no part."""
        if not parts:
            return None
        heads = parts[0].heads.followed_by([part.heads for part in parts[1:]])
        order = heads.order(keys)
        wins, pairs = (np.concatenate([getattr(part, name) for part in parts]) for name in ("wins", "pairs"))
        if (order[1:] < order[:-1]).any():
            heads, wins, pairs = heads.take(order), wins[order], pairs[order]
        return cls(heads, wins, pairs, sum(part.unlabelled for part in parts))


@dataclass(frozen=True)
class _Lists:
    """The scores, relevance and group codes of some whole requests, one after another; `lengths` says how many each has."""

    heads: Cells
    lengths: Ints
    rows: tuple[Floats, Floats, Ints]
    unlabelled: int


def _count(batch: Batch, keys: Sequence[str], merged: Ints, groups: int) -> _Requests:
    """Wins and pairs of the requests of a batch."""
    _refuse_many(batch.groups, groups)
    lists = _read(batch, keys, merged)
    return _Requests(lists.heads, *_counted(lists.rows, batch.starts, groups), lists.unlabelled)


def _read(batch: Batch, keys: Sequence[str], merged: Ints) -> _Lists:
    """The rows of a batch, with the codes of the groups that labels were merged into; those without a label come last there."""
    labels = batch.integers("label")
    rows = (batch.floats("score"), batch.floats("relevance"), merged.take(labels, mode="wrap"))
    return _Lists(batch.firsts(keys), np.diff(batch.starts), rows, int((labels < 0).sum()))


def _sample(
    parts: Sequence[_Lists], keys: Sequence[str], groups: int, negatives: int, rng: np.random.Generator
) -> _Requests | None:
    """Wins and pairs from drawn opponents, requests in the order of what they are called."""
    if not parts:
        return None
    heads = parts[0].heads.followed_by([part.heads for part in parts[1:]])
    order, lengths = heads.order(keys), np.concatenate([part.lengths for part in parts])
    _refuse_many(len(heads), groups)
    starts = np.cumsum(lengths) - lengths
    ends = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64)
    at = np.arange(ends[-1]) + np.repeat(starts[order] - ends[:-1], lengths[order])
    rows = (
        np.concatenate([part.rows[0] for part in parts]).take(at),
        np.concatenate([part.rows[1] for part in parts]).take(at),
        np.concatenate([part.rows[2] for part in parts]).take(at),
    )
    counts = _counted(rows, ends, groups, negatives, rng)
    return _Requests(heads.take(order), *counts, sum(part.unlabelled for part in parts))


def _refuse_many(requests: int, groups: int) -> None:
    if requests * max(1, groups) ** 2 > MOST_CELLS:
        raise EvenhandError(
            f"{requests:,} requests times {groups:,} groups squared are too many to hold. Use broader groups."
        )


def _counted(
    rows: tuple[Floats, Floats, Ints],
    ends: Ints,
    groups: int,
    negatives: int | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[Floats, Floats]:
    """Wins and pairs of every request, a bounded number of rows at a time; request q has the rows ends[q] to ends[q + 1]."""
    requests = len(ends) - 1
    wins, pairs = np.zeros((2, requests, groups, groups))
    start = 0
    while start < requests:
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + ROWS_AT_ONCE, side="right")) - 1)
        part = slice(int(ends[start]), int(ends[stop]))
        score, relevance, group = rows[0][part], rows[1][part], rows[2][part]
        request = np.repeat(np.arange(stop - start), np.diff(ends[start : stop + 1]))
        if negatives is None or rng is None:
            counts = counted_pairs(request, score, relevance, group, groups)
        else:
            counts = sampled_pairs(request, score, relevance, group, groups, negatives, rng)
        wins[start : start + len(counts[0])], pairs[start : start + len(counts[1])] = counts
        start = stop
    return wins, pairs

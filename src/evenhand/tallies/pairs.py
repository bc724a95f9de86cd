"""Who was ranked above whom, among items of different relevance: wins and pairs per request and pair of groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import in_order

Ints = npt.NDArray[np.int64]

AT_ONCE = 1 << 21
"""Pairs drawn at a time."""


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
    def of(
        cls, scores: Any, relevance: Any, groups: Any, protected: Any = None, versus: Any = None, requests: Any = None
    ) -> Pairs:
        """Tally plain arrays, one entry per item; `requests` tells lists apart.

        >>> found = Pairs.of([4, 3, 2, 1], [1, 0, 1, 0], ["U", "U", "P", "P"], protected="P")
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
        known = in_order({g for g in labels if g is not None})
        codes = np.array([known.index(g) if g is not None else -1 for g in labels], dtype=np.int64)
        where = (
            np.zeros(len(score), dtype=np.int64) if requests is None else np.unique(requests, return_inverse=True)[1]
        )
        wins, pairs = counted_pairs(np.asarray(where), score, grade, codes, len(known))
        return cls(wins.sum(0), pairs.sum(0), tuple(known)).between(protected, versus)

    def between(self, protected: Any, versus: Any = None) -> Pairs:
        """The same tally with two sides named; `versus` may be left out when one other group exists."""
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
        there = self.pairs > 0
        shares = np.divide(self.wins, self.pairs, out=np.zeros_like(self.wins), where=there)
        return replace(self, wins=shares, pairs=there.astype(np.float64))

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
        """The same tally with other sums, laid out as `stacked` lays them out."""
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
    known = group >= 0
    if not known.all():
        request, score, relevance, group = request[known], score[known], relevance[known], group[known]
    wins, pairs = np.zeros((requests, groups, groups)), np.zeros((requests, groups, groups))
    if not len(request):
        return wins, pairs
    order, rank = _by_score(request, score), _graded(request, relevance)
    packed = _Packed.of(int(np.bincount(request).max()), groups)
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
    def of(cls, longest: int, groups: int) -> _Packed:
        """For requests of at most so many items: of n items, n * n / 4 pairs at most are of different relevance."""
        bits = int(max(2 * longest, longest * longest // 2)).bit_length()
        each = max(1, 53 // bits)
        words = np.zeros((-(-groups // each), groups + 1), dtype=np.int64)
        for g in range(groups):
            words[g // each, g] = 1 << (bits * (g % each))
        return cls(bits, words)

    def unpacked(self, word: int, sums: Floats) -> tuple[slice, Floats]:
        """The groups that a number holds, and their counts, from sums of it; they stand in a new last axis."""
        there = np.flatnonzero(self.words[word])
        if len(there) == 1:
            return slice(int(there[0]), int(there[0]) + 1), sums[..., None]
        shifts = self.bits * np.arange(len(there))
        counts = (sums.astype(np.int64)[..., None] >> shifts) & ((1 << self.bits) - 1)
        return slice(int(there[0]), int(there[-1]) + 1), counts.astype(np.float64)


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
            below, found = packed.unpacked(word, sums.astype(np.float64, copy=False))
            total[:, :, below] += unit * found.reshape(wins.shape[0], groups, -1)


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
    """The same from `draws` less relevant items per item, drawn with replacement; all of them where there are no more.

    Rows come sorted by request and relevance. A draw stands for as many pairs as there are opponents per draw, so that the
    sums estimate those of all pairs.
    """
    requests = int(request.max()) + 1 if len(request) else 0
    known = group >= 0
    request, score, relevance, group = request[known], score[known], relevance[known], group[known]
    wins, pairs = np.zeros((2, requests, groups, groups))
    new_request = np.concatenate([[True], request[1:] != request[:-1]])[: len(request)]
    new_grade = new_request | np.concatenate([[True], relevance[1:] != relevance[:-1]])[: len(request)]
    row = np.arange(len(request))
    first = np.maximum.accumulate(np.where(new_request, row, 0))
    below = np.maximum.accumulate(np.where(new_grade, row, 0)) - first
    better = np.flatnonzero(below)
    reach = np.cumsum(np.minimum(below[better], draws))
    for some in np.split(better, np.searchsorted(reach, np.arange(AT_ONCE, reach[-1] if len(reach) else 0, AT_ONCE))):
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
        here = slice(base, int(request[some[-1]]) + 1)
        shape = wins[here].shape
        wins[here] += np.bincount(cell, right * weight, minlength=wins[here].size).reshape(shape)
        pairs[here] += np.bincount(cell, weight, minlength=pairs[here].size).reshape(shape)
    return wins, pairs

"""Wins and pairs of every request: scores with their relevance and labels, one loop over whole requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import all_but
from evenhand.sources.sql import columns
from evenhand.tallies.exposure import side_codes
from evenhand.tallies.exposure_policy import UNKNOWN_LABEL, Unknown
from evenhand.tallies.pairs import Ints, Pairs, counted_pairs, sampled_pairs
from evenhand.tallies.requests import Requests

if TYPE_CHECKING:
    from evenhand.sources.engine import Batch, Cells
    from evenhand.sources.judgments import Judgments, MissingRelevance
    from evenhand.sources.labels import CodedLabels
    from evenhand.sources.rankings import Rankings

AT_ONCE = 1 << 15
"""Rows whose pairs are counted at a time: few enough for what is made of them to stay in the cache."""

MOST_CELLS = 200_000_000
"""Requests times pairs of groups that are held; more is refused with a remedy."""


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
        ours = () if self.protected is None else side_codes("protected", self.protected, named)
        versus = all_but(self.versus, self.protected, named)
        theirs = () if versus is None else side_codes("versus", versus, named)
        if set(ours) & set(theirs):
            raise EvenhandError(
                f"protected={self.protected!r} and versus={self.versus!r} overlap. Pass two different groups."
            )
        if ours and not theirs:
            theirs = self._others(named, ours)
        merged = [i for i in range(len(named)) if i not in ours[1:] and i not in theirs[1:]]
        head = {i: i for i in range(len(named))} | dict.fromkeys(ours, ours[0] if ours else 0)
        head |= dict.fromkeys(theirs, theirs[0] if theirs else 0)
        place = {i: n for n, i in enumerate(merged)}
        names = tuple(
            ", ".join(str(named[j]) for j in head if head[j] == i) if i in (*ours, *theirs) else named[i]
            for i in merged
        )
        codes = np.array([*(place[head[i]] for i in range(len(labels))), self._unlabelled(named, place, head, theirs)])
        return names, codes, place[ours[0]] if ours else -1, place[theirs[0]] if theirs else -1

    def _others(self, labels: tuple[Any, ...], ours: tuple[int, ...]) -> tuple[int, ...]:
        others = tuple(i for i in range(len(labels)) if i not in ours)
        if len(others) > 1 and (self.needed or self.unknown == "unprotected"):
            left = ", ".join(repr(labels[i]) for i in others)
            raise EvenhandError(
                f"protected={self.protected!r} leaves several groups: {left}. Pass versus= with one of them, or '*' for all."
            )
        return others if len(others) == 1 else ()

    def _unlabelled(
        self, labels: tuple[Any, ...], place: Mapping[int, int], head: Mapping[int, int], theirs: tuple[int, ...]
    ) -> int:
        if self.unknown == "group":
            return place[head[labels.index(UNKNOWN_LABEL)]]
        return place[theirs[0]] if self.unknown == "unprotected" and theirs else -1


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
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + AT_ONCE, side="right")) - 1)
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

"""Scored candidates of every request and who provides them, and lists reordered among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.attention import parse, sound_relevance
from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.tallies.ragged import Ints, cells_of, starts_of, sums_by

if TYPE_CHECKING:
    from evenhand.sources.candidates import CandidateRows
    from evenhand.sources.engine import Batch

NOWHERE = np.iinfo(np.int64).max
"""The old rank of an item that was in no list before."""


@dataclass(frozen=True)
class Owners:
    """Whose an item is: one entry per item and provider; the shares of an item add up to 1.

    Attributes
    ----------
    item, provider : (m,) codes from 0. share : (m,) the part of the item's exposure that the provider receives.
    items, providers : how many there are.
    """

    item: Ints
    provider: Ints
    share: Floats
    items: int
    providers: int

    @classmethod
    def from_arrays(cls, provider: Any) -> Owners:
        """Every item has one provider: (items,) codes."""
        codes = np.asarray(provider, dtype=np.int64)
        many = int(codes.max(initial=-1)) + 1
        return cls(np.arange(len(codes)), codes, np.ones(len(codes)), len(codes), many)

    def per_item(self, prices: Floats) -> Floats:
        """(items,) the price of an item: that of its providers, by their shares."""
        return sums_by(self.item, prices[self.provider] * self.share, self.items)

    def per_provider(self, exposure: Floats) -> Floats:
        """(..., items) exposure to (..., providers)."""
        flat = exposure.reshape(-1, self.items)[:, self.item] * self.share
        rows = np.arange(len(flat))[:, None] * self.providers + self.provider
        sums = sums_by(rows.ravel(), flat.ravel(), len(flat) * self.providers)
        return sums.reshape(*exposure.shape[:-1], self.providers)


@dataclass(frozen=True)
class Slates:
    """Candidates of each request by falling score; ties in the order of item codes.

    Attributes
    ----------
    starts : (Q + 1,) where the candidates of each request begin.
    item : (n,) item codes. score : (n,) gains, none negative.
    owners : who provides the items; the same set whatever part of the requests is looked at.
    top : longest list; attention : (top,) weights of its ranks, never rising.
    relevance : (n,) judgments, 0 where there is none; None without any.
    most_relevant : (Q,) gain of the best list by all judgments, candidates or not; None without judgments.
    """

    starts: Ints
    item: Ints
    score: Floats
    owners: Owners
    top: int
    attention: Floats
    relevance: Floats | None = None
    most_relevant: Floats | None = None

    @classmethod
    def from_arrays(cls, request: Any, item: Any, score: Any, owners: Owners, top: int, attention: Any) -> Slates:
        """Rows sorted into requests; `request` and `item` are codes from 0."""
        codes, items = np.asarray(request, dtype=np.int64), np.asarray(item, dtype=np.int64)
        gains = np.asarray(score, dtype=np.float64)
        order = np.lexsort((items, -gains, codes))
        starts = starts_of(np.bincount(codes))
        weights = np.asarray(attention, dtype=np.float64)
        return cls(starts, items[order], gains[order], owners, top, weights)

    @classmethod
    def from_candidates(cls, rows: CandidateRows, top: int, attention: Floats) -> Slates:
        """The candidates of every request, sorted: one loop over requests."""
        parts = rows.engine.tallied(rows.query, ["request"], ["cost", "item"], _sorted_candidates)
        request, sizes, item, score, relevance = (
            np.concatenate([part[name] for part in parts])
            for name in ("request", "sizes", "item", "score", "relevance")
        )
        order = np.argsort(request)  # parts may come in any order
        at, starts = cells_of(starts_of(sizes), order)
        owners = Owners(rows.owned, rows.owners, rows.shares, len(rows.item_ids), len(rows.providers))
        slates = cls(starts, item[at].astype(np.int64), score[at], owners, top, attention)
        if rows.judged is None:
            return slates
        judged = rows.engine.cells(rows.judged)
        best = best_gains(
            judged.integers("request"), judged.floats("relevance"), judged.integers("items"), slates.requests, attention
        )
        return replace(slates, relevance=np.nan_to_num(relevance[at], nan=0.0), most_relevant=best)

    @property
    def requests(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def sizes(self) -> Ints:
        return np.diff(self.starts)

    @cached_property
    def lengths(self) -> Ints:
        return np.minimum(self.sizes, self.top)

    @cached_property
    def as_ranked(self) -> Ints:
        """(Q, top) lists by score alone: indices of candidates, -1 behind the end of a list."""
        places = np.arange(self.top)
        return np.where(places < self.lengths[:, None], self.starts[:-1, None] + places, -1)

    @cached_property
    def exposure(self) -> float:
        """Exposure that all lists together have to give, whoever stands in them."""
        return float(np.append(0.0, np.cumsum(self.attention))[self.lengths].sum())

    @cached_property
    def ideal(self) -> Floats:
        """(Q,) the gain of the list by score alone."""
        return self.value(self.as_ranked, self.score)

    @cached_property
    def scored(self) -> Ints:
        """Requests with a gain above zero; nDCG says nothing about the others."""
        return np.flatnonzero(self.ideal > 0)

    @cached_property
    def gain(self) -> Floats:
        """(n,) score over the ideal gain of the request: its best list is worth 1."""
        ideal = np.repeat(self.ideal, self.sizes)
        return np.divide(self.score, ideal, out=np.zeros(len(self.score)), where=ideal > 0)

    def value(self, lists: Ints, worth: Floats) -> Floats:
        """(..., Q) attention-weighted worth of lists (..., Q, top) of positions."""
        padded = np.append(worth, 0.0)  # -1 takes the last
        return np.asarray(padded[lists] @ self.attention)

    def received(self, lists: Ints) -> Floats:
        """(providers,) exposure under lists (Q, top)."""
        filled = lists >= 0
        attention = np.broadcast_to(self.attention, lists.shape)
        return self.owners.per_provider(sums_by(self.item[lists[filled]], attention[filled], self.owners.items))

    def relative(self, lists: Ints) -> Floats:
        """(providers,) exposure over its mean: 1 where everybody gets the same."""
        return self.received(lists) * (self.owners.providers / self.exposure)

    def only(self, requests: Any) -> Slates:
        """A part of the requests, with the same items and providers."""
        chosen = np.asarray(requests)
        rows, starts = cells_of(self.starts, chosen)
        part = replace(self, starts=starts, item=self.item[rows], score=self.score[rows])
        if self.relevance is None or self.most_relevant is None:
            return part
        return replace(part, relevance=self.relevance[rows], most_relevant=self.most_relevant[chosen])


def best_gains(request: Ints, relevance: Floats, items: Ints, requests: int, attention: Floats) -> Floats:
    """(Q,) attention-weighted relevance of the best lists, from how many items of a request have each relevance.

    >>> best_gains(np.array([0, 0, 1]), np.array([1.0, 3.0, 2.0]), np.array([5, 1, 1]), 3, np.array([1.0, 0.5])).tolist()
    [3.5, 2.0, 0.0]
    """
    order = np.lexsort((-relevance, request))
    request, relevance, items = request[order], relevance[order], items[order]
    ends = np.cumsum(items)
    before = np.append(0, ends)[np.searchsorted(request, request)]  # items of earlier requests
    seen = np.append(0.0, np.cumsum(attention))
    last = np.minimum(ends - before, len(attention))
    first = np.minimum(ends - items - before, len(attention))
    return sums_by(request, relevance * (seen[last] - seen[first]), requests)


def _sorted_candidates(batch: Batch) -> dict[str, Any]:
    """Codes and sizes of a batch of requests, and columns of their candidates, best first; relevance is NaN where nobody judged."""
    request = batch.firsts(["request"]).integers("request")
    codes = {"request": request, "sizes": np.diff(batch.starts), "item": batch.integers("item")}
    narrow = {name: column.astype(np.int32) for name, column in codes.items()}
    return {**narrow, "score": batch.floats("score"), "relevance": batch.floats("relevance")}


@dataclass(frozen=True)
class Reordered:
    """Lists, by the ranks that their items had before.

    Attributes
    ----------
    was : (R, k) old rank, from 1, of the item at each new rank; 0 behind the end of a list.
    """

    was: Ints

    @classmethod
    def from_arrays(cls, after: Sequence[Any], *, before: Sequence[Any]) -> Reordered:
        """One list, best first, and the same list before; items are compared by equality."""
        for name, items in (("after", after), ("before", before)):
            if isinstance(items, str) or len(set(items)) < len(items):
                raise EvenhandError(f"{name} is no list of different items. Pass each item once, best first.")
        place = {item: rank for rank, item in enumerate(before, 1)}
        return cls(np.array([[place.get(item, NOWHERE) for item in after]], dtype=np.int64))

    @property
    def lengths(self) -> Ints:
        return np.asarray((self.was > 0).sum(1))

    def reason(self) -> str:
        return "" if (self.was > 0).any() else "empty"


@dataclass(frozen=True)
class Gained:
    """Gains of lists, and of the best order of the same candidates.

    Attributes
    ----------
    gained, ideal : (R,) attention-weighted gains.
    """

    gained: Floats
    ideal: Floats

    @classmethod
    def from_arrays(cls, gains: Any, *, candidates: Any = None, attention: Any = "log(offset=1)") -> Gained:
        """One list: the gain at each rank, and those of all candidates where there are more."""
        shown = sound_relevance(gains)
        best = np.sort(shown if candidates is None else sound_relevance(candidates))[::-1][: len(shown)]
        model = parse(attention)
        return cls(np.atleast_1d(shown @ model.weights(len(shown))), np.atleast_1d(best @ model.weights(len(best))))

    def reason(self) -> str:
        return "" if (self.ideal > 0).any() else "zero_utility"


@dataclass(frozen=True)
class Judged(Gained):
    """Relevance that lists gain, and that the best list of all judged items would, candidates or not."""

    @classmethod
    def from_arrays(cls, gains: Any, *, judgments: Any = None, attention: Any = "log(offset=1)") -> Judged:  # type: ignore[override]
        """One list: the relevance at each rank, and that of all judged items where there are more."""
        gain = Gained.from_arrays(gains, candidates=judgments, attention=attention)
        return cls(gain.gained, gain.ideal)

    def reason(self) -> str:
        return "" if (self.ideal > 0).any() else "zero_normalizer"

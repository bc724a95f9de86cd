"""From scores, relevance and groups to wins and pairs of every request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.labels import in_order, whole
from evenhand.tallies.exposure import side_codes
from evenhand.tallies.ledger import UNKNOWN_LABEL, Unknown
from evenhand.tallies.pairs import Ints, Pairs, counted_pairs, sampled_pairs
from evenhand.tallies.requests import Requests
from evenhand.views.judgments import Judgments, MissingRelevance, count_unjudged, unjudged, unjudged_as_zero
from evenhand.views.labels import Alignment, Carried, codes
from evenhand.views.match import matched_ids, same_engine
from evenhand.views.scored import Scored
from evenhand.views.tables import to_polars

AT_ONCE = 1 << 22
"""Rows whose pairs are counted at a time."""

MOST_CELLS = 200_000_000
"""Requests times pairs of groups that are held; more is refused with a remedy."""


@dataclass(frozen=True)
class PairLedger:
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
        theirs = () if self.versus is None else side_codes("versus", self.versus, named)
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
                f"protected={self.protected!r} leaves several groups: {left}. Pass versus= with one of them."
            )
        return others if len(others) == 1 else ()

    def _unlabelled(
        self, labels: tuple[Any, ...], place: Mapping[int, int], head: Mapping[int, int], theirs: tuple[int, ...]
    ) -> int:
        if self.unknown == "group":
            return place[head[labels.index(UNKNOWN_LABEL)]]
        return place[theirs[0]] if self.unknown == "unprotected" and theirs else -1


def tally_pairs(
    view: Scored,
    found: Alignment | Carried,
    judgments: Judgments,
    missing: MissingRelevance,
    sides: Sides,
    *,
    negatives: int | None = None,
    rng: np.random.Generator | None = None,
) -> PairLedger:
    """Join, collect, and count the pairs of all requests; with `negatives`, that many opponents are drawn for each item."""
    if found.soft:
        raise EvenhandError("groups gives shares, and pairs need one label per item. Pass one group for each item.")
    lazy, everyone = _with_groups(view.lazy, found)
    lazy, facts = _with_relevance(lazy, judgments, missing)
    wanted = [*view.keys, "score", "relevance", "group", *(["item"] if negatives else [])]
    order = [*view.keys, *(["relevance", "item"] if negatives else [])]
    frame = to_polars(lazy.select(wanted)).sort(order, nulls_last=True)
    labels = tuple(whole(in_order(g for g in everyone if g is not None)))
    names, merged, ours, theirs = sides.codes(labels)
    group = merged[codes(frame["group"], labels)]
    unlabelled = int(frame["group"].null_count())
    if sides.unknown == "raise" and unlabelled:
        raise EvenhandError(
            f"{unlabelled:,} scored items have no group. Add them to groups, or pass unknown='drop' or 'group'."
        )
    request, heads = _runs(frame, list(view.keys))
    if len(heads) * max(1, len(names)) ** 2 > MOST_CELLS:
        raise EvenhandError(
            f"{len(heads):,} requests times {len(names):,} groups squared are too many to hold. Use broader groups."
        )
    slices, starts = _slices(frame[heads], list(view.slices))
    numbers = (request, frame["score"].to_numpy(), frame["relevance"].to_numpy(), group)
    wins, pairs = _counted(numbers, heads, len(names), negatives, rng)
    tally = Pairs(wins, pairs, names, ours, theirs)
    facts = facts | {"unlabelled_scored_items": unlabelled, "requests": len(heads)}
    return PairLedger(Requests(slices, starts, frame["request"][heads].to_list()), tally, facts)


def _with_groups(lazy: nw.LazyFrame[Any], found: Alignment | Carried) -> tuple[nw.LazyFrame[Any], list[Any]]:
    """The rows with their label, and every label there is, of scored items or others."""
    if isinstance(found, Carried):
        return lazy, to_polars(lazy.select("group").unique())["group"].to_list()
    aligned, lazy = found.beside(lazy)
    everyone = to_polars(aligned.lazy.select("group").unique())["group"].to_list()
    return lazy.join(aligned.lazy.select(*aligned.keys, "group"), on=aligned.keys, how="left"), everyone


def _with_relevance(
    lazy: nw.LazyFrame[Any], judgments: Judgments, missing: MissingRelevance
) -> tuple[nw.LazyFrame[Any], dict[str, int]]:
    """Relevance beside every scored item, by the policy for those that nobody judged."""
    if judgments.column is None:
        judged, lazy = matched_ids(same_engine(judgments.lazy, lazy), lazy, ["request", "item"], role="relevance")
        lazy = lazy.join(judged, on=["request", "item"], how="left")
    facts = {"scored_items_without_judgment": count_unjudged(lazy, missing, "scored items")}
    return lazy.filter(~unjudged()) if missing == "drop" else unjudged_as_zero(lazy), facts


def _runs(frame: Any, keys: list[str]) -> tuple[Ints, Ints]:
    """(rows,) number of each row's request, and the first row of every request."""
    runs = frame.select(keys).to_struct("key").rle_id().to_numpy().astype(np.int64)
    return runs, np.flatnonzero(np.diff(runs, prepend=-1))


def _slices(heads: Any, names: list[str]) -> tuple[list[tuple[Any, ...]], Ints]:
    if not names:
        return [()], np.array([0, heads.height])
    _, first = _runs(heads, names)
    return [tuple(row) for row in heads.select(names)[first].iter_rows()], np.append(first, heads.height)


def _counted(
    numbers: tuple[Ints, Floats, Floats, Ints],
    heads: Ints,
    groups: int,
    negatives: int | None,
    rng: np.random.Generator | None,
) -> tuple[Floats, Floats]:
    """Wins and pairs of every request, a bounded number of rows at a time."""
    requests, rows = len(heads), len(numbers[0])
    wins, pairs = np.zeros((2, requests, groups, groups))
    ends = np.append(heads, rows)
    start = 0
    while start < requests:
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + AT_ONCE, side="right")) - 1)
        here = slice(int(ends[start]), int(ends[stop]))
        request, score, relevance, group = numbers[0][here], numbers[1][here], numbers[2][here], numbers[3][here]
        if negatives is None or rng is None:
            found = counted_pairs(request - start, score, relevance, group, groups)
        else:
            found = sampled_pairs(request - start, score, relevance, group, groups, negatives, rng)
        wins[start : start + len(found[0])], pairs[start : start + len(found[1])] = found
        start = stop
    return wins, pairs

"""From scores, relevance and groups to wins and pairs of every request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.engine.gathered import gathered, is_apart, labelled
from evenhand.engine.labelled import Lookup
from evenhand.errors import EvenhandError
from evenhand.labels import all_but, in_order, whole
from evenhand.tallies.exposure import side_codes
from evenhand.tallies.ledger import UNKNOWN_LABEL, Unknown
from evenhand.tallies.pairs import Ints, Pairs, counted_pairs, sampled_pairs
from evenhand.tallies.requests import Requests
from evenhand.views.batches import Make, by_ranking, first_of_runs
from evenhand.views.beside import joined
from evenhand.views.judgments import Judgments, MissingRelevance, count_unjudged, unjudged, unjudged_as_zero
from evenhand.views.labels import Alignment, Carried
from evenhand.views.match import matched_ids, same_engine
from evenhand.views.scored import Scored
from evenhand.views.tables import each_once, to_polars

AT_ONCE = 1 << 15
"""Rows whose pairs are counted at a time: few enough for what is made of them to stay in the cache."""

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
class Pairing:
    """What counts the pairs of some whole requests after the other, by the labels of all items and their two sides.

    Attributes
    ----------
    carried : every label there is, where rows carry theirs.
    """

    found: Alignment | Carried
    sides: Sides
    carried: tuple[Any, ...] | None = None

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        """Every label there is, of scored items or others."""
        if self.carried is None:
            return tuple(whole(self.lookup.labels))
        return tuple(whole(in_order(g for g in self.carried if g is not None)))

    @cached_property
    def codes(self) -> tuple[tuple[Any, ...], Ints, int, int]:
        return self.sides.codes(self.labels)

    @cached_property
    def lookup(self) -> Lookup:
        if isinstance(self.found, Alignment) and self.carried is None:
            return Lookup.of(self.found.frame, self.found.keys, "groups")
        return Lookup.carried(self.labels)

    def along(self, keys: list[str]) -> Make[_Block | None]:
        """What counts pairs while requests are checked, of those whose relevance is known already."""
        if isinstance(self.found, Carried) or self.found.soft:
            return lambda *_: None
        _ = self.lookup, self.codes

        def block(rows: Any, first: Ints) -> _Block | None:
            judged = rows["relevance"] if "relevance" in rows.columns else None
            gaps = judged is None or judged.null_count() or np.isnan(judged.to_numpy()).any()
            return None if gaps else self.block(rows, first, keys)

        return block

    def block(
        self,
        rows: Any,
        first: Ints,
        keys: list[str],
        negatives: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> _Block:
        names, merged, *_ = self.codes
        _refuse_many(len(first), len(names))
        request = np.repeat(np.arange(len(first)), np.diff(first, append=rows.height))
        held = self.lookup.codes(rows)
        numbers = (request, rows["score"].to_numpy(), rows["relevance"].to_numpy(), merged.take(held))
        counted = _counted(numbers, first, len(names), negatives, rng)
        return _Block(rows.select(keys)[first], *counted, int((held == len(self.labels)).sum()))


def tally_pairs(
    view: Scored,
    pairing: Pairing,
    judgments: Judgments,
    missing: MissingRelevance,
    *,
    negatives: int | None = None,
    rng: np.random.Generator | None = None,
) -> PairLedger:
    """Join, collect, and count the pairs of all requests; with `negatives`, that many opponents are drawn for each item.

    What the `pairing` counted while the scores were checked is not counted again.
    """
    found, sides, keys = pairing.found, pairing.sides, list(view.keys)
    if found.soft:
        raise EvenhandError("groups gives shares, and pairs need one label per item. Pass one group for each item.")
    if isinstance(found, Carried) or is_apart(view.lazy):
        theirs = view.lazy if isinstance(found, Carried) else found.lazy
        pairing = replace(
            pairing, carried=tuple(to_polars(each_once(theirs.select(nw.col("group"))))["group"].to_list())
        )
    (names, _, protected, versus), _ = pairing.codes, pairing.lookup
    lazy, facts = _with_relevance(view.lazy, keys, judgments, missing)
    if is_apart(lazy):
        lazy = _gathered(lazy, found, keys, drawn=negatives is not None)
    named = "item" if pairing.carried is None else "group"
    wanted = [*keys, "score", "relevance", named, *(["item"] if negatives else [])]
    lazy = lazy.select(*dict.fromkeys(wanted))
    order = [*keys, "relevance", "item"] if negatives else keys
    made = view.made or _blocks(
        lazy,
        keys,
        lambda rows, first: pairing.block(rows, first, keys, negatives, rng),
        order,
        at_once=negatives is not None,
    )
    whole_table = _Block.joined(made, keys)
    if sides.unknown == "raise" and whole_table.unlabelled:
        raise EvenhandError(
            f"{whole_table.unlabelled:,} scored items have no group. Add them to groups, or pass unknown='drop' or 'group'."
        )
    heads = whole_table.heads
    _refuse_many(heads.height, len(names))
    slices, starts = _slices(heads, list(view.slices))
    tally = Pairs(whole_table.wins, whole_table.pairs, names, protected, versus)
    facts = facts | {"unlabelled_scored_items": whole_table.unlabelled, "requests": heads.height}
    return PairLedger(Requests(slices, starts, heads["request"]), tally, facts)


@dataclass(frozen=True)
class _Block:
    """Some whole requests: what they are called, (Q, g, g) wins and pairs, and how many items have no label."""

    heads: Any
    wins: Floats
    pairs: Floats
    unlabelled: int

    @classmethod
    def joined(cls, blocks: Sequence[_Block], keys: list[str]) -> _Block:
        """All requests, in order of what they are called."""
        import polars as pl

        heads = pl.concat([one.heads for one in blocks]).with_row_index("evenhand place")
        heads = heads.sort(*keys, nulls_last=True)
        order = heads["evenhand place"].to_numpy()
        wins, pairs = (np.concatenate([getattr(one, name) for one in blocks]) for name in ("wins", "pairs"))
        if (order[1:] < order[:-1]).any():
            wins, pairs = wins[order], pairs[order]
        return cls(heads.drop("evenhand place"), wins, pairs, sum(one.unlabelled for one in blocks))


def _blocks(
    lazy: nw.LazyFrame[Any], keys: list[str], block: Make[_Block], order: list[str], *, at_once: bool
) -> list[_Block]:
    """Some requests after the other; `at_once` and in `order` where draws go on from one to the next."""
    if not at_once:
        return by_ranking(lazy, keys, block)
    rows = to_polars(lazy).sort(*order, nulls_last=True)
    return [block(rows, first_of_runs(rows, keys))]


def _gathered(
    lazy: nw.LazyFrame[Any], found: Alignment | Carried, keys: list[str], *, drawn: bool
) -> nw.LazyFrame[Any]:
    """Rows from a cluster or a database with their labels; pairs need the order of scores only, draws that of the items too."""
    lazy = labelled(lazy, found) if isinstance(found, Alignment) else lazy
    if not drawn:
        return gathered(lazy, keys, ["relevance", "group"], "score") or lazy
    if lazy.implementation.is_ibis():  # a database may have another order of text
        return lazy
    return gathered(lazy, keys, ["relevance", "group", "score"], "item") or lazy


def _refuse_many(requests: int, groups: int) -> None:
    if requests * max(1, groups) ** 2 > MOST_CELLS:
        raise EvenhandError(
            f"{requests:,} requests times {groups:,} groups squared are too many to hold. Use broader groups."
        )


def _with_relevance(
    lazy: nw.LazyFrame[Any], keys: list[str], judgments: Judgments, missing: MissingRelevance
) -> tuple[nw.LazyFrame[Any], dict[str, int]]:
    """Relevance beside every scored item, by the policy for those that nobody judged."""
    if judgments.column is None:
        judged, lazy = matched_ids(same_engine(judgments.lazy, lazy), lazy, ["request", "item"], role="relevance")
        lazy = joined(lazy, judged, ["request", "item"], keys)
    lost = count_unjudged(lazy, judgments, missing, "scored items")
    if lost:
        lazy = lazy.filter(~unjudged()) if missing == "drop" else unjudged_as_zero(lazy)
    return lazy, {"scored_items_without_judgment": lost}


def _slices(heads: Any, names: list[str]) -> tuple[list[tuple[Any, ...]], Ints]:
    if not names:
        return [()], np.array([0, heads.height])
    first = first_of_runs(heads, names)
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

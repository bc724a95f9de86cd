"""Recommenders against each other on the same users: both are measured again on the users and items that they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evenhand.audits.assemble import notes
from evenhand.audits.declare import Call
from evenhand.audits.paired import SystemsResult, chosen_of, standing_of
from evenhand.audits.recommender import Part, RecommenderResult, Served, Tabulation
from evenhand.audits.systems import system_column
from evenhand.cards import Floats
from evenhand.errors import EvenhandError
from evenhand.findings import Findings, Row, row
from evenhand.intervals.crosstabs import Resampled, Swapped, affordable, values
from evenhand.intervals.difference import holm
from evenhand.intervals.kinds import percentile_ends
from evenhand.intervals.rules import ANYTHING
from evenhand.tallies.crosstab import ResampledLists
from evenhand.tallies.shown import Ints
from evenhand.tallies.user_lists import AT

QUESTION = "Which recommenders differ, on the same users?"
SAME_USERS = (
    "The interval is for as many other users like these, served by both sides: how far the difference would move had other users "
    "come. Items stay as they are."
)
DRAWS = 999
CELLS = AT["cells"]
AT_ONCE = 6
"""Sets of draws that are held beside each other: resamples of both, and both halves of every swap."""


def compare_recommenders(
    call: Call, result: RecommenderResult, systems: Sequence[Any] | None, draws: int | None
) -> SystemsResult:
    """Every two recommenders of a result, or those named: the first minus the second."""
    served, findings = result.served, result.findings
    if served is None:
        raise EvenhandError("The result does not hold its users. Pass what recommender gave in this session.")
    if served.convention is not None:
        raise EvenhandError(
            f"The result is measured as {served.convention} does, and recommenders are compared by evenhand's own numbers. Leave "
            "convention out."
        )
    column = system_column(findings)
    if column not in findings.slices or not findings.slices:
        raise EvenhandError("The result has one recommender. Pass system= with the column that names them.")
    at = findings.slices.index(column)
    others = tuple(s for s in findings.slices if s != column)
    parts = {(p.where[at], p.where[:at] + p.where[at + 1 :]): p for p in served.parts}
    chosen = chosen_of(list(dict.fromkeys(system for system, _ in parts)), systems)
    level = float(result.provenance.get("level", 0.95))
    is_shown = _shown_in(findings)
    rows: list[Row] = []
    for where in dict.fromkeys(place for _, place in parts):
        for first, second in combinations(chosen, 2):
            a, b = parts.get((first, where)), parts.get((second, where))
            if a is None or b is None:
                continue
            labels = dict(zip(others, where, strict=True)) | {"system": first, "versus": second}
            pair = _Pair.from_parts(served, a, b, draws or DRAWS, call.seed, where)
            pair_rows = pair.rows(labels, level) if pair.users >= max(1, served.fewest) else []
            rows += [r for r in pair_rows if is_shown(r, a) and is_shown(r, b)]
    if not rows:
        raise EvenhandError("No two recommenders can be compared. Pass a result with two that serve the same users.")
    adjusted = holm([r["p"] for r in rows])
    rows = [{**r, "p_adjusted": float(p)} for r, p in zip(rows, adjusted, strict=True)]
    facts = {
        "level": level, "p_adjusted": "Holm over all rows", "interval_for": SAME_USERS,
        "interval": f"paired bootstrap over shared users within their group: {draws or DRAWS:,} draws, percentile",
        "p": f"recommenders swapped within users at random: {draws or DRAWS:,} times; (1 + as large) / (1 + swaps)",
        "of": [dict(findings.provenance.get("plan", {}))],
    }  # fmt: skip
    return call.result(
        rows, backend=result.backend, slices=(*others, "system", "versus"), question=QUESTION, of=SystemsResult,
        words={"unit": "user"}, curves={"systems": standing_of(result, rows, others, chosen, column, level)}, facts=facts,
    )  # fmt: skip


def _shown_in(findings: Findings) -> Callable[[Row, Part], bool]:
    """Whether the result shows the metric and group of a row for a slice."""
    shown = {
        (*(r[s] for s in findings.slices), r["metric"], r["group"]): r["note"] != "suppressed" for r in findings.rows()
    }
    metrics = set(findings.metrics())
    return lambda r, part: r["metric"] in metrics and shown.get((*part.where, r["metric"], r["group"]), True)


@dataclass(frozen=True)
class _Pair:
    """Two recommenders on their shared users: (questions, draws) of each resampled, and swapped."""

    served: Served
    users: int
    lone: int
    smallest: Sequence[float]
    seen: tuple[Floats, Floats]
    resampled: tuple[Floats, Floats]
    swapped: tuple[Floats, Floats]

    @classmethod
    def from_parts(cls, served: Served, a: Part, b: Part, draws: int, seed: int, where: tuple[Any, ...]) -> _Pair:
        if served.is_matrix:
            raise EvenhandError("A matrix holds one recommender. Pass a long table with system=.")
        users, at_a, at_b = np.intersect1d(a.slice.users, b.slice.users, assume_unique=True, return_indices=True)
        codes, questions = a.tabulation.codes[at_a], served.questions()
        names = [*served.sides.names, "(unknown)", "(nobody)"]
        first, second = _side_by_side(served, a, b, at_a, at_b, codes)
        slots = float(
            min(first.lists.marks[:, CELLS].sum(), len(users) * (first.reading.shown.top or first.total.items))
        )
        draw_count = affordable(draws, AT_ONCE * len(np.unique(codes)), first.total.items, slots)
        drawn = Resampled(codes, names, draw_count, seed, ("compared", *where))
        swap, complement = Swapped(codes, draw_count, seed, where), Swapped(codes, draw_count, seed, where, other=True)

        def on(replicates: ResampledLists) -> Floats:
            return np.stack(values(replicates, first.total, questions))

        counted = first.total.mark("users")
        sizes = [float(len(users)) if q.pair is None else float(min(counted[list(q.pair)])) for q in questions]
        seen = [np.array([float(q.on(t.total)) for q in questions]) for t in (first, second)]
        return cls(
            served, len(users), a.slice.user_count + b.slice.user_count - 2 * len(users), sizes, (seen[0], seen[1]),
            (on(first.under(drawn)), on(second.under(drawn))),
            (on(first.under(swap).with_other(second.under(complement))), on(first.under(complement).with_other(second.under(swap)))),
        )  # fmt: skip

    def rows(self, labels: Mapping[str, Any], level: float) -> list[Row]:
        """A row per question; groups of too few users have none."""
        listed = []
        for i, q in enumerate(self.served.questions()):
            if 0 < self.smallest[i] < self.served.fewest:
                continue
            a, b = float(self.seen[0][i]), float(self.seen[1][i])
            low, high, p, undefined = self._ends(i, a - b, level)
            note = notes("undefined_difference" if math.isnan(a - b) else "", "unshared_users" if self.lone else "")
            listed.append(row(
                labels, q.ask.text, group=self.served.group(q.pair), estimate=a - b, low=low, high=high, ideal=0.0,
                better=q.ask.better, span=ANYTHING, units=self.users, rests_on=int(self.smallest[i]), few="few_units",
                undefined_draws=undefined, a=a, b=b, p=p, note=note,
            ))  # fmt: skip
        return listed

    def _ends(self, i: int, seen: float, level: float) -> tuple[float, float, float, int]:
        if math.isnan(seen) or self.users < 2:
            return math.nan, math.nan, math.nan, 0
        with np.errstate(invalid="ignore"):
            drawn = self.resampled[0][i] - self.resampled[1][i]
            swapped = np.abs(self.swapped[0][i] - self.swapped[1][i])
        low, high = percentile_ends(drawn[None, :], level, int(self.smallest[i]))
        large = int(
            (~(swapped < abs(seen) * (1 - 1e-6) - 1e-9)).sum()
        )  # an undefined swap counts as large: never too sure
        return float(low[0]), float(high[0]), (1 + large) / (1 + len(swapped)), int(np.isnan(drawn).sum())


def _side_by_side(
    served: Served, a: Part, b: Part, at_a: Ints, at_b: Ints, codes: Ints
) -> tuple[Tabulation, Tabulation]:
    """Two slices on the users that both have, and on the items that either has."""
    items = np.union1d(a.slice.items, b.slice.items)
    many = len(items) + max(0, max(a.slice.item_count, b.slice.item_count) - len(items))

    def tabulated(part: Part, users: Ints) -> Tabulation:
        reading = part.tabulation.reading
        lists = part.tabulation.lists.take(users).with_items(np.searchsorted(items, part.slice.items))
        return Tabulation.from_lists(lists, codes, served.sides.groups, many, reading, everywhere=False)

    return tabulated(a, at_a), tabulated(b, at_b)

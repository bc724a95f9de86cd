"""Systems against each other on the same requests: differences with interval and p, and what is distinguishable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from evenhand.audits.assemble import notes
from evenhand.audits.declare import Call
from evenhand.audits.requests import RankingResult, RequestSums
from evenhand.audits.systems import system_column
from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.findings import Findings, Row, row
from evenhand.intervals.difference import holm
from evenhand.intervals.paired import Difference, Draws, paired_difference
from evenhand.intervals.rules import ANYTHING
from evenhand.labels import match
from evenhand.metrics.agreement import oriented
from evenhand.report.words import systems as system_tables
from evenhand.results import Result, difference_of

QUESTION = "Which systems differ, on the same requests?"
BOTH = (
    "The interval is for other requests like these, answered by both sides: how far the difference would move had other requests "
    "come in. Items stay as they are."
)
DRAWS = 999
MOST_SWAPS = 100_000


@dataclass(frozen=True, repr=False)
class SystemsResult(Result):
    """Systems against each other; `.systems()` is the table of a paper: arrows say which way is fairer, letters who differs."""

    def systems(self, format: str = "table") -> str:
        """Systems by metrics as text, Markdown or LaTeX. Systems that share a letter cannot be told apart."""
        return system_tables.render(self.findings, format)


@dataclass
class Plan:
    """How the differences are made; draws are shared by all of one experiment that rest on as many requests."""

    level: float
    draws: int
    seed: int
    swaps: int = 0
    cache: dict[tuple[Any, ...], Draws] = field(default_factory=dict)

    @classmethod
    def for_call(cls, call: Call, draws: int | None, level: float, rows: int) -> Plan:
        """With so many draws; left out, also enough swaps for the smallest p to survive Holm over so many rows."""
        if draws is not None:
            return cls(level, draws, call.seed)
        return cls(level, DRAWS, call.seed, max(DRAWS, min(MOST_SWAPS, math.ceil(rows / (1 - level)))))

    def draws_for(self, requests: int, where: tuple[Any, ...]) -> Draws:
        if (requests, *where) not in self.cache:
            self.cache = {k: v for k, v in self.cache.items() if k[1:] == where}
            self.cache[requests, *where] = Draws(requests, self.draws, self.seed, where, self.swaps)
        return self.cache[requests, *where]

    def difference(self, a: RequestSums, b: RequestSums, where: tuple[Any, ...]) -> tuple[Difference, int, int]:
        """The difference, on how many requests, and how many of a and b were left out because the other lacks them."""
        if list(a.requests) == list(b.requests):
            at_a, at_b = np.arange(len(a.requests)), np.arange(len(b.requests))
        else:
            place = {q: i for i, q in enumerate(b.requests)}
            both = [(i, place[q]) for i, q in enumerate(a.requests) if q in place]
            at_a, at_b = np.array(both, dtype=np.int64).reshape(-1, 2).T
        shared = len(at_a)
        draws = self.draws_for(shared, where)
        paired = paired_difference(a.sums[at_a], b.sums[at_b], a.value, self.level, draws)
        return paired, shared, len(a.requests) + len(b.requests) - 2 * shared


def compare_systems(call: Call, result: Result, systems: Sequence[Any] | None, draws: int | None) -> SystemsResult:
    """Every two systems of a ranking result, or those named: the first minus the second."""
    if not isinstance(result, RankingResult):
        raise EvenhandError(
            "The result does not hold its requests. Pass what a ranking audit gave in this session, not a saved result."
        )
    column = system_column(result.findings)
    at = result.findings.slices.index(column)
    others = tuple(s for s in result.findings.slices if s != column)
    by_system = {(h.where[at], h.where[:at] + h.where[at + 1 :], h.metric, h.group): h for h in result.request_sums()}
    chosen = chosen_of(list(dict.fromkeys(key[0] for key in by_system)), systems)
    experiments = list(dict.fromkeys(key[1:] for key in by_system))
    level = float(result.provenance.get("level", 0.95))
    plan = Plan.for_call(call, draws, level, math.comb(len(chosen), 2) * len(experiments))
    rows_by_key = {_key(result.findings, r, column): r for r in result.findings.rows()}
    rows: list[Row] = []
    for where, metric, group in experiments:
        for first, second in combinations(chosen, 2):
            a, b = by_system.get((first, where, metric, group)), by_system.get((second, where, metric, group))
            if a is not None and b is not None:
                labels = dict(zip(others, where, strict=True)) | {"system": first, "versus": second}
                rows.append(_row(labels, a, b, rows_by_key[first, where, metric, group]["better"], plan, where))
    if not rows:
        raise EvenhandError("No two systems can be compared. Pass a result with two systems or more.")
    adjusted = holm([r["p"] for r in rows])
    rows = [{**r, "p_adjusted": float(p)} for r, p in zip(rows, adjusted, strict=True)]
    return call.result(
        rows, backend=result.backend, slices=(*others, "system", "versus"), question=QUESTION, of=SystemsResult,
        curves={"systems": standing_of(result, rows, others, chosen, column, plan.level)},
        facts=_facts(plan, "Holm over all rows", [result]),
    )  # fmt: skip


def _key(findings: Findings, r: Mapping[str, Any], column: str) -> tuple[Any, ...]:
    return r[column], tuple(r[s] for s in findings.slices if s != column), r["metric"], r["group"]


def chosen_of(existing: list[Any], systems: Sequence[Any] | None) -> list[Any]:
    if systems is None:
        return existing
    matched = [systems] if isinstance(systems, str) else [match(s, existing) for s in systems]
    lost = [s for s in matched if s not in existing]
    if isinstance(systems, str) or lost or len(systems) < 2:
        near = suggestion(str(lost[0]), map(str, existing)) if lost else ""
        raise EvenhandError(f"systems={systems!r} does not name two systems or more. {near}Known: {listing(existing)}.")
    return matched


def _row(
    labels: Mapping[str, Any], a: RequestSums, b: RequestSums, better: str, plan: Plan, where: tuple[Any, ...]
) -> Row:
    difference, shared, lone = plan.difference(a, b, where)
    undefined = "undefined_difference" if np.isnan(difference.estimate) else ""
    return row(
        labels, a.metric, group=a.group, estimate=difference.estimate, low=difference.low, high=difference.high, ideal=0.0, better=better,
        span=ANYTHING, units=shared, undefined_draws=difference.undefined_draws, a=difference.a, b=difference.b, p=difference.p,
        note=notes(undefined if shared else "no_shared_request", "unshared_requests" if lone and shared else ""),
    )  # fmt: skip


def _facts(plan: Plan, adjusted: str, results: Iterable[Result]) -> dict[str, Any]:
    return {
        "level": plan.level, "p_adjusted": adjusted,
        "interval_for": BOTH,
        "interval": f"paired bootstrap over shared requests: {plan.draws:,} draws, percentile",
        "p": f"systems swapped within requests at random: {plan.draws:,} times, where p is small "
        f"{max(plan.draws, plan.swaps):,} times; (1 + as large) / (1 + swaps)",
        "of": [dict(r.findings.provenance.get("plan", {})) for r in results],
    }  # fmt: skip


def compare_results(
    call: Call,
    a: RankingResult,
    b: Result,
    draws: int | None,
    called: Mapping[str, str],
    *,
    independent: bool,
    paired: bool | None,
) -> Result:
    """Two results of the same question: paired where they share requests, else as independent samples."""
    difference = difference_of(a.findings, b.findings, independent=independent or isinstance(b, RankingResult))
    slices, words = difference.slices, {**difference.words, **called}
    sums_a = {(h.where, h.metric, h.group): h for h in a.request_sums()}
    sums_b = {(h.where, h.metric, h.group): h for h in b.request_sums()} if isinstance(b, RankingResult) else {}
    shared = [k for k in sums_a if k in sums_b and set(sums_a[k].requests) & set(sums_b[k].requests)]
    if paired and not shared:
        raise EvenhandError("The two results share no request, so they cannot be paired. Leave paired out.")
    if not shared or independent or paired is False:
        facts = {**difference.provenance, "paired": False}
        return call.result(difference.columns, backend=a.backend, slices=slices, words=words, facts=facts)
    plan = Plan.for_call(call, draws, float(a.provenance.get("level", 0.95)), len(shared))
    rows = []
    for cells in difference.rows():
        key = (tuple(cells[s] for s in slices), cells["metric"], cells["group"])
        if key in shared:
            cells = _row({s: cells[s] for s in slices}, sums_a[key], sums_b[key], cells["better"], plan, key[0])
        rows.append(cells)
    adjusted = holm([r["p"] for r in rows])
    rows = [{**r, "p_adjusted": float(p)} for r, p in zip(rows, adjusted, strict=True)]
    facts = {**_facts(plan, "Holm over all rows", [a, b]), "paired": True}
    return call.result(rows, backend=a.backend, slices=slices, words=words, facts=facts)


def standing_of(
    result: Result, rows: Sequence[Row], others: tuple[str, ...], chosen: Sequence[Any], column: str, level: float
) -> dict[str, list[Any]]:
    """Value and letters of every system and metric, for the table."""
    names = (*others, "metric", "group", "better", "system", "value", "letters")
    points: dict[str, list[Any]] = {name: [] for name in names}
    by_metric: dict[tuple[Any, ...], dict[Any, Mapping[str, Any]]] = {}
    for r in result.findings.rows():
        system, *key = _key(result.findings, r, column)
        by_metric.setdefault(tuple(key), {})[system] = r
    significant: dict[tuple[Any, ...], set[frozenset[Any]]] = {}
    for d in rows:
        if d["p_adjusted"] <= 1 - level + 1e-12:
            key = [tuple(d[o] for o in others), d["metric"], d["group"]]
            significant.setdefault(tuple(key), set()).add(frozenset((d["system"], d["versus"])))
    for (where, metric, group), by_system in by_metric.items():
        measured = [(s, by_system[s]) for s in chosen if s in by_system]
        differing = significant.get((where, metric, group), set())
        fairness = {
            s: float(oriented(cells_of_system["estimate"], cells_of_system["better"], cells_of_system["ideal"]))
            for s, cells_of_system in measured
        }
        order = sorted((s for s, _ in measured), key=lambda s: -np.nan_to_num(fairness[s], nan=-np.inf))
        letters = letters_of(order, differing)
        for s, cells_of_system in measured:
            cells = (
                *where,
                metric,
                group,
                cells_of_system["better"],
                str(s),
                cells_of_system["estimate"],
                letters.get(s, ""),
            )
            for name, value in zip(names, cells, strict=True):
                points[name].append(value)
    return points


def letters_of(systems: Sequence[Any], differing: set[frozenset[Any]]) -> dict[Any, str]:
    """Letters such that two systems share one exactly when they do not differ; the first system has an a.

    >>> letters_of(["x", "y", "z"], {frozenset("xz")})
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    columns = [frozenset(systems)] if systems else []
    for pair in sorted(differing, key=lambda p: sorted(systems.index(s) for s in p)):
        split = [
            c - {s} if pair <= c else c
            for c in columns
            for s in (sorted(pair, key=systems.index) if pair <= c else [None])
        ]
        distinct = list(dict.fromkeys(split))
        columns = [c for c in distinct if not any(c < other for other in distinct)]
    columns.sort(key=lambda c: sorted(systems.index(s) for s in c))
    letters = [chr(ord("a") + i) if i < 26 else f"({i + 1})" for i in range(len(columns))]
    return {s: "".join(letter for letter, c in zip(letters, columns, strict=True) if s in c) for s in systems}

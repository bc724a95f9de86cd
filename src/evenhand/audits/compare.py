"""Did it change? Two results of the same question, row by row; or the systems of one result, two by two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from evenhand.audits.agreement import Saved, opened, sides, system_column
from evenhand.audits.declare import Call, Seed, Takes, audit
from evenhand.audits.requests import RankingResult, RequestSums, few_clusters
from evenhand.cards import Between
from evenhand.claims import Claim, decide
from evenhand.errors import EvenhandError, listing, plural, suggestion
from evenhand.findings import Points, Row, as_columns, notes, row
from evenhand.intervals.kinds import ANYTHING, holm
from evenhand.intervals.requests import Difference, Draws, paired_difference
from evenhand.labels import match
from evenhand.metrics.agreement import fairness
from evenhand.report.table import render_systems
from evenhand.results import COMPARED, Result, difference_claims, difference_of
from evenhand.tallies.ragged import Ints
from evenhand.tallies.requests import Requests
from evenhand.tallies.spectrum import Label

OTHER_REQUESTS = (
    "The interval is for other requests like these, answered by both sides: how far the difference would move had other requests "
    "come in. Items stay as they are."
)
OTHER_CLUSTERS = (
    "The interval is for other {clusters} like these with all of their requests, answered by both sides: how far the difference would "
    "move had other {clusters} come in. Items stay as they are."
)
DRAWS = 999


@audit(
    "compare",
    question="Did it change, and by more than chance?",
    charts=("intervals",),
    extra=COMPARED,
    over="requests",
)
def compare(
    call: Call,
    a: Saved,
    b: Annotated[Result | str | Path | None, Takes("RESULT.json", files="the later one")] = None,
    *,
    systems: Annotated[Sequence[Any] | None, Takes("SYSTEM", many=True)] = None,
    independent: bool = False,
    paired: bool | None = None,
    draws: Annotated[int, Between(99, 100_000)] | None = None,
    rng: Seed = None,
) -> Result:
    """Difference b - a of every row that two results share, with interval and p (Holm-adjusted beside it).

    Ranking results that share requests are compared on them: the interval resamples requests, p swaps the two within
    requests at random (whole clusters of requests where the results have `cluster=`); those that share none are compared as
    two samples of requests. A result of units holds none of them, so whether two share any is not known: interval and p need
    `independent=True`. `eh.experiment` compares arms and periods from the log itself.

    With one ranking result: its systems, two by two, on the same requests; p is adjusted over all rows, and
    `.systems("markdown")` is the table of a paper.

    Parameters
    ----------
    a : the earlier result, or the path of a saved one; changes are `b` minus `a`.
    b : the later result, of the same audit, or its path; left out, the systems of `a` are compared, the second of a pair minus
        the first.
    systems : which systems of `a` to compare (default: all of them).
    independent : the two results share no unit and no request (two platforms, different people), which only you can
        know.
    paired : whether requests with the same id are the same request (default: yes if ids match); False if requests
        were randomly assigned to the two.
    draws : resamples and permutations (default: 999, with more permutations if p is small and there are many pairs).

    Examples
    --------
    >>> import polars as pl, evenhand as eh
    >>> run = pl.DataFrame({"run": list("aabb") * 2, "request": [1] * 4 + [2] * 4, "item": list("xyyx") * 2, "rank": [1, 2] * 4})
    >>> result = eh.exposure(run, groups={"x": "f", "y": "m"}, protected="f", system="run", metrics="log_dp(attention='rbp')")
    >>> round(eh.compare(result, rng=1).frame["estimate"][0], 3)
    -1.386
    """
    first, second = opened(a), None if b is None else opened(b)
    plans = [dict(r.findings.provenance.get("plan") or {}) for r in (first, second or first)]
    call = replace(call, min_units=max(int(plan.get("min_units") or 0) for plan in plans))
    if second is None:
        return compare_systems(call, first, systems, draws)
    if systems is not None:
        raise EvenhandError(
            "systems chooses among the systems of one result, and two were given. Leave b or systems out."
        )
    if paired is not None and not (isinstance(first, RankingResult) and isinstance(second, RankingResult)):
        raise EvenhandError(
            "paired says how requests are compared, and a saved or other result holds none. Leave it out, or pass two results of "
            "a ranking audit made in this session."
        )
    called = sides([a, b or ""], plans)
    if isinstance(first, RankingResult):
        return compare_rankings(call, first, second, draws, called, independent=independent, paired=paired)
    call = replace(call, min_units=0)  # differences of figures as published
    difference = difference_of(first.findings, second.findings, independent=independent)
    names = called.get("a", "a"), called.get("b", "b")
    return call.result(
        difference.columns, backend=first.backend, slices=difference.slices, words={**difference.words, **called},
        facts=difference.provenance, claims=difference_claims(list(difference.rows()), difference.slices, lambda _: names),
    )  # fmt: skip


def compare_rankings(
    call: Call, a: RankingResult, b: Result, draws: int | None, called: Mapping[str, str], *, independent: bool, paired: bool | None
) -> Result:  # fmt: skip
    """Two ranking results: paired where they share requests, else as independent samples."""
    difference = difference_of(a.findings, b.findings, independent=independent or isinstance(b, RankingResult))
    rows = list(difference.rows())
    facts: dict[str, Any] = {**difference.provenance, "paired": False}
    sums_a, sums_b = ({h.key: h for h in r.request_sums()} if isinstance(r, RankingResult) else {} for r in (a, b))
    shared = [k for k in sums_a if k in sums_b and set(sums_a[k].requests) & set(sums_b[k].requests)]
    if paired and not shared:
        raise EvenhandError("The two results share no request, so they cannot be paired. Leave paired out.")
    if shared and not independent and paired is not False:
        test = PairedTest.for_call(call, draws, float(a.provenance.get("level", 0.95)), len(shared))
        for i, r in enumerate(rows):
            labels = {s: r[s] for s in difference.slices}
            key = (tuple(labels.values()), r["metric"], r["group"])
            if key in shared:
                rows[i] = test.row(labels, sums_a[key], sums_b[key], r["better"], key[0])
        rows, facts = with_holm(rows), {**test.facts(a, b), "paired": True}
    names = called.get("a", "a"), called.get("b", "b")
    return call.result(
        rows, backend=a.backend, slices=difference.slices, words={**difference.words, **called}, facts=facts,
        claims=difference_claims(rows, difference.slices, lambda _: names),
    )  # fmt: skip


def with_holm(rows: Sequence[Row]) -> list[Row]:
    return [{**r, "p_adjusted": float(p)} for r, p in zip(rows, holm([r["p"] for r in rows]), strict=True)]


@dataclass
class PairedTest:
    """Paired differences: bootstrap over shared requests, p by swapping sides within requests.

    Draws are shared by all differences of one experiment that rest on as many requests, or clusters of them.
    """

    level: float
    draws: int
    seed: int
    swaps: int = 0
    cache: dict[tuple[Any, ...], Draws] = field(default_factory=dict)

    @classmethod
    def for_call(
        cls, call: Call, draws: int | None, level: float, rows: int, *, most_swaps: int = 100_000
    ) -> PairedTest:
        """Without `draws`, enough swaps for the smallest p to survive Holm over so many rows."""
        if draws is not None:
            return cls(level, draws, call.seed)
        return cls(level, DRAWS, call.seed, max(DRAWS, min(most_swaps, math.ceil(rows / (1 - level)))))

    def difference(self, a: RequestSums, b: RequestSums, where: Label) -> tuple[Difference, Requests]:
        """The second minus the first, on the requests that both have, and which these are."""
        if list(a.requests) == list(b.requests):
            at_a = at_b = np.arange(len(a.requests))
        else:
            place = {q: i for i, q in enumerate(b.requests)}
            both = [(i, place[q]) for i, q in enumerate(a.requests) if q in place]
            at_a, at_b = np.array(both, dtype=np.int64).reshape(-1, 2).T
        shared = shared_requests(a, b, at_a, at_b)
        sums_a, sums_b = shared.unit_sums(0, a.sums[at_a]), shared.unit_sums(0, b.sums[at_b])
        key = (len(sums_a), *where)
        if key not in self.cache:
            self.cache = {k: v for k, v in self.cache.items() if k[1:] == where}
            self.cache[key] = Draws(len(sums_a), self.draws, self.seed, where, self.swaps)
        return paired_difference(sums_a, sums_b, a.value, self.level, self.cache[key]), shared

    def row(self, labels: Mapping[str, Any], a: RequestSums, b: RequestSums, better: str, where: Label) -> Row:
        d, requests = self.difference(a, b, where)
        shared = requests.size(0)
        undefined = "undefined_difference" if np.isnan(d.estimate) else ""
        unshared = "unshared_requests" if shared and len(a.requests) + len(b.requests) > 2 * shared else ""
        return row(
            labels, a.metric, group=a.group, estimate=d.estimate, low=d.low, high=d.high, ideal=0.0, better=better,
            span=ANYTHING, units=shared, undefined_draws=d.undefined_draws, a=d.a, b=d.b, p=d.p,
            note=notes(undefined if shared else "no_shared_request", unshared), rests_on=requests.unit_count(0),
            **few_clusters(requests.clusters is not None),
        )  # fmt: skip

    def facts(self, *results: Result) -> dict[str, Any]:
        """How the differences were made, for provenance."""
        cluster = results[0].findings.provenance.get("plan", {}).get("cluster")
        of = "" if cluster is None else f"clusters ({cluster}) of "
        return {
            "level": self.level, "p_adjusted": "Holm over all rows",
            "interval_for": OTHER_REQUESTS if cluster is None else OTHER_CLUSTERS.format(clusters=plural(cluster)),
            "interval": f"paired bootstrap over {of}shared requests: {self.draws:,} draws, percentile",
            "p": f"systems swapped within {of}requests at random: {self.draws:,} times, where p is small "
            f"{max(self.draws, self.swaps):,} times; (1 + as large) / (1 + swaps)",
            "of": [dict(r.findings.provenance.get("plan", {})) for r in results],
        }  # fmt: skip


def shared_requests(a: RequestSums, b: RequestSums, at_a: Ints, at_b: Ints) -> Requests:
    """The requests at these places of two sides, in their clusters where both have the same."""
    starts, ids = np.array([0, len(at_a)]), [a.requests[i] for i in at_a.tolist()]
    if a.clusters is None and b.clusters is None:
        return Requests([()], starts, ids)
    if a.clusters is None or b.clusters is None:
        raise EvenhandError(
            "One of the two results has cluster= and the other has not. Pass the same cluster= to both."
        )
    clusters = [a.clusters[i] for i in at_a.tolist()]
    if lost := [q for q, c, i in zip(ids, clusters, at_b.tolist(), strict=True) if b.clusters[i] != c]:
        raise EvenhandError(
            f"{len(lost):,} requests are in other clusters in the second result (first: {lost[0]!r}). Pass the same cluster= to both."
        )
    codes = {cluster: code for code, cluster in enumerate(dict.fromkeys(clusters))}
    return Requests([()], starts, ids, np.array([codes[c] for c in clusters], dtype=np.int64), list(codes))


@dataclass(frozen=True, repr=False)
class SystemsResult(Result):
    """Systems against each other; `.systems()` is the table of a paper: arrows say which way is fairer, letters who differs."""

    def systems(self, format: str = "table", *, caption: str = "", label: str = "") -> str:
        """Systems by metrics as text, Markdown or LaTeX; a notebook shows a table.

        Systems that share a letter do not differ significantly. `caption` and `label` make a LaTeX float.
        """
        return render_systems(self.findings, format, caption, label)


@dataclass(frozen=True)
class Systems:
    """The systems of one result.

    Attributes
    ----------
    column, others : the slice column that names systems, and the other slice columns.
    rows : (labels of the other slices, metric, group) -> {system: row of the result}.
    """

    result: Result
    column: str
    others: tuple[str, ...]
    rows: Mapping[tuple[Any, ...], Mapping[Any, Row]]

    @classmethod
    def from_result(cls, result: Result) -> Systems:
        column = system_column(result.findings)
        others = tuple(s for s in result.findings.slices if s != column)
        rows: dict[tuple[Any, ...], dict[Any, Row]] = {}
        for r in result.findings.rows():
            rows.setdefault((tuple(r[s] for s in others), r["metric"], r["group"]), {})[r[column]] = r
        return cls(result, column, others, rows)

    @property
    def level(self) -> float:
        return float(self.result.provenance.get("level", 0.95))

    def split(self, where: Label) -> tuple[Any, tuple[Any, ...]]:
        """The system of a slice, and the labels of the other slice columns."""
        at = self.result.findings.slices.index(self.column)
        return where[at], where[:at] + where[at + 1 :]

    def request_sums(self) -> dict[tuple[Any, ...], dict[Any, RequestSums]]:
        """The sums of every system, by the keys of `rows`."""
        sums: dict[tuple[Any, ...], dict[Any, RequestSums]] = {}
        for h in self.result.request_sums() if isinstance(self.result, RankingResult) else ():
            system, where = self.split(h.where)
            sums.setdefault((where, h.metric, h.group), {})[system] = h
        return sums

    def labels(self, where: Label, system: Any, versus: Any) -> dict[str, Any]:
        return dict(zip(self.others, where, strict=True)) | {"system": system, "versus": versus}

    def standing(self, claims: Sequence[Claim], chosen: Sequence[Any]) -> Points:
        """Value and letters of every system and metric, for the table of a paper."""
        differing: dict[tuple[Any, ...], set[frozenset[Any]]] = {}
        for claim in claims:
            if claim.made:
                key = (tuple(claim.where[o] for o in self.others), claim.metric, claim.group)
                differing.setdefault(key, set()).add(frozenset((claim.where["system"], claim.where["versus"])))
        points = []
        for (where, metric, group), by_system in self.rows.items():
            measured = {s: by_system[s] for s in chosen if s in by_system}
            standing = dict(zip(measured, fairness(list(measured.values())).tolist(), strict=True))
            order = sorted(measured, key=lambda s: (math.isnan(standing[s]), -standing[s]))
            letters = letters_of(order, differing.get((where, metric, group), set()))
            points += [
                (*where, metric, group, r["better"], str(s), r["estimate"], letters.get(s, ""), r["chance"], r["ideal"])
                for s, r in measured.items()
            ]
        return as_columns(
            (*self.others, "metric", "group", "better", "system", "value", "letters", "chance", "ideal"), points
        )


def chosen_systems(existing: list[Any], systems: Sequence[Any] | None) -> list[Any]:
    if systems is None:
        return existing
    matched = [systems] if isinstance(systems, str) else [match(s, existing) for s in systems]
    lost = [s for s in matched if s not in existing]
    if isinstance(systems, str) or lost or len(systems) < 2:
        near = suggestion(str(lost[0]), map(str, existing)) if lost else ""
        raise EvenhandError(f"systems={systems!r} does not name two systems or more. {near}Known: {listing(existing)}.")
    return matched


def letters_of(systems: Sequence[Any], differing: set[frozenset[Any]]) -> dict[Any, str]:
    """Letters such that two systems share one exactly when they do not differ.

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


def compare_systems(call: Call, result: Result, systems: Sequence[Any] | None, draws: int | None) -> SystemsResult:
    """Every two systems of a ranking result, or those named: the second minus the first."""
    if not isinstance(result, RankingResult):
        raise EvenhandError(
            "The result does not hold its requests, on which its systems would be compared. Pass what a ranking audit gave in this "
            "session, not a saved result."
        )
    table = Systems.from_result(result)
    sums = table.request_sums()
    measured = {system for by_system in sums.values() for system in by_system}
    existing = dict.fromkeys(result.findings.columns[table.column])
    chosen = chosen_systems([system for system in existing if system in measured], systems)
    test = PairedTest.for_call(call, draws, table.level, math.comb(len(chosen), 2) * len(sums))
    rows = [
        test.row(table.labels(key[0], a, b), by_system[a], by_system[b], table.rows[key][a]["better"], key[0])
        for key, by_system in sums.items()
        for a, b in combinations(chosen, 2)
        if a in by_system and b in by_system
    ]
    if not rows:
        raise EvenhandError("No two systems can be compared. Pass a result with two systems or more.")
    slices = (*table.others, "system", "versus")
    claims = difference_claims(rows, slices, lambda r: (str(r["system"]), str(r["versus"])))
    return call.result(
        with_holm(rows), backend=result.backend, slices=slices, question="Which systems differ, on the same requests?",
        of=SystemsResult, curves={"systems": table.standing(decide(claims, table.level), chosen)}, facts=test.facts(result),
        claims=claims,
    )  # fmt: skip

"""From measures over requests to what ranking audits answer: rows, the value of every request, sums for comparing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evenhand.audits.declare import Call
from evenhand.audits.min_units import suppressed
from evenhand.cards import Floats
from evenhand.errors import EvenhandError, plural
from evenhand.findings import Points, Row, notes, row
from evenhand.intervals.jackknife import influence_of_requests
from evenhand.intervals.kinds import DEFAULT_DRAWS, Interval, drawn_ends
from evenhand.intervals.requests import Reduced, metric_draws
from evenhand.labels import stream
from evenhand.results import Result, as_frame
from evenhand.tallies.requests import Measured, Requests
from evenhand.tallies.spectrum import Label

IN_RANDOM_ORDER = "in random order"
"""The null of every chance level of a ranking: each list in random order."""


@dataclass(frozen=True)
class RequestSums:
    """One row of the frame, ready to be resampled: sums per request, and what their totals mean.

    Attributes
    ----------
    where : labels of the slice. metric, group : as in the frame. requests : (Q,) ids.
    sums : (Q, K) what a resample of requests adds up; `value` turns (..., K) totals into the metric.
    clusters : (Q,) ids of the clusters that are resampled in place of single requests; None where there are none.
    """

    where: Label
    metric: str
    group: str | None
    requests: Sequence[Any]
    sums: Floats
    value: Callable[[Floats], Floats]
    clusters: Sequence[Any] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return self.where, self.metric, self.group


@dataclass(frozen=True, repr=False)
class RankingResult(Result):
    """A result that also knows the value of each request; these stay in memory and are never written to JSON."""

    each: Callable[[], Mapping[str, Sequence[Any]]] | None = None
    hold: Callable[[], Sequence[RequestSums]] | None = None

    @property
    def per_request(self) -> Any:
        """One row per slice, request and metric: request, system, metric, group, estimate, note; empty under `min_units`."""
        columns = {} if self.each is None else self.each()
        return as_frame(columns, self.backend, (*self.findings.slices, "request"))

    def only(self, *metrics: str) -> RankingResult:
        """The result restricted to these metrics, named as in the `metric` column."""
        each = self.each

        def chosen() -> Mapping[str, Sequence[Any]]:
            columns = {} if each is None else each()
            keep = [i for i, name in enumerate(columns.get("metric", ())) if name in metrics]
            return {name: [column[i] for i in keep] for name, column in columns.items()}

        return replace(self, findings=self.findings.only(*metrics), each=chosen)

    def request_sums(self) -> list[RequestSums]:
        """Every row of the frame by request, but those that cannot be added up."""
        metrics = set(self.findings.metrics())
        return [] if self.hold is None else [h for h in self.hold() if h.metric in metrics]

    def compare(self, other: Result, *, independent: bool = False) -> Result:
        """Another result minus this one; paired where both rest on the same requests."""
        from evenhand.audits.compare import compare

        return compare(self, other, independent=independent)


def refuse_one_sided(unknown: str, protected: Any) -> None:
    if unknown == "unprotected" and protected is None:
        raise EvenhandError("unknown='unprotected' needs two sides. Pass protected= with one of them.")


def draws_wanted(interval: Interval) -> int:
    """Resamples of requests; an interval without a number of its own takes the usual one."""
    return 0 if interval.kind == "none" else interval.draws or DEFAULT_DRAWS


OTHER_CLUSTERS = (
    "The interval is for other {clusters} like these with all of their requests, answered with these same items: how far the number "
    "would move had other {clusters} come in."
)


def interval_facts(call: Call, more: str = "") -> dict[str, str]:
    """How the intervals of a ranking audit are made and what they are for, for provenance."""
    interval, cluster = call.interval, call.arguments["cluster"]
    if interval.kind == "none":
        return {"interval": "none"}
    over = "requests" if cluster is None else f"clusters of requests ({cluster})"
    meant = {} if cluster is None else {"interval_for": OTHER_CLUSTERS.format(clusters=plural(cluster))}
    kind = {
        "bootstrap": "percentiles moved by their bias",
        "percentile": "percentiles",
        "normal": "normal, with the bootstrap error, logit or log scale",
    }[interval.kind]
    method = f"bootstrap over {over}{more}: {draws_wanted(interval):,} draws, {kind}, as wide as Student's t for few"
    return {"interval": method, **meant}


def rows_of(
    measures: Sequence[Reduced],
    within: Requests,
    names: Sequence[str],
    call: Call,
    small: Sequence[bool],
    drawn: Floats | None = None,
    rngs: Sequence[np.random.Generator] | None = None,
) -> list[Row]:
    """One row per slice and metric, slices in the order of their labels.

    Those of `small` slices hold no number. The requests of each slice are resampled, all metrics on the same draws (of
    `rngs`, where those made the blocks), unless `drawn` (slices, metrics, draws) holds the metrics on resamples of another
    kind.
    """
    rows, draws = [], draws_wanted(call.interval)
    for s, where in enumerate(within.slices):
        part = within.part(s)
        replicates: Sequence[Floats | None] = [None] * len(measures)
        if drawn is not None:
            replicates = list(drawn[s])
        elif draws and measures:
            rng = partial(stream, call.seed, call.audit.name, *where) if rngs is None else partial(rngs.__getitem__, s)
            replicates = metric_draws(measures, s, part, draws, rng)
        for f, values in zip(measures, replicates, strict=True):
            cells = _row(dict(zip(names, where, strict=True)), f, s, within, values, call.interval)
            if small[s]:  # the audit's own cells are hidden too
                extra = {name: math.nan if isinstance(cells.get(name), float) else None for name in call.audit.extra}
                cells = suppressed(cells) | extra
            elif call.min_units > 1 and f.measured.resampler is None:
                cells["influence"] = influence_of_requests(f.measured.value, f.parts[s])
            rows.append(cells)
    return rows


def _row(
    labels: Mapping[str, Any], f: Reduced, s: int, within: Requests, draws: Floats | None, interval: Interval
) -> Row:
    m, units, part = f.measured, within.size(s), within.part(s)
    estimate = f.estimate(s, part)
    lost = bool(np.isnan(estimate))
    defined_draws = np.full(1, np.nan) if draws is None or lost else np.asarray(draws)
    counted = units if m.counted is None else int(m.counted[part].sum())
    biased = m.ask.card.per == "request"  # a mean over requests is not; a norm or distance of their sums is
    independent = within.unit_count(s, m.counted)
    low, high = drawn_ends(estimate, defined_draws, interval, m.ask.span, independent, biased=biased)
    undefined = (
        int(np.isnan(m.values[part]).sum()) if m.skips and m.resampler is None else units - counted if m.left_out else 0
    )
    endless = bool(np.isinf(defined_draws).any()) and bool(np.isfinite(estimate))
    codes = [f.reason(s, part) if lost else "", "infinite_draws" if endless else ""]
    codes.append((m.left_out or "some_undefined") if undefined and not lost else "")
    chance, ideal = np.nan if m.chance is None else float(m.chance[s]), m.ideal(f.totals[s])
    cells = dict(m.cells(s, estimate))
    codes.append(cells.pop("code", ""))
    floor = {} if m.floor is None or np.isnan(m.floor[s]) else {"floor": float(m.floor[s])}
    least, most = m.ask.span
    if m.ask.better == "lower" and least < ideal <= estimate:
        least = ideal  # what the total allows: nothing is below it
    return row(
        labels, m.ask.text, group=m.group, estimate=estimate, low=low, high=high, chance=chance, ideal=ideal,
        better=m.ask.better, units=units - undefined, rests_on=independent, span=(least, most),
        undefined_draws=int((~np.isfinite(defined_draws)).sum()) if len(defined_draws) > 1 else 0,
        note=notes(*codes), **few_clusters(within.clusters is not None),
        **{"undefined": undefined, **floor, **cells},
    )  # fmt: skip


def few_clusters(is_clustered: bool) -> dict[str, str]:  # noqa: FBT001
    return {"few": "few_clusters"} if is_clustered else {}


def with_bounds(measured: Measured, bounds: Callable[[int], tuple[float, float, bool]]) -> Measured:
    """The metric with `least` and `most` in the row of each slice, and a note where no labeling may reach them."""

    def cells(s: int, estimate: float) -> dict[str, Any]:
        least, most, is_exact = bounds(s)
        return {**measured.cells(s, estimate), "least": least, "most": most, "code": "" if is_exact else "bound"}

    return replace(measured, cells=cells)


def per_request(
    measures: Sequence[Measured], within: Requests, names: Sequence[str], min_units: int
) -> Callable[[], Mapping[str, Sequence[Any]]]:
    """Columns of every request's value, made when somebody looks; without rows under `min_units`: each is about one request."""
    sizes = np.diff(within.starts)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    shown = [] if min_units > 1 else list(range(len(owner)))

    def columns() -> Points:
        ids, many = within.listed(), len(measures)
        table: Points = {"request": [ids[i] for i in shown] * many}
        for i, name in enumerate(names):
            table[name] = [within.slices[s][i] for s in owner[shown].tolist()] * many
        table.setdefault("system", [None] * (len(shown) * many))
        table["metric"] = [m.ask.text for m in measures for _ in shown]
        table["group"] = [m.group for m in measures for _ in shown]
        table["estimate"] = [v for m in measures for v in m.values[shown].tolist()]
        table["note"] = [code or None for m in measures for code in m.reasons[shown].tolist()]
        for m in measures:
            for name, values in m.more().items():
                table.setdefault(name, []).extend(values[i] for i in shown)
        return table

    return columns


def request_sums(measures: Sequence[Measured], within: Requests, small: Sequence[bool]) -> list[RequestSums]:
    """The sums of every request, for comparing systems; what cannot be added up is left out."""
    ids = within.listed()
    return [
        RequestSums(
            where, m.ask.text, m.group, ids[within.part(s)], m.sums[within.part(s)], m.value, within.clusters_of(s)
        )
        for s, where in enumerate(within.slices)
        if not small[s]
        for m in measures
        if m.resampler is None
    ]

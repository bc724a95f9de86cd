"""How unevenly is it spread? From a log of who received what to inequality numbers with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.declare import (
    OTHER_UNITS,
    By,
    Call,
    Columns,
    Count,
    Countable,
    Level,
    Metrics,
    Population,
    Seed,
    audit,
    log,
    refuse_many_slices,
)
from evenhand.audits.min_units import enough, suppressed
from evenhand.cards import Floats, MetricSpec, needing, parse_metrics
from evenhand.errors import EvenhandError, plural
from evenhand.findings import Points, Row, join_points, names_of, nan_in_data, notes, row
from evenhand.intervals.jackknife import both_ends, influence_of_units, viewer_ends
from evenhand.intervals.kinds import Estimates, Interval
from evenhand.intervals.spectra import MANY, MOST_CELLS, cautions, estimates
from evenhand.labels import stream
from evenhand.metrics.inequality import TOP_UNITS, corners, lorenz_curve, stops
from evenhand.metrics.random_orders import gini_of_dealt_rows
from evenhand.results import Result
from evenhand.sources.logs import Amount, NanPolicy, Units, units_of
from evenhand.tallies.buckets import Assignment, Buckets, BucketSlices
from evenhand.tallies.spectrum import Label, Slices, Spectrum

OTHER_VIEWERS = (
    "The interval is for these same {units}, seen by as many other {viewers} like these: how far the number would move had "
    "others looked. It is not for other {units}."
)
OTHER_BOTH = (
    "The interval is for other {units} like these, seen by as many other {viewers} like these: how far the number would move had "
    "both been others. It is wide rather than too short."
)
Null = Literal["events", "rows"] | None
NULLS = {"events": "at equal rates", "rows": "with rows dealt at random"}
"""What `chance` is the mean under, in words."""

ROWS_DEALT = 1 << 24
"""Rows that are dealt for the chance levels of all slices: a second's work."""

METRICS = ("gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "top_share(p=0.1)", "equal_share")
"""Metrics where none are named and 1% of the units are enough for a top share."""


@audit(
    "inequality",
    question="How unevenly is it spread?",
    charts=("lorenz", "top", "lorenz_log", "lorenz_annotated", "bins", "intervals", "scatter"),
    default=f"{', '.join(METRICS)}; no top share of fewer than 5 units",
    over="units",
    stands_for=OTHER_UNITS,
)
def inequality(
    call: Call,
    table: Countable,
    *,
    unit: str | None,
    amount: Columns = None,
    population: Population,
    weight: str | None = None,
    within: Columns = None,
    by: By = None,
    chance: Literal["auto", "events", "rows"] | None = "auto",
    metrics: Metrics | None = None,
    interval: str | None = "bootstrap(999)",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: NanPolicy = "raise",
) -> Result:
    """How unevenly `amount` is spread over `unit`, per slice, with intervals.

    Parameters
    ----------
    table : a dataframe (pandas, Polars eager or lazy, PyArrow, DuckDB, PySpark, Ibis), or a path or glob of Parquet,
        CSV or JSON lines. Rows of the same unit (and slice) are added up. `eh.read.tally("rows.csv")`, or
        `"tally:rows.csv"`, are the rows of the query that `evenhand sql inequality` prints.
    unit : column with the id of who receives (an author, a seller); None if every row is a unit.
    amount : column with how much is received (views, sales); several columns give one slice each; None counts rows.
    population : everyone who could have received something, including those who got nothing. A log shows only those
        who did, so there is no default: a number (the same for every slice), `{slice: number}`, a table of all units
        (with the `by` columns, each slice gets its own), or None for the units seen in the table only.
    weight : column with the weight of each unit.
    within : column with the viewer (account, session, day) behind each row: intervals are then about the same units
        seen by other viewers, not about other units. With the unit column too, `within=["viewer_id", "author_id"]`,
        they cover other units and other viewers, and are conservative. `interval` can then only be switched off.
    by : column(s) to slice by; `eh.log_bins(column, 20)` or `eh.quantile_bins(column, 10)` slice by a number that
        each unit has.
    chance : what the Gini index is expected to be by chance alone, over the `population` (none without one). `"events"`:
        every unit of the amount (an impression) is one event, and each goes to one of the units at random. `"rows"`: every
        row of the table (a purchase) is one event and takes its amount along. `"auto"`: `"events"` where rows are
        counted, otherwise none, since a table does not tell whether 7 impressions are seven events.
    metrics : metric strings, for example `"top_share(p=0.01)"`. Where none are named and the top 1% of the largest slice
        has fewer than 5 units, the top 5% or 10% is measured instead, below 50 units no top share.
    interval : `"bootstrap(999)"` (studentised if the metric has a standard error), `"percentile(999)"`, `"normal"` or
        None.
    min_units : suppress slices with fewer units that received anything, or with no more units than figures requested.
        Curves, shares and percentiles are then averaged over that many neighbouring units, and row counts are shown
        only if nothing is suppressed.
    nan_policy : what to do with a missing amount: `"raise"` an error, `"omit"` the row, or `"propagate"` it to its
        slice.

    Examples
    --------
    >>> import polars as pl
    >>> log = pl.DataFrame({"author": ["a", "a", "b", "c"], "views": [6, 4, 2, 1]})
    >>> inequality(log, unit="author", amount="views", population=4, metrics="gini", interval=None).frame["estimate"][0]
    0.5961538461538461
    """
    if metrics is not None:
        parse_metrics(metrics, needing(Spectrum))  # before any row is read
    viewer, both = _viewer_column(within, unit)
    prepared = units_of(
        table, unit=unit, amount=amount, population=population, by=by, weight=weight, nan_policy=nan_policy,
        marks={"randomized": viewer} if viewer is not None else None,
    )  # fmt: skip
    read = prepared.log
    several = amount is not None and not isinstance(amount, str)
    by_amount = [Slices.of_units(prepared, column) for column in read.amounts]
    facts: dict[str, Any] = {}
    if metrics is None:
        metrics = default_metrics(
            max((float(slices.spectra.units.max(initial=0)) for slices in by_amount), default=0.0)
        )
        if metrics != METRICS:
            call = replace(call, settled={"metrics": list(metrics)})
            facts["metrics"] = f"{', '.join(metrics)}: the top 1% of the largest slice has fewer than {TOP_UNITS} units"
    specs = parse_metrics(metrics, needing(Spectrum))
    null = _null(chance, prepared, specs)
    facts |= {
        "interval": _interval_words(call.interval, viewer, both=both), "population": prepared.population_words,
        "missing_slice_labels": "shown as a slice of their own",
    }  # fmt: skip
    buckets = None
    if viewer is not None and call.interval.kind != "none":
        log.info("putting %s into buckets", viewer)
        buckets = Assignment.from_log(read, randomized=viewer, rng=stream(call.seed, "buckets"))
        meant = OTHER_BOTH if both else OTHER_VIEWERS
        facts["interval_for"] = meant.format(units=plural(str(unit)), viewers=plural(viewer))
    measure = Measure(call, prepared, specs, null, buckets, both)
    rows: list[Row] = []
    curves: list[tuple[dict[str, Any], Points]] = []
    for column, slices in zip(read.amounts, by_amount, strict=True):
        log.info("adding up %s", column.name or "rows")
        cells = {"amount": column.name} if several else {}
        fewest = enough(call.min_units, specs) if call.min_units else 0
        small = [receivers < fewest for receivers in slices.spectra.receivers.tolist()]
        rows += [{**r, **cells} for r in measure.rows(slices, column, small)]
        count = len(slices.labels) * len(read.amounts)
        drawn = _lorenz_curves(slices, read.by, small, count, call.min_units)
        curves += [({**label, **cells}, points) for label, points in drawn]
    words = {"unit": unit or "row", "amount": "rows" if amount is None else "amounts" if several else str(amount)}
    amounts = ("amount",) if several else ()
    return call.result(
        rows, backend=read.backend, read=read.rows, dropped=read.dropped, slices=(*read.by, *amounts),
        columns=(*prepared.columns, *amounts), curves={"lorenz": join_points(curves)}, words=words, facts=facts,
        null=NULLS.get(null or "", ""),
    )  # fmt: skip


def _null(chance: str | None, prepared: Units, specs: Sequence[MetricSpec]) -> Null:
    """What decides by chance alone; None where the data do not tell."""
    read, may_be_known = prepared.log, prepared.everyone is not None and any(a.metric.has_chance for a in specs)
    if chance == "auto":
        return "events" if may_be_known and read.amounts[0].name is None else None
    return chance if may_be_known else None  # type: ignore[return-value]


def default_metrics(units: float) -> tuple[str, ...]:
    """Metrics where none are named: each top share has `TOP_UNITS` units in a slice of so many.

    >>> [m for m in default_metrics(200) if "top" in m], [m for m in default_metrics(20) if "top" in m]
    (['top_share(p=0.05)', 'top_share(p=0.1)'], [])
    """
    large = [p for p in (0.01, 0.05, 0.1) if p * units >= TOP_UNITS]
    tops = dict.fromkeys(large[:1] + large[-1:])
    return ("gini", "atkinson(epsilon=0.5)", *(f"top_share(p={p})" for p in tops), "equal_share")


def _viewer_column(within: Columns, unit: str | None) -> tuple[str | None, bool]:
    """The column of viewers, and whether units are resampled as well."""
    names = names_of(within)
    if not names:
        return None, False
    if unit is None:
        raise EvenhandError(f"within={within!r} needs units that several viewers see. Pass unit= with their column.")
    others = [name for name in names if name != unit]
    if len(others) != 1 or len(names) > 2:
        raise EvenhandError(
            f"within={', '.join(names)!r} is not one column of viewers. Pass it alone, or with unit={unit!r} beside it to resample both."
        )
    return others[0], len(names) == 2


@dataclass(frozen=True)
class Measure:
    """Metrics of slices, with intervals over units, over viewers (dealt into `buckets`), or `both`; `null` decides by chance."""

    call: Call
    units: Units
    metrics: Sequence[MetricSpec]
    null: Null
    buckets: Assignment | None
    both: bool

    def rows(self, slices: Slices, amount: Amount, small: Sequence[bool]) -> list[Row]:
        refuse_many_slices("inequality", len(slices.labels))
        log.info("measuring (slices: %s)", f"{len(slices.labels):,}")
        spectra, units, fewest = slices.spectra, slices.spectra.units, self.call.min_units
        seen = self._by_viewer(amount)
        measured = self._estimates(slices, seen)
        resamples_units = self.call.interval.kind != "none" and (seen is None or self.both)
        warned = cautions(spectra) if resamples_units else [""] * len(units)
        counts_rows = amount.name is None and spectra.weights is None  # whole rows, which no rule can divide
        levels = chances(self.units, slices, amount, self.metrics, self.null)
        by_metric = list(zip(self.metrics, measured, levels, [(a.ideal, a.better) for a in self.metrics], strict=True))
        rows: list[Row] = []
        for i, label in enumerate(slices.labels):
            cells, many = self.units.cells(label), int(units[i])
            moves = [0.0] * len(self.metrics)
            if fewest > 1 and not small[i]:
                moves = influence_of_units(spectra[i], [a.coarse(fewest) for a in self.metrics])
            for (a, e, chance, (ideal, better)), move in zip(by_metric, moves, strict=True):
                numbers = e.at(i)
                estimate = numbers["estimate"]
                note: str | None
                if np.isnan(estimate):
                    note = a.card.reason(spectra[i], **a.params)
                else:
                    note = notes(warned[i], a.caution(estimate, float(units[i])))
                r = row(
                    cells, a.text, **numbers, chance=float(chance[i]), ideal=ideal, better=better, units=many, note=note,
                    influence=move,
                )  # fmt: skip
                if counts_rows:
                    least, most = a.metric.attainable_on(spectra[i], **a.params)
                    r |= {"least": float(least), "most": float(most)}
                if seen is not None:
                    active = int((seen[label].volumes > 0).sum()) if label in seen else 0
                    r |= _over_viewers(r, a, active, both=self.both)
                if label in slices.broken:
                    r = nan_in_data(r)
                rows.append(suppressed(r) if small[i] else r)
        return rows

    def _by_viewer(self, amount: Amount) -> dict[Label, Buckets] | None:
        """Amounts of every slice by bucket of viewers; None where intervals are not over viewers."""
        if self.buckets is None:
            return None
        seen = self.units.padded(BucketSlices.per_slice(self.units.log, amount, self.buckets)).named(self.units)
        return dict(zip(seen.labels, seen.tallies, strict=True))

    def _estimates(self, slices: Slices, seen: Mapping[Label, Buckets] | None) -> list[Estimates]:
        """Every metric on every slice; with `min_units`, those that read single units see nothing finer than so many of them."""
        metrics, seed, fewest = self.metrics, self.call.seed, self.call.min_units
        interval = self.call.interval if seen is None or self.both else Interval("none")
        streams = [("inequality", *label) for label in slices.labels]
        local = [a for a in metrics if a.local] if fewest > 1 else []
        coarse = slices.spectra.coarse(fewest) if local else slices.spectra
        near = iter(estimates(coarse, local, interval, seed, streams) if local else ())
        whole = iter(estimates(slices.spectra, [a for a in metrics if a not in local], interval, seed, streams))
        measured = [next(near) if a in local else next(whole) for a in metrics]
        for i, label in enumerate(slices.labels):
            if seen is None or label not in seen:
                continue
            ends = viewer_ends(seen[label], metrics, [float(e.estimate[i]) for e in measured], self.call.interval)
            for e, by_viewer in zip(measured, ends, strict=True):
                by_unit = (float(e.low[i]), float(e.high[i]))
                e.low[i], e.high[i] = both_ends(float(e.estimate[i]), by_viewer, by_unit) if self.both else by_viewer
        return measured


def _over_viewers(r: Row, a: MetricSpec, seen_by: int, *, both: bool) -> Row:
    """Number and note of what an interval over viewers rests on: viewers, or the fewer units."""
    fewer_units = both and r["units"] < seen_by
    warns = both and r["units"] < a.interval_units and not np.isnan(r["estimate"])
    note = notes(r["note"] or "", "few_units") if warns else r["note"]
    resting = (r["units"], "few_units") if fewer_units else (seen_by, "few_viewers")
    return {"rests_on": resting[0], "few": resting[1], "note": note}


def chances(prepared: Units, slices: Slices, amount: Amount, metrics: Sequence[MetricSpec], null: Null) -> list[Floats]:
    """Means of the metrics by chance alone; NaN for metrics without, and where nothing says what chance decides."""
    levels = [np.full(len(slices.labels), np.nan) for _ in metrics]
    spectra = slices.spectra
    if null == "events":
        if (spectra.values % 1 != 0).any():
            raise EvenhandError(
                f"chance='events' needs whole amounts, and {amount.name!r} has fractions. Pass chance='rows' if every row is "
                "one event, or chance=None."
            )
        for chosen, batch in spectra.batches(MOST_CELLS):
            for a, level in zip(metrics, levels, strict=True):
                level[chosen] = a.metric.by_chance(batch, **a.params)
    if null == "rows":
        dealt = Slices.per_slice(replace(prepared.log, unit=None), amount).named(prepared)
        steps = ROWS_DEALT // max(1, len(slices.labels))
        by_label = dict(zip(dealt.labels, dealt.spectra.separate(), strict=True))
        for i, label in enumerate(slices.labels):
            units = float(spectra.units[i])
            gini = gini_of_dealt_rows(by_label[label].binned(), units, steps) if label in by_label else np.nan
            for a, level in zip(metrics, levels, strict=True):
                if a.card.name == "gini":
                    level[i] = gini * (units / (units - 1) if a.params.get("corrected") else 1.0)
    return levels


def _lorenz_curves(
    slices: Slices, by: Sequence[str], small: Sequence[bool], curve_count: int, fewest: int
) -> Iterator[tuple[dict[str, Any], Points]]:
    """Labels and corners of each slice's Lorenz curve, exact where a report reads it.

    No step is of fewer than `fewest` units.
    """
    if curve_count > 200:  # no picture can show them
        return
    drawn = [
        (label, s)
        for i, label in enumerate(slices.labels)
        if not ((s := slices.spectra[i]).reason() or small[i] or label in slices.broken)
    ]
    read_at = stops(curve_count, min((float(s.units) for _, s in drawn), default=1.0))
    most_corners = max(25, min(1_000, 6_000 // max(1, curve_count)))  # saved results stay below a megabyte
    for label, s in drawn:
        curve = lorenz_curve(s.coarse(fewest))
        at = corners(curve.population, curve.share, most_corners, read_at)
        points = {"population": curve.population[at].tolist(), "share": curve.share[at].tolist()}
        yield dict(zip(by, label, strict=True)), points


def _interval_words(how: Interval, within: str | None, *, both: bool) -> str:
    if within is not None and how.kind != "none":
        words = f"leaving out one {within} (or bucket of them) at a time, Student's t, logit or log scale"
        return f"{words}; added in squares to {_interval_words(how, None, both=False)}" if both else words
    binned = f"; draws of slices with over {MANY:,} different amounts run on bins of them, each at its mean (estimates are exact)"
    return {
        "bootstrap": "over units: linearised error and likely tails of the largest amounts, logit or log scale, never shorter "
        f"than Student's t; shares of units by Wilson; without a standard error {how.draws:,} bootstrap draws, percentile{binned}",
        "percentile": f"bootstrap over units, {how.draws:,} draws, percentile{binned}",
        "normal": "normal, with the linearised error, logit or log scale",
        "none": "none",
    }[how.kind]

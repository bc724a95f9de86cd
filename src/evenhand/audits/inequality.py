"""How unevenly is it spread? From a log of who received what to inequality numbers with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.assemble import enough, hidden, names_of, notes, suppressed
from evenhand.audits.declare import OTHER_UNITS, Call, Columns, Count, Countable, Level, Metrics, Seed, audit, log
from evenhand.audits.units import By, Population, Units, units_of
from evenhand.cards import MetricSpec, needing, parse_metrics
from evenhand.errors import EvenhandError
from evenhand.findings import Row, row
from evenhand.intervals.kinds import Estimates, Interval
from evenhand.intervals.spectra import MANY, MOST_CELLS, estimates
from evenhand.intervals.tails import cautions
from evenhand.intervals.viewers import both_ends, viewer_ends, viewers
from evenhand.metrics.shares import lorenz_curve
from evenhand.report.charts.lorenz_curves import corners, stops
from evenhand.report.words.text import plural
from evenhand.results import Result
from evenhand.sources.logs import Amount, NanPolicy
from evenhand.streams import stream
from evenhand.tallies.assignment import Assignment
from evenhand.tallies.buckets import Buckets, BucketSlices
from evenhand.tallies.slices import Label, Slices, whole_labels
from evenhand.tallies.spectrum import Spectra, Spectrum

OTHER_VIEWERS = (
    "The interval is for these same {units}, seen by as many other {viewers} like these: how far the number would move had "
    "others looked. It is not for other {units}."
)
OTHER_BOTH = (
    "The interval is for other {units} like these, seen by as many other {viewers} like these: how far the number would move had "
    "both been others. It is wide rather than too short."
)
NONE = Interval("none")
METRICS = ("gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "top_share(p=0.1)", "equal_share")
MOST_CURVES = 200
MOST_POINTS = 1_000
ALL_POINTS = 6_000


@audit(
    "inequality",
    question="How unevenly is it spread?",
    charts=("lorenz", "top", "lorenz_log", "lorenz_annotated", "bins", "intervals", "scatter"),
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
    metrics: Metrics = METRICS,
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
    metrics : metric strings, for example `"top_share(p=0.01)"`.
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
    specs = parse_metrics(metrics, needing(Spectrum))
    viewer, both = _sides(within, unit)
    prepared = units_of(
        table, unit=unit, amount=amount, population=population, by=by, weight=weight, nan_policy=nan_policy,
        marks={"randomized": viewer} if viewer is not None else None,
    )  # fmt: skip
    read = prepared.log
    several = amount is not None and not isinstance(amount, str)
    rows, curves, wide = _measured(prepared, specs, call, viewer, both=both, several=several)
    amounts = ("amount",) if several else ()
    facts = {
        "interval": _interval_words(call.interval, wide, viewer, both=both), "population": prepared.population_words,
        "missing_slice_labels": "shown as a slice of their own",
    }  # fmt: skip
    if viewer is not None and call.interval.kind != "none":
        meant = OTHER_BOTH if both else OTHER_VIEWERS
        facts["interval_for"] = meant.format(units=plural(str(unit)), viewers=plural(viewer))
    words = {"unit": unit or "row", "amount": "rows" if amount is None else "amounts" if several else str(amount)}
    return call.result(
        rows, backend=read.backend, read=read.rows, dropped=read.dropped, slices=(*read.by, *amounts),
        columns=(*prepared.columns, *amounts), curves={"lorenz": curves}, words=words, facts=facts,
    )  # fmt: skip


def _measured(
    prepared: Units, specs: Sequence[MetricSpec], call: Call, viewer: str | None, *, both: bool, several: bool
) -> tuple[list[Row], dict[str, list[Any]], int]:
    """Rows and Lorenz curves of every amount, and how many slices are drawn on binned amounts."""
    by, amounts = prepared.by, prepared.log.amounts
    seen = _viewers(prepared, viewer, call)
    rows: list[Row] = []
    curves: dict[str, list[Any]] = {}
    wide = 0
    for amount in amounts:
        log.info("adding up %s", amount.name or "rows")
        slices = prepared.slices(amount)
        extra = {"amount": amount.name} if several else {}
        small = hidden(slices.spectra.receivers.tolist(), enough(call.min_units, specs), total_shown=False)
        rows += _rows(slices, amount, prepared, specs, call, small, extra, seen(amount), both=both)
        _add_curves(curves, slices, by, extra, small, len(amounts), call.min_units)
        wide += int(slices.spectra.wider(MANY).sum())
    return rows, curves, wide


def _rows(
    slices: Slices,
    amount: Amount,
    prepared: Units,
    metrics: Sequence[MetricSpec],
    call: Call,
    small: Sequence[bool],
    extra: Mapping[str, Any],
    seen: Mapping[Label, Buckets] | None,
    *,
    both: bool,
) -> list[Row]:
    """Every slice and metric as a row, slices in the order of their labels."""
    log.info("measuring %s slices", f"{len(slices.labels):,}")
    streams = [("inequality", *label) for label in slices.labels]
    sampled = call.interval.kind != "none" and (seen is None or both)  # units stand for others like them
    measured = _estimates(slices.spectra, metrics, call, call.interval if sampled else NONE, streams)
    units = slices.spectra.units
    if seen is not None:
        _resample_viewers(measured, slices, seen, metrics, call.interval, both=both)
    warned = cautions(slices.spectra) if sampled else [""] * len(units)
    by_chance = chances(slices, amount, metrics)
    counted = amount.name is None and slices.spectra.weights is None  # whole rows, which no rule can divide
    rows = []
    directions = [(a.ideal, a.better) for a in metrics]
    for i, label in enumerate(slices.labels):
        labels = {**prepared.cells(label), **extra}
        for a, estimate, chance, (ideal, better) in zip(metrics, measured, by_chance, directions, strict=True):
            cells = row(
                labels, a.text, estimate=float(estimate.estimate[i]), low=float(estimate.low[i]), high=float(estimate.high[i]),
                chance=float(chance[i]), ideal=ideal, better=better, units=int(units[i]),
                undefined_draws=int(estimate.undefined_draws[i]), note=_note(slices, i, a, estimate, float(units[i]), warned[i]),
            )  # fmt: skip
            if counted:
                least, most = a.metric.attainable_on(slices.spectra[i], **a.params)
                cells |= {"least": float(least), "most": float(most)}
            if seen is not None:
                cells |= _rests_on(viewers(seen[label]) if label in seen else 0, int(units[i]) if both else None)
                if both and units[i] < a.fewest and not np.isnan(cells["estimate"]):
                    cells["note"] = notes(cells["note"] or "", "few_units")
            if label in slices.broken:
                cells |= dict.fromkeys(("estimate", "low", "high", "chance"), np.nan) | {"note": "nan_in_data"}
            rows.append(suppressed(cells) if small[i] else cells)
    return rows


def _resample_viewers(
    measured: Sequence[Estimates], slices: Slices, seen: Mapping[Label, Buckets], metrics: Sequence[MetricSpec],
    interval: Interval, *, both: bool,
) -> None:  # fmt: skip
    """Replace the ends of intervals by those over viewers, or over viewers and units."""
    for i, label in enumerate(slices.labels):
        if label not in seen:
            continue
        ends = viewer_ends(seen[label], metrics, [float(e.estimate[i]) for e in measured], interval)
        for estimate, by_viewer in zip(measured, ends, strict=True):
            by_unit = (float(estimate.low[i]), float(estimate.high[i]))
            low_high = both_ends(float(estimate.estimate[i]), by_viewer, by_unit) if both else by_viewer
            estimate.low[i], estimate.high[i] = low_high


def _estimates(
    spectra: Spectra, metrics: Sequence[MetricSpec], call: Call, how: Interval, streams: Sequence[tuple[Any, ...]]
) -> list[Estimates]:
    """Every metric on every slice; with `min_units`, what reads single places sees nothing finer than so many units."""
    local = [a for a in metrics if a.local] if call.min_units > 1 else []
    near = iter(estimates(spectra.coarse(call.min_units), local, how, call.seed, streams) if local else ())
    whole = iter(estimates(spectra, [a for a in metrics if a not in local], how, call.seed, streams))
    return [next(near) if a in local else next(whole) for a in metrics]


def _sides(within: Columns, unit: str | None) -> tuple[str | None, bool]:
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


def _rests_on(seen_by: int, units: int | None) -> dict[str, Any]:
    """How many viewers an interval rests on, or units where these are resampled too and are fewer."""
    if units is not None and units < seen_by:
        return {"rests_on": units, "few": "few_units"}
    return {"rests_on": seen_by, "few": "few_viewers"}


def _viewers(prepared: Units, within: str | None, call: Call) -> Callable[[Amount], Mapping[Label, Buckets] | None]:
    """A function from an amount to the buckets of viewers per slice; it returns None without `within`."""
    if within is None or call.interval.kind == "none":
        return lambda _: None
    log.info("putting %s into buckets", within)
    assignment = Assignment.from_log(prepared.log, randomized=within, rng=stream(call.seed, "buckets"))

    def by_viewer(amount: Amount) -> Mapping[Label, Buckets]:
        seen = BucketSlices.per_slice(prepared.log, amount, assignment)
        slices = seen.among(prepared.padded(seen.pooled))
        named = whole_labels([prepared.legend.name(prepared.by, label) for label in slices.labels])
        return dict(zip(named, slices.tallies, strict=True))

    return by_viewer


def _note(
    slices: Slices, i: int, a: MetricSpec, estimates_of_metric: Estimates, units: float, warned: str
) -> str | None:
    if np.isnan(estimates_of_metric.estimate[i]):
        return a.card.reason(slices.spectra[i], **a.params)
    return notes(warned, a.caution(float(estimates_of_metric.estimate[i]), units))


def chances(slices: Slices, amount: Amount, metrics: Sequence[MetricSpec]) -> list[Any]:
    """Values expected by chance if all units had equal rates, for metrics that have a chance level."""
    has_chance = amount.integer and any(a.metric.has_chance for a in metrics)
    levels = [np.full(len(slices.labels), np.nan) for _ in metrics]
    for chosen, batch in slices.spectra.batches(MOST_CELLS) if has_chance else ():
        for a, chance in zip(metrics, levels, strict=True):
            chance[chosen] = a.metric.by_chance(batch, **a.params)
    return levels


def _add_curves(
    curves: dict[str, list[Any]],
    slices: Slices,
    by: Sequence[str],
    extra: Mapping[str, Any],
    small: Sequence[bool],
    amounts: int,
    fewest: int,
) -> None:
    """Corners of each slice's Lorenz polygon, thinned but exact where a report reads it; none for too many slices.

    No step is of fewer than `fewest` units.
    """
    many = len(slices.labels) * amounts
    if many > MOST_CURVES:
        return
    most = max(25, min(MOST_POINTS, ALL_POINTS // max(1, many)))
    drawn = [
        (label, s)
        for i, label in enumerate(slices.labels)
        if not ((s := slices.spectra[i]).reason() or small[i] or label in slices.broken)
    ]
    read_at = stops(many, min((float(s.units) for _, s in drawn), default=1.0))
    for label, s in drawn:
        curve = lorenz_curve(s.coarse(fewest))
        points = corners(curve.population, curve.share, most, read_at)
        for name, value in [*zip(by, label, strict=True), *extra.items()]:
            curves.setdefault(name, []).extend([value] * len(points))
        curves.setdefault("population", []).extend(curve.population[points].tolist())
        curves.setdefault("share", []).extend(curve.share[points].tolist())


def _interval_words(how: Interval, wide: int, within: str | None, *, both: bool) -> str:
    if within is not None and how.kind != "none":
        words = f"leaving out one {within} (or bucket of them) at a time, Student's t, logit or log scale"
        return f"{words}; added in squares to {_interval_words(how, wide, None, both=False)}" if both else words
    words = {
        "bootstrap": f"bootstrap over units, {how.draws:,} draws, studentised with the linearised error, logit or log scale, "
        "the largest amounts from fitted tails, never shorter than Student's t",
        "percentile": f"bootstrap over units, {how.draws:,} draws, percentile",
        "normal": "normal, with the linearised error, logit or log scale",
        "none": "none",
    }[how.kind]
    binned = f"; draws of {wide:,} slices with over {MANY:,} different amounts run on bins of them, each at its mean"
    binned += " (estimates are exact)"
    return words + (binned if wide and how.draws else "")

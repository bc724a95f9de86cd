"""Which source makes the skew? The Gini index split over the sources that units' amounts come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evenhand.audits.assemble import names_of, notes, suppressed
from evenhand.audits.declare import OTHER_UNITS, Call, Count, Countable, Level, Metrics, Seed, audit, log
from evenhand.audits.inequality import chances
from evenhand.audits.units import By, Population, Units, units_of
from evenhand.cards import parse_metric
from evenhand.errors import EvenhandError, unknown_name
from evenhand.findings import Row, label, row
from evenhand.intervals.kinds import Interval
from evenhand.intervals.parts import WIDE, Ends, blank, drawn_ends, linearised_ends
from evenhand.intervals.rules import ANYTHING
from evenhand.intervals.spectra import estimates
from evenhand.intervals.tails import cautions
from evenhand.metrics.decomposition import SourceParts, source_influence, source_parts
from evenhand.results import Result
from evenhand.sources.logs import Amount, NanPolicy
from evenhand.sources.slicing import LogBins, QuantileBins
from evenhand.streams import stream
from evenhand.tallies.slices import whole_labels
from evenhand.tallies.sources import Sources, SourceSlices
from evenhand.tallies.spectrum import Spectra, Spectrum

PER_SOURCE = ("share", "own_gini", "correlation", "contribution", "marginal")
METRICS = ("gini", *PER_SOURCE)
DRAWN = ("share", "correlation", "contribution", "marginal")
"""Figures that need the units' whole vectors; the other two are Gini indices, measured as the inequality audit does."""

SPANS = {"share": (0.0, 1.0), "correlation": (-1.0, 1.0), "contribution": (-1.0, 1.0), "marginal": ANYTHING}
SMALL = "(small sources)"
"""What sources with too few receivers are called, taken together before anything is measured."""

ONE = frozenset({"share", "marginal"})
"""Figures that are certain where there is one source only: all of it comes from there."""


@audit(
    "sources",
    question="Which source makes the skew?",
    charts=("sources", "intervals", "scatter"),
    over="units",
    stands_for=OTHER_UNITS,
)
def sources(
    call: Call,
    table: Countable,
    *,
    unit: str,
    amount: str | None = None,
    source: str | LogBins | QuantileBins,
    population: Population,
    by: By = None,
    metrics: Metrics = METRICS,
    interval: str | None = "bootstrap(999)",
    level: Level = 0.95,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: NanPolicy = "raise",
) -> Result:
    """What each source of `amount` does to the inequality of units' totals (Lerman and Yitzhaki).

    Per source (column `group`): `share` of the total, `own_gini`, `correlation` of its amounts with the rank of the total,
    `contribution` to the Gini index (they add up to it), and `marginal`: scaling the source up by 1% moves the index by
    1% of it. A source can contribute and still equalise: read "which source makes the skew" off `marginal`.

    Parameters
    ----------
    table, unit, amount, population, by, interval, level, rng, nan_policy : as in `eh.inequality`.
    source : column with the source of each amount, or bins of a number, `eh.log_bins("followers", 5)`.
    min_units : suppress slices with fewer units that received anything, and merge sources with fewer.
    metrics : any of `gini`, `share`, `own_gini`, `correlation`, `contribution`, `marginal`.

    Examples
    --------
    >>> import polars as pl
    >>> log = pl.DataFrame({"who": list("aabb"), "via": ["home", "search"] * 2, "views": [1, 0, 2, 5]})
    >>> r = sources(log, unit="who", amount="views", source="via", population=None, interval=None)
    >>> r.only("contribution").frame.select("group", "estimate").rows()
    [('home', 0.0625), ('search', 0.3125)]
    """
    chosen = checked_metrics(metrics)
    how, seed = call.interval, call.seed
    prepared = units_of(
        table, unit=unit, amount=amount, population=population, by=by, nan_policy=nan_policy, part=("source", source)
    )
    whole = prepared.whole()
    log.info("adding up %s per source", amount or "rows")
    tallies = _tallies(whole, prepared.by[-1])
    rows = _rows(tallies, whole, whole.log.amounts[0], chosen, how, seed, call.min_units)
    wide = sum(len(t.counts) > WIDE for t in tallies.tallies)
    facts = {
        "interval": _interval_words(how, wide), "population": whole.population_words,
        "missing_slice_labels": "shown as a slice of their own",
    }  # fmt: skip
    words = {"unit": unit, "amount": "rows" if amount is None else amount, "source": prepared.by[-1]}
    return call.result(
        rows, backend=whole.log.backend, read=whole.log.rows, dropped=whole.log.dropped, slices=whole.by,
        columns=whole.columns, words=words, facts=facts,
    )  # fmt: skip


def checked_metrics(metrics: str | Sequence[str]) -> tuple[str, ...]:
    listed = names_of(metrics)
    for name in listed:
        if name not in METRICS:
            raise unknown_name("metrics", str(name), METRICS, what="a figure of this audit")
    if not listed or len(set(listed)) < len(listed):
        raise EvenhandError(f"metrics={metrics!r} is empty or names one twice. Name some of {', '.join(METRICS)}.")
    return listed


def _tallies(whole: Units, source: str) -> SourceSlices:
    """The vectors of every slice, with those who received nothing, bins called by name."""
    read, legend = whole.log, whole.legend
    seen = SourceSlices.per_slice(read, read.amounts[0], f"by_{len(whole.by)}")
    full = seen.padded(whole.padded(seen.totals))
    full = full.renamed(tuple(legend.name([source], (name,))[0] for name in full.names))
    order = legend.order(full.labels)
    labels = whole_labels([legend.name(read.by, full.labels[i]) for i in order])
    broken = frozenset(legend.name(read.by, label) for label in full.broken)
    return SourceSlices(full.names, labels, tuple(full.tallies[i] for i in order), broken)


def _rows(
    slices: SourceSlices, whole: Units, amount: Amount, metrics: Sequence[str], how: Interval, seed: int, fewest: int
) -> list[Row]:
    log.info("measuring %s slices", f"{len(slices.labels):,}")
    gini, totals = parse_metric("gini"), slices.totals
    streams = [("inequality", *where) for where in slices.labels]
    (index,) = estimates(totals.spectra, [gini], how, seed, streams)
    (chance,) = chances(totals, amount, [gini])
    warned = cautions(totals.spectra) if how.kind != "none" else [""] * len(slices.labels)
    rows: list[Row] = []
    for i, (where, original) in enumerate(zip(slices.labels, slices.tallies, strict=True)):
        cells, units = whole.cells(where), int(original.units)
        few = totals.spectra.receivers[i] < fewest
        small = [] if few or fewest <= 1 else original.few(fewest)
        tally = original.together(small, SMALL)
        slice_rows = []
        if "gini" in metrics:
            slice_rows = [row(
                cells, "gini", estimate=float(index.estimate[i]), low=float(index.low[i]), high=float(index.high[i]),
                chance=float(chance[i]), ideal=gini.ideal, better=gini.better, undefined_draws=int(index.undefined_draws[i]),
            )]  # fmt: skip
        if len(tally):
            slice_rows += _source_rows(cells, tally, [a for a in metrics if a != "gini"], how, seed, streams[i])
        reason = tally.reason()
        for r in slice_rows:
            r["units"] = units
            r["note"] = reason or notes(*dict.fromkeys([r["note"] or "", warned[i]]))
            if where in slices.broken:
                r |= dict.fromkeys(("estimate", "low", "high", "chance"), math.nan) | {"note": "nan_in_data"}
            rows.append(suppressed(r) if few else r)
        names = [label(original.names[k]) for k in small]
        rows += [suppressed(row(cells, figure, group=name)) for name in names for figure in metrics if figure != "gini"]
    return rows


def _source_rows(
    cells: dict[str, Any], tally: Sources, metrics: Sequence[str], how: Interval, seed: int, labels: tuple[Any, ...]
) -> list[Row]:
    """A row per source and figure."""
    parts = source_parts(tally)
    values = _figures(parts)
    ends = _ends(tally, parts, how, seed, labels)
    spectra = Spectra.from_spectra([tally.spectrum_of(k) for k in range(len(tally))])
    gini = parse_metric("gini")
    (gini_by_source,) = estimates(spectra, [gini], how, seed, [(*labels, name) for name in tally.names])
    values["own_gini"] = gini_by_source.estimate
    ends["own_gini"] = Ends(gini_by_source.low, gini_by_source.high, gini_by_source.undefined_draws)
    warned = cautions(spectra) if how.kind != "none" else [""] * len(tally)
    rows = []
    for k, name in enumerate(tally.names):
        silent = not tally.amounts[:, k].any()
        for figure in metrics:
            even = {"ideal": gini.ideal, "better": gini.better} if figure == "own_gini" else {}
            estimate, end = float(values[figure][k]), ends[figure]
            code = ("zero_total" if silent else "constant_input") if math.isnan(estimate) else warned[k]
            ends_here = {"low": float(end.low[k]), "high": float(end.high[k])}
            drawn = int(end.undefined_draws[k])
            rows.append(
                row(
                    cells,
                    figure,
                    group=label(name),
                    estimate=estimate,
                    undefined_draws=drawn,
                    note=code or None,
                    span=SPANS.get(figure),
                    certain=figure in ONE and len(tally) == 1,
                    **ends_here,
                    **even,
                )
            )
    return rows


def _ends(tally: Sources, parts: SourceParts, how: Interval, seed: int, labels: tuple[Any, ...]) -> dict[str, Ends]:
    """Percentile bootstrap over units, never shorter than Student's t unless percentiles were asked for; normal with the
    linearised error where asked for, or too wide to draw.
    """
    values = _figures(parts)
    if how.kind == "none" or tally.reason():
        return blank(values)
    influence = source_influence(tally, parts)
    units = Spectrum(tally.totals, tally.counts)
    least = linearised_ends(units, {n: influence[n].T for n in DRAWN}, values, SPANS, how.level)
    if how.kind == "normal" or len(tally.counts) > WIDE:
        return least
    rng = stream(seed, "sources", *labels)
    drawn = drawn_ends(tally, lambda t: _figures(source_parts(t)), values, how, rng)
    if how.kind == "percentile":
        return drawn
    return {n: ends.reaching(least[n].low, least[n].high) for n, ends in drawn.items()}


def _figures(parts: SourceParts) -> dict[str, Any]:
    return {name: getattr(parts, name) for name in DRAWN}


def _interval_words(how: Interval, wide: int) -> str:
    if how.kind == "none":
        return "none"
    if how.kind == "normal":
        return "normal, with the linearised error"
    kind = "studentised" if how.kind == "bootstrap" else "percentile"
    words = f"bootstrap over units, {how.draws:,} draws: {kind} for the Gini indices, percentile for the figures of a "
    words += "source, never shorter than Student's t" if how.kind == "bootstrap" else "source"
    many = f"; {wide:,} slices with over {WIDE:,} different vectors of amounts have normal intervals with the linearised error"
    return words + (many if wide else "")

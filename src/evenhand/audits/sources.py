"""Which source makes the skew? The Gini index split over the sources that units' amounts come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evenhand.audits.assemble import chosen_figures, nan_in_data, notes, suppressed
from evenhand.audits.declare import OTHER_UNITS, Call, audit, log
from evenhand.audits.inequality import chances
from evenhand.audits.parameters import Count, Countable, Level, Metrics, Seed
from evenhand.audits.units import By, Population, Units, units_of
from evenhand.cards import Floats, parse_metric
from evenhand.findings import Row, label, row
from evenhand.intervals.kinds import Interval
from evenhand.intervals.parts import WIDE, Ends, blank, drawn_ends, linearised_ends
from evenhand.intervals.rules import ANYTHING
from evenhand.intervals.spectra import estimates
from evenhand.intervals.tails import cautions
from evenhand.labels import whole_labels
from evenhand.metrics.decomposition import SourceParts, source_influence, source_parts
from evenhand.results import Result
from evenhand.sources.logs import NanPolicy
from evenhand.sources.slicing import Bins
from evenhand.streams import stream
from evenhand.tallies.slices import Label
from evenhand.tallies.sources import Sources, SourceSlices
from evenhand.tallies.spectrum import Spectra, Spectrum

METRICS = ("gini", "share", "own_gini", "correlation", "contribution", "marginal")
DRAWN = ("share", "correlation", "contribution", "marginal")
"""Figures that need the units' whole vectors; the other two are Gini indices, measured as the inequality audit does."""

SPANS = {"share": (0.0, 1.0), "correlation": (-1.0, 1.0), "contribution": (-1.0, 1.0), "marginal": ANYTHING}
SMALL = "(small sources)"
"""What sources with too few receivers are called, taken together before anything is measured."""

CERTAIN_ALONE = frozenset({"share", "marginal"})
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
    source: str | Bins,
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
    chosen = chosen_figures(metrics, METRICS)
    prepared = units_of(
        table, unit=unit, amount=amount, population=population, by=by, nan_policy=nan_policy, part=("source", source)
    )
    whole = prepared.whole()
    log.info("adding up %s per source", amount or "rows")
    slices = _source_slices(whole, prepared.by[-1])
    wide = sum(len(t.counts) > WIDE for t in slices.tallies)
    facts = {
        "interval": _interval_words(call.interval, wide), "population": whole.population_words,
        "missing_slice_labels": "shown as a slice of their own",
    }  # fmt: skip
    words = {"unit": unit, "amount": "rows" if amount is None else amount, "source": prepared.by[-1]}
    return call.result(
        _rows(slices, whole, chosen, call), backend=whole.log.backend, read=whole.log.rows, dropped=whole.log.dropped,
        slices=whole.by, columns=whole.columns, words=words, facts=facts,
    )  # fmt: skip


def _source_slices(whole: Units, source: str) -> SourceSlices:
    """The vectors of every slice, with those who received nothing, bins called by name."""
    read, legend = whole.log, whole.legend
    seen = SourceSlices.per_slice(read, read.amounts[0], f"by_{len(whole.by)}")
    full = seen.padded(whole.padded(seen.totals))
    full = full.renamed(tuple(legend.name([source], (name,))[0] for name in full.names))
    order = legend.order(full.labels)
    labels = whole_labels([legend.name(read.by, full.labels[i]) for i in order])
    broken = frozenset(legend.name(read.by, label) for label in full.broken)
    return SourceSlices(full.names, labels, tuple(full.tallies[i] for i in order), broken)


def _rows(slices: SourceSlices, whole: Units, metrics: Sequence[str], call: Call) -> list[Row]:
    """The Gini index of every slice, then a row per source and figure."""
    log.info("measuring %s slices", f"{len(slices.labels):,}")
    gini, totals, fewest = parse_metric("gini"), slices.totals, call.min_units
    streams = [("inequality", *where) for where in slices.labels]
    (index,) = estimates(totals.spectra, [gini], call.interval, call.seed, streams)
    (chance,) = chances(totals, whole.log.amounts[0], [gini])
    warned = cautions(totals.spectra) if call.interval.kind != "none" else [""] * len(slices.labels)
    figures = [m for m in metrics if m != "gini"]
    rows: list[Row] = []
    for i, (where, original) in enumerate(zip(slices.labels, slices.tallies, strict=True)):
        cells, units = whole.cells(where), int(original.units)
        few = totals.spectra.receivers[i] < fewest
        small = [] if few or fewest <= 1 else original.small_sources(fewest)
        tally = original.merge_sources(small, SMALL)
        slice_rows = []
        if "gini" in metrics:
            slice_rows = [row(
                cells, "gini", estimate=float(index.estimate[i]), low=float(index.low[i]), high=float(index.high[i]),
                chance=float(chance[i]), ideal=gini.ideal, better=gini.better, undefined_draws=int(index.undefined_draws[i]),
            )]  # fmt: skip
        if len(tally):
            slice_rows += _source_rows(cells, tally, figures, call, streams[i])
        for r in slice_rows:
            r |= {"units": units, "note": tally.reason() or notes(*dict.fromkeys([r["note"] or "", warned[i]]))}
            if where in slices.broken:
                r = nan_in_data(r)
            rows.append(suppressed(r) if few else r)
        names = [label(original.names[k]) for k in small]
        rows += [suppressed(row(cells, figure, group=name)) for name in names for figure in figures]
    return rows


def _source_rows(cells: dict[str, Any], tally: Sources, figures: Sequence[str], call: Call, labels: Label) -> list[Row]:
    """A row per source and figure."""
    parts, interval = source_parts(tally), call.interval
    values, ends = _figures(parts), _ends(tally, parts, call, labels)
    spectra = Spectra.from_spectra([tally.spectrum_of(k) for k in range(len(tally))])
    gini = parse_metric("gini")
    (source_gini,) = estimates(spectra, [gini], interval, call.seed, [(*labels, name) for name in tally.names])
    values["own_gini"] = source_gini.estimate
    ends["own_gini"] = Ends(source_gini.low, source_gini.high, source_gini.undefined_draws)
    warned = cautions(spectra) if interval.kind != "none" else [""] * len(tally)
    rows = []
    for k, name in enumerate(tally.names):
        undefined = "constant_input" if tally.amounts[:, k].any() else "zero_total"
        for figure in figures:
            estimate, end = float(values[figure][k]), ends[figure]
            direction = {"ideal": gini.ideal, "better": gini.better} if figure == "own_gini" else {}
            rows.append(row(
                cells, figure, group=label(name), estimate=estimate, low=float(end.low[k]), high=float(end.high[k]),
                undefined_draws=int(end.undefined_draws[k]), note=(undefined if math.isnan(estimate) else warned[k]) or None,
                span=SPANS.get(figure), certain=figure in CERTAIN_ALONE and len(tally) == 1, **direction,
            ))  # fmt: skip
    return rows


def _ends(tally: Sources, parts: SourceParts, call: Call, labels: Label) -> dict[str, Ends]:
    """Percentile bootstrap over units, for `bootstrap` never shorter than Student's t.

    Normal with the linearised error where asked for, or too wide to draw.
    """
    values, how = _figures(parts), call.interval
    if how.kind == "none" or tally.reason():
        return blank(values)
    influence = source_influence(tally, parts)
    units = Spectrum(tally.totals, tally.counts)
    least = linearised_ends(units, {n: influence[n].T for n in DRAWN}, values, SPANS, how.level)
    if how.kind == "normal" or len(tally.counts) > WIDE:
        return least
    rng = stream(call.seed, "sources", *labels)
    drawn = drawn_ends(tally, lambda t: _figures(source_parts(t)), values, how, rng)
    if how.kind == "percentile":
        return drawn
    return {n: ends.reaching(least[n].low, least[n].high) for n, ends in drawn.items()}


def _figures(parts: SourceParts) -> dict[str, Floats]:
    return {name: getattr(parts, name) for name in DRAWN}


def _interval_words(how: Interval, wide: int) -> str:
    if how.kind in ("none", "normal"):
        return {"none": "none", "normal": "normal, with the linearised error"}[how.kind]
    kind = "studentised" if how.kind == "bootstrap" else "percentile"
    words = f"bootstrap over units, {how.draws:,} draws: {kind} for the Gini indices, percentile for the figures of a "
    words += "source, never shorter than Student's t" if how.kind == "bootstrap" else "source"
    many = f"; {wide:,} slices with over {WIDE:,} different vectors of amounts have normal intervals with the linearised error"
    return words + (many if wide else "")

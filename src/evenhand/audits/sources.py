"""Which source makes the skew? The Gini index split over the sources that units' amounts come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.audits.declare import (
    OTHER_UNITS,
    By,
    Call,
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
from evenhand.audits.inequality import NULLS, Null, chances
from evenhand.audits.min_units import suppressed
from evenhand.cards import Floats, parse_metric
from evenhand.claims import Candidate, direction_of
from evenhand.findings import Row, chosen_figures, label, nan_in_data, notes, row
from evenhand.intervals.jackknife import influence_of_units, influence_on_parts
from evenhand.intervals.kinds import ANYTHING, Estimates, Interval, studentised_ends
from evenhand.intervals.parts import (
    WIDE,
    blank,
    bootstrap_draws,
    ends_of_draws,
    linearised_ends,
    sign_flip_p,
    studentised_p,
)
from evenhand.intervals.spectra import cautions, estimates
from evenhand.labels import stream
from evenhand.metrics.decomposition import (
    SourceParts,
    influence_by_total,
    marginal_tilt,
    source_influence,
    source_parts,
)
from evenhand.metrics.inequality import spread_of_mean
from evenhand.results import Result
from evenhand.sources.logs import NanPolicy, Units, units_of
from evenhand.sources.relation import Bins, Periods
from evenhand.tallies.sources import Sources, SourceSlices
from evenhand.tallies.spectrum import Label, Spectra, Spectrum

METRICS = ("gini", "share", "own_gini", "correlation", "contribution", "contribution_share", "marginal")
DRAWN = ("share", "correlation", "contribution", "contribution_share", "marginal")
"""Figures that need the units' whole vectors; the other two are Gini indices, measured as the inequality audit does."""

STUDENTISED = ("share", "contribution", "contribution_share", "marginal")
"""Figures whose draws are divided by their linearised errors."""

SPANS = {
    "share": (0.0, 1.0), "correlation": (-1.0, 1.0), "contribution": (-1.0, 1.0),
    "contribution_share": ANYTHING, "marginal": ANYTHING,
}  # fmt: skip
MANY = 1 << 12
"""Draws of more cells are divided by the one error of the sample: their own would differ little and take longer."""

SMALL = "(small sources)"
"""What sources with too few receivers are called, taken together before anything is measured."""

CERTAIN_ALONE = frozenset({"share", "contribution_share", "marginal"})
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
    source: str | Bins | Periods,
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
    `contribution` to the Gini index (they add up to it), `contribution_share` of it, and `marginal`: scaling the source up
    by 1% moves the index by 1% of it. A source can contribute and still equalise: read "which source makes the skew" off
    `marginal`.

    Parameters
    ----------
    table, unit, amount, population, by, interval, level, rng, nan_policy : as in `eh.inequality`.
    source : column with the source of each amount, or bins of a number, `eh.log_bins("followers", 5)`,
        or periods of a date, `eh.periods("day")`.
    min_units : suppress slices with fewer units that received anything, and merge sources with fewer.
    metrics : any of `gini`, `share`, `own_gini`, `correlation`, `contribution`, `contribution_share`, `marginal`.

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
    refuse_many_slices("sources", len(slices.labels))
    facts = {
        "interval": _interval_words(call.interval), "population": whole.population_words,
        "missing_slice_labels": "shown as a slice of their own",
    }  # fmt: skip
    words = {"unit": unit, "amount": "rows" if amount is None else amount, "source": prepared.by[-1]}
    null: Null = "events" if amount is None and whole.everyone is not None else None
    claims: list[Candidate] = []
    rows = _rows(slices, whole, chosen, call, null, claims)
    return call.result(
        rows, backend=whole.log.backend, read=whole.log.rows, dropped=whole.log.dropped,
        slices=whole.by, columns=whole.columns, words=words, facts=facts, claims=claims,
        null=NULLS.get(null or "", ""),
    )  # fmt: skip


def _source_slices(whole: Units, source: str) -> SourceSlices:
    """The vectors of every slice, with those who received nothing, bins called by name."""
    seen = SourceSlices.per_slice(whole.log, whole.log.amounts[0], f"by_{len(whole.by)}")
    named = whole.padded(seen).named(whole)
    return named.renamed(tuple(whole.legend.name([source], (name,))[0] for name in named.names))


def _rows(
    slices: SourceSlices, whole: Units, metrics: Sequence[str], call: Call, null: Null, claims: list[Candidate]
) -> list[Row]:
    """The Gini index of every slice, then a row per source and figure; what they could assert is added to `claims`."""
    log.info("measuring (slices: %s)", f"{len(slices.labels):,}")
    gini, totals, fewest = parse_metric("gini"), slices.totals, call.min_units
    streams = [("inequality", *where) for where in slices.labels]
    (index,) = estimates(totals.spectra, [gini], call.interval, call.seed, streams)
    (chance,) = chances(whole, totals, whole.log.amounts[0], [gini], null)
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
                cells, "gini", **index.at(i), chance=float(chance[i]), ideal=gini.ideal, better=gini.better,
                influence=influence_of_units(totals.spectra[i], [gini])[0] if fewest > 1 else 0.0,
            )]  # fmt: skip
        if len(tally):
            measured = Measured.of_slice(tally, call, streams[i])
            slice_rows += _source_rows(cells, tally, measured, figures, call, streams[i])
            if not few and where not in slices.broken:
                claims += _claims(tally, measured, dict(zip(whole.by, where, strict=True)), call, streams[i])
        for r in slice_rows:
            r |= {"units": units, "note": tally.reason() or notes(*dict.fromkeys([r["note"] or "", warned[i]]))}
            if where in slices.broken:
                r = nan_in_data(r)
            rows.append(suppressed(r) if few else r)
        names = [label(original.names[k]) for k in small]
        rows += [suppressed(row(cells, figure, group=name)) for name in names for figure in figures]
    return rows


def _source_rows(
    cells: dict[str, Any], tally: Sources, measured: Measured, figures: Sequence[str], call: Call, labels: Label
) -> list[Row]:
    interval, shown = call.interval, dict(measured.figures)
    spectra = Spectra.from_spectra([tally.spectrum_of(k) for k in range(len(tally))])
    gini = parse_metric("gini")
    streams = [(*labels, name) for name in tally.names]
    (shown["own_gini"],) = estimates(spectra, [gini], interval, call.seed, streams)
    warned = cautions(spectra) if interval.kind != "none" else [""] * len(tally)
    influence = dict.fromkeys(shown, np.zeros(len(tally)))
    if call.min_units > 1:
        influence |= influence_on_parts(tally, lambda some: _figures(source_parts(some)))
        influence["own_gini"] = np.array([influence_of_units(s, [gini])[0] for s in spectra.separate()])
    rows = []
    for k, name in enumerate(tally.names):
        undefined = "constant_input" if tally.amounts[:, k].any() else "zero_total"
        for figure in figures:
            numbers = shown[figure].at(k)
            direction = {"ideal": gini.ideal, "better": gini.better} if figure == "own_gini" else {}
            rows.append(row(
                cells, figure, group=label(name), **numbers,
                note=(undefined if math.isnan(numbers["estimate"]) else warned[k]) or None,
                span=SPANS.get(figure), certain=figure in CERTAIN_ALONE and len(tally) == 1, influence=float(influence[figure][k]),
                **direction,
            ))  # fmt: skip
    return rows


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of the sources of one slice, their intervals, and the p of each marginal against zero."""

    parts: SourceParts
    figures: dict[str, Estimates]
    p: Floats

    @classmethod
    def of_slice(cls, tally: Sources, call: Call, labels: Label) -> Measured:
        """Bootstrap over units, for `bootstrap` never shorter than Student's t.

        Normal with the linearised error where asked for, or too wide to draw.
        """
        parts = source_parts(tally)
        values, how = _figures(parts), call.interval
        if how.kind == "none" or tally.reason():
            return cls(parts, blank(values), np.full(len(tally), np.nan))
        moves, units = source_influence(tally, parts), Spectrum(tally.totals, tally.counts)
        least = linearised_ends(units, {n: moves[n].T for n in DRAWN}, values, SPANS, how.level)
        errors = _errors(tally, moves)
        size = float(tally.units)
        if how.kind == "normal" or len(tally.counts) > WIDE:
            ratios = np.zeros((len(tally), 1))
            return cls(parts, least, studentised_p(parts.marginal, errors["marginal error"], ratios, ratios, size))

        def draw(some: Sources) -> dict[str, Floats]:
            drawn = source_parts(some)
            if len(some.counts[0]) > MANY:
                return _figures(drawn) | {n: np.tile(error, (len(some.counts), 1)) for n, error in errors.items()}
            return _figures(drawn) | _errors(some, influence_by_total(some, drawn))

        draws = bootstrap_draws(tally, draw, how.draws, stream(call.seed, "sources", *labels))
        ends = ends_of_draws({n: draws[n] for n in DRAWN}, values, how, round(size))
        if how.kind == "bootstrap":
            for n in STUDENTISED:
                args = values[n], errors[f"{n} error"], draws[n], draws[f"{n} error"], values[n][:, None]
                low, high = studentised_ends(*args, how.level, SPANS[n])
                ends[n] = Estimates(values[n], low, high, ends[n].undefined_draws)
            ends = {n: drawn.reaching(least[n].low, least[n].high) for n, drawn in ends.items()}
        name = "marginal"
        return cls(
            parts, ends, studentised_p(values[name], errors[f"{name} error"], draws[name], draws[f"{name} error"], size)
        )


def _errors(tally: Sources, moves: Mapping[str, Floats]) -> dict[str, Floats]:
    """(..., K) linearised errors of the figures that are studentised."""
    units = Spectrum(tally.totals, tally.counts)
    per_source = {n: np.moveaxis(moves[n], -1, 0) for n in STUDENTISED}
    return {
        f"{n} error": np.stack([spread_of_mean(units, of_source) for of_source in by_source], axis=-1)
        for n, by_source in per_source.items()
    }


def _claims(
    tally: Sources, measured: Measured, where: Mapping[str, Any], call: Call, labels: Label
) -> Iterator[Candidate]:
    """Which way more of each source would move inequality, and whether one would raise it most.

    Amounts that two sources swap within a unit change no total and no rank: the difference of two marginals is a sum over
    units, and its signs are random where the two sources are alike.
    """
    if call.interval.kind == "none" or tally.reason() or len(tally) < 2:
        return
    names, marginal = [label(name) for name in tally.names], measured.parts.marginal
    lead, whether, no, more = (
        (f"For {', '.join(map(str, where.values()))}, ", "whether", "no", "more")
        if where
        else ("", "Whether", "No", "More")
    )
    for name, value, p in zip(names, marginal.tolist(), measured.p.tolist(), strict=True):
        which = "raise" if value > 0 else "lower"
        yield Candidate(
            p, direction_of(value), f"{lead}{more} {name} would {which} inequality",
            f"{lead}{whether} more {name} would raise or lower inequality is unclear", "marginal", name, where,
        )  # fmt: skip
    top = int(np.argmax(marginal))
    tilt, rng = marginal_tilt(tally, measured.parts), stream(call.seed, "swapped", *labels)
    draws = max(199, min(1_999, (1 << 22) // len(tally.counts)))
    others = [tally.amounts[:, k] for k in range(len(tally)) if k != top]
    p = max(sign_flip_p(tilt * (tally.amounts[:, top] - other), tally.counts, draws, rng) for other in others)
    text = f"{lead}{more} {names[top]} would raise inequality most"
    yield Candidate(p, "most", text, f"{lead}{no} source stands out", "marginal", names[top], where)


def _figures(parts: SourceParts) -> dict[str, Floats]:
    return {name: getattr(parts, name) for name in DRAWN}


def _interval_words(how: Interval) -> str:
    if how.kind in ("none", "normal"):
        return {"none": "none", "normal": "normal, with the linearised error"}[how.kind]
    return f"{how.kind} over units, {how.draws:,} draws; normal with the linearised error where amounts are very many"

"""Which metric suits this data? The criteria of the inequality paper, measured on the user's own table."""

from __future__ import annotations

import json
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.audits.declare import (
    By,
    Call,
    Columns,
    Count,
    Metrics,
    Population,
    Seed,
    Table,
    Takes,
    audit,
    log,
    refuse_many_slices,
)
from evenhand.audits.experiment import experiment
from evenhand.cards import Between, Floats, MetricSpec, needing, parse_metrics
from evenhand.claims import Candidate, decide, detectable_of
from evenhand.errors import EvenhandError, listing, unknown_name
from evenhand.findings import as_columns
from evenhand.intervals.spectra import WIDE
from evenhand.labels import stream
from evenhand.metrics.decomposition import Index, parts
from evenhand.metrics.inequality import mean
from evenhand.results import Result
from evenhand.sources.logs import NanPolicy, Units, units_of
from evenhand.sources.opening import open_table
from evenhand.tallies.ragged import Ints
from evenhand.tallies.sources import Partition
from evenhand.tallies.spectrum import Label, Slices, Spectrum, collapse

CRITERIA = ("population", "adjustable", "scale", "subgroups", "user", "interpretable", "stable", "effect")
_ANSWERS = {
    "gini": ("yes", "no", "yes", "yes", "no", "low", "high", "medium"),
    "atkinson": ("yes", "yes", "yes", "yes", "no", "low", "high", "medium"),
    "top_share": ("yes", "yes", "yes", "no", "yes", "high", "high", "high"),
    "percentile_ratio": ("yes", "yes", "yes", "no", "yes", "medium", "low", "medium"),
    "share_ratio": ("yes", "yes", "yes", "no", "yes", "medium", "low", "medium"),
    "equivalent_to_top": ("no", "yes", "yes", "no", "yes", "medium", "high", "low"),
    "equal_share": ("no", "no", "yes", "no", "yes", "high", "high", "low"),
}
PUBLISHED = {name: dict(zip(CRITERIA, answers, strict=True)) for name, answers in _ANSWERS.items()}
"""Table 2 of Lazovich et al. (2022): the authors' judgement, on their data."""

SAME = 1e-9
"""Values that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One criterion of one metric: the verdict, the number behind it, and a note code."""

    criterion: str
    measured: str | None
    value: float = math.nan
    note: str = ""


def theoretical(a: MetricSpec, s: Spectrum, rng: np.random.Generator) -> list[Fact]:
    """Population, adjustability, scale and subgroups; transfer and added zeros as extras.

    A metric that zeros make undefined is checked on those who received something, and the note says so.
    """
    base, note = float(a.on(s)), ""
    if math.isnan(base) and (s.values > 0).any():
        s, note = Spectrum(s.values[s.values > 0], s.counts[s.values > 0]), "without_zeros"
        base = float(a.on(s))
    checks = [
        _unchanged("population", base, [float(a.on(Spectrum(s.values, s.counts * m))) for m in (2, 7)]),
        _adjustable(a, s),
        _unchanged("scale", base, [float(a.on(Spectrum(s.values * c, s.counts))) for c in (0.01, 1000.0)]),
        _subgroups(a, s, rng),
        _transfer(a, s, base),
        _zeros(a, s, base),
    ]
    return [replace(f, note=note) if note and not f.note else f for f in checks]


def _unchanged(criterion: str, base: float, others: Sequence[float]) -> Fact:
    if not math.isfinite(base):
        return Fact(criterion, "undefined")
    return _is_zero(criterion, max(abs(x - base) / (abs(base) or 1.0) for x in others))


def _is_zero(criterion: str, difference: float, note: str = "") -> Fact:
    if math.isnan(difference):
        return Fact(criterion, "undefined", note=note)
    return Fact(criterion, "yes" if difference <= SAME else "no", difference, note)


def _adjustable(a: MetricSpec, s: Spectrum) -> Fact:
    """Whether a number that the user chooses moves the metric, and always the same way."""
    grids = dict(_grids(a))
    if not grids:
        return Fact("adjustable", "no", note="no_parameter")
    moved = []
    for name, grid in grids.items():
        values = np.array([float(a.metric.on(s, **{**a.params, name: x})) for x in grid])
        steps = np.diff(values[np.isfinite(values)])
        if len(steps) < 2:
            continue
        one_way = (steps >= -SAME).all() or (steps <= SAME).all()
        moved.append(float(np.abs(steps.sum())) if one_way else 0.0)
    if not moved:
        return Fact("adjustable", "undefined")
    return Fact("adjustable", "yes" if max(moved) > SAME else "no", max(moved))


def _grids(a: MetricSpec) -> Iterable[tuple[str, list[float]]]:
    """Values to try for each numeric parameter, inside the range that its annotation allows."""
    hints = typing.get_type_hints(a.metric.function, include_extras=True)
    for name in a.metric.parameters:
        hint = hints.get(name)
        if typing.get_origin(hint) is not Annotated or typing.get_args(hint)[0] is not float:
            continue
        within = [rule for rule in typing.get_args(hint)[1:] if isinstance(rule, Between)]
        shares = any(rule.high <= 1 for rule in within)
        grid = (
            [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99] if shares else [0.1, 0.25, 0.5, 1.0, 2.0, 4.0]
        )
        yield name, [x for x in grid if all(rule.holds(x) for rule in within)]


def split_in_two(s: Spectrum, rng: np.random.Generator) -> Partition:
    """Units in two groups that interleave: richer units are likelier to be in the second."""
    middle = (np.cumsum(s.counts) - s.counts / 2) / s.counts.sum()
    second = rng.binomial(s.counts.astype(np.int64), 0.2 + 0.6 * middle).astype(np.float64)
    return Partition.joined(("first", "second"), [Spectrum(s.values, s.counts - second), Spectrum(s.values, second)])


def _subgroups(a: MetricSpec, s: Spectrum, rng: np.random.Generator) -> Fact:
    """Whether an identity rebuilds the metric from subgroups, and its error on these units."""
    identity = {
        "gini": "gini", "atkinson": "atkinson", "theil": "theil", "generalized_entropy": "ge", "mean": "", "herfindahl": ""
    }.get(a.card.name)  # fmt: skip
    if identity is None or a.params.get("corrected") or a.params.get("normalized"):
        return Fact("subgroups", "no", note="no_identity")
    p = split_in_two(s, rng)
    whole = float(a.on(s))
    if not identity:  # the mean and the Herfindahl index are weighted means of those of the groups
        groups = [p[g] for g in range(len(p))]
        values, sizes, totals = np.array([[a.on(s), s.size, s.total] for s in groups]).T
        weights = sizes / sizes.sum() if a.metric is mean else (totals / totals.sum()) ** 2
        return _is_zero("subgroups", abs(float(np.where(weights > 0, weights * values, 0.0).sum()) - whole))
    decomposition = parts(p, typing.cast("Index", identity), **a.params)
    if identity == "gini":
        overlap = float(decomposition.total - decomposition.within - decomposition.between)
        return (
            Fact("subgroups", "with overlap", overlap, "needs_overlap")
            if overlap > SAME
            else _is_zero("subgroups", overlap)
        )
    if identity == "atkinson":
        product = (1 - decomposition.within) * (1 - decomposition.between)
        return _is_zero("subgroups", float(abs(product - (1 - decomposition.total))), "multiplicative")
    return _is_zero("subgroups", float(abs(decomposition.within + decomposition.between - decomposition.total)))


def _transfer(a: MetricSpec, s: Spectrum, base: float) -> Fact:
    """Pigou-Dalton: a transfer to a poorer unit that keeps their order must lower inequality."""
    sign = _worse(a)
    if not sign:
        return Fact("transfer", None, note="no_direction")
    changes = [sign * (float(a.on(after)) - base) for after in transfers(s)]
    if not changes or not all(map(math.isfinite, changes)):
        return Fact("transfer", "undefined")
    worst = max(changes)
    return Fact("transfer", "no" if worst > SAME * abs(base) else "yes" if worst < 0 else "weak", worst)


def transfers(s: Spectrum) -> list[Spectrum]:
    """Populations after a quarter of the gap went from richer units to as many poorer ones."""
    reach = np.cumsum(s.counts) / s.counts.sum()
    ranks = np.array([0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]) * (1 - 1e-12)  # of givers and takers, as shares
    cells = np.unique(np.minimum(np.searchsorted(reach, ranks), len(reach) - 1))
    out = []
    for i, poor in enumerate(cells):
        for rich in cells[i + 1 :]:
            gap, units = (s.values[rich] - s.values[poor]) / 4, min(s.counts[poor], s.counts[rich])
            counts = np.concatenate([s.counts, [units, units]])
            counts[[poor, rich]] -= units
            values: Floats = np.concatenate([s.values, [s.values[poor] + gap, s.values[rich] - gap]])
            out.append(collapse(values, counts))
    return out


def _zeros(a: MetricSpec, s: Spectrum, base: float) -> Fact:
    """As many units again that receive nothing must not look more even."""
    sign = _worse(a)
    if not sign:
        return Fact("zeros", None, note="no_direction")
    change = sign * (float(a.on(s.padded(float(s.units)))) - base)
    if not math.isfinite(change):
        return Fact("zeros", "undefined")
    tiny = SAME * abs(base)
    return Fact("zeros", "no" if change < -tiny else "yes" if change > tiny else "weak", change)


def _worse(a: MetricSpec) -> int:
    """+1 where a larger value is less even, -1 where it is more even, 0 without a direction."""
    return {"lower": 1, "higher": -1}.get(a.better, 0)


def worst(facts: Sequence[Fact]) -> Fact:
    """Least favourable verdict of one criterion over several slices."""
    order = ("no", "weak", "with overlap", "yes", "undefined", None)
    chosen = min(facts, key=lambda f: order.index(f.measured))
    alike = [f.value for f in facts if f.measured == chosen.measured and not math.isnan(f.value)]
    pick: Any = min if chosen.criterion in ("adjustable", "zeros") else max
    return Fact(chosen.criterion, chosen.measured, pick(alike) if alike else math.nan, chosen.note)


METRICS = ("gini", "atkinson", "top_share", "percentile_ratio", "share_ratio", "equivalent_to_top", "equal_share")
COLUMNS = ("metric", "criterion", "measured", "value", "published", "note")
ORDER = ("population", "adjustable", "scale", "subgroups", "transfer", "zeros", "user", "interpretable", "stable",
         "undefined_draws", "effect", "dynamic_range", "power")  # fmt: skip
LEVELS = ("low", "medium", "high")
UNDECIDED = "undecided"
CUTOFFS: dict[str, tuple[float, float]] = {
    "stable": (0.1, 0.02),
    "undefined_draws": (0.05, 0.0),
    "effect": (3.0, 10.0),
    "dynamic_range": (1.1, 1.5),
    "power": (0.2, 0.05),
}
"""Where medium and high begin: coefficient of variation over draws, share of undefined draws, range over slices in pooled
standard errors, largest over smallest value, share of the amount whose even spread is found. Falling pairs mean that less is better."""

MOST_SLICES = 12
"""Slices on which the theoretical criteria are checked: the largest ones."""


def cutoffs_of(words: list[str]) -> dict[str, tuple[float, ...]]:
    """Cut-offs of the command line, `stable=0.1,0.02` once for each criterion, or all as JSON."""
    try:
        if words[0].lstrip().startswith("{"):
            return {name: tuple(map(float, pair)) for name, pair in json.loads(words[0]).items()}
        parts = [word.partition("=") for word in words]
        return {name.strip(): tuple(float(x) for x in pair.split(",")) for name, _, pair in parts}
    except (ValueError, TypeError, AttributeError) as error:
        raise EvenhandError(
            f"--cutoffs {listing(words)!r} cannot be read. Write CRITERION=MEDIUM,HIGH, such as stable=0.1,0.02."
        ) from error


Cutoffs = Annotated[Mapping[str, Sequence[float]] | None, Takes("CRITERION=MEDIUM,HIGH", many=True, read=cutoffs_of)]


@audit("criteria", question="Which metric suits this data?")
def criteria(
    call: Call,
    table: Table,
    *,
    unit: str | None,
    amount: Columns = None,
    population: Population,
    by: By = None,
    randomized: str | None = None,
    metrics: Metrics = METRICS,
    cutoffs: Cutoffs = None,
    draws: Annotated[int, Between(20, 100_000)] = 199,
    rng: Seed = None,
    min_units: Count | None = None,
    nan_policy: NanPolicy = "raise",
) -> Result:
    """Hold each metric against the paper's criteria, on this data. Frame: metric, criterion, measured, value, published.

    Measured by changing the data and looking: `population` (replicated 2 and 7 times), `scale` (times 0.01 and 1000),
    `adjustable` (a parameter moves it one way), `subgroups` (an exact identity in subgroups), `transfer` (a gift from a
    richer to a poorer unit), `zeros` (as many units again with nothing). By resampling: `stable` (coefficient of
    variation, `value`, and share of undefined draws) and, with slices, `effect` (range over slices in pooled standard
    errors, and the dynamic range: largest over smallest). `power` is the share of the whole amount that, spread evenly over all
    units, two samples of this size, or an experiment on `randomized`, would show with 80% power. `provenance["recommended"]` is a
    metric of those that keep the principles with the best power; of those as good, the one the paper finds easiest to interpret.
    Above low they are `undecided` unless slices differ significantly (Holm over metrics). `user` and `interpretable` are judgement
    and not measured.
    `published` is the judgement of the paper's Table 2.

    Parameters
    ----------
    table, unit, amount, population, by, rng, nan_policy : as in `eh.inequality`; `effect` needs `by` or several
        amounts.
    randomized : column that an experiment would split in halves (viewers, sessions); `power` is then that experiment's.
    cutoffs : where medium and high begin, for `stable`, `undefined_draws`, `effect`, `dynamic_range`, `power` (default:
        `evenhand.audits.criteria.CUTOFFS`).
    draws : bootstrap resamples per slice.
    min_units : leave out slices with fewer units.

    Examples
    --------
    >>> import polars as pl
    >>> log = pl.DataFrame({"author": list("abcd"), "views": [6, 4, 2, 1]})
    >>> r = criteria(log, unit="author", amount="views", population=None, metrics="equal_share", rng=1)
    >>> r.frame.row(0, named=True)["measured"], r.frame.row(0, named=True)["published"]
    ('yes', 'no')
    """
    specs = parse_metrics(metrics, needing(Spectrum))
    limits = _limits(cutoffs)
    table = table if randomized is None else open_table(table)  # read twice: a stream can be read once
    prepared = units_of(table, unit=unit, amount=amount, population=population, by=by, nan_policy=nan_policy)
    read = prepared.log
    slices = _spectra(prepared)
    refuse_many_slices("criteria", len(slices))
    if not slices:
        raise EvenhandError("The table has no units to measure. Pass a table with rows.")
    large = [(label, s) for label, s in slices if s.receivers >= call.min_units]
    if not large:
        raise EvenhandError(f"No slice has min_units={min_units} units. Lower it, or slice by fewer columns.")
    sizes = _detectable(call, table, specs, prepared) if randomized is not None else {}
    measured = []
    for n, a in enumerate(specs, 1):
        log.info("checking %s: metric %s of %s", a.text, n, len(specs))
        needed = [sizes.get((a.text, label), math.nan) for label, _ in large] if sizes else None
        measured.append(_facts(a, large, limits, draws, call.seed, needed))
    ps = _p_of_ranges(specs, large, draws, call.seed)
    claims = [_claim(a, facts["effect"], p) for a, facts, p in zip(specs, measured, ps, strict=True)]
    rows: list[tuple[Any, ...]] = []
    for a, by_criterion, claim in zip(specs, measured, decide(claims, call.interval.level), strict=True):
        rows += _rows(a, by_criterion if claim.made else _untold(by_criterion))
    facts = {
        "recommended": _recommended(specs, measured), "population": prepared.population_words,
        "slices": len(large), "slices_left_out": len(slices) - len(large),
        "theoretical_criteria_on": f"the {min(len(large), MOST_SLICES)} largest slices",
        "published": "Lazovich et al. (2022), Table 2", "cutoffs": limits,
    }  # fmt: skip
    words = {"unit": unit or "row", "amount": "rows" if amount is None else str(amount), "randomized": randomized or ""}
    return call.result(
        as_columns(COLUMNS, rows), backend=read.backend, read=read.rows, dropped=read.dropped, words=words, facts=facts,
        hides=len(large) < len(slices), claims=claims,
    )  # fmt: skip


def _limits(cutoffs: Mapping[str, Sequence[float]] | None) -> dict[str, tuple[float, float]]:
    for name, pair in (cutoffs or {}).items():
        if name not in CUTOFFS:
            raise unknown_name("cutoffs", str(name), list(CUTOFFS), what="a criterion with cut-offs")
        numbers = isinstance(pair, (tuple, list)) and all(
            isinstance(x, (int, float)) and not math.isnan(x) for x in pair
        )
        falling = CUTOFFS[name][0] > CUTOFFS[name][1]
        if not numbers or len(pair) != 2 or (pair[0] >= pair[1] if not falling else pair[0] <= pair[1]):
            way = "falling" if falling else "rising"
            raise EvenhandError(f"cutoffs[{name!r}]={pair!r} is not a {way} pair of numbers. Pass (medium, high).")
    return CUTOFFS | {name: (float(pair[0]), float(pair[1])) for name, pair in (cutoffs or {}).items()}


def _spectra(prepared: Units) -> list[tuple[Label, Spectrum]]:
    """The slices of every amount that hold units, with their labels."""
    spectra: list[tuple[Label, Spectrum]] = []
    for amount in prepared.log.amounts:
        log.info("adding up %s", amount.name or "rows")
        slices = Slices.of_units(prepared, amount)
        for i, label in enumerate(slices.labels):
            s = slices.spectra[i]
            if s.units > 0 and label not in slices.broken:
                spectra.append(((amount.name, *label), s.binned() if len(s.values) > WIDE else s))
    return spectra


def _facts(
    a: MetricSpec, slices: list[tuple[Label, Spectrum]], limits: dict[str, tuple[float, float]], draws: int, seed: int,
    needed: Sequence[float] | None,
) -> dict[str, Fact]:  # fmt: skip
    """What holds of a metric, by criterion; `needed` is what an experiment detects in each slice."""
    largest = sorted(slices, key=lambda labelled: -float(labelled[1].units))[:MOST_SLICES]
    checked = [theoretical(a, s, stream(seed, "criteria", *label)) for label, s in largest]
    facts = {same[0].criterion: worst(same) for same in zip(*checked, strict=True)}
    estimates = np.array([float(a.on(s)) for _, s in slices])
    drawn = np.empty((len(slices), draws))
    for i, (label, s) in enumerate(slices):
        rng, at_once = stream(seed, "criteria draws", *label), max(1, 2**20 // max(1, len(s.values)))  # 8 MB of counts
        for start in range(0, draws, at_once):
            many = min(at_once, draws - start)
            drawn[i, start : start + many] = a.on(s.resample(many, rng))
    facts |= {f.criterion: f for f in (*_stability(drawn, limits), *_effect(estimates, drawn, limits))}
    if needed is None:
        errors = [math.sqrt(2.0) * np.nanstd(x) if np.isfinite(x).any() else math.nan for x in drawn]
        needed = [detectable_of(float(error), LEVEL) for error in errors]
    facts["power"] = _power(a, slices, needed, draws, limits)
    return facts | {name: Fact(name, None, note="judgement") for name in ("user", "interpretable")}


SPREADS = np.geomspace(0.001, 1.0, 31)
"""Shares of the amount that are spread evenly to see how far a metric moves, ten to a power of ten."""


def _power(
    a: MetricSpec, slices: list[tuple[Label, Spectrum]], needed: Sequence[float], draws: int,
    limits: dict[str, tuple[float, float]],
) -> Fact:  # fmt: skip
    """Share of the amount whose even spread moves the metric by what is `needed` for 80% power, at the median slice."""
    shares = []
    for (_, s), size in zip(slices, needed, strict=True):
        even = float(s.total / s.units)
        moved = [abs(float(a.on(Spectrum((1 - t) * s.values + t * even, s.counts))) - float(a.on(s))) for t in SPREADS]
        reached = np.maximum.accumulate(np.nan_to_num(moved))
        shares.append(float(np.interp(size, reached, SPREADS)) if size <= reached[-1] else math.nan)
    defined = [share for share in shares if math.isfinite(share)]
    if not defined:
        return Fact("power", "undefined")
    share = float(np.median(defined))
    return Fact("power", _level(share, limits["power"], share / math.sqrt(2 * draws)), share)


LEVEL = 0.95
"""Of the test whose power is stated."""


def _detectable(call: Call, table: Any, specs: Sequence[MetricSpec], prepared: Units) -> dict[tuple[str, Label], float]:
    """By metric and slice: what an experiment with two halves of what is randomised detects with 80% power."""
    roles = ("unit", "amount", "population", "by", "randomized", "nan_policy")
    planned = experiment(
        table, arm=None, metrics=[a.text for a in specs], rng=call.seed, level=LEVEL,
        **{role: call.arguments[role] for role in roles},
    )  # fmt: skip
    rows = list(planned.findings.rows())
    single = detectable_of(1.0, LEVEL) / detectable_of(1.0, LEVEL, len(rows))  # the plan adjusts over all its rows
    names = [str(a.name) for a in prepared.log.amounts]
    return {
        (r["metric"], (r.get("amount", names[0]), *(r[name] for name in prepared.by))): single * r["detectable"]
        for r in rows
    }


def _recommended(specs: Sequence[MetricSpec], measured: Sequence[Mapping[str, Fact]]) -> str | None:
    """The metric to use: principled, defined, and powerful; None where there is none."""
    able = []
    for a, facts in zip(specs, measured, strict=True):
        principled = all(facts[name].measured == "yes" for name in ("population", "scale"))
        if principled and facts["transfer"].measured in ("yes", "weak") and facts["undefined_draws"].measured != "low":
            able.append((facts["power"].value, a))
    able = [(share, a) for share, a in able if share > 0]
    if not able:
        return None
    best = min(share for share, _ in able)
    alike = [a for share, a in able if share <= 1.1 * best]  # draws leave 5% of doubt about each standard error
    easy = {a.text: LEVELS.index(PUBLISHED.get(a.card.name, {}).get("interpretable", "low")) for a in alike}
    return max(easy, key=lambda text: easy[text])


MOST_UNITS = 200_000
"""Units up to which slices are permuted: a few seconds."""


def _p_of_ranges(
    specs: Sequence[MetricSpec], slices: list[tuple[Label, Spectrum]], draws: int, seed: int
) -> list[float]:
    """For each metric, how often units permuted between slices lie as far apart; NaN where there are too many of them.

    The larger p of amounts as they are (exact where slices are drawn alike) and relative to the mean of their slice (slices
    may differ in volume; by itself that gave 22% false claims with heavy tails).
    """
    sizes = [int(s.units) for _, s in slices]
    if len(slices) < 2 or min(sizes) < 2 or sum(sizes) > MOST_UNITS:
        return [math.nan] * len(specs)
    draws = max(draws, 40 * len(specs))  # so that the smallest p is small enough after Holm
    plain = [np.repeat(s.values, s.counts.astype(np.int64)) for _, s in slices]
    ps = [
        _p_of_permuted(specs, amounts, np.cumsum([0, *sizes]), draws, stream(seed, "criteria slices"))
        for amounts in (plain, [x / (x.mean() or 1.0) for x in plain])
    ]
    return [max(pair) for pair in zip(*ps, strict=True)]


def _p_of_permuted(
    specs: Sequence[MetricSpec], slices: Sequence[Floats], starts: Ints, draws: int, rng: np.random.Generator
) -> list[float]:
    """For each metric, how often the range over slices is reached with their amounts permuted."""
    amounts = np.concatenate(slices)
    at_once = max(1, 2**22 // len(amounts))
    values = np.empty((len(specs), draws + 1, len(slices)))
    for first in range(0, draws + 1, at_once):
        dealt = rng.permuted(np.tile(amounts, (min(at_once, draws + 1 - first), 1)), axis=1)
        if first == 0:
            dealt[0] = amounts  # the slices as they are
        for i, (start, stop) in enumerate(pairwise(starts)):
            part = np.sort(dealt[:, start:stop])
            spectrum = Spectrum(part, np.broadcast_to(1.0, part.shape))
            values[:, first : first + len(dealt), i] = [a.on(spectrum) for a in specs]
    with np.errstate(invalid="ignore"):
        ranges = values.max(2) - values.min(2)
    reached = (ranges[:, 1:] >= ranges[:, :1] - 1e-12).sum(1)
    p = (1 + reached) / (1 + np.isfinite(ranges[:, 1:]).sum(1))
    return [float(x) for x in np.where(np.isfinite(ranges[:, 0]), p, np.nan)]


def _claim(a: MetricSpec, effect: Fact, p: float) -> Candidate:
    size = "" if effect.value is None else f", {effect.value:.3g} pooled standard errors apart at most"
    return Candidate(
        p, "differs", f"{a.text} differs between slices{size}", f"no significant difference of {a.text} between slices", a.text,
        where={"criterion": "effect"},
    )  # fmt: skip


def _untold(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Facts of a metric that does not differ significantly between slices: an effect above low is undecided."""
    return {
        name: replace(f, measured=UNDECIDED) if name in ("effect", "dynamic_range") and f.measured in LEVELS[1:] else f
        for name, f in facts.items()
    }


def _stability(drawn: Floats, limits: dict[str, tuple[float, float]]) -> tuple[Fact, Fact]:
    """Coefficient of variation over draws at the median slice, and the share of undefined draws."""
    defined = np.isfinite(drawn)
    undefined = 1 - float(defined.mean())
    several = [row[ok] for row, ok in zip(drawn, defined, strict=True) if ok.sum() > 1 and row[ok].any()]
    spread = [values.std() / abs(values.mean()) for values in several]
    wobble = float(np.median(spread)) if spread else math.nan
    error = math.sqrt(undefined * (1 - undefined) / drawn.size)
    gaps = Fact("undefined_draws", _level(undefined, limits["undefined_draws"], error), undefined)
    if math.isnan(wobble):
        return Fact("stable", "low" if undefined else "high", wobble), gaps
    error = wobble / math.sqrt(2 * drawn.shape[1])  # of a standard deviation over so many draws
    return Fact("stable", _lower(_level(wobble, limits["stable"], error), str(gaps.measured)), wobble), gaps


def _effect(estimates: Floats, drawn: Floats, limits: dict[str, tuple[float, float]]) -> tuple[Fact, Fact]:
    """How far apart the slices are: in pooled standard errors, and as largest over smallest."""
    defined = np.isfinite(estimates)
    if len(estimates) < 2:
        return Fact("effect", None, note="needs_slices"), Fact("dynamic_range", None, note="needs_slices")
    if defined.sum() < 2:
        return Fact("effect", "undefined"), Fact("dynamic_range", "undefined")
    top, bottom = estimates[defined].max(), estimates[defined].min()
    variances = [row[np.isfinite(row)].var() for row in drawn[defined] if np.isfinite(row).sum() > 1]
    error = math.sqrt(float(np.mean(variances))) if variances else math.nan
    gap = (top - bottom) / error if error > 0 else math.inf if top > bottom else 0.0
    ratio = top / bottom if bottom > 0 else math.inf if top > 0 else 1.0
    wide = Fact("dynamic_range", _level(ratio, limits["dynamic_range"]), float(ratio))
    return Fact("effect", _lower(_level(gap, limits["effect"]), str(wide.measured)), float(gap)), wide


def _level(value: float, limits: tuple[float, float], error: float = 0.0) -> str:
    """Low, medium or high; a falling pair of limits means that less is better.

    Undecided where draws leave the value (two of its Monte Carlo errors either way) on both sides of a limit.

    >>> _level(0.05, (0.1, 0.02), 0.01), _level(0.09, (0.1, 0.02), 0.01)
    ('medium', 'undecided')
    """
    sign = -1 if limits[0] > limits[1] else 1
    levels = {sum(sign * v >= sign * limit for limit in limits) for v in (value - 2 * error, value + 2 * error)}
    return LEVELS[levels.pop()] if len(levels) == 1 else UNDECIDED


def _lower(first: str, second: str) -> str:
    """The lower of two levels; undecided where one is, unless the other is the lowest."""
    order = (LEVELS[0], UNDECIDED, *LEVELS[1:])
    return order[min(order.index(first), order.index(second))]


def _rows(a: MetricSpec, facts: Mapping[str, Fact]) -> list[tuple[Any, ...]]:
    judged = PUBLISHED.get(a.card.name, {})
    rows = []
    for criterion in ORDER:
        fact = facts[criterion]
        published = judged.get(criterion) if criterion in CRITERIA else None
        corrected = criterion == "population" and published == "no" and fact.measured == "yes"
        note = "replication_invariant" if corrected else fact.note or None
        rows.append((a.text, criterion, fact.measured, fact.value, published, note))
    return rows

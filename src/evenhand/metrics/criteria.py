"""What makes a metric usable, measured: the criteria of the inequality paper as checks that run on data.

Each check changes a population in a way whose effect the criterion fixes, and compares. Nothing is looked up but the
authors' own judgement (`PUBLISHED`, their Table 2), which stands beside what was measured.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from evenhand.cards import Between, Floats, MetricSpec
from evenhand.metrics.decomposition import Index, parts
from evenhand.metrics.inequality import mean
from evenhand.tallies.slices import Partition
from evenhand.tallies.spectrum import Spectrum, collapse

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

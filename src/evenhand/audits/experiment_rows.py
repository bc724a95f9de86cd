"""Rows and curves of an experiment: what was found, at equal volume, and what chance alone gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.audits.assemble import notes, suppressed
from evenhand.audits.experiment_designs import Asked, Compared
from evenhand.cards import MetricSpec
from evenhand.findings import Row, row
from evenhand.intervals.difference import holm
from evenhand.intervals.experiments import FEWEST, GRID

EXTRA = ("treatment", "control_value", "raw", "volume_ratio", "p", "p_adjusted", "detectable")
MISMATCH = 0.001
"""p of the split below which the arms are said not to match their design."""

MOST_CURVES = 40
BINS = 41


def rows_of(compared: Sequence[Compared], asked: Asked, ratio_p: float, fewest: int) -> list[Row]:
    """A row per metric, slice and arm, p adjusted over all of them."""
    wanted = asked.level is not None
    rows = [_row(c, a, i, ratio_p, fewest, wanted=wanted) for c in compared for i, a in enumerate(asked.metrics)]
    adjusted = holm([r["p"] for r in rows])
    return [{**r, "p_adjusted": float(p)} for r, p in zip(rows, adjusted, strict=True)]


def _row(c: Compared, a: MetricSpec, i: int, ratio_p: float, fewest: int, *, wanted: bool) -> Row:
    found = c.found
    made = row(
        {**c.labels, "arm": c.arm}, a.text, estimate=float(found.estimate[i]), low=float(found.low[i]),
        high=float(found.high[i]), chance=float(found.chance[i]), ideal=0.0, better=a.better, units=c.units,
        undefined_draws=int(found.undefined[i]), note=_note(c, a, i, ratio_p, wanted=wanted), treatment=float(found.treatment[i]),
        control_value=float(found.control[i]), raw=float(found.raw[i]), volume_ratio=c.volume_ratio, p=float(found.p[i]),
        detectable=math.nan,
    )  # fmt: skip
    numbers = ("estimate", "low", "high", "chance", "treatment", "control_value", "raw", "volume_ratio", "p")
    if c.broken:
        made |= dict.fromkeys(numbers, math.nan) | {"note": "nan_in_data"}
    return suppressed(made) | dict.fromkeys(numbers[4:], math.nan) if c.few(fewest) else made


def _note(c: Compared, a: MetricSpec, i: int, ratio_p: float, *, wanted: bool) -> str | None:
    """Why there is no value, or no interval where one was `wanted`; and what to be careful of."""
    found = c.found
    if math.isnan(found.estimate[i]):
        undefined = [s for s in c.sides() if np.isnan(a.on(s))]
        return a.card.reason(undefined[0], **a.params) if undefined else "undefined"
    without = math.isnan(found.low[i]) and wanted
    return notes(
        ("few_units" if c.fewest < FEWEST else "no_variation") if without else "",
        "sample_ratio_mismatch" if ratio_p < MISMATCH else "",
        "volume_changed" if c.changed else "",
    )


def curves_of(compared: Sequence[Compared], asked: Asked, fewest: int) -> dict[str, Any]:
    """Lorenz curves of the arms at equal volume, and how often re-assignment gave each difference."""
    shown = [c for c in compared if not c.few(fewest) and not c.broken][:MOST_CURVES]
    lorenz: dict[str, list[Any]] = {}
    moved: dict[str, list[Any]] = {}
    for c in shown:
        here = {**c.labels, "arm": c.arm}
        for side, curve in zip(("arm", "control"), c.found.curves or (), strict=False):
            if not np.isnan(curve).any():
                at = _apart(c, fewest)
                _add(lorenz, here | {"side": side}, population=GRID[at].tolist(), share=curve[at].tolist())
        if not c.reassigned:
            continue
        for i, a in enumerate(asked.metrics):
            draws = c.found.draws[:, i]
            draws = draws[~np.isnan(draws)]
            if len(draws) and np.ptp(draws) > 0 and not math.isnan(c.found.found[i]):
                counts, edges = np.histogram(draws, BINS)
                _add(moved, here | {"metric": a.text, "found": float(c.found.found[i]), "chance": float(draws.mean())},
                     low=edges[:-1].tolist(), high=edges[1:].tolist(), draws=counts.tolist())  # fmt: skip
    return {name: curve for name, curve in (("arms", lorenz), ("reassigned", moved)) if curve}


def _apart(c: Compared, fewest: int) -> list[int]:
    """Points of the grid with at least `fewest` receivers between any two, in either arm."""
    if fewest <= 1:
        return list(range(len(GRID)))
    sides = c.sides()
    reached = np.min([np.maximum(0.0, GRID * s.units - (s.units - s.receivers)) for s in sides], axis=0)
    kept, last = [0], 0.0
    for i in range(1, len(GRID) - 1):
        if reached[i] == 0 or (reached[i] - last >= fewest and reached[-1] - reached[i] >= fewest):
            kept, last = [*kept, i], float(reached[i])
    return [*kept, len(GRID) - 1]


def _add(curve: dict[str, list[Any]], labels: dict[str, Any], **points: list[Any]) -> None:
    many = len(next(iter(points.values())))
    for name, value in labels.items():
        curve.setdefault(name, []).extend([value] * many)
    for name, values in points.items():
        curve.setdefault(name, []).extend(values)

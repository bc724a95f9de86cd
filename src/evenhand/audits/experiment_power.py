"""Before an experiment: the smallest difference that it would find, from a log without a change."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from evenhand.audits.assemble import suppressed
from evenhand.audits.declare import Call, log
from evenhand.audits.experiment_designs import Asked, refuse_shares
from evenhand.audits.units import Units
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Row, row
from evenhand.intervals.experiments import detectable
from evenhand.intervals.kinds import stream
from evenhand.results import Result
from evenhand.tallies.assignment import Assignment
from evenhand.tallies.buckets import Buckets, BucketSlices
from evenhand.tallies.slices import whole_labels

Held = TypeVar("Held", bound=Result)

POWER = 0.8
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Numbers of randomised units to plan for, as multiples of those in the log; above 1 by the trend below it."""

FEWEST = 5
"""Buckets that the smallest arm must have."""


def plan_ahead(call: Call, asked: Asked, level: float, kind: Callable[..., Held]) -> Held:
    """What a test with these shares would find, per metric, slice and arm."""
    shares = _shares(asked)
    control = _control(shares, asked.control)
    units = asked.units({"randomized": str(asked.randomized)})
    log.info("putting %s into buckets", asked.randomized)
    deal = Assignment.from_log(units.log, randomized=str(asked.randomized), rng=stream(asked.seed, "buckets"))
    rows: list[Row] = []
    planned: dict[str, list[Any]] = {}
    several = asked.amount is not None and not isinstance(asked.amount, str)
    for amount in units.log.amounts:
        seen = BucketSlices.per_slice(units.log, amount, deal)
        slices = seen.among(units.padded(seen.pooled))
        for i in units.legend.order(slices.labels):
            label, tally = slices.labels[i], slices.tallies[i]
            cells = units.cells(whole_labels([units.legend.name(units.by, label)])[0])
            cells |= {"amount": amount.name} if several else {}
            few = min(tally.whole().receivers, deal.units(label).sum() * min(shares.values())) < call.fewest
            for arm in (name for name in shares if name != control):
                where = cells | {"arm": arm}
                if few:
                    rows += [
                        suppressed(row(where, a.text, control_value=math.nan, detectable=math.nan))
                        for a in asked.metrics
                    ]
                    continue
                rng = stream(asked.seed, "power", amount.name, arm, *label)
                found = _planned(tally, asked, (shares[arm], shares[control]), level, rng)
                rows += _rows(where, asked, found, deal, label, shares[arm] + shares[control])
                _add(planned, where, asked, found, (shares[arm], shares[control]), int(deal.units(label).sum()))
    return _result(call, asked, units, rows, planned, shares, kind, several=several)


def _planned(
    tally: Buckets, asked: Asked, shares: tuple[float, float], level: float, rng: np.random.Generator
) -> dict[float, tuple[Any, Any]]:
    """The smallest difference and the metric's value, by multiple of the randomised units in the log."""
    movable = int(tally.movable.sum())
    if min(shares) * movable < FEWEST:
        raise EvenhandError(
            f"An arm with a share of {min(shares):g} would hold fewer than {FEWEST} of {movable:,} buckets. "
            "Pass a longer log, or larger shares."
        )
    found: dict[float, tuple[Any, Any]] = {}
    for times in (t for t in TIMES if t <= 1):
        part = (shares[0] * times, shares[1] * times)
        if min(part) * movable >= FEWEST:
            found[times] = detectable(tally, asked.metrics, part, draws=asked.draws, level=level, power=POWER, rng=rng)
    if 0.5 in found:
        with np.errstate(invalid="ignore", divide="ignore"):
            halving = np.clip(found[1.0][0] / found[0.5][0], 0.5, 1.0)  # what twice as many do to it
        for times in (t for t in TIMES if t > 1):
            found[times] = (found[1.0][0] * halving ** math.log2(times), found[1.0][1])
    return found


def _rows(where: dict[str, Any], asked: Asked, found: Any, deal: Assignment, label: Any, used: float) -> list[Row]:
    smallest, value = found[1.0]
    units = round(float(deal.units(label).sum()) * used)
    return [
        row(where, a.text, ideal=a.ideal, better=a.better, units=units, control_value=float(value[i]),
            detectable=float(smallest[i]), note="planned")
        for i, a in enumerate(asked.metrics)
    ]  # fmt: skip


def _add(planned: dict[str, list[Any]], where: Any, asked: Asked, found: Any, shares: Any, units: int) -> None:
    for i, a in enumerate(asked.metrics):
        for times, (smallest, value) in sorted(found.items()):
            line = {
                **where, "metric": a.text, "share": shares[0], "times": times, "units": round(units * sum(shares) * times),
                "value": float(value[i]), "detectable": float(smallest[i]), "note": "extrapolated" if times > 1 else None,
            }  # fmt: skip
            for name, cell in line.items():
                planned.setdefault(name, []).append(cell)


def _result(
    call: Call,
    asked: Asked,
    units: Units,
    rows: Any,
    planned: Any,
    shares: Any,
    kind: Callable[..., Held],
    *,
    several: bool,
) -> Held:
    log_read = units.log
    amounts = ("amount",) if several else ()
    words = {
        "unit": asked.unit,
        "amount": str(asked.amount or "rows"),
        "randomized": str(asked.randomized),
        "counted": str(asked.randomized),
    }
    facts = {
        "design": "planned", "randomized": asked.randomized, "shares": {str(k): v for k, v in shares.items()},
        "power": POWER, "population": units.population_words,
    }  # fmt: skip
    return call.result(
        rows, backend=log_read.backend, read=log_read.rows, dropped=log_read.dropped, slices=(*log_read.by, *amounts, "arm"),
        columns=(*units.columns, *amounts, "arm"), curves={"detectable": planned}, words=words, facts=facts, of=kind,
        planned=planned,
    )  # fmt: skip


def _shares(asked: Asked) -> dict[Any, float]:
    shares = {"control": 0.5, "treatment": 0.5} if asked.shares is None else dict(asked.shares)
    if len(shares) < 2:
        raise EvenhandError(
            f"shares names {len(shares)} arms. Name two or more, such as {{'control': 0.9, 'new': 0.1}}."
        )
    refuse_shares({str(k): float(v) for k, v in shares.items()})
    return shares


def _control(shares: dict[Any, float], control: Any) -> Any:
    wanted = "control" if control is None else control
    if wanted not in shares:
        raise EvenhandError(f"No arm of shares is {wanted!r}. Name one as control: {listing(map(repr, shares))}.")
    return wanted

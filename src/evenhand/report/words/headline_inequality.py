"""How unevenly it is spread, in a sentence: what the few at the top hold, which source, within or between groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenhand.cards import REGISTRY, parse_metric
from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import holders, in_time, slice_labels, word
from evenhand.report.charts.lorenz_curves import curves
from evenhand.report.words.headlines import (
    Row,
    Verdict,
    brief,
    interval,
    intervals,
    is_known,
    judges,
    level_of,
    slice_of,
)
from evenhand.report.words.phrases import card_of
from evenhand.report.words.text import fill, number, plural

READ_OFF = "top_share(p=0.01)"
"""What is read off a Lorenz curve where no metric was asked for that can be repeated."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What one slice says: its label, its name with that of its column, and the share held."""

    where: str
    named: str
    held: float
    units: float
    row: Row | None = None


@judges("inequality")
def _inequality(findings: Findings) -> Verdict | None:
    """What the few at the top hold: where they hold most, and where least."""
    metric, amount, found = _shares(findings)
    asked = parse_metric(metric, REGISTRY)
    params = {n: p.default for n, p in asked.metric.parameters.items()} | dict(asked.params)
    part = float(params["p"])
    large = [h for h in found if not h.units < 1 / part] or found  # a top of less than one unit is no top
    if not large:
        return None
    most, least = max(large, key=lambda h: h.held), min(large, key=lambda h: h.held)
    many = part * most.units
    count = f" ({number(round(many))} of {number(most.units)})" if many >= 1 else ""

    def clause(value: str) -> str:
        fields = {**params, "units": f"{holders(findings)}{count}", "amount": amount, "value": value}
        return fill(asked.card.headline, params, fields)

    differ = least is not most and brief(least.held) != brief(most.held)
    if differ and (days := in_time(findings, slice_labels(findings))):
        says = f"From {days[0]} to {days[-1]}, {clause(_between(least, most))}"
    else:
        told = clause(brief(most.held))
        says = f"For {most.named}, {told}" if most.named else f"{told[0].upper()}{told[1:]}"
        says += f"; for {least.where}, the most even, {brief(least.held)}" if differ else ""
    sure = intervals({h.where: h.row for h in (most, least) if h.row is not None}, level_of(findings))
    return Verdict(f"{says}.", sure, metric if most.row is not None else "")


def _between(least: _Held, most: _Held) -> str:
    return f"{brief(least.held)} ({least.where}) to {brief(most.held)} ({most.where})"


def _shares(findings: Findings) -> tuple[str, str, list[_Held]]:
    """The first metric whose card has words for a meeting, of the first amount; else read off the Lorenz curve."""
    metric = next((m for m in findings.metrics() if (card := card_of(m)) and card.headline), "")
    several = "amount" in findings.slices
    first = findings.columns["amount"][0] if several else word(findings, "amount", "it")
    labels = slice_labels(findings)
    if metric:
        rows = [
            (w, r)
            for w, r in zip(labels, findings.rows(), strict=True)
            if r["metric"] == metric and is_known(r["estimate"]) and (not several or r["amount"] == first)
        ]
        held = [
            _Held(
                w.removesuffix(f", {first}") if several else w, slice_of(findings, r, without=("amount",)),
                r["estimate"], read_number(r["units"]), r,
            )
            for w, r in rows
        ]  # fmt: skip
        return metric, str(first).replace("_", " "), held
    units = dict(zip(labels, map(read_number, findings.columns["units"]), strict=True))
    named = dict(zip(labels, (slice_of(findings, r, without=("amount",)) for r in findings.rows()), strict=True))
    top = float(parse_metric(READ_OFF, REGISTRY).params["p"])
    held = [
        _Held(c.name, named.get(c.name, c.name), 1 - c.at(1 - top), units.get(c.name, math.nan))
        for c in curves(findings)
        if not several or c.name.endswith(str(first))
    ]
    return READ_OFF, str(first).replace("_", " "), held


@judges("sources")
def _sources(findings: Findings) -> Verdict | None:
    """The source that makes most of the inequality, as a part of it."""
    rows = list(findings.rows())
    total = next((read_number(r["estimate"]) for r in rows if r["metric"] == "gini" and not findings.slices), math.nan)
    parts = [r for r in rows if r["metric"] == "contribution" and is_known(r["estimate"])]
    if not parts or not total > 0:
        return None
    most = max(parts, key=lambda r: r["estimate"])
    amount, level = word(findings, "amount", "it").replace("_", " "), level_of(findings)
    says = f"{most['group']} makes {brief(most['estimate'] / total)} of the inequality of {amount}, more than any other source."
    return Verdict(says, interval(most, level, lambda v: brief(v / total)))


@judges("decompose")
def _decompose(findings: Findings) -> Verdict | None:
    """Where most of the inequality lies, where the parts add up."""
    if findings.slices:
        return None
    size = {r["metric"]: read_number(r["estimate"]) for r in findings.rows() if r["group"] is None}
    total, inside, across = (size.get(name, math.nan) for name in ("total", "within", "between"))
    known = inside + across + size.get("overlap", 0.0)
    if not total > 0 or not math.isclose(known, total, rel_tol=1e-6, abs_tol=1e-6):
        return None
    group = plural(word(findings, "group", "group"))
    part, where = (inside, f"within {group}") if inside >= across else (across, f"between {group}")
    other = f"{brief(min(inside, across) / total)} {'between' if inside >= across else 'within'} them"
    return Verdict(f"{brief(part / total)} of the inequality lies {where}, {other}.")


@judges("criteria")
def _criteria(findings: Findings) -> Verdict | None:
    """How far these data bear out what is published of each metric."""
    both = [r for r in findings.rows() if r.get("published") and r.get("measured")]
    if not both:
        return None
    odd = [r for r in both if r["measured"] != r["published"]]
    first = f": first {odd[0]['metric']}, {str(odd[0]['criterion']).replace('_', ' ')}" if odd else ""
    return Verdict(f"{len(odd):,} of {len(both):,} published judgements come out otherwise on these data{first}.")

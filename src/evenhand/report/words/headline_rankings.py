"""Headlines of rankings and lists: exposure against its target, shares near the top, relevant pairs, different lists."""

from __future__ import annotations

from typing import Any

from evenhand.findings import Findings
from evenhand.report.charts.drawing import distinct, points
from evenhand.report.words.headlines import (
    Headline,
    Row,
    has_interval,
    headline,
    interval,
    is_finite,
    named_slice,
    rounded_percent,
)
from evenhand.report.words.intervals import interval_text
from evenhand.report.words.text import capitalized, confidence_level


def _lead(findings: Findings, point: Row) -> str:
    where = named_slice(findings, point)
    return f"For {where}, " if where else ""


@headline("exposure")
def _exposure(findings: Findings) -> Headline | None:
    """Exposure of the protected group (or of any) against its target, in the slice where it is furthest from it."""
    curve = points(findings, "exposure") if findings.curves.get("exposure") else []
    defined = [p for p in curve if is_finite(p["exposure"]) and is_finite(p["target"])]
    protected = (findings.provenance.get("plan") or {}).get("protected")
    candidates = [p for p in defined if p["group"] == protected] or defined
    if not candidates:
        return None
    worst = max(candidates, key=lambda p: abs(p["exposure"] - p["target"]))
    close = has_interval(worst) and worst["low"] <= worst["target"] <= worst["high"]
    side = "about" if close else "above" if worst["exposure"] > worst["target"] else "below"
    gets = (
        f"{rounded_percent(worst['exposure'])} of the exposure, {side} its target of {rounded_percent(worst['target'])}"
    )
    text = f"{_lead(findings, worst)}{worst['group']} gets {gets}"
    others = [p for p in candidates if p["group"] == worst["group"] and p is not worst]
    if others:
        best = min(others, key=lambda p: abs(p["exposure"] - p["target"]))
        text += f"; for {best['where']} it gets {rounded_percent(best['exposure'])}"
    return Headline(f"{text}.", interval(worst, confidence_level(findings)), "exposure", worst["where"])


@headline("prefix")
def _prefix(findings: Findings) -> Headline | None:
    """The share of the first group in the top 10 against its share of the whole, in the slice where they differ most."""
    curve = points(findings, "prefix") if findings.curves.get("prefix") else []
    of_group = [p for p in curve if p["group"] == curve[0]["group"]]
    ends = []
    for where in distinct(p["where"] for p in of_group):
        ranks = [p for p in of_group if p["where"] == where]
        ends.append(next((p for p in ranks if p["rank"] == 10), ranks[-1]))
    defined = [p for p in ends if is_finite(p["share"]) and is_finite(p["overall"])]
    if not defined:
        return None
    worst = max(defined, key=lambda p: abs(p["share"] - p["overall"]))
    chance, band = "as random orders give", ""
    if is_finite(worst["low"]):
        band = f"Random orders give {interval_text(worst['low'], worst['high'], rounded_percent)}"
        if not worst["low"] - 1e-12 <= worst["share"] <= worst["high"] + 1e-12:
            chance = f"{'fewer' if worst['share'] < worst['low'] else 'more'} near the top than random orders give"
    text = (
        f"{_lead(findings, worst)}{rounded_percent(worst['share'])} of the top {worst['rank']} are {worst['group']}, and "
        f"{rounded_percent(worst['overall'])} of the whole: {chance}."
    )
    return Headline(text, band, "prefix", worst["where"])


@headline("pairwise")
def _pairwise(findings: Findings) -> Headline | None:
    """How often the more relevant item ranks above, when it is of the protected group and when it is of the other."""
    protected = str((findings.provenance.get("plan") or {}).get("protected"))
    by_slice: dict[Any, dict[str, Row]] = {}
    for r in findings.rows():
        if r["group"] is not None and ">" in str(r["group"]) and is_finite(r["estimate"]):
            by_slice.setdefault(findings.slice_label(r), {})[str(r["group"])] = r
    candidates = []
    for rows in by_slice.values():
        for pair, row in rows.items():
            group, _, other = pair.rpartition(">")
            reverse = rows.get(f"{other}>{group}")
            if group == protected and group != other and reverse is not None:
                candidates.append((row, reverse, other))
    if not candidates:
        return None
    row, reverse, other = max(candidates, key=lambda c: abs(c[0]["estimate"] - c[1]["estimate"]))
    text = (
        f"{_lead(findings, row)}a more relevant item of {protected} stands above one of {other} in "
        f"{rounded_percent(row['estimate'])} of pairs; the other way round it is {rounded_percent(reverse['estimate'])}."
    )
    level = confidence_level(findings)
    ends = [f"{name} {interval(r, level)}" for name, r in ((protected, row), (other, reverse)) if has_interval(r)]
    return Headline(capitalized(text), "; ".join(ends))


@headline("recommender")
def _recommender(findings: Findings) -> Headline | None:
    """The total variation between the lists of two groups, beside what chance gives."""
    row = next((r for r in findings.rows() if r["metric"] == "exposure_tv" and is_finite(r["estimate"])), None)
    if row is None or not row["group"] or findings.slices:
        return None
    pair = " and ".join(str(row["group"]).split(" vs "))
    chance = f"; chance alone would make it {rounded_percent(row['chance'])}" if is_finite(row["chance"]) else ""
    text = f"{rounded_percent(row['estimate'])} of what {pair} are shown differs{chance}."
    return Headline(text, interval(row, confidence_level(findings)), "exposure_tv")

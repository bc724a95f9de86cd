"""Rankings and lists in a sentence: who is exposed, who stands near the top, whose relevant items stand above, who is shown what."""

from __future__ import annotations

from typing import Any

from evenhand.findings import Findings
from evenhand.report.charts.drawing import distinct, points
from evenhand.report.words.headlines import Row, Verdict, brief, interval, is_known, judges, level_of, slice_of


def _lead(findings: Findings, point: Row) -> str:
    where = slice_of(findings, point)
    return f"For {where}, " if where else ""


@judges("exposure")
def _exposure(findings: Findings) -> Verdict | None:
    """The group that was asked for against its target, where it is furthest from it; without one, the furthest of all."""
    held = points(findings, "exposure") if findings.curves.get("exposure") else []
    found = [p for p in held if is_known(p["exposure"]) and is_known(p["target"])]
    asked = (findings.provenance.get("plan") or {}).get("protected")
    mine = [p for p in found if p["group"] == asked] or found
    if not mine:
        return None
    worst = max(mine, key=lambda p: abs(p["exposure"] - p["target"]))
    close = is_known(worst["low"]) and is_known(worst["high"]) and worst["low"] <= worst["target"] <= worst["high"]
    side = "about" if close else "above" if worst["exposure"] > worst["target"] else "below"
    gets = f"{brief(worst['exposure'])} of the exposure, {side} its target of {brief(worst['target'])}"
    says = f"{_lead(findings, worst)}{worst['group']} gets {gets}"
    others = [p for p in mine if p["group"] == worst["group"] and p is not worst]
    if others:
        best = min(others, key=lambda p: abs(p["exposure"] - p["target"]))
        says += f"; for {best['where']} it gets {brief(best['exposure'])}"
    return Verdict(f"{says}.", interval(worst, level_of(findings)), "exposure", worst["where"])


@judges("prefix")
def _prefix(findings: Findings) -> Verdict | None:
    """The top 10 against the whole, where they differ most."""
    found = points(findings, "prefix") if findings.curves.get("prefix") else []
    first = found[0]["group"] if found else None
    ends = []
    for where in distinct(p["where"] for p in found):
        mine = [p for p in found if p["where"] == where and p["group"] == first]
        ends.append(next((p for p in mine if p["rank"] == 10), mine[-1] if mine else None))
    known = [p for p in ends if p and is_known(p["share"]) and is_known(p["overall"])]
    if not known:
        return None
    worst = max(known, key=lambda p: abs(p["share"] - p["overall"]))
    chance = "as random orders give"
    if is_known(worst["low"]) and not worst["low"] - 1e-12 <= worst["share"] <= worst["high"] + 1e-12:
        chance = f"{'fewer' if worst['share'] < worst['low'] else 'more'} near the top than random orders give"
    mix = f"{brief(worst['share'])} of the top {worst['rank']} are {worst['group']}, and {brief(worst['overall'])} of the whole"
    band = f"Random orders give {brief(worst['low'])} to {brief(worst['high'])}" if is_known(worst["low"]) else ""
    return Verdict(f"{_lead(findings, worst)}{mix}: {chance}.", band, "prefix", worst["where"])


@judges("pairwise")
def _pairwise(findings: Findings) -> Verdict | None:
    """Between two groups: how often the more relevant item stands above, when it is of one and when of the other."""
    plan = findings.provenance.get("plan") or {}
    held: dict[Any, dict[str, Row]] = {}
    for r in findings.rows():
        if r["group"] is not None and ">" in str(r["group"]) and is_known(r["estimate"]):
            held.setdefault(findings.slice_label(r), {})[str(r["group"])] = r
    found = []
    for rows in held.values():
        for pair, row in rows.items():
            one, _, other = pair.rpartition(">")
            back = rows.get(f"{other}>{one}")
            if one == str(plan.get("protected")) and one != other and back is not None:
                found.append((row, back, one, other))
    if not found:
        return None
    mine, back, one, other = max(found, key=lambda p: abs(p[0]["estimate"] - p[1]["estimate"]))
    says = (
        f"{_lead(findings, mine)}a more relevant item of {one} stands above one of {other} in {brief(mine['estimate'])} of pairs; "
        f"the other way round it is {brief(back['estimate'])}."
    )
    level = level_of(findings)
    ends = [f"{name} {interval(row, level)}" for name, row in ((one, mine), (other, back)) if interval(row, level)]
    return Verdict(f"{says[0].upper()}{says[1:]}", "; ".join(ends))


@judges("recommender")
def _recommender(findings: Findings) -> Verdict | None:
    """How different the lists of the two groups are, beside chance."""
    row = next((r for r in findings.rows() if r["metric"] == "exposure_tv" and is_known(r["estimate"])), None)
    if row is None or not row["group"] or findings.slices:
        return None
    pair = " and ".join(str(row["group"]).split(" vs "))
    chance = f"; chance alone would make it {brief(row['chance'])}" if is_known(row["chance"]) else ""
    says = f"{brief(row['estimate'])} of what {pair} are shown differs{chance}."
    return Verdict(says, interval(row, level_of(findings)), "exposure_tv")

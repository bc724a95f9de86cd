"""The answer in one sentence that somebody can repeat in a meeting, and how sure it is.

An audit whose answer takes more than its first sentence has a function here, declared with `@verdict("name")`. Shares are
rounded to what people say (92%, not 92.37%): the numbers themselves stand below, with their intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.cards import REGISTRY, ask
from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.present.drawing import distinct, holders, points, slice_labels, word
from evenhand.present.lorenz import curves
from evenhand.present.phrases import card_of
from evenhand.present.text import number, plural, short_percent, slice_names

Row = Mapping[str, Any]

TOP = 0.01
"""The size of the top that is told where the audit names none."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to say, and the interval or the doubt that belongs to it (nothing where there is none).

    `tells` : the metric, or the kind of chart, whose own sentence says no more than this one; `where` : the slice it is about.
    """

    says: str
    sure: str = ""
    tells: str = ""
    where: str = ""


Judge = Callable[[Findings], Verdict | None]
JUDGES: dict[str, Judge] = {}


def judges(audit: str) -> Callable[[Judge], Judge]:
    """Declare who sums up the findings of an audit; None leaves it to the first sentence of the summary."""

    def declare(judge: Judge) -> Judge:
        JUDGES[audit] = judge
        return judge

    return declare


def verdict(findings: Findings) -> Verdict | None:
    """The one sentence of these findings; None where the first of the summary is as good."""
    judge = JUDGES.get(findings.audit)
    return judge(findings) if judge and len(findings) else None


def brief(share: float) -> str:
    """A share as people say it: whole percents, finer only where a whole one would say all or nothing.

    >>> brief(0.9237), brief(0.0042), brief(0.9962), brief(1.0), brief(0.99998)
    ('92%', '0.42%', '99.6%', '100%', '99.998%')
    """
    if not 0 < share < 1:
        return f"{100 * share:.0f}%"
    room = 100 * min(share, 1 - share)
    digits = 0 if room >= 1 else min(6, -math.floor(math.log10(room)) + (share < 0.5))
    return f"{100 * share:.{digits}f}%"


def _known(value: Any) -> bool:
    return math.isfinite(read_number(value))


def _interval(row: Row, level: float, show: Callable[[float], str] = brief) -> str:
    if not (_known(row["low"]) and _known(row["high"])):
        return ""
    return f"{short_percent(level)} interval {show(row['low'])} to {show(row['high'])}"


def _intervals(rows: Mapping[str, Row], level: float) -> str:
    """The intervals of a few rows by name."""
    known = {name: row for name, row in rows.items() if _interval(row, level)}
    if len(known) < 2:
        return next((_interval(row, level) for row in known.values()), "")
    listed = (f"{name} {brief(row['low'])} to {brief(row['high'])}" for name, row in known.items())
    return f"{short_percent(level)} intervals: {', '.join(listed)}"


def _level(findings: Findings) -> float:
    return float(findings.provenance.get("level", 0.95))


@dataclass(frozen=True, slots=True)
class _Held:
    """What the top of one slice holds."""

    where: str
    amount: str
    held: float
    units: float
    row: Row | None = None


@judges("inequality")
def _inequality(findings: Findings) -> Verdict | None:
    """What the few at the top hold: where they hold most, and where least."""
    top, metric, found = _tops(findings)
    large = [h for h in found if not h.units < 1 / top] or found  # a top of less than one unit is no top
    if not large:
        return None
    most, least = max(large, key=lambda h: h.held), min(large, key=lambda h: h.held)
    count = f" ({number(round(top * most.units))} of {number(most.units)})" if most.units * top >= 1 else ""
    where = f"In {most.where}, the" if most.where else "The"
    says = f"{where} top {short_percent(top)} of {holders(findings)}{count} get {brief(most.held)} of all {most.amount}"
    if least is not most and brief(least.held) != brief(most.held):
        other = f" of {least.amount}" if least.amount != most.amount else ""
        lead = f"in {least.where}, the most even," if least.where else "they get"
        says += f"; {lead} {brief(least.held)}{other}"
    sure = _intervals({h.where: h.row for h in (most, least) if h.row is not None}, _level(findings))
    return Verdict(f"{says}.", sure, metric)


def _tops(findings: Findings) -> tuple[float, str, list[_Held]]:
    """The share of the top by the metric that was asked for; else read off the Lorenz curve."""
    metric = next((m for m in findings.metrics() if (card := card_of(m)) and card.name == "top_share"), "")
    others = tuple(s for s in findings.slices if s != "amount")
    plain = word(findings, "amount", "it").replace("_", " ")
    if metric:
        names = slice_names(others, findings.columns) if others else [""] * len(findings)
        rows = [(w, r) for w, r in zip(names, findings.rows(), strict=True) if r["metric"] == metric]
        rows = [(w, r) for w, r in rows if _known(r["estimate"])]
        held = [
            _Held(
                w, str(r["amount"]).replace("_", " ") if "amount" in findings.slices else plain, r["estimate"],
                read_number(r["units"]), r,
            )
            for w, r in rows
        ]  # fmt: skip
        return float(ask(metric, REGISTRY).params.get("p", TOP)), metric, held
    units = dict(zip(slice_labels(findings), map(read_number, findings.columns["units"]), strict=True))
    return TOP, "", [
        _Held(c.name if others else "", c.name if not others and c.name else plain, 1 - c.at(1 - TOP), units.get(c.name, math.nan))
        for c in curves(findings)
    ]  # fmt: skip


@judges("sources")
def _sources(findings: Findings) -> Verdict | None:
    """The source that makes most of the inequality, as a part of it."""
    rows = list(findings.rows())
    total = next((read_number(r["estimate"]) for r in rows if r["metric"] == "gini" and not findings.slices), math.nan)
    parts = [r for r in rows if r["metric"] == "contribution" and _known(r["estimate"])]
    if not parts or not total > 0:
        return None
    most = max(parts, key=lambda r: r["estimate"])
    amount, level = word(findings, "amount", "it").replace("_", " "), _level(findings)
    says = f"{most['group']} makes {brief(most['estimate'] / total)} of the inequality of {amount}, more than any other source."
    return Verdict(says, _interval(most, level, lambda v: brief(v / total)))


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


@judges("exposure")
def _exposure(findings: Findings) -> Verdict | None:
    """The group that was asked for against its target, where it is furthest from it; without one, the furthest of all."""
    found = [p for p in points(findings, "exposure") if _known(p["exposure"]) and _known(p["target"])] if (
        findings.curves.get("exposure")
    ) else []  # fmt: skip
    asked = (findings.provenance.get("plan") or {}).get("protected")
    mine = [p for p in found if p["group"] == asked] or found
    if not mine:
        return None
    worst = max(mine, key=lambda p: abs(p["exposure"] - p["target"]))
    where = f"In {worst['where']}, {worst['group']}" if worst["where"] else str(worst["group"])
    close = _known(worst["low"]) and _known(worst["high"]) and worst["low"] <= worst["target"] <= worst["high"]
    side = (
        "about its target"
        if close
        else "above its target"
        if worst["exposure"] > worst["target"]
        else "below its target"
    )
    says = f"{where} gets {brief(worst['exposure'])} of the exposure, {side} of {brief(worst['target'])}"
    others = [p for p in mine if p["group"] == worst["group"] and p is not worst]
    if others:
        best = min(others, key=lambda p: abs(p["exposure"] - p["target"]))
        says += f"; in {best['where']} it gets {brief(best['exposure'])}"
    return Verdict(f"{says}.", _interval(worst, _level(findings)), "exposure", worst["where"])


@judges("prefix")
def _prefix(findings: Findings) -> Verdict | None:
    """The top 10 against the whole, where they differ most."""
    found = points(findings, "prefix") if findings.curves.get("prefix") else []
    first = found[0]["group"] if found else None
    ends = []
    for where in distinct(p["where"] for p in found):
        mine = [p for p in found if p["where"] == where and p["group"] == first]
        ends.append(next((p for p in mine if p["rank"] == 10), mine[-1] if mine else None))
    known = [p for p in ends if p and _known(p["share"]) and _known(p["overall"])]
    if not known:
        return None
    worst = max(known, key=lambda p: abs(p["share"] - p["overall"]))
    where = f"In {worst['where']}, " if worst["where"] else ""
    chance = "as random orders give"
    if _known(worst["low"]) and not worst["low"] - 1e-12 <= worst["share"] <= worst["high"] + 1e-12:
        chance = f"{'fewer' if worst['share'] < worst['low'] else 'more'} than random orders give"
    mix = f"{brief(worst['share'])} of the top {worst['rank']} are {worst['group']}, of the whole {brief(worst['overall'])}"
    says = f"{where}{mix}: {chance}."
    band = f"Random orders give {brief(worst['low'])} to {brief(worst['high'])}" if _known(worst["low"]) else ""
    return Verdict(says, band, "prefix", worst["where"])


@judges("outcome_test")
def _outcome(findings: Findings) -> Verdict | None:
    """The widest gap at equal score that chance does not explain; else how wide a gap would have been found."""
    level, reference = _level(findings), findings.words.get("reference", "the reference")
    gaps = [
        r for r in findings.rows() if r["metric"] == "pooled_gap" and r["group"] != reference and _known(r["estimate"])
    ]
    told = [r for r in gaps if "small_cell" not in (r["note"] or "")]
    beyond = [r for r in told if read_number(r.get("p_adjusted")) < 1 - level]
    if beyond:
        row = max(beyond, key=lambda r: abs(r["estimate"]))
        side, judged = ("higher", "under-rates") if row["estimate"] > 0 else ("lower", "over-rates")
        outcome, size = word(findings, "outcome").replace("_", " "), number(abs(row["estimate"]))
        gap = f"{outcome} is {size} {side} for {row['group']} than for {reference}"
        where = findings.slice_label(row)
        at = f"At equal score in {where}" if where else "At equal score"
        return Verdict(f"{at}, {gap}: the score {judged} {row['group']}.", _interval(row, level, number), "pooled_gap")
    seen = [read_number(r.get("detectable")) for r in told if _known(r.get("detectable"))]
    if len(told) < len(gaps) or not seen or len(seen) < len(told):
        return None
    return Verdict(
        f"At equal score no group was found to do better or worse than {reference}; a gap of {number(max(seen))} was likely to be found."
    )


@judges("recommender")
def _recommender(findings: Findings) -> Verdict | None:
    """How different the lists of the two groups are, beside chance."""
    row = next((r for r in findings.rows() if r["metric"] == "exposure_tv" and _known(r["estimate"])), None)
    if row is None or not row["group"] or findings.slices:
        return None
    pair = " and ".join(str(row["group"]).split(" vs "))
    chance = f"; chance alone would make it {brief(row['chance'])}" if _known(row["chance"]) else ""
    says = f"{brief(row['estimate'])} of what {pair} are shown differs{chance}."
    return Verdict(says, _interval(row, _level(findings)), "exposure_tv")

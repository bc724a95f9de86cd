"""Do metrics agree, in words: which two order the systems most and least alike, and whether chance alone would do it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.findings import Findings
from evenhand.present.text import REASONS, number

SURE = 0.05
HIGH = 0.5

Rows = Sequence[Mapping[str, Any]]


def sentences(findings: Findings) -> list[str]:
    """One sentence for every two metrics, and what few systems can show."""
    rows = _once(findings)
    return [*(_sentence(findings, row) for row in rows), *_few(rows)]


def headlines(findings: Findings) -> list[str]:
    """The most and the least alike, how many agree, and how many of them by more than chance."""
    rows = _once(findings)
    known = [row for row in rows if not math.isnan(_tau(row))]
    if len(known) <= 3:
        return sentences(findings)
    most, least = max(known, key=_tau), min(known, key=_tau)
    alike, apart = (sum(sign * _tau(row) >= HIGH for row in known) for sign in (1, -1))
    sure = sum(float(row["p"]) < SURE for row in known)
    lost = f" {len(rows) - len(known):,} pairs cannot be compared." if len(known) < len(rows) else ""
    return [
        f"{alike:,} of {len(known):,} pairs of metrics order the systems alike (tau-c {HIGH} or more), {apart:,} the other way "
        f"round ({-HIGH} or less); {sure:,} differ from chance at 5%, before any adjustment for so many pairs.{lost}",
        f"Most alike: {_sentence(findings, most)}",
        f"Least alike: {_sentence(findings, least)}",
        *_few(rows),
    ]


def asides(findings: Findings) -> list[Any]:
    """Nothing beyond the picture and the table."""
    return []


def _once(findings: Findings) -> Rows:
    """Every two metrics once: the frame has both orders."""
    seen: set[tuple[Any, ...]] = set()
    found = []
    for row in findings.rows():
        where = tuple(row[s] for s in findings.slices)
        if (where, row["other"], row["metric"]) not in seen:
            seen.add((where, row["metric"], row["other"]))
            found.append(row)
    return found


def _tau(row: Mapping[str, Any]) -> float:
    return math.nan if row["tau_c"] is None else float(row["tau_c"])


def _sentence(findings: Findings, row: Mapping[str, Any]) -> str:
    where = findings.slice_label(row)
    lead = f"For {where}: " if where else ""
    pair, tau = f"{row['metric']} and {row['other']}", _tau(row)
    if math.isnan(tau):
        code = (row["note"] or "").split(";")[0]
        return f"{lead}{pair} cannot be compared: {REASONS.get(code, code)}."
    return f"{lead}{pair} {_order(tau, int(row['systems']))} (tau-c {tau:.2f}, p {number(float(row['p']))})."


def _order(tau: float, systems: int) -> str:
    """What a tau-c says.

    >>> _order(1.0, 4), _order(0.2, 4), _order(-0.7, 4)
    ('order all 4 systems alike', 'hardly agree on the order of 4 systems', 'mostly disagree on the order of 4 systems')
    """
    if abs(tau) >= 1 - 1e-9:
        return f"order all {systems} systems {'alike' if tau > 0 else 'the other way round'}"
    said = "hardly agree" if abs(tau) < HIGH else "mostly agree" if tau > 0 else "mostly disagree"
    return f"{said} on the order of {systems} systems"


def _few(rows: Rows) -> list[str]:
    fewest = min((int(row["systems"]) for row in rows if not math.isnan(_tau(row))), default=0)
    if fewest < 2 or 2 / math.factorial(fewest) <= SURE:
        return []
    least = number(2 / math.factorial(fewest))
    return [f"With {fewest} systems p cannot fall below {least}: here no agreement can be told from chance at 5%."]

"""Two results set side by side, in words: what each says, how far apart they are, and whether chance alone would do it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from evenhand.findings import Findings, label
from evenhand.present.drawing import is_share, metric_title
from evenhand.present.text import REASONS, in_words, number, percent, short_percent

FEW = 8
MOST = 5
UNPAIRED = (
    "These comparisons are not paired: a saved result holds no requests, so the two count as resting on different ones. If "
    "they share requests, a paired comparison sees smaller differences: pass both results to eh.compare before saving them, "
    "or audit both systems in one table (system=, --system with --systems)."
)


def sentences(findings: Findings) -> list[str]:
    """One sentence per row, and one more where the comparison could not be paired."""
    level = float(findings.provenance.get("level", 0.95))
    return [*(_sentence(findings, row, level) for row in findings.rows()), *_unpaired(findings)]


def headlines(findings: Findings) -> list[str]:
    """All sentences where there are few; elsewhere how many differ by more than chance, and the surest of them."""
    told, rows = sentences(findings), list(findings.rows())
    if len(rows) <= FEW:
        return told
    bound = round(1 - float(findings.provenance.get("level", 0.95)), 12)
    sure = sorted((_p(row), i) for i, row in enumerate(rows) if _p(row) < bound)
    rule = f"p below {short_percent(bound)} after Holm's adjustment"
    return [
        f"{len(sure):,} of {len(rows):,} numbers differ by more than chance ({rule}).",
        *(told[i] for _, i in sure[:MOST]),
        *_unpaired(findings),
    ]


def _unpaired(findings: Findings) -> list[str]:
    return [UNPAIRED] if any("unpaired" in (note or "") for note in findings.columns["note"]) else []


def asides(findings: Findings) -> list[Any]:
    """Nothing beyond the table."""
    return []


def _p(row: Mapping[str, Any]) -> float:
    found = row.get("p_adjusted")
    return 1.0 if found is None or math.isnan(found) else float(found)


def _sentence(findings: Findings, row: Mapping[str, Any], level: float) -> str:
    metric = row["metric"]
    show = percent if is_share(metric) else number
    where = ", ".join(
        [
            *(f"{name} {in_words(row[name])}" for name in findings.slices),
            *([label(row["group"])] if row["group"] is not None else []),
        ]
    )
    lead = f"For {where}: " if where else ""
    name = metric_title(metric)
    a, b, difference = (math.nan if row[k] is None else float(row[k]) for k in ("a", "b", "estimate"))
    if math.isnan(difference):
        code = (row["note"] or "").split(";")[0].strip()
        why = f": {REASONS.get(code, code)}" if code else ""
        return f"{lead}{name} cannot be compared{why}."
    sides = f"{show(a)} in the first, {show(b)} in the second"
    if difference == 0:
        return f"{lead}{name} is the same in both, {show(a)}."
    verdict = ""
    if (p := row.get("p_adjusted")) is not None and not math.isnan(p):
        verdict = ", more than chance gives" if p < round(1 - level, 12) else ", which chance may give too"
    return f"{lead}{name} is {sides}: a difference of {_signed(difference, show)}{_doubt(row, level, show)}{verdict}."


def _signed(value: float, show: Any) -> str:
    """A difference with its sign; of shares in percentage points.

    >>> _signed(0.02, percent), _signed(-0.5, number)
    ('+2.00 points', '-0.5000')
    """
    sign = "+" if value > 0 else "-"
    said = str(show(abs(value)))
    return f"{sign}{said.removesuffix('%')} points" if said.endswith("%") else f"{sign}{said}"


def _doubt(row: Mapping[str, Any], level: float, show: Any) -> str:
    low, high, p = (math.nan if row[k] is None else float(row[k]) for k in ("low", "high", "p_adjusted"))
    parts = []
    if not (math.isnan(low) or math.isnan(high)):
        parts.append(f"{short_percent(level)} interval {_signed(low, show)} to {_signed(high, show)}")
    if not math.isnan(p):
        parts.append("adjusted p below 0.0001" if p < 1e-4 else f"adjusted p {number(p)}")
    return f" ({'; '.join(parts)})" if parts else ""

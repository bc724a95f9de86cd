"""The words of a result: what its units, amounts, slices and groups are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.findings import Findings
from evenhand.report.words.text import in_words, number, percent, plural, slice_names

Row = Mapping[str, Any]


def word(findings: Findings, role: str, otherwise: str = "") -> str:
    """The name that a role has in the user's data, without underscores."""
    return str(findings.words.get(role) or otherwise or role).replace("_", " ")


def holders(findings: Findings) -> str:
    """The noun for the population of a Lorenz curve: the units; for a recommender the items, not its users."""
    return plural(word(findings, "holder", word(findings, "unit")))


def confidence_level(findings: Findings) -> float:
    """The level of the intervals, 0.95 unless the audit was asked for another."""
    return float(findings.provenance.get("level", 0.95))


def slice_labels(findings: Findings, columns: Mapping[str, Sequence[Any]] | None = None) -> list[str]:
    """One short label per row of the frame (or of a curve); empty text for an unsliced audit."""
    return slice_names(findings.slices, findings.columns if columns is None else columns)


def row_labels(findings: Findings) -> list[str]:
    """Slice and group of every row, as one label."""
    groups = findings.columns.get("group", [None] * len(findings))
    pairs = zip(slice_labels(findings), groups, strict=True)
    return [", ".join(part for part in (where, "" if group is None else str(group)) if part) for where, group in pairs]


def named_slice(findings: Findings, row: Row, *, without: Sequence[str] = ()) -> str:
    """The slice of a row or a point, with the names of its columns: "source likes"."""
    names = [name for name in findings.slices if name not in without]
    return ", ".join(f"{name.replace('_', ' ')} {in_words(row[name])}" for name in names)


def slice_lead(findings: Findings, row: Row, *, without: Sequence[str] = ()) -> str:
    """The beginning of a sentence about one slice: "For source likes: "."""
    where = named_slice(findings, row, without=without)
    return f"For {where}: " if where else ""


def points(findings: Findings, curve: str) -> list[dict[str, Any]]:
    """The points of a curve as rows, each with the label of its slice under `where`; none where there is no curve."""
    columns = findings.curves.get(curve)
    if not columns:
        return []
    rows = zip(zip(*columns.values(), strict=True), slice_labels(findings, columns), strict=True)
    return [dict(zip(columns, point, strict=True)) | {"where": where} for point, where in rows]


_DAY = re.compile(r"\d{4}-\d\d(-\d\d([T ][\d:.+Z-]*)?)?")


def dated(findings: Findings) -> list[str]:
    """Slices whose labels are days or months."""
    return [
        name
        for name in findings.slices
        if len(findings) and all(_DAY.fullmatch(str(v)) for v in findings.columns[name])
    ]


def are_differences(findings: Findings) -> bool:
    """Whether estimates are differences of two values, which are further columns."""
    columns = {*findings.columns} - {*findings.slices}
    return any(pair <= columns for pair in ({"a", "b"}, {"treatment", "control_value"}))


def excluded(findings: Findings) -> str:
    """Which rows or items are not in the numbers and why: scores outside those tested, items without a label."""
    shares = findings.provenance.get("unlabelled_share") or {}
    if most := max(shares.values(), default=0.0):
        upto = "" if len(shares) == 1 else "Up to "
        return f"{upto}{percent(most)} of ranked items have no label and are excluded."
    scope = findings.provenance.get("scope") or {}
    lost = int(scope.get("rows_outside") or 0)
    if not lost:
        return ""
    set_by = dict.fromkeys(map(str, scope.get("set_by") or []))
    by = f", set by {' and '.join(set_by)}" if set_by else ""
    rule = f"among the {scope['rule']}" if str(scope["rule"]).startswith("scores") else scope["rule"]
    ends = f"{number(scope['low'])} to {number(scope['high'])}"
    return f"{lost:,} of {lost + int(scope['rows']):,} rows are excluded: their scores are not {rule} ({ends}{by})."

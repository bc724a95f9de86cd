"""Did it change? Two results of the same question, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.audits.assemble import Row, log, row, tidy
from evenhand.errors import EvenhandError
from evenhand.findings import Findings
from evenhand.results import Result
from evenhand.uncertainty.difference import difference, holm

QUESTION = "Did it change, and by more than chance?"
EXTRA = ("a", "b", "p", "p_adjusted")


def compare(a: Result, b: Result) -> Result:
    """Difference a - b of every row that two results share, with interval and p (Holm-adjusted beside it).

    The two must rest on different units (two arms, two periods, two platforms): their errors are taken as independent.
    """
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, Result):
            raise EvenhandError(
                f"{name} is a {type(given).__name__}, not a result. Pass what an audit or eh.read.result gave."
            )
    if a.findings.audit != b.findings.audit or a.findings.slices != b.findings.slices:
        raise EvenhandError(
            f"The results answer different questions: {a.findings.audit} by {list(a.findings.slices)} and "
            f"{b.findings.audit} by {list(b.findings.slices)}. Compare two results of the same call."
        )
    log.info("comparing")
    slices = a.findings.slices
    mine, theirs = _keyed(a.findings), _keyed(b.findings)
    if not mine.keys() & theirs.keys():
        raise EvenhandError("The results share no row. Compare results with the same metrics and slices.")
    level = float(a.findings.provenance.get("level", 0.95))
    rows = [_row(slices, mine.get(key), theirs.get(key), level) for key in dict.fromkeys([*mine, *theirs])]
    adjusted = holm([r["p"] for r in rows])
    rows = [{**r, "p_adjusted": float(p)} for r, p in zip(rows, adjusted, strict=True)]
    facts = {"level": level, "p_adjusted": "Holm over all rows", "a": dict(a.provenance), "b": dict(b.provenance)}
    return Result(
        Findings("compare", QUESTION, slices, tidy(rows, slices, EXTRA), {}, a.findings.words, facts), a.backend
    )


def _keyed(findings: Findings) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(*(str(r[s]) for s in findings.slices), r["metric"], r["group"]): r for r in findings.rows()}


def _row(slices: tuple[str, ...], a: dict[str, Any] | None, b: dict[str, Any] | None, level: float) -> Row:
    one = a if a is not None else b
    if one is None:
        raise EvenhandError("A row of neither result was asked for. This is a fault in evenhand.")
    labels = {s: one[s] for s in slices}
    if a is None or b is None:
        absent = "absent from b" if b is None else "absent from a"
        return row(labels, one["metric"], group=one["group"], a=_estimate(a), b=_estimate(b), p=np.nan, note=absent)
    ends = [tuple(np.asarray(r[k], dtype=np.float64) for k in ("estimate", "low", "high")) for r in (a, b)]
    gap, low, high, p = difference(ends[0], ends[1], level)  # type: ignore[arg-type]
    notes = sorted({n for r in (a, b) for n in (r["note"] or "").split("; ") if n})
    return row(
        labels, one["metric"], group=one["group"], estimate=float(gap), low=float(low), high=float(high), ideal=0.0,
        better=one["better"], a=_estimate(a), b=_estimate(b), p=float(p), note="; ".join(notes) or None,
    )  # fmt: skip


def _estimate(r: dict[str, Any] | None) -> float:
    return np.nan if r is None else float(r["estimate"])

"""Pairs in plain words: two results set side by side, and two metrics that order systems alike or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from evenhand.findings import Findings, label
from evenhand.findings import number as read_number
from evenhand.report.words.phrases import is_share, metric_title
from evenhand.report.words.sentences import Row, Teller
from evenhand.report.words.text import REASONS, in_words, number, percent, short_percent, signed

FEW = 8
MOST = 5
UNPAIRED = (
    "These differences have no interval: a saved result holds no requests, so whether the two share any is not known. Pass both "
    "results to eh.compare before saving them, or audit both systems in one table (system=, --system with --systems); if they "
    "share none, say so (independent=True, --independent)."
)
MAY_SHARE = (
    "These differences have no interval: a result holds no units, so whether the two share any is not known, and with it how far "
    "chance moves the difference. eh.experiment (evenhand experiment) compares arms or periods from the log itself; if no unit "
    "is in both, say so (independent=True, --independent)."
)
SAMPLES = "The two rest on different requests and are compared as two samples of them."


class CompareTeller(Teller, audit="compare"):
    """Two results set side by side."""

    def sentences(self, findings: Findings) -> list[str]:
        """One sentence per row, and one more where the comparison could not be paired."""
        return [*super().sentences(findings), *_for_all(findings)]

    def headlines(self, findings: Findings) -> list[str]:
        """All sentences where there are few; elsewhere how many differ by more than chance, and the surest of them."""
        told, rows = self.sentences(findings), list(findings.rows())
        if len(rows) <= FEW:
            return told
        bound = round(1 - float(findings.provenance.get("level", 0.95)), 12)
        sure = sorted((_p(row), i) for i, row in enumerate(rows) if _p(row) < bound)
        rule = f"p below {short_percent(bound)} after Holm's adjustment"
        return [
            f"{len(sure):,} of {len(rows):,} numbers differ by more than chance ({rule}).",
            *(told[i] for _, i in sure[:MOST]),
            *_for_all(findings),
        ]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """What both say, how far apart they are, and whether chance alone would do it."""
        metric = row["metric"]
        show = shown(metric)
        one, other = sides_of(findings, row)
        paired = ("system", "versus") if "versus" in findings.slices else ()
        where = ", ".join(
            [
                *(f"{name} {in_words(row[name])}" for name in findings.slices if name not in paired),
                *([label(row["group"])] if row["group"] is not None else []),
            ]
        )
        lead = f"For {where}: " if where else ""
        name = metric_title(metric)
        a, b, difference = (read_number(row[k]) for k in ("a", "b", "estimate"))
        if math.isnan(difference):
            code = (row["note"] or "").split(";")[0].strip()
            why = f": {REASONS.get(code, code)}" if code else ""
            return f"{lead}{name} cannot be compared{why}."
        sides = f"{show(a)} in {one} and {show(b)} in {other}"
        if difference == 0:
            return f"{lead}{name} is the same in {one} and in {other}, {show(a)}."
        verdict = ""
        if (p := row.get("p_adjusted")) is not None and not math.isnan(p):
            verdict = ", more than chance gives" if p < round(1 - level, 12) else ", which chance may give too"
        return f"{lead}{name} is {sides}: a difference of {signed(difference, show)}{doubt(row, level, show)}{verdict}."


def _for_all(findings: Findings) -> list[str]:
    """Why there are no intervals, or what they rest on where that is not plain."""
    notes = "; ".join(note or "" for note in findings.columns["note"])
    said = [text for code, text in (("unpaired", UNPAIRED), ("may_share_units", MAY_SHARE)) if code in notes]
    return said or ([SAMPLES] if findings.provenance.get("paired") is False else [])


def _p(row: Row) -> float:
    found = row.get("p_adjusted")
    return 1.0 if found is None or math.isnan(found) else float(found)


def shown(metric: str) -> Callable[..., str]:
    """How values of a metric read: in percent where people say percent."""
    return percent if is_share(metric) else number


def sides_of(findings: Findings, row: Row) -> tuple[str, str]:
    """What the two that are compared are called: two systems, two files, or the arguments a and b."""
    if "versus" in findings.slices:
        return in_words(row["system"]), in_words(row["versus"])
    return str(findings.words.get("a", "a")), str(findings.words.get("b", "b"))


def doubt(row: Row, level: float, show: Callable[..., str]) -> str:
    """The interval of a difference and its p, in brackets."""
    low, high, p = (read_number(row[k]) for k in ("low", "high", "p_adjusted"))
    parts = []
    if not (math.isnan(low) or math.isnan(high)):
        digits = abs(read_number(row["estimate"]))
        alike = (lambda v: percent(v, digits)) if show is percent else show
        first = signed(low, alike).removesuffix(" points")
        parts.append(f"{short_percent(level)} interval {first} to {signed(high, alike)}")
    if not math.isnan(p):
        parts.append("adjusted p below 0.0001" if p < 1e-4 else f"adjusted p {number(p)}")
    return f" ({'; '.join(parts)})" if parts else ""


SURE = 0.05
HIGH = 0.5


class AgreementTeller(Teller, audit="agreement"):
    """Which metrics order the systems alike, and whether chance alone would do it."""

    def sentences(self, findings: Findings) -> list[str]:
        """One sentence for every two metrics, and what few systems can show."""
        rows = _once(findings)
        return [*(_pair(findings, row) for row in rows), *_few(rows)]

    def headlines(self, findings: Findings) -> list[str]:
        """The most and the least alike, how many agree, and how many of them by more than chance."""
        rows = _once(findings)
        known = [row for row in rows if not math.isnan(_tau(row))]
        if len(known) <= 3:
            return self.sentences(findings)
        most, least = max(known, key=_tau), min(known, key=_tau)
        alike, apart = (sum(sign * _tau(row) >= HIGH for row in known) for sign in (1, -1))
        sure = sum(float(row["p"]) < SURE for row in known)
        lost = f" {len(rows) - len(known):,} pairs cannot be compared." if len(known) < len(rows) else ""
        return [
            f"{alike:,} of {len(known):,} pairs of metrics order the systems alike (tau-c {HIGH} or more), {apart:,} the other way "
            f"round ({-HIGH} or less); {sure:,} differ from chance at 5%, before any adjustment for so many pairs.{lost}",
            f"Most alike: {_pair(findings, most)}",
            f"Least alike: {_pair(findings, least)}",
            *_few(rows),
        ]


def _once(findings: Findings) -> Sequence[Row]:
    """Every two metrics once: the frame has both orders."""
    seen: set[tuple[Any, ...]] = set()
    found = []
    for row in findings.rows():
        where = tuple(row[s] for s in findings.slices)
        if (where, row["other"], row["metric"]) not in seen:
            seen.add((where, row["metric"], row["other"]))
            found.append(row)
    return found


def _tau(row: Row) -> float:
    return read_number(row["tau_c"])


def _pair(findings: Findings, row: Row) -> str:
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


def _few(rows: Sequence[Row]) -> list[str]:
    fewest = min((int(row["systems"]) for row in rows if not math.isnan(_tau(row))), default=0)
    if fewest < 2 or 2 / math.factorial(fewest) <= SURE:
        return []
    least = number(2 / math.factorial(fewest))
    return [f"With {fewest} systems p cannot fall below {least}: here no agreement can be told from chance at 5%."]

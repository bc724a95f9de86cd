"""Sentences of comparisons: two results side by side, and pairs of metrics that order systems alike or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from evenhand.findings import Findings, label
from evenhand.findings import number as read_number
from evenhand.report.words.intervals import interval_text
from evenhand.report.words.phrases import metric_title, value_format
from evenhand.report.words.sentences import Row, SentenceWriter
from evenhand.report.words.text import (
    confidence_level,
    first_reason,
    in_words,
    number,
    p_text,
    percent,
    percent_like,
    short_percent,
    signed,
)

FEW = 8
"""Rows that are all printed; of more, the `MOST` with the smallest p."""
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


class CompareSentences(SentenceWriter, audit="compare"):
    """Two results set side by side."""

    def sentences(self, findings: Findings) -> list[str]:
        """One sentence per row, and one more where the comparison could not be paired."""
        return [*super().sentences(findings), *_for_all(findings)]

    def key_sentences(self, findings: Findings) -> list[str]:
        """All sentences where there are few; else how many differences are significant, and the smallest p."""
        every, rows = self.sentences(findings), list(findings.rows())
        if len(rows) <= FEW:
            return every
        bound = round(1 - confidence_level(findings), 12)
        p_values = ((read_number(row.get("p_adjusted")), i) for i, row in enumerate(rows))
        significant = sorted((p, i) for p, i in p_values if p < bound)
        rule = f"p below {short_percent(bound)} after Holm's adjustment"
        return [
            f"{len(significant):,} of {len(rows):,} numbers differ by more than chance ({rule}).",
            *(every[i] for _, i in significant[:MOST]),
            *_for_all(findings),
        ]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """Both values, their difference with its interval, and whether it is significant."""
        metric = row["metric"]
        show = value_format(metric)
        a_name, b_name = side_names(findings, row)
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
            why = first_reason(row["note"])
            return f"{lead}{name} cannot be compared{f': {why}' if why else ''}."
        if difference == 0:
            return f"{lead}{name} is the same in {a_name} and in {b_name}, {show(a)}."
        significance = ""
        if not math.isnan(p := read_number(row.get("p_adjusted"))):
            significance = ", more than chance gives" if p < round(1 - level, 12) else ", which chance may give too"
        sides = f"{show(a)} in {a_name} and {show(b)} in {b_name}"
        doubt = interval_and_p(row, level, show)
        return f"{lead}{name} is {sides}: a difference of {signed(difference, show)}{doubt}{significance}."


def _for_all(findings: Findings) -> list[str]:
    """Why there are no intervals, or that they are those of two samples."""
    notes = "; ".join(note or "" for note in findings.columns["note"])
    reasons = [text for code, text in (("unpaired", UNPAIRED), ("may_share_units", MAY_SHARE)) if code in notes]
    return reasons or ([SAMPLES] if findings.provenance.get("paired") is False else [])


def side_names(findings: Findings, row: Row) -> tuple[str, str]:
    """The names of the two that are compared: two systems, two files, or the arguments a and b."""
    if "versus" in findings.slices:
        return in_words(row["system"]), in_words(row["versus"])
    return str(findings.words.get("a", "a")), str(findings.words.get("b", "b"))


def interval_and_p(row: Row, level: float, show: Callable[[float], str]) -> str:
    """The interval of a difference and its p, in brackets."""
    size = percent_like(abs(read_number(row["estimate"]))) if show is percent else show
    parts = [interval_text(row["low"], row["high"], lambda v: signed(v, size), level=level)]
    if not math.isnan(p := read_number(row["p_adjusted"])):
        parts.append(f"adjusted p {p_text(p)}")
    text = "; ".join(filter(None, parts))
    return f" ({text})" if text else ""


SIGNIFICANT = 0.05
ALIKE = 0.5
"""Metrics with a tau-c of this size or more are said to agree."""


class AgreementSentences(SentenceWriter, audit="agreement"):
    """Which metrics order the systems alike, and whether chance alone gives as much."""

    def sentences(self, findings: Findings) -> list[str]:
        """One sentence for every two metrics, and what few systems can show."""
        rows = _unordered_pairs(findings)
        return [*(_pair(findings, row) for row in rows), *_few_systems(rows)]

    def key_sentences(self, findings: Findings) -> list[str]:
        """The most and the least alike, how many agree, and how many significantly."""
        rows = _unordered_pairs(findings)
        defined = [row for row in rows if not math.isnan(_tau(row))]
        if len(defined) <= 3:
            return self.sentences(findings)
        most, least = max(defined, key=_tau), min(defined, key=_tau)
        alike, opposed = (sum(sign * _tau(row) >= ALIKE for row in defined) for sign in (1, -1))
        significant = sum(float(row["p"]) < SIGNIFICANT for row in defined)
        lost = f" {len(rows) - len(defined):,} pairs cannot be compared." if len(defined) < len(rows) else ""
        return [
            f"{alike:,} of {len(defined):,} pairs of metrics order the systems alike (tau-c {ALIKE} or more), {opposed:,} the other "
            f"way round ({-ALIKE} or less); {significant:,} differ from chance at 5%, before any adjustment for so many pairs.{lost}",
            f"Most alike: {_pair(findings, most)}",
            f"Least alike: {_pair(findings, least)}",
            *_few_systems(rows),
        ]


def _unordered_pairs(findings: Findings) -> Sequence[Row]:
    """The first of the two rows of every pair of metrics: the frame has both orders."""
    pairs: dict[tuple[Any, ...], Row] = {}
    for row in findings.rows():
        where = tuple(row[s] for s in findings.slices)
        pairs.setdefault((where, frozenset((row["metric"], row["other"]))), row)
    return list(pairs.values())


def _tau(row: Row) -> float:
    return read_number(row["tau_c"])


def _pair(findings: Findings, row: Row) -> str:
    where = findings.slice_label(row)
    lead = f"For {where}: " if where else ""
    pair, tau = f"{row['metric']} and {row['other']}", _tau(row)
    if math.isnan(tau):
        return f"{lead}{pair} cannot be compared: {first_reason(row['note'])}."
    systems = int(row["systems"])
    if abs(tau) >= 1 - 1e-9:
        order = f"order all {systems} systems {'alike' if tau > 0 else 'the other way round'}"
    else:
        agree = "hardly agree" if abs(tau) < ALIKE else "mostly agree" if tau > 0 else "mostly disagree"
        order = f"{agree} on the order of {systems} systems"
    return f"{lead}{pair} {order} (tau-c {tau:.2f}, p {number(float(row['p']))})."


def _few_systems(rows: Sequence[Row]) -> list[str]:
    """The smallest p that this few systems allow, where no agreement can be significant."""
    fewest = min((int(row["systems"]) for row in rows if not math.isnan(_tau(row))), default=0)
    if fewest < 2 or 2 / math.factorial(fewest) <= SIGNIFICANT:
        return []
    least = number(2 / math.factorial(fewest))
    return [f"With {fewest} systems p cannot fall below {least}: here no agreement can be told from chance at 5%."]

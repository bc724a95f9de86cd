"""Sentences of an experiment: the effect at equal volume, the effect of volume alone, and cautions."""

from __future__ import annotations

import math
from typing import Any

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.words.phrases import metric_title, value_format
from evenhand.report.words.sentences import Row, SentenceWriter, SideTable, slice_lead
from evenhand.report.words.sentences_pairs import FEW, MOST, interval_and_p
from evenhand.report.words.text import (
    confidence_level,
    first_reason,
    number,
    plural,
    short_percent,
    signed,
    slice_names,
)

MISMATCH = 0.001
"""A split less likely than this is said not to fit its design."""

NEAR = 0.02
"""A volume ratio this close to 1 is not worth a word."""

NOTHING, UNITS, PLANNED = "nothing randomised", "units randomised", "planned"

CAUTIONS = (
    ("Arms act on each other", "Arms that draw on the same {units} or the same index interfere: supply reacts, budgets are "
     "shared. A test that splits {randomized} does not see that."),
    ("Novelty", "What is new is used differently at first. Look again once people are used to it."),
    ("Peeking", "p holds for one look, at a time fixed beforehand. Who looks every day watches a history instead (eh.history), "
     "whose alarm stands any number of looks."),
    ("Many metrics", "p_adjusted holds over all rows at once (Holm); a single p does not."),
)  # fmt: skip
NO_CAUSE = (
    "Nothing was randomised: this is what changed for the same {units}, whatever the reason, season, supply and demand "
    "included."
)


class ExperimentSentences(SentenceWriter, audit="experiment"):
    """Arms against control, or what a planned test would find."""

    def sentences(self, findings: Findings) -> list[str]:
        """One sentence per row, then those about all of them."""
        return [*super().sentences(findings), *_for_all(findings)]

    def key_sentences(self, findings: Findings) -> list[str]:
        """All sentences where there are few; else how many differences are significant, and the smallest p."""
        every, rows = self.sentences(findings), list(findings.rows())
        if len(rows) <= FEW or design(findings) == PLANNED:
            return every
        bound = round(1 - confidence_level(findings), 12)
        significant = sorted((p, i) for i, row in enumerate(rows) if (p := read_number(row["p_adjusted"])) < bound)
        rule = f"adjusted p below {short_percent(bound)}"
        first = f"{len(significant):,} of {len(rows):,} differences are more than chance gives ({rule})."
        return [first, *(every[i] for _, i in significant[:MOST]), *_for_all(findings)]

    def side_tables(self, findings: Findings) -> list[SideTable]:
        """Cautions for experiments that randomised something."""
        if design(findings) == NOTHING:
            return []
        words = _words(findings)
        rows = tuple((name, text.format(**words)) for name, text in CAUTIONS)
        return [SideTable("Before you act on it", ("caution", "why"), rows)]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """Both arms at equal volume, their difference with its interval, and whether it is significant."""
        if design(findings) == PLANNED:
            return _planned(findings, row)
        lead, name, show = _lead(findings, row), metric_title(row["metric"]), value_format(row["metric"])
        estimate, p = read_number(row["estimate"]), read_number(row["p_adjusted"])
        if math.isnan(estimate):
            return f"{lead}{name} cannot be compared: {first_reason(row['note'], 'undefined')}."
        treated, control = (show(read_number(row[k])) for k in ("treatment", "control_value"))
        at = "" if design(findings) in (NOTHING, UNITS) else " at equal volume"
        past = " after taking off what the time before explains" if findings.provenance.get("before") else ""
        significance = "" if math.isnan(p) else ", which chance may give too"
        if p < round(1 - level, 12):
            significance = f": {direction(row['better'], estimate)}, by more than chance gives"
        return (
            f"{lead}{name} is {treated} in {arm_name(findings, row['arm'])} and {control} in "
            f"{control_name(findings)}{at}: a difference of {signed(estimate, show)}{past}"
            f"{interval_and_p(row, level, show)}{significance}.{_volume(findings, row)}"
        )


def _volume(findings: Findings, row: Row) -> str:
    """The difference that unequal volume alone gives, and whether the change altered volume."""
    raw, chance, ratio = (read_number(row[k]) for k in ("raw", "chance", "volume_ratio"))
    show, words, text = value_format(row["metric"]), _words(findings), ""
    if not math.isnan(chance) and abs(chance) > abs(raw) / 20:
        unequal = f"numbers of {words['units']} alone give" if design(findings) == UNITS else "volume alone gives"
        text = f" As found the difference is {signed(raw, show)}; unequal {unequal} {signed(chance, show)}."
    if "volume_changed" in (row["note"] or "") and abs(ratio - 1) > NEAR:
        unit = words["randomized"].removesuffix("s")
        text += f" Volume per {unit} is {number(ratio)} times that of control, which moves inequality too."
    return text


def _planned(findings: Findings, row: Row) -> str:
    show, name = value_format(row["metric"]), f"{_lead(findings, row)}{metric_title(row['metric'])}"
    smallest, value = read_number(row["detectable"]), read_number(row["control_value"])
    if math.isnan(smallest):
        return f"{name} has no value on this log."
    share = short_percent(float(findings.provenance["shares"][str(row["arm"])]))
    power = short_percent(float(findings.provenance["power"]))
    return (
        f"{name} (now {show(value)}): with {share} of {_words(findings)['randomized']} in "
        f"{arm_name(findings, row['arm'])} and a log as long as this one, a difference of {signed(smallest, show).lstrip('+')} is found "
        f"in {power} of tests; smaller ones are mostly missed."
    )


def _for_all(findings: Findings) -> list[str]:
    """Whether the sizes of the arms fit the intended split, and that nothing was randomised."""
    lines = []
    if ratio := findings.provenance.get("sample_ratio"):
        sizes = ", ".join(f"{arm} {n:,}" for arm, n in ratio["found"].items())
        p = float(ratio["p"])
        warning = "" if p >= MISMATCH else ": find out why before reading any of the numbers"
        fits = "does not fit" if warning else "fits"
        lines.append(f"The split found ({sizes}) {fits} the one intended (p {number(p)}){warning}.")
    return [*lines, NO_CAUSE.format(**_words(findings))] if design(findings) == NOTHING else lines


def design(findings: Findings) -> str:
    """The design of the experiment: one of NOTHING, UNITS, PLANNED, or another."""
    return str(findings.provenance.get("design", ""))


def _words(findings: Findings) -> dict[str, str]:
    words = findings.words
    return {"units": plural(words.get("unit", "unit")), "randomized": plural(words.get("randomized") or "unit")}


def arm_name(findings: Findings, arm: Any) -> str:
    """The name of an arm; a bare number comes with the name of its column."""
    column = str((findings.provenance.get("plan") or {}).get("arm") or "arm")
    return slice_names((column,), {column: [arm]})[0]


def control_name(findings: Findings) -> str:
    """The name of the arm that the others are compared with."""
    return arm_name(findings, findings.words.get("control", "control"))


def _lead(findings: Findings, row: Row) -> str:
    return slice_lead(findings, row, without=("arm",))


def direction(better: str, estimate: float) -> str:
    """Which way a difference points.

    >>> direction("lower", -0.1), direction("higher", -0.1), direction("", 0.1)
    ('more even', 'less even', 'higher')
    """
    if better not in ("lower", "higher"):
        return "higher" if estimate > 0 else "lower"
    return "more even" if (estimate < 0) == (better == "lower") else "less even"

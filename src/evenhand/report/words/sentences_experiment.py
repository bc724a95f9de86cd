"""An experiment in words: what the change did at equal volume, what volume alone does, and what to be careful of."""

from __future__ import annotations

import math
from typing import Any

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.words.phrases import metric_title
from evenhand.report.words.sentences import Aside, Row, Teller
from evenhand.report.words.sentences_pairs import doubt, shown
from evenhand.report.words.text import REASONS, in_words, number, plural, short_percent, signed, slice_names

FEW = 8
MOST = 5
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


class ExperimentTeller(Teller, audit="experiment"):
    """Arms against control, or what a planned test would find."""

    def sentences(self, findings: Findings) -> list[str]:
        """One sentence per row, then what holds for all of them."""
        return [*super().sentences(findings), *_for_all(findings)]

    def headlines(self, findings: Findings) -> list[str]:
        """All sentences where there are few; elsewhere how many differ by more than chance, and the surest of them."""
        told, rows = self.sentences(findings), list(findings.rows())
        if len(rows) <= FEW or design(findings) == PLANNED:
            return told
        bound = round(1 - float(findings.provenance.get("level", 0.95)), 12)
        sure = sorted((p, i) for i, row in enumerate(rows) if (p := read_number(row["p_adjusted"])) < bound)
        rule = f"adjusted p below {short_percent(bound)}"
        first = f"{len(sure):,} of {len(rows):,} differences are more than chance gives ({rule})."
        return [first, *(told[i] for _, i in sure[:MOST]), *_for_all(findings)]

    def asides(self, findings: Findings) -> list[Aside]:
        """What experts warn of."""
        if design(findings) == NOTHING:
            return []
        words = _words(findings)
        rows = tuple((name, text.format(**words)) for name, text in CAUTIONS)
        return [Aside("Before you act on it", ("caution", "why"), rows)]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """Both arms at equal volume, how far apart they are, and whether chance alone would do it."""
        if design(findings) == PLANNED:
            return _planned(findings, row)
        name, show = metric_title(row["metric"]), shown(row["metric"])
        estimate, p = read_number(row["estimate"]), read_number(row["p_adjusted"])
        code = (row["note"] or "").split(";")[0].strip()
        if math.isnan(estimate):
            return f"{_where(findings, row)}{name} cannot be compared: {REASONS.get(code, code or 'undefined')}."
        mine, theirs = (show(read_number(row[k])) for k in ("treatment", "control_value"))
        at = "" if design(findings) in (NOTHING, UNITS) else " at equal volume"
        past = " after taking off what the time before explains" if findings.provenance.get("before") else ""
        verdict = ""
        if not math.isnan(p):
            sure = p < round(1 - level, 12)
            verdict = (
                f": {way(row['better'], estimate)}, by more than chance gives"
                if sure
                else ", which chance may give too"
            )
        return (
            f"{_where(findings, row)}{name} is {mine} in {in_arm(findings, row)} and {theirs} in "
            f"{in_control(findings)}{at}: a difference of {signed(estimate, show)}{past}"
            f"{doubt(row, level, show)}{verdict}.{_volume(findings, row, show)}"
        )


def _volume(findings: Findings, row: Row, show: Any) -> str:
    """What unequal volume alone gives, and whether the change altered volume."""
    raw, chance, ratio = (read_number(row[k]) for k in ("raw", "chance", "volume_ratio"))
    said = ""
    if not math.isnan(chance) and abs(chance) > abs(raw) / 20:
        few = f"unequal numbers of {_words(findings)['units']} alone give"
        what = few if design(findings) == UNITS else "unequal volume alone gives"
        said = f" As found the difference is {signed(raw, show)}; {what} {signed(chance, show)}."
    if "volume_changed" in (row["note"] or "") and abs(ratio - 1) > NEAR:
        one = _words(findings)["randomized"].removesuffix("s")
        said += f" Volume per {one} is {number(ratio)} times that of control, which moves inequality too."
    return said


def _planned(findings: Findings, row: Row) -> str:
    show, name = shown(row["metric"]), metric_title(row["metric"])
    smallest, value = read_number(row["detectable"]), read_number(row["control_value"])
    if math.isnan(smallest):
        return f"{_where(findings, row)}{name} has no value on this log."
    share = short_percent(float(findings.provenance["shares"][str(row["arm"])]))
    power = short_percent(float(findings.provenance["power"]))
    return (
        f"{_where(findings, row)}{name} (now {show(value)}): with {share} of {_words(findings)['randomized']} in "
        f"{in_arm(findings, row)} and a log as long as this one, a difference of {signed(smallest, show).lstrip('+')} is found "
        f"in {power} of tests; smaller ones are mostly missed."
    )


def _for_all(findings: Findings) -> list[str]:
    """The split beside its design, and that nothing was randomised."""
    said = []
    if ratio := findings.provenance.get("sample_ratio"):
        found = ", ".join(f"{arm} {n:,}" for arm, n in ratio["found"].items())
        p = float(ratio["p"])
        fits, what = (
            ("fits", "") if p >= MISMATCH else ("does not fit", ": find out why before reading any of the numbers")
        )
        said.append(f"The split found ({found}) {fits} the one intended (p {number(p)}){what}.")
    return [*said, NO_CAUSE.format(**_words(findings))] if design(findings) == NOTHING else said


def design(findings: Findings) -> str:
    """What was randomised."""
    return str(findings.provenance.get("design", ""))


def _words(findings: Findings) -> dict[str, str]:
    words = findings.words
    return {"units": plural(words.get("unit", "unit")), "randomized": plural(words.get("randomized") or "unit")}


def in_arm(findings: Findings, row: Row) -> str:
    """What an arm is called; a bare number with its column."""
    return _called(findings, row["arm"])


def in_control(findings: Findings) -> str:
    """What the arm is called that the others are compared with."""
    return _called(findings, findings.words.get("control", "control"))


def _called(findings: Findings, arm: Any) -> str:
    column = str((findings.provenance.get("plan") or {}).get("arm") or "arm")
    return slice_names((column,), {column: [arm]})[0]


def _where(findings: Findings, row: Row) -> str:
    named = [f"{name} {in_words(row[name])}" for name in findings.slices if name != "arm"]
    return f"For {', '.join(named)}: " if named else ""


def way(better: str, estimate: float) -> str:
    """Which way a difference points.

    >>> way("lower", -0.1), way("higher", -0.1), way("", 0.1)
    ('more even', 'less even', 'higher')
    """
    if better not in ("lower", "higher"):
        return "higher" if estimate > 0 else "lower"
    return "more even" if (estimate < 0) == (better == "lower") else "less even"

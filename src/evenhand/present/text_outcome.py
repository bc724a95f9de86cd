"""The outcome test in plain words: who is held to a higher bar, what else was looked at, and what the test cannot say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.present.text import REASONS, interval_words, number, short_percent
from evenhand.present.text import sentence as by_card

Row = Mapping[str, Any]
UNCERTAIN = "this cannot be told from no gap"
ALONE = "beyond chance on its own, but not once all the gaps that were tested are counted"


@dataclass(frozen=True, slots=True)
class Aside:
    """A table beside the findings that helps to act on them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    says: tuple[str, ...] = ()


def sentences(findings: Findings) -> list[str]:
    """One sentence per row of the frame."""
    level = float(findings.provenance.get("level", 0.95))
    return [sentence(findings, row, level) for row in findings.rows()]


def headlines(findings: Findings) -> list[str]:
    """The answer: the test that decides, the gap of each group, and whether outcomes rise with the score."""
    level = float(findings.provenance.get("level", 0.95))
    decisive = "marginal_test" if "marginal_test" in findings.columns["metric"] else "joint_test"
    reference = findings.words.get("reference")
    wanted = [
        row
        for row in findings.rows()
        if row["metric"] == decisive
        or (row["metric"] == "pooled_gap" and row["group"] != reference)
        or (row["metric"] == "lowest_bin" and row["note"])
    ]
    return [sentence(findings, row, level) for row in wanted]


def sentence(findings: Findings, row: Row, level: float) -> str:
    """What one row says."""
    name = str(row["metric"]).partition("(")[0]
    if _absent(row["estimate"]) and name not in ("joint_test", "marginal_test", "bin_test"):
        code = (row["note"] or "undefined").split(";")[0].strip()
        return f"{_lead(findings, row)}{name.replace('_', ' ')} is undefined: {REASONS.get(code, code)}."
    said = _TELL[name](findings, row, level) if name in _TELL else by_card(findings, row, level)
    thin = "small_cell" in (row["note"] or "") and not name.endswith("_test")
    return said + (" Too few rows or events for the error to be trusted." if thin else "")


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _lead(findings: Findings, row: Row) -> str:
    where = f"In bin {int(row['bin'])}" if not _absent(row["bin"]) else ""
    group = f" for {row['group']}" if row["group"] else ""
    lead = f"{where}{group}".lstrip()
    return f"{lead[0].upper()}{lead[1:]}: " if lead else ""


def _chance(p: Any) -> str:
    p = read_number(p)
    return "p below 0.0001" if p < 1e-4 else f"p = {p:.4f}".rstrip("0")


def _test(findings: Findings, row: Row, level: float) -> str:
    where = {"marginal_test": "right above the threshold", "bin_test": f"in bin {_bin(row)}"}.get(row["metric"], "")
    other = f", with {row['metric'].partition('=')[2][:-1]} bins" if "(" in row["metric"] else ""
    at = f"At equal score {where}".rstrip() + other
    support = ""
    if "narrow_support" in (row["note"] or ""):
        support = " Less than half of the rows have a score that every group reaches; the others were left out."
    if _absent(row["p"]):
        code = (row["note"] or "undefined").split(";")[0].strip()
        return f"{at}, nothing can be tested: {REASONS.get(code, code)}.{support}"
    if read_number(row["p"]) < 1 - level:
        return f"{at}, the groups' outcomes differ ({_chance(row['p'])}).{support}"
    return (
        f"{at}, no difference between the groups' outcomes was found ({_chance(row['p'])}). "
        f"That is no proof of none.{support}"
    )


def _bin(row: Row) -> str:
    return "" if _absent(row["bin"]) else str(int(row["bin"]))


def _gap(findings: Findings, row: Row, level: float) -> str:
    """A gap, its direction in words, and what a gap that cannot be told from zero might still hide."""
    reference = findings.words.get("reference", "the reference")
    if row["group"] == reference:
        return f"{reference} is the group that the others are compared with."
    side = "higher" if row["estimate"] > 0 else "lower"
    found = (
        f"{_where(row)}, outcomes of {row['group']} are {number(abs(row['estimate']))} {side} than those of {reference} "
        f"at equal score{interval_words(row, level, False)}"
    )
    if _absent(row["low"]) or _absent(row["high"]) or "small_cell" in (row["note"] or ""):
        return f"{found}."
    if row["low"] <= 0 <= row["high"]:
        seen = row.get("detectable")
        hidden = "" if _absent(seen) else f"; only a gap of {number(read_number(seen))} or more was likely to be found"
        return f"{found}: {UNCERTAIN}{hidden}."
    if not read_number(row["p_adjusted"]) < 1 - level:
        return f"{found}: {ALONE}."
    judged = "under-rates" if row["estimate"] > 0 else "over-rates"
    return f"{found}: the score {judged} {row['group']}."


def _where(row: Row) -> str:
    name, _, rest = str(row["metric"]).partition("(")
    if name == "outcome_gap":
        return f"In bin {_bin(row)} ({number(row['bin_low'])} to {number(row['bin_high'])})"
    if name == "spline_gap":
        return "With the score as a spline over its whole range"
    return f"With {rest[5:-1]} bins" if rest else "Over all bins"


def _mean(findings: Findings, row: Row, level: float) -> str:
    mean = f"{number(row['estimate'])}{interval_words(row, level, False)}"
    return f"In bin {_bin(row)}, the mean outcome of {row['group']} is {mean}."


def _lowest(findings: Findings, row: Row, level: float) -> str:
    if row["estimate"] == 1:
        return "The lowest outcomes are those of the lowest scores, as they should be."
    return (
        f"The lowest outcomes are in bin {int(row['estimate'])} and not in the first: outcomes do not rise with the score, "
        "which is a fault of the scoring beyond fairness."
    )


def _precision(findings: Findings, row: Row, level: float) -> str:
    return (
        f"Over everybody whose outcome was seen, the mean outcome of {row['group']} is {number(row['estimate'])} (precision); "
        "this mixes the bar with how qualified the group is above it."
    )


def _calibration(findings: Findings, row: Row, level: float) -> str:
    side = "above" if row["estimate"] >= 0 else "below"
    return (
        f"Outcomes of {row['group']} lie {number(abs(row['estimate']))} {side} their scores on average (calibration); "
        "errors at low and high scores can cancel in this, and it says nothing about any bar."
    )


def _odds(findings: Findings, row: Row, level: float) -> str:
    reference = findings.words.get("reference", "the reference")
    if row["group"] == reference:
        return f"{reference} is the group whose scores, given the outcome, the others' are compared with."
    return (
        f"Given the outcome, the share of {row['group']} in a score bin differs from that of {reference} by up to "
        f"{number(row['estimate'])} (equalised odds); this mixes scoring with how qualified the groups are."
    )


_TELL: dict[str, Callable[[Findings, Row, float], str]] = {
    "joint_test": _test,
    "marginal_test": _test,
    "bin_test": _test,
    "outcome_gap": _gap,
    "pooled_gap": _gap,
    "spline_gap": _gap,
    "mean_outcome": _mean,
    "lowest_bin": _lowest,
    "precision": _precision,
    "calibration_gap": _calibration,
    "equalized_odds_gap": _odds,
}


def asides(findings: Findings) -> list[Aside]:
    """What to do about a finding, by its source (section 5.1 of the source), and what the test cannot say."""
    level = short_percent(float(findings.provenance.get("level", 0.95)))
    remedy = Aside(
        "Who can fix what",
        ("source of the bias", "change the scores", "change the product"),
        (
            (
                "The algorithm: it under-rates a group's outcomes against another's (what this test looks for)",
                "Works: correct the scores, and other candidates are shown",
                "Does not work: no message or layout changes what the algorithm scores",
            ),
            (
                "People: candidates hold themselves back, or those who decide prefer a group (this test is silent on it)",
                "Does not work: showing other candidates changes neither self-doubt nor taste",
                "Works: give more relevant information, such as where a candidate stands among the applicants",
            ),
        ),
        ("A gap found here belongs to the team that owns the scores; a bias of people does not.",),
    )
    cannot = tuple((line,) for line in findings.provenance.get("cannot_say", ()))
    limits = Aside(
        "What this test cannot say",
        ("limit",),
        cannot,
        (f"Intervals and tests hold their {level} only if rows, or clusters, are independent.",),
    )
    return [remedy, limits]

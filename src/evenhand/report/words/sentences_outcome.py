"""The outcome test and its counterfactual in plain words: who is held to a higher bar, who would gain, and what neither can say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from evenhand.findings import Findings, slice_words
from evenhand.findings import number as read_number
from evenhand.report.words.sentences import Aside, Row, Teller
from evenhand.report.words.text import REASONS, counted, in_words, interval_words, number, percent, short_percent

UNCERTAIN = "this cannot be told from no gap"
ALONE = "beyond chance on its own, but not once all the gaps that were tested are counted"


def _slice(findings: Findings, row: Row, said: str) -> str:
    """A sentence about one slice names it first."""
    where = ", ".join(f"{name} {in_words(row[name])}" for name in findings.slices)
    return f"For {where}: {said}" if where else said


def _absent(value: Any) -> bool:
    return math.isnan(read_number(value))


def _why(row: Row) -> str:
    code = (row["note"] or "undefined").split(";")[0].strip()
    return REASONS.get(code, code)


def _lead(row: Row) -> str:
    where = f"In bin {int(row['bin'])}" if not _absent(row["bin"]) else ""
    group = f" for {row['group']}" if row["group"] else ""
    lead = f"{where}{group}".lstrip()
    return f"{lead[0].upper()}{lead[1:]}: " if lead else ""


def _chance(p: Any) -> str:
    p = read_number(p)
    return "p below 0.0001" if p < 1e-4 else f"p = {p:.4f}".rstrip("0")


def _test(findings: Findings, row: Row, level: float) -> str:
    where = {"marginal_test": "right above the threshold", "bin_test": f"in bin {_bin(row)}"}.get(row["metric"], "")
    other = f", with {counted(int(row['metric'].partition('=')[2][:-1]), 'bin')}" if "(" in row["metric"] else ""
    at = f"At equal score {where}".rstrip() + other
    support = ""
    if "narrow_support" in (row["note"] or ""):
        support = " Less than half of the rows have a score that every group reaches; the others were left out."
    if _absent(row["p"]):
        return f"{at}, nothing can be tested: {_why(row)}.{support}"
    if read_number(row["p"]) < 1 - level:
        return f"{at}, the groups' outcomes differ ({_chance(row['p'])}).{support}"
    return (
        f"{at}, no difference between the groups' outcomes was found ({_chance(row['p'])}). "
        f"That is no proof of none.{support}"
    )


def _bin(row: Row) -> str:
    return "" if _absent(row["bin"]) else str(int(row["bin"]))


def gap_size(findings: Findings, value: float, *, few: bool = False) -> str:
    """A gap without its unit: of outcomes that are 0 or 1 in percentage points; `few` digits where people repeat it."""
    if findings.provenance.get("outcomes"):
        return f"{100 * value:.{1 if few else 2}f}" if abs(value) >= 5e-5 or not value else f"{100 * value:.1g}"
    return f"{value:.2f}" if few and 0.01 <= abs(value) < 100 else number(value)


def gap_text(findings: Findings, value: float, *, few: bool = False) -> str:
    """A gap with its unit.

    >>> gap_text(Findings("", "", (), {}, provenance={"outcomes": "0 or 1"}), 0.0673), gap_text(Findings("", "", (), {}), 0.0673)
    ('6.73 percentage points', '0.0673')
    """
    return gap_size(findings, value, few=few) + (" percentage points" if findings.provenance.get("outcomes") else "")


def _interval(findings: Findings, row: Row, level: float) -> str:
    if _absent(row["low"]) or _absent(row["high"]):
        return ""
    ends = (gap_size(findings, row[end]) for end in ("low", "high"))
    return f" ({short_percent(level)} interval {' to '.join(ends)})"


def _gap(findings: Findings, row: Row, level: float) -> str:
    """A gap, its direction in words, and what a gap that cannot be told from zero might still hide."""
    reference = findings.words.get("reference", "the reference")
    if row["group"] == reference:
        return f"{reference} is the group that the others are compared with."
    side = "higher" if row["estimate"] > 0 else "lower"
    found = (
        f"{_where(row)}, outcomes of {row['group']} are {gap_text(findings, abs(row['estimate']))} {side} than those of {reference} "
        f"at equal score{_interval(findings, row, level)}"
    )
    if _absent(row["low"]) or _absent(row["high"]) or "small_cell" in (row["note"] or ""):
        return f"{found}."
    if row["low"] <= 0 <= row["high"]:
        seen = row.get("detectable")
        least = "" if _absent(seen) else gap_text(findings, read_number(seen))
        hidden = f"; only a gap of {least} or more was likely to be found" if least else ""
        return f"{found}: {UNCERTAIN}{hidden}."
    if not read_number(row["p_adjusted"]) < 1 - level:
        return f"{found}: {ALONE}."
    judged = "under-rates" if row["estimate"] > 0 else "over-rates"
    return f"{found}: the score {judged} {row['group']}."


def _where(row: Row) -> str:
    name, _, rest = str(row["metric"]).partition("(")
    if name == "outcome_gap":
        return f"In bin {_bin(row)} ({number(row['bin_low'])} to {number(row['bin_high'])})"
    if rest == "support='all')":
        return "Over all scores, also those that not every group reaches"
    if name == "spline_gap":
        return "With the score as a spline over its whole range"
    if "bins_missing" in (row["note"] or ""):
        part = read_number(row.get("share_used"))
        rows = "all" if part == 1 else percent(part)
        which = f"the bins (of {rest[5:-1]})" if rest else "the bins"
        return f"Over {which} that hold both groups, {rows} of the rows of {row['group']}"
    return f"With {counted(int(rest[5:-1]), 'bin')}" if rest else "Over all bins"


def _lowest(findings: Findings, row: Row, level: float) -> str:
    if row["estimate"] == 1:
        return "The lowest outcomes are those of the lowest scores, as they should be."
    return (
        f"The lowest outcomes are in bin {int(row['estimate'])} and not in the first: outcomes do not rise with the score, "
        "which is a fault of the scoring beyond fairness."
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
    chance = read_number(row.get("chance"))
    alone = "" if math.isnan(chance) else f", where dealing the labels at random would give {number(chance)}"
    among, name = _AMONG[str(row["metric"])]
    return (
        f"Among those {among}, the shares of {row['group']} and of {reference} below a score differ by up to "
        f"{number(row['estimate'])}{interval_words(row, level)}{alone} ({name}); this mixes scoring with how qualified the "
        "groups are."
    )


_AMONG = {
    "equalized_odds_gap": ("with the same outcome", "equalised odds"),
    "equal_opportunity_gap": ("with a good outcome", "equal opportunity"),
}


def _rate(findings: Findings, row: Row, level: float) -> str:
    reference = findings.words.get("reference", "the reference")
    if row["group"] == reference:
        return f"{reference} is the group that the others' rates are compared with."
    whom = "have the outcome" if str(row["metric"]).startswith("true") else "do not have the outcome"
    side = "more" if row["estimate"] > 0 else "less"
    return (
        f"Of those who {whom}, {row['group']} are treated {side} often than {reference}, by "
        f"{number(abs(row['estimate']))}{_turned(row, level)} ({str(row['metric']).replace('_', ' ')})."
    )


def _turned(row: Row, level: float) -> str:
    """The interval of a difference that is told without its sign."""
    low, high = (row["low"], row["high"]) if row["estimate"] > 0 else (-row["high"], -row["low"])
    return interval_words({**row, "low": low, "high": high}, level)


_TELL: dict[str, Callable[[Findings, Row, float], str]] = {
    "joint_test": _test,
    "marginal_test": _test,
    "bin_test": _test,
    "outcome_gap": _gap,
    "pooled_gap": _gap,
    "spline_gap": _gap,
    "lowest_bin": _lowest,
    "calibration_gap": _calibration,
    "equalized_odds_gap": _odds,
    "equal_opportunity_gap": _odds,
    "true_positive_rate_gap": _rate,
    "false_positive_rate_gap": _rate,
}


_THIN = {
    "small_cell": " Too few rows or events for the error to be trusted.",
    "few_outcomes": " There are too few outcomes of one kind for a test or an interval.",
    "no_variation": " Its outcomes do not vary, so there is no interval.",
    "constant_input": " Outcomes do not vary, so nothing can be tested.",
    "permuted_labels": " Rows or outcomes are so few that this was tested by dealing the labels again within bins.",
}


class OutcomeTeller(Teller, audit="outcome_test"):
    """Gaps with their direction and what they might hide, tests, and whether outcomes rise with the score."""

    def headlines(self, findings: Findings) -> list[str]:
        """The answer: the test that decides, the gap of each group, and whether outcomes rise with the score."""
        level = float(findings.provenance.get("level", 0.95))
        decisive = "marginal_test" if "marginal_test" in findings.columns["metric"] else "joint_test"
        reference = findings.words.get("reference")
        wanted = [
            row
            for row in findings.rows()
            if row["metric"] == decisive
            or (row["metric"] == "pooled_gap" and row["group"] != reference)
            or (row["metric"] == "lowest_bin" and "not_rising" in (row["note"] or ""))
        ]
        return [self.sentence(findings, row, level) for row in wanted]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """What one row says; by its card or phrase where there is no more to say."""
        name = str(row["metric"]).partition("(")[0]
        if _absent(row["estimate"]) and name not in ("joint_test", "marginal_test", "bin_test"):
            return _slice(findings, row, f"{_lead(row)}{name.replace('_', ' ')} is undefined: {_why(row)}.")
        if name not in _TELL:
            return super().sentence(findings, row, level)
        said = _slice(findings, row, _TELL[name](findings, row, level))
        if name.endswith("_test") or row["group"] == findings.words.get("reference", ""):
            return said
        return said + "".join(more for code, more in _THIN.items() if code in (row["note"] or "").split("; "))

    def asides(self, findings: Findings) -> list[Aside]:
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
            (_found(findings), "A gap found here belongs to the team that owns the scores; a bias of people does not."),
        )
        cannot = tuple((line,) for line in findings.provenance.get("cannot_say", ()))
        limits = Aside(
            "What this test cannot say",
            ("limit",),
            cannot,
            (f"Intervals and tests hold their {level} only if rows, or clusters, are independent.",),
        )
        return [remedy, limits]


def _found(findings: Findings) -> str:
    """What the test says of the first source of bias, group by group; the second it cannot see."""
    table = findings.curves.get("remedies", {})
    columns = [table.get(name, ()) for name in (*findings.slices, "group", "source", "found")]
    told: dict[str, list[str]] = {}
    for *where, group, source, found in zip(*columns, strict=True):
        if source == "algorithm":
            at = slice_words(findings.slices, where, whole="")
            told.setdefault(found, []).append(f"{group} ({at})" if at else str(group))
    said = "; ".join(f"{found} for {', '.join(groups)}" for found, groups in told.items())
    return f"Here, bias of the algorithm was {said}." if said else "Here nothing could be tested."


class CounterfactualTeller(Teller, audit="counterfactual"):
    """A change always with what chance alone would give, which is another row."""

    def headlines(self, findings: Findings) -> list[str]:
        """The change of the outcome against chance, and the slots that each group would gain."""
        wanted = ("outcome_relative_change", "slots_gained", "mean_rank_change")
        chosen = wanted if findings.provenance.get("kind") == "ranking" else wanted[:2]
        return [self.sentence(findings, row, 0.0) for row in findings.rows() if row["metric"] in chosen]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """What one row says; by its card or phrase where there is no more to say."""
        name, value = row["metric"], read_number(row["estimate"])
        group = row["group"] or ""
        whose = f" of {group}" if group else ""
        if math.isnan(value):
            return _slice(findings, row, f"{name.replace('_', ' ')}{whose} is undefined: {_why(row)}.")
        if name.endswith("_null"):
            show = percent if name.startswith("outcome") else number
            what = name.removesuffix("_null").replace("_", " ")
            band = f"between {show(row['low'])} and {show(row['high'])}"
            return _slice(findings, row, f"By chance alone the {what}{whose} would lie {band}.")
        if name == "outcome_relative_change":
            return _slice(findings, row, _outcome(findings, row))
        if name == "slots_relative_change":
            return _slice(findings, row, f"The slots of {group} would change by {percent(value)}.")
        if name in ("slots_gained", "mean_rank_change"):
            return _slice(findings, row, _moved(findings, row))
        return super().sentence(findings, row, level)

    def asides(self, findings: Findings) -> list[Aside]:
        """How the thought experiment was made, and what it cannot promise."""
        facts = findings.provenance
        names = ("compared_with", "predicted", "folds", "window", "null", "band")
        rows = tuple((name.replace("_", " "), str(facts[name])) for name in names if name in facts)
        limits = (
            "Outcomes of candidates who were never shown are predicted, not seen; further from the threshold the less surely.",
            "More of the outcome is taken for better. Where it is a harm, such as an arrest, the slots go to those of whom most of "
            "it is expected.",
            "Outcomes are taken as people made and recorded them; their bias, if any, is in the predictions too.",
            "Of groups with few slots little can be told (small_cell), and nothing of groups whose outcomes nobody saw.",
            "A group that gains slots may see its mean rank fall: the new members enter at the last places.",
            "Who is shown changes what people do; nothing of that is in these numbers.",
        )
        return [
            Aside("How the slots were given again", ("step", "rule"), rows),
            Aside("What this cannot promise", ("limit",), tuple((line,) for line in limits)),
        ]


def _band(findings: Findings, row: Row) -> Row | None:
    wanted, same = f"{row['metric']}_null", ("group", *findings.slices)
    return next((r for r in findings.rows() if r["metric"] == wanted and all(r[k] == row[k] for k in same)), None)


def beyond_chance(findings: Findings, row: Row) -> bool:
    """Whether a change lies outside the band that chance alone gives."""
    band = _band(findings, row)
    return band is not None and not _absent(band["low"]) and not band["low"] <= row["estimate"] <= band["high"]


def _outcome(findings: Findings, row: Row) -> str:
    value, band = read_number(row["estimate"]), _band(findings, row)
    change = f"With the slots given again the outcome would change by {percent(value)}"
    if findings.provenance.get("counterfactual", {}).get("folds") == 1:
        change += " (predicted and valued with the same rows, so it cannot be below zero)"
    facts = findings.provenance
    own = facts.get("slices", {}).get(slice_words(findings.slices, [row[n] for n in findings.slices]), facts)
    if own.get("candidates") == own.get("slots"):
        return f"{change}, for there is nobody without a slot whom it could go to (only the order can change)."
    if band is None or _absent(band["low"]):
        return f"{change}; without a band of changes by chance this says little."
    chance = f"without any group difference chance alone gives {percent(band['low'])} to {percent(band['high'])}"
    if value > max(band["high"], 0):
        return f"{change}; {chance}, so this is a rise beyond chance."
    if value > band["high"]:
        return f"{change}; {chance}: to know the groups helps beyond chance, but not enough for a rise."
    return f"{change}; {chance}, so no rise can be told."


def _moved(findings: Findings, row: Row) -> str:
    value, band, group = read_number(row["estimate"]), _band(findings, row), row["group"]
    if row["metric"] == "slots_gained":
        said = f"{group} would {'gain' if value >= 0 else 'lose'} {number(abs(value))} slot{'' if abs(value) == 1 else 's'}"
    else:
        way = "further down" if value > 0 else "further up"
        said = f"The mean rank of {group} would be {number(abs(value))} places {way}, over other candidates than before"
    if band is None or _absent(band["low"]):
        return f"{said}."
    if "small_cell" in (row["note"] or ""):
        said += f" ({number(row['units'])} slots before, too few to build on)"
    inside = not beyond_chance(findings, row)
    chance = f"chance alone gives {number(band['low'])} to {number(band['high'])}"
    return f"{said}; {chance}, so this {'can be chance' if inside else 'is more than chance'}."

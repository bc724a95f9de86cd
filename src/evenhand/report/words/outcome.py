"""Sentences of the outcome test and its counterfactual: gaps at equal score, who would gain, and the limits of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from evenhand.findings import Findings, slice_words
from evenhand.findings import number as read_number
from evenhand.report.words.headlines import Headline, headline, interval, is_finite
from evenhand.report.words.intervals import interval_in_brackets, interval_text
from evenhand.report.words.labels import Row, confidence_level, slice_lead, word
from evenhand.report.words.sentences import SentenceWriter, SideTable
from evenhand.report.words.text import (
    capitalized,
    counted,
    first_reason,
    note_codes,
    number,
    p_text,
    percent,
    short_percent,
)


def _absent(value: Any) -> bool:
    return math.isnan(read_number(value))


def _reference(findings: Findings) -> str:
    return findings.words.get("reference", "the reference")


def gap_size(findings: Findings, value: float, *, few: bool = False) -> str:
    """A gap without its unit, which is percentage points for outcomes of 0 and 1; `few` digits for a headline."""
    if findings.provenance.get("outcomes"):
        return f"{100 * value:.{1 if few else 2}f}" if abs(value) >= 5e-5 or not value else f"{100 * value:.1g}"
    return f"{value:.2f}" if few and 0.01 <= abs(value) < 100 else number(value)


def gap_text(findings: Findings, value: float, *, few: bool = False, unit: str = "percentage points") -> str:
    """A gap with its unit.

    >>> gap_text(Findings("", "", (), {}, provenance={"outcomes": "0 or 1"}), 0.0673), gap_text(Findings("", "", (), {}), 0.0673)
    ('6.73 percentage points', '0.0673')
    """
    return gap_size(findings, value, few=few) + (f" {unit}" if findings.provenance.get("outcomes") else "")


def _power(findings: Findings, gap: float) -> str:
    return f"the test had 80% power for gaps of {gap_text(findings, gap, few=True, unit='points')} or more"


def _test(findings: Findings, row: Row, level: float) -> str:
    where = {"marginal_test": "right above the threshold", "bin_test": f"in bin {_bin(row)}"}.get(row["metric"], "")
    other = f", with {counted(int(row['metric'].partition('=')[2][:-1]), 'bin')}" if "(" in row["metric"] else ""
    at = f"At equal score {where}".rstrip() + other
    support = ""
    if "narrow_support" in (row["note"] or ""):
        support = " Less than half of the rows have a score that occurs in every group; the others are excluded."
    p = read_number(row["p"])
    if math.isnan(p):
        return f"{at}, nothing can be tested: {first_reason(row['note'], 'undefined')}.{support}"
    if p < 1 - level:
        return f"{at}, the groups' outcomes differ ({p_text(p)}).{support}"
    return f"{at}, no significant difference between the groups' outcomes ({p_text(p)}), which does not prove equality.{support}"


def _bin(row: Row) -> str:
    return "" if _absent(row["bin"]) else str(int(row["bin"]))


def _gap(findings: Findings, row: Row, level: float) -> str:
    """A gap, its direction in words, and the detectable gap where it is not significant."""
    reference = _reference(findings)
    if row["group"] == reference:
        return f"{reference} is the reference group."
    side, rated = ("higher", "under-rates") if row["estimate"] > 0 else ("lower", "over-rates")
    ends = interval_in_brackets(row, level, lambda v: gap_size(findings, v))
    gap = (
        f"{_compared_rows(row)}, outcomes of {row['group']} are {gap_text(findings, abs(row['estimate']))} {side} than those of "
        f"{reference} at equal score{ends}"
    )
    if not ends or "small_cell" in (row["note"] or ""):
        return f"{gap}."
    if row["low"] <= 0 <= row["high"]:
        least = read_number(row.get("detectable"))
        return f"{gap}. No significant gap{'' if math.isnan(least) else f'; {_power(findings, least)}'}."
    if not read_number(row["p_adjusted"]) < 1 - level:
        return f"{gap}: significant on its own, but not after adjusting for all gaps tested."
    return f"{gap}: the score {rated} {row['group']}."


def _compared_rows(row: Row) -> str:
    """The bins, or the range of scores, that a gap is about."""
    name, _, rest = str(row["metric"]).partition("(")
    if name == "outcome_gap":
        return f"In bin {_bin(row)} ({number(row['bin_low'])} to {number(row['bin_high'])})"
    if rest == "support='all')":
        return "Over all scores, including those that do not occur in every group"
    if name == "spline_gap":
        return "With a spline of the score"
    if "bins_missing" in (row["note"] or ""):
        part = read_number(row.get("share_used"))
        rows = "all" if part == 1 else percent(part)
        which = f"the bins (of {rest[5:-1]})" if rest else "the bins"
        return f"Over {which} that have both groups ({rows} of the rows of {row['group']})"
    return f"With {counted(int(rest[5:-1]), 'bin')}" if rest else "Over all bins"


def _lowest(findings: Findings, row: Row, level: float) -> str:
    if row["estimate"] == 1:
        return "The lowest outcomes are at the lowest scores, as they should be."
    return (
        f"The lowest outcomes are in bin {int(row['estimate'])}, not in the first: outcomes do not rise with the score, which is a "
        "problem of the scoring beyond fairness."
    )


def _calibration(findings: Findings, row: Row, level: float) -> str:
    side = "above" if row["estimate"] >= 0 else "below"
    return (
        f"Outcomes of {row['group']} are {number(abs(row['estimate']))} {side} their scores on average (calibration). Errors at low "
        "and high scores can cancel out, and this says nothing about a threshold."
    )


_AMONG = {
    "equalized_odds_gap": ("with the same outcome", "equalised odds"),
    "equal_opportunity_gap": ("with a good outcome", "equal opportunity"),
}


def _odds(findings: Findings, row: Row, level: float) -> str:
    reference = _reference(findings)
    if row["group"] == reference:
        return f"{reference} is the reference group for scores given the outcome."
    chance = read_number(row.get("chance"))
    by_chance = "" if math.isnan(chance) else f", {number(chance)} expected by chance"
    among, name = _AMONG[str(row["metric"])]
    return (
        f"Among those {among}, the score distributions of {row['group']} and {reference} differ by up to "
        f"{number(row['estimate'])}{interval_in_brackets(row, level)}{by_chance} ({name}). This mixes the scoring with how qualified "
        "the groups are."
    )


def _rate(findings: Findings, row: Row, level: float) -> str:
    reference = _reference(findings)
    if row["group"] == reference:
        return f"{reference} is the reference group for treatment rates."
    have = "with the outcome" if str(row["metric"]).startswith("true") else "without the outcome"
    side, low, high = ("more", row["low"], row["high"]) if row["estimate"] > 0 else ("less", -row["high"], -row["low"])
    ends = interval_in_brackets({"low": low, "high": high}, level)  # of the difference without its sign
    return (
        f"Among those {have}, {row['group']} are treated {side} often than {reference}, by "
        f"{number(abs(row['estimate']))}{ends} ({str(row['metric']).replace('_', ' ')})."
    )


_SENTENCES: dict[str, Callable[[Findings, Row, float], str]] = {
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


_FEW_ROWS = {
    "small_cell": " Too few rows or events for a reliable interval.",
    "few_outcomes": " Too few outcomes of one kind for a test or an interval.",
    "no_variation": " Its outcomes do not vary, so there is no interval.",
    "constant_input": " Outcomes do not vary, so nothing can be tested.",
    "permuted_labels": " Rows or outcomes are few, so p comes from permuting the labels within bins.",
}


class OutcomeSentences(SentenceWriter, audit="outcome_test"):
    """Gaps with their direction and the power to detect them, tests, and whether outcomes rise with the score."""

    def key_sentences(self, findings: Findings) -> list[str]:
        """The deciding test, the gap of each group, and whether outcomes rise with the score."""
        level = confidence_level(findings)
        decisive = "marginal_test" if "marginal_test" in findings.columns["metric"] else "joint_test"
        reference = findings.words.get("reference")
        return [
            self.sentence(findings, row, level)
            for row in findings.rows()
            if row["metric"] == decisive
            or (row["metric"] == "pooled_gap" and row["group"] != reference)
            or (row["metric"] == "lowest_bin" and "not_rising" in (row["note"] or ""))
        ]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """One row as a sentence; by its card or phrase where it has no other one here."""
        name, lead = str(row["metric"]).partition("(")[0], slice_lead(findings, row)
        if _absent(row["estimate"]) and name not in ("joint_test", "marginal_test", "bin_test"):
            where = "" if _absent(row["bin"]) else f"in bin {int(row['bin'])}"
            group = f"for {row['group']}" if row["group"] else ""
            cell = capitalized(" ".join(filter(None, [where, group])))
            why = first_reason(row["note"], "undefined")
            return f"{lead}{f'{cell}: ' if cell else ''}{name.replace('_', ' ')} is undefined: {why}."
        if name not in _SENTENCES:
            return super().sentence(findings, row, level)
        text = lead + _SENTENCES[name](findings, row, level)
        if name.endswith("_test") or row["group"] == findings.words.get("reference", ""):
            return text
        return text + "".join(more for code, more in _FEW_ROWS.items() if code in note_codes(row["note"]))

    def side_tables(self, findings: Findings) -> list[SideTable]:
        """Remedies by the source of the bias (section 5.1 of the paper), and the limits of the test."""
        level = short_percent(confidence_level(findings))
        remedy = SideTable(
            "Who can fix what",
            ("source of the bias", "change the scores", "change the product"),
            (
                (
                    "The algorithm: it under-rates the outcomes of one group relative to another (what this test looks for)",
                    "Works: with corrected scores, other candidates are shown",
                    "Does not work: no message or layout changes what the algorithm scores",
                ),
                (
                    "People: candidates hold back, or decision makers prefer a group (this test cannot see it)",
                    "Does not work: showing other candidates changes neither self-doubt nor preference",
                    "Works: give more relevant information, such as where a candidate stands among the applicants",
                ),
            ),
            (
                _algorithm_bias(findings),
                "A gap belongs to the team that owns the scores; a bias of people does not.",
            ),
        )
        cannot = tuple((line,) for line in findings.provenance.get("cannot_say", ()))
        limits = SideTable(
            "What this test cannot say",
            ("limit",),
            cannot,
            (f"Intervals and tests are valid at {level} only if rows, or clusters, are independent.",),
        )
        return [remedy, limits]


def _algorithm_bias(findings: Findings) -> str:
    """The result of the test for each group; a bias of people cannot be tested."""
    table = findings.curves.get("remedies", {})
    columns = [table.get(name, ()) for name in (*findings.slices, "group", "source", "found")]
    groups: dict[str, list[str]] = {}
    for *where, group, source, result in zip(*columns, strict=True):
        if source == "algorithm":
            at = slice_words(findings.slices, where, whole="")
            groups.setdefault(result, []).append(f"{group} ({at})" if at else str(group))
    results = {"cannot tell": "could not be tested"}
    text = "; ".join(f"{results.get(result, result)} for {', '.join(names)}" for result, names in groups.items())
    return f"Bias of the algorithm: {text}." if text else "Nothing could be tested."


@headline("outcome_test")
def _outcome(findings: Findings) -> Headline | None:
    """The widest significant gap at equal score; else the gap that would have been detected."""
    level, reference = confidence_level(findings), _reference(findings)
    pooled = [r for r in findings.rows() if r["metric"] == "pooled_gap" and r["group"] != reference]
    gaps = [r for r in pooled if is_finite(r["estimate"])]
    large = [r for r in gaps if "small_cell" not in (r["note"] or "")]
    significant = [r for r in large if read_number(r.get("p_adjusted")) < 1 - level]
    if significant:
        row = max(significant, key=lambda r: abs(r["estimate"]))
        side, rated = ("higher", "under-rates") if row["estimate"] > 0 else ("lower", "over-rates")
        outcome = word(findings, "outcome")
        what = f"the {outcome} rate" if findings.provenance.get("outcomes") else outcome
        where = findings.slice_label(row)
        text = (
            f"At equal score{f' in {where}' if where else ''}, {what} is "
            f"{gap_text(findings, abs(row['estimate']), few=True)} {side} for {row['group']} than for {reference}: "
            f"the score {rated} {row['group']}."
        )
        return Headline(text, interval(row, level, lambda v: gap_size(findings, v, few=True)), row=row)
    detectable = [read_number(r.get("detectable")) for r in large if is_finite(r.get("detectable"))]
    if len(large) < len(gaps) or not detectable or len(detectable) < len(large):
        return None
    return Headline(f"No significant gap to {reference} at equal score; {_power(findings, max(detectable))}.")


class CounterfactualSentences(SentenceWriter, audit="counterfactual"):
    """A change and what is expected by chance, which is another row."""

    def key_sentences(self, findings: Findings) -> list[str]:
        """The change of the outcome, and the slots that each group would gain, each with its null interval."""
        metrics = ["outcome_relative_change", "slots_gained"]
        metrics += ["mean_rank_change"] if findings.provenance.get("kind") == "ranking" else []
        return [self.sentence(findings, row, 0.0) for row in findings.rows() if row["metric"] in metrics]

    def sentence(self, findings: Findings, row: Row, level: float) -> str:
        """One row as a sentence; by its card or phrase where it has no other one here."""
        name, value, lead = row["metric"], read_number(row["estimate"]), slice_lead(findings, row)
        group = row["group"] or ""
        whose = f" of {group}" if group else ""
        if math.isnan(value):
            return f"{lead}{name.replace('_', ' ')}{whose} is undefined: {first_reason(row['note'], 'undefined')}."
        if name.endswith("_null"):
            what = name.removesuffix("_null").replace("_", " ")
            ends = interval_text(row["low"], row["high"], percent if name.startswith("outcome") else number)
            return f"{lead}By chance alone, the {what}{whose} would be {ends}."
        if name == "outcome_relative_change":
            return lead + _outcome_change(findings, row)
        if name == "slots_relative_change":
            return f"{lead}The slots of {group} would change by {percent(value)}."
        if name in ("slots_gained", "mean_rank_change"):
            return lead + _group_change(findings, row)
        return super().sentence(findings, row, level)

    def side_tables(self, findings: Findings) -> list[SideTable]:
        """The steps of the counterfactual, and its limits."""
        facts = findings.provenance
        names = ("compared_with", "predicted", "folds", "window", "null", "band")
        rows = tuple((name.replace("_", " "), str(facts[name])) for name in names if name in facts)
        limits = (
            "Outcomes of candidates who were never shown are predicted, not observed; the further from the threshold, the less reliably.",
            "More of the outcome is assumed to be better. If the outcome is a harm, such as an arrest, the slots go to those expected "
            "to suffer most of it.",
            "Outcomes are taken as people made and recorded them; any bias of theirs is in the predictions too.",
            "Little can be said about groups with few slots (small_cell), and nothing about groups without observed outcomes.",
            "A group that gains slots may see its mean rank fall, because its new members enter at the last places.",
            "Who is shown changes what people do, which these numbers do not include.",
        )
        return [
            SideTable("How the slots were reallocated", ("step", "rule"), rows),
            SideTable("What this cannot promise", ("limit",), tuple((line,) for line in limits)),
        ]


def _null_row(findings: Findings, row: Row) -> Row | None:
    """The row with the interval of changes by chance alone; None where there is none."""
    null, same = f"{row['metric']}_null", ("group", *findings.slices)
    nulls = (r for r in findings.rows() if r["metric"] == null and all(r[k] == row[k] for k in same))
    null_row = next(nulls, None)
    return None if null_row is None or _absent(null_row["low"]) else null_row


def _beyond_chance(findings: Findings, row: Row) -> bool:
    """Whether a change lies outside the interval of changes by chance alone."""
    null = _null_row(findings, row)
    return null is not None and not null["low"] <= row["estimate"] <= null["high"]


def _outcome_change(findings: Findings, row: Row) -> str:
    value, null = read_number(row["estimate"]), _null_row(findings, row)
    change = f"With the slots reallocated, the outcome would change by {percent(value)}"
    if findings.provenance.get("counterfactual", {}).get("folds") == 1:
        change += " (predicted and evaluated on the same rows, so it cannot be negative)"
    facts = findings.provenance
    of_slice = facts.get("slices", {}).get(slice_words(findings.slices, [row[n] for n in findings.slices]), facts)
    if of_slice.get("candidates") == of_slice.get("slots"):
        return f"{change}: every candidate has a slot, so only the order can change."
    if null is None:
        return f"{change}; without a null distribution it cannot be tested."
    chance = f"{interval_text(null['low'], null['high'], percent)} is expected by chance"
    if value > max(null["high"], 0):
        return f"{change}; {chance}, so this is a significant rise."
    if value > null["high"]:
        return f"{change}; {chance}: knowing the group helps significantly, but not enough for a rise."
    return f"{change}; {chance}, so there is no significant rise."


def _group_change(findings: Findings, row: Row) -> str:
    value, null, group = read_number(row["estimate"]), _null_row(findings, row), row["group"]
    if row["metric"] == "slots_gained":
        text = f"{group} would {'gain' if value >= 0 else 'lose'} {number(abs(value))} slot{'' if abs(value) == 1 else 's'}"
    else:
        way = "lower" if value > 0 else "higher"
        text = f"The mean rank of {group} would be {number(abs(value))} places {way}, though of different candidates"
    if null is None:
        return f"{text}."
    if "small_cell" in (row["note"] or ""):
        text += f" ({number(row['units'])} slots before, too few to rely on)"
    significance = "significant" if _beyond_chance(findings, row) else "not significant"
    return f"{text}; {interval_text(null['low'], null['high'])} is expected by chance, so this is {significance}."


@headline("counterfactual")
def _counterfactual(findings: Findings) -> Headline | None:
    """The group that would gain most slots, or ranks, beyond chance."""
    for metric, sign in (("slots_gained", 1), ("mean_rank_change", -1)):
        rows = [r for r in findings.rows() if r["metric"] == metric and is_finite(r["estimate"])]
        most = max((r for r in rows if _beyond_chance(findings, r)), key=lambda r: sign * r["estimate"], default=None)
        if most is None or sign * most["estimate"] <= 0:
            continue
        size = sign * most["estimate"]
        slots, ranks = f"have {number(round(size, 1))} more slots", f"rank {size:.1f} places higher on average"
        gain = slots if metric == "slots_gained" else ranks
        return Headline(f"Without the bias, {most['group']} would {gain}, a significant gain.", row=most)
    return Headline("Without the bias, no group would gain significantly.")

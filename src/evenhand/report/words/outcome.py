"""Sentences of the outcome test and its counterfactual: gaps at equal score, who would gain, and the limits of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from evenhand.claims import Claim, adjusted_detectable, power_text
from evenhand.findings import Findings, read_number, slice_words
from evenhand.report.words.sentences import Headline, SentenceWriter, SideTable, both_p, headline
from evenhand.report.words.text import (
    Row,
    capitalized,
    confidence_level,
    counted,
    first_reason,
    interval,
    interval_in_brackets,
    interval_text,
    named_slice,
    note_codes,
    number,
    p_text,
    percent,
    short_percent,
    slice_lead,
    word,
)


def _absent(value: Any) -> bool:
    return math.isnan(read_number(value))


def _reference(findings: Findings) -> str:
    return findings.words.get("reference", "the reference")


def gap_size(value: float, *, points: bool, few: bool = False) -> str:
    """A gap without its unit, which is percentage points for outcomes of 0 and 1; `few` digits for a headline."""
    if points:
        return f"{100 * value:.{1 if few else 2}f}" if abs(value) >= 5e-5 or not value else f"{100 * value:.1g}"
    return f"{value:.2f}" if few and 0.01 <= abs(value) < 100 else number(value)


def gap_text(value: float, *, points: bool, few: bool = False) -> str:
    """A gap with its unit.

    >>> gap_text(0.0673, points=True), gap_text(0.0673, points=False)
    ('6.73 percentage points', '0.0673')
    """
    return gap_size(value, points=points, few=few) + (" percentage points" if points else "")


def _in_points(findings: Findings) -> bool:
    return bool(findings.provenance.get("outcomes"))


def _test(findings: Findings, row: Row) -> str:
    """A test of equal outcomes: its claim, or only its p where it is a variant that claims nothing."""
    where = {"marginal_test": "right above the threshold", "bin_test": f"in bin {_bin(row)}"}.get(row["metric"], "")
    other = f", with {counted(int(row['metric'].partition('=')[2][:-1]), 'bin')}" if "(" in row["metric"] else ""
    at = f"At equal score {where}".rstrip() + other
    support = ""
    if "narrow_support" in (row["note"] or ""):
        support = " Less than half of the rows have a score that occurs in every group; the others are excluded."
    if math.isnan(read_number(row["p"])):
        return f"{at}, nothing can be tested: {first_reason(row['note'], 'undefined')}.{support}"
    claim = _deciding_claim(findings, row)
    if claim is None:
        p = read_number(row["p_adjusted"])
        return f"{at}, the test of equal outcomes has an adjusted {p_text(p)}.{support}"
    p = claim.p_adjusted
    if claim.made:
        return f"{at}, the groups' outcomes differ (adjusted {p_text(p)}).{support}"
    unproven = "which does not prove equality"
    return f"{at}, no significant difference between the groups' outcomes (adjusted {p_text(p)}), {unproven}.{support}"


def _deciding_claim(findings: Findings, row: Row) -> Claim | None:
    """The claim about a test; of the test above a threshold, with two groups, that of the gap there, which is the same test."""
    if (claim := findings.claim(row)) or row["metric"] != "marginal_test":
        return claim
    rows = findings.rows()
    gaps = (r for r in rows if r["metric"] == "outcome_gap" and all(r[k] == row[k] for k in (*findings.slices, "bin")))
    return next(filter(None, map(findings.claim, gaps)), None)


def _bin(row: Row) -> str:
    return "" if _absent(row["bin"]) else str(int(row["bin"]))


def _gap(findings: Findings, row: Row) -> str:
    """A gap; with its direction where it is claimed, and with the detectable gap where it is not significant."""
    reference, points, claim = _reference(findings), _in_points(findings), findings.claim(row)
    ends = interval_in_brackets(findings, row, lambda v: gap_size(v, points=points))
    if claim is not None and claim.made:
        size = gap_text(abs(row["estimate"]), points=points)
        return (
            f"{_compared_rows(row)}, outcomes of {row['group']} are {size} {claim.direction} than those of {reference} at equal "
            f"score{ends}: {claim.text}."
        )
    size = gap_text(row["estimate"], points=points)
    verdict = f": {claim.text}{both_p(findings, claim)}" if claim is not None and not math.isnan(claim.p) else ""
    return f"{_compared_rows(row)}, the gap of {row['group']} to {reference} at equal score is {size}{ends}{verdict}."


def _order(findings: Findings, row: Row) -> str:
    claim, reference, points = findings.claim(row), _reference(findings), _in_points(findings)
    size = gap_text(row["estimate"], points=points)
    ends = interval_in_brackets(findings, row, lambda v: gap_size(v, points=points))
    side = "above" if "above" in row["metric"] else "below"
    verdict = "" if claim is None else f": {claim.text}{both_p(findings, claim)}"
    neighbours = f"Where {row['group']} ranks right {side} {reference} ({counted(row['units'], 'pair')})"
    return f"{neighbours}, its mean outcome minus that of {reference} is {size}{ends}{verdict}."


def _compared_rows(row: Row) -> str:
    name, _, rest = str(row["metric"]).partition("(")
    if name == "outcome_gap":
        return f"In bin {_bin(row)} ({number(row['bin_low'])} to {number(row['bin_high'])})"
    if rest == "support='all')":
        return "Over all scores, including those that do not occur in every group"
    if name == "spline_gap":
        return "With a spline of the score"
    part = read_number(row.get("share_used"))
    rows = f" ({percent(part)} of the rows of {row['group']})" if part < 1 else ""
    if "bins_missing" in (row["note"] or ""):
        which = f"the bins (of {rest[5:-1]})" if rest else "the bins"
        return f"Over {which} that have both groups{rows}"
    return f"With {counted(int(rest[5:-1]), 'bin')}{rows}" if rest else f"Over all bins{rows}"


def _lowest(findings: Findings, row: Row) -> str:
    """Where outcomes are lowest; that they fall with the score only where that is claimed."""
    if row["estimate"] == 1:
        return "The lowest outcomes are at the lowest scores, as they should be."
    claim, bin_of_lowest = findings.claim(row), int(row["estimate"])
    if claim is not None and claim.made:
        return f"{capitalized(claim.text)} (adjusted {p_text(claim.p_adjusted)}), a problem of the scoring beyond fairness."
    return f"The lowest mean outcome is in bin {bin_of_lowest}{'' if claim is None else f': {claim.text}'}."


def _calibration(findings: Findings, row: Row) -> str:
    return (
        f"The mean outcome of {row['group']} minus its mean score is {number(row['estimate'])} (calibration). Errors at low and high "
        "scores can cancel out, and this says nothing about a threshold."
    )


_AMONG = {
    "equalized_odds_gap": ("with the same outcome", "equalised odds"),
    "equal_opportunity_gap": ("with a good outcome", "equal opportunity"),
}


def _odds(findings: Findings, row: Row) -> str:
    chance = read_number(row.get("chance"))
    by_chance = "" if math.isnan(chance) else f"; {number(chance)} is expected by chance"
    among, name = _AMONG[str(row["metric"])]
    return (
        f"Among those {among}, the largest distance between the score distributions of {row['group']} and {_reference(findings)} is "
        f"{number(row['estimate'])}{interval_in_brackets(findings, row)}{by_chance} ({name}). This mixes the scoring with how qualified "
        "the groups are."
    )


def _rate(findings: Findings, row: Row) -> str:
    have = "with the outcome" if str(row["metric"]).startswith("true") else "without the outcome"
    claim, name = findings.claim(row), str(row["metric"]).replace("_", " ")
    rate = f"the {name} of {row['group']} to {_reference(findings)} is {number(row['estimate'])}{interval_in_brackets(findings, row)}"
    if claim is not None and claim.made:
        return f"{capitalized(claim.text)}: {rate}."
    tested = claim is not None and not math.isnan(claim.p)
    verdict = ": no significant difference in how often they are treated" if tested else ""
    return f"Among those {have}, {rate}{verdict}."


_SENTENCES: dict[str, Callable[[Findings, Row], str]] = {
    "joint_test": _test,
    "marginal_test": _test,
    "bin_test": _test,
    "outcome_gap": _gap,
    "pooled_gap": _gap,
    "spline_gap": _gap,
    "order_gap": _order,
    "lowest_bin": _lowest,
    "calibration_gap": _calibration,
    "equalized_odds_gap": _odds,
    "equal_opportunity_gap": _odds,
    "true_positive_rate_gap": _rate,
    "false_positive_rate_gap": _rate,
}


def is_reference(row: Row) -> bool:
    """Whether a row only says which group the others are compared with."""
    return "reference" in note_codes(row["note"])


def _row_name(row: Row) -> str:
    bin_name = "" if _absent(row["bin"]) else f" in bin {_bin(row)}"
    group_name = f" of {row['group']}" if row["group"] else ""
    return f"{str(row['metric']).replace('_', ' ')}{group_name}{bin_name}"


class OutcomeSentences(SentenceWriter, audit="outcome_test"):
    def row_sentences(self, findings: Findings) -> list[str]:
        return list(dict.fromkeys(super().row_sentences(findings)))  # the reference group is named once

    def key_sentences(self, findings: Findings) -> list[str]:
        """The deciding test, the gap of each group that decides, and that outcomes fall with the score where it is claimed."""
        deciding = ("joint_test", "marginal_test")
        tests = [
            row for row in findings.rows() if row["metric"] == deciding["marginal_test" in findings.columns["metric"]]
        ]
        claimed = [
            row
            for row in findings.rows()
            if str(row["metric"]).startswith(("pooled_gap", "outcome_gap", "order_gap", "lowest_bin"))
            and (claim := findings.claim(row))
            and (claim.made or row["metric"] != "lowest_bin")
        ]
        return [self.sentence(findings, row) for row in (*tests, *claimed)]

    def sentence(self, findings: Findings, row: Row) -> str:
        name, lead = str(row["metric"]).partition("(")[0], slice_lead(findings, row)
        if is_reference(row):
            return f"{row['group']} is the reference group."
        if _absent(row["estimate"]) and name not in ("joint_test", "marginal_test", "bin_test"):
            return f"{lead}{capitalized(_row_name(row))} is undefined: {first_reason(row['note'], 'undefined')}."
        if name not in _SENTENCES:
            return super().sentence(findings, row)
        return lead + _SENTENCES[name](findings, row)

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
    """The widest gap that is claimed; else that groups differ in some bin; else the gap that would have been detected."""
    reference, points = _reference(findings), _in_points(findings)
    claims = [(row, claim) for row in findings.rows() if (claim := findings.claim(row))]
    gaps = [
        (row, claim) for row, claim in claims if row["metric"].startswith(("pooled_gap", "outcome_gap", "order_gap"))
    ]
    if significant := [(row, claim) for row, claim in gaps if claim.made]:
        row, claim = max(significant, key=lambda pair: abs(pair[0]["estimate"]))
        outcome, where = word(findings, "outcome"), named_slice(findings, row)
        what = f"the {outcome} rate" if points else outcome
        size = gap_text(abs(row["estimate"]), points=points, few=True)
        at, than = "At equal score", f"for {row['group']} than for {reference}"
        if row["metric"].startswith("order_gap"):
            side = "above" if "above" in row["metric"] else "below"
            at, than = f"Where {row['group']} ranks right {side} {reference}", f"for {row['group']}"
        text = f"{at}{f' in {where}' if where else ''}, {what} is {size} {claim.direction} {than}: {claim.text}."
        return Headline(text, interval(findings, row, lambda v: gap_size(v, points=points, few=True)), row=row)
    for row, claim in claims:
        if claim.made and row["metric"] in ("joint_test", "marginal_test"):
            text = capitalized(f"{claim.text}, though no group's own gap is significant.")
            return Headline(f"{slice_lead(findings, row)}{text}", row=row)
    tested = sum(not math.isnan(claim.p) for claim in findings.claims)
    sizes = [
        adjusted_detectable(read_number(row.get("detectable")), tested, confidence_level(findings))
        for row, claim in gaps
        if not math.isnan(claim.p)
    ]
    if not sizes or len(sizes) < len(gaps) or any(map(math.isnan, sizes)):
        return None
    none = f"No significant gap to {reference} at equal score"
    if gaps[0][0]["metric"].startswith("order_gap"):
        none = f"No significant sign that the lists under- or over-rate a group against {reference}"
    return Headline(f"{none}; {power_text(max(sizes), points=points)}.")


class CounterfactualSentences(SentenceWriter, audit="counterfactual"):
    def key_sentences(self, findings: Findings) -> list[str]:
        metrics = ["outcome_relative_change", "slots_gained"]
        metrics += ["mean_rank_change"] if findings.provenance.get("kind") == "ranking" else []
        return [self.sentence(findings, row) for row in findings.rows() if row["metric"] in metrics]

    def sentence(self, findings: Findings, row: Row) -> str:
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
        return super().sentence(findings, row)

    def side_tables(self, findings: Findings) -> list[SideTable]:
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
    null, same = f"{row['metric']}_null", ("group", *findings.slices)
    nulls = (r for r in findings.rows() if r["metric"] == null and all(r[k] == row[k] for k in same))
    null_row = next(nulls, None)
    return None if null_row is None or _absent(null_row["low"]) else null_row


def _outcome_change(findings: Findings, row: Row) -> str:
    value, null, claim = read_number(row["estimate"]), _null_row(findings, row), findings.claim(row)
    change = f"With the slots reallocated, the outcome would change by {percent(value)}"
    if findings.provenance.get("counterfactual", {}).get("folds") == 1:
        change += " (predicted and evaluated on the same rows, so it cannot be negative)"
    if _all_have_slots(findings, row):
        return f"{change}: every candidate has a slot, so only the order can change."
    if null is None or claim is None or math.isnan(claim.p):
        return f"{change}; without a null distribution it cannot be tested."
    return f"{change}; {interval_text(null['low'], null['high'], percent)} is expected by chance: {claim.text}."


def _all_have_slots(findings: Findings, row: Row) -> bool:
    facts = findings.provenance
    of_slice = facts.get("slices", {}).get(slice_words(findings.slices, [row[n] for n in findings.slices]), facts)
    return bool(of_slice.get("candidates") == of_slice.get("slots"))


def _group_change(findings: Findings, row: Row) -> str:
    """The slots or the mean rank of a group; which way they move only where that is claimed."""
    value, null, claim = read_number(row["estimate"]), _null_row(findings, row), findings.claim(row)
    group, slots = row["group"], row["metric"] == "slots_gained"
    what = f"slots of {group}" if slots else f"mean rank of {group}"
    others = "" if slots or _all_have_slots(findings, row) else ", though of different candidates"
    text = f"The {what} would change by {number(value)}{others}"
    if null is None:
        return f"{text}."
    if "small_cell" in (row["note"] or ""):
        text += f" ({number(row['units'])} slots before, too few to rely on)"
    verdict = f": {claim.text}" if claim is not None else ""
    return f"{text}; {interval_text(null['low'], null['high'])} is expected by chance{verdict}."


@headline("counterfactual")
def _counterfactual(findings: Findings) -> Headline | None:
    """The group that would gain most of those with a claimed gain; else the one that would lose most."""
    claims = [(row, claim) for row in findings.rows() if row["group"] and (claim := findings.claim(row)) and claim.made]
    if not claims:
        return Headline("Without the bias, no group would gain or lose significantly.")
    ups = [(float(row["estimate"]), row) for row, _ in claims]
    gains = [
        (up if row["metric"] == "slots_gained" else -up, row) for up, row in ups
    ]  # a rank falls as places are gained
    gain, row = max(gains, key=lambda pair: pair[0])
    if gain < 0:
        gain, row = min(gains, key=lambda pair: pair[0])
    where, size = findings.slice_label(row), abs(gain)
    slots = f"have {number(round(size, 1))} {'more' if gain > 0 else 'fewer'} slots"
    ranks = f"rank {size:.1f} places {'higher' if gain > 0 else 'lower'} on average"
    change = slots if row["metric"] == "slots_gained" else ranks
    return Headline(
        f"Without the bias, {row['group']}{f' ({where})' if where else ''} would {change}, a significant change.",
        row=row,
    )


@headline("impact")
def _impact(findings: Findings) -> Headline | None:
    ratios = [r for r in findings.rows() if r["metric"] == "impact_ratio" and (c := findings.claim(r)) and c.made]
    if not ratios:
        return Headline(
            "No category is selected significantly less often than the one with the highest rate in the data."
        )
    lowest = min(ratios, key=lambda r: float(r["estimate"]))
    text = f"{lowest['group']} is selected {number(float(lowest['estimate']), 2)} times as often as {lowest['versus']}."
    return Headline(text, interval(findings, lowest, lambda x: number(x, 2)), row=lowest)


class _ImpactSentences(SentenceWriter, audit="impact"):
    def sentence(self, findings: Findings, row: Row) -> str:
        lead = f"By {row['category']}: {row['group']}"
        if row["note"] == "suppressed":
            return (
                f"{lead} is suppressed: it, or a category that it would give away, has fewer candidates than min_units."
            )
        if math.isnan(read_number(row["estimate"])):
            return super().sentence(findings, row)
        if row["metric"] == "selection_rate":
            return f"{lead}: {_shown(findings, row, percent)} selected, {row['selected']:,.0f} of {row['units']:,.0f} candidates."
        if row["group"] == row["versus"]:
            return f"{lead} has the highest rate in the data; ratios are to it."
        claim = findings.claim(row)
        verdict = f" {claim.text}{both_p(findings, claim)}." if claim else ""
        return f"{lead}: impact ratio to {row['versus']} {_shown(findings, row, lambda x: number(x, 3))}.{verdict}"


def _shown(findings: Findings, row: Row, text: Callable[[float], str]) -> str:
    return f"{text(read_number(row['estimate']))}{interval_in_brackets(findings, row, text)}"

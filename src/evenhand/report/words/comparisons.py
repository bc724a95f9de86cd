"""Sentences of comparisons: two results, and metrics that order systems alike or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from evenhand.findings import Findings, label, read_number
from evenhand.report.words.phrases import distinct_texts, metric_title, value_format
from evenhand.report.words.sentences import Headline, SentenceWriter, headline
from evenhand.report.words.text import (
    Row,
    capitalized,
    confidence_level,
    counted,
    first_reason,
    in_words,
    interval_text,
    is_finite,
    named_slice,
    number,
    p_text,
    percent,
    short_percent,
    signed,
)

UNPAIRED = (
    "These differences have no interval: a saved result does not list its requests, so the two cannot be paired. Pass both results "
    "to eh.compare before saving them, or audit both systems in one table (system=, --system with --systems). If they have no "
    "request in common, pass independent=True (--independent)."
)
MAY_SHARE = (
    "These differences have no interval: a result does not list its units, so the two may share some. eh.experiment (evenhand "
    "experiment) compares arms or periods from the log itself, and eh.explain says who changed it. If they have no unit in common, "
    "pass independent=True (--independent)."
)
SAMPLES = "The two cover different requests and are compared as independent samples."
NOT_SIGNIFICANT = "not statistically significant"


def significant_rows(findings: Findings) -> list[tuple[int, Row]]:
    """Rows whose claim is made, with their positions, smallest p first."""
    claims = ((i, row, findings.claim(row)) for i, row in enumerate(findings.rows()))
    significant = [(i, row) for i, row, claim in claims if claim and claim.made]
    return sorted(significant, key=lambda pair: pair[1]["p_adjusted"])


def significance(findings: Findings, row: Row) -> str:
    """Whether the claim about a row is made, for the end of its sentence; empty where it was not tested."""
    claim = findings.claim(row)
    return "" if claim is None else "statistically significant" if claim.made else NOT_SIGNIFICANT


def most_significant(
    findings: Findings, every: list[str], for_all: list[str], *, few: int = 8, most: int = 5
) -> list[str]:
    """All sentences where rows are `few`; else how many are significant, and the `most` with the smallest p."""
    if len(findings) <= few:
        return every
    significant = significant_rows(findings)
    rule = f"Holm-adjusted p of at most {short_percent(round(1 - confidence_level(findings), 12))}"
    first = f"{len(significant):,} of {len(findings):,} differences are statistically significant ({rule})."
    return [first, *(every[i] for i, _ in significant[:most]), *for_all]


def difference_text(findings: Findings, row: Row) -> str:
    """A difference with its interval and adjusted p: "a difference of +0.1 (95% interval ...; adjusted p = 0.01)"."""
    show = value_format(row["metric"])
    size: Callable[[float], str] = show
    if show is percent:
        size = lambda v: percent(v, abs(read_number(row["estimate"])))  # noqa: E731
    parts = [interval_text(row["low"], row["high"], lambda v: signed(v, size), level=confidence_level(findings))]
    if not math.isnan(p := read_number(row["p_adjusted"])):
        parts.append(f"adjusted {p_text(p)}")
    doubt = "; ".join(filter(None, parts))
    return f"a difference of {signed(row['estimate'], show)}{f' ({doubt})' if doubt else ''}"


class CompareSentences(SentenceWriter, audit="compare"):
    def sentences(self, findings: Findings) -> list[str]:
        return [*self.row_sentences(findings), *_for_all(findings)]

    def key_sentences(self, findings: Findings) -> list[str]:
        return most_significant(findings, self.sentences(findings), _for_all(findings))

    def sentence(self, findings: Findings, row: Row) -> str:
        name, show = metric_title(row["metric"]), value_format(row["metric"])
        a_name, b_name = _side_names(findings, row)
        paired = ("system", "versus") if "versus" in findings.slices else ()
        group = label(row["group"]) if row["group"] is not None else ""
        where = ", ".join(filter(None, [named_slice(findings, row, without=paired), group]))
        lead = f"For {where}: " if where else ""
        a, b, difference = (read_number(row[k]) for k in ("a", "b", "estimate"))
        if math.isnan(difference):
            why = first_reason(row["note"])
            return f"{lead}{name} cannot be compared{f': {why}' if why else ''}."
        if difference == 0:
            return f"{lead}{name} is the same in {a_name} and {b_name}, {show(a)}."
        sides = f"{show(a)} in {a_name} and {show(b)} in {b_name}"
        parts = [difference_text(findings, row), significance(findings, row)]
        return f"{lead}{name} is {sides}: {', '.join(filter(None, parts))}."


def _for_all(findings: Findings) -> list[str]:
    """Why there are no intervals, or that they are those of two samples."""
    notes = "; ".join(note or "" for note in findings.columns["note"])
    reasons = [text for code, text in (("unpaired", UNPAIRED), ("may_share_units", MAY_SHARE)) if code in notes]
    return reasons or ([SAMPLES] if findings.provenance.get("paired") is False else [])


def _side_names(findings: Findings, row: Row) -> tuple[str, str]:
    if "versus" in findings.slices:
        return in_words(row["system"]), in_words(row["versus"])
    return str(findings.words.get("a", "a")), str(findings.words.get("b", "b"))


@headline("compare")
def _compare(findings: Findings) -> Headline | None:
    rows = [r for r in findings.rows() if is_finite(r["estimate"])]
    if not rows:
        return None
    tested = [r for r in rows if findings.claim(r)]
    significant = [row for _, row in sorted(significant_rows(findings), key=lambda r: r[0])]
    row = (significant or tested or rows)[0]
    (a_name, b_name), (a, b) = _side_names(findings, row), distinct_texts(row["metric"], row["a"], row["b"])
    where = ", ".join(filter(None, [named_slice(findings, row, without=("system", "versus")), str(row["group"] or "")]))
    numbers = f"{f'for {where}, ' if where else ''}{metric_title(row['metric'])} is {a} in {a_name} and {b} in {b_name}"
    doubt = capitalized(difference_text(findings, row))
    if significant:
        part = f"{len(significant):,} of {len(tested):,} numbers differ" if len(tested) > 1 else "The two differ"
        return Headline(f"{part} significantly: {numbers}.", doubt, row=row)
    if tested:
        return Headline(f"No statistically significant difference: {numbers}.", doubt, row["metric"])
    return Headline(f"{capitalized(numbers)}.", "Whether this is more than chance is unknown", row=row)


class AgreementSentences(SentenceWriter, audit="agreement"):
    def sentences(self, findings: Findings) -> list[str]:
        rows = unordered_pairs(findings)
        return [*(_pair(findings, row) for row in rows), *_few_systems(rows)]

    def key_sentences(self, findings: Findings) -> list[str]:
        """The five pairs with the smallest p; the headline counts those that are significant."""
        rows = unordered_pairs(findings)
        first = sorted(rows, key=lambda row: (not is_finite(row["p"]), row["p_adjusted"]))[:5]
        return [*(_pair(findings, row) for row in first), *_few_systems(rows)]


def unordered_pairs(findings: Findings) -> list[Row]:
    """The first of the two rows of every pair of metrics: the frame has both orders."""
    pairs: dict[tuple[Any, ...], Row] = {}
    for row in findings.rows():
        where = tuple(row[s] for s in findings.slices)
        pairs.setdefault((where, frozenset((row["metric"], row["other"]))), row)
    return list(pairs.values())


def _pair(findings: Findings, row: Row) -> str:
    where = findings.slice_label(row)
    lead = f"For {where}: " if where else ""
    pair, tau = f"{row['metric']} and {row['other']}", read_number(row["tau_c"])
    if math.isnan(tau):
        return f"{lead}{pair} cannot be compared: {first_reason(row['note'])}."
    claim, systems = findings.claim(row), int(row["systems"])
    numbers = f"tau-c {tau:.2f} over {systems} systems, adjusted {p_text(float(row['p_adjusted']))}"
    if claim is None or not claim.made:
        return f"{lead}{pair}: {numbers}, {NOT_SIGNIFICANT}."
    return f"{lead}{claim.text} ({numbers})."


def agreement_count(findings: Findings) -> str:
    """How many pairs of metrics order the systems alike and how many in reverse, by their claims."""
    rows, claims = unordered_pairs(findings), findings.claims
    if not claims:
        return "No two metrics can be compared: too few systems, or constant values."
    alike, opposed = (sum(claim.direction == side for claim in claims) for side in ("higher", "lower"))
    lost = f" {len(rows) - len(claims):,} cannot be compared." if len(claims) < len(rows) else ""
    pairs = f"{counted(len(claims), 'pair')} of metrics"
    if not alike and not opposed:
        return f"No significant agreement on the order of the systems among {pairs}.{lost}"
    return f"{alike:,} of {pairs} significantly order the systems alike, {opposed:,} in reverse.{lost}"


@headline("agreement")
def _agreement(findings: Findings) -> Headline:
    rest = len(findings.claims) - sum(claim.made for claim in findings.claims)
    return Headline(agreement_count(findings), f"{rest:,} not statistically significant" if rest else "")


def _few_systems(rows: Sequence[Row]) -> list[str]:
    """The smallest p that this few systems allow, where no agreement can be significant."""
    systems = min((int(row["systems"]) for row in rows if is_finite(row["tau_c"])), default=0)
    if systems < 2 or 2 / math.factorial(systems) <= 0.05:
        return []
    least = number(2 / math.factorial(systems))
    return [f"With {systems} systems p cannot fall below {least}, so no agreement can be significant at 5%."]


class SensitivitySentences(SentenceWriter, audit="sensitivity"):
    def sentences(self, findings: Findings) -> list[str]:
        pairs = [capitalized(f"{claim.text}.") for claim in findings.claims if claim.made and "versus" in claim.where]
        return [*pairs, *super().sentences(findings)]


@headline("sensitivity")
def _sensitivity(findings: Findings) -> Headline | None:
    pairs = [claim for claim in findings.claims if "versus" in claim.where]
    if not pairs:
        return None
    most = "".join(f"; {claim.text}" for claim in findings.claims if "choice" in claim.where)
    reversals, orders = ([c for c in pairs if c.direction == direction] for direction in ("differs", "higher"))
    under = f"under all {counted(int(findings.provenance.get('settings', 0)), 'combination')} of choices"
    of_pairs = counted(len(pairs), "pair")
    if reversals:
        text = f"does not survive: {len(reversals):,} of {of_pairs} change places, for example {reversals[0].text}"
        return Headline(f"The order of the systems {text}{most}.")
    if not orders:
        return Headline(
            f"Whether the order of the systems survives cannot be told: no two systems differ significantly {under}."
        )
    if len(orders) == len(pairs):
        which = f"all {of_pairs} keep it" if len(pairs) > 1 else orders[0].text
        return Headline(
            f"The order of the systems survives: {which} {under if len(pairs) > 1 else ''}".rstrip() + f"{most}."
        )
    rest = f"for {len(pairs) - len(orders):,} it cannot be told"
    return Headline(f"{len(orders):,} of {of_pairs} of systems keep their order {under}; {rest}{most}.")


@headline("advise")
def _advise(findings: Findings) -> Headline:
    """The metric to use, its stability and effect, what it finds, and the paper's choice where that is another one."""
    first, *rest = findings.rows()
    goal = (findings.provenance.get("plan") or {}).get("goal")
    like_yours = " like your data" if findings.provenance.get("situation") else ""
    what = f"a mild bias in {{}} of simulations{like_yours}" if goal else "the expected bias in {} of lists like yours"

    def share_of(row: Row) -> str:
        share = read_number(row.get("found"))
        return "" if math.isnan(share) else f"{100 * share:.0f}%"

    stability, effect = (read_number(first.get(name)) for name in ("stability", "effect"))
    measured = [
        "" if math.isnan(stability) else f"its mean varies by {100 * stability:.2g}% from sample to sample",
        ""
        if math.isnan(effect)
        else f"its effect (mean less chance) is {effect:.2g} standard deviations between lists",
        f"it finds {what.format(share_of(first))}" if share_of(first) else "",
    ]
    figures = "; ".join(filter(None, measured))
    papers = "".join(
        f" The paper names {row['symbol']}, which finds it in {share_of(row)}."
        for row in rest
        if row["advice"] == "the paper's choice"
    )
    return Headline(f"Use {first['symbol']}{': ' if figures else ''}{figures}.{papers}")

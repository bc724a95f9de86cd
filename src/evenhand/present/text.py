"""Findings in plain words: numbers as people read them, one sentence per row."""

from __future__ import annotations

import importlib
import math
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.cards import REGISTRY, ask
from evenhand.errors import EvenhandError
from evenhand.findings import Findings, label
from evenhand.present.phrases import PHRASES

REASONS = {
    "empty": "there is nothing to measure",
    "single_member": "there is only one unit",
    "zero_total": "nobody received anything",
    "zero_weight": "all weights are zero",
    "zero_denominator": "the quantity in the denominator is zero",
    "zero_over_zero": "both quantities of the ratio are zero",
    "zero_normalizer": "the largest possible value is zero",
    "one_group_only": "only one group is present",
    "group_absent": "a group is absent",
    "no_labelled_items": "no item has a group label",
    "too_short": "the list is too short",
    "no_relevant_in_group": "a group has no relevant item",
    "zero_utility": "all predicted scores are zero",
    "no_pairs": "there is no pair to compare",
    "few_systems": "with so few systems p cannot fall to 0.05 even where two metrics agree on all of them",
    "no_shared_request": "the two share no request",
    "unshared_requests": "only the requests that both have are compared",
    "unpaired": "a saved result holds no requests, so the two were compared as if theirs were different; compare results before "
    "saving them, or systems in one table (system=)",
    "undefined_difference": "one of the two has no value, or both are infinite",
    "satisfied": "no ranking violates the constraint",
    "constant_input": "one of the inputs never varies",
    "nothing_shown": "nothing was shown",
    "nobody_treated": "nobody was treated",
    "reference_absent": "the reference group is absent",
    "no_common_support": "the groups' scores do not overlap",
    "collinear": "the group and the score cannot be told apart",
    "nan_in_data": "the data hold missing amounts and nan_policy is 'propagate'",
    "suppressed": "fewer units than min_units, so nothing is shown",
    "heavy_tail": "the largest amounts are so large that intervals tend to be too short and inequality is understated",
    "infinite_draws": "some resamples have nothing on one side, and there the ratio is infinite",
    "small_cell": "too few rows for the interval to be trusted",
    "overlap": "the bottom share overlaps the top it is compared with",
    "constant_score": "the score does not vary in the bin, so outcomes are compared as they are",
    "no_null": "no band of changes by chance alone was drawn, so the number says little",
    "narrow_support": "less than half of the rows have a score that every group reaches",
    "not_rising": "outcomes do not rise with the score",
    "too_few_clusters": "there are too few clusters to test this many gaps at once",
    "replication_invariant": "the paper says no because a percentage means another number of users in a larger population; "
    "read off the Lorenz curve, the value itself does not change when the population is replicated",
    "needs_overlap": "exact only with the overlap of the groups' ranges, which subgroup values do not give; the average of "
    "subgroup values in the paper's note 3 leaves it out",
    "multiplicative": "exact as a product, 1 - A = (1 - within)(1 - between), not as the sum of the paper's note 3",
    "no_identity": "no identity that rebuilds it from subgroups is known",
    "without_zeros": "undefined with units that received nothing, so checked on the others",
    "no_parameter": "it has no parameter to choose",
    "no_direction": "neither direction is more even",
    "needs_slices": "needs several slices or amounts to compare",
    "judgement": "a matter of judgement, not of measurement",
    "some_undefined": "some requests have no value and are left out of the mean",
    "ties_at_cut": "some users had items tied at their last slot, and which of them is shown is a convention (see ties)",
    "ties_at_edge": "the share's edge falls inside a block of equal amounts, where its error is rough",
}


TELLERS = {
    "agreement": "evenhand.present.text_agreement",
    "compare": "evenhand.present.text_compare",
    "counterfactual": "evenhand.present.text_counterfactual",
    "outcome_test": "evenhand.present.text_outcome",
}
"""Audits whose rows need more than a template: modules with `sentences`, `headlines` and `asides` of findings."""


def teller(findings: Findings) -> Any:
    """The module that tells the findings of this audit, or None where templates do."""
    return importlib.import_module(TELLERS[findings.audit]) if findings.audit in TELLERS else None


def number(value: float, digits: int = 4) -> str:
    """A number as people read it.

    >>> number(0.998728), number(1234567.0), number(float("nan")), number(3.0)
    ('0.9987', '1,234,567', 'undefined', '3')
    """
    if value is None or math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    if value == round(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"
    if abs(value) < 1e-4:
        return f"{value:.{digits}g}"
    return f"{value:.{digits}f}" if abs(value) < 1 else f"{value:.{digits}g}"


def percent(value: float) -> str:
    """A share in per cent, with digits that matter near 0 and near 100.

    >>> percent(0.71), percent(0.01), percent(0.99498), percent(1.0), percent(0.0)
    ('71.0%', '1.00%', '99.498%', '100%', '0%')
    """
    if value is None or math.isnan(value) or math.isinf(value):
        return number(value)
    value = float(f"{value:.12g}")  # so that 0.5825 reads the same however its last bits came about
    room = round(min(abs(value), abs(1 - value)) * 100, 12)
    if room < 1e-9:
        return f"{100 * value:.0f}%"
    return f"{100 * value:.{min(6, max(0, 2 - math.floor(math.log10(room))))}f}%"


def short_percent(value: float) -> str:
    """A share that somebody chose, without trailing zeros.

    >>> short_percent(0.01), short_percent(0.125)
    ('1%', '12.5%')
    """
    return f"{100 * value:.10g}%"


class _Words(string.Formatter):
    """Fills a card's sentence: `{p:percent}`, `{estimate:number}`."""

    def format_field(self, value: Any, spec: str) -> Any:
        if spec == "percent":
            return percent(value)
        if spec == "chosen":
            return short_percent(value)
        return number(float(value)) if spec == "number" else super().format_field(value, spec)


def plural(unit: str) -> str:
    """The noun for several units, from a column name.

    >>> plural("author_id"), plural("query"), plural("units")
    ('authors', 'queries', 'units')
    """
    noun = re.sub(r"[_ ]?(id|key|uuid)$", "", unit, flags=re.IGNORECASE).replace("_", " ").strip() or "unit"
    if noun.endswith("s"):
        return noun
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"


def slice_names(slices: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """One short name per row: the labels of its slice; a bare number is told whose number it is.

    >>> slice_names(("by", "day"), {"by": ["likes", None], "day": [2, 3]})
    ['likes, day 2', '(missing), day 3']
    """
    named = [(name, columns[name]) for name in slices if name in columns]
    size = len(next(iter(columns.values()), []))
    return [", ".join(_part_name(name, column[i]) for name, column in named) for i in range(size)]


def _part_name(name: str, value: Any) -> str:
    bare = isinstance(value, (int, float)) or (isinstance(value, str) and value.replace(".", "", 1).isdigit())
    return f"{name} {value}" if bare else label(value)


def interval_words(row: Mapping[str, Any], level: float, as_percent: bool) -> str:  # noqa: FBT001
    """The interval in brackets, or nothing."""
    low, high = row["low"], row["high"]
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    show = percent if as_percent else number
    return f" ({short_percent(level)} interval {show(low)} to {show(high)})"


def fill(template: str, params: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    """A card's sentence with its blanks filled; what somebody chose (`params`) is said without trailing zeros.

    >>> fill("The top {p:percent} get {estimate:percent}.", {"p": 0.5}, {"p": 0.5, "estimate": 0.71})
    'The top 50% get 71.0%.'
    """
    for name in params:
        template = template.replace("{" + name + ":percent}", "{" + name + ":chosen}")
        template = template.replace("{" + name + ":number}", "{" + name + ":.10g}")
    return _Words().vformat(_with_what_is_known(template, fields), (), fields)


def _with_what_is_known(template: str, fields: Mapping[str, Any]) -> str:
    """Parts of a sentence in square brackets stand only where all that they say is there.

    >>> _with_what_is_known("a[, {x}][, {y}]", {"x": 1, "y": None})
    'a, {x}'
    """

    def part(found: re.Match[str]) -> str:
        values = [fields.get(name) for name in re.findall(r"{(\w+)", found[1])]
        absent = any(v is None or (isinstance(v, float) and math.isnan(v)) for v in values)
        return "" if absent else found[1]

    return re.sub(r"\[([^\[\]]*)\]", part, template)


def sentences(findings: Findings) -> list[str]:
    """One sentence per row of the frame, from the template on the metric's card, or by the audit's own teller."""
    if findings.audit in TELLERS:
        told: list[str] = teller(findings).sentences(findings)
        return told
    level = float(findings.provenance.get("level", 0.95))
    if "estimate" not in findings.columns:
        return [plain_sentence(row) for row in findings.rows()]
    return [sentence(findings, row, level) for row in findings.rows()]


def plain_sentence(row: Mapping[str, Any]) -> str:
    """A row of a frame that holds no estimates, column by column.

    >>> plain_sentence({"metric": "gini", "criterion": "scale", "measured": "yes", "value": 0.0, "note": None})
    'gini: criterion scale, measured yes, value 0.'
    """
    if row.get("reason"):  # advice comes with its own words
        return str(row["reason"])
    known = {k: v for k, v in row.items() if k not in ("metric", "note") and v is not None and v == v}
    said = ", ".join(f"{k.replace('_', ' ')} {number(v) if isinstance(v, float) else v}" for k, v in known.items())
    why = "; ".join(REASONS.get(code, code) for code in (row.get("note") or "").split("; ") if code)
    return f"{row['metric']}: {said}{f' ({why})' if why else ''}."


def sentence(findings: Findings, row: Mapping[str, Any], level: float = 0.95) -> str:
    """What one row says. A row without a template on its card is stated plainly."""
    where = findings.slice_label(row)
    group = f"{label(row['group'])}: " if row.get("group") else ""
    lead = f"For {where}: " if where else ""
    try:
        found = ask(row["metric"], REGISTRY)
        template, title = found.card.says, found.card.title
        params = {n: p.default for n, p in found.metric.parameters.items()} | dict(found.params)
    except EvenhandError:
        template, title, params = PHRASES.get((findings.audit, row["metric"]), ""), row["metric"], {}
    group = "" if "{group}" in template else group
    estimate = row["estimate"]
    if estimate is None or math.isnan(estimate):
        code = (row["note"] or "undefined").split(";")[0].strip()
        return f"{lead}{group}{title} ({row['metric']}) is undefined: {REASONS.get(code, code)}."
    if not template:
        return f"{lead}{group}{title} ({row['metric']}) is {number(estimate)}{interval_words(row, level, False)}."
    words = {"unit": "unit", "amount": "amount", **findings.words}
    words["units"] = plural(words["unit"])
    words["amount"] = str(row["amount"] if "amount" in findings.slices else words["amount"]).replace("_", " ")
    fields = {**row, **params, **words}  # a column `p` must not pass for the parameter p
    fields["interval"] = interval_words(row, level, "{estimate:percent}" in template)
    said = fill(template, params, fields)
    overlap = " (The two overlap.)" if "overlap" in (row["note"] or "") else ""
    return f"{lead}{group}{said}{overlap}"

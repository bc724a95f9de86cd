"""Numbers, labels and reasons as people read them, and blanks of a sentence filled with them."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evenhand.findings import Findings, label

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
    "unshared_users": "only the users that both have are compared",
    "unpaired": "a saved result holds no requests, so whether the two share any is not known; compare results before saving them, "
    "or systems in one table (system=)",
    "other_level": "the two intervals are of different levels",
    "undefined_difference": "one of the two has no value, or both are infinite",
    "satisfied": "no ranking violates the constraint",
    "constant_input": "one of the inputs never varies",
    "nothing_shown": "nothing was shown",
    "nobody_treated": "nobody was treated",
    "reference": "the group that the others are compared with: no gap to itself",
    "reference_absent": "the reference group is absent",
    "no_common_support": "the groups' scores do not overlap",
    "collinear": "the group and the score cannot be told apart",
    "no_judged_requests": "nobody judged an item of these requests, so what is ideal is unknown",
    "unjudged_requests": "requests that nobody judged are left out",
    "nan_in_data": "the data hold missing amounts and nan_policy is 'propagate'",
    "suppressed": "fewer units than min_units, or beside one that has, so nothing is shown",
    "heavy_tail": "the largest amounts are so large that intervals may be too short and inequality is understated",
    "few_receivers": "so few units received anything that those who receive most may be missing from the data, and the interval "
    "does not know of them",
    "few_at_the_top": "fewer than five units make up the upper part, so the number is read off single units and its interval is "
    "rough",
    "few_units": "so few units that the interval is rough (a caution below 20, for the top p below 5/p) or cannot be made",
    "few_requests": "so few requests that the interval is rough: a caution below 20, none below 5",
    "few_viewers": "so few viewers that the interval is rough: a caution below 20, none below 5",
    "no_variation": "nothing varies in the sample, so it cannot say how sure the number is",
    "no_interval": "no interval is made for this figure",
    "part_of_a_unit": "the share is smaller than one unit, so the number is a part of what the largest one has",
    "infinite_draws": "some resamples have nothing on one side, and there the ratio is infinite",
    "bins_missing": "some score bins lack the group or the reference and are left out",
    "few_outcomes": "too few outcomes of one kind for a test or an interval",
    "permuted_labels": "so few rows or outcomes that p comes from labels dealt again within score bins, which is exact where "
    "scores within a bin do not depend on the group",
    "too_many_rows": "the rows are too many to be held one by one",
    "no_single_rows": "it needs the rows one by one, and the tally of a database holds none",
    "nobody_left_out": "the table does not say who was left out; name treated= or threshold=",
    "few_given_outcome": "too few rows of a group have the same outcome",
    "some_outcomes_skipped": "outcomes that few rows of a group have are left out",
    "small_cell": "too few rows for the interval to be trusted",
    "volume_changed": "the change altered volume itself (see volume_ratio), which moves inequality too; equal='amount' compares at "
    "the same amount",
    "sample_ratio_mismatch": "the arms' sizes do not fit the intended split, so something other than chance decided who is in "
    "which arm",
    "planned": "from a log without a change",
    "extrapolated": "beyond the log, by the trend within it",
    "may_share_units": "whether the two share units is not known, and so the error of the difference is not",
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
    "learned_from": "these requests were learned from, so no interval would be honest",
    "not_converged": "the search stopped before it was sure; pass more iterations",
    "out_of_reach": "the candidates do not allow the target, whatever the order",
    "ties_at_cut": "some users had items tied at their last slot, and which of them is shown is a convention (see ties)",
    "ties_at_edge": "the share's edge falls inside a block of equal amounts, where its error is rough",
}


DIRECTION = {
    "lower": "lower is more even",
    "higher": "higher is more even",
    "ideal": "closer to the ideal is more even",
    "": "neither direction is better in itself",
}


def number(value: float, digits: int = 4) -> str:
    """A number as people read it.

    >>> number(0.998728), number(1234567.0), number(float("nan")), number(3.0)
    ('0.9987', '1,234,567', 'undefined', '3')
    """
    if value is None or math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "infinitely negative"
    if value == round(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"
    if abs(value) < 1e-4:
        return f"{value:.{digits}g}"
    return f"{value:.{digits}f}" if abs(value) < 1 else f"{value:.{digits}g}"


def percent(value: float, digits_of: float | None = None) -> str:
    """A share in percent, with more digits near 0 and near 100; with `digits_of`, with as many as that share has.

    >>> percent(0.71), percent(0.01), percent(0.99498), percent(1.0), percent(0.0)
    ('71.0%', '1.00%', '99.498%', '100%', '0%')
    >>> percent(0.92671, digits_of=0.885), percent(0.99998, digits_of=0.885)
    ('92.7%', '99.998%')
    """
    if value is None or math.isnan(value) or math.isinf(value):
        return number(value)
    value = float(f"{value:.12g}") + 0.0  # so that 0.5825 reads the same however its last bits came about
    text = f"{100 * value:.{_percent_digits(value)}f}%"
    text = text.removeprefix("-") if not text.strip("-0.%") else text
    if digits_of is None or not math.isfinite(digits_of) or not _percent_digits(digits_of):
        return text
    first, last = _percent_digits(digits_of), _percent_digits(value)
    tries = (f"{100 * value:.{n}f}" for n in range(first, max(first, last) + 1))
    return next((f"{digits}%" for digits in tries if float(digits) not in (0, 100)), text)


def percent_like(share: float) -> Callable[[float], str]:
    """A formatter of shares in percent, with the digits of this one."""
    return lambda value: percent(value, share)


def _percent_digits(value: float) -> int:
    room = round(min(abs(value), abs(1 - value)) * 100, 12)
    return 0 if room < 1e-9 else min(6, max(0, 2 - math.floor(math.log10(room))))


def signed(value: float, show: Callable[[float], str]) -> str:
    """A difference with its sign; of shares in percentage points.

    >>> signed(0.02, percent), signed(-0.5, number)
    ('+2.00 points', '-0.5000')
    """
    sign = "+" if value > 0 else "-"
    size = str(show(abs(value)))
    return f"{sign}{size.removesuffix('%')} points" if size.endswith("%") else f"{sign}{size}"


def p_text(p: float) -> str:
    """A p-value as people quote it.

    >>> p_text(0.04), p_text(1e-9), p_text(1)
    ('0.0400', 'below 0.0001', '1')
    """
    return "below 0.0001" if p < 1e-4 else number(p)


def short_percent(value: float) -> str:
    """A share that somebody chose, without trailing zeros.

    >>> short_percent(0.01), short_percent(0.125)
    ('1%', '12.5%')
    """
    return f"{100 * value:.10g}%"


class _Words(string.Formatter):
    """Fills a card's sentence: `{p:percent}`, `{estimate:number}`, `{per_item:? per item}` (words for what is true)."""

    def format_field(self, value: Any, spec: str) -> Any:
        if spec.startswith("?"):
            return spec[1:] if value else ""
        return _FORMATS[spec](value) if spec in _FORMATS else super().format_field(value, spec)


_FORMATS: dict[str, Callable[[Any], str]] = {
    "percent": percent,
    "chosen": short_percent,
    "number": lambda value: number(float(value)),
    "p": lambda value: p_text(float(value)),
    "beyond": lambda value: "" if value < 0.05 else ", as happens without any bias too",
    "times": lambda value: number(math.exp(min(value, 700.0))),
}


def singular(unit: str) -> str:
    """The noun for one unit, from a column name."""
    return re.sub(r"[_ ]?(id|key|uuid)$", "", unit, flags=re.IGNORECASE).replace("_", " ").strip() or "unit"


def plural(unit: str) -> str:
    """The noun for several units, from a column name.

    >>> plural("author_id"), plural("query"), plural("units"), plural("search")
    ('authors', 'queries', 'units', 'searches')
    """
    noun = singular(unit)
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    if noun.endswith(("ch", "sh", "x", "z", "ss")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"


def counted(many: int, unit: str) -> str:
    """A count of units with its noun.

    >>> counted(1, "author_id"), counted(1200, "search")
    ('1 author', '1,200 searches')
    """
    return f"{many:,} {singular(unit) if many == 1 else plural(unit)}"


def slice_names(slices: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """One short name per row: the labels of its slice; a bare number comes with the name of its column.

    >>> slice_names(("by", "day"), {"by": ["likes", None], "day": [2, 3]})
    ['likes, day 2', '(missing), day 3']
    """

    def part(name: str, value: Any) -> str:
        bare = isinstance(value, (int, float)) or (isinstance(value, str) and value.replace(".", "", 1).isdigit())
        return f"{name} {value}" if bare else in_words(value)

    named = [(name, columns[name]) for name in slices if name in columns]
    size = len(next(iter(columns.values()), []))
    return [", ".join(part(name, column[i]) for name, column in named) for i in range(size)]


_BIN = re.compile(r"[\[(]([-+.\d]+(?:e[-+]?\d+)?), ([-+.\d]+(?:e[-+]?\d+)?|inf)\]")


def in_words(value: Any) -> str:
    """A label as people say it; that of a bin without its brackets.

    >>> in_words("(1343, 8133]"), in_words(None), in_words("likes")
    ('1,343 to 8,133', '(missing)', 'likes')
    """
    ends = _BIN.fullmatch(value) if isinstance(value, str) else None
    return f"{number(float(ends[1]))} to {number(float(ends[2]))}" if ends else label(value)


def bracketed(name: str) -> str:
    """A name in brackets, unless it has some already.

    >>> bracketed("likes"), bracketed("(missing)")
    ('(likes)', '(missing)')
    """
    return name if name.startswith("(") and name.endswith(")") else f"({name})"


def capitalized(text: str) -> str:
    """Text with its first letter in upper case; the others stay as they are."""
    return text[:1].upper() + text[1:]


def confidence_level(findings: Findings) -> float:
    """The level of the intervals, 0.95 unless the audit was asked for another."""
    return float(findings.provenance.get("level", 0.95))


def note_codes(note: str | None) -> list[str]:
    """The codes in a cell of the column `note`."""
    return [code.strip() for code in (note or "").split(";") if code.strip()]


def first_reason(note: str | None, otherwise: str = "") -> str:
    """The first code of a note in words."""
    code = next(iter(note_codes(note)), otherwise)
    return REASONS.get(code, code)


def fill(template: str, params: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    """A card's sentence with its blanks filled; parameters (`params`) are printed without trailing zeros.

    A part in square brackets is left out where one of its fields is missing.

    >>> fill("The top {p:percent} get {estimate:percent}.", {"p": 0.5}, {"p": 0.5, "estimate": 0.71})
    'The top 50% get 71.0%.'
    >>> fill("a[, {x}][, {y}]", {}, {"x": 1, "y": None})
    'a, 1'
    """
    for name in params:
        template = template.replace("{" + name + ":percent}", "{" + name + ":chosen}")
        template = template.replace("{" + name + ":number}", "{" + name + ":.10g}")

    def part(optional: re.Match[str]) -> str:
        values = [fields.get(name) for name in re.findall(r"{(\w+)", optional[1])]
        missing = any(v is None or (isinstance(v, float) and math.isnan(v)) for v in values)
        return "" if missing else optional[1]

    return _Words().vformat(re.sub(r"\[([^\[\]]*)\]", part, template), (), fields)


def left_out(findings: Findings) -> str:
    """Which rows or items are not in the numbers and why: scores outside those tested, items without a label."""
    shares = findings.provenance.get("unlabelled_share") or {}
    if most := max(shares.values(), default=0.0):
        where = "" if len(shares) == 1 else "up to "
        return f"{where}{percent(most)} of ranked items have no label and are left out.".capitalize()
    scope = findings.provenance.get("scope") or {}
    lost = int(scope.get("rows_outside") or 0)
    if not lost:
        return ""
    set_by = dict.fromkeys(map(str, scope.get("set_by") or []))
    by = f", set by {' and '.join(set_by)}" if set_by else ""
    rule = f"among the {scope['rule']}" if str(scope["rule"]).startswith("scores") else scope["rule"]
    ends = f"{number(scope['low'])} to {number(scope['high'])}"
    return f"{lost:,} of {lost + int(scope['rows']):,} rows are left out: their scores are not {rule} ({ends}{by})."


def who(group: Any) -> str:
    """The name of the group that a sentence is about."""
    return label(group) if group else "the protected group"

"""Numbers, nouns, labels and notes as people read them, and the blanks of a sentence filled with them."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evenhand.errors import plural, singular
from evenhand.findings import Findings, label, read_number

Row = Mapping[str, Any]

REASONS = {
    "empty": "there is nothing to measure",
    "single_member": "there is only one unit",
    "zero_total": "nobody received anything",
    "zero_weight": "all weights are zero",
    "zero_denominator": "the quantity in the denominator is zero",
    "zero_over_zero": "numerator and denominator are both zero",
    "zero_normalizer": "the largest possible value is zero",
    "one_group_only": "only one group is present",
    "group_absent": "a group is absent",
    "no_labelled_items": "no item has a group label",
    "too_short": "the list is too short",
    "no_relevant_in_group": "a group has no relevant item",
    "zero_utility": "all predicted scores are zero",
    "no_pairs": "there is no pair to compare",
    "few_systems": "too few systems: p cannot fall to 0.05 even if two metrics agree on all of them",
    "no_shared_request": "the two have no request in common",
    "unshared_requests": "only requests that both have are compared",
    "unpaired": "a saved result does not list its requests, so the two cannot be paired; compare results before saving them, or "
    "systems in one table (system=)",
    "other_level": "the two intervals have different confidence levels",
    "undefined_difference": "one of the two is undefined, or both are infinite",
    "satisfied": "no ranking violates the constraint",
    "constant_input": "one of the inputs is constant",
    "nothing_shown": "nothing was shown",
    "shown_to_one_group": "the versus group is shown an item that the protected group never is",
    "nobody_treated": "nobody was treated",
    "reference": "the reference group, which has no gap to itself",
    "reference_absent": "the reference group is absent",
    "no_common_support": "the groups' scores do not overlap",
    "collinear": "the group is determined by the score (collinear)",
    "no_judged_requests": "no item of these requests was judged, so the ideal is unknown",
    "unjudged_requests": "requests without judgments are excluded",
    "nan_in_data": "the data have missing amounts and nan_policy is 'propagate'",
    "suppressed": "fewer units than min_units, or could be used to work out a group that has fewer, so it is suppressed",
    "heavy_tail": "the largest amounts dominate, so intervals may be too short and inequality is understated",
    "few_receivers": "so few units received anything that the largest receivers may be missing from the data, which the interval "
    "does not account for",
    "few_at_the_top": "the top consists of fewer than five units, so the interval is rough",
    "few_units": "few units: the interval is rough (below 20 units; for the top p, below 5/p) or missing",
    "few_requests": "few requests: the interval is rough below 20 and missing below 5",
    "few_clusters": "few clusters: the interval is rough below 20 and missing below 5",
    "few_viewers": "few viewers: the interval is rough below 20 and missing below 5",
    "no_variation": "the sample has no variation, so its uncertainty cannot be estimated",
    "no_lone_user": "leaving out any one user does not change it, so its uncertainty cannot be estimated",
    "no_interval": "this figure has no interval",
    "no_permutation": "groups are too many to be permuted, so there is neither a chance level nor a test; merge the smallest",
    "part_of_a_unit": "the top is smaller than one unit, so the number is a fraction of what the largest unit has",
    "infinite_draws": "in some resamples one side has nothing, so the value is infinite",
    "bins_missing": "score bins without the group or the reference are excluded",
    "few_outcomes": "too few outcomes of one kind for a test or an interval",
    "pooled_labels": "labels that are few or partly wrong say nothing about a single request",
    "confusion_too_large": "with so many wrong labels the exposure of a group would be negative",
    "bound": "the range over labelings holds for every labeling and may be wider than any of them reaches",
    "permuted_labels": "few rows or outcomes, so p comes from permuting the labels within score bins (exact if scores within a bin "
    "do not depend on the group)",
    "too_many_rows": "too many rows to hold in memory",
    "no_single_rows": "it needs single rows, which a tally from a database does not have",
    "nobody_left_out": "the table does not say who was left out; pass treated= or threshold=",
    "few_given_outcome": "too few rows of a group have the same outcome",
    "some_outcomes_skipped": "outcomes that few rows of a group have are excluded",
    "small_cell": "too few rows for a reliable interval",
    "volume_changed": "the change also changed volume (see volume_ratio), which affects inequality; equal='amount' compares at the "
    "same amount",
    "sample_ratio_mismatch": "the arm sizes do not match the intended split, so assignment was not random",
    "planned": "from a log without a change",
    "extrapolated": "extrapolated beyond the log",
    "may_share_units": "the two may share units, so the standard error of the difference is unknown",
    "overlap": "the bottom share overlaps the top it is compared with",
    "constant_score": "the score is constant within the bin, so outcomes are compared without adjustment",
    "no_null": "no null distribution was simulated, so the number cannot be tested",
    "narrow_support": "less than half of the rows have a score that occurs in every group",
    "too_few_clusters": "too few clusters, or a few that outweigh the others, for this test or interval",
    "replication_invariant": "the paper says no because a percentage means another number of users in a larger population; "
    "read off the Lorenz curve, the value itself does not change when the population is replicated",
    "needs_overlap": "exact only with the overlap of the groups' ranges, which subgroup values do not give; the average of "
    "subgroup values in the paper's note 3 ignores it",
    "multiplicative": "exact as a product, 1 - A = (1 - within)(1 - between), not as the sum of the paper's note 3",
    "no_identity": "there is no known identity that rebuilds it from subgroups",
    "without_zeros": "undefined if some units received nothing, so checked on the others",
    "no_parameter": "it has no parameter to choose",
    "no_direction": "neither direction is more even",
    "needs_slices": "needs several slices or amounts to compare",
    "judgement": "a matter of judgement, not of measurement",
    "some_undefined": "requests without a value are excluded from the mean",
    "learned_from": "these requests were used for learning, so an interval would be too optimistic",
    "not_converged": "the search stopped before it converged; pass more iterations",
    "ties_at_cut": "some users had items tied at the last slot; which one is shown depends on ties=",
    "ties_at_edge": "the cut-off falls within equal amounts, so the standard error is rough",
}
"""The codes of the column `note` in words."""

DIRECTION = {
    "lower": "lower is more even",
    "higher": "higher is more even",
    "ideal": "closer to the ideal is more even",
    "": "neither direction is better in itself",
}


def number(value: float, digits: int = 4) -> str:
    """A number as people read it: with four digits, or with those it has where it was rounded to fewer.

    >>> number(0.998728), number(1234567.0), number(float("nan")), number(3.0), number(0.35), number(0.35001)
    ('0.9987', '1,234,567', 'undefined', '3', '0.35', '0.3500')
    """
    if value is None or math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "negative infinite"
    if value == round(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"
    if abs(value) < 1e-4:
        return f"{value:.{digits}g}"
    if (short := f"{value:.12g}") == f"{round(value, digits - 1):.12g}":  # rounded by somebody: zeros would claim more
        return short
    return f"{value:.{digits}f}" if abs(value) < 1 else f"{value:.{digits}g}"


def percent(value: float, digits_of: float | None = None) -> str:
    """A share in percent, with more digits near 0 and near 100; with `digits_of`, as many as that share has.

    >>> percent(0.71), percent(0.01), percent(0.99498), percent(1.0), percent(0.0)
    ('71.0%', '1.00%', '99.498%', '100%', '0%')
    >>> percent(0.92671, digits_of=0.885), percent(0.99998, digits_of=0.885)
    ('92.7%', '99.998%')
    """
    if value is None or math.isnan(value) or math.isinf(value):
        return number(value)

    def digits(share: float) -> int:
        room = round(min(abs(share), abs(1 - share)) * 100, 12)
        return 0 if room < 1e-9 else min(6, max(0, 2 - math.floor(math.log10(room))))

    value = float(f"{value:.12g}") + 0.0  # so that 0.5825 reads the same whatever its last bits
    text = f"{100 * value:.{digits(value)}f}%"
    text = text.removeprefix("-") if not text.strip("-0.%") else text
    if digits_of is None or not math.isfinite(digits_of) or not digits(digits_of):
        return text
    first = digits(digits_of)
    tries = (f"{100 * value:.{n}f}" for n in range(first, max(first, digits(value)) + 1))
    return next((f"{rounded}%" for rounded in tries if float(rounded) not in (0, 100)), text)


def rounded_percent(share: float) -> str:
    """A share in whole percent; finer only where that would round to 0% or 100%.

    >>> rounded_percent(0.9237), rounded_percent(0.0042), rounded_percent(0.9962), rounded_percent(1.0), rounded_percent(0.99998)
    ('92%', '0.42%', '99.6%', '100%', '99.998%')
    """
    if not 0 < share < 1:
        return f"{100 * share:.0f}%"
    room = 100 * min(share, 1 - share)
    digits = 0 if room >= 1 else min(6, -math.floor(math.log10(room)) + (share < 0.5))
    return f"{100 * share:.{digits}f}%"


def short_percent(value: float) -> str:
    """A share that somebody chose, without trailing zeros.

    >>> short_percent(0.01), short_percent(0.125)
    ('1%', '12.5%')
    """
    return f"{100 * value:.10g}%"


def one_in(bottom: float) -> str:
    """How many units there are for each one above the bottom share, with two digits.

    >>> one_in(0.99813), one_in(0.875), one_in(1.0)
    ('530', '8', 'infinitely many')
    """
    return "infinitely many" if bottom >= 1 else f"{float(f'{1 / (1 - bottom):.2g}'):,g}"


def one_in_words(bottom: float) -> str:
    return f"one in {one_in(bottom)}"


def ordinal(share: float) -> str:
    """A percentile as people say it.

    >>> ordinal(0.9), ordinal(0.01), ordinal(0.995)
    ('90th', '1st', '99.5th')
    """
    text = f"{100 * share:.10g}"
    ending = {"1": "st", "2": "nd", "3": "rd"}.get(text[-1], "th")
    return f"{text}{'th' if text in ('11', '12', '13') or '.' in text else ending}"


def signed(value: float, show: Callable[[float], str]) -> str:
    """A difference with its sign; of shares in percentage points.

    >>> signed(0.02, percent), signed(-0.5, number)
    ('+2.00 points', '-0.5')
    """
    sign = "+" if value > 0 else "-"
    size = str(show(abs(value)))
    return f"{sign}{size.removesuffix('%')} points" if size.endswith("%") else f"{sign}{size}"


def p_text(p: float) -> str:
    """A p-value as people quote it.

    >>> p_text(0.0412), p_text(1e-9), p_text(1)
    ('p = 0.041', 'p < 0.0001', 'p = 1')
    """
    return "p < 0.0001" if p < 1e-4 else f"p = {float(f'{p:.2g}'):g}"


FORMATS: dict[str, Callable[[Any], str]] = {
    "percent": percent,
    "chosen": short_percent,
    "rest": lambda share: short_percent(1 - share),
    "ordinal": ordinal,
    "one_in": one_in,
    "number": lambda value: number(float(value)),
    "p": lambda value: p_text(float(value)),
    "times": lambda value: number(math.exp(min(value, 700.0))),
    "per_1_percent": lambda derivative: f"{round(derivative / 100, 4) or derivative / 100:.1g}",
}
"""Formats of the blanks in a card's sentence."""


class _Words(string.Formatter):
    """Fills a card's sentence: `{p:percent}`, `{estimate:number}`, `{per_item:? per item}` (words for what is true)."""

    def format_field(self, value: Any, spec: str) -> Any:
        if spec.startswith("?"):
            return spec[1:] if value else ""
        return FORMATS[spec](value) if spec in FORMATS else super().format_field(value, spec)


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


def counted(many: int, unit: str) -> str:
    """A count of units with its noun.

    >>> counted(1, "author_id"), counted(1200, "search")
    ('1 author', '1,200 searches')
    """
    return f"{many:,} {singular(unit) if many == 1 else plural(unit)}"


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


_BIN = re.compile(r"[\[(]([-+.\d]+(?:e[-+]?\d+)?), ([-+.\d]+(?:e[-+]?\d+)?|inf)\]")


def in_words(value: Any) -> str:
    """A label as people say it; that of a bin without its brackets.

    >>> in_words("(1343, 8133]"), in_words(None), in_words("likes")
    ('1,343 to 8,133', '(missing)', 'likes')
    """
    edges = _BIN.fullmatch(value) if isinstance(value, str) else None
    return f"{number(float(edges[1]))} to {number(float(edges[2]))}" if edges else label(value)


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


def note_codes(note: str | None) -> list[str]:
    return [code.strip() for code in (note or "").split(";") if code.strip()]


def first_reason(note: str | None, otherwise: str = "") -> str:
    code = next(iter(note_codes(note)), otherwise)
    return REASONS.get(code, code)


def interval_text(low: Any, high: Any, show: Callable[[float], str] = number, *, level: float | None = None) -> str:
    """Both ends of an interval, named by its level if one is passed; empty where an end is missing.

    >>> interval_text(0.12, 0.34), interval_text(0.12, 0.34, level=0.95), interval_text(None, 0.34)
    ('0.12 to 0.34', '95% interval 0.12 to 0.34', '')
    """
    first, last = read_number(low), read_number(high)
    if math.isnan(first) or math.isnan(last):
        return ""
    name = "" if level is None else f"{short_percent(level)} interval "
    return f"{name}{show(first).removesuffix(' points')} to {show(last)}"  # a unit is printed once


def interval_in_brackets(findings: Findings, row: Row, show: Callable[[float], str] = number) -> str:
    """The interval of a row to append to its estimate; empty where there is none.

    >>> interval_in_brackets(Findings("inequality", "", (), {}), {"low": 0.12, "high": 0.34})
    ' (95% interval 0.12 to 0.34)'
    """
    text = interval_text(row["low"], row["high"], show, level=confidence_level(findings))
    return f" ({text})" if text else ""


def is_finite(value: Any) -> bool:
    return math.isfinite(read_number(value))


def has_interval(row: Row) -> bool:
    return is_finite(row["low"]) and is_finite(row["high"])


def interval(findings: Findings, row: Row, show: Callable[[float], str] = rounded_percent) -> str:
    """The interval of a row in rounded numbers; empty where an end is missing or infinite."""
    return interval_text(row["low"], row["high"], show, level=confidence_level(findings)) if has_interval(row) else ""


def intervals(findings: Findings, rows: Mapping[str, Row]) -> str:
    bounded = {name: row for name, row in rows.items() if has_interval(row)}
    if len(bounded) < 2:
        return "".join(interval(findings, row) for row in bounded.values())
    texts = (f"{name} {interval_text(row['low'], row['high'], rounded_percent)}" for name, row in bounded.items())
    return f"{short_percent(confidence_level(findings))} intervals: {', '.join(texts)}"


def word(findings: Findings, role: str, otherwise: str = "") -> str:
    """The name that a role has in the user's data, without underscores."""
    return str(findings.words.get(role) or otherwise or role).replace("_", " ")


def holders(findings: Findings) -> str:
    """The noun for the population of a Lorenz curve: the units; for a recommender the items, not its users."""
    return plural(word(findings, "holder", word(findings, "unit")))


def confidence_level(findings: Findings) -> float:
    """The level of the intervals, 0.95 unless the audit was asked for another."""
    return float(findings.provenance.get("level", 0.95))


def slice_labels(findings: Findings, columns: Mapping[str, Sequence[Any]] | None = None) -> list[str]:
    """One short label per row of the frame (or of a curve); empty text for an unsliced audit."""
    return slice_names(findings.slices, findings.columns if columns is None else columns)


def row_labels(findings: Findings) -> list[str]:
    groups = findings.columns.get("group", [None] * len(findings))
    pairs = zip(slice_labels(findings), groups, strict=True)
    return [", ".join(part for part in (where, "" if group is None else str(group)) if part) for where, group in pairs]


def named_slice(findings: Findings, row: Row, *, without: Sequence[str] = ()) -> str:
    """The slice of a row or a point, with the names of its columns: "source likes"."""
    names = [name for name in findings.slices if name not in without]
    return ", ".join(f"{name.replace('_', ' ')} {in_words(row[name])}" for name in names)


def slice_lead(findings: Findings, row: Row, *, without: Sequence[str] = ()) -> str:
    """The beginning of a sentence about one slice: "For source likes: "."""
    where = named_slice(findings, row, without=without)
    return f"For {where}: " if where else ""


def points(findings: Findings, curve: str) -> list[dict[str, Any]]:
    """The points of a curve as rows, each with the label of its slice under `where`; none where there is no curve."""
    columns = findings.curves.get(curve)
    if not columns:
        return []
    rows = zip(zip(*columns.values(), strict=True), slice_labels(findings, columns), strict=True)
    return [dict(zip(columns, point, strict=True)) | {"where": where} for point, where in rows]


_DAY = re.compile(r"\d{4}-\d\d(-\d\d([T ][\d:.+Z-]*)?)?")


def dated(findings: Findings) -> list[str]:
    return [
        name
        for name in findings.slices
        if len(findings) and all(_DAY.fullmatch(str(v)) for v in findings.columns[name])
    ]


def are_differences(findings: Findings) -> bool:
    """Whether estimates are differences of two values, which are further columns."""
    columns = {*findings.columns} - {*findings.slices}
    return any(pair <= columns for pair in ({"a", "b"}, {"treatment", "control_value"}))


def excluded(findings: Findings) -> str:
    """Which rows or items are not in the numbers and why: scores outside those tested, items without a label."""
    shares = findings.provenance.get("unlabelled_share") or {}
    if most := max(shares.values(), default=0.0):
        upto = "" if len(shares) == 1 else "Up to "
        return f"{upto}{percent(most)} of ranked items have no label and are excluded."
    scope = findings.provenance.get("scope") or {}
    lost = int(scope.get("rows_outside") or 0)
    if not lost:
        return ""
    set_by = dict.fromkeys(map(str, scope.get("set_by") or []))
    by = f", set by {' and '.join(set_by)}" if set_by else ""
    rule = f"among the {scope['rule']}" if str(scope["rule"]).startswith("scores") else scope["rule"]
    ends = f"{number(scope['low'])} to {number(scope['high'])}"
    return f"{lost:,} of {lost + int(scope['rows']):,} rows are excluded: their scores are not {rule} ({ends}{by})."

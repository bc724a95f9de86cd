"""Headlines of differences: arms of an experiment, two results, a history, and the cost of more even exposure."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import word
from evenhand.report.words.headlines import (
    Headline,
    Row,
    distinct_texts,
    headline,
    is_finite,
    named_slice,
    rounded_percent,
)
from evenhand.report.words.phrases import metric_title, value_format
from evenhand.report.words.sentences_experiment import (
    NOTHING,
    PLANNED,
    UNITS,
    arm_name,
    control_name,
    design,
    direction,
)
from evenhand.report.words.sentences_history import alarms
from evenhand.report.words.sentences_pairs import interval_and_p, side_names
from evenhand.report.words.sentences_rebalance import UNEVEN, evenness_metric, frontier
from evenhand.report.words.text import bracketed, capitalized, confidence_level, plural, short_percent, signed


def _significant(findings: Findings, rows: Sequence[Row]) -> list[Row]:
    """Rows whose adjusted p is below one minus the confidence level."""
    bound = round(1 - confidence_level(findings), 12)
    return [r for r in rows if read_number(r["p_adjusted"]) < bound]


def _difference(findings: Findings, row: Row) -> str:
    show = value_format(row["metric"])
    doubt = interval_and_p(row, confidence_level(findings), show)
    return f"A difference of {signed(row['estimate'], show)}{doubt}"


@headline("experiment")
def _experiment(findings: Findings) -> Headline | None:
    """Whether the change made it more even, by the first significant metric."""
    planned = design(findings) == PLANNED
    rows = [r for r in findings.rows() if is_finite(r["detectable" if planned else "estimate"])]
    if not rows:
        return None
    if planned:
        return _planned(findings, rows[0])
    significant = _significant(findings, rows)
    row = (significant or rows)[0]
    arm, control = arm_name(findings, row["arm"]), control_name(findings)
    treated_text, control_text = distinct_texts(row["metric"], row["treatment"], row["control_value"])
    where = named_slice(findings, row, without=("arm",))
    lead, amount = f"For {where}, " if where else "", word(findings, "amount", "it").replace("_", " ")
    at = "" if design(findings) in (NOTHING, UNITS) else " at equal volume"
    numbers = f"{metric_title(row['metric'])} {treated_text} against {control_text}{at}"
    if significant:
        side = direction(row["better"], row["estimate"])
        subject = f"the spread of {amount}" if "even" in side else "it"
        text = f"{lead}{subject} is {side} in {arm} than in {control}: {numbers}."
        opposite = [r for r in significant if direction(r["better"], r["estimate"]) != side]
        text += f" {len(opposite):,} of {len(rows):,} numbers point the other way." if opposite else ""
    else:
        text = f"{lead}no difference between {arm} and {control} is more than chance gives: {numbers}."
    cause = ". Nothing was randomised, so no cause can be told" if design(findings) == NOTHING else ""
    return Headline(capitalized(text), f"{_difference(findings, row)}{cause}", row=row)


def _planned(findings: Findings, row: Row) -> Headline:
    share = short_percent(float(findings.provenance["shares"][str(row["arm"])]))
    people = plural(findings.words.get("randomized") or "unit")
    least = signed(read_number(row["detectable"]), value_format(row["metric"])).lstrip("+")
    power = short_percent(float(findings.provenance["power"]))
    text = (
        f"With {share} of {people} in {arm_name(findings, row['arm'])}, a test as long as this log finds a change of {least} in "
        f"the {metric_title(row['metric'])}."
    )
    return Headline(text, f"In {power} of tests; smaller changes are mostly missed", row=row)


@headline("compare")
def _compare(findings: Findings) -> Headline | None:
    """How many numbers differ significantly, and the first of them."""
    rows = [r for r in findings.rows() if is_finite(r["estimate"])]
    if not rows:
        return None
    tested, significant = [r for r in rows if is_finite(r["p_adjusted"])], _significant(findings, rows)
    row = (significant or tested or rows)[0]
    (a_name, b_name), (a, b) = side_names(findings, row), distinct_texts(row["metric"], row["a"], row["b"])
    where = ", ".join(filter(None, [named_slice(findings, row, without=("system", "versus")), str(row["group"] or "")]))
    numbers = f"{f'for {where}, ' if where else ''}{metric_title(row['metric'])} is {a} in {a_name} and {b} in {b_name}"
    if significant:
        part = f"{len(significant):,} of {len(tested):,} numbers differ" if len(tested) > 1 else "The two differ"
        return Headline(f"{part} by more than chance gives: {numbers}.", _difference(findings, row), row=row)
    if tested:
        text = f"No difference is more than chance gives: {numbers}."
        return Headline(text, _difference(findings, row), row["metric"])
    return Headline(f"{capitalized(numbers)}.", "How far chance moves the difference is not known", row=row)


@headline("history")
def _history(findings: Findings) -> Headline | None:
    """How many of the watched quantities shifted for good, and the newest alarm."""
    watched, raised = int(findings.provenance.get("watched", 0)), alarms(findings)
    rate = short_percent(float(findings.provenance.get("rate", 0.05)))
    uncertainty = f"Each is watched with at most a {rate} chance of ever giving a false alarm"
    if not watched:
        return None  # too few days yet: the first sentence says so
    if not raised:
        many = f"None of the {watched:,} quantities that are watched has"
        which = many if watched > 1 else "The quantity that is watched has not"
        return Headline(f"{which} changed for good.", uncertainty)
    newest = raised[0]
    moved = len({(r["metric"], r["label"]) for r in raised})
    before, after = distinct_texts(newest["metric"], newest["before"], newest["after"])
    name = f"{metric_title(newest['metric'])} {bracketed(newest['label']) if newest['label'] else ''}".strip()
    verb = "rose" if newest["after"] > newest["before"] else "fell"
    lead = f"{moved:,} of {watched:,} quantities changed for good: " if watched > 1 else ""
    return Headline(f"{lead}{name} {verb} from {before} to {after} about {newest['since']}.", uncertainty)


@headline("rebalance")
def _rebalance(findings: Findings) -> Headline | None:
    """The cost and the gain of the strongest policy and of the weakest."""
    points, uneven = frontier(findings), UNEVEN[evenness_metric(findings)]
    if len(points) < 2:
        return None
    as_ranked, *steps = points
    first, last = steps[0], steps[-1]
    text = (
        f"Giving up {rounded_percent(max(0.0, 1 - last.relevance))} of the relevance moves the {uneven} from "
        f"{as_ranked.uneven:.2f} to {last.uneven:.2f}"
    )
    if first is not last:
        text += f"; {rounded_percent(max(0.0, 1 - first.relevance))} moves it to {first.uneven:.2f}"
    strengths = f"{last.strength:g}{'' if first is last else f' and {first.strength:g}'}"
    return Headline(f"{text}.", f"At strength {strengths}, on {last.requests}")

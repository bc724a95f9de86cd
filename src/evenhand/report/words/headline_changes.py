"""What changed, in a sentence: arms of an experiment, two results, a history, and what more evenness would cost."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import word
from evenhand.report.words.headlines import Row, Verdict, brief, is_known, judges, level_of, side_by_side, slice_of
from evenhand.report.words.phrases import metric_title
from evenhand.report.words.sentences_experiment import NOTHING, PLANNED, UNITS, design, in_arm, in_control, way
from evenhand.report.words.sentences_history import raised
from evenhand.report.words.sentences_pairs import doubt, shown, sides_of
from evenhand.report.words.sentences_rebalance import UNEVEN, aimed_at, frontier
from evenhand.report.words.text import aside, plural, short_percent, signed


def _sure(findings: Findings, rows: Sequence[Row]) -> list[Row]:
    """Rows whose difference is more than chance gives, all that were tested considered."""
    bound = round(1 - level_of(findings), 12)
    return [r for r in rows if read_number(r["p_adjusted"]) < bound]


def _difference(findings: Findings, row: Row) -> str:
    """How far apart, and how sure."""
    show = shown(row["metric"])
    return f"A difference of {signed(row['estimate'], show)}{doubt(row, level_of(findings), show)}"


@judges("experiment")
def _experiment(findings: Findings) -> Verdict | None:
    """Whether the change made it more even, by the first metric that says so beyond chance."""
    rows = [r for r in findings.rows() if is_known(r["detectable" if design(findings) == PLANNED else "estimate"])]
    if not rows:
        return None
    if design(findings) == PLANNED:
        return _planned(findings, rows[0])
    sure = _sure(findings, rows)
    row = (sure or rows)[0]
    arm, control = in_arm(findings, row), in_control(findings)
    mine, theirs = side_by_side(row["metric"], row["treatment"], row["control_value"])
    where = slice_of(findings, row, without=("arm",))
    lead, amount = f"For {where}, " if where else "", word(findings, "amount", "it").replace("_", " ")
    at = "" if design(findings) in (NOTHING, UNITS) else " at equal volume"
    numbers = f"{metric_title(row['metric'])} {mine} against {theirs}{at}"
    if sure:
        side = way(row["better"], row["estimate"])
        says = f"{lead}{f'the spread of {amount}' if 'even' in side else 'it'} is {side} in {arm} than in {control}: {numbers}."
        against = [r for r in sure if way(r["better"], r["estimate"]) != side]
        says += f" {len(against):,} of {len(rows):,} numbers point the other way." if against else ""
    else:
        says = f"{lead}no difference between {arm} and {control} is more than chance gives: {numbers}."
    cause = ". Nothing was randomised, so no cause can be told" if design(findings) == NOTHING else ""
    return Verdict(f"{says[0].upper()}{says[1:]}", f"{_difference(findings, row)}{cause}", row=row)


def _planned(findings: Findings, row: Row) -> Verdict:
    share = short_percent(float(findings.provenance["shares"][str(row["arm"])]))
    people = plural(findings.words.get("randomized") or "unit")
    least = signed(read_number(row["detectable"]), shown(row["metric"])).lstrip("+")
    power = short_percent(float(findings.provenance["power"]))
    says = (
        f"With {share} of {people} in {in_arm(findings, row)}, a test as long as this log finds a change of {least} in the "
        f"{metric_title(row['metric'])}."
    )
    return Verdict(says, f"In {power} of tests; smaller changes are mostly missed", row=row)


@judges("compare")
def _compare(findings: Findings) -> Verdict | None:
    """How many numbers differ by more than chance, and the first of them."""
    rows = [r for r in findings.rows() if is_known(r["estimate"])]
    if not rows:
        return None
    tested, sure = [r for r in rows if is_known(r["p_adjusted"])], _sure(findings, rows)
    row = (sure or tested or rows)[0]
    one, other = sides_of(findings, row)
    mine, theirs = side_by_side(row["metric"], row["a"], row["b"])
    where = ", ".join(filter(None, [slice_of(findings, row, without=("system", "versus")), str(row["group"] or "")]))
    numbers = (
        f"{f'for {where}, ' if where else ''}{metric_title(row['metric'])} is {mine} in {one} and {theirs} in {other}"
    )
    if sure:
        part = f"{len(sure):,} of {len(tested):,} numbers differ" if len(tested) > 1 else "The two differ"
        return Verdict(f"{part} by more than chance gives: {numbers}.", _difference(findings, row), row=row)
    if tested:
        return Verdict(
            f"No difference is more than chance gives: {numbers}.", _difference(findings, row), row["metric"]
        )
    return Verdict(f"{numbers[0].upper()}{numbers[1:]}.", "How far chance moves the difference is not known", row=row)


@judges("history")
def _history(findings: Findings) -> Verdict | None:
    """How many of the watched quantities moved for good, and the newest of them."""
    watched, told = int(findings.provenance.get("watched", 0)), raised(findings)
    rate = short_percent(float(findings.provenance.get("rate", 0.05)))
    sure = f"Each is watched with at most a {rate} chance of ever giving a false alarm"
    if not watched:
        return None  # too few days yet: the first sentence says so
    if not told:
        which = (
            f"None of the {watched:,} quantities that are watched has"
            if watched > 1
            else "The quantity that is watched has not"
        )
        return Verdict(f"{which} changed for good.", sure)
    newest = told[0]
    moved = len({(r["metric"], r["label"]) for r in told})
    before, after = side_by_side(newest["metric"], newest["before"], newest["after"])
    name = f"{metric_title(newest['metric'])} {aside(newest['label']) if newest['label'] else ''}".strip()
    verb = "rose" if newest["after"] > newest["before"] else "fell"
    lead = f"{moved:,} of {watched:,} quantities changed for good: " if watched > 1 else ""
    return Verdict(f"{lead}{name} {verb} from {before} to {after} about {newest['since']}.", sure)


@judges("rebalance")
def _rebalance(findings: Findings) -> Verdict | None:
    """What the strongest policy costs and gains, and what comes for next to nothing."""
    points, uneven = frontier(findings), UNEVEN[aimed_at(findings)]
    if len(points) < 2:
        return None
    before, *steps = points
    first, last = steps[0], steps[-1]
    start, *ends = (f"{p.uneven:.2f}" for p in (before, last, first))
    says = f"Giving up {brief(max(0.0, 1 - last.kept))} of the relevance moves the {uneven} from {start} to {ends[0]}"
    if first is not last:
        says += f"; {brief(max(0.0, 1 - first.kept))} moves it to {ends[1]}"
    return Verdict(
        f"{says}.", f"At strength {last.strength:g}{'' if first is last else f' and {first.strength:g}'}, on {last.on}"
    )

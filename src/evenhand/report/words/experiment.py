"""Sentences of experiments, of a change taken apart, and of what followers, wiring and ranking make of inequality."""

from __future__ import annotations

import math
from typing import Any

from evenhand.errors import listing, plural
from evenhand.findings import Findings, read_number
from evenhand.report.words.comparisons import (
    NOT_SIGNIFICANT,
    difference_text,
    most_significant,
    significance,
    significant_rows,
)
from evenhand.report.words.phrases import distinct_texts, metric_title, value_format
from evenhand.report.words.sentences import Headline, SentenceWriter, SideTable, headline
from evenhand.report.words.text import (
    Row,
    capitalized,
    first_reason,
    interval_in_brackets,
    is_finite,
    named_slice,
    note_codes,
    number,
    p_text,
    points,
    short_percent,
    signed,
    slice_lead,
    slice_names,
    word,
)

NOTHING, UNITS, PLANNED = "nothing randomised", "units randomised", "planned"
"""Designs that `provenance["design"]` names."""

CAUTIONS = (
    ("Interference", "Arms that share {units}, budgets or an index affect each other. A test that splits {randomized} cannot "
     "detect that."),
    ("Novelty", "People use new things differently at first. Measure again once the novelty has worn off."),
    ("Peeking", "p is valid for one look at a time fixed in advance. To look every day, keep a history (eh.history): its alarm "
     "is valid for any number of looks."),
    ("Many metrics", "p_adjusted is valid for all rows together (Holm); p for a single row only."),
)  # fmt: skip
NOT_CAUSAL = (
    "Nothing was randomised: this is what changed for the same {units}, whatever the reason, including season, supply and demand. "
    "eh.explain splits the change."
)


class ExperimentSentences(SentenceWriter, audit="experiment"):
    def sentences(self, findings: Findings) -> list[str]:
        return [*self.row_sentences(findings), *_for_all(findings)]

    def key_sentences(self, findings: Findings) -> list[str]:
        every = self.sentences(findings)
        return every if _design(findings) == PLANNED else most_significant(findings, every, _for_all(findings))

    def side_tables(self, findings: Findings) -> list[SideTable]:
        if _design(findings) == NOTHING:
            return []
        words = _nouns(findings)
        rows = tuple((name, text.format(**words)) for name, text in CAUTIONS)
        return [SideTable("Before you act on it", ("caution", "why"), rows)]

    def sentence(self, findings: Findings, row: Row) -> str:
        lead, show = slice_lead(findings, row, without=("arm",)), value_format(row["metric"])
        name = f"{lead}{metric_title(row['metric'])}"
        arm, estimate = _arm_name(findings, row["arm"]), read_number(row["estimate"])
        if _design(findings) == PLANNED:
            smallest = read_number(row["detectable"])
            if math.isnan(smallest):
                return f"{name} has no value on this log."
            share, power = (short_percent(v) for v in _share_and_power(findings, row))
            return (
                f"{name} (now {show(read_number(row['control_value']))}): with {share} of {_nouns(findings)['randomized']} in {arm} and a "
                f"log as long as this one, a test has {power} power for a difference of {signed(smallest, show).lstrip('+')}."
            )
        if math.isnan(estimate):
            return f"{name} cannot be compared: {first_reason(row['note'], 'undefined')}."
        treated, control = (show(read_number(row[k])) for k in ("treatment", "control_value"))
        past = " (adjusted for the period before)" if findings.provenance.get("before") else ""
        side = _direction(findings, row)
        significant = significance(findings, row)
        tested = (f": {side}" if side else "") + (f", {significant}" if significant else "")
        return (
            f"{name} is {treated} in {arm} and {control} in {_control_name(findings)}{_at_equal_volume(findings)}: "
            f"{difference_text(findings, row)}{past}{tested}.{_volume(findings, row)}"
        )


def _volume(findings: Findings, row: Row) -> str:
    raw, chance = (read_number(row[k]) for k in ("raw", "chance"))
    if math.isnan(chance) or abs(chance) <= abs(raw) / 20:
        return ""
    show = value_format(row["metric"])
    unequal = f"numbers of {_nouns(findings)['units']}" if _design(findings) == UNITS else "volume"
    return f" The raw difference is {signed(raw, show)}, of which unequal {unequal} alone would give {signed(chance, show)}."


def _changed_volumes(findings: Findings) -> list[str]:
    """For every arm whose change altered volume, by how much: it concerns all of its numbers."""
    unit, lines = _nouns(findings)["randomized"].removesuffix("s"), []
    for row in findings.rows():
        ratio = read_number(row.get("volume_ratio"))
        if "volume_changed" in note_codes(row["note"]) and abs(ratio - 1) > 0.02:  # 2% is not worth a word
            lead, arm = slice_lead(findings, row, without=("arm",)), _arm_name(findings, row["arm"])
            times = f"{number(ratio)} times that of {_control_name(findings)}"
            lines.append(f"{lead}Volume per {unit} in {arm} is {times}, which also affects inequality.")
    return list(dict.fromkeys(lines))


def _for_all(findings: Findings) -> list[str]:
    lines = _changed_volumes(findings)
    if ratio := findings.provenance.get("sample_ratio"):
        sizes = ", ".join(f"{arm} {n:,}" for arm, n in ratio["found"].items())
        verb = "does not match" if has_wrong_split(findings) else "matches"
        lines.append(f"The split ({sizes}) {verb} the design ({p_text(float(ratio['p']))}).")
    if _design(findings) == NOTHING:
        lines += [NOT_CAUSAL.format(**_nouns(findings)), *_parts(findings)]
    return lines


def _parts(findings: Findings) -> list[str]:
    """The three largest parts of the change of the first metric, as eh.explain has them."""
    sized = [r for r in points(findings, "parts") if is_finite(r["estimate"]) and r["estimate"]]
    rows = sorted(sized, key=lambda r: -abs(r["estimate"]))
    if not rows:
        return []
    show = value_format(rows[0]["metric"])
    parts = [f"{signed(r['estimate'], show)} from {name_of(findings, r)}" for r in rows[:3]]
    return [f"Of the change of the {metric_title(rows[0]['metric'])}: {listing(parts)}."]


def has_wrong_split(findings: Findings) -> bool:
    """Whether the sizes of the arms contradict the intended split, so that no number can be trusted."""
    return any("sample_ratio_mismatch" in note_codes(note) for note in findings.columns.get("note", ()))


def _design(findings: Findings) -> str:
    return str(findings.provenance.get("design", ""))


def _at_equal_volume(findings: Findings) -> str:
    return "" if _design(findings) in (NOTHING, UNITS) else " at equal volume"


def _share_and_power(findings: Findings, row: Row) -> tuple[float, float]:
    return float(findings.provenance["shares"][str(row["arm"])]), float(findings.provenance["power"])


def _nouns(findings: Findings) -> dict[str, str]:
    words = findings.words
    return {"units": plural(words.get("unit", "unit")), "randomized": plural(words.get("randomized") or "unit")}


def _arm_name(findings: Findings, arm: Any) -> str:
    """The name of an arm; a bare number comes with the name of its column."""
    column = str((findings.provenance.get("plan") or {}).get("arm") or "arm")
    return slice_names((column,), {column: [arm]})[0]


def _control_name(findings: Findings) -> str:
    return _arm_name(findings, findings.words.get("control", "control"))


def _direction(findings: Findings, row: Row) -> str:
    """Which way a difference points, by its claim: more or less even; empty where the claim is not made."""
    claim = findings.claim(row)
    if claim is None or not claim.made:
        return ""
    if row["better"] not in ("lower", "higher"):
        return claim.direction
    return "more even" if claim.direction == row["better"] else "less even"


@headline("experiment")
def _experiment(findings: Findings) -> Headline | None:
    planned = _design(findings) == PLANNED
    rows = [r for r in findings.rows() if is_finite(r["detectable" if planned else "estimate"])]
    if not rows:
        return None
    if planned:
        return _planned(findings, rows[0])
    if has_wrong_split(findings):
        ratio = findings.provenance.get("sample_ratio")  # withheld where min_units hides an arm
        p = f" ({p_text(float(ratio['p']))})" if ratio else ""
        return Headline(f"The arms are not split as intended{p}: find out why before reading any number.")
    significant = [row for _, row in sorted(significant_rows(findings), key=lambda r: r[0])]
    row = (significant or rows)[0]
    arm, control = _arm_name(findings, row["arm"]), _control_name(findings)
    treated_text, control_text = distinct_texts(row["metric"], row["treatment"], row["control_value"])
    where = named_slice(findings, row, without=("arm",))
    lead = f"for {where}, " if where else ""
    numbers = f"{metric_title(row['metric'])} {treated_text} against {control_text}{_at_equal_volume(findings)}"
    if significant:
        side = _direction(findings, row)
        subject = f"the spread of {word(findings, 'amount', 'it')}" if "even" in side else "it"
        text = f"{lead}{subject} is {side} in {arm} than in {control}: {numbers}."
        opposite = sum(_direction(findings, r) != side for r in significant)
        text += f" {opposite:,} of {len(rows):,} numbers point the other way." if opposite else ""
    else:
        text = f"{lead}no statistically significant difference between {arm} and {control}: {numbers}."
    cause = ". Nothing was randomised, so this is not evidence of a cause" if _design(findings) == NOTHING else ""
    return Headline(capitalized(text), f"{capitalized(difference_text(findings, row))}{cause}", row=row)


def _planned(findings: Findings, row: Row) -> Headline:
    share, power = (short_percent(v) for v in _share_and_power(findings, row))
    smallest = signed(read_number(row["detectable"]), value_format(row["metric"])).lstrip("+")
    text = (
        f"With {share} of {_nouns(findings)['randomized']} in {_arm_name(findings, row['arm'])}, a test as long as this log can detect a "
        f"change of {smallest} in the {metric_title(row['metric'])}."
    )
    return Headline(text, f"With {power} power; smaller changes are mostly missed", row=row)


ROBUST = ("without_largest", "without_top_1%")
KINDS = dict.fromkeys(("entry", "exit", "stayed"), "units")
"""Parts that are kinds of units: one way to split a change."""


class ExplainSentences(SentenceWriter, audit="explain"):
    def sentences(self, findings: Findings) -> list[str]:
        rows = [r for r in _distinct_rows(findings) if read_number(r["estimate"]) or r["part"] in ("change", *ROBUST)]
        return [*(self.sentence(findings, r) for r in rows), *_arms_apart(findings)]

    def key_sentences(self, findings: Findings) -> list[str]:
        rows = [r for r in _distinct_rows(findings) if r["part"] in ("change", *ROBUST) and is_finite(r["estimate"])]
        largest = [f"{capitalized(text)}." for text in _largest_parts(findings)]
        lines = [self.sentence(findings, r) for r in rows]
        return [*lines[:1], *largest, *lines[1:], *_arms_apart(findings)]

    def sentence(self, findings: Findings, row: Row) -> str:
        show, part = value_format(row["metric"]), row["part"]
        what = name_of(findings, row)
        if math.isnan(read_number(row["estimate"])):
            return f"{what}: {first_reason(row['note'], 'undefined')}."
        if part == "change":
            sides = distinct_texts(row["metric"], row["control_value"], row["treatment"])
            both = f"{sides[0]} in {word(findings, 'control')} and {sides[1]} in {word(findings, 'arm')}"
            tested = ", ".join(filter(None, [difference_text(findings, row), significance(findings, row)]))
            return f"{metric_title(row['metric'])} is {both}: {tested}."
        if part in ROBUST:
            tested = ", ".join(filter(None, [difference_text(findings, row), significance(findings, row)]))
            return f"{what}: {tested}."
        ends = interval_in_brackets(findings, row, lambda v: signed(v, show))
        return f"Of the change, {signed(row['estimate'], show)} comes from {what}{ends}."


def name_of(findings: Findings, row: Row) -> str:
    units, moved = plural(word(findings, "unit")), _first_mover(findings)
    names = {
        "change": "Change", "volume": "the different volume alone", "entry": f"{units} that entered", "exit": f"{units} that left",
        "stayed": f"{units} that stayed", "source": f"{word(findings, 'source')} {row['group']}",
        "group": f"{word(findings, 'group')} {row['group']}",
        ROBUST[0]: f"Without the {word(findings, 'unit')} that it goes with most{moved}",
        ROBUST[1]: f"Without the 1% of {units} that it goes with most",
    }  # fmt: skip
    return names[str(row["part"])]


def _largest_parts(findings: Findings) -> list[str]:
    """The largest part of each way to split the change, where that is more than one part."""
    parts = [KINDS.get(r["part"], r["part"]) for r in findings.rows() if read_number(r["estimate"])]
    ways = [(c.text, KINDS.get(c.where["part"], c.where["part"])) for c in findings.claims if c.direction == "most"]
    return [text for text, way in ways if parts.count(way) > 1]


def _first_mover(findings: Findings) -> str:
    """The unit that the change goes with most and its two amounts; nothing where nobody may be named."""
    movers = findings.curves.get("movers", {})
    if not movers.get("unit"):
        return ""
    before, after = (number(movers[name][0]) for name in ("before", "after"))
    amounts = f"{before} in {word(findings, 'control')}, {after} in {word(findings, 'arm')}"
    return f", {movers['unit'][0]} ({amounts})"


def _distinct_rows(findings: Findings) -> list[Row]:
    """Rows; where 1% of the units are one, the change is without the same one and said once."""
    rows = list(findings.rows())
    without = {r["part"]: r["estimate"] for r in rows}
    return [r for r in rows if r["part"] != ROBUST[1] or r["estimate"] != without.get(ROBUST[0])]


def _arms_apart(findings: Findings) -> list[str]:
    if "arms" not in findings.provenance:
        return []
    return [f"No {word(findings, 'unit')} is in both arms, so there are no parts. eh.experiment compares such arms."]


@headline("explain")
def _explain(findings: Findings) -> Headline | None:
    rows = {r["part"]: r for r in findings.rows() if r["part"] in ("change", *ROBUST) and is_finite(r["estimate"])}
    if "change" not in rows:
        return None
    change = rows["change"]
    values = distinct_texts(change["metric"], change["control_value"], change["treatment"])
    title, doubt = metric_title(change["metric"]), capitalized(difference_text(findings, change))
    sides = f"from {values[0]} in {word(findings, 'control')} to {values[1]} in {word(findings, 'arm')}"
    claim = findings.claim(change)
    if claim is None or not claim.made:
        tested = "No statistically significant change" if claim else "Change"
        return Headline(f"{tested} of the {title}: {sides}.", doubt, row=change)
    verb = "rose" if claim.direction == "higher" else "fell"
    for part, on in zip(
        ROBUST, (f"one {word(findings, 'unit')}", f"1% of {plural(word(findings, 'unit'))}"), strict=True
    ):
        fewer = findings.claim(rows[part]) if part in rows else None
        if fewer is not None and fewer.direction != claim.direction:
            rest = "the other way" if fewer.made else NOT_SIGNIFICANT
            return Headline(
                f"The change of the {title} ({sides}) rests on {on}: without {'it' if part == ROBUST[0] else 'them'}, it is "
                f"{signed(rows[part]['estimate'], value_format(change['metric']))}, {rest}.",
                doubt, row=change,
            )  # fmt: skip
    largest = "".join(f"; {text}" for text in _largest_parts(findings))
    return Headline(f"{title} {verb} {sides}{largest}.", doubt, row=change)


NAMES = {
    "followers": "With a neutral ranking on a rewired graph (numbers of followers alone)",
    "wiring": "Part of who follows whom",
    "ranking": "Part of the ranking",
}


class NetworkSentences(SentenceWriter, audit="network"):
    def sentence(self, findings: Findings, row: Row) -> str:
        show, lead = value_format(row["metric"]), slice_lead(findings, row, without=("part",))
        title, part = metric_title(row["metric"]), row["part"]
        if math.isnan(read_number(row["estimate"])):
            return f"{lead}{title} ({part}) is undefined: {first_reason(row['note'], 'undefined')}."
        if part == "observed":
            return f"{lead}{title} is {show(row['estimate'])}{interval_in_brackets(findings, row, show)}."
        if part == "followers":
            return f"{lead}{NAMES[part]}: {show(row['estimate'])}{interval_in_brackets(findings, row, show)}."
        ends = interval_in_brackets(findings, row, lambda v: signed(v, show))
        parts = [f"{signed(row['estimate'], show)}{ends}", significance(findings, row)]
        return f"{lead}{NAMES[part]}: {', '.join(filter(None, parts))}."


@headline("network")
def _network(findings: Findings) -> Headline | None:
    rows = list(findings.rows())[:4]
    if not all(is_finite(r["estimate"]) for r in rows):
        return None
    by_part = {r["part"]: r for r in rows}
    show, title = value_format(rows[0]["metric"]), metric_title(rows[0]["metric"])
    lead = slice_lead(findings, rows[0], without=("part",))
    sizes = " ".join(f"{signed(by_part[p]['estimate'], show)} {p}," for p in ("wiring", "ranking")).rstrip(",")
    text = f"{lead}{title} {show(by_part['observed']['estimate'])} = {show(by_part['followers']['estimate'])} followers, {sizes}"
    claims = [c for c in (findings.claim(by_part[p]) for p in ("ranking", "wiring")) if c is not None]
    texts = "; ".join(c.text for c in claims)
    return Headline(f"{capitalized(text)}{f': {texts}' if texts else ''}.", row=by_part["observed"])

"""The counterfactual of the outcome test in plain words: who would gain, and whether that is more than chance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from evenhand.findings import Findings
from evenhand.findings import number as read_number
from evenhand.present.text import REASONS, number, percent
from evenhand.present.text_outcome import Aside

Row = Mapping[str, Any]
PLAIN = {
    "outcome_before": "The slots as they were are worth an outcome of {}.",
    "outcome_after": "The slots given again are worth an outcome of {}.",
    "slots_before": "{group} hold {} slots.",
    "slots_after": "{group} would hold {} slots.",
    "mean_rank_before": "The mean rank of {group} is {}.",
    "mean_rank_after": "The mean rank of {group} would be {}.",
}


def sentences(findings: Findings) -> list[str]:
    """One sentence per row of the frame."""
    rows = list(findings.rows())
    return [sentence(findings, row, rows) for row in rows]


def headlines(findings: Findings) -> list[str]:
    """The change of the outcome against chance, and the slots that each group would gain."""
    rows = list(findings.rows())
    wanted = ("outcome_relative_change", "slots_gained", "mean_rank_change")
    chosen = wanted if findings.provenance.get("kind") == "ranking" else wanted[:2]
    return [sentence(findings, row, rows) for row in rows if row["metric"] in chosen]


def sentence(findings: Findings, row: Row, rows: list[dict[str, Any]]) -> str:
    """What one row says; a change always with what chance alone would give."""
    name, value = row["metric"], read_number(row["estimate"])
    group = row["group"] or ""
    if math.isnan(value):
        code = row["note"] or "undefined"
        return f"{name.replace('_', ' ')}{' of ' + group if group else ''} is undefined: {REASONS.get(code, code)}."
    if name in PLAIN:
        return PLAIN[name].format(number(value), group=group)
    if name.endswith("_null"):
        show = percent if name.startswith("outcome") else number
        what = name.removesuffix("_null").replace("_", " ")
        whose = f" of {group}" if group else ""
        return f"By chance alone the {what}{whose} would lie between {show(row['low'])} and {show(row['high'])}."
    if name == "outcome_relative_change":
        return _outcome(findings, row, rows)
    if name == "slots_relative_change":
        return f"The slots of {group} would change by {percent(value)}."
    return _moved(row, rows)


def _band(row: Row, rows: list[dict[str, Any]]) -> Row | None:
    wanted = f"{row['metric']}_null"
    return next((r for r in rows if r["metric"] == wanted and r["group"] == row["group"]), None)


def _outcome(findings: Findings, row: Row, rows: list[dict[str, Any]]) -> str:
    value, band = read_number(row["estimate"]), _band(row, rows)
    change = f"With the slots given again the outcome would change by {percent(value)}"
    if findings.provenance.get("counterfactual", {}).get("folds") == 1:
        change += " (predicted and valued with the same rows, so it cannot be below zero)"
    if findings.provenance.get("candidates") == findings.provenance.get("slots"):
        return f"{change}, for there is nobody without a slot whom it could go to (only the order can change)."
    if band is None or _absent(band["low"]):
        return f"{change}; without a band of changes by chance this says little."
    chance = f"without any group difference chance alone gives {percent(band['low'])} to {percent(band['high'])}"
    if value > max(band["high"], 0):
        return f"{change}; {chance}, so this is a rise beyond chance."
    if value > band["high"]:
        return f"{change}; {chance}: to know the groups helps beyond chance, but not enough for a rise."
    return f"{change}; {chance}, so no rise can be told."


def _moved(row: Row, rows: list[dict[str, Any]]) -> str:
    value, band, group = read_number(row["estimate"]), _band(row, rows), row["group"]
    if row["metric"] == "slots_gained":
        said = f"{group} would {'gain' if value >= 0 else 'lose'} {number(abs(value))} slot{'' if abs(value) == 1 else 's'}"
    else:
        way = "further down" if value > 0 else "further up"
        said = f"The mean rank of {group} would be {number(abs(value))} places {way}, over other candidates than before"
    if band is None or _absent(band["low"]):
        return f"{said}."
    if row["note"] == "small_cell":
        said += f" ({number(row['units'])} slots before, too few to build on)"
    inside = band["low"] <= value <= band["high"]
    chance = f"chance alone gives {number(band['low'])} to {number(band['high'])}"
    return f"{said}; {chance}, so this {'can be chance' if inside else 'is more than chance'}."


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def asides(findings: Findings) -> list[Aside]:
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

"""What changes when slots go to those with the highest predicted outcome: slots, mean ranks and outcome, before and after."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.tallies.candidates import Allocation, Change

EXAMPLE = Change(Allocation.from_arrays([10, 5], [2, 3], 6.0), Allocation.from_arrays([12, 3], [2.5, 1], 6.6))
"""Two groups with 10 and 5 slots at mean ranks 2 and 3, and with 12 and 3 slots after the change (for doctests)."""


def _card(name: str, title: str, question: str, formula: str, sentence: str = "", **more: Any) -> Card:
    """Card of a figure of a counterfactual."""
    usual: dict[str, Any] = {
        "span": (-math.inf, math.inf), "ideal": math.nan, "better": "", "undefined": "never", "needs": Change,
        "references": ("yu2022",), "family": "outcome", "example": "a group holds 10 slots, and 12 after reallocation",
    }  # fmt: skip
    return Card(name=name, title=title, asks=question, formula=formula, says=sentence, **usual | more)


@metric(_card(
    "slots_before", "Slots before reallocation", "How many slots does the group hold?", r"N^g",
    "{group} has {estimate:number} slots.",
    span=(0.0, math.inf),
))  # fmt: skip
def slots_before(c: Change) -> Floats:
    """Slots of each group.

    >>> slots_before.on(EXAMPLE).tolist()
    [10.0, 5.0]
    """
    return c.before.slots


@metric(_card(
    "slots_after", "Slots after reallocation", "How many slots would the group hold?", r"N^g_{cf}",
    "{group} would hold {estimate:number} slots.",
    span=(0.0, math.inf),
))  # fmt: skip
def slots_after(c: Change) -> Floats:
    """Slots of each group when they go to the highest predicted outcomes.

    >>> slots_after.on(EXAMPLE).tolist()
    [12.0, 3.0]
    """
    return c.after.slots


@metric(_card(
    "slots_gained", "Slots gained", "How many slots would the group gain?", r"N^g_{cf} - N^g",
    variants=("Never read it without `slots_gained_null`, what chance alone gives.",),
))  # fmt: skip
def slots_gained(c: Change) -> Floats:
    """Slots that each group gains.

    >>> slots_gained.on(EXAMPLE).tolist()
    [2.0, -2.0]
    """
    return np.asarray(c.after.slots - c.before.slots)


@metric(_card(
    "slots_relative_change", "Relative change of slots", "By what share of its slots would the group gain?",
    r"(N^g_{cf} - N^g) / N^g",
    span=(-1.0, math.inf),
    undefined="the group holds no slot", otherwise="zero_denominator",
))  # fmt: skip
def slots_relative_change(c: Change) -> Floats:
    """Slots gained over slots held (the source's N%Δ, as a fraction).

    >>> slots_relative_change.on(EXAMPLE).tolist()
    [0.2, -0.4]
    """
    before = np.where(c.before.slots > 0, c.before.slots, np.nan)
    return np.asarray((c.after.slots - before) / before)


@metric(_card(
    "mean_rank_before", "Mean rank as it was", "At what mean rank are the group's slots?", r"\bar r^g",
    "The mean rank of {group} is {estimate:number}.",
    span=(1.0, math.inf),
    undefined="the group holds no slot", otherwise="nothing_shown",
))  # fmt: skip
def mean_rank_before(c: Change) -> Floats:
    """Mean place of each group's slots.

    >>> mean_rank_before.on(EXAMPLE).tolist()
    [2.0, 3.0]
    """
    return c.before.rank


@metric(_card(
    "mean_rank_after", "Mean rank after reallocation", "At what mean rank would they be?", r"\bar r^g_{cf}",
    "The mean rank of {group} would be {estimate:number}.",
    span=(1.0, math.inf),
    undefined="the group holds no slot", otherwise="nothing_shown",
))  # fmt: skip
def mean_rank_after(c: Change) -> Floats:
    """Mean place of each group's slots when they are reallocated.

    >>> mean_rank_after.on(EXAMPLE).tolist()
    [2.5, 1.0]
    """
    return c.after.rank


@metric(_card(
    "mean_rank_change", "Change of the mean rank", "Would the group move up or down?", r"\bar r^g_{cf} - \bar r^g",
    undefined="the group holds no slot", otherwise="nothing_shown",
    variants=("Below zero is up. It is over a changed set: new members enter last, so a group that gains slots can fall.",),
))  # fmt: skip
def mean_rank_change(c: Change) -> Floats:
    """How far each group's mean place moves; negative is up.

    >>> mean_rank_change.on(EXAMPLE).tolist()
    [0.5, -2.0]
    """
    return np.asarray(c.after.rank - c.before.rank)


@metric(_card(
    "outcome_before", "Outcome before reallocation", "What are the slots worth as they were?", r"\sum_i Y_i",
    "The slots before reallocation are worth an outcome of {estimate:number}.",
))  # fmt: skip
def outcome_before(c: Change) -> Floats:
    """Outcomes that are expected of those who hold the slots, added up.

    >>> float(outcome_before.on(EXAMPLE))
    6.0
    """
    return c.before.outcome


@metric(_card(
    "outcome_after", "Outcome after reallocation", "What would the slots be worth?", r"\sum_i \hat Y_i",
    "The reallocated slots are worth an outcome of {estimate:number}.",
))  # fmt: skip
def outcome_after(c: Change) -> Floats:
    """Outcome if slots went to the highest predicted outcomes.

    >>> float(outcome_after.on(EXAMPLE))
    6.6
    """
    return c.after.outcome


@metric(_card(
    "outcome_relative_change", "Relative change of the outcome", "By what share would the outcome rise?",
    r"(\sum \hat Y_{cf} - \sum Y) / \sum Y",
    undefined="there was no outcome", otherwise="zero_denominator",
    variants=(
        "As printed in the source (folds=1) it is never below zero, bias or not: never read it without "
        "`outcome_relative_change_null`.",
    ),
))  # fmt: skip
def outcome_relative_change(c: Change) -> Floats:
    """Change of the outcome over what it was (the source's Y%Δ, as a fraction).

    >>> round(float(outcome_relative_change.on(EXAMPLE)), 9)
    0.1
    """
    return c.outcome_change


def _null(name: str, of: str) -> Card:
    return _card(
        f"{name}_null", f"{of}, by chance", f"What would chance alone make of the {of.lower()}?",
        r"\mathrm{median}_d \text{ over draws without a group difference}", undefined="no draw has it",
        otherwise="zero_denominator", variants=("Its low and high are the band that chance alone passes rarely.",),
    )  # fmt: skip


@metric(_null("slots_gained", "Slots gained"))
def slots_gained_null(c: Change) -> Floats:
    """Median over draws (the first axis) of the slots gained where groups do not differ.

    >>> held, given = Allocation.from_arrays([[10], [10], [10]], 1, 0), Allocation.from_arrays([[9], [11], [12]], 1, 0)
    >>> slots_gained_null.on(Change(held, given)).tolist()
    [1.0]
    """
    return np.asarray(np.nanmedian(c.after.slots - c.before.slots, axis=0))


@metric(_null("mean_rank_change", "Change of the mean rank"))
def mean_rank_change_null(c: Change) -> Floats:
    """Median over draws of the change of the mean rank where groups do not differ.

    >>> held, given = Allocation.from_arrays(0, [[2], [2], [2]], 0), Allocation.from_arrays(0, [[2], [3], [3]], 0)
    >>> mean_rank_change_null.on(Change(held, given)).tolist()
    [1.0]
    """
    return np.asarray(np.nanmedian(c.after.rank - c.before.rank, axis=0))


@metric(_null("outcome_relative_change", "Relative change of the outcome"))
def outcome_relative_change_null(c: Change) -> Floats:
    """Median over draws of the change of the outcome where groups do not differ.

    >>> float(outcome_relative_change_null.on(Change(Allocation.from_arrays(0, 0, [4, 4, 4]), Allocation.from_arrays(0, 0, [4, 5, 6]))))
    0.25
    """
    return np.asarray(np.nanmedian(c.outcome_change, axis=0))

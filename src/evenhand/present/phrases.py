"""Sentences for figures that are parts of a metric and have no card of their own, by audit and name."""

from __future__ import annotations

PHRASES: dict[tuple[str, str], str] = {
    ("sources", "share"): "{group} brings {estimate:percent} of all {amount}{interval}.",
    ("sources", "own_gini"): "The Gini index of {amount} from {group} alone is {estimate:number}{interval}.",
    ("sources", "correlation"): (
        "How much {units} get from {group} follows the order of their totals to the degree {estimate:number}{interval}; "
        "1 is the same order, -1 the opposite."
    ),
    ("sources", "contribution"): "{group} contributes {estimate:number} to the Gini index{interval}.",
    ("sources", "marginal"): (
        "If {group} grew by a small part, the Gini index would move by {estimate:number} times that part{interval}; "
        "below zero is towards equality."
    ),
    ("decompose", "total"): "The {index} index of {amount} over {units} is {estimate:number}{interval}.",
    ("decompose", "within"): "Within groups the {index} index is {estimate:number}{interval}.",
    ("decompose", "between"): "Between the groups' means it is {estimate:number}{interval}.",
    ("decompose", "overlap"): "Groups whose ranges interleave account for {estimate:number}{interval}.",
    ("decompose", "index"): "Within {group} alone the {index} index is {estimate:number}{interval}.",
    ("decompose", "share"): "{group} gets {estimate:percent} of all {amount}{interval}.",
    ("decompose", "population_share"): "{group} is {estimate:percent} of all {units}{interval}.",
}
"""The blanks are those of a card's `says`, and `{group}`."""

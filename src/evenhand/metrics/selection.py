"""Selection rates of categories, and their ratios to the highest."""

from __future__ import annotations

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.tallies.selections import Selections


@metric(Card(
    name="selection_rate", symbol="p_g", title="Selection rate", needs=Selections, span=(0.0, 1.0), ideal=np.nan, better="",
    asks="What share of a category was selected, or scored above the median?",
    undefined="the category is empty", otherwise="empty",
    formula=r"x_g / n_g", example="12 of 40 -> 0.3", family="selection",
))  # fmt: skip
def selection_rate(s: Selections, which: int = 0) -> Floats:
    """Selected candidates of a category, over its candidates.

    >>> selection_rate([12, 6], total=[40, 40])
    0.3
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(s.selected[..., which] / s.total[..., which])


@metric(Card(
    name="impact_ratio", symbol="IR_g", title="Impact ratio", needs=Selections, span=(0.0, 1.0), ideal=1.0, better="higher",
    asks="How large is the selection rate of a category, relative to the highest of any category?",
    undefined="nobody was selected, or the category is empty", otherwise="zero_denominator",
    formula=r"\frac{x_g / n_g}{\max_h x_h / n_h}", example="6 of 40, against 12 of 40 -> 0.5", family="selection",
    variants=(
        "Which category is the highest is decided by the data; its own ratio is 1 by definition. Intervals take it as given, and the "
        "tests pay for the choice.",
        "Scoring rates put the share above the median score of all candidates in place of the share selected.",
    ),
))  # fmt: skip
def impact_ratio(s: Selections, which: int = 1) -> Floats:
    """Selection rate of a category, over the highest selection rate.

    >>> impact_ratio([12, 6], total=[40, 40])
    0.5
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = s.selected / s.total
        return np.asarray(rates[..., which] / np.nanmax(rates, axis=-1))

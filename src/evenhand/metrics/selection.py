"""Selection rates and their ratios, and what other fairness measures see in small worlds of known qualifications."""

from __future__ import annotations

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.tallies.selections import Qualifications, ScoredGroups, Selections


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


@metric(Card(
    name="average_outcome", symbol="E[Y | T, g]", title="Average outcome", needs=Qualifications,
    span=(-np.inf, np.inf), ideal=np.nan, better="",
    asks="What do those who got the opportunity achieve on average?",
    undefined="nobody is at or above the bar", otherwise="nobody_treated",
    formula=r"\sum_{q \ge bar} q\, m_q / \sum_{q \ge bar} m_q", example="{0.6: 2, 0.8: 1, 1: 1}, bar 0.6 -> 0.75",
    variants=(
        "Also called precision. It mixes the bar with how qualified the group is above the bar (infra-marginality), "
        "so equal values do not show an equal bar and unequal ones do not show an unequal bar.",
    ),
    references=("yu2022",), family="outcome",
))  # fmt: skip
def average_outcome(q: Qualifications, bar: float = 0.0) -> Floats:
    """Mean qualification of everyone at or above the bar: what precision measures.

    Figure 1 of the source: one bar for both groups, and yet the averages differ.

    >>> average_outcome({0.6: 2, 0.8: 1, 1.0: 1}, 0.6)
    0.75
    >>> round(average_outcome({0.6: 4, 0.8: 5, 1.0: 3}, 0.6), 4)
    0.7833
    """
    mass = np.where(q.values >= bar, q.mass, 0.0)
    return np.asarray((mass * q.values).sum() / mass.sum())


@metric(Card(
    name="marginal_outcome", symbol="E[Y | M, g]", title="Marginal outcome", needs=Qualifications,
    span=(-np.inf, np.inf), ideal=np.nan, better="",
    asks="What does the least qualified candidate achieve who still got the opportunity?",
    undefined="nobody is at or above the bar", otherwise="nobody_treated",
    formula=r"\min \{q \ge bar : m_q > 0\}", example="{0.6: 4, 0.8: 5, 1: 3}, bar 0.6 -> 0.6",
    variants=("It traces out the bar that a group must clear, whatever its distribution above the bar.",),
    references=("yu2022",), family="outcome",
))  # fmt: skip
def marginal_outcome(q: Qualifications, bar: float = 0.0) -> Floats:
    """Qualification of the least qualified candidate at or above the bar.

    >>> marginal_outcome({0.6: 2, 0.8: 1, 1.0: 1}, 0.6), marginal_outcome({0.6: 4, 0.8: 5, 1.0: 3}, 0.6)
    (0.6, 0.6)
    """
    treated = q.values[(q.values >= bar) & (q.mass > 0)]
    return np.asarray(treated.min() if len(treated) else np.nan)


@metric(Card(
    name="equalized_odds_gap", symbol="EO", title="Equalised odds gap", needs=ScoredGroups,
    span=(0.0, 1.0), ideal=0.0, better="lower",
    asks="Given the outcome, how differently are the groups scored?",
    undefined="a group is absent, or has no mass with one of the outcomes", otherwise="zero_denominator",
    formula=r"\max_{g,h,s,r} |P(s \mid g, Y=r) - P(s \mid h, Y=r)|",
    example="scores equal to qualifications, masses 4, 5, 3 against 2, 1, 1 above the bar -> at least 1/6",
    variants=(
        "It mixes scoring with qualification: groups that differ in qualification have a gap under perfect scores, and "
        "groups can have none while one is under-scored at every score.",
    ),
    references=("yu2022",), family="outcome",
))  # fmt: skip
def equalized_odds_gap(g: ScoredGroups) -> Floats:
    """Largest difference between two groups in the share that holds a score, given the outcome.

    No gap, and yet X is under-scored at every score (16/17 scored 0.8, 1/2 scored 0.2):

    >>> o = [(25, 0.8, 0.8), (25, 0.2, 0.2)]
    >>> x = [(34, 0.8, 16 / 17), (16, 0.2, 0.5)]
    >>> round(equalized_odds_gap({"O": o, "X": x}), 12)
    0.0
    """
    if g.reason():
        return np.asarray(np.nan)
    outcomes = [mass for mass in (g.success, g.failure) if mass.any()]  # an outcome that nobody has constrains nothing
    return np.asarray(np.max([np.ptp(mass / mass.sum(-1, keepdims=True), axis=0).max() for mass in outcomes]))

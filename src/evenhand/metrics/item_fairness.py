"""Are single items shown alike? Measures that rampisela2024 gathers, with the ends that a number of slots allows.

Their correction of a measure is its place between those ends: (estimate - least) / (most - least), two columns of every row.
"""

from __future__ import annotations

import math

import numpy as np

from evenhand.cards import Card, Floats, metric
from evenhand.metrics.catalogue import aggregate_diversity, exposure_entropy
from evenhand.metrics.inequality import gini
from evenhand.metrics.recommender import SHOWN
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.spectrum import Spectrum
from evenhand.tallies.user_lists import Lists

SOURCE = ("rampisela2024",)


@metric(Card(
    name="jain_index", symbol="Jain", title="Jain's index over items", needs=Crosstab, compact=True,
    span=(0.0, 1.0), ideal=1.0, better="higher",
    asks="What share of the catalogue, shown equally often, would be as even as this?",
    undefined="nothing was shown", otherwise="zero_total",
    says="By Jain's index, exposure is as uneven as if {estimate:percent} of the catalogue shared it equally{interval}.",
    formula=r"J = \frac{(\sum_j c_j)^2}{n \sum_j c_j^2}", example="times shown 0, 0, 0, 10 -> 0.25",
    variants=(
        "1 / (n HHI), and 1 / (1 + CV^2): the same order of systems as the Herfindahl index.",
        "Neither end is within reach of every volume: k of n items is the least for lists of k, and 1 needs slots that n divides.",
    ),
    references=(*SOURCE, "jain1984"), family="spread over the catalogue", reads=SHOWN,
))  # fmt: skip
def jain_index(t: Crosstab) -> Floats:
    r"""Squared sum of the times each item is shown, over n times the sum of squares.

    >>> jain_index([[1, 0, 0, 0], [1, 0, 0, 0]], threshold=0.5)
    0.25
    """
    spectrum = t.spectrum
    return np.asarray(spectrum.total**2 / (t.items * spectrum.sum_of(spectrum.values**2)))


@metric(Card(
    name="satisfied_items", symbol="FSat", title="Fraction of satisfied items", needs=Crosstab, compact=True,
    span=(0.0, 1.0), ideal=1.0, better="higher",
    asks="What share of the items gets at least its equal share of the slots?",
    undefined="nothing was shown", otherwise="zero_total",
    says="{estimate:percent} of the items get at least their equal share of the slots{interval}.",
    formula=r"\mathrm{FSat} = |\{j : c_j \ge \lfloor \textstyle\sum_i c_i / n \rfloor\}| / n",
    example="times shown 2, 1, 1, 0 -> 0.75",
    variants=(
        "With fewer slots than items the equal deal is 0, and every catalogue is satisfied: no room between least and most.",
        "The source takes k/n for the least that lists of k allow; fewer is possible (10 items, 4 lists of 5: 4, not 5, satisfied).",
    ),
    references=(*SOURCE, "patro2020"), family="reach of the catalogue", reads=SHOWN,
))  # fmt: skip
def satisfied_items(t: Crosstab) -> Floats:
    r"""Share of the items shown at least as often as an equal deal of the slots would show each.

    That is :math:`\lfloor \sum_i c_i / n \rfloor` times, the maximin share.

    >>> satisfied_items([[1, 1, 0, 0], [1, 0, 1, 0]], threshold=0.5)
    0.75
    """
    spectrum = t.spectrum
    enough = spectrum.values.round(9) >= _dealt(spectrum.total, t.items)[..., None]
    return np.asarray(np.where(spectrum.total > 0, spectrum.sum_of(enough.astype(np.float64)) / t.items, np.nan))


@metric(Card(
    name="count_disparity", symbol="VoCD", title="Disparity of counts between shown items", needs=Crosstab,
    compact=True,
    span=(0.0, 1.0), ideal=0.0, better="lower",
    asks="Of two items that are shown at all, how much less often is the rarer one shown?",
    undefined="fewer than two items are shown",
    otherwise=lambda t, **_: "single_member" if t.popularity.any() else "zero_total",
    says="Of two shown items, the less shown one is shown {estimate:percent} less often on average{interval}.",
    formula=r"\mathrm{VoCD} = \binom{m}{2}^{-1} \sum_{i<j,\ c_i, c_j > 0} \frac{|c_i - c_j|}{\max(c_i, c_j)}",
    example="times shown 0, 1, 2, 4 -> 0.5833",
    variants=(
        "Items that are never shown are left out: showing the same few items equally often is perfect. Read it beside reach.",
        "The variation of coverage disparity of Zhu et al., over all pairs: without their clusters of similar items.",
    ),
    references=SOURCE, family="spread over the catalogue", reads=SHOWN,
))  # fmt: skip
def count_disparity(t: Crosstab) -> Floats:
    """Mean over pairs of shown items of their difference in times shown, over the larger.

    >>> round(count_disparity([[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 1, 0]], threshold=0.5), 4)
    0.5833
    """
    c, is_shown = t.spectrum.values, t.spectrum.values > 0
    mass = t.spectrum.counts * is_shown
    below, shown_below = mass.cumsum(-1) - mass, (mass * c).cumsum(-1) - mass * c
    disparity = (mass * (below - shown_below / np.where(is_shown, c, 1.0))).sum(-1)
    many = mass.sum(-1)
    return np.asarray(disparity / (many * (many - 1) / 2))


@metric(Card(
    name="ai_disparity", symbol="AI-D", title="Disparity of items over all users", needs=Lists,
    span=(0.0, math.inf), ideal=0.0, better="lower",
    asks="How unequal is the attention that items get from all users together?",
    undefined="there are no users or no items", otherwise="empty",
    formula=r"\mathrm{AI\text{-}D} = \frac1n \sum_j \Big(\frac1{|U|}\sum_u e_{uj} - \bar e\Big)^2",
    example="lists 0 and 1 of two items -> 0",
    variants=("At most ii_disparity, where every user is shown the same list; 0 where all items get alike.",),
    references=(*SOURCE, "wu2022"),
))  # fmt: skip
def ai_disparity(t: Lists) -> Floats:
    """Variance over items of the attention that users give each on average.

    >>> ai_disparity([[0], [1]], items=2), ai_disparity([[0], [0]], items=2)
    (0.0, 0.25)
    """
    return np.asarray(np.mean((t.received - t.received.mean()) ** 2) if t.received.size else np.nan)


@metric(Card(
    name="ii_disparity", symbol="II-D", title="Disparity of items user by user", needs=Lists,
    span=(0.0, math.inf), ideal=0.0, better="lower",
    asks="How unequal is the attention that items get from each single user?",
    undefined="there are no users or no items", otherwise="empty",
    formula=r"\mathrm{II\text{-}D} = \frac1{n|U|} \sum_{u,j} (e_{uj} - \bar e)^2",
    example="one item each of two -> 0.25",
    variants=(
        "It tells no two systems apart that show lists of one length: it depends on that length, the catalogue and the attention "
        "alone, for every user spends the same attention on some items and none on the rest. Only a policy by chance lowers it.",
    ),
    references=(*SOURCE, "wu2022"),
))  # fmt: skip
def ii_disparity(t: Lists) -> Floats:
    """Variance over pairs of user and item of the attention that the item gets from the user.

    >>> ii_disparity([[0], [1]], items=2), ii_disparity([[0], [0]], items=2)
    (0.25, 0.25)
    """
    if not t.received.size:
        return np.asarray(np.nan)
    return np.asarray(t.square / t.received.size - t.received.mean() ** 2)


@metric(Card(
    name="ranked_gini", symbol="Gini-w", title="Gini index of attention over items", needs=Lists,
    span=(0.0, 1.0), ideal=0.0, better="lower",
    asks="How unevenly is the attention of all users spread over the items of the catalogue?",
    undefined="nothing was shown", otherwise=lambda t, **_: "zero_total" if t.received.size else "empty",
    formula=r"G(\textstyle\sum_u e_{u1}, \dots, \sum_u e_{un})", example="lists 0 1 and 1 0 of three items -> 0.3333",
    variants=("Times shown weighted by rank: LensKit's ExposureGini; rampisela2024 discounts by log2(rank + 1).",),
    references=SOURCE,
))  # fmt: skip
def ranked_gini(t: Lists) -> Floats:
    """Gini index of the attention that each item gets from all users.

    >>> round(ranked_gini([[0, 1], [1, 0]], items=3), 4)
    0.3333
    """
    return gini.on(Spectrum(np.sort(t.received), np.ones(t.received.size)))


# --- what a number of slots allows ------------------------------------------------------------------------------------


@jain_index.attainable
def _(t: Crosstab) -> tuple[float, float]:
    """All lists on the fewest items, and counts as equal as the number of slots allows."""
    return (math.nan, math.nan) if not _bound(t) else (float(_jain(t.nested())), float(_jain(t.balanced())))


@exposure_entropy.attainable
def _(t: Crosstab, *, base: float = math.e, normalized: bool = False) -> tuple[float, float]:
    if not _bound(t) or (normalized and t.items < 2):
        return math.nan, math.nan
    unit = math.log(t.items) if normalized else math.log(base)
    least, most = (_entropy(counts) / unit for counts in (t.nested(), t.balanced()))
    return least, most


@aggregate_diversity.attainable
def _(t: Crosstab) -> tuple[float, float]:
    """The longest list on its own, and every slot another item."""
    if not _bound(t):
        return math.nan, math.nan
    return float((t.nested() > 0).mean()), float((t.balanced() > 0).mean())


@satisfied_items.attainable
def _(t: Crosstab) -> tuple[float, float]:
    """Fewest items that can take enough slots to keep all others below the equal deal.

    With s items on every list that is long enough, the rest of each list must fit on the others without lifting one of them
    to the deal; dealing that rest out evenly is as low as it gets.
    """
    if not _bound(t) or t.lengths is None:
        return math.nan, math.nan
    dealt = float(_dealt(np.asarray(t.popularity.sum(-1)), t.items))
    if not dealt:
        return 1.0, 1.0
    longer = t.lengths[::-1].cumsum()[::-1][1:]  # users with a list of at least 1, 2, ... items
    left = np.append(longer[::-1].cumsum()[::-1], 0.0)  # slots beyond the first s of each list
    few = np.arange(len(left))
    return float(few[left <= (t.items - few) * (dealt - 1)][0]) / t.items, 1.0


def _bound(t: Crosstab) -> bool:
    return t.lengths is not None and bool(t.counts.any())


def _dealt(total: Floats, items: int) -> Floats:
    """How often each item is shown at least where slots are dealt equally."""
    return np.asarray(np.floor((total / np.float64(items)).round(12)))


def _jain(counts: Floats) -> Floats:
    return np.asarray(counts.sum(-1) ** 2 / (counts.shape[-1] * (counts**2).sum(-1)))


def _entropy(counts: Floats) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())

"""Bias of a recommender over the items of a catalogue: all users are looked at together.

The first four are on holisticai's page of metrics; the others rampisela2024 gathers. Its correction of a measure is the place
between the ends that a number of slots allows: (estimate - least) / (most - least), two columns of every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from evenhand.cards import Between, Card, Floats, metric
from evenhand.metrics.inequality import gini
from evenhand.metrics.random_orders import gini_of_offered_lists, gini_of_random_lists
from evenhand.metrics.recommender import SEED, SHOWN
from evenhand.metrics.shares import lorenz_curve
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.spectrum import Spectrum
from evenhand.tallies.user_lists import Lists


@metric(Card(
    name="aggregate_diversity", symbol="AD", title="Aggregate diversity", needs=Crosstab,
    span=(0.0, 1.0), ideal=1.0, better="higher",
    asks="What share of the catalogue is shown to anybody at all?",
    undefined="there are no items or no users",
    says="{estimate:percent} of the catalogue is shown at least once{interval}.",
    formula=r"\mathrm{AD} = |\text{items shown}| / |\text{items}|", example="4 items, 3 of them shown -> 0.75",
    variants=(
        "Also called item or catalogue coverage. For a long table pass items=, or only items that occur in it count.",
        "It grows with the number of users, whatever the recommender does: compare at equal numbers.",
    ),
    references=(*SEED, "adomavicius2012"), family="reach of the catalogue", reads=SHOWN,
))  # fmt: skip
def aggregate_diversity(t: Crosstab) -> Floats:
    """Items that at least one user is shown, over all items.

    >>> aggregate_diversity([[0.9, 0.8, 0.1, 0.2], [0.9, 0.1, 0.8, 0.2]], top=2)
    0.75
    """
    reached = shown_items(t) / np.float64(t.items)
    return np.asarray(np.where(t.mark("users").sum(-1) > 0, reached, np.nan))


@aggregate_diversity.influence
def _(t: Crosstab, estimate: Floats, *, convention: str | None = None) -> Floats:
    """(U,) what the value loses without each user: the items shown to nobody else, whatever they are divided by."""
    lists = t.counted_lists
    is_lone = np.bincount(lists.items, minlength=t.items)[lists.items] == 1
    return _centred(estimate * lists.per_user(is_lone) / shown_items(t))


def _centred(lost: Floats) -> Floats:
    return np.asarray(lost - lost.mean())


@metric(Card(
    name="item_gini", symbol="G", title="Gini index over items", needs=Crosstab,
    span=(0.0, 1.0), ideal=0.0, better="lower",
    asks="How unevenly are the slots spread over the items of the catalogue?",
    undefined="nothing was shown; with corrected=True also a single item",
    otherwise=lambda t, **_: "single_member" if t.popularity.any() else "zero_total",
    says="The Gini index of how often items are shown is {estimate:number}{interval}[; random picks would give {chance:number}].",
    formula=r"G = \frac{\sum_j (2j - n - 1)\, c_{(j)}}{n \sum_j c_j}", example="times shown 0, 0, 0, 10 -> 0.75",
    variants=(
        "Over all items, those never shown included, divided by n as the source's formula: at most 1 - 1/n.",
        "holisticai's program divides by n - 1 (corrected=True here) and breaks ties by the highest column.",
        "Elliot returns one minus the corrected Gini; RecBole adds a padding item; Evidently leaves out items never shown.",
    ),
    references=(*SEED, "gini1912"), family="spread over the catalogue", reads=SHOWN,
))  # fmt: skip
def item_gini(t: Crosstab, *, corrected: bool = False) -> Floats:
    r"""Gini index of the times each item is shown, items never shown included.

    >>> item_gini([[1, 0, 0, 0], [1, 0, 0, 0]], threshold=0.5)
    0.75
    """
    return gini.on(t.spectrum, corrected=corrected)


@item_gini.influence
def _(t: Crosstab, estimate: Floats, *, corrected: bool = False) -> Floats:
    """(U,) what the value loses without each user.

    An item that moves down by a slot comes closer to all below it and further from all others. Moves of one user's items
    are added up, which counts those between two of them twice.
    """
    lists, c = t.counted_lists, t.popularity
    as_often = t.items - np.searchsorted(np.sort(c), c)  # items shown at least as often, itself included
    moves = (2 * as_often - 1 - t.items)[lists.items] * lists.parts
    pairs = gini.on(t.spectrum) * t.items * c.sum()
    left = (pairs + lists.per_user(moves)) / pairs * c.sum() / (c.sum() - lists.slots)
    return _centred(estimate * (1 - left))


@item_gini.chance
def _(t: Crosstab, *, corrected: bool = False) -> float:
    """Lists of the same lengths, filled at random with items that the user has a score for."""
    if not float(t.counts.sum()) or (corrected and t.items < 2):
        return math.nan
    scale = t.items / (t.items - 1) if corrected else 1.0
    if t.lengths is not None:
        return gini_of_random_lists(t.lengths, t.items) * scale
    return math.nan if t.odds is None else gini_of_offered_lists(t.odds, t.items) * scale


@item_gini.attainable
def _(t: Crosstab, *, corrected: bool = False) -> tuple[float, float]:
    most, least = _of_extreme_counts(
        t, lambda counts: gini.on(Spectrum(np.sort(counts), np.ones(t.items)), corrected=corrected)
    )
    return least, most


def shown_items(t: Crosstab) -> Floats:
    return t.spectrum.sum_of((t.spectrum.values > 0).astype(np.float64))


@metric(Card(
    name="exposure_entropy", symbol="EDE", title="Entropy of exposure", needs=Crosstab,
    span=lambda normalized: (0.0, 1.0 if normalized else math.inf),
    ideal=lambda normalized: 1.0 if normalized else math.nan, better="higher",
    asks="How uncertain is it which item the next slot holds?",
    undefined="nothing was shown; with normalized=True also a single item",
    otherwise=lambda t, **_: "single_member" if t.popularity.any() else "zero_total",
    says="The entropy of exposure over the catalogue is {estimate:number}{interval}.",
    formula=r"\mathrm{EDE} = -\sum_j p_j \ln p_j", example="times shown 1, 1, 1, 1 -> 1.3863",
    variants=(
        "Natural logarithm, as in the source; at most ln n, so values of different catalogues compare only with normalized=True.",
        "Elliot uses base 2 and averages over users; RecBole divides by the number of items shown.",
    ),
    references=(*SEED, "shannon1948"), family="entropy", reads=SHOWN,
))  # fmt: skip
def exposure_entropy(
    t: Crosstab,
    *,
    base: Annotated[float, Between(1, math.inf, open_low=True, open_high=True)] = math.e,
    normalized: bool = False,
) -> Floats:
    r"""Entropy of the distribution of slots over items.

    `normalized` divides by the largest possible value, the logarithm of the number of items.

    >>> round(exposure_entropy([[1, 1, 1, 1]], threshold=1), 4)
    1.3863
    >>> exposure_entropy([[1, 1, 1, 1]], threshold=1, base=2)
    2.0
    """
    spectrum = t.spectrum
    p = spectrum.values / spectrum.total[..., None]
    nats = np.where(spectrum.total > 0, -spectrum.sum_of(np.where(p == 0, 0.0, p * np.log(p))), np.nan)
    unit = math.log(t.items) if normalized and t.items else math.log(base)
    return np.asarray(np.maximum(nats, 0.0) / np.float64(unit))


@exposure_entropy.influence
def _(t: Crosstab, estimate: Floats, *, base: float = math.e, normalized: bool = False) -> Floats:
    """(U,) what the value loses without each user."""
    from scipy.special import xlogy

    lists, c = t.counted_lists, t.popularity
    before = c[lists.items]
    after = np.maximum(before - lists.parts, 0.0)
    total, left = c.sum(), c.sum() - lists.slots
    nats = np.log(total) - xlogy(c, c).sum() / total
    without = np.log(left) - (xlogy(c, c).sum() - lists.per_user(xlogy(before, before) - xlogy(after, after))) / left
    return _centred(estimate * (1 - without / nats))


@metric(Card(
    name="recommendation_popularity", symbol="ARP", title="Recommendation popularity", needs=Crosstab,
    span=(1.0, math.inf), ideal=1.0, better="lower",
    asks="How popular are the items on a user's list: how often is each shown in all?",
    undefined="nothing was shown", otherwise="nothing_shown",
    says="On average, the items on a user's list are shown {estimate:number} times in total{interval}.",
    formula=r"\mathrm{ARP} = \frac1{|U|} \sum_u \frac1{|L_u|} \sum_{j \in L_u} c_j",
    example="lists {1, 2} and {1} -> 1.75",
    variants=(
        "Popularity is times shown, as in holisticai; RecBole, Elliot, Evidently and RecTools count interactions in the training data.",
        "The seed prints (1/n) sum of c_j over items, which under top-k is a constant; its program computes this.",
        "Users shown nothing are left out. Not FairRankTune's ARP, which is attribute rank parity.",
    ),
    references=SEED, family="popularity", reads=SHOWN,
))  # fmt: skip
def recommendation_popularity(t: Crosstab) -> Floats:
    """Mean over users of the mean number of times the items they are shown are shown to anybody.

    >>> recommendation_popularity([[1, 1], [1, 0]], threshold=0.5)
    1.75
    """
    return np.asarray(t.for_each * (t.popularity * t.spread).sum(-1) / t.mark("viewers").sum(-1))


def lorenz_points(t: Crosstab, most: int = 400, *, fewest: int = 0) -> dict[str, list[float]]:
    """Corners of the Lorenz curve of times shown; no step covers fewer than `fewest` items."""
    shown = Spectrum(np.sort(t.popularity), np.ones(t.items))
    if shown.receivers < fewest:
        return {}
    curve = lorenz_curve(shown.coarse(fewest))
    corners = len(curve.population)
    chosen = np.arange(corners)
    if corners > most:
        even, top = np.linspace(0, 1, most // 2), 1 - np.geomspace(1 / corners, 1, most // 2)
        chosen = np.unique([*np.searchsorted(curve.population, np.concatenate([even, top])), 0, corners - 1])
    return {"population": curve.population[chosen].tolist(), "share": curve.share[chosen].tolist()}


SOURCE = ("rampisela2024",)


@metric(Card(
    name="jain_index", symbol="Jain", title="Jain's index over items", needs=Crosstab,
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
    name="satisfied_items", symbol="FSat", title="Fraction of satisfied items", needs=Crosstab,
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
    return _of_extreme_counts(t, lambda counts: counts.sum() ** 2 / (t.items * (counts**2).sum()))


@exposure_entropy.attainable
def _(t: Crosstab, *, base: float = math.e, normalized: bool = False) -> tuple[float, float]:
    from scipy.special import entr

    if normalized and t.items < 2:
        return math.nan, math.nan
    unit = math.log(t.items) if normalized else math.log(base)
    return _of_extreme_counts(t, lambda counts: entr(counts / counts.sum()).sum() / unit)


@aggregate_diversity.attainable
def _(t: Crosstab) -> tuple[float, float]:
    return _of_extreme_counts(t, lambda counts: (counts > 0).mean())


@satisfied_items.attainable
def _(t: Crosstab) -> tuple[float, float]:
    """Fewest items that can take enough slots to keep all others below the equal deal.

    With s items on every list that is long enough, the rest of each list must fit on the others without lifting one of them
    to the deal; dealing that rest out evenly is as low as it gets.
    """
    if t.lengths is None or not t.counts.any():
        return math.nan, math.nan
    dealt = float(_dealt(np.asarray(t.popularity.sum(-1)), t.items))
    if not dealt:
        return 1.0, 1.0
    longer = t.lengths[::-1].cumsum()[::-1][1:]  # users with a list of at least 1, 2, ... items
    left = np.append(longer[::-1].cumsum()[::-1], 0.0)  # slots beyond the first s of each list
    few = np.arange(len(left))
    return float(few[left <= (t.items - few) * (dealt - 1)][0]) / t.items, 1.0


def _of_extreme_counts(t: Crosstab, value: Callable[[Floats], Any]) -> tuple[float, float]:
    """The value of all lists on the fewest items, and of counts as equal as the number of slots allows."""
    if t.lengths is None or not t.counts.any():
        return math.nan, math.nan
    return float(value(t.nested())), float(value(t.balanced()))


def _dealt(total: Floats, items: int) -> Floats:
    """How often each item is shown at least where slots are dealt equally."""
    return np.asarray(np.floor((total / np.float64(items)).round(12)))

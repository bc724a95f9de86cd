"""Bias of a recommender between groups of users, and over the items of a catalogue.

Metrics of two groups compare the source's group a (`versus`) with its group b (`protected`); those of the catalogue look at all
users together. The first twelve are on holisticai's page of metrics; the others rampisela2024 gathers. Its correction of a measure is
the place between the ends that a number of slots allows: (estimate - least) / (most - least), two columns of every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.cards import Between, Card, Floats, NotNegative, metric
from evenhand.metrics.inequality import gini, lorenz_curve
from evenhand.metrics.random_orders import gini_of_offered_lists, gini_of_random_lists
from evenhand.tallies.crosstab import Crosstab, Lists
from evenhand.tallies.spectrum import Spectrum

SEED = ("holisticai2024",)
USERS = frozenset({"users"})
SHOWN = frozenset({"shown"})
SCORED = frozenset({"scores"})
TRUTH = frozenset({"truth"})


def _without(t: Crosstab, mark: str, code: str) -> str:
    """Reason why one of the two groups has no mean: no users, or nothing to average."""
    if not all(side.any() for side in t.sides("users")):
        return "group_absent"
    return "" if all(side.any() for side in t.sides(mark)) else code


@metric(Card(
    name="mad", symbol="MAD", title="Difference of mean scores", needs=Crosstab,
    span=(-math.inf, math.inf), ideal=0.0, better="ideal",
    asks="How much higher are the scores of one group of users than those of the other?",
    undefined="a group has no users or no scores", otherwise=lambda t, **_: _without(t, "cells", "empty"),
    says="Difference of mean scores[, {versus} minus {protected}]: {estimate:number}{interval}.",
    formula=r"\mathrm{MAD} = \bar y_a - \bar y_b", example="a: [1, missing], b: [0, 0.5] -> 0.75",
    variants=(
        "Despite its name neither absolute nor a deviation: positive means that group a (versus) is scored higher.",
        "The source's formula prints b - a; its sentence and holisticai's program are a - b, and so is this.",
    ),
    references=SEED, family="mean scores", reads=USERS | SCORED,
))  # fmt: skip
def mad(t: Crosstab) -> Floats:
    r"""Mean score of group a (`versus`) minus group b (`protected`); missing ones are skipped.

    >>> mad([[1, None], [0, 0.5]], user_groups=["a", "b"])
    0.75
    """
    (score_a, score_b), (cells_a, cells_b) = t.sides("score"), t.sides("cells")
    return score_a / cells_a - score_b / cells_b


def _nothing_shown(t: Crosstab, **_: Any) -> str:
    return _without(t, "viewers", "nothing_shown")


@metric(Card(
    name="exposure_tv", symbol="ETV", title="Total variation of exposure", needs=Crosstab,
    span=(0.0, 1.0), ideal=0.0, better="lower",
    asks="What share of the slots would have to change for both groups of users to be shown the same mix of items?",
    undefined="a group has no users, or was shown nothing", otherwise=_nothing_shown,
    says="{estimate:percent} of what the two groups are shown differs{interval}[; with permuted labels {chance:percent}].",
    formula=r"\mathrm{ETV} = \tfrac12 \sum_j |p_a(j) - p_b(j)|", example="a: items 1, 1; b: items 1, 2 -> 0.5",
    variants=(
        "Never 0 by chance: two samples of 50 users, top 10 of 1,000 items, may differ by 0.5 and more. Read it beside `chance`.",
        "The source's formula has a further factor n that its program takes out again; holisticai's exposure_l1 gives this number.",
    ),
    references=SEED, laws=frozenset({"symmetric"}), family="what groups are shown", reads=USERS | SHOWN,
    shuffled="labels",
))  # fmt: skip
def exposure_tv(t: Crosstab) -> Floats:
    r"""Half the summed differences between the two groups' shares of slots per item.

    >>> exposure_tv([[1, 0], [1, 1]], user_groups=["a", "b"], threshold=0.5)
    0.5
    """
    (a, b), (all_a, all_b) = t.exposure(), t.slots
    return _where_shown(t, 0.5 * np.abs(a / all_a[..., None] - b / all_b[..., None]).sum(-1))


@metric(Card(
    name="exposure_kl", symbol="EKL", title="KL divergence of exposure", needs=Crosstab,
    span=(0.0, math.inf), ideal=0.0, better="lower",
    asks="How much does the mix of items shown to group a diverge from that shown to group b?",
    undefined="a group has no users, or was shown nothing", otherwise=_nothing_shown,
    says="KL divergence of items shown[, {versus} from {protected}]: {estimate:number} nats{interval}.",
    formula=r"\mathrm{EKL} = \sum_j p_a(j) \ln \frac{p_a(j)}{p_b(j)}", example="a: item 2; b: items 1, 2 -> 0.6931",
    variants=(
        "Infinite once group a is shown an item that group b never is; smoothing=1 adds one view to every item.",
        "No chance level: with permuted labels it is infinite too often to have a mean. Read exposure_tv beside it.",
        "Natural logarithm; directed: a against b, not b against a.",
    ),
    references=(*SEED, "kullback1951"), family="divergence of what groups are shown", reads=USERS | SHOWN,
    shuffled="labels", caution=lambda estimate: "shown_to_one_group" if math.isinf(estimate) else "",
))  # fmt: skip
def exposure_kl(t: Crosstab, *, smoothing: NotNegative = 0.0) -> Floats:
    r"""KL divergence of group a's (`versus`) items from group b's (`protected`), in nats.

    `smoothing` is added to the times every item was shown to each group.

    >>> round(exposure_kl([[0, 1], [1, 1]], user_groups=["a", "b"], threshold=0.5), 4)
    0.6931
    """
    from scipy.special import rel_entr  # a ln(a / b): 0 where a is, infinite where b alone is

    (a, b), (all_a, all_b) = t.exposure(), t.slots
    total_a, total_b = all_a + smoothing * t.items, all_b + smoothing * t.items
    value = rel_entr(a + smoothing, b + smoothing).sum(-1) / total_a + np.log(total_b / total_a)
    return _where_shown(t, np.maximum(value, 0.0))


def _where_shown(t: Crosstab, value: Floats) -> Floats:
    a, b = t.slots
    return np.asarray(np.where((a > 0) & (b > 0), value, np.nan))


ZeroDivision = Literal[0, "skip"]


def _ratio(a: Floats, b: Floats) -> Floats:
    """The second over the first, undefined where the first is 0."""
    return np.asarray(np.where(a == 0, np.nan, b / a))


def _mean_ratio(t: Crosstab, mark: str, over: str) -> Floats:
    (sum_a, sum_b), (users_a, users_b) = t.judgement(mark), t.sides(over)
    return _ratio(sum_a / users_a, sum_b / users_b)


def _why_ratio(mark: str, over: str, code: str, default: ZeroDivision = 0) -> Callable[..., str]:
    """Function that gives the reason why a ratio of means is undefined.

    A group without users, without anything to average, or with a mean of 0. Where users without anything to average
    count as 0, a group of such users has a mean: 0.
    """

    def why(t: Crosstab, zero_division: ZeroDivision = default, **_: Any) -> str:
        reason = _without(t, over, code)
        if reason == code and zero_division == 0 and any(side.any() for side in t.sides(over)):
            reason = ""
        return reason or ("zero_denominator" if t.sides(mark)[1].any() else "zero_over_zero")

    return why


def _opportunity(name: str, symbol: str, title: str, question: str, formula: str, why: Callable[..., str]) -> Card:
    return Card(
        name=name, symbol=symbol, title=title, asks=question, needs=Crosstab,
        span=(0.0, math.inf), ideal=1.0, better="ideal",
        undefined="a group has no users, or the mean of group a (versus) is 0", otherwise=why,
        says=f"{title}[, {{protected}} over {{versus}}]: {{estimate:number}}{{interval}}.",
        formula=formula, example="both right for a, one of two right for b -> 0.5",
        variants=(
            "b / a, as the source's page: below 1 is against the protected group. holisticai's program returns a / b.",
            "A user shown nothing, or with nothing relevant, counts as 0 (as in scikit-learn); zero_division='skip' leaves them out.",
            "holisticai cuts the truth with the predictions' top; here it has its own true_top and true_threshold.",
        ),
        references=SEED, family="ratios between groups", reads=USERS | TRUTH | SHOWN,
    )  # fmt: skip


@metric(_opportunity(
    "precision_ratio", "APR", "Ratio of mean precision",
    "Is what the protected group is shown as often right as what the others are shown?",
    r"\mathrm{APR} = \bar P_b / \bar P_a", _why_ratio("precision", "viewers", "nothing_shown"),
))  # fmt: skip
def precision_ratio(t: Crosstab, *, zero_division: ZeroDivision = 0) -> Floats:
    """Mean precision (not average precision), group b (`protected`) over group a (`versus`).

    >>> precision_ratio([[1, 1], [1, 1]], user_groups=["a", "b"], relevant=[[1, 1], [1, 0]], threshold=1)
    0.5
    """
    return _mean_ratio(t, "precision", "users" if zero_division == 0 else "viewers")


@metric(_opportunity(
    "recall_ratio", "ARR", "Ratio of mean recall",
    "Is the protected group shown as much of what is relevant to it as the others are?",
    r"\mathrm{ARR} = \bar R_b / \bar R_a", _why_ratio("recall", "seekers", "no_relevant_in_group"),
))  # fmt: skip
def recall_ratio(t: Crosstab, *, zero_division: ZeroDivision = 0) -> Floats:
    """Mean recall over the users of group b (`protected`) over that of group a (`versus`).

    >>> recall_ratio([[1, 1], [1, 0]], user_groups=["a", "b"], relevant=[[1, 1], [1, 1]], threshold=1)
    0.5
    """
    return _mean_ratio(t, "recall", "users" if zero_division == 0 else "seekers")


@metric(_opportunity(
    "f1_ratio", "AFR", "Ratio of mean F1",
    "Precision and recall in one: is the protected group served as well as the others?",
    r"\mathrm{AFR} = \overline{F1}_b / \overline{F1}_a", _why_ratio("f1", "either", "nothing_shown"),
))  # fmt: skip
def f1_ratio(t: Crosstab, *, zero_division: ZeroDivision = 0) -> Floats:
    """Mean F1 over users, group b (`protected`) over group a (`versus`); not F1 of the means.

    >>> round(f1_ratio([[1, 1], [1, 0]], user_groups=["a", "b"], relevant=[[1, 1], [1, 1]], threshold=1), 4)
    0.6667
    """
    return _mean_ratio(t, "f1", "users" if zero_division == 0 else "either")


def _error_card(name: str, symbol: str, title: str, formula: str, mark: str) -> Card:
    return Card(
        name=name, symbol=symbol, title=title, needs=Crosstab,
        span=(0.0, math.inf), ideal=1.0, better="ideal",
        asks="Are the scores of the protected group as close to the truth as those of the others?",
        undefined="a group has no users or no score with a truth, or the error of group a (versus) is 0",
        otherwise=_why_ratio(mark, "rated", "empty", "skip"),
        says=f"{title}[, {{protected}} over {{versus}}]: {{estimate:number}}{{interval}}.",
        formula=formula, example="errors a: 0.5, b: 1 -> 2",
        variants=(
            "b / a, as the other ratios: above 1 is against the protected group. holisticai's program returns a / b.",
            "Over all scores that have a truth, whatever is shown; not a mean over users.",
        ),
        references=SEED, family="ratios between groups", reads=USERS | TRUTH | SCORED,
    )  # fmt: skip


@metric(_error_card(
    "rmse_ratio", "RMSE_b/RMSE_a", "Ratio of RMSE", r"\mathrm{RMSE}_b / \mathrm{RMSE}_a", "square",
))  # fmt: skip
def rmse_ratio(t: Crosstab) -> Floats:
    """Root mean squared error of scores, group b (`protected`) over group a (`versus`).

    >>> rmse_ratio([[1, 0], [1, 0]], user_groups=["a", "b"], relevant=[[0.5, 0.5], [0, 1]])
    2.0
    """
    (sum_a, sum_b), (cells_a, cells_b) = t.judgement("square"), t.sides("rated")
    return _ratio(np.sqrt(sum_a / cells_a), np.sqrt(sum_b / cells_b))


@metric(_error_card("mae_ratio", "MAE_b/MAE_a", "Ratio of MAE", r"\mathrm{MAE}_b / \mathrm{MAE}_a", "absolute"))
def mae_ratio(t: Crosstab) -> Floats:
    """Mean absolute error of scores, group b (`protected`) over group a (`versus`).

    >>> mae_ratio([[1, 0], [1, 0]], user_groups=["a", "b"], relevant=[[0.5, 0.5], [0, 1]])
    2.0
    """
    return _mean_ratio(t, "absolute", "rated")


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

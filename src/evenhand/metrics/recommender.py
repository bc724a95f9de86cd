"""Bias of a recommender, read off what it showed to whom (seed 004).

Every function reads a Crosstab and nothing else. Two-group metrics compare the seed's group a (`versus`) with its group
b (`protected`); item metrics look at all users together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np

from evenhand.cards import Between, Card, Floats, NotNegative, metric
from evenhand.metrics.inequality import gini
from evenhand.metrics.shares import lorenz_curve
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.spectrum import Spectrum

FAMILY = "recommender"
SEED = ("holisticai-recommender",)


def _without(t: Crosstab, mark: str, code: str) -> str:
    """Why one of the two groups has no mean: it has no users, or its users have none of what is averaged."""
    if not all(side.any() for side in t.sides("users")):
        return "group_absent"
    return "" if all(side.any() for side in t.sides(mark)) else code


def _no_scores(t: Crosstab, **_: Any) -> str:
    return _without(t, "cells", "empty")


@metric(
    Card(
        name="mad",
        symbol="MAD",
        title="Difference of mean scores",
        asks="How much higher are the scores of one group of users than those of the other?",
        needs=Crosstab,
        span=(-math.inf, math.inf),
        ideal=0.0,
        better="ideal",
        undefined="a group has no users or no scores",
        otherwise=_no_scores,
        says="the mean score of {versus} minus that of {protected} is {estimate:number}{interval}.",
        formula=r"\mathrm{MAD} = \bar y_a - \bar y_b",
        example="a: [1, missing], b: [0, 0.5] -> 0.75",
        variants=(
            "Despite its name neither absolute nor a deviation: positive means that group a (versus) is scored higher.",
            "The seed's formula prints b - a; its sentence and holisticai's program are a - b, and so is this.",
        ),
        references=SEED,
        family=FAMILY,
    )
)
def mad(t: Crosstab) -> Floats:
    r"""Mean score of group a (`versus`) minus mean score of group b (`protected`); missing scores are skipped.

    >>> mad([[1, None], [0, 0.5]], user_groups=["a", "b"])
    0.75
    """
    (score_a, score_b), (cells_a, cells_b) = t.sides("score"), t.sides("cells")
    return score_a / cells_a - score_b / cells_b


def _nothing_shown(t: Crosstab, **_: Any) -> str:
    return _without(t, "viewers", "nothing_shown")


@metric(
    Card(
        name="exposure_tv",
        symbol="ETV",
        title="Total variation of exposure",
        asks="What share of the slots would have to change for both groups of users to be shown the same mix of items?",
        needs=Crosstab,
        span=(0.0, 1.0),
        ideal=0.0,
        better="lower",
        undefined="a group has no users, or was shown nothing",
        otherwise=_nothing_shown,
        says="{estimate:percent} of what the two groups are shown differs{interval}; by chance alone it would be {chance:percent}.",
        formula=r"\mathrm{ETV} = \tfrac12 \sum_j |p_a(j) - p_b(j)|",
        example="a: items 1, 1; b: items 1, 2 -> 0.5",
        variants=(
            "Never 0 by chance: two samples of 50 users from one population, top 10 of 1,000 items, differ by 0.52. Read it beside `chance`.",
            "The seed's formula has a further factor n that its program takes out again; holisticai's exposure_l1 gives this number.",
        ),
        references=SEED,
        laws=frozenset({"symmetric"}),
        family=FAMILY,
    )
)
def exposure_tv(t: Crosstab) -> Floats:
    r"""Half the summed difference between what the two groups are shown, as shares of their slots.

    .. math:: \tfrac12 \sum_j |p_a(j) - p_b(j)|

    >>> exposure_tv([[1, 0], [1, 1]], user_groups=["a", "b"], threshold=0.5)
    0.5
    """
    a, b = (_shares(side) for side in t.exposure())
    return 0.5 * np.abs(a - b).sum(-1)


@metric(
    Card(
        name="exposure_kl",
        symbol="EKL",
        title="Kullback-Leibler divergence of exposure",
        asks="How surprised would group b's mix of items leave someone who is shown group a's?",
        needs=Crosstab,
        span=(0.0, math.inf),
        ideal=0.0,
        better="lower",
        undefined="a group has no users, or was shown nothing",
        otherwise=_nothing_shown,
        says="what {versus} is shown diverges from what {protected} is shown by {estimate:number} nats{interval}; by chance alone: {chance:number}.",
        formula=r"\mathrm{EKL} = \sum_j p_a(j) \ln \frac{p_a(j)}{p_b(j)}",
        example="a: item 2; b: items 1, 2 -> 0.6931",
        variants=(
            "Infinite as soon as group a (versus) is shown an item that group b (protected) never is; smoothing=1 adds one view to every item.",
            "Natural logarithm; directed: a against b, not b against a.",
        ),
        references=(*SEED, "kullback1951"),
        family=FAMILY,
    )
)
def exposure_kl(t: Crosstab, *, smoothing: NotNegative = 0.0) -> Floats:
    r"""Divergence of what group a (`versus`) is shown from what group b (`protected`) is shown, in nats.

    .. math:: \sum_j p_a(j) \ln \frac{p_a(j)}{p_b(j)}

    `smoothing` is added to the times every item was shown to each group.

    >>> round(exposure_kl([[0, 1], [1, 1]], user_groups=["a", "b"], threshold=0.5), 4)
    0.6931
    """
    a, b = t.exposure()
    if smoothing:
        nothing = (a.sum(-1, keepdims=True) == 0) | (b.sum(-1, keepdims=True) == 0)
        a, b = (np.where(nothing, np.nan, side + smoothing) for side in (a, b))
    p, q = _shares(a), _shares(b)
    value = np.where(p == 0, 0.0, p * np.log(p / q)).sum(-1)
    return np.maximum(value, 0.0)


def _shares(counts: Floats) -> Floats:
    return counts / counts.sum(-1, keepdims=True)


def _ratio(a: Floats, b: Floats) -> Floats:
    """b / a, undefined where a is 0."""
    return np.where(a == 0, np.nan, b / a)


def _mean_ratio(t: Crosstab, mark: str, over: str) -> Floats:
    (sum_a, sum_b), (users_a, users_b) = t.judgement(mark), t.sides(over)
    return _ratio(sum_a / users_a, sum_b / users_b)


def _why_ratio(mark: str, over: str, code: str) -> Callable[..., str]:
    """Why a ratio of means is undefined: a group without users, without anything to average, or with a mean of 0."""

    def why(t: Crosstab, **_: Any) -> str:
        if found := _without(t, over, code):
            return found
        return "zero_denominator" if t.sides(mark)[1].any() else "zero_over_zero"

    return why


def _opportunity(name: str, symbol: str, title: str, asks: str, formula: str, why: Callable[..., str]) -> Card:
    """The card of a ratio of mean precision, recall or F1 between two groups of users."""
    return Card(
        name=name,
        symbol=symbol,
        title=title,
        asks=asks,
        needs=Crosstab,
        span=(0.0, math.inf),
        ideal=1.0,
        better="ideal",
        undefined="a group has no users, or the mean of group a (versus) is 0",
        otherwise=why,
        says=f"the {title.removeprefix('Ratio of ')} of {{protected}} is {{estimate:number}} times that of {{versus}}{{interval}}.",
        formula=formula,
        example="both right for a, one of two right for b -> 0.5",
        variants=(
            "b / a (protected over versus), as the seed's page says: below 1 is against the protected group. holisticai's program returns a / b.",
            "A user who is shown nothing, or to whom nothing is relevant, counts as 0 (scikit-learn's rule); zero_division='skip' leaves them out.",
            "holisticai cuts the truth with the predictions' top; here it has its own true_top and true_threshold.",
        ),
        references=SEED,
        family=FAMILY,
    )


ZeroDivision = Literal[0, "skip"]


@metric(
    _opportunity(
        "precision_ratio",
        "APR",
        "Ratio of mean precision",
        "Is what the protected group is shown as often right as what the others are shown?",
        r"\mathrm{APR} = \bar P_b / \bar P_a",
        _why_ratio("precision", "viewers", "nothing_shown"),
    )
)
def precision_ratio(t: Crosstab, *, zero_division: ZeroDivision = 0) -> Floats:
    """Mean precision over the users of group b (`protected`) over that of group a (`versus`): plain precision, not AP.

    >>> precision_ratio([[1, 1], [1, 1]], user_groups=["a", "b"], relevant=[[1, 1], [1, 0]], threshold=1)
    0.5
    """
    return _mean_ratio(t, "precision", "users" if zero_division == 0 else "viewers")


@metric(
    _opportunity(
        "recall_ratio",
        "ARR",
        "Ratio of mean recall",
        "Is the protected group shown as much of what is relevant to it as the others are?",
        r"\mathrm{ARR} = \bar R_b / \bar R_a",
        _why_ratio("recall", "seekers", "no_relevant_in_group"),
    )
)
def recall_ratio(t: Crosstab, *, zero_division: ZeroDivision = 0) -> Floats:
    """Mean recall over the users of group b (`protected`) over that of group a (`versus`).

    >>> recall_ratio([[1, 1], [1, 0]], user_groups=["a", "b"], relevant=[[1, 1], [1, 1]], threshold=1)
    0.5
    """
    return _mean_ratio(t, "recall", "users" if zero_division == 0 else "seekers")


@metric(
    _opportunity(
        "f1_ratio",
        "AFR",
        "Ratio of mean F1",
        "Precision and recall in one: is the protected group served as well as the others?",
        r"\mathrm{AFR} = \overline{F1}_b / \overline{F1}_a",
        _why_ratio("f1", "either", "nothing_shown"),
    )
)
def f1_ratio(t: Crosstab, *, zero_division: ZeroDivision = 0) -> Floats:
    """Mean F1 over the users of group b (`protected`) over that of group a (`versus`); not the F1 of the means.

    >>> round(f1_ratio([[1, 1], [1, 0]], user_groups=["a", "b"], relevant=[[1, 1], [1, 1]], threshold=1), 4)
    0.6667
    """
    return _mean_ratio(t, "f1", "users" if zero_division == 0 else "either")


def _error_card(name: str, symbol: str, title: str, formula: str, mark: str) -> Card:
    return Card(
        name=name,
        symbol=symbol,
        title=title,
        asks="Are the scores of the protected group as close to the truth as those of the others?",
        needs=Crosstab,
        span=(0.0, math.inf),
        ideal=1.0,
        better="ideal",
        undefined="a group has no users or no score with a truth, or the error of group a (versus) is 0",
        otherwise=_why_ratio(mark, "rated", "empty"),
        says=f"the {title.removeprefix('Ratio of ')} of {{protected}} is {{estimate:number}} times that of {{versus}}{{interval}}.",
        formula=formula,
        example="errors a: 0.5, b: 1 -> 2",
        variants=(
            "b / a (protected over versus), as the other ratios: above 1 is against the protected group. holisticai's program returns a / b.",
            "Over all scores that have a truth, whatever is shown; not a mean over users.",
        ),
        references=SEED,
        family=FAMILY,
    )


@metric(_error_card("rmse_ratio", "RMSE_b/RMSE_a", "Ratio of root mean squared error", r"\mathrm{RMSE}_b / \mathrm{RMSE}_a", "square"))
def rmse_ratio(t: Crosstab) -> Floats:
    """Root mean squared error of the scores of group b (`protected`) over that of group a (`versus`).

    >>> rmse_ratio([[1, 0], [1, 0]], user_groups=["a", "b"], relevant=[[0.5, 0.5], [0, 1]])
    2.0
    """
    (sum_a, sum_b), (cells_a, cells_b) = t.judgement("square"), t.sides("rated")
    return _ratio(np.sqrt(sum_a / cells_a), np.sqrt(sum_b / cells_b))


@metric(_error_card("mae_ratio", "MAE_b/MAE_a", "Ratio of mean absolute error", r"\mathrm{MAE}_b / \mathrm{MAE}_a", "absolute"))
def mae_ratio(t: Crosstab) -> Floats:
    """Mean absolute error of the scores of group b (`protected`) over that of group a (`versus`).

    >>> mae_ratio([[1, 0], [1, 0]], user_groups=["a", "b"], relevant=[[0.5, 0.5], [0, 1]])
    2.0
    """
    return _mean_ratio(t, "absolute", "rated")


@metric(
    Card(
        name="aggregate_diversity",
        symbol="AD",
        title="Aggregate diversity",
        asks="What share of the catalogue is shown to anybody at all?",
        needs=Crosstab,
        span=(0.0, 1.0),
        ideal=1.0,
        better="higher",
        undefined="there are no items or no users",
        says="{estimate:percent} of the catalogue is shown to anybody at all{interval}.",
        formula=r"\mathrm{AD} = |\text{items shown}| / |\text{items}|",
        example="4 items, 3 of them shown -> 0.75",
        variants=(
            "Also called item coverage or catalogue coverage. The denominator is the whole catalogue; for a long table pass items=, or only items seen count.",
            "It grows with the number of users, whatever the recommender does: compare at equal numbers.",
        ),
        references=(*SEED, "adomavicius2012"),
        family=FAMILY,
    )
)
def aggregate_diversity(t: Crosstab) -> Floats:
    """Items that at least one user is shown, over all items.

    >>> aggregate_diversity([[0.9, 0.8, 0.1, 0.2], [0.9, 0.1, 0.8, 0.2]], top=2)
    0.75
    """
    return (t.popularity > 0).sum(-1) / np.float64(t.items)


@metric(
    Card(
        name="item_gini",
        symbol="G",
        title="Gini index over items",
        asks="How unevenly are the slots spread over the items of the catalogue?",
        needs=Crosstab,
        span=(0.0, 1.0),
        ideal=0.0,
        better="lower",
        undefined="nothing was shown; with corrected=True also a single item",
        otherwise=lambda t, **_: "single_member" if t.popularity.any() else "zero_total",
        says="The Gini index of times shown over the items of the catalogue is {estimate:number}{interval}; random picks would give {chance:number}.",
        formula=r"G = \frac{\sum_j (2j - n - 1)\, c_{(j)}}{n \sum_j c_j}",
        example="times shown 0, 0, 0, 10 -> 0.75",
        variants=(
            "Over all items, those never shown included, divided by n as the seed's formula: at most 1 - 1/n.",
            "holisticai's program divides by n - 1 (corrected=True here) and breaks ties by the highest column.",
            "Elliot returns one minus the corrected Gini; RecBole adds a padding item; Evidently leaves out items never shown.",
        ),
        references=(*SEED, "gini1912"),
        family=FAMILY,
    )
)
def item_gini(t: Crosstab, *, corrected: bool = False) -> Floats:
    r"""Gini index of the times each item is shown, items never shown included.

    .. math:: \frac{\sum_j (2j - n - 1)\, c_{(j)}}{n \sum_j c_j}

    >>> item_gini([[1, 0, 0, 0], [1, 0, 0, 0]], threshold=0.5)
    0.75
    """
    return gini.on(spectrum(t), corrected=corrected)


def spectrum(t: Crosstab) -> Spectrum:
    """Times shown as an inequality metric sees them: one unit per item."""
    return Spectrum(np.sort(t.popularity, axis=-1), np.broadcast_to(1.0, t.popularity.shape))


def gini_of_random_picks(slots: float, viewers: int, items: int) -> float:
    """The Gini index that a recommender picking items at random would give: every item is shown a binomial number of times.

    >>> round(gini_of_random_picks(1_000, 100, 1_000), 3)
    0.521
    """
    from scipy.special import bdtr

    chance = slots / (viewers * items)
    mean, spread = viewers * chance, math.sqrt(viewers * chance * (1 - chance))
    reach = np.arange(max(0, math.floor(mean - 12 * spread - 12)), min(viewers, math.ceil(mean + 12 * spread + 12)))
    below = bdtr(reach, viewers, chance)
    return float((below * (1 - below)).sum() / mean * (1 - 1 / items))


@metric(
    Card(
        name="exposure_entropy",
        symbol="EDE",
        title="Entropy of exposure",
        asks="How uncertain is it which item the next slot holds?",
        needs=Crosstab,
        span=lambda normalized: (0.0, 1.0 if normalized else math.inf),
        ideal=lambda normalized: 1.0 if normalized else math.nan,
        better="higher",
        undefined="nothing was shown; with normalized=True also a single item",
        otherwise=lambda t, **_: "single_member" if t.popularity.any() else "zero_total",
        says="The entropy of exposure over the items of the catalogue is {estimate:number}{interval}.",
        formula=r"\mathrm{EDE} = -\sum_j p_j \ln p_j",
        example="times shown 1, 1, 1, 1 -> 1.3863",
        variants=(
            "Natural logarithm, as the seed's program; at most ln n, so values of different catalogues compare only with normalized=True.",
            "Elliot uses base 2 and averages over users; RecBole divides by the number of items shown.",
        ),
        references=(*SEED, "shannon1948"),
        family=FAMILY,
    )
)
def exposure_entropy(
    t: Crosstab,
    *,
    base: Annotated[float, Between(1, math.inf, open_low=True, open_high=True)] = math.e,
    normalized: bool = False,
) -> Floats:
    r"""Entropy of the distribution of slots over items.

    .. math:: -\sum_j p_j \ln p_j

    `normalized` divides by the largest possible value, the logarithm of the number of items.

    >>> round(exposure_entropy([[1, 1, 1, 1]], threshold=1), 4)
    1.3863
    >>> exposure_entropy([[1, 1, 1, 1]], threshold=1, base=2)
    2.0
    """
    p = _shares(t.popularity)
    nats = -np.where(p == 0, 0.0, p * np.log(p)).sum(-1)
    unit = math.log(t.items) if normalized and t.items else math.log(base)
    return np.maximum(nats, 0.0) / np.float64(unit)


@metric(
    Card(
        name="recommendation_popularity",
        symbol="ARP",
        title="Average recommendation popularity",
        asks="How often is the typical item on a user's list shown to everybody?",
        needs=Crosstab,
        span=(1.0, math.inf),
        ideal=1.0,
        better="lower",
        undefined="nothing was shown",
        otherwise="nothing_shown",
        says="The items on a user's list are shown {estimate:number} times in all, on average{interval}.",
        formula=r"\mathrm{ARP} = \frac1{|U|} \sum_u \frac1{|L_u|} \sum_{j \in L_u} c_j",
        example="lists {1, 2} and {1} -> 1.75",
        variants=(
            "Popularity is the number of times an item is shown here, as holisticai's program; RecBole, Elliot, Evidently and RecTools count training interactions.",
            "The seed prints (1/n) sum of c_j over items, which under top-k is a constant; its program computes this.",
            "Users shown nothing are left out. Not FairRankTune's ARP, which is attribute rank parity.",
        ),
        references=SEED,
        family=FAMILY,
    )
)
def recommendation_popularity(t: Crosstab) -> Floats:
    """Mean over users of the mean number of times the items they are shown are shown to anybody.

    >>> recommendation_popularity([[1, 1], [1, 0]], threshold=0.5)
    1.75
    """
    return (t.popularity * t.spread).sum(-1) / t.mark("viewers").sum(-1)


def lorenz_points(t: Crosstab, most: int = 400) -> dict[str, list[float]]:
    """Corners of the Lorenz curve of times shown, thinned towards the items shown most."""
    curve = lorenz_curve(spectrum(t))
    corners = len(curve.population)
    if corners > most:
        even, top = np.linspace(0, 1, most // 2), 1 - np.geomspace(1 / corners, 1, most // 2)
        kept = np.unique(np.append(np.searchsorted(curve.population, np.concatenate([even, top])), [0, corners - 1]))
    else:
        kept = np.arange(corners)
    return {"population": curve.population[kept].tolist(), "share": curve.share[kept].tolist()}


ORDER = (
    "mad", "exposure_tv", "exposure_kl", "precision_ratio", "recall_ratio", "f1_ratio", "rmse_ratio", "mae_ratio",
    "aggregate_diversity", "item_gini", "exposure_entropy", "recommendation_popularity",
)  # fmt: skip
"""The metrics in the order in which an audit reports them."""

PAIRED = ("mad", "exposure_tv", "exposure_kl", "precision_ratio", "recall_ratio", "f1_ratio", "rmse_ratio", "mae_ratio")
"""Metrics that compare two groups of users."""

JUDGED = ("precision_ratio", "recall_ratio", "f1_ratio", "rmse_ratio", "mae_ratio")
"""Metrics that hold the scores against a truth."""

UNCUT = ("mad", "rmse_ratio", "mae_ratio")
"""Metrics that read scores, whatever is shown."""

BY_CHANCE = ("exposure_tv", "exposure_kl")
"""Metrics that are not at their ideal when users are labelled at random."""

"""The same name, other numbers: what other tools compute, on purpose and never by default.

`gini(x, convention="recbole")` gives RecBole's number; `evenhand metrics gini --compare` prints them side by side. Each was
held against the tool itself (tests/golden/peers.json, made by tests/golden/regenerate_peers.py).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.cards import REGISTRY, Floats, Metric
from evenhand.errors import EvenhandError, UndefinedWarning
from evenhand.metrics.catalogue import aggregate_diversity, exposure_entropy, item_gini, recommendation_popularity
from evenhand.metrics.expected import eed, eel, eer
from evenhand.metrics.inequality import atkinson, generalized_entropy, gini, herfindahl, theil
from evenhand.metrics.recommender import (
    exposure_kl,
    exposure_tv,
    f1_ratio,
    mad,
    mae_ratio,
    precision_ratio,
    recall_ratio,
    rmse_ratio,
)
from evenhand.metrics.representation import awrf
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.spectrum import Spectrum

HOLISTICAI = "holisticai 1.0.14"
LENSKIT = "LensKit 2025.8.1"
RECBOLE = "RecBole 1.2.1"
ELLIOT = "Elliot 0.3.1"
EVIDENTLY = "Evidently 0.7.23"
PYSAL = "PySAL inequality 1.1.2"
FAIRDIVERSE = "FairDiverse 1.0.0"
CONCENTRATION = "concentrationMetrics 0.6.0"
AIF360 = "AIF360 0.6.1"
EXPEVAL = "expeval (2022-07)"
TREC = "TREC Fair 2022"


def _gini_convention(name: str, tool: str, does: str, **fields: Any) -> Callable[[Callable[[Spectrum], Floats]], None]:
    """Declare a tool's way for `gini` and for `item_gini`, the Gini index of times shown."""

    def declare(function: Callable[[Spectrum], Floats]) -> None:
        gini.convention(name, tool=tool, does=does, **fields)(function)
        item_gini.convention(name, tool=tool, does=does, **fields)(lambda t: function(t.spectrum))

    return declare


@_gini_convention("lenskit", LENSKIT, "divides by n, items never shown included, as we do")
def _(s: Spectrum) -> Floats:
    return gini.on(s)


for _name, _tool in (("pysal", PYSAL), ("fairdiverse", FAIRDIVERSE), ("concentrationmetrics", CONCENTRATION)):
    gini.convention(_name, tool=_tool, does="divides by n, as we do")(lambda s: gini.on(s))


@_gini_convention("holisticai", HOLISTICAI, "divides by n - 1 (our corrected=True), while its page prints n")
def _(s: Spectrum) -> Floats:
    return gini.on(s, corrected=True)


@_gini_convention("recbole", RECBOLE, "counts its padding item as one more item that is never shown")
def _(s: Spectrum) -> Floats:
    values = np.concatenate([np.zeros((*s.values.shape[:-1], 1)), s.values], axis=-1)
    return gini.on(Spectrum(values, np.concatenate([np.ones((*s.counts.shape[:-1], 1)), s.counts], axis=-1)))


@_gini_convention(
    "elliot", ELLIOT, "returns one minus the corrected Gini: 1 is equality, while its page prints G", ideal=1.0, better="higher"
)  # fmt: skip
def _(s: Spectrum) -> Floats:
    return 1 - gini.on(s, corrected=True)


@_gini_convention("evidently", EVIDENTLY, "divides by n - 1 and leaves out items that were never shown")
def _(s: Spectrum) -> Floats:
    return gini.on(Spectrum(s.values, np.where(s.values > 0, s.counts, 0.0)), corrected=True)


def _inverted(metric: Metric) -> Callable[[Crosstab], Floats]:
    """The ratio the other way round: a / b."""

    def function(t: Crosstab) -> Floats:
        versus, protected = t.pair or (0, 0)
        return metric.on(t.between(protected, versus))

    return function


for _metric in (mad, exposure_tv, aggregate_diversity, recommendation_popularity):
    _metric.convention(
        "holisticai",
        tool=HOLISTICAI,
        does="the same number, apart from ties (highest column) and missing scores (may be shown)",
    )(_metric.function)
exposure_kl.convention("holisticai", tool=HOLISTICAI, does="the same number, without smoothing")(
    lambda t: exposure_kl.function(t)
)
exposure_entropy.convention("holisticai", tool=HOLISTICAI, does="the same number: natural logarithm")(
    lambda t: exposure_entropy.function(t)
)
for _metric in (precision_ratio, recall_ratio, f1_ratio):
    _metric.convention(
        "holisticai",
        tool=HOLISTICAI,
        does="returns a / b, while its page prints b / a; cuts the truth like the predictions",
    )(_inverted(_metric))
for _metric in (rmse_ratio, mae_ratio):
    _metric.convention("holisticai", tool=HOLISTICAI, does="returns a / b")(_inverted(_metric))


@aggregate_diversity.convention("recbole", tool=RECBOLE, does="ItemCoverage counts its padding item in the denominator")
def _(t: Crosstab) -> Floats:
    return np.asarray((t.popularity > 0).sum(-1) / np.float64(t.items + 1))


@aggregate_diversity.convention(
    "elliot", tool=ELLIOT, does="ItemCoverage is the number of items shown, not a share", ideal=math.nan
)
def _(t: Crosstab) -> Floats:
    return np.asarray((t.popularity > 0).sum(-1), dtype=np.float64)


@exposure_entropy.convention(
    "recbole", tool=RECBOLE, does="ShannonEntropy divides by the number of items shown; natural logarithm"
)
def _(t: Crosstab) -> Floats:
    return np.asarray(exposure_entropy.on(t) / (t.popularity > 0).sum(-1))


@exposure_entropy.convention(
    "elliot", tool=ELLIOT, does="SEntropy is in bits, and every user counts the same however long their list"
)
def _(t: Crosstab) -> Floats:
    total = t.popularity.sum(-1, keepdims=True)
    bits = np.where(t.popularity > 0, -np.log2(t.popularity / total), 0.0)
    return np.where(total[..., 0] > 0, (t.spread * bits).sum(-1) / t.mark("viewers").sum(-1), np.nan)


@atkinson.convention("pysal", tool=PYSAL, does="the same number, but raises when anybody has nothing (undefined here)")
def _(s: Spectrum, *, epsilon: float = 0.5) -> Floats:
    poor = ((s.values == 0) & (s.mass > 0)).any(-1)
    return np.where(poor, np.nan, atkinson.on(s, epsilon=epsilon))


@theil.convention(
    "pysal", tool=PYSAL, does="adds a tiny number to every amount before the logarithm: ours to about 1e-12"
)
def _(s: Spectrum) -> Floats:
    return theil.on(s)


@generalized_entropy.convention(
    "aif360",
    tool=AIF360,
    does="for alpha=0 divides by the mean once more than its own formula, so the value depends on the unit",
)
def _(s: Spectrum, *, alpha: float = 1.0) -> Floats:
    value = generalized_entropy.on(s, alpha=alpha)
    return value / (s.total / s.size) if alpha == 0 else value


@herfindahl.convention("concentrationmetrics", tool=CONCENTRATION, does="normalises by default (our normalized=True)")
def _(s: Spectrum) -> Floats:
    return herfindahl.on(s, normalized=True)


@eer.convention("expeval", tool=EXPEVAL, does="leaves out the factor 2")
def _(t: Any, **params: Any) -> Floats:
    return eer.on(t, **params) / 2


for _metric in (eed, eel):
    _metric.convention("expeval", tool=EXPEVAL, does="the same number with -U; its normalised values are not")(
        _metric.function
    )


@awrf.convention(
    "trec",
    tool=TREC,
    does="returns one minus the Jensen-Shannon divergence with natural logarithms, attention 1/log2(max(rank, 2)): 1 is even",
    ideal=1.0,
    better="higher",
    fixed={"attention": "log"},
)
def _(t: Any, *, target: Any = None, attention: Any = None) -> Floats:
    return 1 - awrf.on(t) * math.log(2)


_MATRIX = [[0.9, 0.8, 0.4, 0.2], [0.7, 0.9, 0.1, 0.6], [0.9, 0.2, 0.8, 0.3]]
_SHOWN = {"top": 2}
_GIVEN: dict[str, dict[str, Any]] = {
    "users": {"user_groups": ["a", "a", "b"]},
    "truth": {"relevant": [[1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 1]]},
}
"""What a metric that reads it is given beside the matrix."""
EXAMPLES: dict[type, tuple[tuple[str, Any], ...]] = {
    Spectrum: (("[0, 0, 0, 10]", [0, 0, 0, 10]), ("[1, 1, 1, 1]", [1, 1, 1, 1]), ("[1, 2, 3, 4]", [1, 2, 3, 4])),
    Crosstab: (("3 users x 4 items, top 2", _MATRIX),),
}
"""Tiny inputs on which the tools are compared."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tool's way with a metric: its name here, its version, what it does, and its numbers on the examples."""

    convention: str
    tool: str
    does: str
    values: dict[str, float]


def compare(name: str) -> list[Comparison]:
    """Ours and every other tool's numbers under one name, on the same tiny inputs.

    >>> [(c.convention, c.values["[0, 0, 0, 10]"]) for c in compare("gini")][:2]
    [('evenhand', 0.75), ('concentrationmetrics', 0.75)]
    """
    metric = REGISTRY[name]
    if not metric.conventions:
        raise EvenhandError(f"No other tool is known that computes {name} differently. See evenhand metrics {name}.")
    evenhand = Comparison("evenhand", "this package", metric.card.asks, dict(_values(metric, None)))
    others = [
        Comparison(key, c.tool, c.does, dict(_values(metric, key))) for key, c in sorted(metric.conventions.items())
    ]
    return [evenhand, *others]


def _values(metric: Metric, convention: str | None) -> Iterator[tuple[str, float]]:
    keywords: dict[str, Any] = {} if convention is None else {"convention": convention}
    if metric.card.needs is Crosstab:
        keywords |= _SHOWN
        for need, arguments in _GIVEN.items():
            keywords |= arguments if need in metric.reads() else {}
    if metric is generalized_entropy:
        keywords["alpha"] = 0.0
    for words, data in EXAMPLES.get(metric.card.needs, ()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedWarning)
            yield words, metric(data, **keywords)

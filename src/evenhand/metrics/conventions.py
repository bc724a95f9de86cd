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

from evenhand.cards import REGISTRY, Convention, Floats, Metric
from evenhand.errors import EvenhandError, UndefinedWarning
from evenhand.metrics.exposure import eed, eel, eer
from evenhand.metrics.inequality import atkinson, generalized_entropy, gini, herfindahl, theil
from evenhand.metrics.recommender import (
    aggregate_diversity,
    exposure_entropy,
    exposure_kl,
    exposure_tv,
    f1_ratio,
    item_gini,
    mad,
    mae_ratio,
    precision_ratio,
    recall_ratio,
    recommendation_popularity,
    rmse_ratio,
)
from evenhand.metrics.representation import awrf
from evenhand.tallies.crosstab import Crosstab
from evenhand.tallies.exposure import Exposed
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


def _declare(metric: Metric, tool: str, does: str, function: Callable[..., Any], **fields: Any) -> None:
    """Declare a tool's way with a metric: `gini(x, convention="pysal")` for "PySAL inequality 1.1.2"."""
    metric.conventions[tool.split()[0].lower()] = Convention(tool=tool, does=does, function=function, **fields)


def _declare_ginis(tool: str, does: str, function: Callable[[Spectrum], Floats], **fields: Any) -> None:
    """Declare a tool's way with `gini` and with `item_gini`, the Gini index of times shown."""
    _declare(gini, tool, does, function, **fields)
    _declare(item_gini, tool, does, lambda t: function(t.spectrum), **fields)


def _with_padding_item(s: Spectrum) -> Spectrum:
    values = np.concatenate([np.zeros((*s.values.shape[:-1], 1)), s.values], axis=-1)
    return Spectrum(values, np.concatenate([np.ones((*s.counts.shape[:-1], 1)), s.counts], axis=-1))


_declare_ginis(LENSKIT, "divides by n, items never shown included, as we do", lambda s: gini.on(s))
for _tool in (PYSAL, FAIRDIVERSE, CONCENTRATION):
    _declare(gini, _tool, "divides by n, as we do", lambda s: gini.on(s))
_declare_ginis(
    HOLISTICAI, "divides by n - 1 (our corrected=True), while its page prints n", lambda s: gini.on(s, corrected=True),
)  # fmt: skip
_declare_ginis(
    RECBOLE, "counts its padding item as one more item that is never shown", lambda s: gini.on(_with_padding_item(s)),
)  # fmt: skip
_declare_ginis(
    ELLIOT, "returns one minus the corrected Gini: 1 is equality, while its page prints G",
    lambda s: 1 - gini.on(s, corrected=True), ideal=1.0, better="higher",
)  # fmt: skip
_declare_ginis(
    EVIDENTLY, "divides by n - 1 and leaves out items that were never shown",
    lambda s: gini.on(Spectrum(s.values, np.where(s.values > 0, s.counts, 0.0)), corrected=True),
)  # fmt: skip


def _inverted(metric: Metric) -> Callable[[Crosstab], Floats]:
    """The ratio the other way round: a / b."""

    def function(t: Crosstab) -> Floats:
        versus, protected = t.pair or (0, 0)
        return metric.on(t.between(protected, versus))

    return function


for _metric in (mad, exposure_tv, aggregate_diversity, recommendation_popularity):
    _does = "the same number, apart from ties (highest column) and missing scores (may be shown)"
    _declare(_metric, HOLISTICAI, _does, _metric.function)
for _metric in (precision_ratio, recall_ratio, f1_ratio):
    _does = "returns a / b, while its page prints b / a; cuts the truth like the predictions"
    _declare(_metric, HOLISTICAI, _does, _inverted(_metric))
for _metric in (rmse_ratio, mae_ratio):
    _declare(_metric, HOLISTICAI, "returns a / b", _inverted(_metric))
_declare(exposure_kl, HOLISTICAI, "the same number, without smoothing", lambda t: exposure_kl.on(t))
_declare(exposure_entropy, HOLISTICAI, "the same number: natural logarithm", lambda t: exposure_entropy.on(t))


def _elliot_entropy(t: Crosstab) -> Floats:
    total = t.popularity.sum(-1, keepdims=True)
    bits = np.where(t.popularity > 0, -np.log2(t.popularity / total), 0.0)
    return np.where(total[..., 0] > 0, (t.spread * bits).sum(-1) / t.mark("viewers").sum(-1), np.nan)


_declare(
    aggregate_diversity, RECBOLE, "ItemCoverage counts its padding item in the denominator",
    lambda t: (t.popularity > 0).sum(-1) / (t.items + 1),
)  # fmt: skip
_declare(
    aggregate_diversity, ELLIOT, "ItemCoverage is the number of items shown, not a share",
    lambda t: (t.popularity > 0).sum(-1), ideal=math.nan,
)  # fmt: skip
_declare(
    exposure_entropy, RECBOLE, "ShannonEntropy divides by the number of items shown; natural logarithm",
    lambda t: exposure_entropy.on(t) / (t.popularity > 0).sum(-1),
)  # fmt: skip
_declare(
    exposure_entropy, ELLIOT, "SEntropy is in bits, and every user counts the same however long their list",
    _elliot_entropy,
)  # fmt: skip


def _pysal_atkinson(s: Spectrum, *, epsilon: float = 0.5) -> Floats:
    poor = ((s.values == 0) & (s.mass > 0)).any(-1)
    return np.where(poor, np.nan, atkinson.on(s, epsilon=epsilon))


def _aif360_entropy(s: Spectrum, *, alpha: float = 1.0) -> Floats:
    value = generalized_entropy.on(s, alpha=alpha)
    return value / (s.total / s.size) if alpha == 0 else value


_declare(atkinson, PYSAL, "the same number, but raises when anybody has nothing (undefined here)", _pysal_atkinson)
_declare(
    theil, PYSAL, "adds a tiny number to every amount before the logarithm: ours to about 1e-12", lambda s: theil.on(s),
)  # fmt: skip
_declare(
    generalized_entropy, AIF360,
    "for alpha=0 divides by the mean once more than its own formula, so the value depends on the unit",
    _aif360_entropy,
)  # fmt: skip
_declare(
    herfindahl, CONCENTRATION, "normalises by default (our normalized=True)",
    lambda s: herfindahl.on(s, normalized=True),
)  # fmt: skip


def _trec_awrf(t: Exposed, *, target: Any = None, attention: Any = None) -> Floats:
    return 1 - awrf.on(t) * math.log(2)


_declare(eer, EXPEVAL, "leaves out the factor 2", lambda t, **params: eer.on(t, **params) / 2)
for _metric in (eed, eel):
    _declare(_metric, EXPEVAL, "the same number with -U; its normalised values are not", _metric.function)
_declare(
    awrf, TREC,
    "returns one minus the Jensen-Shannon divergence with natural logarithms, attention 1/log2(max(rank, 2)): 1 is even",
    _trec_awrf, ideal=1.0, better="higher", fixed={"attention": "log"},
)  # fmt: skip


_MATRIX = [[0.9, 0.8, 0.4, 0.2], [0.7, 0.9, 0.1, 0.6], [0.9, 0.2, 0.8, 0.3]]
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
        keywords["top"] = 2
        for need, arguments in _GIVEN.items():
            keywords |= arguments if need in metric.reads() else {}
    if metric is generalized_entropy:
        keywords["alpha"] = 0.0
    for words, data in EXAMPLES.get(metric.card.needs, ()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedWarning)
            yield words, metric(data, **keywords)

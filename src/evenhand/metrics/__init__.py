"""The metrics as plain functions: `eh.metrics.gini([1, 2, 3])`. The registry of their cards is `eh.metrics.cards()`.

Every module of this package is loaded, so a metric that is declared in one of them is here at once; the imports below
are for type checkers and for functions that are no metrics.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING

from evenhand.cards import REGISTRY, Metric, cards
from evenhand.metrics import conventions
from evenhand.metrics.agreement import kendall_tau_c
from evenhand.metrics.catalogue import aggregate_diversity, exposure_entropy, item_gini, recommendation_popularity
from evenhand.metrics.decomposition import decompose, decompose_sources
from evenhand.metrics.expected import eed, eel, eer, target_exposure, target_norm
from evenhand.metrics.exposure import dp, eur, iaa, log_dp, log_eur, log_rur, rur
from evenhand.metrics.inequality import (
    atkinson,
    generalized_entropy,
    gini,
    gini_chance,
    gini_se,
    herfindahl,
    hoover,
    mean,
    reach,
    theil,
)
from evenhand.metrics.item_fairness import (
    ai_disparity,
    count_disparity,
    ii_disparity,
    jain_index,
    ranked_gini,
    satisfied_items,
)
from evenhand.metrics.pairwise import accuracy, inter_acc, intra_acc
from evenhand.metrics.prefix import geyik_ndkl, ndd, ndjs, ndkl, ndr, pref, pref_kl, pref_nd, pref_rd
from evenhand.metrics.ranked_numbers import output_bias, ranking_bias
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
from evenhand.metrics.reorder import least_promoted, ndcg, ndcg_relevance, rank_biased_overlap
from evenhand.metrics.representation import FairTable, awrf, fair, fair_satisfied, fair_table, fair_violation
from evenhand.metrics.selection import (
    average_outcome,
    equalized_odds_gap,
    impact_ratio,
    marginal_outcome,
    selection_rate,
)
from evenhand.metrics.shares import (
    Lorenz,
    bottom_share,
    equal_share,
    equivalent_to_top,
    lorenz,
    palma,
    percentile,
    percentile_ratio,
    share_ratio,
    top_share,
    top_share_se,
)

__all__ = [
    "FairTable",
    "Lorenz",
    "accuracy",
    "aggregate_diversity",
    "ai_disparity",
    "atkinson",
    "average_outcome",
    "awrf",
    "bottom_share",
    "cards",
    "conventions",
    "count_disparity",
    "decompose",
    "decompose_sources",
    "dp",
    "eed",
    "eel",
    "eer",
    "equal_share",
    "equalized_odds_gap",
    "equivalent_to_top",
    "eur",
    "exposure_entropy",
    "exposure_kl",
    "exposure_tv",
    "f1_ratio",
    "fair",
    "fair_satisfied",
    "fair_table",
    "fair_violation",
    "generalized_entropy",
    "geyik_ndkl",
    "gini",
    "gini_chance",
    "gini_se",
    "herfindahl",
    "hoover",
    "iaa",
    "ii_disparity",
    "impact_ratio",
    "inter_acc",
    "intra_acc",
    "item_gini",
    "jain_index",
    "kendall_tau_c",
    "least_promoted",
    "log_dp",
    "log_eur",
    "log_rur",
    "lorenz",
    "mad",
    "mae_ratio",
    "marginal_outcome",
    "mean",
    "ndcg",
    "ndcg_relevance",
    "ndd",
    "ndjs",
    "ndkl",
    "ndr",
    "output_bias",
    "palma",
    "percentile",
    "percentile_ratio",
    "precision_ratio",
    "pref",
    "pref_kl",
    "pref_nd",
    "pref_rd",
    "rank_biased_overlap",
    "ranked_gini",
    "ranking_bias",
    "reach",
    "recall_ratio",
    "recommendation_popularity",
    "rmse_ratio",
    "rur",
    "satisfied_items",
    "selection_rate",
    "share_ratio",
    "target_exposure",
    "target_norm",
    "theil",
    "top_share",
    "top_share_se",
]  # fmt: skip

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

if not TYPE_CHECKING:  # a misspelt name is a type error

    def __getattr__(name: str) -> Metric:
        if name in REGISTRY:
            return REGISTRY[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

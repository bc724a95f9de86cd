"""The metrics as plain functions: `eh.metrics.gini([1, 2, 3])`. The registry of their cards is `eh.metrics.cards()`.

Every module of this package is loaded, so a metric that is declared in one of them is here at once; the imports below
are for type checkers and for functions that are no metrics.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING

from evenhand.cards import REGISTRY, Metric
from evenhand.cards import cards as cards
from evenhand.metrics import conventions as conventions
from evenhand.metrics.agreement import kendall_tau_c as kendall_tau_c
from evenhand.metrics.decomposition import decompose as decompose
from evenhand.metrics.decomposition import decompose_sources as decompose_sources
from evenhand.metrics.exposure import dp as dp
from evenhand.metrics.exposure import eed as eed
from evenhand.metrics.exposure import eel as eel
from evenhand.metrics.exposure import eer as eer
from evenhand.metrics.exposure import eur as eur
from evenhand.metrics.exposure import iaa as iaa
from evenhand.metrics.exposure import log_dp as log_dp
from evenhand.metrics.exposure import log_eur as log_eur
from evenhand.metrics.exposure import log_rur as log_rur
from evenhand.metrics.exposure import rur as rur
from evenhand.metrics.exposure import target_exposure as target_exposure
from evenhand.metrics.exposure import target_norm as target_norm
from evenhand.metrics.inequality import Lorenz as Lorenz
from evenhand.metrics.inequality import atkinson as atkinson
from evenhand.metrics.inequality import bottom_share as bottom_share
from evenhand.metrics.inequality import equal_share as equal_share
from evenhand.metrics.inequality import equivalent_to_top as equivalent_to_top
from evenhand.metrics.inequality import generalized_entropy as generalized_entropy
from evenhand.metrics.inequality import gini as gini
from evenhand.metrics.inequality import gini_chance as gini_chance
from evenhand.metrics.inequality import gini_se as gini_se
from evenhand.metrics.inequality import herfindahl as herfindahl
from evenhand.metrics.inequality import hoover as hoover
from evenhand.metrics.inequality import lorenz as lorenz
from evenhand.metrics.inequality import mean as mean
from evenhand.metrics.inequality import palma as palma
from evenhand.metrics.inequality import percentile as percentile
from evenhand.metrics.inequality import percentile_ratio as percentile_ratio
from evenhand.metrics.inequality import reach as reach
from evenhand.metrics.inequality import share_ratio as share_ratio
from evenhand.metrics.inequality import theil as theil
from evenhand.metrics.inequality import top_share as top_share
from evenhand.metrics.inequality import top_share_se as top_share_se
from evenhand.metrics.pairwise import accuracy as accuracy
from evenhand.metrics.pairwise import inter_acc as inter_acc
from evenhand.metrics.pairwise import intra_acc as intra_acc
from evenhand.metrics.prefix import geyik_ndkl as geyik_ndkl
from evenhand.metrics.prefix import ndd as ndd
from evenhand.metrics.prefix import ndjs as ndjs
from evenhand.metrics.prefix import ndkl as ndkl
from evenhand.metrics.prefix import ndr as ndr
from evenhand.metrics.prefix import output_bias as output_bias
from evenhand.metrics.prefix import pref as pref
from evenhand.metrics.prefix import pref_kl as pref_kl
from evenhand.metrics.prefix import pref_nd as pref_nd
from evenhand.metrics.prefix import pref_rd as pref_rd
from evenhand.metrics.prefix import ranking_bias as ranking_bias
from evenhand.metrics.recommender import aggregate_diversity as aggregate_diversity
from evenhand.metrics.recommender import ai_disparity as ai_disparity
from evenhand.metrics.recommender import count_disparity as count_disparity
from evenhand.metrics.recommender import exposure_entropy as exposure_entropy
from evenhand.metrics.recommender import exposure_kl as exposure_kl
from evenhand.metrics.recommender import exposure_tv as exposure_tv
from evenhand.metrics.recommender import f1_ratio as f1_ratio
from evenhand.metrics.recommender import ii_disparity as ii_disparity
from evenhand.metrics.recommender import item_gini as item_gini
from evenhand.metrics.recommender import jain_index as jain_index
from evenhand.metrics.recommender import mad as mad
from evenhand.metrics.recommender import mae_ratio as mae_ratio
from evenhand.metrics.recommender import precision_ratio as precision_ratio
from evenhand.metrics.recommender import ranked_gini as ranked_gini
from evenhand.metrics.recommender import recall_ratio as recall_ratio
from evenhand.metrics.recommender import recommendation_popularity as recommendation_popularity
from evenhand.metrics.recommender import rmse_ratio as rmse_ratio
from evenhand.metrics.recommender import satisfied_items as satisfied_items
from evenhand.metrics.reorder import least_promoted as least_promoted
from evenhand.metrics.reorder import ndcg as ndcg
from evenhand.metrics.reorder import ndcg_relevance as ndcg_relevance
from evenhand.metrics.reorder import rank_biased_overlap as rank_biased_overlap
from evenhand.metrics.representation import FairTable as FairTable
from evenhand.metrics.representation import awrf as awrf
from evenhand.metrics.representation import fair as fair
from evenhand.metrics.representation import fair_satisfied as fair_satisfied
from evenhand.metrics.representation import fair_table as fair_table
from evenhand.metrics.representation import fair_violation as fair_violation
from evenhand.metrics.selection import average_outcome as average_outcome
from evenhand.metrics.selection import equalized_odds_gap as equalized_odds_gap
from evenhand.metrics.selection import impact_ratio as impact_ratio
from evenhand.metrics.selection import marginal_outcome as marginal_outcome
from evenhand.metrics.selection import selection_rate as selection_rate

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

if not TYPE_CHECKING:  # a misspelt name is a type error

    def __getattr__(name: str) -> Metric:
        if name in REGISTRY:
            return REGISTRY[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

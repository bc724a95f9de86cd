"""The metrics as plain functions: `eh.metrics.gini([1, 2, 3])`. The registry of their cards is `eh.metrics.cards()`."""

from evenhand.cards import cards
from evenhand.metrics.decomposition import decompose, decompose_sources
from evenhand.metrics.inequality import (
    atkinson,
    generalized_entropy,
    gini,
    gini_chance,
    gini_se,
    herfindahl,
    hoover,
    mean,
    theil,
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
    "Lorenz",
    "atkinson",
    "bottom_share",
    "cards",
    "decompose",
    "decompose_sources",
    "equal_share",
    "equivalent_to_top",
    "generalized_entropy",
    "gini",
    "gini_chance",
    "gini_se",
    "herfindahl",
    "hoover",
    "lorenz",
    "mean",
    "palma",
    "percentile",
    "percentile_ratio",
    "share_ratio",
    "theil",
    "top_share",
    "top_share_se",
]

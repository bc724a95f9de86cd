"""The metrics as plain functions: `eh.metrics.gini([1, 2, 3])`. The registry of their cards is `eh.metrics.cards()`."""

from evenhand.cards import cards
from evenhand.metrics.contrast import average_outcome, equalized_odds_gap, marginal_outcome
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
    "average_outcome",
    "bottom_share",
    "cards",
    "equal_share",
    "equalized_odds_gap",
    "equivalent_to_top",
    "generalized_entropy",
    "gini",
    "gini_chance",
    "gini_se",
    "herfindahl",
    "hoover",
    "lorenz",
    "marginal_outcome",
    "mean",
    "palma",
    "percentile",
    "percentile_ratio",
    "share_ratio",
    "theil",
    "top_share",
    "top_share_se",
]

"""Who gets seen, and is it even-handed? Inequality and fairness audits for rankings and recommenders.

Names are loaded when first used, so that `import evenhand` costs almost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataWarning, EvenhandError, UndefinedWarning

__version__ = "0.1.0"

_WHERE = {
    "OutcomeRecalibrator": "evenhand.audits.recalibrator",
    "advise": "evenhand.audits.advise",
    "agreement": "evenhand.audits.agreement",
    "attention": "evenhand.attention",
    "compare": "evenhand.audits.compare",
    "criteria": "evenhand.audits.criteria",
    "decompose": "evenhand.audits.decompose",
    "distances": "evenhand.distances",
    "exposure": "evenhand.audits.exposure",
    "inequality": "evenhand.audits.inequality",
    "log_bins": "evenhand.views.bins",
    "metrics": "evenhand.metrics",
    "outcome_test": "evenhand.audits.outcome",
    "pairwise": "evenhand.audits.pairwise",
    "prefix": "evenhand.audits.prefix",
    "quantile_bins": "evenhand.views.bins",
    "read": "evenhand.audits.read",
    "recommender": "evenhand.audits.recommender",
    "rollup": "evenhand.audits.exposure",
    "sensitivity": "evenhand.audits.sensitivity",
    "sources": "evenhand.audits.sources",
    "synthetic": "evenhand.synthetic",
}

if TYPE_CHECKING:
    from evenhand import metrics as metrics
    from evenhand import synthetic as synthetic
    from evenhand.audits.advise import advise as advise
    from evenhand.audits.agreement import agreement as agreement
    from evenhand.audits.criteria import criteria as criteria
    from evenhand.audits.decompose import decompose as decompose
    from evenhand.audits.exposure import exposure as exposure
    from evenhand.audits.exposure import rollup as rollup
    from evenhand.audits.inequality import inequality as inequality
    from evenhand.audits.outcome import outcome_test as outcome_test
    from evenhand.audits.pairwise import pairwise as pairwise
    from evenhand.audits.prefix import prefix as prefix
    from evenhand.audits.recalibrator import OutcomeRecalibrator as OutcomeRecalibrator
    from evenhand.audits.recommender import recommender as recommender
    from evenhand.audits.sensitivity import sensitivity as sensitivity
    from evenhand.audits.sources import sources as sources
    from evenhand.views.bins import log_bins as log_bins
    from evenhand.views.bins import quantile_bins as quantile_bins

__all__ = ["DataWarning", "EvenhandError", "UndefinedWarning", "__version__", *sorted(_WHERE)]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'evenhand' has no attribute {name!r}")
    module = importlib.import_module(_WHERE[name])
    found = getattr(module, name, module)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)

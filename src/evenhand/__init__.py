"""Who gets seen, and is it even-handed? Inequality and fairness audits for rankings and recommenders.

Names are loaded when first used, so that `import evenhand` costs almost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataWarning, EvenhandError, UndefinedWarning

__version__ = "0.1.0"

_WHERE = {
    "attention": "evenhand.attention",
    "distances": "evenhand.distances",
    "inequality": "evenhand.audits.inequality",
    "metrics": "evenhand.metrics",
    "read": "evenhand.audits.read",
    "recommender": "evenhand.audits.recommender",
}

if TYPE_CHECKING:
    from evenhand import metrics as metrics
    from evenhand.audits.inequality import inequality as inequality
    from evenhand.audits.recommender import recommender as recommender

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

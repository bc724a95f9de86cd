"""aequitas: `pip install aequitas`. The upper of two scores is a positive decision; a mass is so many rows."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping
from typing import Any


def version() -> str:
    return f"aequitas {importlib.metadata.version('aequitas')}"


def adapter(question: Mapping[str, Any]) -> float:
    if question["metric"] != "equalized_odds_gap":
        raise NotImplementedError
    groups = question["input"]["groups"]
    scores = sorted({s for rows in groups.values() for _, s, _ in rows})
    if len(scores) > 2:
        raise NotImplementedError
    import pandas as pd
    from aequitas.group import Group

    rows = []
    for g, cells in groups.items():
        for mass, score, chance in cells:
            for label, many in ((1, 10 * mass * chance), (0, 10 * mass * (1 - chance))):
                rows += [{"score": int(score == scores[-1]), "label_value": label, "group": g}] * round(many)
    table, _ = Group().get_crosstabs(pd.DataFrame(rows), attr_cols=["group"])
    gaps = [
        table[rate].max() - table[rate].min() if not table[rate].isna().any() else math.nan for rate in ("tpr", "fpr")
    ]
    return float(max(gaps)) if not any(map(math.isnan, gaps)) else math.nan

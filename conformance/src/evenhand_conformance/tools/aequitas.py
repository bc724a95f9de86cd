"""aequitas: `pip install aequitas`. The upper of two scores is a positive decision; a mass is so many rows."""

from __future__ import annotations

import math

from conformance_parts import Question, two_scores, version_of

version = version_of("aequitas")


def adapter(question: Question) -> float:
    if question["metric"] != "equalized_odds_gap":
        raise NotImplementedError
    groups = question["input"]["groups"]
    upper = two_scores(groups)[-1]
    import pandas as pd
    from aequitas.group import Group

    rows = []
    for g, cells in groups.items():
        for mass, score, chance in cells:
            for label, many in ((1, 10 * mass * chance), (0, 10 * mass * (1 - chance))):
                rows += [{"score": int(score == upper), "label_value": label, "group": g}] * round(many)
    table, _ = Group().get_crosstabs(pd.DataFrame(rows), attr_cols=["group"])
    if table[["tpr", "fpr"]].isna().any(axis=None):
        return math.nan
    return float(max(table[rate].max() - table[rate].min() for rate in ("tpr", "fpr")))

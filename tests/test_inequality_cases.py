"""The worked inequality cases through the whole audit: a log of events in, the printed number out, on every engine."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import polars as pl
import pytest

import evenhand as eh
from golden_cases import cases, plain

ENGINES = {
    "pandas": lambda df: df.to_pandas(),
    "polars": lambda df: df,
    "polars-lazy": lambda df: df.lazy(),
    "pyarrow": lambda df: df.to_arrow(),
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}

ASKED = {
    "gini": lambda a: "gini",
    "gini_area": lambda a: "gini",
    "gini_corrected": lambda a: "gini(corrected=True)",
    "gini_weighted": lambda a: "gini",
    "atkinson": lambda a: f"atkinson(epsilon={a['eps']!r})",
    "generalized_entropy": lambda a: f"generalized_entropy(alpha={a['alpha']!r})",
    "hoover": lambda a: "hoover",
    "palma": lambda a: "palma",
    "hhi": lambda a: "herfindahl",
    "hhi_normalized": lambda a: "herfindahl(normalized=True)",
    "percentile": lambda a: f"percentile(p={a['p']!r})",
    "percentile_ratio": lambda a: f"percentile_ratio(upper={a['upper']!r}, lower={a['lower']!r})",
    "share_ratio": lambda a: f"share_ratio(upper={a['upper']!r}, lower={a['lower']!r})",
    "top_share": lambda a: f"top_share(p={a['top']!r})",
    "bottom_share": lambda a: f"bottom_share(p={a['bottom']!r})",
    "equal_share": lambda a: "equal_share",
    "equivalent_to_top": lambda a: f"equivalent_to_top(p={a['top']!r})",
    "lorenz": lambda a: f"bottom_share(p={a['p']!r})",
}


def log_of(x, weights=None):
    """Amounts as a shuffled log: every unit has two events that add up to what it received."""
    units = np.arange(len(x))
    first = [v // 2 if isinstance(v, int) else v / 2 for v in x]
    columns = {
        "unit": np.concatenate([units, units]),
        "amount": [*first, *(v - f for v, f in zip(x, first, strict=True))],
        "weight": [*weights, *weights] if weights else [1.0] * (2 * len(x)),
    }
    return pl.DataFrame(columns, strict=False).sample(fraction=1, shuffle=True, seed=1)


@pytest.mark.parametrize("engine", ENGINES)
@cases(ASKED)
def test_the_worked_cases_come_out_of_the_audit(case, engine):
    a, expect = plain(case["args"]), case["expect"]
    weighted = {"weight": "weight"} if case["fn"] == "gini_weighted" else {}

    def audit():
        table = ENGINES[engine](log_of(a["x"], a.get("w")))
        metric = ASKED[case["fn"]](a)
        found = eh.inequality(
            table, unit="unit", amount="amount", population=None, metrics=[metric], interval=None, **weighted
        )
        return found.findings.columns["estimate"][0], found.findings.columns["note"][0]

    if not a["x"] or (isinstance(expect, dict) and "raises" in expect):
        with pytest.raises(eh.EvenhandError):  # a log without rows is refused: there is nobody to speak of
            audit()
        return
    value, note = audit()
    if isinstance(expect, dict) and "nan" in expect:
        assert math.isnan(value)
        assert note == expect["nan"]
    elif isinstance(expect, dict):
        assert value == math.copysign(math.inf, expect["inf"])
    else:
        assert value == pytest.approx(plain(expect), abs=case["tol"], rel=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_units_that_nobody_saw_come_from_the_population(engine):
    table = ENGINES[engine](pl.DataFrame({"unit": [7], "amount": [10]}))
    for population in (4, pl.DataFrame({"unit": [1, 2, 3, 7]})):
        found = eh.inequality(table, unit="unit", amount="amount", population=population, metrics="gini", interval=None)
        assert found.findings.columns["estimate"] == [0.75]

"""pandas 2 and 3: missing labels stay missing, and columns of objects are read as what they hold or refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evenhand as eh

CALL = {"unit": "u", "amount": "v", "population": None, "metrics": "mean", "interval": None}
MISSING = {
    "None in objects": pd.Series(["x", None, "y", None], dtype=object),
    "NaN in objects": pd.Series(["x", np.nan, "y", np.nan], dtype=object),
    "text": pd.Series(["x", None, "y", None], dtype="string"),
    "categories": pd.Series(["x", None, "y", None], dtype="category"),
    "as pandas reads it": pd.Series(["x", None, "y", None]),
}


def labels(found, column):
    return [None if pd.isna(v) else v for v in found.findings.columns[column]]


@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_of_slices_stay_missing(kind):
    table = pd.DataFrame({"u": list("abcd"), "v": [1, 2, 3, 4], "s": MISSING[kind]})
    found = eh.inequality(table, by="s", **CALL)
    assert labels(found, "s") == ["x", "y", None]
    assert found.findings.columns["estimate"] == [1, 3, 3]


@pytest.mark.parametrize("kind", MISSING)
def test_missing_units_are_missing_and_not_called_none(kind):
    table = pd.DataFrame({"u": MISSING[kind], "v": [1, 2, 3, 4]})
    with pytest.raises(eh.EvenhandError, match="unit='u' is missing in 2 rows"):
        eh.inequality(table, **CALL)


@pytest.mark.parametrize("kind", MISSING)
def test_missing_groups_of_rankings_are_unknown(kind):
    table = pd.DataFrame({"request": [1, 1, 1, 1], "item": list("abcd"), "rank": [1, 2, 3, 4], "g": MISSING[kind]})
    found = eh.exposure(table, groups="g", metrics="awrf", interval=None)
    assert set(found.provenance["group_sizes"]) == {"x", "y"}
    assert found.provenance["unlabelled_ranked_items"] == 2
    told = eh.prefix(table, group="g", interval=None, chance=None)
    assert told.provenance["unlabelled_items"] == 2


@pytest.mark.parametrize("role", ["unit", "by"])
@pytest.mark.parametrize("values", [[[1], [2], [1]], [{"a": 1}, {"a": 2}, {"a": 1}], [1, "x", None]])
def test_lists_mappings_and_mixtures_are_no_labels(role, values):
    table = pd.DataFrame({"u": list("abc"), "v": [1, 2, 3], "odd": pd.Series(values, dtype=object)})
    with pytest.raises(eh.EvenhandError, match=f"{role}='odd'"):
        eh.inequality(table, **(CALL | {role: "odd"}))


def test_a_column_called_paths_is_a_column_like_any_other():
    table = pd.DataFrame({"u": list("abcd"), "paths": [1, 2, 3, 4]})
    assert eh.inequality(table, **CALL | {"amount": "paths"}).findings.columns["estimate"] == [2.5]


def test_lists_are_handed_out_without_pyarrow_too(monkeypatch):
    import importlib.util

    import duckdb
    import polars as pl

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyarrow" else found(name, *more)
    )
    for name in ("to_pandas", "to_arrow"):  # what Polars does where PyArrow is missing
        monkeypatch.setattr(pl.DataFrame, name, lambda self: pytest.fail("needs PyArrow"))
    scores = pd.DataFrame({"user": list("uuvv"), "item": list("abab"), "score": [1.0, 2.0, 3.0, 1.0]})
    shown = eh.recommender(scores, top=1, interval=None).shown
    assert isinstance(shown, pd.DataFrame)
    assert shown.values.tolist() == [["u", "b", 1.0], ["v", "a", 1.0]]
    relation = duckdb.sql("SELECT * FROM scores")
    assert isinstance(eh.recommender(relation, top=1, interval=None).shown, pl.DataFrame)
    ranked = eh.rerank(
        scores.rename(columns={"user": "request"}),
        method="calibrated(strength=0.5)",
        top=1,
        groups={"a": "x", "b": "y"},
        target={"x": 0.5, "y": 0.5},
    )
    assert isinstance(ranked, pd.DataFrame)

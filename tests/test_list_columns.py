"""A row per request with a list of its items, best first."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh

LISTS = {"query": ["q1", "q2", "q3"], "items": [["a", "b", "c"], ["c", "a"], ["b", "d", "a", "c"]]}
SIDE = {"a": "x", "b": "y", "c": "y", "d": "x"}
LONG = pl.DataFrame(LISTS).with_columns(rank=pl.int_ranges(1, pl.col("items").list.len() + 1)).explode("items", "rank")


def exposure(table, **options):
    roles = {"request": "query", "item": "items", "groups": SIDE, "protected": "x", "interval": None}
    return eh.exposure(table, **{**roles, **options})


def estimates(result):
    return np.array(result.to_dict()["columns"]["estimate"], dtype=float)


@pytest.fixture(params=["polars", "lazy", "pandas", "arrays", "arrow", "parquet", "jsonl", "json", "ipc", "duckdb"])
def lists(request, tmp_path):
    frame = pl.DataFrame(LISTS)
    if request.param in ("parquet", "ipc", "jsonl"):
        path = tmp_path / f"lists.{'arrow' if request.param == 'ipc' else request.param}"
        {"parquet": frame.write_parquet, "ipc": frame.write_ipc, "jsonl": frame.write_ndjson}[request.param](path)
        return str(path)
    if request.param == "json":
        path = tmp_path / "lists.json"
        path.write_text(json.dumps({"data": frame.to_dicts()}))
        return str(path)
    if request.param == "duckdb":
        import duckdb

        return duckdb.from_arrow(frame.to_arrow())
    makes = {
        "polars": lambda: frame, "lazy": frame.lazy, "pandas": lambda: pd.DataFrame(LISTS), "arrow": frame.to_arrow,
        "arrays": lambda: pd.DataFrame({**LISTS, "items": [np.array(i, dtype=object) for i in LISTS["items"]]}),
    }  # fmt: skip
    return makes[request.param]()


def test_lists_of_items_are_rankings_by_position(lists):
    result = exposure(lists)
    np.testing.assert_allclose(estimates(result), estimates(exposure(LONG)))
    assert result.provenance["reading"]["columns"]["items"] == {"list": "items"}


def test_lists_of_scores_and_grades_run_beside_the_items():
    table = pl.DataFrame(
        {"request": [1, 2], "item": [["a", "b", "c"], ["d", "b"]], "score": [[3.0, 2.0, 1.0], [0.5, 0.4]],
         "rel": [[1, 0, 1], [0, 1]]}
    )  # fmt: skip
    long = table.explode("item", "score", "rel")
    for audit, options in (
        (eh.pairwise, {"groups": SIDE, "relevance": "rel", "protected": "x"}),
        (eh.rebalance, {"top": 2, "providers": SIDE, "holdout": 0, "interval": None}),
    ):
        np.testing.assert_allclose(
            estimates(audit(table, rng=1, **options)), estimates(audit(long, rng=1, **options)), equal_nan=True
        )


def test_a_list_of_labels_is_a_ranking_of_labels():
    table = pl.DataFrame({"request": [1, 2], "stance": [["con", "pro", "con"], ["pro", "con", "pro", "con"]]})
    long = table.with_columns(rank=pl.int_ranges(1, pl.col("stance").list.len() + 1)).explode("stance", "rank")
    same = {"group": "stance", "protected": "con", "rng": 1}
    np.testing.assert_allclose(estimates(eh.prefix(table, **same)), estimates(eh.prefix(long, **same)))


def test_fields_of_listed_objects_are_columns(tmp_path):
    """As Spark's ALS and most web services hand out recommendations."""
    rows = [
        {"user": 1, "recommendations": [{"movie": "a", "rating": 4.5}, {"movie": "b", "rating": 4.0}]},
        {"user": 2, "recommendations": [{"movie": "c", "rating": 3.5}, {"movie": "d", "rating": 3.0}]},
    ]
    path = tmp_path / "recommendations.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    long = (
        pl.DataFrame(rows)
        .explode("recommendations")
        .unnest("recommendations")
        .with_columns(rank=pl.Series([1, 2, 1, 2]))
    )
    roles = {"request": "user", "item": "movie", "groups": SIDE, "protected": "x", "interval": None}
    expected = estimates(eh.exposure(long, **roles))
    for table in (pl.DataFrame(rows), str(path)):
        np.testing.assert_allclose(estimates(eh.exposure(table, **roles)), expected)


def test_lists_of_unequal_length_are_refused():
    table = pl.DataFrame({"request": [1, 2], "item": [["a", "b"], ["c"]], "score": [[2.0, 1.0], [1.0, 0.5]]})
    with pytest.raises(eh.EvenhandError, match="'item' and 'score' differ in length in 1 row"):
        eh.pairwise(table, groups=SIDE, relevance={"a": 1}, protected="x")


def test_empty_lists_are_counted():
    table = pl.DataFrame({"query": ["q1", "q2", "q3"], "items": [["a", "b"], [], None]})
    result = exposure(table)
    assert result.provenance["reading"]["columns"]["items"]["empty"] == 2


def test_several_labels_of_an_item_are_no_ranking():
    table = pl.DataFrame({"request": [1, 1], "item": ["a", "b"], "rank": [1, 2], "genres": [["x", "y"], ["x"]]})
    with pytest.raises(eh.EvenhandError, match="plain labels"):
        eh.exposure(table, groups="genres", protected="x")

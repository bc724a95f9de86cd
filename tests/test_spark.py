"""PySpark through the same engine code: the same numbers as the local engines, and nothing collected but the tally."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evenhand as eh

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def events(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "author": [f"a{i}" for i in rng.integers(0, 300, rows)],
            "via": rng.choice(["home", "search", "topics"], rows),
            "views": rng.poisson(2, rows).astype(np.int32),
            "watch": rng.lognormal(0, 1, rows),
        }
    )


def authors(n=350):
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "author": [f"a{i}" for i in range(n)],
            "band": rng.choice(["x", "y"], n),
            "followers": np.floor(rng.pareto(1, n) * 9),
        }
    )


@pytest.fixture(scope="module")
def tables(spark):
    """The same tables here and in Spark."""
    here = {"events": events(), "authors": authors()}
    there = {name: spark.createDataFrame(df.to_arrow()) for name, df in here.items()}
    for frame in there.values():
        frame.cache()
    return here, there


def same(call, tables):
    """Assert that an audit says the same of both, to the byte."""
    here, there = tables
    assert call(there["events"], there["authors"]).to_text("csv") == call(here["events"], here["authors"]).to_text(
        "csv"
    )


CALL = dict(unit="author", amount="views", rng=3, interval="bootstrap(49)")


def test_inequality_gives_the_same_bytes(tables):
    same(lambda e, a: eh.inequality(e, **CALL, population=400, by="via"), tables)


def test_a_population_table_gives_the_same_bytes(tables):
    same(lambda e, a: eh.inequality(e, **CALL, population=a, by="via"), tables)


def test_a_population_of_another_library_is_taken_along(tables):
    here, there = tables
    wanted = eh.inequality(here["events"], **CALL, population=here["authors"])
    assert eh.inequality(there["events"], **CALL, population=here["authors"]).to_text("csv") == wanted.to_text("csv")


def test_counting_rows_gives_the_same_bytes(tables):
    same(lambda e, a: eh.inequality(e, **(CALL | {"amount": None}), population=None), tables)


def test_floats_agree_to_nine_digits(tables):
    here, there = tables
    call = CALL | {"amount": "watch", "population": 400, "by": "via"}
    wanted, found = (eh.inequality(t["events"], **call).findings.columns for t in (here, there))
    for column in ("estimate", "low", "high"):
        np.testing.assert_allclose(found[column], wanted[column], rtol=1e-9)


@pytest.mark.parametrize("spec", [eh.log_bins("followers", 5), eh.quantile_bins("followers", 5)], ids=str)
def test_bins_give_the_same_bytes(tables, spec):
    same(lambda e, a: eh.inequality(e, **CALL, population=a, by=spec), tables)


def test_sources_give_the_same_bytes(tables):
    same(lambda e, a: eh.sources(e, **CALL, source="via", population=400), tables)


def test_decompose_gives_the_same_bytes(tables):
    same(lambda e, a: eh.decompose(e, **CALL, group="band", population=a), tables)


def test_criteria_give_the_same_bytes(tables):
    call = dict(unit="author", amount="views", population=400, by="via", metrics=["gini", "top_share"], rng=3)
    same(lambda e, a: eh.criteria(e, **call), tables)


def test_no_row_leaves_spark_but_the_tally(tables, monkeypatch):
    """The largest table that is collected has one row per cell, far fewer than events or units."""
    from pyspark.sql.classic.dataframe import DataFrame

    collected, to_arrow = [], DataFrame.toArrow

    def counted(self):
        table = to_arrow(self)
        collected.append(table.num_rows)
        return table

    for way in ("collect", "toPandas", "toLocalIterator"):
        monkeypatch.setattr(DataFrame, way, lambda self, *a, **k: pytest.fail("rows were collected"))
    monkeypatch.setattr(DataFrame, "toArrow", counted)
    _, there = tables
    result = eh.inequality(there["events"], unit="author", amount="views", population=400, interval=None)
    distinct = events().group_by("author").agg(pl.col("views").sum())["views"].n_unique()
    assert collected
    assert max(collected) == distinct < 100
    assert result.findings.columns["units"][0] == 400


def test_the_frame_comes_back_as_pyarrow(tables):
    import pyarrow as pa

    _, there = tables
    assert isinstance(eh.inequality(there["events"], **CALL, population=None).frame, pa.Table)


def test_bad_input_is_one_sentence_not_pages_of_java(tables):
    _, there = tables
    with pytest.raises(eh.EvenhandError, match="Did you mean 'views'"):
        eh.inequality(there["events"], **(CALL | {"amount": "veiws"}), population=None)
    negative = there["events"].withColumn("views", -there["events"]["views"])
    with pytest.raises(eh.EvenhandError, match="negative in"):
        eh.inequality(negative, **CALL, population=None)
    failing = there["events"].selectExpr("author", "raise_error('the disk is on fire') as views")
    with pytest.raises(eh.EvenhandError) as caught:
        eh.inequality(failing.selectExpr("author", "cast(views as int) as views"), **CALL, population=None)
    assert len(str(caught.value)) < 500


def test_the_example_of_the_page_of_engines_gives_the_numbers_of_the_other_engines(spark, tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "docs" / "engines.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code = "".join(re.findall(r"^```python(?: spark)?\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    exec(compile(code, "docs/engines.md", "exec"), {})  # the last block holds Spark's numbers against Arrow's

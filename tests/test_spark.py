"""Spark on a cluster, through the same engine code: the numbers of the local engines, and nothing collected but the tally.

All tests that need Spark stand here, so that one cluster serves them all.
"""

import functools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from cluster import told
from evenhand.audits.declare import AUDITS, names
from evenhand.cli import main
from evenhand.findings import Findings
from evenhand.report.reproduce import ways

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def events(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "author": [f"a{i}" for i in rng.integers(0, 300, rows)],
            "via": rng.choice(["home", "search", "topics"], rows),
            "views": rng.poisson(2, rows).astype(np.int32),
            "watch": rng.lognormal(0, 1, rows),
            "day": np.datetime64("2026-01-01") + rng.integers(0, 90, rows),
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


def test_bins_give_the_same_bytes(tables):
    same(lambda e, a: eh.inequality(e, **CALL, population=a, by=eh.quantile_bins("followers", 5)), tables)


def test_periods_give_the_same_bytes(tables):
    same(lambda e, a: eh.inequality(e, **CALL, population=None, by=eh.periods("day", every="week")), tables)


def log(rows=30_000):
    rng = np.random.default_rng(2)
    viewer, author = rng.integers(0, 800, rows), rng.zipf(1.6, rows) % 400
    return pl.DataFrame(
        {
            "author": [f"author {i}" for i in author],
            "viewer": [f"viewer {i}" for i in viewer],
            "arm": np.where(viewer % 2 == 0, "new", "control"),
            "via": rng.choice(["home", "search", "topics"], rows),
            "band": np.where(author % 3 == 0, "x", "y"),
            "views": rng.poisson(2, rows),
        }
    )


def rankings(requests=300, depth=25):
    rng = np.random.default_rng(3)
    item = np.concatenate([rng.choice(900, depth, replace=False) for _ in range(requests)])
    return pl.DataFrame(
        {
            "request": np.repeat([f"request {i}" for i in range(requests)], depth),
            "user": np.repeat([f"user {i // 4}" for i in range(requests)], depth),
            "system": np.repeat(["new", "old"], requests // 2 * depth),
            "item": [f"item {i}" for i in item],
            "rank": np.tile(np.arange(1, depth + 1), requests),
            "score": 1 / np.tile(np.arange(1, depth + 1), requests),
            "side": np.where(item % 3 == 0, "f", "m"),
            "grade": (rng.random(requests * depth) < 0.3).astype(np.int64),
        }
    )


def test_periods_of_rankings_give_the_same_bytes(spark):
    number = pl.col("request").str.split(" ").list.last().cast(pl.Int32)
    here = rankings(80, 8).with_columns(day=pl.date(2026, 1, 1) + pl.duration(days=number))
    there = spark.createDataFrame(here.to_arrow())
    how = {"groups": "side", "metrics": "awrf", "by": eh.periods("day", every="month"), "interval": None, "rng": 1}
    assert eh.exposure(there, **how).to_text("csv") == eh.exposure(here, **how).to_text("csv")
    assert eh.exposure(here, **how).frame["day"].n_unique() == 3


def people(rows=20_000):
    rng = np.random.default_rng(4)
    score = rng.random(rows).round(2)
    return pl.DataFrame(
        {
            "score": score,
            "group": rng.choice(["a", "b"], rows),
            "outcome": (rng.random(rows) < score).astype(np.int64),
            "vacancy": [f"vacancy {i}" for i in rng.integers(0, 50, rows)],
        }
    )


def ratings(users=200, items=60):
    rng = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "user": np.repeat([f"user {i}" for i in range(users)], items),
            "item": np.tile([f"item {i}" for i in range(items)], users),
            "score": rng.random(users * items),
            "group": np.repeat(rng.choice(["a", "b"], users), items),
        }
    )


UNITS = {"unit": "author", "amount": "views", "rng": 3}
SIDES = {"protected": "f", "rng": 3, "interval": "percentile(29)"}
FEW = {"metrics": ["ndd", "ndjs"], "system": "system", "chance": None, "interval": None, "protected": "f", "rng": 1}
ASKS = {
    "inequality": (log, lambda t: eh.inequality(t, **UNITS, population=500, by="via", interval="bootstrap(29)")),
    "sources": (log, lambda t: eh.sources(t, **UNITS, source="via", population=500, interval="percentile(29)")),
    "decompose": (log, lambda t: eh.decompose(t, **UNITS, group="band", population=None, interval="percentile(29)")),
    "criteria": (log, lambda t: eh.criteria(t, **UNITS, population=500, by="via", metrics=["gini", "top_share"], draws=29)),
    "experiment": (log, lambda t: eh.experiment(t, **UNITS, arm="arm", randomized="viewer", population=500, draws=99)),
    "explain": (log, lambda t: eh.explain(t, **UNITS, arm="arm", control="control", source="via", population=500)),
    "network": (log, lambda t: eh.network(t, t, **UNITS, viewer="viewer", follower="viewer", followed="author", draws=9)),
    "impact": (people, lambda t: eh.impact(t, group="group", score="score")),
    "outcome_test": (people, lambda t: eh.outcome_test(t, score="score", outcome="outcome", group="group", request="vacancy", bins=4)),
    "recommender": (ratings, lambda t: eh.recommender(t, user_groups="group", top=5, rng=3, interval="bootstrap(29)", chance="permutation(29)")),
    "exposure": (rankings, lambda t: eh.exposure(t, groups="side", relevance="grade", cluster="user", **SIDES)),
    "prefix": (rankings, lambda t: eh.prefix(t, group="side", system="system", chance="permutation(29)", **SIDES)),
    "pairwise": (rankings, lambda t: eh.pairwise(t, groups="side", relevance="grade", cluster="user", **SIDES)),
    "rebalance": (rankings, lambda t: eh.rebalance(t.filter("rank <= 9") if hasattr(t, "rdd") else t.filter(pl.col("rank") <= 9), top=3, providers="side", rng=3, interval=None)),
    "advise": (rankings, lambda t: eh.advise(t, group="side", protected="f")),
    "compare": (rankings, lambda t: eh.compare(eh.prefix(t, group="side", cluster="user", **FEW), draws=199, rng=1)),
    "agreement": (rankings, lambda t: eh.agreement(eh.prefix(t, group="side", **FEW), rng=1)),
    "sensitivity": (rankings, lambda t: eh.sensitivity("prefix", t, group="side", protected="f", system="system", vary={"metrics": ["ndd", "ndjs"]})),
}  # fmt: skip
"""A table and a question for every audit."""

TRAVELS = {
    "inequality": 0.005, "sources": 0.005, "decompose": 0.005, "criteria": 0.005,
    "outcome_test": 0.85, "sensitivity": 0.1, "recommender": 0.04, "rebalance": 0.2, "experiment": 0.15,
    "exposure": 0.35, "network": 0.1,
}  # fmt: skip
"""The part of the table's bytes that may reach the driver; of other audits, 0.05: ids, and a byte or two for each item.

Of an outcome test, odds are compared row by row: score, outcome and cluster of up to two million rows, and the code of their group.
Of exposure, the lists of up to 1,000 rankings of a slice are put in random order: here that is every list. `sensitivity`
asks twice. A graph is rewired by the driver, so its edges travel. Users come three times: with their label, their number of
scores, and their list. A new allocation needs its candidates.
"""

WINDOW_IN_ONE_PLACE = re.compile(r"Window \[.*\n[^\n]*(?:Sort[^\n]*\n[^\n]*)?Exchange SinglePartition")


@pytest.fixture(scope="module")
def watched():
    """Every table that leaves Spark, with the plan that it was made by; there is no other way out."""
    from pyspark.sql.classic.dataframe import DataFrame

    left, to_arrow = [], DataFrame.toArrow

    def counted(self):
        left.append((to_arrow(self), self._jdf.queryExecution().executedPlan().toString()))
        return left[-1][0]

    with pytest.MonkeyPatch.context() as patch:
        for way in ("collect", "toPandas", "toLocalIterator"):
            patch.setattr(DataFrame, way, lambda self, *a, **k: pytest.fail("rows were collected"))
        patch.setattr(DataFrame, "toArrow", counted)
        yield left


@pytest.fixture(scope="module")
def asked(spark, watched, tmp_path_factory):
    """An audit's answer here and on the cluster, the tables that left Spark for it, and the table's own bytes."""
    folder = tmp_path_factory.mktemp("tables")

    @functools.cache
    def ask(name):
        table, question = ASKS[name]
        path, here = folder / f"{table.__name__}.parquet", table()
        if not path.exists():
            here.write_parquet(path)
        before = len(watched)
        found = question(spark.read.parquet(str(path)))
        return question(here), found, watched[before:], here.to_arrow().nbytes

    return ask


def test_there_is_a_question_for_every_audit():
    assert set(ASKS) == set(names()) == set(AUDITS)


@pytest.mark.parametrize("name", ASKS)
def test_every_audit_says_the_same_on_a_cluster_with_the_same_draws(name, asked):
    here, there, _, _ = asked(name)
    wanted, found = here.to_dict()["columns"], there.to_dict()["columns"]
    assert list(found) == list(wanted)
    for column, values in wanted.items():
        if any(isinstance(v, float) for v in values):
            mine, theirs = (np.array(v, dtype=float) for v in (values, found[column]))
            np.testing.assert_allclose(theirs, mine, rtol=1e-9, atol=1e-12, err_msg=column)
        else:
            assert found[column] == values, column


@pytest.mark.parametrize("name", ASKS)
def test_little_of_the_table_reaches_the_driver(name, asked):
    _, _, left, size = asked(name)
    assert left
    assert sum(table.nbytes for table, _ in left) <= TRAVELS.get(name, 0.05) * size


@pytest.mark.parametrize(
    "name", [name for name in ASKS if name != "network"]
)  # numbers people, whose graph the driver holds
def test_no_window_takes_all_rows_to_one_place(name, asked):
    _, _, left, _ = asked(name)
    assert not [plan for _, plan in left if WINDOW_IN_ONE_PLACE.search(plan)]


def test_a_window_over_all_rows_would_be_noticed(spark, watched):
    spark.range(9).selectExpr("id", "sum(id) over (order by id) as s").toArrow()
    assert WINDOW_IN_ONE_PLACE.search(watched[-1][1])
    spark.range(9).selectExpr("id", "sum(id) over (partition by id % 2 order by id) as s").toArrow()
    assert not WINDOW_IN_ONE_PLACE.search(watched[-1][1])


def test_inequality_sends_one_row_per_distinct_amount(asked):
    _, _, left, _ = asked("inequality")
    per_author = log().group_by("via", "author").agg(pl.col("views").sum())
    assert max(table.num_rows for table, _ in left) == per_author.select("via", "views").n_unique()


def test_lists_with_empty_ranks_and_unlabelled_items_are_gathered_as_they_are(spark):
    gaps = rankings(40, 9).filter(pl.col("rank") != pl.col("request").str.len_chars() % 9 + 1)
    labels = gaps.select("item", group="side").unique().filter(pl.col("item").str.len_chars() != 6)
    for unknown in ("drop", "group"):
        call = {
            "protected": "f",
            "rng": 1,
            "chance": None,
            "interval": None,
            "unknown": unknown,
            "metrics": ["ndd", "ndjs"],
        }
        there = eh.prefix(
            spark.createDataFrame(gaps.to_arrow()), group=spark.createDataFrame(labels.to_arrow()), **call
        )
        assert there.to_text("csv") == eh.prefix(gaps, group=labels, **call).to_text("csv")


def test_pairs_are_drawn_alike(spark):
    table, call = rankings(20, 8), {"relevance": "grade", "protected": "f", "rng": 1, "negatives": 2, "interval": None}
    labels = table.select("item", group="side").unique()
    there = eh.pairwise(spark.createDataFrame(table.to_arrow()), groups=labels, **call)
    assert there.to_text("csv") == eh.pairwise(table, groups=labels, **call).to_text("csv")


def test_ties_and_unjudged_items_are_gathered_as_they_are(spark):
    table = rankings(30, 9).with_columns(
        score=pl.col("rank") // 3 * -0.5, grade=pl.when(pl.col("rank") != 4).then(pl.col("grade") * 0.7 + 0.1)
    )
    there = spark.createDataFrame(table.to_arrow())
    call = {"relevance": "grade", "groups": "side", "protected": "f", "rng": 1, "interval": None}
    for audit in (eh.pairwise, eh.exposure):
        assert audit(there, **call).to_text("csv") == audit(table, **call).to_text("csv")


@pytest.mark.parametrize("ties", ["last", "fractional"])
def test_lists_are_cut_on_the_cluster_with_their_ties_and_held_against_a_truth(ties, spark, watched):
    rng = np.random.default_rng(6)
    table = ratings(40, 20).with_columns(score=pl.Series(rng.integers(0, 6, 800) / 5)).filter(rng.random(800) < 0.8)
    truth = table.filter(rng.random(table.height) < 0.4).select("user", "item", relevance=1 - pl.col("score").round(0))
    call = {"user_groups": "group", "top": 4, "true_top": 3, "ties": ties, "rng": 1, "interval": "percentile(29)"}
    before = len(watched)
    there = eh.recommender(*(spark.createDataFrame(t.to_arrow()) for t in (table,)), relevant=truth, **call)
    here = eh.recommender(table, relevant=truth, **call)
    for column in ("estimate", "low", "high", "chance"):
        np.testing.assert_allclose(
            there.findings.columns[column], here.findings.columns[column], rtol=1e-9, err_msg=column
        )
    assert there.provenance["users_with_ties"] == here.provenance["users_with_ties"] > 0
    assert not [name for sent, _ in watched[before:] for name in sent.column_names if name == "value"]


@pytest.mark.parametrize(("judged", "normalize"), [(False, True), (True, False)])
def test_lists_that_are_filled_with_what_has_no_score_are_cut_on_the_cluster(judged, normalize, spark, watched):
    rng = np.random.default_rng(7)
    table = ratings(40, 20).with_columns(score=pl.Series(rng.integers(0, 6, 800) / 5)).filter(rng.random(800) < 0.2)
    truth = table.filter(rng.random(table.height) < 0.6).select("user", "item", relevance=1 - pl.col("score"))
    call = {"user_groups": "group", "top": 4, "convention": "holisticai", "normalize": normalize, "rng": 1}
    call |= {"interval": "percentile(29)", "relevant": truth if judged else None}
    before = len(watched)
    there = eh.recommender(spark.createDataFrame(table.to_arrow()), **call)
    here = eh.recommender(table, **call)
    for column in ("estimate", "low", "high", "chance"):
        np.testing.assert_allclose(
            there.findings.columns[column], here.findings.columns[column], rtol=1e-9, err_msg=column
        )
    assert there.provenance["users_with_ties"] == here.provenance["users_with_ties"] > 0
    assert there.provenance["slots"] == here.provenance["slots"] == 160
    assert not [name for sent, _ in watched[before:] for name in sent.column_names if name == "value"]


def test_of_items_half_as_many_as_scores_ids_and_numbers_travel_but_no_score(spark, watched):
    rng = np.random.default_rng(8)
    table = ratings(200, 50).with_columns(item=pl.format("item {}", pl.Series(rng.permutation(10_000) // 2)))
    table, before = table.unique(["user", "item"], maintain_order=True), len(watched)
    eh.recommender(spark.createDataFrame(table.to_arrow()), user_groups="group", top=5, rng=1, interval=None)
    sent = [left for left, _ in watched[before:]]
    assert not [name for left in sent for name in left.column_names if name == "value"]
    assert sum(left.nbytes for left in sent) < 0.7 * table.select("user", "item", "score").to_arrow().nbytes


def test_units_that_hold_the_same_travel_once(spark, watched):
    rng, viewers = np.random.default_rng(8), 400
    table = pl.DataFrame(
        {
            "author": np.arange(4_000),
            "viewer": rng.integers(0, viewers, 4_000),
            "views": 1 + 40_000 * rng.integers(0, 2, 4_000),
        }
    )
    table = table.with_columns(arm=pl.col("viewer") % 2)
    call = {
        **UNITS,
        "arm": "arm",
        "control": 0,
        "randomized": "viewer",
        "population": 5_000,
        "metrics": ["gini"],
        "draws": 99,
    }
    before = len(watched)
    there = eh.experiment(spark.createDataFrame(table.to_arrow()), **call)
    assert there.to_text("csv") == eh.experiment(table, **call).to_text("csv")
    assert max(sent.num_rows for sent, _ in watched[before:]) <= table.select("viewer", "views").n_unique() < 1_000
    assert not [name for sent, _ in watched[before:] for name in sent.column_names if name == "unit"]


def test_ties_have_no_order_on_a_cluster(spark):
    there = spark.createDataFrame(rankings(4, 6).to_arrow())
    with pytest.raises(eh.EvenhandError, match="whose rows have an order"):
        eh.prefix(there.selectExpr("request", "item", "side", "rank % 3 + 1 as rank"), group="side", ties="input_order")


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


def test_queries_that_are_printed_for_databricks_run_on_spark(tables):
    here, there = tables
    there["events"].createOrReplaceTempView("events")
    call, rows = {"unit": "author", "amount": "views", "source": "via", "population": 400}, []
    while True:
        before = eh.read.tally(*rows) if rows else None
        query = eh.sql("sources", table="events", dialect="databricks", whole=["views"], tally=before, **call)
        if "Every query is answered" in query:
            break
        rows.append(there["events"].sparkSession.sql(query).toArrow())
    found = eh.sources(eh.read.tally(*rows), **call, rng=1)
    assert found.to_text("csv") == eh.sources(here["events"], **call, rng=1).to_text("csv")


def test_half_of_the_rows_under_one_key_and_one_long_list_change_nothing(spark):
    skewed = (
        log(6_000)
        .with_row_index()
        .with_columns(author=pl.when(pl.col("index") < 3_000).then(pl.lit("author 7")).otherwise("author"))
    )
    call = {**UNITS, "population": 500, "by": "via", "interval": "bootstrap(29)"}
    there = eh.inequality(spark.createDataFrame(skewed.drop("index").to_arrow()), **call)
    assert there.to_text("csv") == eh.inequality(skewed, **call).to_text("csv")
    lists = pl.concat(
        [
            rankings(20, 5),
            rankings(2, 300).filter(pl.col("request") == "request 0").with_columns(request=pl.lit("long")),
        ]
    )
    call = {"group": "side", "protected": "f", "rng": 1, "interval": None, "chance": None, "metrics": ["ndd", "ndjs"]}
    assert eh.prefix(spark.createDataFrame(lists.to_arrow()), **call).to_text("csv") == eh.prefix(
        lists, **call
    ).to_text("csv")


WORDS = [
    "--unit",
    "author",
    "--amount",
    "views",
    "--by",
    "via",
    "-m",
    "gini",
    "--seed",
    "1",
    "--interval",
    "percentile(29)",
]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log(3_000).write_parquet("log.parquet")
    log(3_000).write_parquet("log [1].parquet")
    pl.DataFrame({"author": [f"author {i}" for i in range(450)]}).write_parquet("authors.parquet")
    return tmp_path


def test_the_command_line_reads_parquet_on_a_cluster_and_says_how_to_do_it_again(spark, cluster, files, capsys):
    words = [
        "inequality",
        "log [1].parquet",
        *WORDS,
        "--population",
        "authors.parquet",
        "--format",
        "json",
        "--no-progress",
    ]
    assert main([*words, "--engine", "spark", "--master", cluster.url]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    here = json.loads(capsys.readouterr().out)
    assert found["columns"] == here["columns"]
    assert found["provenance"]["plan_hash"] == here["provenance"]["plan_hash"]
    assert found["provenance"]["reading"] == {"engine": "spark", "master": cluster.url}
    (_, command), (lead, _), (_, plan) = ways(Findings.from_dict(found))
    assert f"spark.read.parquet('log [1].parquet'), of a session on {cluster.url}:" in lead
    (files / "plan.toml").write_text(plan)
    for again in ([*shlex.split(command)[1:]], ["run", "plan.toml"]):
        assert main([*again, "--format", "json", "--no-progress"]) == 0
        made = json.loads(capsys.readouterr().out)
        assert (made["columns"], made["provenance"]["reading"]) == (found["columns"], found["provenance"]["reading"])


@pytest.mark.parametrize(("name", "text"), [
    ("log.tsv", "author\tviews\tvia\na01\t1\tx\na1\t2,5\t\nb\t04\t x\n"),
    ("log.jsonl", '{"author": 1, "views": 2.5, "via": "01"}\n{"author": 2, "views": 1e3, "via": null}\n'),
])  # fmt: skip
def test_text_gives_what_the_local_engine_gives(name, text, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text, encoding="utf-8")
    words = [
        "inequality",
        name,
        "--unit",
        "author",
        "--amount",
        "views",
        "--population",
        "none",
        "--by",
        "via",
        "--seed",
        "1",
    ]
    results = []
    for engine in ("spark", "duckdb"):
        assert (
            main([*words, "--engine", engine, "--format", "json", "--output", f"{engine}.json", "--no-progress"]) == 0
        )
        results.append(json.loads((tmp_path / f"{engine}.json").read_text(encoding="utf-8")))
    there, here = results
    assert there["columns"] == here["columns"]
    assert there["provenance"]["inputs"] == here["provenance"]["inputs"]
    assert "--engine spark" in ways(Findings.from_dict(there))[0][1]
    assert ways(Findings.from_dict(there))[1][0] == "In Python, on this machine:"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hdfs://127.0.0.1:9/log.csv", "--engine", "spark"], "is not Parquet, and Spark reads nothing else there."),
        (["log*.parquet", "authors.parquet", "--engine", "spark"], "has files with different columns"),
        (["authors.parquet", "--master", "spark://there:7077"], "Add --engine spark"),
        (["authors.parquet", "--engine", "spark", "--master", "spark://there:7077"], "runs already"),
        (["hdfs://127.0.0.1:9/log.parquet", "--engine", "spark"], "cannot be read: Spark failed with"),
        (["lost.parquet", "--engine", "spark"], "'lost.parquet' is not a file"),
    ],
)
def test_what_spark_cannot_read_is_one_sentence(words, said, spark, files, capfd):
    assert main(["inequality", *words, "--unit", "author", "--population", "none", "--no-progress"]) == 2
    told = capfd.readouterr().err
    assert said in told
    assert len(told) < 400


def test_a_driver_that_is_killed_leaves_no_half_file(cluster, files):
    words = ["inequality", "log.parquet", *WORDS, "--population", "500", "--output", "f.json", "--html", "r.html"]
    command = [sys.executable, "-m", "evenhand", *words, "--engine", "spark", "--master", cluster.url]
    before = sorted(os.listdir())
    place = {
        **os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_SUBMIT_ARGS": "--conf spark.executor.memory=512m --conf spark.driver.host=127.0.0.1 pyspark-shell",
    }  # fmt: skip
    driver = subprocess.Popen(command, env=place, stderr=subprocess.DEVNULL)
    told(cluster.folder / "master.log", "Registered app evenhand with ID", cluster.master)
    time.sleep(2)  # executors start, and the table is read for the first time
    driver.kill()
    assert driver.wait(60) == -signal.SIGKILL
    assert sorted(os.listdir()) == before


def test_a_worker_that_is_killed_loses_nothing(spark, cluster):
    slowly = "length(reflect('java.lang.Thread', 'sleep', 3L)) - 4"
    table = spark.range(0, 1_200, 1, 8).selectExpr("id % 90 as author", f"id % 7 + {slowly} as views")
    busy = []

    def kill():
        while not busy:
            busy.extend(spark.sparkContext.statusTracker().getActiveStageIds())
        time.sleep(0.5)
        os.killpg(cluster.workers[0].pid, signal.SIGKILL)  # and the executor on it, as when a machine goes down

    killer = threading.Thread(target=kill)
    killer.start()
    call = {"unit": "author", "amount": "views", "population": 100, "rng": 1, "interval": None}
    found = eh.inequality(table, **call)
    killer.join()
    assert busy
    assert cluster.workers[0].wait(10) == -signal.SIGKILL
    here = pl.DataFrame({"author": np.arange(1_200) % 90, "views": np.arange(1_200) % 7})
    assert found.to_text("csv") == eh.inequality(here, **call).to_text("csv")

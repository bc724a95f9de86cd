"""Queries of `evenhand sql`: their rows give what the table itself gives, on DuckDB and on a real PostgreSQL."""

import datetime as dt
import functools
import importlib

import duckdb
import numpy as np
import polars as pl
import psycopg
import pytest
import sqlglot
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.cli import main
from evenhand.engine.dialects import DIALECTS
from evenhand.engine.queries import units_query

rng = np.random.default_rng(7)
N = 600
DRAWN = dict(rng=1, interval="bootstrap(20)")


def gaps(values, share=0.02):
    return [None if gone else value for value, gone in zip(values, rng.random(N) < share, strict=True)]


LOG = pl.DataFrame(
    {
        "author": rng.integers(0, 80, N).astype(str),
        "source": gaps(rng.choice(["home", "it's", "search"], N).tolist()),
        "day": rng.choice(["2026-01-01", "2026-01-02"], N),
        "views": rng.integers(0, 20, N),
        "cash": rng.lognormal(size=N),
    }
).with_columns(
    pl.Series("odd author", gaps(rng.integers(0, 80, N).astype(str).tolist())),
    pl.Series("holes", gaps(rng.integers(0, 9, N).tolist())),
    (1 + pl.col("author").cast(pl.Int64) % 3).cast(pl.Float64).alias("weight"),
    (pl.col("views") > 9).alias("popular"),
    pl.when(pl.col("day") == "2026-01-02").then(pl.lit(float("nan"))).otherwise(pl.col("cash")).alias("nan cash"),
)

GENDERS = rng.choice(["f", "m", "x", "none"], 40).tolist()
RANKED = pl.DataFrame(
    [
        (q, draw, f"item {i}", place, 1 / place, None if GENDERS[i] == "none" else GENDERS[i], "ab"[q % 2], 1.0 + q % 3, 0.3 + 0.4 * draw,
         None if (q + i) % 5 == 0 or q == 3 else (q + 7 * i) % 4)
        for q in range(30)
        for draw in (0, 1)
        for place, i in enumerate(rng.permutation(40)[:12].tolist(), 1)
    ],
    schema=["query", "draw", "doc", "rank", "score", "gender", "day", "users", "chance", "grade"],
    orient="row",
)  # fmt: skip
SCORES = rng.random(N).round(2)
SCORED = pl.DataFrame(
    {
        "score": np.where(LOG["source"].to_numpy() == "home", 0.1 + 0.7 * SCORES, SCORES),
        "kind": LOG["source"],
        "day": LOG["day"],
        "clicked": rng.random(N) < 0.2 + 0.6 * SCORES,
        "money": SCORES + rng.normal(size=N) / 100,
        "weight": rng.integers(0, 4, N).astype(float),
        "shown": gaps((rng.random(N) < 0.8).tolist()),
        "query": np.arange(N) // 4,
        "city": LOG["author"],
    }
)
BY_SCORE = dict(score="score", group="kind")
BY_QUERY = dict(groups="gender", protected="f", versus="m", request="query", item="doc", sample="draw")
TABLES = {
    "inequality": ("log", LOG),
    "sources": ("log", LOG),
    "exposure": ("ranked", RANKED),
    "outcome_test": ("scored", SCORED),
}

ASKS = {
    "amounts per slice": ("inequality", dict(unit="author", amount="views", by="source", population=300)),
    "two slice columns": ("inequality", dict(unit="author", amount="views", by=["source", "day"], population=None)),
    "sizes of slices": ("inequality", dict(unit="author", amount="views", by="day", population={"2026-01-01": 250, "2026-01-02": 260, "2026-01-03": 9})),
    "rows are counted": ("inequality", dict(unit="author", population=300)),
    "rows are units": ("inequality", dict(unit=None, amount="cash", by="day", population=None)),
    "several amounts": ("inequality", dict(unit="author", amount=["views", "cash"], population=300, min_units=5)),
    "weights": ("inequality", dict(unit="author", amount="cash", weight="weight", population=None)),
    "what is missing is left out": ("inequality", dict(unit="odd author", amount="holes", population=None, nan_policy="omit")),
    "what is missing spoils its slice": ("inequality", dict(unit="author", amount="nan cash", by="day", population=None, nan_policy="propagate")),
    "truth values": ("inequality", dict(unit="author", amount="popular", population=None)),
    "sources": ("sources", dict(unit="author", amount="views", source="source", population=300)),
    "sources by slice": ("sources", dict(unit="author", amount="cash", source="source", by="day", population=None)),
    "sources of rows": ("sources", dict(unit="author", source="source", population=300, min_units=5)),
    "exposure": ("exposure", dict(**BY_QUERY, by="day", probability="chance", weight="users")),
    "the unknown are a group": ("exposure", dict(**BY_QUERY, unknown="group", metrics=["awrf@5", "log_dp(attention='log(offset=1)')"])),
    "small groups": ("exposure", dict(BY_QUERY | {"versus": ["m", "x"]}, by="day", min_units=8, unknown="group", relevance="grade", metrics=["log_eur", "eed", "awrf"])),
    "small groups of all": ("exposure", dict(request="query", item="doc", sample="draw", groups="gender", min_units=11, metrics=["eed"])),
    "ranked by score": ("exposure", dict(**BY_QUERY, rank=None, score="score", attention="rbp(patience=0.9)", metrics=["log_dp", "eed"])),
    "relevance": ("exposure", dict(**BY_QUERY, relevance="grade", by="day", weight="users")),
    "relevance where the unknown count": ("exposure", dict(**BY_QUERY, relevance="grade", unknown="unprotected", metrics=["eel@5", "log_eur", "awrf(target='relevant')"])),
    "outcome test": ("outcome_test", dict(**BY_SCORE, outcome="clicked", reference="search")),
    "outcomes along the score, by slice": ("outcome_test", dict(**BY_SCORE, outcome="money", by="day", bins=4)),
    "weighted outcomes of some": ("outcome_test", dict(**BY_SCORE, outcome="clicked", weight="weight", treated="shown", nan_policy="omit")),
    "edges of one's own": ("outcome_test", dict(**BY_SCORE, outcome="clicked", kind="classification", threshold=0.3, bins=[0.4, 0.6, 0.8])),
    "clustered errors": ("outcome_test", dict(**BY_SCORE, outcome="clicked", request="query", bins=3)),
    "clustered errors by slice": ("outcome_test", dict(**BY_SCORE, outcome="money", cluster="city", weight="weight", by="day", bins=3)),
    "few of a kind": ("outcome_test", dict(**BY_SCORE, outcome="money", min_units=7, bins=4)),
    "few of a kind, by slice": ("outcome_test", dict(**BY_SCORE, outcome="clicked", by="day", min_units=60, bins=3, weight="weight")),
    "few above a bar": ("outcome_test", dict(**BY_SCORE, outcome="clicked", kind="classification", threshold=0.3, min_units=20)),
    "few between one's own edges": ("outcome_test", dict(**BY_SCORE, outcome="money", by="day", min_units=5, bins=[0.4, 0.6], cluster="city")),
    "few on few scores": ("outcome_test", dict(score="weight", group="kind", outcome="money", kind="classification", min_units=9, bins=2)),
    "errors of one variance": ("outcome_test", dict(**BY_SCORE, outcome="money", request="day", covariance="classical", bins=3)),
}  # fmt: skip
NAMES = ("--name", "home", "--name", "it's", "--name", "search", "--name", "nobody")
MORE = {"truth values": ("--truth", "popular"), "sources": NAMES, "sources by slice": NAMES, "sources of rows": NAMES}
TRUTH = ("--truth", "clicked", "--truth", "shown")


FLAGS = {"metrics": "metric"}


def words(name, dialect, table=None):
    """The command that prints the query of an ask."""
    verb, call = ASKS[name]
    table = TABLES[verb][0] if table is None else table
    found = ["sql", verb.replace("_", "-"), "--table", table, "--dialect", dialect, *MORE.get(name, ())]
    found += TRUTH if verb == "outcome_test" else ()
    for key, value in call.items():
        if key != "population":
            for one in value if isinstance(value, list) else [value]:
                found += [f"--{FLAGS.get(key, key).replace('_', '-')}", "none" if one is None else str(one)]
    return found


def printed(name, dialect, capsys, table=None):
    assert main(words(name, dialect, table)) == 0
    return capsys.readouterr().out


def answers(name, table):
    verb, call = ASKS[name]
    more = {"chance": False} if verb == "exposure" else {}
    more |= {} if verb == "outcome_test" else {"rng": 1, "interval": "bootstrap(20)"}
    return getattr(eh, verb)(table, **call, **more)


@functools.cache
def direct(name):
    """What the table itself says where it is too large for its rows to be looked at one by one."""
    with pytest.MonkeyPatch.context() as patch:
        for most in ("MOST_ROWS", "FEW_ROWS"):
            patch.setattr(importlib.import_module("evenhand.audits.outcome_test"), most, 0)
        return answers(name, TABLES[ASKS[name][0]][1])


def assert_same(found, wanted):
    said = pl.col("note").replace("too_many_rows", "no_single_rows")  # both have no row to look at, for another reason
    wanted_rows = pl.DataFrame(wanted.frame).with_columns(said)
    assert_frame_equal(pl.DataFrame(found.frame), wanted_rows, rel_tol=1e-9, abs_tol=1e-12)
    told = {"plan", "plan_hash", "needed_again"}  # where the numbers come from may differ, and nothing else
    assert near({k: v for k, v in found.provenance.items() if k not in told}) == near(
        {k: v for k, v in wanted.provenance.items() if k not in told}
    )


def near(value):
    """The same without the last digits of means."""
    if isinstance(value, dict):
        return {k: near(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [near(v) for v in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as found:
        for name, frame in TABLES.values():
            found.register(name, frame.to_arrow())
        yield found


TYPES = {pl.String: "text", pl.Int64: "bigint", pl.Float64: "double precision", pl.Boolean: "boolean", pl.Date: "date"}


def put(connection, name, frame):
    columns = ", ".join(f'"{c}" {TYPES[t]}' for c, t in frame.schema.items())
    connection.execute(f"CREATE TABLE {name} ({columns})")
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for row in frame.iter_rows():
            copy.write_row(row)


def saved(connection, query, path):
    """The answer of PostgreSQL in a file."""
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)") as copy:
        path.write_bytes(b"".join(bytes(part) for part in copy))


@pytest.fixture(scope="module")
def warehouse(postgres):
    with psycopg.connect(host=postgres, user="evenhand", dbname="postgres") as connection:
        connection.execute("CREATE SCHEMA queries; SET search_path TO queries")
        for name, frame in dict(TABLES.values()).items():
            put(connection, name, frame)
        yield connection
        connection.rollback()


@pytest.mark.parametrize("name", ASKS)
def test_rows_of_a_query_of_duckdb_give_what_the_table_gives(name, database, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    database.sql(printed(name, "duckdb", capsys)).write_csv(str(rows))
    assert_same(answers(name, f"tally:{rows}"), direct(name))


@pytest.mark.parametrize("name", ASKS)
def test_rows_of_a_query_of_postgresql_give_what_the_table_gives(name, warehouse, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    saved(warehouse, printed(name, "postgres", capsys), rows)
    assert_same(answers(name, f"tally:{rows}"), direct(name))


PARSED = (
    "two slice columns", "rows are units", "several amounts", "weights", "truth values", "sources by slice", "exposure",
    "ranked by score", "small groups", "weighted outcomes of some", "edges of one's own", "clustered errors by slice",
    "few of a kind, by slice", "few between one's own edges",
)  # fmt: skip
"""Asks whose queries hold all that any of them holds."""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_query_is_sql_of_its_dialect(dialect):
    for verb, call in map(ASKS.get, PARSED):
        more = dict(names=NAMES[1::2]) if verb == "sources" else dict(truth=["popular", "clicked", "shown"])
        query = eh.sql(verb, table="shop.log", dialect=dialect, **call, **more)
        (parsed,) = sqlglot.parse(query, dialect=dialect, error_level=sqlglot.ErrorLevel.RAISE)
        assert {t.sql() for t in parsed.find_all(sqlglot.exp.Table) if t.db} == {"shop.log AS t"}
        assert query.startswith("-- evenhand")


@pytest.fixture(scope="module")
def rows(database, tmp_path_factory):
    """Rows of a query in a file."""
    found = tmp_path_factory.mktemp("rows") / "rows.csv"
    query = units_query(DIALECTS["duckdb"], "log", unit="author", amounts=["views"], by=["source"])
    database.sql(query).write_csv(str(found))
    return found


ASKED = ["--unit", "author", "--amount", "views", "--by", "source", "--population", "300", "--seed", "1", "-m", "gini"]


def said(words, capsys):
    """What a refused command says."""
    assert main(words) == 2
    return capsys.readouterr().err


def test_the_command_line_goes_on_from_a_tally_as_from_the_table(rows, tmp_path, capsys):
    LOG.write_parquet(tmp_path / "log.parquet")
    assert main(["inequality", str(tmp_path / "log.parquet"), *ASKED, "--format", "csv"]) == 0
    direct = capsys.readouterr().out
    assert main(["inequality", "--tally", str(rows), *ASKED, "--format", "csv"]) == 0
    assert capsys.readouterr().out == direct


def test_a_result_of_a_tally_can_be_made_again_from_its_plan(rows, tmp_path, capsys):
    assert main(["plan", "inequality", "--tally", str(rows), *ASKED]) == 0
    plan = tmp_path / "plan.toml"
    plan.write_text(capsys.readouterr().out)
    assert f'table = "tally:{rows}"' in plan.read_text()
    assert main(["run", str(plan), "--format", "csv"]) == 0
    again = capsys.readouterr().out
    assert main(["inequality", "--tally", str(rows), *ASKED, "--format", "csv"]) == 0
    assert capsys.readouterr().out == again


def test_a_tally_may_be_a_frame_with_names_in_capitals(rows):
    frame = pl.read_csv(rows).rename(str.upper)
    call = dict(unit="author", amount="views", by="source", population=300, interval=None)
    found = eh.inequality(eh.read.tally(frame), **call)
    assert found.to_text("csv") == eh.inequality(LOG, **call).to_text("csv")
    assert found.provenance["plan"]["table"] == "<an evenhand Tally>"


def test_labels_keep_their_type_in_a_parquet_file(database, tmp_path):
    by_weight = dict(unit="author", amount="views", by="weight", population=None, rng=3, interval="bootstrap(20)")
    query = units_query(DIALECTS["duckdb"], "log", unit="author", amounts=["views"], by=["weight"])
    database.sql(query).write_parquet(str(tmp_path / "rows.parquet"))
    found = eh.inequality(eh.read.tally(tmp_path / "rows.parquet"), **by_weight)
    assert_same(found, eh.inequality(LOG, **by_weight))


REFUSED = {
    "another unit": (["--unit", "reader"], "made for --unit author, not --unit reader"),
    "another amount": (["--amount", "cash"], "--amount views, not --amount cash"),
    "no slices": (["--by", "day"], "--by source, not --by day"),
}


@pytest.mark.parametrize("other", REFUSED)
def test_a_tally_of_other_columns_is_refused_with_both(other, rows, capsys):
    (flag, value), told = REFUSED[other]
    words = [*ASKED]
    words[words.index(flag) + 1] = value
    assert told in said(["inequality", "--tally", str(rows), *words], capsys)


def test_a_tally_is_refused_by_another_verb_version_or_kind_of_file(rows, tmp_path, capsys):
    asked = ["sources", "--unit", "author", "--source", "day", "--population", "none", "--tally"]
    assert "was made for evenhand inequality" in said([*asked, str(rows)], capsys)
    newer = tmp_path / "newer.csv"
    newer.write_text(rows.read_text().replace("evenhand-tally-3", "evenhand-tally-9"))
    assert "of another version (evenhand-tally-9" in said(["inequality", "--tally", str(newer), *ASKED], capsys)
    LOG.write_csv(tmp_path / "log.csv")
    assert "is no tally" in said(["inequality", "--tally", str(tmp_path / "log.csv"), *ASKED], capsys)
    pl.read_csv(rows).drop("rows_read").write_csv(tmp_path / "less.csv")
    assert "lacks the columns rows_read" in said(["inequality", "--tally", str(tmp_path / "less.csv"), *ASKED], capsys)
    both = said(["inequality", str(rows), "--tally", str(rows), *ASKED], capsys)
    assert "Both files and --tally were given" in both


def test_what_needs_single_units_is_refused_of_a_tally(rows, tmp_path):
    LOG.select("author").unique().write_csv(tmp_path / "authors.csv")
    call = dict(unit="author", amount="views", by="source", population=300, interval=None)
    for more in (dict(population=str(tmp_path / "authors.csv")), dict(within="day"), dict(by=eh.log_bins("cash", 3))):
        with pytest.raises(eh.EvenhandError, match="tally"):
            eh.inequality(eh.read.tally(rows), **(call | more))


def test_what_is_wrong_with_the_table_is_said_of_its_tally_too(database, tmp_path):
    bad = LOG.with_columns(pl.when(pl.col("views") == 3).then(-3).otherwise(pl.col("views")).alias("views"))
    database.register("bad", bad.to_arrow())
    query = units_query(DIALECTS["duckdb"], "bad", unit="odd author", amounts=["views"])
    database.sql(query).write_csv(str(tmp_path / "rows.csv"))
    said = []
    for table in (bad, eh.read.tally(tmp_path / "rows.csv")):
        with pytest.raises(eh.EvenhandError) as error:
            eh.inequality(table, unit="odd author", amount="views", population=None)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_what_needs_single_rows_or_lists_is_refused_before_a_query_is_printed(capsys):
    exposure = ["sql", "exposure", "--table", "r", "--dialect", "trino", "--groups", "gender"]
    for more in (
        ["--relevance", "grade", "--missing-relevance", "drop"],
        ["--relevance", "grade", "--attention", "cascade(stop=0.5)"],
        ["-m", "eed(level='item')"],
        ["--ties", "input_order"],
    ):
        assert "needs the lists themselves" in said([*exposure, *more], capsys)
    test = [
        "sql",
        "outcome-test",
        "--table",
        "r",
        "--dialect",
        "trino",
        "--score",
        "s",
        "--outcome",
        "y",
        "--group",
        "g",
    ]
    assert "too long a query" in said([*test, "--bins", "500"], capsys)


WRONG_GRADES = {
    "several of one pair": pl.when(pl.col("draw") == 1).then(9).otherwise("grade"),
    "negative": pl.when(pl.col("rank") == 2).then(-1).otherwise("grade"),
    "missing": pl.col("grade"),
}


@pytest.mark.parametrize("what", WRONG_GRADES)
def test_what_is_wrong_with_relevance_is_said_of_its_tally_too(what, database):
    bad = RANKED.with_columns(WRONG_GRADES[what].alias("grade"))
    database.register("judged", bad.to_arrow())
    call = dict(**BY_QUERY, relevance="grade", missing_relevance="raise", metrics="log_eur")
    tally = eh.read.tally(database.sql(eh.sql("exposure", table="judged", dialect="duckdb", **call)).pl())
    said = []
    for table in (bad, tally):
        with pytest.raises(eh.EvenhandError) as error:
            eh.exposure(table, **call)
        said.append(str(error.value))
    assert said[0] == said[1]


JUDGED = pl.DataFrame(
    [(q, f"item {i}", float((q * i) % 4)) for q in range(33) for i in range(44) if (q + i) % 3],
    schema=["query", "doc", "worth"],
    orient="row",
)
APART = {
    "labels of items": RANKED,
    "labels of requests": RANKED.with_columns(
        gender=pl.when(pl.col("query") < 9).then(pl.lit("f")).otherwise("gender")
    ),
    "labels here and there": RANKED.with_columns(gender=pl.when(pl.col("query") != 5).then("gender")),
}


@pytest.mark.parametrize("what", APART)
def test_relevance_may_stand_in_a_table_of_its_own(what, database, warehouse, tmp_path):
    ranked, judged = APART[what], JUDGED.rename({"worth": "relevance"})
    call = dict(**BY_QUERY, by="day", metrics=["eel@5", "log_eur", "awrf(target='relevant')"])
    wanted = eh.exposure(ranked, relevance=judged, **call, **DRAWN, chance=False)
    database.register("apart", ranked.to_arrow())
    database.register("judged", JUDGED.to_arrow())
    for name, frame in (("apart", ranked), ("judged", JUDGED)):
        warehouse.execute(f"DROP TABLE IF EXISTS {name}")
        put(warehouse, name, frame)
    asked = dict(table="apart", relevance="worth", relevance_in="judged", **call)
    database.sql(eh.sql("exposure", dialect="duckdb", **asked)).write_parquet(str(tmp_path / "rows.parquet"))
    saved(warehouse, eh.sql("exposure", dialect="postgres", **asked), tmp_path / "rows.csv")
    for rows in ("rows.parquet", "rows.csv"):
        found = eh.exposure(f"tally:{tmp_path / rows}", relevance="worth", **call, **DRAWN, chance=False)
        assert_frame_equal(pl.DataFrame(found.frame), pl.DataFrame(wanted.frame), rel_tol=1e-9, abs_tol=1e-12)
        told = {name: value for name, value in wanted.provenance.items() if "judg" in name}
        assert told.items() <= found.provenance.items()
        assert len(told) == 3


def test_what_is_wrong_with_a_table_of_judgments_is_said_of_its_tally_too(database):
    wrong = {
        "twice": pl.concat([JUDGED, JUDGED.head(3)]),
        "negative": JUDGED.with_columns(worth=pl.col("worth") - 1),
        "strangers": JUDGED.with_columns(query=pl.lit(1000, pl.Int64)).unique("doc"),
        "unjudged": JUDGED,
    }
    call = dict(**BY_QUERY, metrics="eel", missing_relevance="raise")
    for what, judged in wrong.items():
        call["missing_relevance"] = "raise" if what == "unjudged" else "zero"
        database.register("wrong", judged.to_arrow())
        query = eh.sql("exposure", table="ranked", dialect="duckdb", relevance="worth", relevance_in="wrong", **call)
        said = []
        for table, relevance in (
            (RANKED, judged.rename({"worth": "relevance"})),
            (eh.read.tally(database.sql(query).pl()), "worth"),
        ):
            with pytest.raises(eh.EvenhandError) as error:
                eh.exposure(table, relevance=relevance, **call)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_a_file_of_relevance_is_refused_before_a_query_is_printed(capsys):
    exposure = ["sql", "exposure", "--table", "r", "--dialect", "trino", "--groups", "gender"]
    assert "name that table to the query as --relevance-in" in said([*exposure, "--relevance", "judged.csv"], capsys)
    assert "Pass --relevance with it" in said([*exposure, "--relevance-in", "judged"], capsys)
    for name, told in (
        ("judged.csv", "is a file, which the query cannot reach"),
        ("a b", "is not the name of a table"),
    ):
        asked = [*exposure, "--relevance", "grade", "--relevance-in", name]
        assert f"--relevance-in '{name}' {told}" in said(asked, capsys)


def test_clusters_too_many_to_list_give_the_same_errors_by_their_products(
    database, warehouse, tmp_path, monkeypatch, capsys
):
    name = "clustered errors by slice"
    monkeypatch.setattr("evenhand.engine.queries_clusters.MOST_LISTED", 10)
    monkeypatch.setattr("evenhand.uncertainty.pooled.FLIPPED", 0)  # nobody asks what single clusters add
    wanted = answers(name, SCORED)
    queries = {d: printed(name, d, capsys) for d in ("duckdb", "postgres")}
    database.sql(queries["duckdb"]).write_parquet(str(tmp_path / "rows.parquet"))
    saved(warehouse, queries["postgres"], tmp_path / "rows.csv")
    assert "all clusters" not in set(pl.read_parquet(tmp_path / "rows.parquet")["reach"])
    with pytest.raises(eh.EvenhandError, match="so few that each of them is looked at"):
        answers(name, f"tally:{tmp_path / 'rows.csv'}")
    monkeypatch.setattr("evenhand.engine.counted_outcomes.FLIPPED", 0)
    for rows in ("rows.parquet", "rows.csv"):
        found, unread = answers(name, f"tally:{tmp_path / rows}"), pl.col("metric").str.contains("odds|opportunity")
        for column in ("estimate", "low", "high", "p", "se"):
            pairs = zip(found.frame.filter(~unread)[column], wanted.frame.filter(~unread)[column], strict=True)
            assert all(a == pytest.approx(b, rel=1e-9, abs=1e-12, nan_ok=True) for a, b in pairs), column


def test_slots_are_not_given_again_from_a_tally(database, tmp_path):
    query = eh.sql("outcome_test", table="scored", dialect="duckdb", **BY_SCORE, outcome="money")
    database.sql(query).write_parquet(str(tmp_path / "rows.parquet"))
    found = eh.outcome_test(eh.read.tally(tmp_path / "rows.parquet"), **BY_SCORE, outcome="money")
    with pytest.raises(eh.EvenhandError, match="a tally holds no rows"):
        found.counterfactual()


def test_sources_that_the_query_does_not_name_are_counted_and_refused(database, tmp_path):
    query = units_query(DIALECTS["duckdb"], "log", unit="author", amounts=[None], source="source", names=["home"])
    database.sql(query).write_csv(str(tmp_path / "rows.csv"))
    many = LOG.filter(pl.col("source").is_in(["it's", "search"])).height
    with pytest.raises(eh.EvenhandError, match=f"{many} rows come from sources that the query does not name"):
        eh.sources(f"tally:{tmp_path / 'rows.csv'}", unit="author", source="source", population=None)


def test_names_of_columns_cannot_end_their_quotes(database):
    name = 'views" FROM secrets; --'
    database.register("odd", LOG.select("author", pl.col("views").alias(name)).to_arrow())
    query = units_query(DIALECTS["duckdb"], "odd", unit="author", amounts=[name])
    assert database.execute(query).fetchall()[0][0].endswith("amount=views~22~~20~FROM~20~secrets~3b~~20~--")
    for d in DIALECTS.values():
        try:
            query = units_query(d, "odd", unit="a", amounts=[name.replace('"', d.quote)])
        except eh.EvenhandError:
            continue
        tables = sqlglot.parse_one(query, dialect=d.name).find_all(sqlglot.exp.Table)
        assert "secrets" not in {t.name for t in tables}


@pytest.mark.parametrize("table", ["log", "shop.log", "{{ ref('events') }}", '"my shop"."log"', '"my ""shop"""."log"'])
def test_the_name_of_a_table_stands_in_the_query_as_it_was_typed(table, capsys):
    assert f"FROM {table} AS t" in printed("rows are counted", "postgres", capsys, table)


@pytest.mark.parametrize(
    "table", ["log; DROP TABLE log", "log -- x", "a b", "(SELECT 1)", '"a"" b', '"a" "b"', '""', "{{ a }} {{ b }}", ""]
)
def test_what_is_no_name_of_a_table_is_refused(table, capsys):
    assert "is not the name of a table" in said(words("rows are counted", "postgres", table), capsys)


@pytest.mark.parametrize("wrong", [-3.0, 1.5, None])
def test_a_tally_whose_counts_were_changed_is_refused(wrong):
    call = {"unit": "author", "amount": "views"}
    log = pl.DataFrame({"author": list("aabc"), "views": [1, 2, 3, 4]})
    rows = duckdb.sql(eh.sql("inequality", table="log", dialect="duckdb", **call)).pl()
    changed = rows.with_columns(pl.Series("units_held", [wrong, *rows["units_held"].to_list()[1:]], dtype=pl.Float64))
    with pytest.raises(eh.EvenhandError, match=r"no whole numbers in units_held|something was changed"):
        eh.inequality(eh.read.tally(changed), population=None, **call)
    assert log.height == 4


def tampered(rows):
    """What happens to rows on their way, by what is said of it."""
    other = rows.filter(pl.col("by_0") == "home")
    changed = pl.when(pl.int_range(pl.len()) == 3)
    return {
        "cut off": (rows.head(20), "has 20 rows, and its query gave"),
        "filtered": (other, f"has {other.height} rows, and its query gave"),
        "doubled": (pl.concat([rows, rows.head(2)]), "has .* rows, and its query gave"),
        "one for another": (pl.concat([rows.tail(-1), rows.tail(1)]), "lacks rows of its query and has others twice"),
        "of two runs": (pl.concat([rows, rows.with_columns(rows_told=pl.lit(9, pl.Int64))]), "several runs"),
        "another amount": (rows.with_columns(changed.then(pl.col("amount") + 1).otherwise("amount").alias("amount")), "1 rows in which"),
        "a negative amount": (rows.with_columns(changed.then(-pl.col("amount") - 1).otherwise("amount").alias("amount")), "1 rows in which"),
        "no number": (rows.with_columns(changed.then(float("nan")).otherwise("amount").alias("amount")), "1 rows in which"),
        "a negative count": (rows.with_columns(changed.then(-1.0).otherwise("units_held").alias("units_held")), "no whole numbers in units_held"),
        "a label cut": (rows.with_columns(pl.col("by_0").str.head(4)), "rows in which something was changed"),
        "two numbers swapped": (rows.with_columns(pl.col("rows_read").alias("units_held"), pl.col("units_held").alias("rows_read")), "rows in which"),
    }  # fmt: skip


def test_a_tally_that_was_cut_off_repeated_or_edited_is_refused(rows):
    call = dict(unit="author", amount="views", by="source", population=None, interval=None)
    whole = pl.read_csv(rows).sort("units_held", "rows_read")
    eh.inequality(eh.read.tally(whole.sample(fraction=1.0, shuffle=True, seed=1)), **call)
    for what, (frame, told) in tampered(whole).items():
        with pytest.raises(eh.EvenhandError, match=told):
            eh.inequality(eh.read.tally(frame), **call)
            pytest.fail(what)


def test_a_label_that_is_empty_and_none_at_all_are_not_the_same():
    call = dict(unit="author", amount="views", by="source", population=None)
    log = pl.DataFrame({"author": [1, 2, 3, 4], "views": [1, 2, 3, 5], "source": ["", "", None, None]})
    rows = duckdb.sql(eh.sql("inequality", table="log", dialect="duckdb", **call)).pl()
    found = eh.inequality(eh.read.tally(rows), **call, interval=None)
    assert found.to_text("csv") == eh.inequality(log, **call, interval=None).to_text("csv")
    for source in ("", None):  # as a file that knows but one of them gives them back
        told = eh.inequality(eh.read.tally(rows.with_columns(by_0=pl.lit(source, pl.String))), **call, interval=None)
        assert told.to_text("csv") == found.to_text("csv")


WORDS = ["NULL", "\\N", "None", "nan", "", "NA"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", ["amounts per slice", "exposure", "clustered errors by slice"])
def test_however_a_file_writes_what_is_missing_it_is_missing(name, word, database, tmp_path):
    verb, call = ASKS[name]
    query = eh.sql(verb, table=TABLES[verb][0], dialect="duckdb", truth=["clicked"], **call)
    database.sql(query).pl().write_csv(tmp_path / "rows.csv", null_value=word)
    assert_same(answers(name, f"tally:{tmp_path / 'rows.csv'}"), direct(name))


def test_a_label_that_reads_like_a_word_for_nothing_is_a_label(tmp_path):
    call = dict(unit="author", amount="views", by="source", population=None, interval=None)
    log = pl.DataFrame({"author": range(6), "views": range(6), "source": ["NULL", None, "", "nan", "None", "x"]})
    rows = duckdb.sql(eh.sql("inequality", table="log", dialect="duckdb", **call)).pl()
    wanted = eh.inequality(log, **call).to_text("csv")
    for word in WORDS:
        rows.write_csv(tmp_path / "rows.csv", null_value=word)
        assert eh.inequality(f"tally:{tmp_path / 'rows.csv'}", **call).to_text("csv") == wanted


@pytest.mark.parametrize("name", ["exposure", "outcome test"])
def test_an_edited_tally_of_other_verbs_is_refused_too(name, database):
    verb, call = ASKS[name]
    found = database.sql(eh.sql(verb, table=TABLES[verb][0], dialect="duckdb", truth=["clicked"], **call)).pl()
    column = "a0" if verb == "exposure" else "sum_02"
    edited = found.with_columns((pl.col(column) * (1 + 1e-6 * (pl.col(column) == pl.col(column).max()))).alias(column))
    for frame, told in ((edited, "rows in which something was changed"), (found.head(9), "has 9 rows, and its query")):
        with pytest.raises(eh.EvenhandError, match=told):
            answers(name, eh.read.tally(frame))


def test_rates_that_need_single_rows_say_that_a_tally_holds_none(database):
    call = dict(
        **BY_SCORE, outcome="clicked", treated="shown", metrics=["equalized_odds_gap", "true_positive_rate_gap"]
    )
    query = eh.sql("outcome_test", table="scored", dialect="duckdb", truth=["clicked", "shown"], **call)
    found = eh.outcome_test(eh.read.tally(database.sql(query).pl()), **call, nan_policy="omit").frame
    assert set(found["note"]) == {"reference", "no_single_rows"}
    assert found.filter(pl.col("note") == "no_single_rows")["estimate"].is_nan().all()


PLACES = np.arange(N) // 8
KINDS = {
    "bigint": PLACES % 3,
    "boolean": PLACES % 3 > 0,
    "date": [dt.date(2026, 1, 1 + int(i)) for i in PLACES % 3],
    "double precision": np.where(PLACES % 3 == 2, np.nan, PLACES % 3 / 2),
}
SOURCES = {
    "bigint": ["0", "1", "2"],
    "boolean": ["true", "false"],
    "date": ["2026-01-01", "2026-01-02", "2026-01-03"],
    "double precision": ["0.0", "0.5", "0"],
}
TYPED = pl.DataFrame(
    {
        "author": LOG["author"],
        "views": LOG["views"],
        "query": PLACES,
        "doc": np.arange(N),
        "rank": np.arange(N) % 8 + 1,
        "gender": np.arange(N) % 2,
        "score": SCORES,
        "money": SCORED["money"],
        **KINDS,
    }
).with_columns(pl.col("double precision").fill_nan(None).alias("gaps"))
TYPED_ASKS = {
    "by": ("inequality", dict(unit="author", amount="views", population=None), DRAWN),
    "source": ("sources", dict(unit="author", amount="views", population=None), DRAWN),
    "groups": ("exposure", dict(request="query", item="doc", metrics=["eed", "awrf"]), DRAWN | dict(chance=False)),
    "by ": ("exposure", dict(request="query", item="doc", groups="gender", metrics="eed"), DRAWN),
    "group": ("outcome_test", dict(score="score", outcome="money", bins=2, metrics="pooled_gap"), {}),
    "by  ": ("outcome_test", dict(score="score", outcome="money", group="gender", bins=2, metrics="pooled_gap"), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_that_are_not_text_have_the_numbers_and_draws_of_the_table(kind, warehouse, tmp_path):
    with duckdb.connect() as here:
        here.register("typed", TYPED.to_arrow())
        warehouse.execute("DROP TABLE IF EXISTS typed")
        put(warehouse, "typed", TYPED)
        for role, (verb, call, more) in TYPED_ASKS.items():
            call = call | {role.strip(): kind}
            names = SOURCES[kind] if verb == "sources" else ()
            wanted = getattr(eh, verb)(TYPED, **call, **more)
            queries = {d: eh.sql(verb, table="typed", dialect=d, names=names, **call) for d in ("duckdb", "postgres")}
            here.sql(queries["duckdb"]).write_parquet(str(tmp_path / "rows.parquet"))
            saved(warehouse, queries["postgres"], tmp_path / "rows.csv")
            for rows in ("rows.parquet", "rows.csv"):
                assert_same(getattr(eh, verb)(f"tally:{tmp_path / rows}", **call, **more), wanted)


def test_a_unit_called_nan_is_missing_in_a_database_as_in_the_table(warehouse, tmp_path):
    call = dict(unit="double precision", amount="views", population=None, interval=None, rng=1)
    wanted = eh.inequality(TYPED, **call, nan_policy="omit")
    assert wanted.provenance["dropped"] == {"double precision is missing": TYPED["gaps"].null_count()}
    with duckdb.connect() as here:
        here.register("typed", TYPED.to_arrow())
        for unit in ("double precision", "gaps"):
            here.sql(eh.sql("inequality", table="typed", dialect="duckdb", **call | {"unit": unit})).write_csv(
                str(tmp_path / unit)
            )
            found = eh.inequality(
                eh.read.tally(pl.read_csv(tmp_path / unit)), **call | {"unit": unit}, nan_policy="omit"
            )
            assert found.to_text("csv") == wanted.to_text("csv")
    warehouse.execute("DROP TABLE IF EXISTS typed")
    put(warehouse, "typed", TYPED)
    saved(warehouse, eh.sql("inequality", table="typed", dialect="postgres", **call), tmp_path / "rows.csv")
    rows = eh.read.tally(tmp_path / "rows.csv")
    assert_same(eh.inequality(rows, **call, nan_policy="omit"), wanted)
    with pytest.raises(eh.EvenhandError, match="unit='double precision' is missing in"):
        eh.inequality(rows, **call)


EVERYONE = pl.DataFrame({"author": [str(i) for i in range(90)] * 2, "day": ["2026-01-01", "2026-01-02"] * 90}).vstack(
    LOG.select("author", "day").unique(maintain_order=True)
)
COUNTED = {
    "all": ("inequality", dict(by=None), ()),
    "in every slice": ("inequality", dict(by="source"), ()),
    "by a slice that they have": ("inequality", dict(by=["source", "day"]), ("day",)),
    "of sources": ("sources", dict(source="source", by="day"), ("day",)),
}


@pytest.mark.parametrize("what", COUNTED)
def test_everyone_is_counted_in_the_database_as_from_a_table_here(what, database, warehouse, tmp_path):
    verb, call, held = COUNTED[what]
    call = dict(unit="author", amount="views") | call
    names = NAMES[1::2] if verb == "sources" else ()
    here = EVERYONE if held else EVERYONE.select("author")
    wanted = getattr(eh, verb)(LOG, population=here, **call, **DRAWN)
    database.register("people", EVERYONE.to_arrow())
    warehouse.execute("DROP TABLE IF EXISTS people")
    put(warehouse, "people", EVERYONE)
    asked = dict(table="log", names=names, population="people", population_by=held, **call)
    database.sql(eh.sql(verb, dialect="duckdb", **asked)).write_parquet(str(tmp_path / "rows.parquet"))
    saved(warehouse, eh.sql(verb, dialect="postgres", **asked), tmp_path / "rows.csv")
    for rows in ("rows.parquet", "rows.csv"):
        found = getattr(eh, verb)(f"tally:{tmp_path / rows}", population="people", **call, **DRAWN)
        assert_frame_equal(pl.DataFrame(found.frame), pl.DataFrame(wanted.frame), rel_tol=1e-9, abs_tol=1e-12)
        assert found.provenance["population"] == "people"
        with pytest.raises(eh.EvenhandError, match="population='others' is a table of units that the query"):
            getattr(eh, verb)(f"tally:{tmp_path / rows}", population="others", **call)
        getattr(eh, verb)(f"tally:{tmp_path / rows}", population=None, **call, interval=None)


def test_who_is_not_in_the_table_of_all_units_is_counted_in_the_database_too(database):
    call = dict(unit="author", amount="views", by="day")
    some = EVERYONE.filter(pl.col("author") != "7")
    database.register("fewer", some.to_arrow())
    query = eh.sql("inequality", table="log", dialect="duckdb", population="fewer", population_by=["day"], **call)
    said = []
    for table, population in ((LOG, some), (eh.read.tally(database.sql(query).pl()), "fewer")):
        with pytest.raises(eh.EvenhandError) as error:
            eh.inequality(table, population=population, **call)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "units received something but are not in population with the same slice" in said[0]


UNANSWERED = {
    "a unit that is its own slice": ("inequality", dict(unit="author", by="author", population=None)),
    "a slice that every result has": ("inequality", dict(unit="author", by="metric", population=None)),
    "an amount twice": ("inequality", dict(unit="author", amount=["views", "views"], population=None)),
    "bins": ("inequality", dict(unit="author", by=eh.log_bins("cash", 3), population=None)),
    "viewers": ("inequality", dict(unit="author", within="day", population=None)),
    "a metric of something else": ("inequality", dict(unit="author", metrics="awrf", population=None)),
    "a source that is the unit": ("sources", dict(unit="author", source="author", population=None)),
    "a source that is a slice": ("sources", dict(unit="author", source="day", by="day", population=None)),
    "no order": ("exposure", dict(groups="gender", rank=None)),
    "a column of every ranking": ("exposure", dict(groups="gender", by="system")),
    "a group that is a slice": ("outcome_test", dict(**BY_SCORE, outcome="money", by="kind")),
    "a score that is the outcome": ("outcome_test", dict(**BY_SCORE, outcome="score")),
    "a figure of every test": ("outcome_test", dict(**BY_SCORE, outcome="money", by="slope")),
}


@pytest.mark.parametrize("what", UNANSWERED)
def test_what_no_tally_answers_is_refused_in_the_same_words_before_a_query_is_printed(what):
    verb, call = UNANSWERED[what]
    plain = TABLES[verb][1].with_columns(pl.lit("a").alias(name) for name in ("metric", "system", "slope"))
    plain = plain.with_columns(pl.lit(1).alias(c) for c in ("request", "item") if verb == "exposure")
    from_tally = what in ("bins", "viewers")  # of a table, they can be asked
    said = []
    tally = eh.read.tally(pl.DataFrame({"part": ["nothing"]}))
    for ask in (lambda: eh.sql(verb, table="t", dialect="duckdb", names=["a"] if verb == "sources" else (), **call),
                lambda: getattr(eh, verb)(tally if from_tally else plain, **call)):  # fmt: skip
        with pytest.raises(eh.EvenhandError) as error:
            ask()
        said.append(str(error.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("population", ["authors.csv", "shop.duckdb::authors", "s3://bucket/authors.parquet"])
def test_a_population_that_the_database_cannot_reach_is_refused_before_a_query_is_printed(population, capsys):
    asked = [*words("rows are counted", "postgres"), "--population", population]
    assert "is a file, which the query cannot reach. Name a table of the same database" in said(asked, capsys)


@pytest.mark.parametrize("flag", ["--table", "--population"])
def test_a_key_in_the_name_of_a_table_is_not_repeated(flag, capsys):
    told = said([*words("rows are counted", "postgres"), flag, "postgresql://me:pass-word@host/shop"], capsys)
    assert "credentials" in told
    assert "pass-word" not in told


def test_the_command_that_a_query_names_is_the_one_that_reads_its_rows(database, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    database.register("people", EVERYONE.to_arrow())
    asked = ["--population", "people", "--population-by", "day", "--by", "day"]
    assert main([*words("rows are counted", "duckdb"), *asked]) == 0
    query = capsys.readouterr().out
    database.sql(query).write_csv("rows.csv")
    command = query.splitlines()[2].removeprefix("--").split()
    assert command[:2] == ["evenhand", "inequality"]
    assert main([*command[1:], "--interval", "none"]) == 0

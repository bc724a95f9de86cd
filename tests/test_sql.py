"""Queries of `evenhand sql`: their rows give what the table itself gives, on DuckDB and on a real PostgreSQL.

DuckDB and PostgreSQL run the queries of every verb, Spark those of sources (tests/test_spark.py); those for other databases are parsed only.
"""

import functools
import importlib
import re
import shlex

import duckdb
import numpy as np
import polars as pl
import psycopg
import pytest
import sqlglot
from polars.testing import assert_frame_equal

import evenhand as eh
from evenhand.audits.queries import DIALECTS
from evenhand.cli import main
from evenhand.sources.engine import DuckDBEngine

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
    "several amounts": ("inequality", dict(unit="author", amount=["views", "cash"], population=300)),
    "weights": ("inequality", dict(unit="author", amount="cash", weight="weight", population=None)),
    "what is missing is left out": ("inequality", dict(unit="odd author", amount="holes", population=None, nan_policy="omit")),
    "what is missing spoils its slice": ("inequality", dict(unit="author", amount="nan cash", by="day", population=None, nan_policy="propagate")),
    "truth values": ("inequality", dict(unit="author", amount="popular", population=None)),
    "sources": ("sources", dict(unit="author", amount="views", source="source", population=300)),
    "sources by slice": ("sources", dict(unit="author", amount="cash", source="source", by="day", population=None)),
    "sources of rows": ("sources", dict(unit="author", source="source", population=300)),
    "exposure": ("exposure", dict(**BY_QUERY, by="day", probability="chance", weight="users")),
    "clusters of requests": ("exposure", dict(**BY_QUERY, cluster="users", metrics=["awrf", "log_dp"])),
    "the unknown are a group": ("exposure", dict(**BY_QUERY, unknown="group", metrics=["awrf@5", "log_dp(attention='log(offset=1)')"])),
    "ranked by score": ("exposure", dict(**BY_QUERY, rank=None, score="score", attention="rbp(patience=0.9)", metrics=["log_dp", "eed"])),
    "relevance": ("exposure", dict(**BY_QUERY, relevance="grade", by="day", weight="users")),
    "relevance where the unknown count": ("exposure", dict(**BY_QUERY, relevance="grade", unknown="unprotected", metrics=["eel@5", "log_eur", "awrf(target='relevant')"])),
    "outcome test": ("outcome_test", dict(**BY_SCORE, outcome="clicked", reference="search")),
    "outcomes along the score, by slice": ("outcome_test", dict(**BY_SCORE, outcome="money", by="day", bins=4)),
    "weighted outcomes of some": ("outcome_test", dict(**BY_SCORE, outcome="clicked", weight="weight", treated="shown", nan_policy="omit")),
    "edges of one's own": ("outcome_test", dict(**BY_SCORE, outcome="clicked", kind="classification", threshold=0.3, bins=[0.4, 0.6, 0.8])),
}  # fmt: skip


def declared(call, frame):
    """What a query must be told of the columns that a call names."""
    named = {
        c for value in call.values() for c in (value if isinstance(value, list) else [value]) if isinstance(c, str)
    }
    kinds = {"whole": pl.Int64, "truth": pl.Boolean}
    return {word: [c for c in frame.columns if c in named and frame.schema[c] == kind] for word, kind in kinds.items()}


def asked(verb, call, frame, run, *, table, dialect, **more):
    """The rows of all queries of a call, as `run` gives them for each."""
    rows = []
    while True:
        before = eh.read.tally(*rows) if rows else None
        query = eh.sql(verb, table=table, dialect=dialect, tally=before, **declared(call, frame), **more, **call)
        if "Every query is answered" in query:
            return eh.read.tally(*rows)
        rows.append(run(query))
        assert len(rows) < 20


def answers(name, table):
    verb, call = ASKS[name]
    more = {"chance": False} if verb == "exposure" else {}
    more |= {} if verb == "outcome_test" else DRAWN
    return getattr(eh, verb)(table, **call, **more)


@functools.cache
def direct(name):
    """What the table itself says where it is too large for its rows to be looked at one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("evenhand.audits.outcome.outcome_test"), "MOST_ROWS", 0)
        return answers(name, TABLES[ASKS[name][0]][1])


def assert_same(found, wanted):
    said = pl.col("note").replace("too_many_rows", "no_single_rows")  # both have no row to look at, for another reason
    wanted_rows = pl.DataFrame(wanted.frame).with_columns(said)
    assert_frame_equal(pl.DataFrame(found.frame), wanted_rows, rel_tol=1e-9, abs_tol=1e-12)
    told = {
        "plan",
        "plan_hash",
        "needed_again",
        "computed_at",
        "inputs",
    }  # where the numbers come from may differ, and nothing else
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
    connection.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})")
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for row in frame.iter_rows():
            copy.write_row(row)


def saved(connection, query, path):
    """The answer of PostgreSQL in a file."""
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)") as copy:
        path.write_bytes(b"".join(bytes(part) for part in copy))
    return path


@pytest.fixture(scope="module")
def warehouse(postgres):
    with psycopg.connect(host=postgres, user="evenhand", dbname="postgres") as connection:
        connection.execute("CREATE SCHEMA queries; SET search_path TO queries")
        for name, frame in dict(TABLES.values()).items():
            put(connection, name, frame)
        yield connection
        connection.rollback()


def in_files(folder, write):
    """Saves the answers of one query after another in files of their own."""

    def run(query):
        path = folder / f"rows-{len(list(folder.iterdir()))}.csv"
        write(query, path)
        return path

    return run


@pytest.mark.parametrize("name", ASKS)
def test_rows_of_queries_of_duckdb_give_what_the_table_gives(name, database, tmp_path):
    verb, call = ASKS[name]
    table, frame = TABLES[verb]
    run = in_files(tmp_path, lambda query, path: database.sql(query).write_csv(str(path)))
    assert_same(answers(name, asked(verb, call, frame, run, table=table, dialect="duckdb")), direct(name))


@pytest.mark.parametrize("name", ASKS)
def test_rows_of_queries_of_postgresql_give_what_the_table_gives(name, warehouse, tmp_path):
    verb, call = ASKS[name]
    table, frame = TABLES[verb]
    run = in_files(tmp_path, lambda query, path: saved(warehouse, query, path))
    assert_same(answers(name, asked(verb, call, frame, run, table=table, dialect="postgres")), direct(name))


@pytest.fixture(scope="module")
def answered(database):
    """Calls with the rows of all their queries."""
    found = []
    for name in ("two slice columns", "several amounts", "sources by slice", "exposure", "outcome test"):
        verb, call = ASKS[name]
        table, frame = TABLES[verb]
        rows = asked(verb, call, frame, lambda query: database.sql(query).pl(), table=table, dialect="duckdb").rows
        found.append((verb, call, frame, rows))
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_query_is_sql_of_its_dialect(dialect, answered):
    for verb, call, frame, before in answered:
        for i in range(len(before)):
            known = eh.read.tally(*before[:i]) if i else None
            query = eh.sql(verb, table="shop.log", dialect=dialect, tally=known, **declared(call, frame), **call)
            (parsed,) = sqlglot.parse(query, dialect=dialect, error_level=sqlglot.ErrorLevel.RAISE)
            assert {t.sql() for t in parsed.find_all(sqlglot.exp.Table) if t.db} == {"shop.log"}
            assert query.startswith("-- evenhand")


def test_a_query_is_the_one_that_the_local_engine_runs(monkeypatch):
    ran = []
    cells = DuckDBEngine.cells
    monkeypatch.setattr(DuckDBEngine, "cells", lambda self, query: ran.append(query) or cells(self, query))
    eh.inequality(LOG, unit="author", amount="views", by="source", population=300, interval=None)
    query = eh.sql(
        "inequality", table="log", dialect="duckdb", unit="author", amount="views", by="source", whole=["views"]
    )
    for mine in ran:
        if "GROUP BY" in mine:
            here = re.sub(r"evenhand_\d+", "raw_table", mine)
            tree = sqlglot.parse_one(here, dialect="duckdb").sql("duckdb", identify=True)
            assert tree in sqlglot.parse_one(query, dialect="duckdb").sql("duckdb", identify=True)


ASKED = ["--unit", "author", "--amount", "views", "--by", "source", "--population", "300", "--seed", "1", "-m", "gini"]
CALL = dict(unit="author", amount="views", by="source")


@pytest.fixture(scope="module")
def rows(database, tmp_path_factory):
    """Rows of a query in a file."""
    found = tmp_path_factory.mktemp("rows") / "rows.csv"
    database.sql(eh.sql("inequality", table="log", dialect="duckdb", **CALL, whole=["views"])).write_csv(str(found))
    return found


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


def test_the_commands_that_queries_name_lead_to_the_answer(database, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    database.register("people", EVERYONE.to_arrow())
    words = [
        "sql",
        "sources",
        "--table",
        "log",
        "--dialect",
        "duckdb",
        "--unit",
        "author",
        "--amount",
        "views",
        "--by",
        "day",
    ]
    words += ["--whole", "views", "--source", "source", "--population", "people", "--population-by", "day"]
    while words[0] == "sql":
        assert main(words) == 0
        query = capsys.readouterr().out
        if "Every query is answered" not in query:
            database.sql(query).write_csv(re.search(r"as (rows\S*\.csv)", query)[1])
        words = shlex.split(query.splitlines()[2].removeprefix("--"))[1:]
    assert main([*words, "--interval", "none", "--format", "csv"]) == 0
    found = capsys.readouterr().out
    EVERYONE.write_parquet("people.parquet")
    LOG.write_parquet("log.parquet")
    direct = ["sources", "log.parquet", "--unit", "author", "--amount", "views", "--by", "day", "--source", "source"]
    assert main([*direct, "--population", "people.parquet", "--interval", "none", "--format", "csv"]) == 0
    assert capsys.readouterr().out == found


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
    found = eh.inequality(eh.read.tally(frame), **CALL, population=300, interval=None)
    assert found.to_text("csv") == eh.inequality(LOG, **CALL, population=300, interval=None).to_text("csv")
    assert found.provenance["plan"]["table"] == "<an evenhand Tally>"


@pytest.mark.parametrize(("flag", "value"), [("--unit", "reader"), ("--amount", "cash"), ("--by", "day")])
def test_a_tally_of_other_columns_is_refused(flag, value, rows, capsys):
    words = [*ASKED]
    words[words.index(flag) + 1] = value
    told = said(["inequality", "--tally", str(rows), *words], capsys)
    assert f"{flag} {value} is not a column" in told or "it was made for another call" in told


def test_a_tally_is_refused_by_another_verb_version_or_kind_of_file(rows, tmp_path, capsys):
    asked = ["sources", "--unit", "author", "--source", "day", "--population", "none", "--tally"]
    assert "--source day is not a column" in said([*asked, str(rows)], capsys)
    newer = tmp_path / "newer.csv"
    newer.write_text(rows.read_text().replace("evenhand-tally-5", "evenhand-tally-9"))
    assert "is not a tally of this version (evenhand-tally-5)" in said(
        ["inequality", "--tally", str(newer), *ASKED], capsys
    )
    LOG.write_csv(tmp_path / "log.csv")
    assert "is not a tally" in said(["inequality", "--tally", str(tmp_path / "log.csv"), *ASKED], capsys)
    pl.read_csv(rows).drop("rows_told").write_csv(tmp_path / "less.csv")
    assert "lacks the columns rows_told" in said(["inequality", "--tally", str(tmp_path / "less.csv"), *ASKED], capsys)
    pl.read_csv(rows).drop("a1_rows").write_csv(tmp_path / "less.csv")
    assert "lacks the columns rows of its query" in said(
        ["inequality", "--tally", str(tmp_path / "less.csv"), *ASKED], capsys
    )
    both = said(["inequality", str(rows), "--tally", str(rows), *ASKED], capsys)
    assert "Both files and --tally were given" in both


def test_a_query_that_depends_on_the_rows_is_asked_for(database):
    call = dict(unit="odd author", amount="holes", population=None, nan_policy="omit")
    first = database.sql(eh.sql("inequality", table="log", dialect="duckdb", whole=["holes"], **call)).pl()
    with pytest.raises(eh.EvenhandError, match=r"the next query depends on its rows. Print that with evenhand sql"):
        eh.inequality(eh.read.tally(first), **call)


def test_what_is_wrong_with_the_table_is_said_of_its_tally_too(database):
    bad = LOG.with_columns(pl.when(pl.col("views") == 3).then(-3).otherwise(pl.col("views")).alias("views"))
    database.register("bad", bad.to_arrow())
    call = dict(unit="odd author", amount="views", population=None)
    tally = eh.read.tally(database.sql(eh.sql("inequality", table="bad", dialect="duckdb", **call)).pl())
    assert complaint(eh.inequality, bad, call) == complaint(eh.inequality, tally, call)


def complaint(audit, table, call):
    with pytest.raises(eh.EvenhandError) as error:
        audit(table, **call)
    return str(error.value)


def test_what_needs_single_rows_is_refused_before_a_query_is_printed(capsys):
    exposure = ["sql", "exposure", "--table", "r", "--dialect", "trino", "--groups", "gender"]
    for more in (
        ["--relevance", "grade", "--attention", "cascade(stop=0.5)"],
        ["-m", "eed(level='item')"],
    ):
        assert "needs the rows themselves, and a tally holds none" in said([*exposure, *more], capsys)
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
    assert "needs the rows themselves, and a tally holds none" in said([*test, "--cluster", "c"], capsys)
    assert "a database rounds nothing" in said([*test, "--min-units", "5"], capsys)
    with pytest.raises(eh.EvenhandError, match="is not an audit that goes on from a query"):
        eh.sql("prefix", table="r", dialect="trino", group="side")


def test_what_only_intervals_need_of_the_rows_is_refused_before_a_query_is_printed_and_of_a_tally(rows):
    items = dict(**BY_QUERY, resample="requests_and_items")
    with pytest.raises(eh.EvenhandError, match="needs the rows themselves, and a tally holds none"):
        eh.sql("exposure", table="ranked", dialect="duckdb", **items)
    viewers = CALL | dict(within="day")
    with pytest.raises(eh.EvenhandError, match="within='day' needs the table: a tally holds no single viewers"):
        eh.sql("inequality", table="log", dialect="duckdb", **viewers)
    with pytest.raises(eh.EvenhandError, match="'day' is not a column of the table"):
        eh.inequality(eh.read.tally(rows), population=None, **viewers)


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
    wanted, rows = complaint(eh.exposure, bad, call), []

    def run(query):
        rows.append(database.sql(query).pl())
        return rows[-1]

    assert wanted == complaint(eh.exposure, asked_until_refused("exposure", call, bad, run), call)


def asked_until_refused(verb, call, frame, run):
    """The rows up to the query that would depend on what is wrong."""
    rows = []
    while True:
        known = eh.read.tally(*rows) if rows else None
        try:
            query = eh.sql(verb, table="judged", dialect="duckdb", tally=known, **declared(call, frame), **call)
        except eh.EvenhandError:
            return known
        rows.append(run(query))


def test_names_of_columns_cannot_end_their_quotes(database):
    name = 'views" FROM secrets; --'
    database.register("odd", LOG.select("author", pl.col("views").alias(name)).to_arrow())
    for dialect in DIALECTS:
        query = eh.sql("inequality", table="odd", dialect=dialect, unit="author", amount=name)
        tables = sqlglot.parse_one(query, dialect=dialect).find_all(sqlglot.exp.Table)
        assert "secrets" not in {t.name for t in tables}
        if dialect == "duckdb":
            assert database.sql(query).pl().height > 9


@pytest.mark.parametrize("table", ["log", "shop.log", "{{ ref('events') }}", '"my shop"."log"', '"my ""shop"""."log"'])
def test_the_name_of_a_table_stands_in_the_query_as_it_was_typed(table):
    query = eh.sql("inequality", table=table, dialect="postgres", unit="author")
    assert f"FROM {table}\n" in query
    assert "place_of" not in query


COUNT_ROWS = ["sql", "inequality", "--dialect", "postgres", "--unit", "author"]


@pytest.mark.parametrize(
    "table", ["log; DROP TABLE log", "log -- x", "a b", "(SELECT 1)", '"a"" b', '"a" "b"', '""', "{{ a }} {{ b }}", ""]
)
def test_what_is_no_name_of_a_table_is_refused(table, capsys):
    assert "is not the name of a table" in said([*COUNT_ROWS, "--table", table], capsys)


def tampered(rows):
    """What happens to rows on their way, by what is said of it."""
    other = rows.filter(pl.col("a2_by_0") == ":home")
    lost = rows.rows().index(other.rows()[1])
    return {
        "cut off": (rows.head(20), "has 20 rows, and its query gave"),
        "filtered": (other, f"has {other.height} rows, and its query gave"),
        "doubled": (pl.concat([rows, rows.head(2)]), "has .* rows, and its query gave"),
        "of two runs": (pl.concat([rows, rows.with_columns(rows_told=pl.lit(9, pl.Int64))]), "and its query gave"),
        "a row lost, another twice": (
            pl.concat([other.head(1), rows.filter(pl.int_range(pl.len()) != lost)]),
            "has rows twice",
        ),
        "no numbers": (
            rows.with_columns(a2_amount=pl.format("many {}", pl.int_range(pl.len()))),
            "holds no numbers in 'amount'",
        ),
        "no mark": (rows.with_columns(part=pl.lit("evenhand-tally-5 many")), "is not a tally of this version"),
    }


def test_a_tally_that_was_cut_off_or_repeated_is_refused(rows):
    call = CALL | dict(population=None, interval=None)
    whole = pl.read_csv(rows)
    eh.inequality(eh.read.tally(whole.sample(fraction=1.0, shuffle=True, seed=1)), **call)
    for what, (frame, told) in tampered(whole).items():
        with pytest.raises(eh.EvenhandError, match=told):
            eh.inequality(eh.read.tally(frame), **call)
            pytest.fail(what)


def test_a_label_that_is_empty_and_none_at_all_are_not_the_same():
    call = CALL | dict(population=None)
    log = pl.DataFrame({"author": [1, 2, 3, 4], "views": [1, 2, 3, 5], "source": ["", "", None, None]})
    rows = duckdb.sql(eh.sql("inequality", table="log", dialect="duckdb", whole=["views"], **call)).pl()
    found = eh.inequality(eh.read.tally(rows), **call, interval=None)
    assert found.to_text("csv") == eh.inequality(log, **call, interval=None).to_text("csv")


WORDS = ["NULL", "\\N", "None", "nan", "", "NA"]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        *(("amounts per slice", word) for word in WORDS),
        *((name, word) for name in ("exposure", "outcomes along the score, by slice") for word in ("nan", "NA")),
    ],
)
def test_however_a_file_writes_what_is_missing_it_is_missing(name, word, database, tmp_path):
    verb, call = ASKS[name]
    table, frame = TABLES[verb]
    run = in_files(tmp_path, lambda query, path: database.sql(query).pl().write_csv(path, null_value=word))
    assert_same(answers(name, asked(verb, call, frame, run, table=table, dialect="duckdb")), direct(name))


def test_a_label_that_reads_like_a_word_for_nothing_is_a_label(tmp_path):
    call = CALL | dict(population=None, interval=None)
    log = pl.DataFrame({"author": range(6), "views": range(6), "source": ["NULL", None, "", "nan", "None", "x"]})
    rows = duckdb.sql(eh.sql("inequality", table="log", dialect="duckdb", whole=["views"], **call)).pl()
    wanted = eh.inequality(log, **call).to_text("csv")
    for word in WORDS:
        rows.write_csv(tmp_path / "rows.csv", null_value=word)
        assert eh.inequality(f"tally:{tmp_path / 'rows.csv'}", **call).to_text("csv") == wanted


PLACES = np.arange(N) // 8
KINDS = {"bigint": PLACES % 3, "boolean": PLACES % 3 > 0, "text": np.array(["a", "b", "c"])[PLACES % 3]}
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
)
TYPED_ASKS = {
    "by": ("inequality", dict(unit="author", amount="views", population=None), DRAWN),
    "source": ("sources", dict(unit="author", amount="views", population=None), DRAWN),
    "groups": ("exposure", dict(request="query", item="doc", metrics=["eed", "awrf"]), DRAWN | dict(chance=False)),
    "by ": ("exposure", dict(request="query", item="doc", groups="gender", metrics="eed"), DRAWN | dict(chance=False)),
    "group": ("outcome_test", dict(score="score", outcome="money", bins=2, metrics="pooled_gap"), {}),
    "by  ": ("outcome_test", dict(score="score", outcome="money", group="gender", bins=2, metrics="pooled_gap"), {}),
}


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        *((kind, "by") for kind in KINDS),
        *zip(["bigint", "boolean", "text"] * 2, [role for role in TYPED_ASKS if role != "by"], strict=False),
    ],
)
def test_labels_that_are_declared_have_the_numbers_and_draws_of_the_table(kind, role, warehouse, tmp_path):
    verb, call, more = TYPED_ASKS[role]
    call = call | {role.strip(): kind}
    put(warehouse, "typed", TYPED)
    run = in_files(tmp_path, lambda query, path: saved(warehouse, query, path))
    tally = asked(
        verb, {"rank": "rank"} | call if verb == "exposure" else call, TYPED, run, table="typed", dialect="postgres"
    )
    assert_same(getattr(eh, verb)(tally, **call, **more), getattr(eh, verb)(TYPED, **call, **more))


def test_a_unit_called_nan_is_missing_where_the_column_is_declared_as_numbers(database):
    odd = LOG.with_columns(
        pl.when(pl.col("views") < 3).then(float("nan")).otherwise(pl.col("author").cast(float)).alias("id")
    )
    database.register("odd_ids", odd.to_arrow())
    call = dict(unit="id", amount="views", population=None, interval=None, nan_policy="omit", rng=1)
    run, known = lambda query: database.sql(query).pl(), dict(table="odd_ids", dialect="duckdb", number=["id"])
    tally = asked("inequality", call, odd, run, **known)
    assert_same(eh.inequality(tally, **call), eh.inequality(odd, **call))


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
    here = EVERYONE if held else EVERYONE.select("author")
    wanted = getattr(eh, verb)(LOG, population=here, **call, **DRAWN)
    database.register("people", EVERYONE.to_arrow())
    put(warehouse, "people", EVERYONE)
    writers = {
        "duckdb": lambda query, path: database.sql(query).write_csv(str(path)),
        "postgres": lambda query, path: saved(warehouse, query, path),
    }
    for dialect, write in writers.items():
        folder = tmp_path / dialect
        folder.mkdir()
        known = dict(table="log", dialect=dialect, population="people", population_by=list(held))
        tally = asked(verb, call, LOG, in_files(folder, write), **known)
        found = getattr(eh, verb)(tally, population="people", **call, **DRAWN)
        assert_frame_equal(pl.DataFrame(found.frame), pl.DataFrame(wanted.frame), rel_tol=1e-9, abs_tol=1e-12)
        assert found.provenance["population"] == "people"
        with pytest.raises(
            eh.EvenhandError, match="population='others' is a table that the query of this tally did not count"
        ):
            getattr(eh, verb)(tally, population="others", **call)


def test_who_is_not_in_the_table_of_all_units_is_counted_in_the_database_too(database):
    call = dict(unit="author", amount="views", by="day")
    some = EVERYONE.filter(pl.col("author") != "7")
    database.register("fewer", some.to_arrow())
    query = eh.sql(
        "inequality", table="log", dialect="duckdb", population="fewer", population_by=["day"], whole=["views"], **call
    )
    tally = eh.read.tally(database.sql(query).pl())
    told = [complaint(eh.inequality, table, {**call, "population": p}) for table, p in ((LOG, some), (tally, "fewer"))]
    assert told[0] == told[1]
    assert "units received something but are not in population with the same slice" in told[0]


UNANSWERED = {
    "a unit that is its own slice": ("inequality", dict(unit="author", by="author", population=None)),
    "a slice that every result has": ("inequality", dict(unit="author", by="metric", population=None)),
    "an amount twice": ("inequality", dict(unit="author", amount=["views", "views"], population=None)),
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
def test_a_call_that_is_wrong_is_refused_in_the_same_words_before_a_query_is_printed(what):
    verb, call = UNANSWERED[what]
    plain = TABLES[verb][1].with_columns(pl.lit("a").alias(name) for name in ("metric", "system", "slope"))
    plain = plain.with_columns(pl.lit(1).alias(c) for c in ("request", "item") if verb == "exposure")
    printing = functools.partial(eh.sql, verb, dialect="duckdb")
    assert complaint(getattr(eh, verb), plain, call) == complaint(
        lambda table, **c: printing(table=table, **c), "t", call
    )


@pytest.mark.parametrize("population", ["authors.csv", "shop.duckdb::authors", "s3://bucket/authors.parquet"])
def test_a_population_that_the_database_cannot_reach_is_refused_before_a_query_is_printed(population, capsys):
    words = [*COUNT_ROWS, "--table", "log", "--population", population]
    assert "is a file, which the query cannot reach. Name a table of the same database" in said(words, capsys)


@pytest.mark.parametrize("flag", ["--table", "--population"])
def test_a_key_in_the_name_of_a_table_is_not_repeated(flag, capsys):
    told = said([*COUNT_ROWS, "--table", "log", flag, "postgresql://me:pass-word@host/shop"], capsys)
    assert "credentials" in told
    assert "pass-word" not in told

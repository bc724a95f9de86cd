"""Tables that stay in a warehouse: every audit gives the numbers of Polars there, and only the tally travels."""

import datetime as dt
import json
import sqlite3
import subprocess
import sys

import ibis
import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits.declare import AUDITS, names
from evenhand.cli import main
from evenhand.findings import Findings
from evenhand.report.reproduce import ways
from evenhand.sources import databases
from evenhand.sources.opening import open_table

RNG = np.random.default_rng(11)
WHO = ["a", "B", "b", "É", "_z", "10", "9", "Z", "é", "c d"]


def log(rows=400):
    who = RNG.integers(0, len(WHO), rows)
    return pl.DataFrame(
        {
            "who": [WHO[i] for i in who],
            "viewer": RNG.integers(0, 30, rows),
            "via": [["home", "Search", None][i] for i in RNG.integers(0, 3, rows)],
            "half": [["x", "Y"][i % 2] for i in who],
            "w": (1.0 + who % 3),
            "followers": (who * 7 + 1).astype(np.int32),
            "views": RNG.poisson(4, rows).astype(np.int16),
            "watch": RNG.lognormal(0, 1, rows).astype(np.float32),
            "paid": RNG.integers(0, 999, rows),
            "seen": RNG.random(rows) < 0.5,
            "day": [dt.date(2026, 1, 1) + dt.timedelta(days=int(i)) for i in who * 9],
        }
    ).with_columns(
        pl.col("paid").cast(pl.Decimal(12, 2)) / 100,
        arm=pl.when(pl.col("viewer") < 12).then(pl.lit("new")).otherwise(pl.lit("Control")),
    )


def ranked():
    rows = [(f"q{i}", f"d{(i * 5 + j) % 17}", j + 1) for i in range(9) for j in range(6)]
    frame = pl.DataFrame(rows, schema=["request", "item", "rank"], orient="row")
    number = frame["item"].str.slice(1).cast(int)
    return frame.with_columns(
        pl.Series("score", RNG.random(54)),
        side=pl.when(number % 3 == 0).then(pl.lit("f")).otherwise(pl.lit("M")),
        good=number % 4 == 0,
        user=pl.col("request").replace_strict({f"q{i}": f"u{i // 2}" for i in range(9)}),
        day=pl.col("request").replace_strict({f"q{i}": f"2026-0{1 + i // 3}-1{i} 10:00" for i in range(9)}),
    )


def people(rows=300):
    job = RNG.integers(0, 20, rows)
    score = RNG.random(rows).round(3)
    land = [["at", "Be", None][i % 3] for i in job]
    return pl.DataFrame(
        {"s": score, "y": RNG.random(rows) < score, "g": RNG.choice(["F", "m"], rows), "job": job, "land": land}
    ).with_columns(w=1.0 + pl.col("job") % 3, at=pl.datetime(2026, 1 + pl.col("job") % 4, 3, 23))


def rated():
    return pl.DataFrame(
        [{"who": f"u{u}", "what": f"i{i}", "s": float(RNG.random()), "kind": "aB"[u % 2], "day": dt.date(2026, 1 + u // 4, 5)} for u in range(8) for i in range(5)]
    )  # fmt: skip


HERE = {
    "log": log(),
    "authors": pl.DataFrame({"who": [*WHO, "nobody", "No one"], "half": [["x", "Y"][i % 2] for i in range(12)]}),
    "ranked": ranked(),
    "people": people(),
    "rated": rated(),
}
HERE["sides"] = HERE["ranked"].select("item", group="side").unique().sort("item")
HERE["judged"] = HERE["ranked"].select("request", "item", relevance="good")

PASSWORD = "s3cret-of-the-warehouse"
UNITS = {"unit": "who", "amount": "views", "rng": 1}
CALLS = {
    "inequality": [
        lambda t: eh.inequality(t["log"], unit="who", amount=["views", "paid", "seen", "watch"], population=None, by="via", metrics=["gini", "top_share(p=0.1)"], rng=1),
        lambda t: eh.inequality(t["log"], **UNITS, population=t["authors"], by="half", metrics="gini"),
        lambda t: eh.inequality(t["log"], **UNITS, population=None, by=eh.log_bins("followers", 3), metrics="gini", weight="w"),
        lambda t: eh.inequality(t["log"], **UNITS, population=None, by=eh.periods("day", every="week"), metrics="gini"),
        lambda t: eh.inequality(t["log"], **UNITS, population=None, within="viewer", metrics="gini", interval="percentile(29)"),
    ],
    "sources": [lambda t: eh.sources(t["log"], **UNITS, source="via", population=t["authors"], interval="percentile(29)")],
    "decompose": [lambda t: eh.decompose(t["log"], **UNITS, group="half", population=t["authors"], interval="percentile(29)")],
    "criteria": [lambda t: eh.criteria(t["log"], **UNITS, population=20, by="via", metrics=["gini"], draws=29)],
    "explain": [
        lambda t: eh.explain(t["log"], **UNITS, population=t["authors"], arm="arm", control="Control", source="via", group="half", nan_policy="omit")
    ],
    "impact": [lambda t: eh.impact(t["people"], group="g", selected="y")],
    "network": [
        lambda t: eh.network(t["log"], t["log"], **UNITS, viewer="viewer", follower="viewer", followed="who", draws=9)
    ],
    "experiment": [
        lambda t: eh.experiment(t["log"], **UNITS, population=t["authors"], arm="arm", control="Control", randomized="viewer", metrics=["gini"], draws=99)
    ],
    "prefix": [
        lambda t: eh.prefix(t["ranked"], group=t["sides"], protected="f", interval="percentile(29)", chance=None, rng=1),
        lambda t: eh.prefix(t["ranked"], group="side", protected="f", by=eh.periods("day"), interval=None, chance=None, rng=1),
        lambda t: eh.prefix(t["ranked"], group="side", protected="f", cluster="user", interval="percentile(29)", chance="permutation(29)", rng=1),
    ],
    "exposure": [
        lambda t: eh.exposure(t["ranked"], groups="side", protected="f", request=None, rank=None, score="score", by="user", duplicates="first", interval=None, rng=1),
        lambda t: eh.exposure(t["ranked"], groups="side", protected="f", by=eh.periods("day"), interval=None, rng=1),
        lambda t: eh.exposure(t["ranked"], groups="side", protected="f", cluster="user", interval="percentile(29)", rng=1),
        lambda t: eh.exposure(t["ranked"], groups=t["sides"], relevance=t["judged"], protected="f", interval="percentile(29)", rng=1),
        lambda t: eh.exposure(t["ranked"], groups="side", relevance="good", attention="cascade(stop=0.4)", metrics="eel", interval=None, rng=1),
    ],
    "pairwise": [lambda t: eh.pairwise(t["ranked"], groups="side", relevance="good", protected="f", cluster="user", interval="percentile(29)", rng=1)],
    "outcome_test": [
        lambda t: eh.outcome_test(t["people"], score="s", outcome="y", group="g", bins=3, by="land", weight="w", cluster="job"),
        lambda t: eh.outcome_test(t["people"], score="s", outcome="y", group="g", bins=2, by=eh.periods("at", every="quarter")),
    ],
    "recommender": [
        lambda t: eh.recommender(t["rated"], user="who", item="what", score="s", user_groups="kind", top=2, interval="percentile(29)", rng=1),
        lambda t: eh.recommender(t["rated"], user="who", item="what", score="s", user_groups="kind", top=2, by=eh.periods("day"), interval=None, rng=1),
    ],
    "rebalance": [lambda t: eh.rebalance(t["ranked"], top=3, providers=t["sides"], iterations=20, interval=None, rng=1)],
    "advise": [lambda t: eh.advise(t["ranked"], group="side", protected="f", rng=1)],
}  # fmt: skip
EVERY = [pytest.param(call, id=f"{name}-{i}") for name, calls in CALLS.items() for i, call in enumerate(calls)]


@pytest.fixture(scope="module")
def server(postgres):
    """The tables in PostgreSQL, as Ibis hands them out."""
    connection = ibis.postgres.connect(host=postgres, user="evenhand", database="postgres", password=PASSWORD)
    found = {name: connection.create_table(name, frame.to_arrow()) for name, frame in HERE.items()}
    yield found
    connection.disconnect()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The tables in a DuckDB database file, some of them in a schema."""
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path_factory.mktemp("warehouse") / "warehouse.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA logs")
        for name, frame in HERE.items():
            connection.register("arriving", frame.to_arrow())
            connection.execute(f"CREATE TABLE {'logs.log' if name == 'log' else name} AS FROM arriving")
    return path


@pytest.fixture(scope="module")
def session():
    """The tables in SQLFrame's session on DuckDB."""
    duckdb = pytest.importorskip("duckdb")
    from sqlframe.duckdb import DuckDBSession

    with duckdb.connect() as connection:
        for name, frame in HERE.items():
            connection.register("arriving", frame.to_arrow())
            connection.execute(f"CREATE TABLE {name} AS FROM arriving")
        yield DuckDBSession(conn=connection)


def cells(result):
    return result.to_dict()["columns"]


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, column in wanted.items():
        for a, b in zip(found[name], column, strict=True):
            if isinstance(b, float):
                assert a == pytest.approx(b, rel=1e-9, abs=1e-12, nan_ok=True), name
            else:
                assert a == b, name


WANTED = {}


def wanted(call):
    """What Polars answers, once."""
    if call not in WANTED:
        WANTED[call] = cells(call(HERE))
    return WANTED[call]


def test_every_audit_that_reads_a_table_is_asked_here():
    assert {name for name in names() if next(iter(AUDITS[name].parameters.values())).takes.table} == set(CALLS)


@pytest.mark.parametrize("call", EVERY)
def test_postgresql_gives_the_numbers_of_polars(call, server):
    same(cells(call(server)), wanted(call))


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("name", ["inequality", "prefix", "outcome_test", "experiment"])
def test_a_plain_connection_to_postgresql_gives_the_numbers_of_polars(name, postgres):
    psycopg = pytest.importorskip("psycopg")
    rows = psycopg.rows.dict_row  # the owner's way to read rows does not matter
    with psycopg.connect(host=postgres, user="evenhand", dbname="postgres", row_factory=rows) as connection:
        there = {table: eh.read.database(connection, table) for table in HERE}
        there["ranked"] = eh.read.database(connection, "SELECT * FROM public.ranked WHERE rank > 0;")
        for call in CALLS[name]:
            same(cells(call(there)), wanted(call))


def test_a_connection_that_is_not_read_is_refused_and_one_of_duckdb_is_read(file):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(file), read_only=True) as connection:
        there = {"log": eh.read.database(connection, "logs.log"), "authors": eh.read.database(connection, "authors")}
        call = CALLS["inequality"][1]
        same(cells(call(there)), wanted(call))
    with pytest.raises(eh.EvenhandError, match=r"connection is of type sqlite3.Connection, which is not read"):
        eh.read.database(sqlite3.connect(":memory:"), "log")


@pytest.mark.parametrize("call", EVERY)
def test_a_duckdb_file_gives_the_numbers_of_polars(call, file):
    there = {name: f"{file}::{'logs.log' if name == 'log' else name}" for name in HERE}
    same(cells(call(there)), wanted(call))


@pytest.mark.parametrize("call", EVERY)
def test_sqlframe_gives_the_numbers_of_polars(call, session):
    same(cells(call({name: session.table(name) for name in HERE})), wanted(call))


@pytest.mark.filterwarnings("ignore:fetch_:DeprecationWarning")  # Ibis on the DuckDB of today
@pytest.mark.parametrize("call", [calls[0] for calls in CALLS.values()], ids=CALLS)
def test_ibis_on_duckdb_gives_the_numbers_of_polars(call, file):
    connection = ibis.duckdb.connect(file, read_only=True)
    there = {name: connection.table(name, database="logs" if name == "log" else None) for name in HERE}
    same(cells(call(there)), wanted(call))
    connection.disconnect()


BIG = """CREATE TABLE big AS SELECT i % 600 AS who, i % 7 % 4 AS views, chr(97 + i % 3) AS via, chr(65 + i % 600 % 2) AS half,
    i / 20 AS request, i % 20 + 1 AS rank, 'd' || i * 7 % 900 AS item, chr(65 + i * 7 % 900 % 2) AS side,
    i % 997 / 997.0 AS s, (i * 31 % 100) < (i % 100) AS y, i % 50 AS viewer FROM generate_series(0, 19999) AS i"""
ROWS, BYTES = 20_000, 20_000 * 80
SUMMED = {
    "inequality": lambda t: eh.inequality(t, unit="who", amount="views", population=None, by="via", interval=None),
    "sources": lambda t: eh.sources(t, unit="who", amount="views", population=900, source="via", interval=None),
    "decompose": lambda t: eh.decompose(t, unit="who", amount="views", population=None, group="half", interval=None),
    "exposure": lambda t: eh.exposure(t, groups="side", protected="A", chance=False, interval=None),
    "experiment": lambda t: eh.experiment(
        t.mutate(arm=t.viewer % 2),
        unit="who",
        amount="views",
        population=900,
        arm="arm",
        control=0,
        randomized="viewer",
        draws=99,
    ),
    "outcome_test": lambda t: eh.outcome_test(
        t, score="s", outcome="y", group="half", bins=10, by="via", metrics="pooled_gap"
    ),
}


@pytest.fixture(scope="module")
def big(server):
    connection = server["log"].get_backend()
    connection.raw_sql(BIG)
    return connection.table("big")


@pytest.fixture
def travelled(monkeypatch):
    """Rows and bytes of every table that leaves PostgreSQL."""
    left = []

    def counted(rows, description):
        found = typed(rows, description)
        left.append((found.height, found.estimated_size()))
        return found

    typed = databases._typed
    monkeypatch.setattr(databases, "_typed", counted)
    for way in ("to_pyarrow", "to_pandas", "to_polars", "execute", "to_pyarrow_batches"):
        monkeypatch.setattr(ibis.expr.types.Table, way, lambda *_, **__: pytest.fail("rows were fetched"))
    return left


@pytest.mark.parametrize("name", SUMMED)
def test_only_the_tally_leaves_postgresql(name, big, travelled):
    SUMMED[name](big)
    rows, size = np.sum(travelled, axis=0)
    # scores are counted to find the edges of bins; a ranking of 20 items has two groups
    assert rows < ROWS / (15 if name not in ("outcome_test", "exposure") else 5)
    assert size < BYTES / 15


SHARING = {
    "requests": {"request": "request", "metrics": "pooled_gap"},
    "odds": {"metrics": "equalized_odds_gap"},
    "odds with ties": {"score": "tied", "metrics": "equalized_odds_gap"},
    "odds of many grades": {"outcome": "pay", "metrics": "equalized_odds_gap"},
    "odds with weights": {"weight": "w", "metrics": "equalized_odds_gap"},
    "odds of requests": {"request": "request", "outcome": "pay", "weight": "w", "metrics": "equalized_odds_gap"},
    "rates of requests": {"request": "request", "treated": "seen", "metrics": "true_positive_rate_gap"},
}


@pytest.mark.parametrize("name", SHARING)
def test_an_outcome_test_with_clusters_weights_or_ties_gives_the_numbers_of_polars(name, server):
    connection = server["log"].get_backend()
    if "scored_people" not in connection.list_tables():
        rng = np.random.default_rng(8)
        rows, request = 12_000, rng.integers(0, 3_000, 12_000)
        score = rng.random(rows) + 0.1 * (request % 5)
        people = {"s": score, "tied": score.round(2), "half": rng.choice(["A", "b", "É"], rows)}
        people |= {"y": (rng.random(rows) < score).astype(int)}
        people |= {"pay": score + rng.random(rows), "w": rng.random(rows) + 0.5, "seen": (score > 0.4).astype(int)}
        HERE["scored"] = pl.DataFrame(people).with_columns(request=pl.Series([f"r{WHO[i % 10]}{i}" for i in request]))
        connection.create_table("scored_people", HERE["scored"].to_arrow())
    call = {"score": "s", "outcome": "y", "group": "half", "bins": 5, **SHARING[name]}
    found = eh.outcome_test(connection.table("scored_people"), **call)
    same(cells(found), cells(eh.outcome_test(HERE["scored"], **call)))


def test_users_are_cut_in_our_order_of_text(server):
    names = pl.DataFrame(
        {"who": [who for who in WHO for _ in range(5)], "what": [f"i{i}" for i in range(5)] * len(WHO)}
    )
    names = names.with_columns(pl.Series("s", RNG.random(names.height)))
    there = server["log"].get_backend().create_table("named", names.to_arrow())
    call = {"user": "who", "item": "what", "score": "s", "top": 2, "metrics": "item_gini", "rng": 1}
    call |= {"convention": "holisticai"}  # which shows what has no score, so that scores are read in blocks
    expected = cells(eh.recommender(names, **call))
    same(cells(eh.recommender(there, **call)), expected)


@pytest.mark.parametrize("ties", ["first", "last"])
def test_ties_are_broken_in_our_order_of_text(ties, server):
    equal = pl.DataFrame({"user": [1] * len(WHO) + [2] * 3, "item": WHO + WHO[:3], "score": [0.5] * (len(WHO) + 3)})
    there = server["log"].get_backend().create_table(f"tied_{ties}", equal.to_arrow())
    call = {"top": 4, "ties": ties, "interval": None, "chance": None}
    found, expected = (eh.recommender(table, **call) for table in (there, equal))
    assert pl.DataFrame(found.shown).equals(expected.shown)
    assert found.provenance["users_with_ties"] == 1
    twice = there.union(there.limit(2))
    with pytest.raises(eh.EvenhandError, match="scores has 2 rows for a user and item that already had one"):
        eh.recommender(twice, **call)


def test_a_table_from_elsewhere_is_brought_along_and_who_may_not_is_told_what_to_grant(server, postgres, monkeypatch):
    call = {**UNITS, "metrics": "gini", "interval": None}
    expected = cells(eh.inequality(HERE["log"], **call, population=HERE["authors"]))
    same(cells(eh.inequality(server["log"], **call, population=HERE["authors"])), expected)
    same(cells(eh.inequality(server["log"], **call, population=ibis.memtable(HERE["authors"]))), expected)
    admin = server["log"].get_backend()
    admin.raw_sql(
        "CREATE ROLE reader LOGIN; REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC; GRANT SELECT ON log, rated TO reader"
    )
    reader = ibis.postgres.connect(host=postgres, user="reader", database="postgres", password=PASSWORD)
    table = reader.table("log")
    same(cells(eh.inequality(table, **call, population=12)), cells(eh.inequality(HERE["log"], **call, population=12)))
    lists = CALLS["recommender"][0]
    same(cells(lists({"rated": reader.table("rated")})), wanted(lists))
    same(cells(eh.inequality(table, **call, population=HERE["authors"])), expected)  # so few are written into the query
    monkeypatch.setattr(databases, "VALUES_ROWS", 5)
    same(cells(eh.inequality(server["log"], **call, population=HERE["authors"])), expected)
    with pytest.raises(eh.EvenhandError, match=r"denies it to this user .InsufficientPrivilege.*TEMPORARY"):
        eh.inequality(table, **call, population=HERE["authors"])
    reader.raw_sql("SET default_transaction_read_only = on")
    same(cells(eh.inequality(table, **call, population=12)), cells(eh.inequality(HERE["log"], **call, population=12)))
    admin.raw_sql("REVOKE SELECT ON log FROM reader")
    with pytest.raises(eh.EvenhandError, match="Grant SELECT on the table"):
        eh.inequality(table, **call, population=12)
    reader.disconnect()


def test_a_step_that_is_read_twice_is_kept_where_that_is_allowed_and_gone_afterwards(server, postgres):
    backend = server["log"].get_backend()

    def tables():
        with backend.con.cursor() as cursor:
            return cursor.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'evenhand_%'").fetchone()[0]

    many = HERE["log"].filter(pl.col("views") > 2).height
    reading = ibis.postgres.connect(host=postgres, user="evenhand", database="postgres", password=PASSWORD)
    reading.raw_sql("SET default_transaction_read_only = on")
    for table, is_kept in ((server["log"], True), (reading.table("log"), False)):
        before, opened = tables(), open_table(table)
        step = opened.engine.keep(opened.select({"views": opened.number("views")}))
        assert opened.engine.cells(f"SELECT COUNT(*) AS n FROM {step} WHERE views > 2").row() == {"n": many}
        assert tables() == before + is_kept
        del opened
        assert tables() == before
    reading.disconnect()


def test_rows_that_are_brought_along_are_the_same_there(server, monkeypatch):
    sent = pl.DataFrame({"who": [*WHO, None, 'tab\t, quote " and \\N'], "n": [*range(11), None], "x": [0.1] * 12})
    engine = open_table(server["log"]).engine
    for most in (1_000, 3):  # written into the query, or copied into a table
        monkeypatch.setattr(databases, "VALUES_ROWS", most)
        assert engine.cells(f"SELECT * FROM {engine.bring(sent)} ORDER BY n").frame.equals(sent)


def test_no_credential_and_no_row_is_told(server, postgres):
    connection = ibis.postgres.connect(host=postgres, user="evenhand", database="postgres", password=PASSWORD)
    found = eh.inequality(connection.table("log"), **UNITS, population=None, metrics="gini", interval=None)
    assert PASSWORD not in found.to_json() + found.to_text("markdown") + repr(found)
    connection.raw_sql("CREATE VIEW words AS SELECT who, who::int AS views FROM log")
    words = connection.table("words")
    with pytest.raises(eh.EvenhandError, match="PostgreSQL failed with InvalidTextRepresentation") as caught:
        eh.inequality(words, **UNITS, population=None)
    assert not any(secret in str(caught.value) for secret in (PASSWORD, postgres, "_z", "evenhand@"))
    table = connection.table("log")
    connection.disconnect()
    with pytest.raises(eh.EvenhandError, match="failed with OperationalError") as caught:
        eh.inequality(table, **UNITS, population=None)
    assert not any(secret in str(caught.value) for secret in (PASSWORD, postgres))


def test_ids_that_drivers_hand_out_as_objects_are_labels(server):
    duckdb = pytest.importorskip("duckdb")
    connection = server["log"].get_backend()
    connection.raw_sql("CREATE VIEW keyed AS SELECT who, views, md5(half)::uuid AS half FROM log")
    table = connection.table("keyed")
    found = cells(eh.inequality(table, **UNITS, population=None, by="half", metrics="gini", interval=None))
    plain = table.mutate(half=table.half.cast("string")).to_polars()
    with duckdb.connect() as here:
        relation = here.sql("SELECT who, views, half::UUID AS half FROM plain")
        same(
            cells(eh.inequality(relation, unit="half", amount="views", population=plain.select("half"), interval=None)),
            cells(eh.inequality(plain, unit="half", amount="views", population=None, interval=None)),
        )
    assert found == cells(eh.inequality(plain, **UNITS, population=None, by="half", metrics="gini", interval=None))


def test_blanks_that_fill_up_text_are_no_part_of_it(server):
    connection = server["log"].get_backend()
    connection.raw_sql("CREATE VIEW padded AS SELECT *, arm::char(9) AS pad, who::char(12) AS name FROM log")
    connection.raw_sql("CREATE VIEW padded_authors AS SELECT who::char(5) AS name FROM authors")
    padded, authors = connection.table("padded"), connection.table("padded_authors")
    call = {"amount": "views", "rng": 1, "metrics": "gini"}
    trial = {"control": "Control", "randomized": "viewer", "population": 20, "draws": 99}
    expected = cells(eh.experiment(HERE["log"], unit="who", arm="arm", **trial, **call))
    same(cells(eh.experiment(padded, unit="who", arm="pad", **trial, **call)), expected)
    call |= {"interval": None}
    everyone = HERE["authors"].rename({"who": "name"})
    expected = cells(eh.inequality(HERE["log"].rename({"who": "name"}), unit="name", population=everyone, **call))
    for population in (authors, everyone):
        same(cells(eh.inequality(padded, unit="name", population=population, **call)), expected)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "is a database, not a table. Name one of its tables (logs.log, authors, judged, people, ranked, rated, sides), as in "),
        ("::", "is a database, not a table."),
        ("::log", "names a table that the database does not have. Did you mean 'logs.log'? Tables: logs.log, authors, "),
    ],
)  # fmt: skip
def test_a_table_that_a_database_does_not_have_is_told_with_those_it_has(table, said, file, capsys):
    assert main(["inequality", f"{file}{table}", "--unit", "who", "--population", "none"]) == 2
    assert said in capsys.readouterr().err


def test_a_database_is_read_from_the_command_line_and_from_plans_and_left_as_it_is(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(file.parent)
    before = file.read_bytes()
    words = ["inequality", "warehouse.duckdb::LOGS.log", "--unit", "who", "--amount", "views", "--seed", "1"]
    assert main([*words, "--population", "warehouse.duckdb::main.authors", "--format", "json", "--no-progress"]) == 0
    found = json.loads(capsys.readouterr().out)
    same(
        found["columns"],
        json.loads(eh.inequality(HERE["log"], **UNITS, population=HERE["authors"]).to_json())["columns"],
    )
    (tmp_path / "plan.toml").write_text(ways(Findings.from_dict(found))[2][1])
    assert main(["run", str(tmp_path / "plan.toml"), "--format", "json", "--no-progress"]) == 0
    same(json.loads(capsys.readouterr().out)["columns"], found["columns"])
    plan = {name: value for name, value in found["provenance"]["plan"].items() if name != "audit"}
    assert plan["table"] == "warehouse.duckdb::LOGS.log"
    same(cells(eh.inequality(**plan)), found["columns"])
    assert main([*words, "--population", "none", "--output", "warehouse.duckdb"]) == 2
    assert "is read or written by this command already" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["warehouse.duckdb"]


def test_a_database_that_cannot_be_opened_is_one_sentence(file, tmp_path, capsys):
    duckdb = pytest.importorskip("duckdb")
    ask = {**UNITS, "population": None}
    (tmp_path / "words.duckdb").write_text("no database")
    with pytest.raises(eh.EvenhandError, match=r"is not a DuckDB database, or is open for writing"):
        eh.inequality(tmp_path / "words.duckdb::log", **ask)
    with pytest.raises(eh.EvenhandError, match=r"is not a file. Did you mean 'words.duckdb'?"):
        eh.inequality(tmp_path / "wrods.duckdb::log", **ask)
    assert main(["inequality", f"{file}::authors", "--unit", "who", "--population", "none", "--engine", "spark"]) == 2
    assert "is read by DuckDB only" in capsys.readouterr().err
    with pytest.raises(eh.EvenhandError, match="names several tables"):
        eh.inequality([f"{file}::authors", f"{file}::sides"], **ask)
    with (
        duckdb.connect(str(tmp_path / "own.duckdb")),
        pytest.raises(eh.EvenhandError, match=r"open for writing .*pass the table itself"),
    ):
        eh.inequality(tmp_path / "own.duckdb::log", **ask)
    code = f"import duckdb; held = duckdb.connect({str(tmp_path / 'own.duckdb')!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(eh.EvenhandError, match=r"open for writing .*let the writer"):
            eh.inequality(tmp_path / "own.duckdb::log", **ask)
        other.communicate("\n")


def test_a_database_is_free_again_once_the_numbers_are_there(file):
    duckdb = pytest.importorskip("duckdb")
    eh.inequality(f"{file}::logs.log", **UNITS, population=f"{file}::authors", interval=None)
    with duckdb.connect(str(file)) as connection:  # for writing
        assert connection.execute("SELECT count(*) FROM logs.log").fetchone() == (400,)


def test_a_table_of_the_owner_is_not_taken_for_one_that_is_brought_along(session):
    call = {**UNITS, "metrics": "gini", "interval": None, "population": HERE["authors"]}
    same(cells(eh.inequality(session.table("log"), **call)), cells(eh.inequality(HERE["log"], **call)))

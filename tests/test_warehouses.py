"""Tables that stay in a warehouse: every audit gives the numbers of Polars there, and only the tally travels."""

import math
import subprocess
import sys

import ibis
import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits.declare import AUDITS, names

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
    )


def people(rows=300):
    job = RNG.integers(0, 20, rows)
    score = RNG.random(rows).round(3)
    land = [["at", "Be", None][i % 3] for i in job]
    return pl.DataFrame(
        {"s": score, "y": RNG.random(rows) < score, "g": RNG.choice(["F", "m"], rows), "job": job, "land": land}
    ).with_columns(w=1.0 + pl.col("job") % 3)


def rated():
    return pl.DataFrame(
        [{"who": f"u{u}", "what": f"i{i}", "s": float(RNG.random()), "kind": "aB"[u % 2]} for u in range(8) for i in range(5)]
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

UNITS = {"unit": "who", "amount": "views", "rng": 1}
CALLS = {
    "inequality": [
        lambda t: eh.inequality(t["log"], unit="who", amount=["views", "paid", "seen", "watch"], population=None, by="via", metrics=["gini", "top_share(p=0.1)"], rng=1),
        lambda t: eh.inequality(t["log"], **UNITS, population=t["authors"], by="half", metrics="gini"),
        lambda t: eh.inequality(t["log"], **UNITS, population=None, by=eh.log_bins("followers", 3), metrics="gini", weight="w"),
        lambda t: eh.inequality(t["log"], **UNITS, population=None, within="viewer", metrics="gini", interval="percentile(29)"),
    ],
    "sources": [lambda t: eh.sources(t["log"], **UNITS, source="via", population=t["authors"], interval="percentile(29)")],
    "decompose": [lambda t: eh.decompose(t["log"], **UNITS, group="half", population=t["authors"], interval="percentile(29)")],
    "criteria": [lambda t: eh.criteria(t["log"], **UNITS, population=20, by="via", metrics=["gini"], draws=29)],
    "experiment": [
        lambda t: eh.experiment(t["log"], **UNITS, population=t["authors"], arm="arm", control="Control", randomized="viewer", metrics=["gini"], draws=99)
    ],
    "prefix": [lambda t: eh.prefix(t["ranked"], group=t["sides"], protected="f", interval="percentile(29)", chance=None, rng=1)],
    "exposure": [
        lambda t: eh.exposure(t["ranked"], groups=t["sides"], relevance=t["judged"], protected="f", interval="percentile(29)", rng=1),
        lambda t: eh.exposure(t["ranked"], groups="side", relevance="good", attention="cascade(stop=0.4)", metrics="eel", interval=None, rng=1),
    ],
    "pairwise": [lambda t: eh.pairwise(t["ranked"], groups="side", relevance="good", protected="f", interval="percentile(29)", rng=1)],
    "outcome_test": [
        lambda t: eh.outcome_test(t["people"], score="s", outcome="y", group="g", bins=3, by="land", weight="w", cluster="job")
    ],
    "recommender": [
        lambda t: eh.recommender(t["rated"], user="who", item="what", score="s", user_groups="kind", top=2, interval="percentile(29)", rng=1)
    ],
    "rebalance": [lambda t: eh.rebalance(t["ranked"], top=3, providers=t["sides"], iterations=20, interval=None, rng=1)],
    "advise": [lambda t: eh.advise(t["ranked"], group="side", protected="f", rng=1)],
}  # fmt: skip
EVERY = [pytest.param(call, id=f"{name}-{i}") for name, calls in CALLS.items() for i, call in enumerate(calls)]


@pytest.fixture(scope="module")
def server(postgres):
    """The tables in PostgreSQL, as Ibis hands them out."""
    connection = ibis.postgres.connect(host=postgres, user="evenhand", database="postgres")
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


@pytest.mark.parametrize("call", EVERY)
def test_a_duckdb_file_gives_the_numbers_of_polars(call, file):
    there = {name: f"{file}::{'logs.log' if name == 'log' else name}" for name in HERE}
    same(cells(call(there)), wanted(call))


@pytest.mark.parametrize("call", EVERY)
def test_sqlframe_gives_the_numbers_of_polars(call, session):
    same(cells(call({name: session.table(name) for name in HERE})), wanted(call))


@pytest.mark.filterwarnings("ignore:fetch_:DeprecationWarning")  # Ibis on the DuckDB of today
@pytest.mark.parametrize("call", EVERY)
def test_ibis_on_duckdb_gives_the_numbers_of_polars(call, file):
    connection = ibis.duckdb.connect(file, read_only=True)
    there = {name: connection.table(name, database="logs" if name == "log" else None) for name in HERE}
    same(cells(call(there)), wanted(call))
    connection.disconnect()

"""Macros for DuckDB and dbt: made from the tally's own query, and held against the conformance kit."""

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest
from jinja2 import Environment, FileSystemLoader

from evenhand_conformance import vectors

ROOT = Path(__file__).parents[1]
MACROS = ROOT / "integrations"
PLAIN = [v for v in vectors("gini") if not v["parameters"] and "weights" not in v["input"]]


@pytest.fixture(scope="module")
def database():
    connection = duckdb.connect()
    connection.execute((MACROS / "duckdb" / "evenhand.sql").read_text(encoding="utf-8"))
    yield connection
    connection.close()


def by_duckdb(database, population="NULL"):
    return database.execute(f"FROM evenhand_gini('log', author, views, population := {population})").fetchone()[0]


def by_dbt(database, population="none"):
    """The query that dbt would compile, run on DuckDB."""
    environment = Environment(loader=FileSystemLoader(MACROS / "dbt" / "macros"))
    package = SimpleNamespace()  # macros of a package call each other by its name
    environment.globals |= {"dbt": SimpleNamespace(type_float=lambda: "DOUBLE"), "evenhand": package}
    package.__dict__.update(environment.get_template("evenhand.sql").module.__dict__)
    query = environment.from_string(
        f"{{{{ evenhand.gini('log', 'author', 'views', population={population}) }}}}"
    ).render()
    return database.execute(query).fetchone()[0]


def fill(database, amounts):
    database.execute("CREATE OR REPLACE TABLE log (author INTEGER, views DOUBLE)")
    if amounts:
        database.executemany("INSERT INTO log VALUES (?, ?)", list(enumerate(amounts)))


@pytest.mark.parametrize("macro", [by_duckdb, by_dbt])
@pytest.mark.parametrize("vector", PLAIN, ids=lambda v: v["id"])
def test_the_gini_macro_gives_the_value_of_the_kit(database, macro, vector):
    fill(database, vector["input"]["amounts"])
    expected = math.nan if vector["value"] is None else vector["value"]
    value = macro(database)
    assert (math.nan if value is None else value) == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("macro", [by_duckdb, by_dbt])
def test_rows_of_a_unit_are_added_and_units_without_rows_counted(database, macro):
    database.execute(
        "CREATE OR REPLACE TABLE log AS FROM (VALUES (1, 6), (1, 4), (2, NULL), (3, -1)) AS t(author, views)"
    )
    assert macro(database) is None, "a missing and a negative amount"
    database.execute("DELETE FROM log WHERE author > 1")
    assert macro(database, "4") == 0.75
    assert macro(database, "0") is None, "more units than there are"


def test_the_macros_are_what_the_tallys_query_gives_today():
    done = subprocess.run(
        [sys.executable, "integrations/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "", "run: python integrations/generate.py"

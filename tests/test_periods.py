"""Periods of a date as slices."""

import datetime as dt

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.cli.plans import load, plan

CALL = {"unit": "author", "amount": "views", "population": None, "metrics": "gini", "interval": None}
DAYS = [dt.date(2026, 1, 30), dt.date(2026, 1, 31), dt.date(2026, 2, 1), dt.date(2026, 4, 2)]
LOG = pl.DataFrame({"author": ["a", "b", "a", "b"] * 2, "views": [1, 3, 5, 5, 1, 3, 5, 7], "day": DAYS * 2})


@pytest.mark.parametrize(
    ("every", "first"),
    [
        ("month", ["2026-01-01", "2026-02-01", "2026-04-01"]), ("quarter", ["2026-01-01", "2026-04-01"]), ("year", ["2026-01-01"]),
        ("week", ["2026-01-26", "2026-03-30"]), ("day", ["2026-01-30", "2026-01-31", "2026-02-01", "2026-04-02"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["date", "time", "text", "file"])
def test_a_slice_is_called_by_the_first_day_of_its_period(every, first, kind, tmp_path):
    table = LOG
    if kind == "time":
        table = LOG.with_columns(pl.col("day").cast(pl.Datetime) + pl.duration(hours=23))
    if kind == "text":
        table = LOG.with_columns(pl.col("day").cast(pl.String) + "T23:59:00")
    if kind == "file":
        LOG.write_csv(tmp_path / "log.csv")
        table = str(tmp_path / "log.csv")
    frame = eh.inequality(table, by=eh.periods("day", every=every), **CALL).frame
    assert sorted(map(str, frame["day"])) == first
    assert frame.equals(eh.inequality(table, by=f"periods(day, every={every})", **CALL).frame)


def test_a_period_holds_its_own_rows():
    months = eh.inequality(LOG, by=eh.periods("day"), **CALL).frame.sort("day")
    january = eh.inequality(LOG.filter(pl.col("day") < dt.date(2026, 2, 1)), **CALL).frame
    assert months["estimate"][0] == january["estimate"][0]


def test_what_is_no_date_or_no_period_is_refused():
    with pytest.raises(eh.EvenhandError, match="Known: day, week, month, quarter, year"):
        eh.periods("day", every="fortnight")
    with pytest.raises(eh.EvenhandError, match="holds numbers"):
        eh.inequality(LOG, by=eh.periods("views"), **CALL)
    with pytest.raises(eh.EvenhandError, match="8 texts that are none"):
        eh.inequality(LOG, by=eh.periods("author"), **(CALL | {"unit": None}))


PLAN = 'audit = "inequality"\ntable = "log.csv"\nunit = "author"\namount = "views"\npopulation = "none"\nmetrics = ["gini"]\ninterval = "none"\n'


def test_one_dated_table_fills_a_history_in_one_run(tmp_path):
    LOG.write_csv(tmp_path / "log.csv")
    (tmp_path / "plan.toml").write_text(PLAN)
    path = tmp_path / "h.parquet"
    words = ["run", str(tmp_path / "plan.toml"), "--history", str(path), "--date", "day", "--every", "month"]
    assert main(words) == main(words) == 0
    frame = eh.history(path).frame
    assert list(map(str, frame["at"])) == ["2026-01-01", "2026-02-01", "2026-04-01"]
    assert frame["plan"].n_unique() == 1
    assert "day" not in frame.columns
    assert main([*words, "--at", "2026-01-01"]) == 2


def test_the_hash_of_a_plan_is_that_of_every_year(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace("log.csv", "log-${YEAR}.csv"))
    hashes = {plan(path, load(path), {"YEAR": str(year)}, None).steps[0].hash for year in range(1990, 1993)}
    hashes |= {plan(path, load(path), {}, dt.date(1994, 1, 1)).steps[0].hash}
    assert len(hashes) == 1

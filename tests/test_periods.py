"""Periods of a date as slices."""

import datetime as dt

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.cli.plan import load, plan

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


RANKED = pl.DataFrame(
    [(f"q{q}", f"i{r}", r, 10.0 - r, "fm"[(q + r) % 2], float((q + r) % 3 == 0), DAYS[q % 4], f"u{q}") for q in range(12) for r in range(1, 9)],
    schema=["request", "item", "rank", "score", "side", "outcome", "day", "user"], orient="row",
)  # fmt: skip
AUDITS = {
    "exposure": lambda table, by: eh.exposure(table, groups="side", protected="f", metrics="log_dp", by=by, interval=None),
    "prefix": lambda table, by: eh.prefix(table, group="side", protected="f", metrics="ndd", chance=None, by=by),
    "pairwise": lambda table, by: eh.pairwise(table, groups="side", protected="f", relevance="outcome", by=by, interval=None),
    "outcome_test": lambda table, by: eh.outcome_test(table, score="score", outcome="outcome", group="side", by=by, bins=2),
    "recommender": lambda table, by: eh.recommender(table, user_groups="side", top=3, metrics="item_gini", by=by, item="item", user="user"),
    "sources": lambda table, by: eh.sources(table, unit="item", amount="score", source="side", population=None, by=by, interval=None),
    "decompose": lambda table, by: eh.decompose(table, unit="user", amount="score", group="side", population=None, by=by, interval=None),
}  # fmt: skip


@pytest.mark.parametrize("name", AUDITS)
def test_every_audit_takes_periods_as_slices(name):
    table = RANKED if name != "decompose" else RANKED.with_columns(side=pl.col("user").str.slice(1).cast(int) % 2)
    table = table if name != "recommender" else table.with_columns(side=pl.col("user").str.slice(1).cast(int) % 3)
    months = AUDITS[name](table, "periods(day, every=month)").frame
    by_hand = AUDITS[name](table.with_columns(pl.col("day").dt.truncate("1mo")), "day").frame
    assert months.equals(by_hand)
    assert set(map(str, months["day"].drop_nulls())) == {"2026-01-01", "2026-02-01", "2026-04-01"}


def test_bins_of_units_are_refused_where_there_are_none():
    for name in ("exposure", "prefix", "pairwise", "outcome_test", "recommender"):
        with pytest.raises(eh.EvenhandError, match=r"makes bins of units, and this audit has none. Add a column"):
            AUDITS[name](RANKED, eh.log_bins("score", 3))


def test_parts_may_be_periods():
    months = LOG.with_columns(pl.col("day").dt.truncate("1mo"))
    call = {"unit": "author", "amount": "views", "population": None, "interval": None}
    by_month = eh.sources(LOG, source=eh.periods("day"), **call)
    assert by_month.frame.equals(eh.sources(months, source="day", **call).frame)
    who = pl.DataFrame({"author": ["a", "b", "c"], "views": [1, 2, 3], "joined": DAYS[:3]})
    groups = eh.decompose(who, group="periods(joined, every=month)", **call).frame
    assert set(groups["group"].drop_nulls()) >= {"2026-01-01", "2026-02-01"}
    with pytest.raises(eh.EvenhandError, match=r"source=periods.* holds numbers"):
        eh.sources(LOG, source=eh.periods("views"), **call)


def _run(folder, keys="", *options, by=""):
    (folder / "plan.toml").write_text(PLAN + keys + by)
    return main(["run", str(folder / "plan.toml"), "--history", str(folder / "h.parquet"), "--date", "day", *options])


def test_checks_of_a_plan_are_of_the_last_period(tmp_path, capsys):
    LOG.write_csv(tmp_path / "log.csv")
    assert _run(tmp_path, 'check = ["gini <= 0.1"]\noutputs = ["day.html"]\n') == 0
    said = capsys.readouterr().err
    assert "pass: gini <= 0.1" in said
    assert "outputs and plot of the plan are for one result and were not written" in said
    assert not (tmp_path / "day.html").exists()
    assert _run(tmp_path, "", "--check", "gini >= 0.3", "--junit", str(tmp_path / "checks.xml")) == 1
    assert "2026-04-01" in (tmp_path / "checks.xml").read_text()
    assert _run(tmp_path, "", "--html", str(tmp_path / "page.html")) == 2
    assert "evenhand history FILE --html" in capsys.readouterr().err


def test_a_fill_adds_every_period_or_none(tmp_path, capsys):
    LOG.write_csv(tmp_path / "log.csv")
    assert _run(tmp_path) == 0
    before = (tmp_path / "h.parquet").read_bytes()
    changed = LOG.with_columns(author=pl.Series(list("abababaa")))  # April, the last period, has another author
    changed[3, "author"] = "c"
    more = pl.DataFrame({"author": ["a", "b"], "views": [1, 2], "day": [dt.date(2026, 3, 3)] * 2})
    pl.concat([changed, more], how="vertical_relaxed").write_csv(tmp_path / "log.csv")
    assert _run(tmp_path) == 2
    assert "Add --replace" in capsys.readouterr().err
    assert (tmp_path / "h.parquet").read_bytes() == before
    assert _run(tmp_path, "", "--replace") == 0
    assert eh.history(tmp_path / "h.parquet").frame["at"].n_unique() == 4


def test_a_table_without_dates_and_an_audit_without_slices_are_refused(tmp_path, capsys):
    LOG.clear().write_csv(tmp_path / "log.csv")
    LOG.with_columns(day=pl.lit(None, pl.Date)).write_parquet(tmp_path / "log.parquet")
    (tmp_path / "plan.toml").write_text(PLAN.replace("csv", "parquet"))
    words = ["run", str(tmp_path / "plan.toml"), "--history", str(tmp_path / "h.parquet"), "--date", "day"]
    assert main(words) == 2
    assert "holds no dates" in capsys.readouterr().err
    (tmp_path / "plan.toml").write_text(
        'audit = "impact"\ntable = "log.parquet"\ngroup = "author"\nselected = "views"\n'
    )
    assert main(words) == 2
    assert "impact has no slices" in capsys.readouterr().err

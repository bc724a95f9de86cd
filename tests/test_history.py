"""A history: rows are added once, changed plans stand apart, and what changed is told."""

import datetime as dt
import math

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import evenhand as eh
from evenhand.audits.declare import find
from evenhand.cli import main as cli
from evenhand.findings import COLUMNS, plan_hash
from evenhand.history.histories import only_writer, read_rows
from evenhand.report.table import open_metrics
from evenhand.report.words.history import lines
from evenhand.results import Result
from test_plans import CALLS, data  # noqa: F401

START = dt.date(2026, 8, 3)


def log(seed=0, sigma=1.0, n=60):
    rng = np.random.default_rng(seed)
    views = rng.lognormal(0, sigma, 2 * n).round(2)
    return pl.DataFrame({"author": range(2 * n), "source": ["home"] * n + ["search"] * n, "views": views})


def audited(seed=0, **more):
    asked = {
        "unit": "author",
        "amount": "views",
        "population": None,
        "by": "source",
        "metrics": ["gini", "top_share(p=0.1)"],
    }
    return eh.inequality(log(seed, more.pop("sigma", 1.0)), **{**asked, "interval": "normal", "rng": 1, **more})


@pytest.fixture
def kept(tmp_path):
    return eh.history(tmp_path / "reach.parquet")


def test_a_row_per_metric_slice_and_group_with_its_day_and_plan(kept):
    result = audited()
    frame = kept.append(result, at="2026-11-16").frame
    assert frame["at"].to_list() == [dt.date(2026, 11, 16)] * 4
    assert frame["plan"].unique().to_list() == [result.provenance["plan_hash"]]
    assert frame.columns[:3] == ["at", "plan", "audit"]
    assert frame.select("source", *COLUMNS[:5]).rows() == result.frame.select("source", *COLUMNS[:5]).rows()


def test_the_file_opens_in_other_tools(kept):
    duckdb = pytest.importorskip("duckdb")
    kept.append(audited(), at="2026-11-16")
    assert duckdb.sql(f"select count(*) from '{kept.path}' where metric = 'gini'").fetchall() == [(2,)]
    assert pl.read_parquet(kept.path).height == 4


def test_the_same_numbers_again_change_nothing(kept):
    kept.append(audited(), at="2026-11-16")
    before = kept.path.stat().st_mtime_ns, kept.path.read_bytes()
    kept.append(audited(), at=dt.date(2026, 11, 16))
    assert (kept.path.stat().st_mtime_ns, kept.path.read_bytes()) == before


def test_other_numbers_for_the_same_plan_and_day_are_refused_unless_they_replace(kept):
    kept.append(audited(), at="2026-11-16").append(audited(), at="2026-11-17")
    with pytest.raises(eh.EvenhandError, match=r"other numbers for 2026-11-16.*replace=True"):
        kept.append(audited(1), at="2026-11-16")
    assert kept.frame["estimate"].to_list() == audited().frame["estimate"].to_list() * 2
    frame = kept.append(audited(1), at="2026-11-16", replace=True).frame
    assert frame["estimate"].to_list() == [*audited(1).frame["estimate"], *audited().frame["estimate"]]


def test_a_changed_plan_stands_beside_the_old_one(kept):
    kept.append(audited(), at="2026-11-16").append(audited(level=0.9), at="2026-11-16")
    assert kept.frame["plan"].n_unique() == 2
    assert kept.frame.height == 8


@pytest.mark.parametrize("change", [{"rng": 2}, {"population": 200}])
def test_seed_data_and_sizes_are_no_change_of_plan(change):
    asked = {"unit": "author", "amount": "views", "metrics": "gini", "interval": None, "rng": 1, "population": 150}
    one, other = eh.inequality(log(), **asked), eh.inequality(log(1), **{**asked, **change})
    assert one.provenance["plan_hash"] == other.provenance["plan_hash"]


@pytest.mark.parametrize(
    "change", [{"metrics": "hoover"}, {"min_units": 3}, {"interval": "normal"}, {"population": None}]
)
def test_what_is_asked_is_the_plan(change):
    asked = {"unit": "author", "amount": "views", "metrics": "gini", "interval": None, "rng": 1, "population": 150}
    one, other = eh.inequality(log(), **asked), eh.inequality(log(), **{**asked, **change})
    assert one.provenance["plan_hash"] != other.provenance["plan_hash"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("log/2026-11-16.csv", "log/2026-11-17.csv"), ("log/20261116.csv", "log/20261117.csv"),
        ("year=2026/month=11/day=16/*.csv", "year=2027/month=1/day=2/*.csv"), ("log/2026/11/16.csv", "log/2026/11/17.csv"),
    ],
)  # fmt: skip
def test_files_of_another_day_are_no_change_of_plan(one, other):
    assert plan_hash({"table": one}) == plan_hash({"table": other})
    assert plan_hash({"table": one}) != plan_hash({"table": f"other/{one}"})


def test_a_saved_result_can_be_kept_and_has_the_same_plan(kept, tmp_path):
    audited().to_json(tmp_path / "r.json")
    kept.append(eh.read.result(tmp_path / "r.json"), at="2026-11-16")
    assert kept.append(audited(), at="2026-11-16").frame.height == 4


def test_columns_are_only_ever_added(kept):
    kept.append(audited(), at="2026-11-16")
    kept.append(
        eh.inequality(log(), unit="author", amount="views", population=None, metrics="gini", interval=None),
        at="2026-11-16",
    )
    before = kept.frame.columns
    by = log().with_columns(country=pl.lit("no"))
    kept.append(
        eh.inequality(by, unit="author", amount="views", population=None, by="country", metrics="gini", interval=None),
        at="2026-11-17",
    )
    frame = kept.frame
    assert frame.columns[: len(before)] == before
    assert frame.columns[len(before) :] == ["country"]
    assert frame["country"].to_list() == [None] * 5 + ["no"]


def test_undefined_is_missing_and_infinite_is_infinite(kept):
    findings = audited().findings
    columns = {**findings.columns, "estimate": [math.nan, math.inf, 0.5, 0.5]}
    kept.append(
        Result(type(findings)(findings.audit, "?", findings.slices, columns, {}, {}, findings.provenance)),
        at="2026-11-16",
    )
    assert kept.frame["estimate"].to_list() == [None, math.inf, 0.5, 0.5]


def test_labels_of_any_type_are_text(kept):
    numbered = log().with_columns(source=pl.col("author") % 2)
    asked = {
        "unit": "author",
        "amount": "views",
        "population": None,
        "by": "source",
        "metrics": "gini",
        "interval": None,
    }
    kept.append(eh.inequality(numbered, **asked), at="2026-11-16")
    kept.append(eh.inequality(log(), **asked), at="2026-11-17")
    assert kept.frame["source"].to_list() == ["0", "1", "home", "search"]


@pytest.mark.parametrize(
    "at", ["16.11.2026", "", 20261116, None, "2026-11-16T10:30", dt.datetime(2026, 11, 16, 10, 30, tzinfo=dt.UTC)]
)
def test_a_day_that_is_none_is_refused(kept, at):
    with pytest.raises(eh.EvenhandError, match="at="):
        kept.append(audited(), at=at)
    assert not kept.path.exists()


def test_what_is_no_history_is_not_touched(tmp_path):
    log().write_parquet(tmp_path / "log.parquet")
    (tmp_path / "x.parquet").write_text("not parquet")
    for name in ("log.parquet", "x.parquet"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(eh.EvenhandError, match="is not a history"):
            eh.history(tmp_path / name).append(audited(), at="2026-11-16")
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(eh.EvenhandError, match="is a folder"):
        eh.history(tmp_path)
    with pytest.raises(eh.EvenhandError, match="does not exist"):
        eh.history(tmp_path / "none" / "x.parquet").append(audited(), at="2026-11-16")
    with pytest.raises(eh.EvenhandError, match="Append a result first"):
        _ = eh.history(tmp_path / "new.parquet").frame


@pytest.mark.parametrize("name", ["x" * 400, "a\0b", "\ud800x", "x/" * 3000], ids=["long", "NUL", "no text", "deep"])
def test_a_name_that_no_file_can_have_is_refused_in_words(name: str) -> None:
    with pytest.raises(eh.EvenhandError, match=r"is no path here \(.+\)\. Pass the path of a Parquet file"):
        eh.history(name)


def test_what_has_no_estimates_is_not_kept(kept):
    with pytest.raises(eh.EvenhandError, match="no estimates"):
        kept.append(eh.advise(balance="low", bias="high"), at="2026-11-16")
    with pytest.raises(eh.EvenhandError, match="is no result"):
        kept.append(3, at="2026-11-16")


def test_a_slice_called_like_a_column_of_the_history_is_refused(kept):
    renamed = log().rename({"source": "plan"})
    result = eh.inequality(
        renamed, unit="author", amount="views", population=None, by="plan", metrics="gini", interval=None
    )
    with pytest.raises(eh.EvenhandError, match="'plan' is also a column"):
        kept.append(result, at="2026-11-16")


def test_a_link_stays_a_link(kept, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "link.parquet").symlink_to(tmp_path / "data" / "real.parquet")
    eh.history(tmp_path / "link.parquet").append(audited(), at="2026-11-16")
    assert (tmp_path / "link.parquet").is_symlink()
    assert pq.read_table(tmp_path / "data" / "real.parquet").num_rows == 4


def test_nothing_is_left_beside_the_file(kept):
    kept.append(audited(), at="2026-11-16").append(audited(), at="2026-11-17")
    assert [p.name for p in kept.path.parent.iterdir()] == ["reach.parquet"]


def test_a_second_writer_waits_and_then_says_so(kept):
    with (
        only_writer(kept.path),
        pytest.raises(eh.EvenhandError, match="another process"),
        only_writer(kept.path, patience=0.1),
    ):
        pass
    with only_writer(kept.path, patience=0.1):
        pass


def test_a_lock_left_by_a_killed_writer_holds_nobody_up(kept):
    (kept.path.parent / ".reach.parquet.lock").touch()
    kept.append(audited(), at="2026-11-16")
    assert [p.name for p in kept.path.parent.iterdir()] == ["reach.parquet"]


def test_the_plan_can_be_read_off_the_file(kept):
    result = audited()
    kept.append(result, at="2026-11-16")
    known = read_rows(kept.path).plans[result.provenance["plan_hash"]]
    assert known["plan"]["metrics"] == ["gini", "top_share(p=0.1)"]
    assert known["slices"] == ["source"]


def moved(kept, days=75, change=60, end=10**6, window=1):
    """A history whose home lines move on a day; made from one result, whose numbers are set."""
    findings = audited().findings
    rng = np.random.default_rng(3)
    for i in range(days):
        level = (
            np.array([0.5, 0.3, 0.45, 0.28]) + np.array([0.1, 0.1, 0, 0]) * (change <= i < end) + rng.normal(0, 0.01, 4)
        )
        columns = {
            **findings.columns,
            "estimate": level.tolist(),
            "low": (level - 0.02).tolist(),
            "high": (level + 0.02).tolist(),
        }
        day = type(findings)(
            findings.audit, findings.question, findings.slices, columns, {}, findings.words, findings.provenance
        )
        kept.append(Result(day), at=START + dt.timedelta(i), window=window)
    return START + dt.timedelta(change)


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    kept = eh.history(tmp_path_factory.mktemp("changed") / "reach.parquet")
    return kept, moved(kept)


def test_alarms_are_rows_with_the_days_and_the_levels(changed):
    kept, day = changed
    frame = kept.alarms().frame
    assert frame.columns == [
        "source",
        "metric",
        "group",
        "at",
        "since",
        "before",
        "after",
        "deviations",
        "plan",
        "until",
    ]
    assert frame["source"].to_list() == ["home", "home"]
    assert set(frame["metric"]) == {"gini", "top_share(p=0.1)"}
    assert all(day <= at < day + dt.timedelta(7) for at in frame["at"])
    assert frame["after"].to_list() == pytest.approx([0.6, 0.4], abs=0.02)


def test_sentences_say_what_changed_and_when(changed):
    kept, _ = changed
    told = kept.alarms().sentences()
    assert told[0].startswith("Gini index (home) rose from 0.4997 to 0.60")
    claim = kept.trend().claims[0]
    assert told[0].startswith(claim.text)
    assert (claim.made, claim.direction, claim.p_adjusted) == (True, "higher", 0.05)
    assert "Share of the top 10% (home) rose from 30." in told[1]
    assert str(kept.alarms().frame["since"][0]) in told[0]
    every = kept.trend().sentences()
    assert every[:2] == told[:2]
    assert every[2].startswith("eh.explain (evenhand explain), on the log of a day")
    assert len(every) == 11
    assert every[7].startswith("Trend of Gini index (home): +")


def test_a_standing_alarm_fails_a_build_until_the_series_is_back(tmp_path, changed):
    kept, _ = changed
    assert cli(["history", str(kept.path), "--alarm", "0.05"]) == 1
    assert kept.alarms().standing == 2
    assert kept.alarms().frame["until"].dtype == pl.Date
    assert kept.trend().frame["units"].dtype == pl.Int64
    back = eh.history(tmp_path / "back.parquet")
    day = moved(back, days=90, change=60, end=70)
    alarms = back.alarms()
    assert alarms.standing == 0
    assert all(abs((until - day).days - 10) <= 2 for until in alarms.frame["until"])
    assert f"It has been back since {alarms.frame['until'][0]}." in alarms.sentences()[0]
    assert back.trend().headline.startswith("No alarm stands for 4 quantities; 2 earlier alarms have ended")
    assert cli(["history", str(back.path), "--alarm", "0.05"]) == 0
    assert cli(["history", str(kept.path)]) == 0


def test_only_days_whose_tables_do_not_overlap_are_watched(tmp_path):
    weekly = eh.history(tmp_path / "weekly.parquet")
    moved(weekly, days=28 * 7, change=400, window=7)
    trend = weekly.trend()
    assert trend.provenance["watched"] == 4
    assert "overlap: only days whose tables do not are watched" in " ".join(
        trend.report(tmp_path / "p.html").read_text().split()
    )
    short = eh.history(tmp_path / "short.parquet")
    moved(short, days=35, change=99, window=7)
    assert short.trend().provenance["watched"] == 0
    with pytest.raises(eh.EvenhandError, match="window=0 is no number of days"):
        moved(short, days=1, window=0)


def test_a_history_without_alarms_says_so(kept):
    moved(kept, days=35, change=99)
    assert kept.alarms().frame.height == len(kept.alarms()) == 0
    assert not kept.alarms()
    assert kept.alarms().sentences() == [
        "No alarm for 4 quantities, each with at most a 5% chance of a false alarm in a year of daily checks."
    ]
    assert "No alarm" in repr(kept.alarms())


def test_plans_are_lines_of_their_own_and_the_change_is_told(kept):
    kept.append(audited(), at="2026-11-16").append(audited(level=0.9), at="2026-11-18")
    assert len(lines(kept.trend().findings)) == 8
    assert any("plan of inequality changed on 2026-11-18" in said for said in kept.trend().sentences())


@pytest.mark.parametrize("name", CALLS)
def test_the_answer_of_every_audit_can_be_kept_and_exported(kept, data, monkeypatch, name):  # noqa: F811
    monkeypatch.chdir(data)
    call = CALLS[name][-1]
    result = getattr(eh, name)(**call)
    if "estimate" not in result.findings.columns:
        with pytest.raises(eh.EvenhandError, match="no estimates"):
            kept.append(result, at="2026-11-16")
        return
    days = [dt.date(2026, 11, 16), dt.date(2026, 11, 17)]
    for day in days:
        kept.append(result, at=day)
    drawn = lines(kept.trend().findings)
    assert len(drawn) == len(result.findings)
    assert all(line.at == days for line in drawn)
    assert kept.frame["plan"].unique().to_list() == [find(name).call(**call).hash]
    for held in (result.findings, kept.latest()[0]):
        told = [line for line in open_metrics([held]).splitlines() if line.startswith("evenhand_estimate")]
        assert len({line.rpartition(" ")[0] for line in told}) == len(told)


def test_bins_of_a_score_are_lines_of_their_own(kept):
    rng = np.random.default_rng(0)
    people = pl.DataFrame({"s": rng.random(400), "g": rng.choice(["F", "M"], 400), "y": rng.integers(0, 2, 400)})
    result = eh.outcome_test(people, score="s", outcome="y", group="g", bins=4)
    kept.append(result, at="2026-11-16").append(result, at="2026-11-17")
    drawn = lines(kept.trend().findings)
    assert len(drawn) == len(result.frame)
    assert all(line.at == [dt.date(2026, 11, 16), dt.date(2026, 11, 17)] for line in drawn)


@pytest.mark.parametrize("rate", [0, 1.0, -0.1, "often"])
def test_a_rate_that_is_no_chance_is_refused(changed, rate):
    with pytest.raises(eh.EvenhandError, match="rate="):
        changed[0].alarms(rate)


def test_the_chart_has_a_panel_per_quantity_and_marks_alarms(changed):
    spec = changed[0].plot().to_dict()
    assert len(spec["concat"]) == 4
    assert [sum(layer["mark"]["type"] == "rule" for layer in panel["layer"]) for panel in spec["concat"]] == [
        1,
        1,
        0,
        0,
    ]


@pytest.mark.browser
def test_the_page_is_complete_in_itself(changed, tmp_path, browser):
    path = changed[0].report(tmp_path / "trend.html")
    page = browser.new_context(offline=True).new_page()
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    assert asked == [path.as_uri()]
    assert said == []
    text = page.inner_text("body")
    assert "Gini index (home) rose from" in text
    assert "What changed, and when?" in text
    assert "in a year of daily checks" in text
    assert len(page.query_selector_all("#trend svg")) == 4


def damaged(content, rng):
    """The bytes of a file with one of the damages that disks, copies and people do."""
    at, many = int(rng.integers(len(content))), int(rng.integers(1, 64))
    other = bytearray(content)
    kind = rng.integers(7)
    if kind == 0:
        other[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        other[at : at + many] = bytes(len(other[at : at + many]))
    elif kind == 2:
        del other[at:]
    elif kind == 3:
        del other[at : at + many]
    elif kind == 4:
        other[at:at] = rng.bytes(many)
    elif kind == 5:
        start = int(rng.integers(len(content)))
        other[at : at + many] = content[start : start + len(other[at : at + many])]
    else:
        for place in rng.integers(len(content), size=many):
            other[place] = int(rng.integers(256))
    return bytes(other)


def test_a_damaged_file_is_refused_in_words_and_never_read_with_other_numbers(tmp_path, capfd):
    path = tmp_path / "h.parquet"
    log = pl.DataFrame({"who": list("abcd") * 5, "via": ["x", "y"] * 10, "views": range(20)})
    for day in range(1, 6):
        result = eh.inequality(log.head(10 + day), unit="who", amount="views", population=None, by="via", rng=day)
        eh.history(path).append(result, at=f"2026-11-{day:02}")
    whole, content, rng = eh.history(path).frame, path.read_bytes(), np.random.default_rng(7)
    refused = other = 0
    for _ in range(1_000):
        path.write_bytes(damaged(content, rng))
        try:
            read = eh.history(path).frame
        except eh.EvenhandError as error:
            refused += "is damaged" in str(error) or "is not a history" in str(error)
        else:
            other += not read.equals(whole)
    assert other == 0
    assert refused > 980  # some damages write the bytes that were there
    assert "panicked" not in capfd.readouterr().err


def test_a_file_whose_checksum_was_cut_out_is_no_history(tmp_path):
    path = tmp_path / "h.parquet"
    log = pl.DataFrame({"who": list("abcd"), "views": range(4)})
    result = eh.inequality(log, unit="who", amount="views", population=None, metrics="gini", rng=1)
    eh.history(path).append(result, at="2026-11-01")
    path.write_bytes(path.read_bytes().replace(b"with zeros here", b"with zeroes her"))
    with pytest.raises(eh.EvenhandError, match="is not a history"):
        eh.history(path).frame  # noqa: B018

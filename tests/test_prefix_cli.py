"""`evenhand prefix`, its pictures and its report."""

from __future__ import annotations

import csv
import io
import json

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.report.charts.registry import draw, kinds_for, picture
from ranked_tables import table

HOSTILE = "</script><img src=x onerror=alert(1)> a.b[0]"


@pytest.fixture
def serps(tmp_path):
    lists = {f"query {i}": (["con", "pro", "pro", "neutral", "con", "pro", None] * 2)[i : i + 10] for i in range(6)}
    path = tmp_path / "serps.csv"
    frame = table(lists).with_columns(
        engine=pl.when(pl.col("request") < "query 3").then(pl.lit("a")).otherwise(pl.lit("b"))
    )
    frame.rename({"request": "query"}).write_csv(path)
    return str(path)


def words(path, *more):
    return ["prefix", path, "--request", "query", "--group", "stance", "--seed", "1", *more]


def test_csv_in_and_csv_out(serps, capsys):
    assert main(words(serps, "--protected", "con", "--by", "engine", "--format", "csv")) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(r["engine"], r["metric"]) for r in rows] == [("a", "ndd"), ("a", "ndkl"), ("b", "ndd"), ("b", "ndkl")]
    assert {"chance", "p", "favoured", "undefined"} <= set(rows[0])


def test_the_command_line_and_python_agree(serps, capsys):
    assert main(words(serps, "-m", "ndjs", "--format", "json")) == 0
    told = json.loads(capsys.readouterr().out)["columns"]["estimate"]
    assert (
        told
        == eh.prefix(serps, request="query", group="stance", metrics="ndjs", rng=1).to_dict()["columns"]["estimate"]
    )


def test_numbers_as_labels_may_be_typed(tmp_path, capsys):
    path = tmp_path / "s.parquet"
    table({"q": [-3, 1, -2, 2, 0, -1]}).write_parquet(path)
    said = ["prefix", str(path), "--group", "stance", "--protected=-3", "--protected=-2", "--protected=-1", "-m", "ndd"]
    assert main([*said, "--format", "json"]) == 0
    favoured = json.loads(capsys.readouterr().out)["columns"]["favoured"]
    assert favoured == ["-3, -2, -1"]


def test_runs_and_labels_in_the_form_of_judgments(tmp_path, capsys):
    (tmp_path / "a.run").write_text("q Q0 x 1 3 my run\nq Q0 y 2 2 my run\nq Q0 z 3 1 my run\n")
    (tmp_path / "labels.qrels").write_text("q 0 x con\nq 0 y pro\nq 0 z pro\n")
    said = ["prefix", str(tmp_path / "a.run"), "--group", str(tmp_path / "labels.qrels"), "--protected", "con"]
    assert main([*said, "-m", "ndd", "--format", "json", "--seed", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"]["estimate"] == [1.0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--protected", "conn"), "Did you mean 'con'?"),
        (("-m", "ndd"), "compares two groups"),
        (("--rank", "rnk"), "Did you mean 'rank'?"),
        (("--by", "engin"), "Did you mean 'engine'?"),
        (("--chance", "often"), "--chance often cannot be read"),
    ],
)
def test_bad_input_ends_with_2_one_message_and_no_file(serps, capsys, tmp_path, more, message):
    out = tmp_path / "report.html"
    assert main(words(serps, *more, "--html", str(out))) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert "Traceback" not in said.err
    assert not said.out
    assert not out.exists()


def test_a_plan_gives_the_same_answer(serps, tmp_path, capsys):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'audit = "prefix"\ntable = "serps.csv"\nrequest = "query"\ngroup = "stance"\nprotected = "con"\nrng = 1\ncheck = ["ndd <= 0.01"]\n'
    )
    assert main(["run", str(plan), "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)["columns"]["estimate"]
    same = eh.prefix(serps, request="query", group="stance", protected="con", rng=1)
    assert told == same.to_dict()["columns"]["estimate"]


def test_a_report_and_a_picture_are_written(serps, tmp_path, capsys):
    html, svg = tmp_path / "r.html", tmp_path / "p.svg"
    assert main(words(serps, "--protected", "con", "--html", str(html), "--plot", f"strip={svg}")) == 0
    page = html.read_text(encoding="utf-8")
    assert "Shares by rank" in page
    assert "The rankings themselves" in page
    assert svg.read_text(encoding="utf-8").startswith("<svg")
    capsys.readouterr()


SHAPES = {
    "two sides": lambda f: eh.prefix(f, group="stance", protected="con", rng=1),
    "all labels": lambda f: eh.prefix(f, group="stance", metrics=["ndjs", "pref_kl(step=2)"], rng=1),
    "sliced": lambda f: eh.prefix(f, group="stance", by="half", rng=1),
    "one list": lambda f: eh.prefix(f.filter(request="q1"), group="stance", rng=1),
    "no chance": lambda f: eh.prefix(f, group="stance", chance=None, rng=1),
    "undefined": lambda f: eh.prefix(f.filter(pl.col("rank") == 1), group="stance", rng=1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_picture_that_fits_is_valid_and_says_something(shape):
    lists = {f"q{i}": (["con", "pro", "pro", "neutral", None] * 4)[i:] for i in range(6)}
    frame = table(lists).with_columns(half=pl.when(pl.col("request") < "q3").then(1).otherwise(2))
    found = SHAPES[shape](frame).findings
    kinds = kinds_for(found)
    assert kinds
    for kind in kinds:
        drawn = kind.draw(found)
        assert len({len(column) for column in drawn.table.values()}) == 1
        for panel in drawn.panels:
            assert json.dumps(panel.chart.to_dict(), allow_nan=False)
            assert panel.height <= 1600


def test_the_first_picture_is_the_share_by_rank():
    found = eh.prefix(table({"q": list("aabb")}), group="stance", protected="a", rng=1).findings
    assert picture(found)[0].name == "prefix"


def test_the_curve_holds_shares_and_the_band_of_random_orders():
    curve = eh.prefix(table({"q": list("aabb")}), group="stance", protected="a", rng=1).findings.curves["prefix"]
    ours = [i for i, g in enumerate(curve["group"]) if g == "a"]
    assert [curve["share"][i] for i in ours] == pytest.approx([1, 1, 2 / 3, 0.5])
    assert [curve["low"][i] for i in ours] == pytest.approx([0, 0, 1 / 3, 0.5])
    assert [curve["high"][i] for i in ours] == pytest.approx([1, 1, 2 / 3, 0.5])


def test_labels_and_requests_never_become_fields_or_expressions():
    found = eh.prefix(table({HOSTILE: [HOSTILE, "b", HOSTILE, "b"]}), group="stance", protected=HOSTILE, rng=1).findings
    for kind in ("prefix", "requests", "strip"):
        spec = draw(found, kind).to_dict()
        assert all(HOSTILE not in part for part in _all(spec, "field") + _all(spec, "filter"))


def _all(part, key):
    if isinstance(part, dict):
        return ([str(part[key])] if key in part else []) + [x for v in part.values() for x in _all(v, key)]
    return [x for v in part for x in _all(v, key)] if isinstance(part, list) else []


def test_many_requests_are_thinned_for_pictures():
    lists = {f"q{i:04}": ["a", "b", "a", "b", "b"][: 2 + i % 4] for i in range(900)}
    curves = eh.prefix(table(lists), group="stance", rng=1, chance=None).findings.curves
    assert len(curves["requests"]["request"]) <= 150
    assert len(set(curves["strip"]["request"])) <= 40


@pytest.mark.browser
def test_the_report_opens_without_network_or_complaints(browser, tmp_path):
    path = eh.prefix(table({HOSTILE: list("aabbab"), "q": list("baab")}), group="stance", protected="a", rng=1).report(
        tmp_path / "r.html"
    )
    page = browser.new_context(offline=True).new_page()
    asked, said = [], []
    page.on("request", lambda r: asked.append(r.url))
    page.on("console", lambda m: said.append(m.text))
    page.on("pageerror", lambda e: said.append(str(e)))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    assert asked == [path.as_uri()]
    assert said == []
    assert page.locator("img").count() == 0

"""The command line: answers on stdout, the rest on stderr, exit codes of the contract."""

import argparse
import csv
import io
import json
import re

import polars as pl
import pytest

from evenhand.cli import VERBS, main, options_of


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "events.parquet"
    pl.DataFrame(
        {
            "author": ["a", "a", "b", "c", "a", "b"],
            "source": ["x", "y", "x", "x", "y", "y"],
            "views": [5, 1, 2, 0, 3, 1],
        }
    ).write_parquet(path)
    return str(path)


def words(log, *more):
    return ["inequality", log, "--unit", "author", "--amount", "views", "--population", "10", "--seed", "1", *more]


def test_the_answer_goes_to_stdout_and_nothing_else_does(log, capsys):
    assert main(words(log, "-m", "gini", "--interval", "none", "--format", "csv")) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [r["metric"] for r in rows] == ["gini"]
    assert float(rows[0]["estimate"]) == pytest.approx(0.85)
    assert err == ""


@pytest.mark.parametrize("format", ["table", "csv", "tsv", "jsonl", "json", "markdown", "latex"])
def test_every_format_holds_every_metric(log, capsys, format):
    assert main(words(log, "--by", "source", "--format", format)) == 0
    out = capsys.readouterr().out
    plain = out.replace("\\", "")
    names = ("gini", "atkinson(epsilon=0.5)", "equal_share")  # ten units: no top share
    for name in ("Gini index", "Atkinson index", "qual share") if format == "latex" else names:
        assert name in plain
    if format == "json":
        assert json.loads(out)["audit"] == "inequality"
    if format == "jsonl":
        assert {json.loads(line)["source"] for line in out.splitlines()} == {"x", "y"}


def test_output_goes_to_a_file_when_asked(log, tmp_path, capsys):
    target = tmp_path / "out.csv"
    assert main(words(log, "--format", "csv", "--output", str(target))) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "wrote" in err
    assert target.read_text().startswith("metric,group,estimate")


def test_the_ending_of_the_output_file_chooses_the_format(log, tmp_path):
    assert main(words(log, "--output", str(tmp_path / "r.json"))) == 0
    assert json.loads((tmp_path / "r.json").read_text())["audit"] == "inequality"
    assert main(words(log, "--output", str(tmp_path / "r.csv"))) == 0
    assert (tmp_path / "r.csv").read_text().splitlines()[0].startswith("metric,")
    assert main(words(log, "--format", "table", "--output", str(tmp_path / "t.csv"))) == 0
    assert (tmp_path / "t.csv").read_text().startswith("How unevenly")
    assert main(words(log, "--output", str(tmp_path / "r.markdown"))) == 0
    assert (tmp_path / "r.markdown").read_text().startswith("| metric ")


def test_an_output_file_that_is_called_a_page_is_refused(log, tmp_path, capsys):
    assert main(words(log, "--output", str(tmp_path / "r.html"))) == 2
    assert "names a page. Write the report with --html" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_a_failed_check_exits_1_and_a_kept_one_0(log, capsys):
    assert main(words(log, "--check", "gini <= 0.1")) == 1
    assert "FAIL: gini <= 0.1" in capsys.readouterr().err
    assert main(words(log, "--check", "gini <= 0.99")) == 0


def test_bad_input_exits_2_without_a_traceback(log, capsys):
    assert main(["inequality", log, "--unit", "autor", "--population", "none"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Did you mean 'author'?" in err
    assert "Traceback" not in err


def test_a_bad_chart_is_refused_before_anything_is_written(log, tmp_path, capsys):
    target = tmp_path / "out.csv"
    assert main(words(log, "--output", str(target), "--plot", "lorenz=curve.bmp")) == 2
    assert not target.exists()


def test_population_takes_a_number_a_file_sizes_per_slice_or_none(log, tmp_path, capsys):
    authors = tmp_path / "authors.csv"
    pl.DataFrame({"author": list("abcdefgh")}).write_csv(authors)
    for population, units in (("1,000", 1000), (str(authors), 8), ("none", 3)):
        call = ["inequality", log, "--unit", "author", "--amount", "views", "--population", population, "-m", "gini"]
        assert main([*call, "--interval", "none", "--format", "jsonl"]) == 0
        assert json.loads(capsys.readouterr().out)["units"] == units
    call = [
        "inequality",
        log,
        "--unit",
        "author",
        "--amount",
        "views",
        "--by",
        "source",
        "--population",
        "x=5,y=7",
        "-m",
        "gini",
    ]
    assert main([*call, "--interval", "none", "--format", "jsonl"]) == 0
    assert [json.loads(line)["units"] for line in capsys.readouterr().out.splitlines()] == [5, 7]


def test_the_duckdb_engine_gives_the_same_answer(log, capsys):
    assert main(words(log, "--format", "csv")) == 0
    expected = capsys.readouterr().out
    assert main(words(log, "--format", "csv", "--engine", "duckdb")) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_has_help_with_an_example(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    assert "example" in capsys.readouterr().out


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_fits_two_screens_and_help_all_has_every_option(verb, capsys):
    texts = []
    for word in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            main([verb, word])
        texts.append(capsys.readouterr().out)
    assert texts[0].count("\n") <= 100
    if verb not in ("sql", "study", "history", "completion"):  # these have verbs of their own
        shown = [name for name, action in options_of(verb).items() if action.help != argparse.SUPPRESS]
        assert [name for name in shown if name not in texts[1]] == []


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_option_has_a_description_of_its_own(verb):
    texts = {id(action): action.help for action in options_of(verb).values() if action.help != argparse.SUPPRESS}
    if verb in ("sql", "study"):  # whose verbs share options
        texts = {text: text for text in texts.values()}
    assert all(texts.values())
    assert len(set(texts.values())) == len(texts)


def test_an_unknown_verb_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["inequalty"])
    assert stop.value.code == 2


def test_a_plan_runs_with_paths_beside_it_and_its_checks_decide(tmp_path, capsys):
    pl.DataFrame({"u": list("abcd"), "v": [0, 0, 0, 10]}).write_csv(tmp_path / "t.csv")
    plan = tmp_path / "plan.toml"
    lines = [
        'audit = "inequality"',
        'table = "t.csv"',
        'unit = "u"',
        'amount = "v"',
        'population = "none"',
        'metrics = ["gini"]',
    ]
    plan.write_text("\n".join([*lines, 'check = ["gini <= 0.9"]']))
    assert main(["run", str(plan), "--format", "csv"]) == 0
    assert ",0.75," in capsys.readouterr().out
    assert main(["run", str(plan), "--check", "gini < 0.5"]) == 1
    plan.write_text("\n".join([*lines, 'untit = "u"']))
    assert main(["run", str(plan)]) == 2
    assert "Did you mean 'unit'?" in capsys.readouterr().err


def test_a_plan_names_an_audit_as_the_command_line_does(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("s,y,g\n" + "".join(f"{i / 40},{i % 2},{'FM'[i % 3 > 0]}\n" for i in range(40)))
    plan = tmp_path / "plan.toml"
    plan.write_text('audit = "outcome-test"\ntable = "rows.csv"\nscore = "s"\noutcome = "y"\ngroup = "g"\nbins = 1\n')
    assert main(["run", str(plan), "--format", "csv"]) == 0
    assert "outcome_gap" in capsys.readouterr().out
    plan.write_text('audit = ["inequality"]\n')
    assert main(["run", str(plan)]) == 2


def test_metrics_prints_all_cards_or_one(capsys):
    assert main(["metrics"]) == 0
    assert "gini" in capsys.readouterr().out
    assert main(["metrics", "gini"]) == 0
    out = capsys.readouterr().out
    for said in ("0.75", "holisticai", "1.0", "RecBole", "0.8", "Elliot", "0.0", "Evidently", "nan"):
        assert said in out
    assert main(["metrics", "ginni"]) == 2
    assert "Did you mean 'gini'?" in capsys.readouterr().err
    assert main(["metrics", "gini", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "gini"


def test_long_work_shows_progress_on_stderr(capsys):
    import time

    from evenhand.cli import options

    with options.progress("counting sheep", quiet=False):
        time.sleep(options.QUIET_SECONDS * 1.6)
    assert "counting sheep" in capsys.readouterr().err
    with options.progress("counting sheep", quiet=True):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_the_demo_asks_every_question_and_leaves_a_report_for_each(tmp_path, capsys):
    assert main(["demo", "--folder", str(tmp_path / "tour")]) == 0
    out = capsys.readouterr().out
    for name in ("inequality", "sources", "prefix", "exposure", "outcome", "recommender", "experiment", "rebalance"):
        page = tmp_path / "tour" / f"{name}.html"
        assert page.stat().st_size > 100_000
        assert str(page) in out
    assert "$ evenhand inequality" in out
    index = (tmp_path / "tour" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<h2><a href="([^"]+)"', index)
    assert len(links) == len(set(links)) == index.count("<svg") == 8
    assert all((tmp_path / "tour" / link).is_file() for link in links)
    assert "evenhand look FILE" in index
    assert str(tmp_path / "tour" / "index.html") in out


def test_the_charts_that_an_audit_names_are_those_that_there_are():
    from evenhand.audits.declare import AUDITS, names
    from evenhand.report.charts.registry import KINDS

    assert names()
    for audit in AUDITS.values():
        assert set(audit.charts) <= set(KINDS), audit.name


def test_an_option_that_takes_one_value_is_refused_twice(log, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words(log, "--unit", "source"))
    assert stopped.value.code == 2
    assert "argument --unit: given twice, as author and source. Give it once" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        (["inequalty"], "'inequality'"),
        (["inequality", "a.csv", "--unit", "u", "--population", "none", "--metrics", "gini"], "'--metric'"),
    ],
)
def test_a_usage_error_is_short_and_names_the_nearest(capsys, typed, near):
    with pytest.raises(SystemExit) as stopped:
        main(typed)
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert f"Did you mean {near}?" in said
    assert said.count("\n") == 1


def test_without_a_verb_the_help_comes(capsys):
    assert main([]) == 2
    assert "evenhand demo" in capsys.readouterr().err


def test_metrics_are_listed_under_the_verb_that_measures_them(capsys):
    from evenhand.cards import REGISTRY

    assert main(["metrics"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n  {name} " in listed for name in REGISTRY)
    assert listed.index("evenhand prefix") < listed.index("\n  ndd ") < listed.index("evenhand exposure")

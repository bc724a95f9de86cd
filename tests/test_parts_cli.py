"""The verbs sources, decompose and criteria, and bins on the command line: same numbers as Python, clean failures."""

import json

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(1)
    events = pl.DataFrame(
        {"author": rng.integers(0, 50, 400), "via": rng.choice(["home", "search"], 400), "views": rng.poisson(3, 400)}
    )
    authors = pl.DataFrame({"author": range(60), "band": ["x", "y"] * 30, "followers": np.arange(60)})
    events.write_parquet(tmp_path / "events.parquet")
    authors.write_csv(tmp_path / "authors.csv")
    return tmp_path


def run(capsys, *words):
    code = main([str(w) for w in words])
    said = capsys.readouterr()
    return code, said.out, said.err


ROLES = ("--unit", "author", "--amount", "views")


def test_sources_says_what_python_says(files, capsys):
    events, authors = files / "events.parquet", files / "authors.csv"
    words = [
        "sources",
        events,
        *ROLES,
        "--source",
        "via",
        "--population",
        authors,
        "--seed",
        3,
        "--interval",
        "percentile(49)",
    ]
    code, out, _ = run(capsys, *words, "--format", "csv")
    call = dict(unit="author", amount="views", source="via", population=str(authors), rng=3, interval="percentile(49)")
    assert (code, out) == (0, eh.sources(str(events), **call).to_text("csv"))


def test_decompose_says_what_python_says(files, capsys):
    events, authors = files / "events.parquet", files / "authors.csv"
    words = ["decompose", events, *ROLES, "--group", "band", "--population", authors, "--index", "ge(alpha=2)"]
    code, out, _ = run(capsys, *words, "--interval", "none", "--format", "csv")
    call = dict(
        unit="author", amount="views", group="band", population=str(authors), index="ge(alpha=2)", interval=None
    )
    assert (code, out) == (0, eh.decompose(str(events), **call).to_text("csv"))


def test_criteria_says_what_python_says(files, capsys):
    events = files / "events.parquet"
    words = [
        "criteria",
        events,
        *ROLES,
        "--population",
        60,
        "--by",
        "via",
        "-m",
        "gini",
        "--seed",
        3,
        "--cutoff",
        "stable=0.5,0.4",
    ]
    code, out, _ = run(capsys, *words, "--format", "csv")
    call = dict(
        unit="author", amount="views", population=60, by="via", metrics="gini", rng=3, cutoffs={"stable": (0.5, 0.4)}
    )
    assert (code, out) == (0, eh.criteria(str(events), **call).to_text("csv"))


def test_bins_can_be_typed(files, capsys):
    events, authors = files / "events.parquet", files / "authors.csv"
    words = ["inequality", events, *ROLES, "--population", authors, "--by", "quantile_bins(followers, 3)", "-m", "mean"]
    code, out, _ = run(capsys, *words, "--interval", "none", "--format", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(r["followers_low"], r["followers_high"], r["units"]) for r in rows] == [
        (0, 19, 20),
        (19, 39, 20),
        (39, 59, 20),
    ]


def test_a_plan_can_name_each_audit(files, capsys):
    plans = {
        "sources": 'source = "via"\npopulation = 60\ninterval = "none"',
        "decompose": 'group = "band"\npopulation = "authors.csv"\nindex = "theil"\ninterval = "none"',
        "criteria": 'population = "none"\nmetrics = ["gini"]\n[cutoffs]\nstable = [0.5, 0.4]',
        "inequality": 'population = "authors.csv"\nby = "log_bins(followers, 3)"\ninterval = "none"',
    }
    for audit, rest in plans.items():
        plan = files / f"{audit}.toml"
        plan.write_text(f'audit = "{audit}"\ntable = "events.parquet"\nunit = "author"\namount = "views"\n{rest}\n')
        code, out, err = run(capsys, "run", plan, "--format", "csv")
        assert code == 0, err
        assert "gini" in out or "total" in out


def test_a_failed_check_exits_with_one(files, capsys):
    words = ["sources", files / "events.parquet", *ROLES, "--source", "via", "--population", 60, "--interval", "none"]
    code, _, err = run(capsys, *words, "--check", "gini <= 0.01")
    assert code == 1
    assert "FAIL" in err


@pytest.mark.parametrize(
    "words",
    [
        ["sources", "{events}", *ROLES, "--source", "vai", "--population", "none"],
        ["sources", "{events}", *ROLES, "--source", "via", "--population", "3"],
        ["sources", "{missing}", *ROLES, "--source", "via", "--population", "none"],
        ["decompose", "{events}", *ROLES, "--group", "via", "--population", "none"],
        ["decompose", "{events}", *ROLES, "--group", "band", "--population", "700"],
        ["decompose", "{events}", *ROLES, "--group", "band", "--population", "{authors}", "--index", "hoover"],
        ["criteria", "{events}", *ROLES, "--population", "none", "--cutoff", "stable=a,b"],
        ["criteria", "{events}", *ROLES, "--population", "none", "--check", "gini <= 1"],
        ["inequality", "{events}", *ROLES, "--population", "60", "--by", "log_bins(views, 3)"],
        ["inequality", "{events}", *ROLES, "--population", "{authors}", "--by", "log_bins(followers, x)"],
    ],
    ids=str,
)
def test_bad_input_is_one_message_and_leaves_no_file(files, capsys, words):
    known = {"events": files / "events.parquet", "authors": files / "authors.csv", "missing": files / "nothing.csv"}
    out = files / "answer.csv"
    code, said, err = run(capsys, *(w.format(**known) for w in words), "--output", out, "--no-progress")
    assert (code, said) == (2, "")
    assert err.startswith("evenhand: ")
    assert "Traceback" not in err
    assert ". " in err
    assert not out.exists()

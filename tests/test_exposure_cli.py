"""`evenhand exposure`: words in, numbers out, and what a bad word says."""

import json

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from test_exposure_audit import tables, world


@pytest.fixture
def folder(tmp_path):
    requests, groups = world(7, requests=8)
    rankings, judged = tables(requests)
    rankings = rankings.with_columns(
        pl.col("request").str.replace("q", "").cast(pl.Int64).mod(2).cast(pl.String).alias("arm")
    )
    rankings.write_parquet(tmp_path / "runs.parquet")
    judged.write_csv(tmp_path / "judged.csv")
    pl.DataFrame({"item": list(groups), "label": list(groups.values())}).write_csv(tmp_path / "groups.csv")
    return tmp_path


def words(folder, *more):
    return [
        "exposure",
        str(folder / "runs.parquet"),
        "--groups",
        str(folder / "groups.csv"),
        "--sample",
        "sample",
        "--seed",
        "1",
        *more,
    ]


def test_the_command_gives_the_numbers_of_the_function(folder, capsys):
    asked = [
        "--protected",
        "a",
        "--relevance",
        str(folder / "judged.csv"),
        "--system",
        "arm",
        "-m",
        "awrf@3",
        "-m",
        "log_eur",
        "-m",
        "eel",
    ]
    assert main(words(folder, *asked, "--format", "json", "--interval", "percentile(99)")) == 0
    printed = json.loads(capsys.readouterr().out)
    result = eh.exposure(
        folder / "runs.parquet", groups=pl.read_csv(folder / "groups.csv"), relevance=pl.read_csv(folder / "judged.csv"), sample="sample",
        protected="a", system="arm", metrics=["awrf@3", "log_eur", "eel"], rng=1, interval="percentile(99)",
    )  # fmt: skip
    assert printed["columns"]["metric"] == ["awrf@3", "log_eur", "eel"] * 2
    for name in ("estimate", "low", "high", "chance"):
        assert printed["columns"][name] == pytest.approx(result.to_dict()["columns"][name])


def test_targets_sides_and_policies_are_words(folder, capsys):
    asked = [
        "--protected",
        "a",
        "--versus",
        "b",
        "--target",
        "a=0.4,b=0.6",
        "--unknown",
        "unprotected",
        "--attention",
        "log",
        "-m",
        "awrf",
        "-m",
        "dp",
    ]
    assert main(words(folder, *asked, "--no-chance", "--format", "csv", "--interval", "none")) == 0
    header, awrf, dp = capsys.readouterr().out.splitlines()
    assert header.startswith("metric")
    assert awrf.startswith("awrf")
    assert dp.startswith("dp,a")


def test_the_report_and_the_charts_are_written_whole(folder, capsys):
    page, chart = folder / "r.html", folder / "c.svg"
    asked = [
        "--protected",
        "a",
        "--relevance",
        str(folder / "judged.csv"),
        "--system",
        "arm",
        "--html",
        str(page),
        "--plot",
        f"systems={chart}",
    ]
    assert main(words(folder, *asked, "--interval", "percentile(49)")) == 0
    assert "Systems by metric" in page.read_text()
    assert chart.read_text().startswith("<svg")
    assert "wrote" in capsys.readouterr().err


def test_the_same_audit_runs_from_a_plan(folder, capsys):
    plan = folder / "plan.toml"
    plan.write_text(
        'audit = "exposure"\nrankings = "runs.parquet"\ngroups = "groups.csv"\nsample = "sample"\nprotected = "a"\n'
        'metrics = ["log_dp"]\nrng = 1\ntarget = "equal"\ncheck = ["log_dp >= -50"]\n'
    )
    assert main(["run", str(plan), "--format", "csv"]) == 0
    assert "log_dp,a" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-m", "awfr"], "Did you mean 'awrf'"),
        (["--protected", "zzz", "-m", "dp"], "is no label of the groups"),
        (["--target", "a=x"], "cannot be read"),
        (["--attention", "rpb(0.5)"], "Did you mean 'rbp"),
        (["--relevance", "nothing.csv"], "is not a file"),
        (["-m", "eel"], "needs relevance"),
    ],
)
def test_bad_words_exit_2_with_one_message(folder, capsys, more, said):
    assert main(words(folder, *more)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_files_of_the_track_do_not_mix_with_others(folder, capsys):
    assert main(["exposure", "trec-fair:a.jsonl", str(folder / "runs.parquet"), "--groups", "g"]) == 2
    assert "mixed" in capsys.readouterr().err

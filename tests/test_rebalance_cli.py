"""`evenhand rebalance` and `evenhand rerank`: words in, files out, and what a bad word says."""

import json

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    eh.synthetic.market(60, 12, providers=5, items=30, rng=3).write_parquet(tmp_path / "candidates.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


WORDS = ["rebalance", "candidates.parquet", "--providers", "provider", "--top", "4", "--seed", "1", "--no-progress"]


def test_the_command_gives_the_numbers_of_the_function_and_the_files_that_were_asked_for(folder, capsys):
    words = [
        *WORDS,
        "--strength",
        "0.1,0.4",
        "--boosts",
        "boosts.csv",
        "--rankings",
        "new.parquet",
        "--html",
        "fix.html",
    ]
    assert main([*words, "--format", "json"]) == 0
    said = capsys.readouterr()
    found = eh.rebalance("candidates.parquet", providers="provider", top=4, strength=(0.1, 0.4), rng=1)
    assert json.loads(said.out)["columns"] == found.to_dict()["columns"]
    assert pl.read_csv("boosts.csv").equals(found.boosts(0.4))
    assert pl.read_parquet("new.parquet").equals(found.rankings(0.4))
    assert (folder / "fix.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "wrote boosts.csv" in said.err
    assert "wrote new.parquet" in said.err


def test_another_strength_and_boosts_as_lists(folder, capsys):
    words = [
        *WORDS,
        "--strength",
        "0.1",
        "--strength",
        "0.4",
        "--take",
        "0.1",
        "--by-means",
        "boosts",
        "--rankings",
        "new.jsonl",
    ]
    assert main(words) == 0
    assert pl.read_ndjson("new.jsonl").columns == ["request", "item", "rank"]
    assert main(["rerank", "candidates.parquet", "--method", "det_const_sort", "--groups", "provider", "--top", "3",
                 "--target", "0=0.2,1=0.2,2=0.2,3=0.2,4=0.2", "--no-progress"]) == 0  # fmt: skip
    assert capsys.readouterr().out.splitlines()[-1].count(",") == 2


def test_boosts_from_a_file_re_rank_another(folder, capsys):
    assert (
        main([*WORDS, "--strength", "0.4", "--boosts", "boosts.csv", "--rankings", "new.csv", "--by-means", "boosts"])
        == 0
    )
    words = [
        "rerank",
        "candidates.parquet",
        "--method",
        "boosts",
        "--boosts",
        "boosts.csv",
        "--groups",
        "provider",
        "--top",
        "4",
    ]
    assert main([*words, "--output", "again.csv"]) == 0
    assert pl.read_csv("again.csv").equals(pl.read_csv("new.csv"))
    assert main([*WORDS, "--strength", "0.4", "--served", "again.csv", "--sentences"]) == 0
    assert "As served: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--boosts", "boosts.xlsx"], "End the file in"),
        (["--boosts", "nowhere/boosts.csv"], "cannot be written"),
        (["--boosts", "candidates.parquet"], "read or written by this command already"),
        (["--take", "0.1"], "--take is the strength of the files to write"),
        (["--rankings", "new.csv", "--take", "0.33"], "was not searched"),
        (["--strength", "two"], "--strength 'two' is not a number"),
        (["--objective", "0=0.5"], "do not add up to 1"),
        (["--served", "candidates.parquet"], "rank"),
    ],
)
def test_a_bad_word_is_refused_without_a_traceback_or_half_a_file(folder, capsys, more, said):
    before = sorted(p.name for p in folder.iterdir())
    assert main([*WORDS, *more]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert sorted(p.name for p in folder.iterdir()) == before


def test_rerank_refuses_bad_words_and_keeps_its_input(folder, capsys):
    assert main(["rerank", "candidates.parquet", "--method", "best", "--top", "3"]) == 2
    assert "--method best is not a known re-ranker" in capsys.readouterr().err
    words = ["rerank", "candidates.parquet", "--method", "boosts", "--boosts", "x.csv", "--top", "3"]
    assert main([*words, "--output", "candidates.parquet"]) == 2
    assert "read or written by this command already" in capsys.readouterr().err

"""Typical slips at the terminal: what is said, and what the shell completes."""

import io
import json
import re
import shutil
import subprocess

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import VERBS, main
from evenhand.cli.completion import SCRIPTS, candidates
from evenhand.cli.streams import coloured_checks, coloured_table


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log of today.csv"
    pl.DataFrame({"author_id": [1, 2, 3, None], "views": [5, 1, 1, 2]}).write_csv(path)
    return str(path)


def refused(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_a_misspelt_option_is_named_although_another_is_lacking_for_it(log, capsys):
    said = refused(["inequality", log, "--unt", "author_id", "--population", "none"], capsys)
    assert "--unt is not an option. Did you mean '--unit'?" in said


def test_an_option_too_many_is_named(log, capsys):
    said = refused(["inequality", log, "--unit", "author_id", "--population", "none", "--metrc=gini"], capsys)
    assert "--metrc is not an option. Did you mean '--metric'?" in said


def test_population_is_explained_in_two_lines_where_it_is_lacking(log, capsys):
    said = refused(["inequality", log, "--unit", "author_id"], capsys)
    assert "--population is how many could have received something" in said
    assert "none counts only those in the file" in said


def test_what_was_left_out_stands_under_the_table(log, capsys):
    words = [
        "inequality",
        log,
        "--unit",
        "author_id",
        "--amount",
        "views",
        "--population",
        "none",
        "--nan-policy",
        "omit",
    ]
    assert main(words) == 0
    shown = capsys.readouterr().out
    dropped = json.loads(_json(words, capsys))["provenance"]["dropped"]
    assert sum(dropped.values()) == 1
    assert "excluded: 1 of 4 rows" in shown


def _json(words, capsys):
    assert main([*words, "--format", "json"]) == 0
    return capsys.readouterr().out


def test_a_json_array_is_read_as_the_same_table(tmp_path):
    rows = [{"author": i, "views": i * i} for i in range(9)]
    array, lines = tmp_path / "log.json", tmp_path / "log.jsonl"
    array.write_text(json.dumps(rows), encoding="utf-8")
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    asked = {"unit": "author", "amount": "views", "population": None, "interval": None}
    first, second = (eh.inequality(str(path), **asked) for path in (array, lines))
    assert first.to_dict()["columns"] == second.to_dict()["columns"]
    assert first.provenance["plan"]["table"] == str(array)


@pytest.mark.parametrize("text", ['{"a": 1}', "[1, 2]", "{not json"])
def test_json_that_is_no_array_of_objects_is_refused(tmp_path, text, capsys):
    path = tmp_path / "log.json"
    path.write_text(text, encoding="utf-8")
    assert main(["inequality", str(path), "--unit", "a", "--population", "none"]) == 2
    assert "array of objects" in capsys.readouterr().err


def test_an_old_spreadsheet_is_refused_with_what_to_do(tmp_path, capsys):
    path = tmp_path / "log.xls"
    path.write_bytes(b"PK\x03\x04")
    assert main(["inequality", str(path), "--unit", "a", "--population", "none"]) == 2
    assert "Save it as .xlsx or CSV" in capsys.readouterr().err


def test_verbs_options_choices_and_columns_are_completed(log):
    assert candidates([""]) == list(VERBS)
    assert candidates(["inequality", log, "--popu"]) == ["--population"]
    assert candidates(["inequality", log, "--format", "j"]) == ["jsonl", "json"]
    assert candidates(["inequality", log, "--unit", ""]) == ["author_id", "views"]
    assert candidates(["inequality", log, "--unit", "v"]) == ["views"]
    assert candidates(["inequality", "no such file.csv", "--unit", ""]) == []
    assert candidates(["inequality", ""]) == [], "a file: the shell knows better"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_can_read_its_script(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)
    assert "evenhand completion --candidates" in script


def test_the_outcome_test_says_the_ten_sentences_that_matter(tmp_path, capsys):
    path = tmp_path / "invitations.parquet"
    seen = eh.synthetic.marketplace("ranking", requests=600, bias={"female": 0.5}, rng=7).filter("treated")
    seen.write_parquet(path)
    words = [
        "outcome-test",
        str(path),
        "--score",
        "score",
        "--outcome",
        "outcome",
        "--group",
        "group",
        "--reference",
        "male",
    ]
    assert main([*words, "--sentences"]) == 0
    *told, rest = capsys.readouterr().out.splitlines()
    assert len(told) == 10
    result = eh.outcome_test(str(path), score="score", outcome="outcome", group="group", reference="male")
    assert told[0].startswith("At equal score, ")
    assert set(told) <= set(result.sentences())
    assert rest.startswith(f"{len(set(result.sentences())) - 10} more: ")


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


TABLE = "Is it even?\n\nmetric  estimate\n------  --------\ngini      0.5000\n\nleft out: 1 row.\n"


@pytest.fixture
def coloured(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return monkeypatch


def test_a_terminal_sees_the_heads_of_a_table_and_a_pipe_sees_text(coloured):
    shown = coloured_table(TABLE, Screen())
    assert "\033[1mmetric  estimate\033[0m" in shown
    assert "\n" + "gini      0.5000\n" in shown
    assert "\033[2mleft out: 1 row.\033[0m" in shown
    assert re.sub(r"\033\[[\d;]*m", "", shown) == TABLE
    assert coloured_table(TABLE, io.StringIO()) == TABLE


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_nobody_gets_colour_who_said_no(coloured, name, value):
    coloured.setenv(name, value)
    assert coloured_table(TABLE, Screen()) == TABLE
    assert coloured_checks("FAIL: gini <= 0.4", Screen()) == "FAIL: gini <= 0.4"


def test_a_check_that_failed_is_red(coloured):
    assert coloured_checks("pass: a\nFAIL: b", Screen()) == "\033[32mpass\033[0m: a\n\033[1;31mFAIL\033[0m: b"


def test_work_on_many_slices_says_how_many_there_are(caplog):
    table = pl.DataFrame({"u": range(40), "v": range(40), "s": list(range(4)) * 10})
    with caplog.at_level("INFO", logger="evenhand"):
        eh.inequality(table, unit="u", amount="v", by="s", population=None, metrics="percentile_ratio", rng=1)
    assert "drawing 999 times: slice 1 of 4" in caplog.messages


def test_progress_counts_read_well_for_one_and_for_many(caplog):
    table = pl.DataFrame({"u": range(4), "v": range(4)})
    with caplog.at_level("INFO", logger="evenhand"):
        eh.inequality(table, unit="u", amount="v", population=None, interval=None)
    assert "measuring (slices: 1)" in caplog.messages

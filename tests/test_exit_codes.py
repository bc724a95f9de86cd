"""Exit codes: 1 is a check's alone; whatever else goes wrong is 2, with one message and no traceback."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.errors import EvenhandError, listing, printable
from evenhand.report.files import write_whole
from evenhand.sources import engine

WORDS = ["--unit", "u", "--amount", "v", "--population", "none", "-m", "gini", "--interval", "none", "--seed", "1"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.csv"
    pl.DataFrame({"u": list("abcd"), "v": [1, 2, 3, 10]}).write_csv(path)
    return str(path)


def shell(command, log):
    """What bash makes of the command, which calls the tool by $E and the log by $L."""
    env = {**os.environ, "E": f"{sys.executable} -m evenhand", "L": log, "W": " ".join(WORDS)}
    return subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("$E inequality $L $W > /dev/full", 2, "cannot be written (No space left on device)"),
        ("$E inequality $L $W >&-", 2, "Standard output is closed"),
        ("$E metrics gini > /dev/full", 2, "cannot be written"),
        ("$E metrics > /dev/full", 2, "cannot be written"),
        ("set -o pipefail; $E inequality $L $W --format json --check 'gini <= 0' | true", 1, "gini"),
        ("set -o pipefail; $E metrics | head -1", 0, ""),
        ("$E inequality $L $W 2>&-", 0, ""),
        ("$E inequality $L $W --unit nobody", 2, "given twice"),
    ],
)  # fmt: skip
def test_an_output_that_cannot_be_written_is_told(command, code, words, log):
    found = shell(command, log)
    assert (found.returncode, "Traceback" in found.stderr) == (code, False), found.stderr
    assert words in found.stderr


def damaged(seed):
    """Bytes of a Parquet file, some of which are not what they were."""
    import io
    import random

    out = io.BytesIO()
    pl.DataFrame({"u": [f"{i % 50}" for i in range(500)], "v": [i % 37 for i in range(500)]}).write_parquet(out)
    content, draw = bytearray(out.getvalue()), random.Random(seed)
    for _ in range(3):
        content[draw.randrange(4, len(content) - 4)] = draw.randrange(256)
    return bytes(content)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_parquet_file_is_a_sentence_or_an_answer(seed, engine, tmp_path, capfd):
    (tmp_path / "log.parquet").write_bytes(damaged(seed))
    code = main(["inequality", str(tmp_path / "log.parquet"), *WORDS, "--engine", engine, "--no-progress"])
    said = capfd.readouterr().err
    assert code in (0, 2)
    assert code == 0 or said.count("\n") == 1, said
    assert "panicked" not in said


def test_a_panic_of_an_engine_is_a_sentence(monkeypatch, capsys, log):
    class PanicException(BaseException):  # what pyo3 raises where Rust gives up
        pass

    PanicException.__module__ = "pyo3_runtime"

    def give_up(*_, **__):
        raise PanicException("index out of bounds")

    monkeypatch.setattr(engine, "_plain", give_up)
    assert main(["inequality", log, *WORDS]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_fault_of_ours_is_told_as_one_and_is_no_failed_check(monkeypatch, capsys, log):
    def fail(*_, **__):
        raise KeyError("a secret of somebody")

    monkeypatch.setattr("evenhand.audits.inequality.parse_metrics", fail)
    assert main(["inequality", log, *WORDS]) == 2
    said = capsys.readouterr().err
    assert "fault in evenhand (KeyError in line" in said
    assert "secret" not in said


@pytest.fixture(scope="module")
def saved(log):
    return json.loads(eh.inequality(log, unit="u", amount="v", population=None, by=None, rng=1).to_json())


def changed(value, turn):
    """The value with one thing after another replaced, deleted or nested where it does not belong; `turn` gives the next one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {k: v for k, v in value.items() if k != key}
            yield from ({**value, key: next(turn)} for _ in range(2))
            yield from ({**value, key: other} for other in changed(inner, turn))
    elif isinstance(value, list) and value:
        yield from ([next(turn), *value[1:]] for _ in range(2))
        yield value[1:]


def test_a_tampered_result_is_refused_or_read_but_never_a_traceback(saved, tmp_path, capsys):
    whole, path = tmp_path / "whole.json", tmp_path / "tampered.json"
    whole.write_text(json.dumps(saved))
    wrong = itertools.cycle((None, 3, "x", [], {}, [None], {"a": [1]}, 10**30, -1))
    for number, one in enumerate(changed(saved, wrong)):
        path.write_text(json.dumps(one))
        code = main(["compare", str(path), str(whole), "--format", "json"])
        said = capsys.readouterr()
        assert code in (0, 2), (number, said.err)
        assert "fault in evenhand" not in said.err, (number, one, said.err)
        try:
            found = eh.read.result(path)
        except EvenhandError:
            continue
        assert found.to_text()
        assert isinstance(found.sentences(), list)


NASTY = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J\u202eevil"


@pytest.fixture(scope="module")
def shouted():
    table = pl.DataFrame({"u": range(6), "v": [1, 2, 3, 4, 5, 9], "s": [NASTY, "=1+1", "@x", "-a", "+b", "\t=c"]})
    return eh.inequality(table, unit="u", amount="v", population=None, by="s", metrics="mean", interval=None)


@pytest.mark.parametrize("format", ["table", "csv", "tsv", "jsonl", "json", "markdown", "latex"])
def test_no_text_format_holds_an_escape_sequence(shouted, format):
    text = shouted.to_text(format)
    assert not set("\x1b\x07\x9b\u202e") & set(text)
    if format in ("json", "jsonl"):
        told = json.loads(text)["columns"]["s"] if format == "json" else [json.loads(t)["s"] for t in text.splitlines()]
        assert NASTY in told, "nothing is lost"


def test_no_sentence_message_or_list_of_names_holds_an_escape_sequence(shouted):
    assert not set("\x1b\x07\x9b\u202e") & set(" ".join(shouted.sentences()))
    assert not set("\x1b\x07\x9b\u202e") & set(str(EvenhandError(f"{NASTY} is wrong.")) + listing([NASTY]))
    assert printable(NASTY) == "␛[31mred␛[0m␛]0;title␇\\u009b2J\\u202eevil", "visible, so that labels stay distinct"


def test_messages_cut_long_labels():
    label = "x" * 10_000
    assert len(str(EvenhandError(f"unit={label!r} is not a column. Columns: {listing([label] * 20)}."))) < 1_500


def test_text_that_a_spreadsheet_would_run_is_marked_and_numbers_stay_numbers(shouted):
    import csv

    table = pl.DataFrame({"u": range(4), "v": [1, 2, 3, 4], "s": ["=1+1", "@x", "-a", "-5"]})
    found = eh.inequality(table, unit="u", amount="v", population=None, by="s", metrics="mean", interval=None)
    cells = {row["s"] for row in csv.DictReader(found.to_text("csv").splitlines())}
    assert cells == {"'=1+1", "'@x", "'-a", "-5"}
    assert "'=1+1" in found.to_text("tsv")
    assert {row["s"] for row in csv.DictReader(found.to_text("csv", raw=True).splitlines())} == {
        "=1+1",
        "@x",
        "-a",
        "-5",
    }
    assert "'" not in eh.compare(shouted, shouted).only("mean").to_text("csv").splitlines()[0]


def test_the_mode_of_a_file_that_is_overwritten_is_kept(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o640)
    write_whole(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)


MALFORMED = {
    "inequality": [("by", {}), ("by", [[]]), ("unit", 3), ("amount", [["v"]]), ("population", 10**26), ("metrics", {"a": 1}), ("min_units", 10**26)],
    "prefix": [("request", 3), ("request", []), ("protected", {"a": 1}), ("protected", [["x"]]), ("group", {"a": {"b": {}}})],
    "exposure": [("relevance", ["g", 3]), ("groups", [[]]), ("target", [1]), ("rank", {})],
    "pairwise": [("relevance", {"a": 1}), ("negatives", 10**26), ("protected", {})],
    "outcome_test": [("bins", 10**26), ("threshold", {}), ("group", ["g"]), ("reference", {})],
    "recommender": [("items", 10**26), ("true_threshold", 10**26), ("user_groups", [[]]), ("protected", [[]]), ("top", "x")],
}  # fmt: skip


@pytest.mark.parametrize(("audit", "key", "value"), [(a, k, v) for a, pairs in MALFORMED.items() for k, v in pairs])
def test_a_malformed_plan_is_one_error(audit, key, value, tmp_path, capsys, monkeypatch):
    from evenhand.report.reproduce import plan_file

    monkeypatch.chdir(tmp_path)
    run = pl.DataFrame({"u": list("aabb"), "v": [1, 2, 3, 4], "request": [1, 1, 2, 2], "item": list("abab")})
    run = run.with_columns(
        rank=pl.Series([1, 2, 1, 2]), g=pl.Series(list("xyxy")), rel=pl.Series([1, 0, 0, 1]), score=pl.col("v")
    )
    run.write_csv("t.csv")
    base = {
        "inequality": {"table": "t.csv", "unit": "u", "amount": "v", "population": "none"},
        "prefix": {"table": "t.csv", "group": "g"},
        "exposure": {"rankings": "t.csv", "groups": "g"},
        "pairwise": {"scores": "t.csv", "groups": "g", "relevance": "rel", "protected": "x"},
        "outcome_test": {"table": "t.csv", "score": "score", "outcome": "rel", "group": "g"},
        "recommender": {"scores": "t.csv", "user": "request", "top": 1, "protected": "x", "user_groups": "g"},
    }[audit]
    (tmp_path / "plan.toml").write_text(plan_file({"audit": audit, **base, key: value}))
    assert main(["run", "plan.toml", "--no-progress"]) == 2
    said = capsys.readouterr().err
    assert "fault in evenhand" not in said
    assert said.startswith("evenhand: ")
    assert key in said or key.rstrip("s") in said or key.replace("_", "-") in said


def test_a_plan_that_is_nested_without_end_is_refused(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text("by = " + "[" * 5_000 + "]" * 5_000)
    assert main(["run", str(tmp_path / "plan.toml")]) == 2
    (tmp_path / "plan.toml").write_text("rng = " + "9" * 5_000)
    assert main(["run", str(tmp_path / "plan.toml")]) == 2
    assert capsys.readouterr().err.count("is not TOML") == 2


@pytest.mark.parametrize(
    "change", [{"indices": [0, 1, 2, 99]}, {"indices": [0, -1, 2, 3]}, {"indptr": [0, 9, 2, 3, 4]}]
)
def test_a_sparse_matrix_with_places_outside_it_is_refused(change, tmp_path):
    from scipy import sparse

    held = sparse.csr_array(np.eye(4))
    parts = {"indices": held.indices, "indptr": held.indptr, "data": held.data}
    parts |= {name: np.array(values, dtype=np.int32) for name, values in change.items()}
    np.savez(tmp_path / "m.npz", format=np.array(b"csr"), shape=np.array([4, 4]), **parts)
    with pytest.raises(EvenhandError, match=r"cannot be read|places that are not in it"):
        eh.recommender(tmp_path / "m.npz", top=1)

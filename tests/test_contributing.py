"""The examples in CONTRIBUTING.md are real: pasted into a copy of the package, they need nothing else."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[1]
PASTED = re.compile(r"`src/(evenhand/[\w/]+\.pyi?)`:\n\n```python\n(.*?)```", re.DOTALL)
VERB = re.compile(r"`VERBS` in `src/(evenhand/[\w/]+\.py)`[^`]*`evenhand --help`[^`]*```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package with every example in the file that it names; tests and docs beside it."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("src", "tests", "docs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = PASTED.findall(text)
    assert len(blocks) == 6
    for name, block in blocks:
        file = root / "src" / name
        held = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(f"{held.rstrip()}\n\n\n{block}" if held else block, encoding="utf-8")
    ((name, entry),) = VERB.findall(text)
    verbs = root / "src" / name
    verbs.write_text(verbs.read_text(encoding="utf-8").replace('    "sources": ', f'{entry}    "sources": ', 1))
    return root


def ran(copy, *command, cwd=None):
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    return subprocess.run(
        [sys.executable, *command], cwd=cwd or copy, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    pl.DataFrame({"author": list("abcd"), "views": [0, 0, 0, 10]}).write_csv(folder / "log.csv")
    pl.DataFrame(
        {"request": [1] * 4 + [2] * 4, "rank": [1, 2, 3, 4] * 2, "item": list("abcdbacd"), "side": list("mffmfmfm")}
    ).write_csv(folder / "ranked.csv")
    return folder


@pytest.mark.slow
def test_the_pasted_examples_pass_the_tests_of_cards_laws_and_the_command_line(copy):
    assert ran(copy, "docs/generate.py").returncode == 0
    chosen = "zero_share or first_place or coverage or page_of_metrics or verb"
    done = ran(
        copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, "tests/test_laws.py", "tests/test_cards.py",
        "tests/test_cli.py", "tests/test_doc_pages.py", "src/evenhand/metrics/inequality.py", "src/evenhand/metrics/prefix.py",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_a_metric_takes_one_function_with_its_card_and_nothing_else(copy, log):
    code = """
import polars as pl, evenhand as eh
assert eh.metrics.zero_share([0, 0, 0, 10]) == 0.75
r = eh.inequality("log.csv", unit="author", amount="views", population=10, metrics=["zero_share"], interval="bootstrap(99)", rng=1)
assert abs(r.frame["estimate"][0] - 0.9) < 1e-9
assert r.sentences()[0].startswith("90.0% of authors get no views at all"), r.sentences()
"""
    done = ran(copy, "-W", "error", "-c", code, cwd=log)
    assert done.returncode == 0, done.stderr
    assert "Share with nothing" in ran(copy, "-m", "evenhand", "metrics", "zero_share").stdout


@pytest.mark.slow
def test_a_ranking_metric_is_averaged_with_its_chance_in_both_audits(copy, log):
    code = """
import evenhand as eh
for audit, role in ((eh.prefix, "group"), (eh.exposure, "groups")):
    r = audit("ranked.csv", **{role: "side"}, protected="f", metrics="first_place", rng=1)
    assert r.frame["estimate"][0] == 0.5 and r.frame["chance"][0] == 0.5, r.frame
    assert "stands first in 50.0% of rankings" in r.sentences()[0], r.sentences()
    try:
        audit("ranked.csv", **{role: "side"}, metrics="first_place")
    except eh.EvenhandError as error:
        assert "compares two groups. Pass protected=" in str(error)
    else:
        raise AssertionError("no side was needed")
"""
    done = ran(copy, "-W", "error", "-c", code, cwd=log)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_audit_takes_one_declared_function_and_its_names(copy, log):
    words = ["coverage", "log.csv", "--unit", "author", "--amount", "views", "--population", "10", "--seed", "1"]
    done = ran(copy, "-m", "evenhand", *words, "--format", "json", cwd=log)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["columns"]["estimate"] == [0.9]
    assert found["provenance"]["plan"]["population"] == 10
    (log / "plan.toml").write_text(
        'audit = "coverage"\ntable = "log.csv"\nunit = "author"\namount = "views"\npopulation = 10\nrng = 1\n'
    )
    again = ran(copy, "-m", "evenhand", "run", "plan.toml", "--format", "json", cwd=log)
    assert json.loads(again.stdout)["columns"] == found["columns"]
    assert "--unit COLUMN" in ran(copy, "-m", "evenhand", "coverage", "--help").stdout
    wrong = ran(copy, "-m", "evenhand", "coverage", "log.csv", "--unit", "autor", "--population", "none", cwd=log)
    assert wrong.returncode == 2
    assert "Did you mean 'author'?" in wrong.stderr


@pytest.mark.slow
def test_an_input_format_takes_one_entry_in_the_register(copy, log):
    frame = pl.read_csv(log / "log.csv")
    (log / "parts").mkdir()
    frame.head(2).write_avro(log / "parts" / "1.avro")
    frame.tail(2).with_columns(pl.lit("x").alias("via")).write_avro(log / "parts" / "[2].avro")
    words = ["--unit", "author", "--amount", "views", "--population", "10", "--metric", "gini", "--format", "json"]
    from_text = ran(copy, "-m", "evenhand", "inequality", "log.csv", *words, "--seed", "1", cwd=log)
    from_avro = ran(copy, "-m", "evenhand", "inequality", "parts", *words, "--seed", "1", cwd=log)
    assert from_avro.returncode == 0, from_avro.stderr
    assert json.loads(from_avro.stdout)["columns"] == json.loads(from_text.stdout)["columns"]
    (log / "log.orc").write_bytes(b"ORC")
    unknown = ran(copy, "-m", "evenhand", "inequality", "log.orc", *words, cwd=log)
    assert unknown.returncode == 2
    assert ".avro" in unknown.stderr


@pytest.mark.slow
def test_a_chart_takes_one_function(copy, log):
    code = """
import evenhand as eh
r = eh.inequality("log.csv", unit="author", amount="views", population=10, metrics="gini", interval=None)
from evenhand.report.charts.registry import KINDS, picture
kind, drawn = picture(r.findings, "unit_counts")
assert drawn.table["units"] == [10], drawn.table
assert r.plot("unit_counts").to_dict()["title"]["text"] == "How many units each number rests on"
"""
    done = ran(copy, "-W", "error", "-c", code, cwd=log)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_intervals_are_printed_differently_by_changing_one_line(copy, log):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    ((line,),) = [re.findall(r"change its last line to\n\n```py\n(.*?\n)```", text, re.DOTALL)]
    file = copy / "src/evenhand/report/words/text.py"
    before = file.read_text(encoding="utf-8")
    (old,) = re.findall(r"^    return f\"\{name\}.*\n", before, re.MULTILINE)
    file.write_text(before.replace(old, line), encoding="utf-8")
    try:
        words = [
            "inequality",
            "log.csv",
            "--unit",
            "author",
            "--amount",
            "views",
            "--population",
            "40",
            "--seed",
            "1",
            "-m",
            "gini",
        ]
        table = ran(copy, "-m", "evenhand", *words, cwd=log).stdout
        sentences = ran(copy, "-m", "evenhand", *words, "--sentences", cwd=log).stdout
    finally:
        file.write_text(before, encoding="utf-8")
    assert re.search(r"\[0\.\d+, [01]", table), table
    assert re.search(r"95% interval \[0\.\d+, [01]", sentences), sentences

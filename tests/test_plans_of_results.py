"""Answers about answers are made again too: from saved results, from objects, without a table, and after a test."""

import json
import shlex

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.findings import Findings
from evenhand.report.reproduce import ways


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two saved results of the same question by system, and a table of candidates."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    for name in ("monday", "friday"):
        measured(rng).to_json(f"{name}.json")
    people = pl.DataFrame({"s": rng.random(600).round(3), "g": ["F", "M"] * 300, "job": np.arange(600) // 12})
    people = people.with_columns(
        y=(pl.Series(rng.random(600)) < people["s"]).cast(int), t=(pl.col("s") > 0.4).cast(int)
    )
    people.write_parquet("people.parquet")
    return tmp_path


def measured(rng):
    log = pl.DataFrame({"system": list("abcd") * 50, "views": rng.poisson(4, 200)})
    how = {"unit": None, "amount": "views", "population": None, "by": "system", "metrics": ["gini", "hoover", "theil"]}
    return eh.inequality(log, **how, interval="normal", rng=1)


def columns(result):
    return result.to_dict()["columns"]


def asked(words, capsys):
    assert main([*words, "--format", "json", "--no-progress"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("name", "places", "call"),
    [
        ("compare", ["monday.json", "friday.json"], {}),
        ("agreement", ["monday.json"], {"rng": 3}),
        ("agreement", ["monday.json", "friday.json"], {"draws": 199}),
        ("advise", [], {"balance": "medium", "bias": "high"}),
        ("advise", [], {"goal": "opportunity", "sparse": True}),
        ("advise", [], {"goal": "opportunity", "sparse": False}),
    ],
)
def test_the_plan_the_command_python_and_the_plan_file_give_the_same_frame(name, places, call, folder, capsys):
    found = getattr(eh, name)(*places, **call)
    expected = columns(found)
    plan = dict(found.provenance["plan"])
    assert "needed_again" not in found.provenance
    assert columns(getattr(eh, plan.pop("audit"))(**plan)) == expected
    shell, python, file = (text for _, text in ways(found.findings))
    assert shlex.split(shell)[: 2 + len(places)] == ["evenhand", name, *places]
    assert asked(shlex.split(shell)[1:], capsys)["columns"] == expected
    scope = {}
    exec(python.replace(f"eh.{name}(", f"made = eh.{name}("), scope)
    assert columns(scope["made"]) == expected
    (folder / "plan.toml").write_text(file)
    assert asked(["run", "plan.toml"], capsys)["columns"] == expected


def test_results_in_memory_are_asked_for_again(folder):
    a, b = (eh.read.result(f"{name}.json") for name in ("monday", "friday"))
    compared, agreed = eh.compare(a, b), eh.agreement(a, rng=1)
    assert columns(compared) == columns(eh.compare("monday.json", folder / "friday.json"))
    ((lead, python),) = ways(compared.findings)
    assert lead == "In Python, where a is an evenhand Result and b is an evenhand Result:"
    assert python.splitlines()[-1].startswith("eh.compare(a, b, rng=")
    ((_, python),) = ways(agreed.findings)
    assert python.splitlines()[-1] == "eh.agreement(results, rng=1)"
    results = [a]
    assert columns(eh.agreement(results, rng=1)) == columns(agreed)


def test_what_is_no_result_is_refused(folder, capsys):
    for call in (lambda: eh.compare(pl.DataFrame({"x": [1]})), lambda: eh.agreement(pl.DataFrame({"x": [1]}))):
        with pytest.raises(eh.EvenhandError, match="=<DataFrame> does not fit"):
            call()
    with pytest.raises(eh.EvenhandError, match="cannot be read"):
        eh.compare("monday.json", "nowhere.json")
    assert main(["agreement", "people.parquet"]) == 2
    assert "is not JSON" in capsys.readouterr().err


def test_a_counterfactual_is_asked_of_the_test_again(folder, capsys):
    roles = {"score": "s", "outcome": "y", "group": "g", "request": "job", "treated": "t", "bins": 3}
    test = eh.outcome_test("people.parquet", kind="classification", **roles)
    for how in ({}, {"folds": 1, "window": None, "baseline": "recalibrated", "null_draws": 20}):
        found = test.counterfactual(rng=4, **how)
        (_, shell), (_, python) = ways(found.findings)
        again = asked(shlex.split(shell)[1:], capsys)
        assert again["columns"] == columns(found)
        assert again["provenance"]["counterfactual"] == found.provenance["counterfactual"]
        scope = {}
        exec(python.replace("eh.outcome_test(", "made = eh.outcome_test("), scope)
        assert columns(scope["made"]) == columns(found)


def test_labels_of_rows_ids_and_labels_by_user_are_objects_of_the_call():
    matrix = np.random.default_rng(1).random((4, 5))
    found = eh.recommender(matrix, user_groups=["a", "b", "a", "b"], top=2, metrics="mad", rng=1)
    assert found.provenance["needed_again"] == {"scores": "a numpy ndarray", "user_groups": "a list"}
    long = pl.DataFrame({"user": [1, 1, 2], "item": ["x", "y", "x"], "score": [1.0, 2.0, 3.0]})
    found = eh.recommender(long, user_groups={1: 0, 2: 1}, items=3, top=1, rng=1)
    assert found.provenance["needed_again"] == {
        "scores": "a polars DataFrame",
        "user_groups": "a mapping of 2 entries",
    }
    ((_, python),) = ways(found.findings)
    scope = {"scores": long, "user_groups": {1: 0, 2: 1}}
    exec(python.replace("eh.recommender(", "made = eh.recommender("), scope)
    assert columns(scope["made"]) == columns(found)


def test_a_saved_answer_still_says_how_it_was_made(folder):
    found = eh.compare("monday.json", "friday.json")
    read = Findings.from_dict(json.loads(found.to_json()))
    assert ways(read) == ways(found.findings)

"""The conformance kit: vectors that owe nothing to the package, evenhand's own score, and how any other tool is scored."""

import ast
import json
import math
import re
import subprocess
import sys
import tomllib
import warnings
from fractions import Fraction
from pathlib import Path

import pytest
from conformance import published, score

import evenhand_conformance
from evenhand import UndefinedWarning, metrics
from evenhand.cards import REGISTRY
from evenhand.cli import main
from evenhand_conformance import kit, worker

ROOT = Path(__file__).parents[1]
KIT = ROOT / "conformance" / "src" / "evenhand_conformance"
VECTORS = kit.contents()["vectors"]

RIGHT = """
def adapter(question):
    if question["metric"] != "gini" or question["parameters"] or "weights" in question["input"]:
        raise NotImplementedError
    x = question["input"]["amounts"]
    return sum(abs(a - b) for a in x for b in x) / (2 * len(x) * sum(x))
"""
WRONG = (
    RIGHT.replace("(2 * len(x) * sum(x))", "(2 * (len(x) - 1) * sum(x))")
    + """
def corrected(question):
    x = question["input"]["amounts"]
    return "raises" if len(x) < 2 else sum(abs(a - b) for a in x for b in x) / (2 * (len(x) - 1) * sum(x))

REASONS = {"gini": [("somebody adds 1", lambda question: 1 + corrected(question)), ("it divides by n - 1", corrected)]}
"""
)


@pytest.fixture(scope="module")
def evenhand_score():
    return kit.run("evenhand")


@pytest.fixture
def adapter(tmp_path):
    def write(text):
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        return f"{path}:adapter"

    return write


def imported(file):
    """The packages that a file imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


# --- the vectors ------------------------------------------------------------------------------------------------------


def test_the_vectors_are_what_the_definitions_give_where_evenhand_cannot_be_imported():
    code = (
        "import sys; sys.modules['evenhand'] = None; from conformance.generate import main; sys.exit(main(['--check']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("card", list(metrics.cards()), ids=lambda card: card.name)
def test_every_card_has_vectors_and_a_vector_of_each_law_it_claims(card):
    assert sum(v["metric"] == card.name for v in VECTORS) >= 3
    assert card.laws <= {law["law"] for law in kit.contents()["laws"] if law["metric"] == card.name}


def test_a_vector_says_its_exact_value_and_why_it_is_asked():
    assert len({v["id"] for v in VECTORS}) == len(VECTORS)
    for v in VECTORS:
        assert v["why"]
        if v["value"] is None:
            assert v["undefined"]
        elif isinstance(v["value"], float) and "/" in v["exact"]:
            assert float(Fraction(v["exact"])) == v["value"]


def test_the_file_says_its_version_and_a_permissive_licence():
    assert kit.contents()["version"].count(".") == 2
    assert kit.contents()["license"] == "CC0-1.0"
    assert kit.contents()["version"] == evenhand_conformance.__version__


def test_the_kit_needs_nothing_but_the_standard_library():
    for file in KIT.glob("*.py"):
        assert imported(file) <= {*sys.stdlib_module_names, "evenhand_conformance"}, file.name
    project = tomllib.loads((ROOT / "conformance" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == []
    assert project["license"] == "CC0-1.0"
    code = "import sys; from evenhand_conformance.command import main; sys.exit(main(['list', 'gini']))"
    done = subprocess.run(  # -S and -E: no installed package can be found
        [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {str(KIT.parent)!r}); {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "3/4" in done.stdout


def test_without_the_kit_the_verb_says_where_it_is(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "evenhand_conformance.command", None)
    assert main(["conformance", "list"]) == 2
    assert "pip install ./conformance" in capsys.readouterr().err


# --- evenhand itself --------------------------------------------------------------------------------------------------


def test_evenhand_agrees_with_every_vector_and_keeps_every_law(evenhand_score):
    assert [c for c in (*evenhand_score.vectors, *evenhand_score.laws) if c.status != "agrees" or c.raised] == []
    assert evenhand_score.offered() == sorted(REGISTRY)


def test_evenhand_gives_the_reason_on_the_vector_where_there_is_no_number():
    apart = ("Exposure", "Amortised", "Moments", "Rows", "Change")
    audited = {name for name, m in REGISTRY.items() if m.card.needs.__name__ in apart}
    arguments = worker.load(kit.tools()["evenhand"])[0].__globals__["_arguments"]
    for v in VECTORS:
        if v["value"] is None and v["metric"] not in audited:
            metric = REGISTRY[v["metric"]]
            first, keywords = arguments(v["input"])
            with pytest.warns(UndefinedWarning) as caught:
                assert math.isnan(metric(first, **keywords, **v["parameters"]))
            assert caught[0].message.reason == v["undefined"], v["id"]


# --- any tool ---------------------------------------------------------------------------------------------------------


def test_a_right_adapter_conforms_and_is_not_asked_for_what_it_does_not_offer(adapter, capsys):
    assert main(["conformance", "run", "--tool", adapter(RIGHT)]) == 0
    out = capsys.readouterr().out
    assert "10 of 10 vectors agree (100.0%), 1 of" in out
    assert "atkinson" not in out


def test_a_wrong_denominator_is_found_and_its_reason_proved_by_its_number(adapter, capsys):
    tool = adapter(WRONG)
    assert main(["conformance", "run", "gini", "--tool", tool, "--differences"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"\n(\d+) of the other \1 follow from a stated reason", out)
    assert "it divides by n - 1" in out
    assert "somebody adds 1" not in out
    assert main(["conformance", "run", "gini", "--tool", tool, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [c["why"] for c in found["laws"] if c["status"] == "differs"] == ["replication: the value stays"]


def test_a_tool_in_another_environment_gets_the_same_questions(adapter):
    tool = adapter(WRONG)
    here, there = kit.run(tool), kit.run(tool, python=sys.executable)
    assert here == there


def test_what_a_tool_prints_or_raises_never_breaks_the_run(adapter):
    text = "def adapter(question):\n    print('noise')\n    raise RuntimeError('no such luck')\n"
    found = kit.run(adapter(text), python=sys.executable, only=["gini", "mean"])
    undefined = {v["id"] for v in VECTORS if v["value"] is None}
    assert {c.status for c in found.vectors if c.id not in undefined} == {"fails"}
    assert all(c.status == "agrees" for c in found.vectors if c.id in undefined), "a refusal is no wrong number"
    assert not found.conforms


def test_a_made_up_number_where_there_is_none_differs(adapter):
    zero = "def adapter(question):\n    return 0.0\n"
    found = kit.run(adapter(zero), only=["gini"])
    assert {c.status for c in found.vectors if c.expected is None} == {"differs"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "run needs a tool"),
        (["run", "--tool", "no.such.module:adapter"], "cannot be asked"),
        (["run", "--tool", "no.such.module:adapter", "--python", sys.executable], "cannot be asked"),
        (["run", "--tool", "math:nothing"], "cannot be asked"),
        (["run", "--tool", "evenhnd"], "Did you mean"),
        (["run", "--tool", "evenhand", "--python", "no-such-python"], "is no program"),
        (["run", "ginni", "--tool", "evenhand"], "Did you mean 'gini'"),
        (["run", "--tool", "evenhand", "--tolerance", "2"], "not between 0 and 1"),
        (["list", "--tool", "evenhand"], "list does not run a tool"),
        (["list", "ginni"], "Did you mean 'gini'"),
    ],
    ids=lambda x: "-".join(x[:2]) if isinstance(x, list) else "",
)
def test_what_cannot_be_asked_is_a_sentence_and_exit_code_2(words, says, capsys):
    assert main(["conformance", *words]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err


def test_a_tool_that_offers_nothing_is_no_success(adapter, capsys):
    assert main(["conformance", "run", "--tool", adapter("def adapter(q):\n    raise NotImplementedError\n")]) == 2
    assert "has none of these metrics" in capsys.readouterr().err


def test_the_list_shows_the_kit(capsys):
    assert main(["conformance", "list"]) == 0
    assert "gini" in capsys.readouterr().out
    assert main(["conformance", "list", "gini"]) == 0
    assert "3/4" in capsys.readouterr().out
    assert main(["conformance", "list", "gini", "--format", "json"]) == 0
    assert {v["metric"] for v in json.loads(capsys.readouterr().out)["vectors"]} == {"gini"}


def test_adapters_of_other_tools_need_nothing_of_evenhand():
    """They run in environments that do not have it."""
    for file in set(KIT.glob("tools/*.py")) - {KIT / "tools" / "evenhand.py"}:
        assert "evenhand" not in imported(file), file.name


def test_asking_leaves_warnings_as_they_were(adapter):
    before = list(warnings.filters)
    kit.run(adapter(RIGHT), only=["gini"])
    assert list(warnings.filters) == before


# --- the page ---------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")


def test_the_page_tells_the_size_of_the_kit_and_the_scores_that_were_kept():
    sizes = f"{len(VECTORS)} vectors and {len(kit.contents()['laws'])} laws for all {len(kit.metrics())} metrics"
    assert sizes in PAGE
    scores = json.loads(score.KEPT.read_text(encoding="utf-8"))
    assert score.page(scores) in PAGE, "run: make conformance"
    assert set(scores) == set(kit.tools()) - {"evenhand"}
    assert {file.stem for file in (ROOT / "conformance" / "requirements").glob("*.txt")} == set(scores)


def test_every_difference_on_the_page_has_a_reason_that_leads_to_the_tools_number():
    scores = json.loads(score.KEPT.read_text(encoding="utf-8"))
    for name, s in scores.items():
        assert s["unexplained"] == [], name
        assert sum(s["reasons"].values()) == s["differs"] + s["fails"], name


def test_the_adapter_on_the_page_works(adapter):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    found = kit.run(adapter(code))
    assert found.conforms
    assert found.offered() == ["gini"]


def test_the_vector_on_the_page_is_the_one_that_is_shipped():
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert json.loads(shown) in VECTORS


def test_numbers_printed_by_other_packages_stand_beside_the_definitions():
    entries = json.loads(published.PRINTED.read_text(encoding="utf-8"))
    assert published.page(entries) in PAGE, "run: python -m conformance.published"
    assert {entry["tool"].split()[0] for entry in entries} >= {"convey", "ineq", "laeken"}
    assert all(entry["source"].startswith("https://") for entry in entries)
    assert all(published.agrees(entry) for entry in entries if "why" not in entry)
    assert not any(published.agrees(entry) for entry in entries if "why" in entry)


def test_a_printed_number_that_is_wrong_in_its_last_digit_does_not_agree():
    entry = {"metric": "gini", "parameters": {}, "input": {"amounts": [1, 2]}, "printed": "0.1667"}
    assert published.agrees(entry)
    assert not published.agrees({**entry, "printed": "0.1668"})

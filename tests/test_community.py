"""What strangers need to install, cite, report to and release: files that agree with each other and with the package."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest
import yaml
from jinja2 import Environment, StrictUndefined

import evenhand as eh

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "SUPPORT.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "RELEASING.md", "CONTRIBUTING.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_links_of_the_repositorys_pages_lead_somewhere(name):
    for link in re.findall(r"\]\(([^)#\s]+)", text(name)):
        assert link.startswith("https://") or (ROOT / link).exists(), link


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_templates_and_workflows_are_yaml_with_what_the_host_asks_for(path):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.parent.name == "workflows":
        assert content["jobs"]
        assert all("uses" in step or "run" in step for job in content["jobs"].values() for step in job["steps"])
        for target in re.findall(r"run: make ([\w -]+)", path.read_text(encoding="utf-8")):
            assert all(re.search(rf"^{word}:", text("Makefile"), re.MULTILINE) for word in target.split()), target
    elif path.name != "config.yml":
        assert content["name"]
        assert content["description"]
        assert content["body"]


def test_the_release_publishes_without_a_token_and_after_the_checks():
    release = yaml.safe_load(text(".github/workflows/release.yml"))
    publish = release["jobs"]["publish"]
    assert publish["permissions"]["id-token"] == "write"
    assert publish["needs"] == "build"
    assert "password" not in text(".github/workflows/release.yml")
    assert any("check_release.py" in step.get("run", "") for step in release["jobs"]["build"]["steps"])


def test_nothing_is_released_under_an_address_that_is_nobodys():
    done = subprocess.run(
        [sys.executable, ".ci/check_release.py", "v9.9.9"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"CITATION.cff says {eh.__version__}, the tag 9.9.9" in done.stdout
    assert ("pyproject.toml has no public address" in done.stdout) == ("evenhand.example" in text("pyproject.toml"))


def test_the_citation_names_the_authors_and_licence_of_the_package():
    citation = yaml.safe_load(text("CITATION.cff"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert [one["name"] for one in citation["authors"]] == [one["name"] for one in PROJECT["authors"]]
    assert citation["license"] == PROJECT["license"]


# --- the paper --------------------------------------------------------------------------------------------------------

SECTIONS = ["Summary", "Statement of need", "State of the field", "Software design", "Research impact statement",
            "AI usage disclosure", "Acknowledgements", "References"]  # fmt: skip
"""What the Journal of Open Source Software asks for."""


def test_the_paper_has_the_sections_and_length_that_the_journal_asks_for():
    head, body = text("paper.md").split("\n---\n", 1)
    assert re.findall(r"^# (.+)$", body, re.MULTILINE) == SECTIONS
    assert 750 <= len(body.split()) <= 1750
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(yaml.safe_load(head[4:]))


def test_every_work_that_the_paper_cites_is_in_its_bibliography_and_every_entry_is_cited():
    cited = set(re.findall(r"@(\w+)", text("paper.md").split("\n---\n", 1)[1]))
    entries = re.findall(r"@\w+\{(\w+),(.*?)\n\}", text("paper.bib"), re.DOTALL)
    assert cited == {key for key, _ in entries}
    for key, fields in entries:
        assert re.search(r"\bdoi = |\burl = |\bpages = ", fields), key


def test_the_paper_gives_the_size_of_the_kit_and_commands_that_exist():
    paper, page = text("paper.md"), text("docs/conformance.md")
    size = re.search(r"(\d+) vectors\s+and (\d+) laws", paper)
    assert f"{size[1]} vectors and {size[2]} laws" in page
    for target in re.findall(r"`make (\w+)`", paper):
        assert re.search(rf"^{target}:", text("Makefile"), re.MULTILINE), target
    for module in re.findall(r"`python -m ([\w.]+)", paper):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module


# --- installing -------------------------------------------------------------------------------------------------------


def test_pages_promise_no_package_index_that_does_not_have_it():
    """Extras work once evenhand is installed; evenhand alone must come from a copy of the repository until it is released."""
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.search(r"pip install evenhand(?![\w\[=-])", line):
                assert path.name == "RELEASING.md" or "finds nothing" in line, f"{path.name}: {line}"


def rendered():
    """The recipe as a conda builder reads it: its context first, then the rest with the context filled in."""
    environment = Environment(variable_start_string="${{", variable_end_string="}}", undefined=StrictUndefined)
    recipe = text("recipe/recipe.yaml")
    context = yaml.safe_load(recipe)["context"]
    return yaml.safe_load(environment.from_string(recipe).render(**context, PYTHON="python"))


def test_the_conda_recipe_needs_what_the_package_needs_and_builds_from_its_sdist():
    recipe = rendered()
    assert recipe["package"] == {"name": PROJECT["name"], "version": eh.__version__}
    assert recipe["source"]["path"] == f"../dist/evenhand-{eh.__version__}.tar.gz"
    package = {re.sub(r"\s|;.*", "", need) for need in PROJECT["dependencies"]}
    conda = {need.replace(" ", "").replace("python-duckdb", "duckdb") for need in recipe["requirements"]["run"]}
    assert conda - {f"python{PROJECT['requires-python']}"} == package
    assert f"python{PROJECT['requires-python']}" in conda
    assert recipe["build"]["python"]["entry_points"] == [f"evenhand = {PROJECT['scripts']['evenhand']}"]


# --- the comparison ---------------------------------------------------------------------------------------------------

COMPARED = [
    "R convey",
    "R giniVarCI",
    "R laeken",
    "ClickHouse",
    "tea-tasting",
    "fairlearn",
    "AIF360",
    "Evidently",
    "VerifyWise",
    "WarpRec",
]


def test_every_compared_tool_has_a_row_a_section_with_its_source_and_what_it_does_better():
    page = text("docs/comparison.md")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    for tool in COMPARED:
        anchor = tool.lower().replace(" ", "-")
        assert f"| [{tool}](#{anchor}) |" in page, tool
        assert "**Better**" in sections[tool], tool
        assert re.search(r"\]\(https://", sections[tool]), tool
        assert re.search(r"\b20\d\d\b", sections[tool]), f"{tool}: read when?"


# --- in other people's builds -----------------------------------------------------------------------------------------

PLAN = 'audit = "inequality"\ntable = "log.csv"\nunit = "author"\namount = "views"\npopulation = 5\ninterval = "none"\ncheck = ["gini <= {limit}"]\n'


@pytest.fixture
def build(tmp_path):
    """A folder with a log and a plan, and evenhand as a command, as in a build."""
    (tmp_path / "log.csv").write_text("author,views\nana,7\nbo,2\ncy,1\n", encoding="utf-8")
    (tmp_path / "plan.toml").write_text(PLAN.format(limit=0.9), encoding="utf-8")
    (tmp_path / "strict.plan.toml").write_text(PLAN.format(limit=0.1), encoding="utf-8")
    command = tmp_path / "bin" / "evenhand"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m evenhand "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    places = {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}

    def run(*words, **variables):
        environment = {**os.environ, **places, **variables}
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def audit_step():
    (step,) = [s for s in yaml.safe_load(text("action.yml"))["runs"]["steps"] if s.get("id") == "audit"]
    return step


@pytest.mark.parametrize(("plan", "code"), [("plan.toml", "0"), ("strict.plan.toml", "1"), ("nowhere.toml", "2")])
def test_the_action_runs_a_plan_and_ends_as_evenhand_does(build, tmp_path, plan, code):
    inputs = yaml.safe_load(text("action.yml"))["inputs"]
    step = audit_step()
    values = {
        "plan": plan,
        "options": "--inconclusive estimate --format csv",
        "history": "h.parquet",
        "at": "2026-11-16",
    }
    variables = {
        name: values.get(word, inputs[word].get("default", ""))
        for name, word in re.findall(r"(\w+): \$\{\{ inputs\.(\w+) \}\}", yaml.dump(step["env"]))
    }
    files = {"GITHUB_STEP_SUMMARY": "summary.md", "GITHUB_OUTPUT": "output"}
    done = build("bash", "-e", "-o", "pipefail", "-c", step["run"], **variables, **files)
    assert done.returncode == int(code), done.stderr
    assert (tmp_path / "output").read_text(encoding="utf-8") == f"code={code}\n"
    assert ("gini" in done.stdout) == (code != "2")
    assert (tmp_path / "evenhand.xml").exists() == (code != "2")
    assert (tmp_path / "summary.md").exists() == (code != "2")


def test_inputs_of_the_action_never_become_text_of_its_script():
    assert "${{" not in audit_step()["run"]


def test_the_hook_refuses_plans_that_cannot_be_run_and_reads_no_data(build, tmp_path):
    (hook,) = yaml.safe_load(text(".pre-commit-hooks.yaml"))
    (tmp_path / "log.csv").unlink()
    good = ["plan.toml", "strict.plan.toml"]
    assert all(re.search(hook["files"], name) for name in good)
    assert build(*hook["entry"].split(), *good).returncode == 0
    (tmp_path / "wrong.plan.toml").write_text(PLAN.replace("amount", "amout"), encoding="utf-8")
    (tmp_path / "rule.plan.toml").write_text(PLAN.replace("gini <= {limit}", "gini at most 1"), encoding="utf-8")
    done = build(*hook["entry"].split(), *good, "wrong.plan.toml", "rule.plan.toml")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert [name for name in ("wrong", "rule") if any(f"{name}.plan.toml" in line for line in lines)] == [
        "wrong",
        "rule",
    ]
    assert "Did you mean 'amount'?" in done.stderr


def test_a_plan_whose_variables_come_from_the_command_line_passes_the_hook(build, tmp_path):
    (tmp_path / "dated.plan.toml").write_text(
        PLAN.format(limit=0.9).replace("log.csv", "${SHOP}/${DATE}.csv"), encoding="utf-8"
    )
    assert build("evenhand", "plan", "--check", "dated.plan.toml").returncode == 0


def test_the_function_drafted_for_recommenders_gives_the_gini_index_of_the_kit():
    (code,) = re.findall(r"```python\n(.*?)```", text("docs/upstream/recommenders.md"), re.DOTALL)
    scope = {}
    exec(compile(code, "recommenders.md", "exec"), scope)
    for amounts, exact in [([0, 0, 0, 10], 3 / 4), ([1, 2, 3, 4, 10], 2 / 5), ([7, 7, 7], 0)]:
        catalogue = pd.DataFrame({"itemID": range(len(amounts))})
        shown = pd.DataFrame({"itemID": [item for item, count in enumerate(amounts) for _ in range(count)]})
        assert scope["item_gini"](catalogue, shown) == pytest.approx(exact)

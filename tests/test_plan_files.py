"""Plans: several audits and outputs, variables, days that are walked, gates, and plans made from commands."""

import datetime as dt
import functools
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits.declare import AUDITS, names
from evenhand.cli import main
from evenhand.cli.plan import ANSWER_KEYS, PLAN_KEYS, days, load, schema_text
from test_plans import CALLS

DAY = dt.date(2026, 11, 1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A log in a file per day, and a plan that reads the file of its day."""
    rng = np.random.default_rng(0)
    (tmp_path / "log").mkdir()
    for i in range(4):
        views = rng.poisson(3, 60)
        table = pl.DataFrame({"author": range(60), "source": ["home", "search"] * 30, "views": views})
        table.write_parquet(tmp_path / "log" / f"{DAY + dt.timedelta(i)}.parquet")
    write(tmp_path, "plan.toml", PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


PLAN = """
audit = "inequality"
table = "log/${DATE}.parquet"
unit = "author"
amount = "views"
population = "none"
metrics = ["gini"]
interval = "normal"
rng = 1
"""


def write(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")


def run(*words):
    return main(["run", *map(str, words), "--no-progress"])


def test_the_day_fills_in_the_variables(folder, capsys):
    assert run("plan.toml", "--at", "2026-11-02", "--format", "json") == 0
    plan = json.loads(capsys.readouterr().out)["provenance"]["plan"]
    assert plan["table"] == "log/2026-11-02.parquet"
    write(folder, "parts.toml", PLAN.replace("${DATE}", "${YEAR}-${MONTH}-${DAY}"))
    assert run("parts.toml", "--at", "2026-11-02", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["provenance"]["plan"]["table"] == "log/2026-11-02.parquet"


def test_variables_come_from_the_plan_or_the_command(folder, capsys):
    write(
        folder, "v.toml", PLAN.replace('"none"', '"${EVERYONE}"') + '[variables]\nEVERYONE = 70\nDATE = "2026-11-01"\n'
    )
    assert run("v.toml", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["columns"]["units"] == [70]
    assert run("v.toml", "--set", "EVERYONE=80", "--at", "2026-11-03", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns"]["units"] == [80]
    assert found["provenance"]["plan"]["table"] == "log/2026-11-03.parquet"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "uses ${DATE}, which has no value. Pass --at 2026-11-16"),
        (["--at", "yesterday"], "at='yesterday' is not a date"),
        (["--set", "DATE"], "--set 'DATE' is not NAME=VALUE"),
        (["--at", "2026-11-01", "--history", "h.parquet", "--each", "day"], "Leave one"),
        (["--each", "day"], "Add --history FILE"),
        (["--at", "2026-11-01", "--since", "2026-11-01"], "Add --each day"),
        (["--set", "DATE=2026-11-01", "--history", "h.parquet"], "Add --at 2026-11-16"),
        (["--at", "2026-11-01", "--baseline", "none.json", "--check", "gini <= baseline"], "'none.json' cannot be read"),
        (["--at", "2026-11-01", "--junit", "no/such/folder.xml"], "cannot be written"),
        (["--at", "2026-11-01", "--history", "log/2026-11-01.parquet"], "is not a history"),
    ],
)  # fmt: skip
def test_a_command_that_lacks_something_says_what(folder, capsys, words, said):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert run("plan.toml", *words) == 2
    told = capsys.readouterr()
    assert said in told.err.replace("--at, --output, --html and --plot are for one", "Leave one")
    assert told.out == ""
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


SEVERAL = """
table = "log/${DATE}.parquet"
unit = "author"
amount = "views"
population = "none"
interval = "normal"
rng = 1
history = "reach.parquet"
junit = "checks.xml"

[[audits]]
audit = "inequality"
name = "reach"
by = "source"
metrics = ["gini", "top_share(p=0.1)"]
check = ["gini <= 0.9", "top_share(p=0.1) <= 20%"]
outputs = ["reach-${DATE}.html", "reach.csv", "reach.json", "reach.prom", "reach.md"]
plot = "lorenz=curve.svg"

[[audits]]
audit = "decompose"
group = "source"
"""


def test_several_audits_and_outputs_in_one_plan(folder, capsys):
    write(folder, "several.toml", SEVERAL)
    assert run("several.toml", "--at", "2026-11-02", "--inconclusive", "fail") == 1
    told = capsys.readouterr()
    assert told.out.index("How unevenly is it spread?") < told.out.index("within groups or between them?")
    wanted = [
        "reach-2026-11-02.html",
        "reach.csv",
        "reach.json",
        "reach.prom",
        "reach.md",
        "curve.svg",
        "reach.parquet",
        "checks.xml",
    ]
    assert all((folder / name).is_file() for name in wanted)
    assert eh.read.result(folder / "reach.json").findings.audit == "inequality"
    assert set(eh.history("reach.parquet").frame["audit"]) == {"inequality", "decompose"}
    suites = ET.fromstring((folder / "checks.xml").read_text()).findall("testsuite")
    assert [suite.get("name") for suite in suites] == ["reach 2026-11-02", "decompose 2026-11-02"]


@pytest.mark.parametrize("format", ["table", "markdown", "jsonl", "openmetrics", "grafana"])
def test_several_answers_are_told_together(folder, capsys, format):
    write(folder, "several.toml", SEVERAL.replace('check = ["gini <= 0.9", "top_share(p=0.1) <= 20%"]', ""))
    assert run("several.toml", "--at", "2026-11-02", "--format", format) == 0
    told = capsys.readouterr().out
    assert "gini" in told.lower()
    assert "within" in told.lower()
    assert told.count("# EOF") == (format == "openmetrics")


@pytest.mark.parametrize(
    "words", [["--format", "csv"], ["--format", "json"], ["--html", "x.html"], ["--plot", "lorenz=x.svg"]]
)
def test_what_holds_one_answer_is_refused_for_several(folder, capsys, words):
    write(folder, "several.toml", SEVERAL)
    assert run("several.toml", "--at", "2026-11-02", *words) == 2
    assert "Give each its outputs in the plan" in capsys.readouterr().err
    assert not (folder / "reach.parquet").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("unit =", "untis ="), "Did you mean 'unit'?"),
        (("metrics = [", "metric = ["), "Did you mean 'metrics'?"),
        (("rng = 1", 'chek = ["gini <= 1"]'), "Did you mean 'check'?"),
        (("rng = 1", 'histori = "x.parquet"'), "Did you mean 'history'?"),
        (('audit = "inequality"', 'audit = "inequalty"'), "Did you mean 'inequality'?"),
        (('audit = "inequality"', ""), "does not say which audit to run"),
        (('unit = "author"\n', ""), "lacks unit"),
        (("rng = 1", "check = 3"), "check=3 is not a list of strings"),
        (("rng = 1", "history = 3"), "history=3 is not a string"),
        (("rng = 1", 'outputs = ["x.docx"]'), "has an unknown file ending"),
        (("rng = 1", "audits = 3"), "Write each audit below a line [[audits]]"),
        (("rng = 1", "variables = 3"), "Write [variables]"),
        (("rng = 1", 'inconclusive = "maybe"'), "inconclusive='maybe'"),
        (("${DATE}", "${DTAE}"), "uses ${DTAE}, which has no value. Did you mean 'DATE'?"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_plan_is_told_with_the_nearest_name(folder, capsys, change, said):
    write(folder, "bad.toml", PLAN.replace(*change))
    assert run("bad.toml", "--at", "2026-11-01") == 2
    assert said in capsys.readouterr().err


def test_no_parameter_of_an_audit_is_called_like_a_key_of_whole_plans():
    for name in names():
        assert not set(AUDITS[name].parameters) & {*PLAN_KEYS, *ANSWER_KEYS, "audit"} - {"baseline"}, name


def test_all_days_are_walked_once(folder, capsys):
    assert run("plan.toml", "--history", "h.parquet", "--each", "day") == 0
    assert "added 4 days to h.parquet; 0 were already there" in capsys.readouterr().err
    assert eh.history("h.parquet").frame["at"].to_list() == [DAY + dt.timedelta(i) for i in range(4)]
    before = (folder / "h.parquet").read_bytes()
    assert run("plan.toml", "--history", "h.parquet", "--each", "day") == 0
    assert "added 0 days to h.parquet; 4 were already there" in capsys.readouterr().err
    assert (folder / "h.parquet").read_bytes() == before


def test_a_walk_goes_on_where_it_stopped(folder, capsys):
    bad = folder / "log" / "2026-11-03.parquet"
    good = bad.read_bytes()
    bad.write_text("not parquet")
    assert run("plan.toml", "--history", "h.parquet", "--each", "day") == 2
    assert eh.history("h.parquet").frame["at"].to_list() == [DAY, DAY + dt.timedelta(1)]
    bad.write_bytes(good)
    assert main(["run", "plan.toml", "--history", "h.parquet", "--each", "day"]) == 0
    told = capsys.readouterr().err
    assert "2026-11-03: added (1 of 2)" in told
    assert eh.history("h.parquet").frame.height == 4


def test_a_walk_from_elsewhere_asks_the_same_plan(folder, monkeypatch, capsys):
    assert run("plan.toml", "--history", "h.parquet", "--each", "day") == 0
    monkeypatch.chdir("/")
    assert run(folder / "plan.toml", "--history", folder / "h.parquet", "--each", "day") == 0
    assert "4 were already there" in capsys.readouterr().err
    result = eh.inequality(
        str(folder / "log/2026-11-01.parquet"),
        unit="author",
        amount="views",
        population=None,
        metrics="gini",
        interval="normal",
        rng=1,
    )
    monkeypatch.chdir(folder)
    same = eh.inequality(
        "log/2026-11-01.parquet",
        unit="author",
        amount="views",
        population=None,
        metrics=["gini"],
        interval="normal",
        rng=2,
    )
    plans = set(eh.history("h.parquet").frame["plan"])
    assert plans == {same.provenance["plan_hash"]}
    assert result.provenance["plan_hash"] not in plans


def test_a_walk_can_be_bounded_and_its_checks_count_for_every_day(folder, capsys):
    words = ["--history", "h.parquet", "--each", "day", "--since", "2026-11-02", "--until", "2026-11-03"]
    assert run("plan.toml", *words, "--check", "gini <= 0.1", "--junit", "c.xml", "--summary", "s.md") == 1
    assert eh.history("h.parquet").frame.height == 2
    suites = ET.fromstring((folder / "c.xml").read_text()).findall("testsuite")
    assert [s.get("name") for s in suites] == ["inequality 2026-11-02", "inequality 2026-11-03"]
    assert (folder / "s.md").read_text().count("**1 of 1 checks failed.**") == 2


@pytest.mark.parametrize(
    ("pattern", "made"),
    [
        ("day=${DATE}/*.parquet", ["day=2026-11-01/a.parquet", "day=2026-11-01/b.parquet", "day=2026-11-02/a.parquet", "day=x/a.parquet"]),
        ("${YEAR}/${MONTH}/${DAY}.parquet", ["2026/11/01.parquet", "2026/11/02.parquet", "2026/11/xx.parquet", "2026/02/31.parquet"]),
        ("${DATE}/log-${DATE}.csv.gz", ["2026-11-01/log-2026-11-01.csv.gz", "2026-11-02/log-2026-11-02.csv.gz", "2026-11-02/log-2026-11-03.csv.gz"]),
        ("${WHERE}/**/${DATE}.csv", ["eu/a/b/2026-11-01.csv", "eu/2026-11-02.csv", "us/2026-11-03.csv"]),
    ],
)  # fmt: skip
def test_days_are_found_in_the_paths_of_a_partitioned_log(tmp_path, pattern, made):
    for name in made:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    write(tmp_path, "p.toml", f'audit = "inequality"\ntable = "{pattern}"\noutputs = ["${{WHERE}}-${{DATE}}.csv"]\n')
    found = days(tmp_path / "p.toml", load(tmp_path / "p.toml"), {"WHERE": "eu"})
    assert found == [DAY, DAY + dt.timedelta(1)]


def test_days_that_one_of_several_tables_lacks_are_left_out(tmp_path):
    for name in ("log/2026-11-01.csv", "log/2026-11-02.csv", "everyone/2026-11-02.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    plan = (
        'population = "everyone/${DATE}.csv"\n[[audits]]\naudit = "inequality"\ntable = "log/${DATE}.csv"\nunit = "a"\n'
    )
    write(tmp_path, "p.toml", plan)
    assert days(tmp_path / "p.toml", load(tmp_path / "p.toml"), {}) == [dt.date(2026, 11, 2)]


@pytest.mark.slow
def test_a_walk_that_is_killed_again_and_again_gets_there(folder):
    rng = np.random.default_rng(4)
    for i in range(4, 20):
        shutil.copy(folder / "log" / "2026-11-01.parquet", folder / "log" / f"{DAY + dt.timedelta(i)}.parquet")
    command = [sys.executable, "-m", "evenhand", "run", "plan.toml", "--history", "h.parquet", "--each", "day"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(4):
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while "added" not in (line := process.stderr.readline()):
            assert line, "ended before a day was added"
        time.sleep(float(rng.uniform(0, 0.2)))
        process.kill()
        process.communicate()
        assert pl.read_parquet(folder / "h.parquet")["at"].is_unique().all()
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert eh.history(folder / "h.parquet").frame["at"].to_list() == [DAY + dt.timedelta(i) for i in range(20)]


def test_a_plan_without_days_cannot_be_walked(folder, capsys):
    write(folder, "one.toml", PLAN.replace("${DATE}", "2026-11-01"))
    assert run("one.toml", "--history", "h.parquet", "--each", "day") == 2
    assert "reads no dated file" in capsys.readouterr().err


def test_the_same_day_again_is_refused_when_the_numbers_differ(folder, capsys):
    words = ["plan.toml", "--history", "h.parquet", "--at", "2026-11-01"]
    assert run(*words) == 0
    assert run(*words) == 0
    shutil.copy(folder / "log" / "2026-11-02.parquet", folder / "log" / "2026-11-01.parquet")
    before = eh.history("h.parquet").frame["estimate"].to_list()
    capsys.readouterr()
    assert run(*words) == 2
    told = capsys.readouterr()
    assert "holds other numbers for 2026-11-01 and this plan. Add --replace" in told.err
    assert told.out == ""
    assert run(*words, "--replace") == 0
    assert eh.history("h.parquet").frame["estimate"].to_list() != before


def test_an_audit_verb_keeps_a_history_too(folder):
    words = ["inequality", "log/2026-11-01.parquet", "--unit", "author", "--amount", "views", "--population", "none"]
    assert (
        main(
            [
                *words,
                "-m",
                "gini",
                "--interval",
                "normal",
                "--history",
                "h.parquet",
                "--at",
                "2026-11-01",
                "--no-progress",
            ]
        )
        == 0
    )
    assert run("plan.toml", "--history", "h.parquet", "--each", "day") == 0
    assert eh.history("h.parquet").frame["plan"].n_unique() == 1
    assert eh.history("h.parquet").frame.height == 4


def test_a_gate_against_the_last_result(folder, capsys):
    assert run("plan.toml", "--at", "2026-11-01", "--format", "json", "--output", "last.json") == 0
    rule = ["--baseline", "last.json", "--check"]
    assert run("plan.toml", "--at", "2026-11-02", *rule, "gini <= baseline + 0.5") == 0
    capsys.readouterr()
    assert run("plan.toml", "--at", "2026-11-02", *rule, "gini <= baseline - 0.2") == 1
    assert "FAIL: gini <= baseline - 0.2: 0." in capsys.readouterr().err
    write(folder, "gate.toml", PLAN + 'baseline = "last.json"\ncheck = "gini <= baseline - 0.2"\n')
    assert run("gate.toml", "--at", "2026-11-02") == 1


@pytest.mark.parametrize(("how", "code"), [([], 0), (["--inconclusive", "pass"], 0), (["--inconclusive", "fail"], 1)])
def test_what_the_data_leave_open_is_decided_by_choice(folder, capsys, how, code):
    assert run("plan.toml", "--at", "2026-11-01", "--format", "json") == 0
    high = json.loads(capsys.readouterr().out)["columns"]["estimate"][0] + 0.001
    assert run("plan.toml", "--at", "2026-11-01", "--check", f"gini <= {high}", *how) == code
    told = capsys.readouterr().err
    assert "the interval includes the bound" in told
    assert ("1 check is inconclusive" in told and "--inconclusive pass or fail" in told) is (not how)


def test_the_summary_of_a_build_step_is_added_to(folder, monkeypatch):
    write(folder, "step.md", "before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "step.md"))
    assert run("plan.toml", "--at", "2026-11-01", "--summary", "step.md", "--check", "gini <= 0.9") == 0
    assert run("plan.toml", "--at", "2026-11-01", "--summary", "other.md") == 0
    assert run("plan.toml", "--at", "2026-11-01", "--summary", "other.md") == 0
    assert (folder / "step.md").read_text().startswith("before\n## inequality 2026-11-01: How unevenly")
    assert (folder / "other.md").read_text().count("## ") == 1


COMMANDS = {
    "inequality": "inequality log/2026-11-01.parquet --unit author --amount views --population none --by source -m gini -m 'top_share(p=0.1)' --seed 3",
    "sizes": "inequality log/2026-11-01.parquet --unit author --amount views --population home=70,search=80 --by source --interval none",
    "decompose": "decompose log/2026-11-01.parquet --unit author --amount views --population none --group source --interval percentile(29) --seed 1",
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_plan_made_from_a_command_gives_its_answer(folder, capsys, words):
    typed = [w.strip("'") for w in words.split()]
    assert main([*typed, "--format", "json", "--no-progress"]) == 0
    answer = json.loads(capsys.readouterr().out)["columns"]
    assert main(["plan", *typed]) == 0
    write(folder, "made.toml", capsys.readouterr().out)
    assert run("made.toml", "--format", "json") == 0
    again = json.loads(capsys.readouterr().out)["columns"]
    if "--seed" not in typed:
        assert "rng" not in tomllib.loads((folder / "made.toml").read_text())
    assert again == answer


def test_a_plan_made_from_a_command_does_what_it_does(folder, capsys):
    words = [
        "plan",
        "inequality",
        "log/${DATE}.parquet",
        "--unit",
        "author",
        "--population",
        "none",
        "--check",
        "gini <= 1",
        "--html",
        "r.html",
    ]
    assert main([*words, "--history", "h.parquet"]) == 0
    write(folder, "made.toml", capsys.readouterr().out)
    assert run("made.toml", "--at", "2026-11-01") == 0
    assert (folder / "r.html").is_file()
    assert eh.history("h.parquet").frame.height == 4  # 60 units: no top 1%


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs a command"),
        (["metrics"], "'metrics' is not an audit"),
        (["inequality", "x.csv", "--unit", "a"], "--population"),
    ],
)
def test_a_command_that_makes_no_plan_says_why(capsys, words, said):
    try:
        code = main(["plan", *words])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_the_shipped_schema_is_up_to_date(capsys):
    shipped = Path(eh.__file__).with_name("plan.schema.json").read_text(encoding="utf-8")
    assert shipped == schema_text(), "run: python docs/generate.py"
    assert main(["plan", "--schema"]) == 0
    assert capsys.readouterr().out == schema_text()


@functools.cache
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft7Validator(json.loads(schema_text()))


@pytest.mark.parametrize(
    "plan", [PLAN, SEVERAL, PLAN + "[variables]\nX = 3\n", PLAN.replace("rng = 1", 'rng = "${SEED}"\nlevel = 0.9')]
)
def test_good_plans_fit_the_schema(plan):
    assert [e.message for e in validator().iter_errors(tomllib.loads(plan))] == []


@pytest.mark.parametrize(("name", "call"), [(name, call) for name, calls in CALLS.items() for call in calls])
def test_whatever_audits_are_asked_in_the_tests_fits_the_schema(name, call):
    plan = {"audit": name, **{k: "none" if v is None else v for k, v in call.items()}}
    assert [e.message for e in validator().iter_errors(plan)] == []


@pytest.mark.parametrize(
    "change",
    [
        ("unit =", "units ="),
        ('unit = "author"\n', ""),
        ("rng = 1", "chekc = 'x'"),
    ],
)
def test_bad_plans_do_not_fit_the_schema(change):
    assert not validator().is_valid(tomllib.loads(PLAN.replace(*change)))


def test_the_trend_and_the_alarms_from_the_command_line(folder, capsys):
    assert run("plan.toml", "--history", "h.parquet", "--each", "day") == 0
    capsys.readouterr()
    assert main(["history", "h.parquet", "--html", "trend.html", "--format", "csv", "--no-progress"]) == 0
    assert capsys.readouterr().out.startswith("at,metric,")
    assert "What changed, and when?" in (folder / "trend.html").read_text()
    assert main(["history", "h.parquet", "--alarm", "0.01"]) == 0
    assert "No alarm" in capsys.readouterr().out
    assert main(["history", "h.parquet", "--alarm", "--format", "csv", "--html", "trend.html"]) == 0
    assert capsys.readouterr().out.splitlines() == ["metric,group,at,since,before,after,deviations,plan,until"]
    assert main(["history", "h.parquet", "--format", "openmetrics"]) == 0
    assert capsys.readouterr().out.endswith("# EOF\n")
    assert main(["history", "h.parquet", "--plot", "trend=trend.svg", "--no-progress"]) == 0
    assert (folder / "trend.svg").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [(["none.parquet"], "does not exist"), (["log/2026-11-01.parquet"], "is not a history"), (["h.parquet", "--alarm", "2"], "between 0 and 1")],
)  # fmt: skip
def test_a_history_that_cannot_be_told_is_refused(folder, capsys, words, said):
    assert run("plan.toml", "--history", "h.parquet", "--each", "day") == 0
    assert main(["history", *words]) == 2
    assert said in capsys.readouterr().err


MAKEFILE = """
check:
\t{python} -m evenhand run plan.toml --at $(DAY) --baseline last.json --junit checks.xml --summary summary.md --no-progress > answer.txt

build: check
\ttouch built
"""


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("git") and shutil.which("make")), reason="needs git and make")
def test_the_build_of_a_scratch_repository_is_stopped_by_a_gate(folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]

    def shell(*words):
        return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)

    assert run("plan.toml", "--at", "2026-11-01", "--format", "json", "--output", "last.json") == 0
    write(folder, "plan.toml", PLAN + 'check = ["gini <= baseline + 0.05", "gini <= 0.9"]\ninconclusive = "estimate"\n')
    write(folder, "Makefile", MAKEFILE.format(python=sys.executable))
    shell("git", "init", "-q")
    shell("git", "add", "-A")
    assert shell("git", *who, "commit", "-qm", "a plan").returncode == 0
    good = shell("make", "build", "DAY=2026-11-01")
    assert good.returncode == 0, good.stderr
    assert (folder / "built").exists()
    (folder / "built").unlink()
    skewed = pl.DataFrame({"author": range(60), "source": ["home", "search"] * 30, "views": [1] * 59 + [5_000]})
    skewed.write_parquet(folder / "log" / "2026-11-02.parquet")
    shell("git", *who, "commit", "-qam", "a day on which one author gets it all")
    bad = shell("make", "build", "DAY=2026-11-02")
    assert bad.returncode == 2  # make's own, for a recipe that ended with 1
    assert "Error 1" in bad.stderr
    assert not (folder / "built").exists()
    assert ET.fromstring((folder / "checks.xml").read_text()).get("failures") == "2"
    assert "**2 of 2 checks failed.**" in (folder / "summary.md").read_text()

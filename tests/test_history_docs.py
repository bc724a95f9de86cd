"""docs/history.md and docs/scheduled.md: plans and commands run as printed, in order, and the files to copy do their work."""

import datetime as dt
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

import evenhand as eh
from evenhand.cli import main

DOCS = Path(__file__).parents[1] / "docs"
HISTORY, SCHEDULED = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("history", "scheduled"))
DAY = dt.date(2026, 9, 7)


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def named(page, language):
    """The files of a page: each block's first comment is its name."""
    return {re.search(r"^# ([\w./-]+)", text, re.MULTILINE)[1]: text for text in blocks(page, language)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "log").mkdir()
    for i in range(70):
        table = pl.DataFrame({"author": range(40), "source": ["home", "search"] * 20, "views": rng.poisson(5, 40)})
        table.write_parquet(tmp_path / "log" / f"{DAY + dt.timedelta(i)}.parquet")
    return tmp_path


def test_plans_and_commands_of_the_page_run_in_order(folder, capsys):
    for name, text in named(HISTORY, "toml").items():
        (folder / name).write_text(text)
    commands = re.findall(r"^    (evenhand .*)$", HISTORY, re.MULTILINE)
    assert len(commands) >= 10
    for command in commands:
        words, _, target = command.partition(" > ")
        code = main([*shlex.split(words)[1:]] + (["--no-progress"] if " plan " not in words else []))
        told = capsys.readouterr()
        assert code == 0, (command, told.err)
        if target:
            (folder / target).write_text(told.out)
    for made in (
        "reach.parquet",
        "trend.html",
        "checks.xml",
        "summary.md",
        "reach.prom",
        "dashboard.json",
        "several.parquet",
        "parts.csv",
    ):
        assert (folder / made).is_file(), made
    assert eh.history("reach.parquet").frame["at"].n_unique() == 70
    assert main(["run", "made.toml", "--at", "2026-09-10", "--no-progress"]) == 0


@pytest.mark.slow
def test_the_script_for_cron_does_its_work_and_hands_on_the_exit_code(folder):
    (folder / "plan.toml").write_text(named(SCHEDULED, "toml")["plan.toml"])
    (folder / "daily.sh").write_text(named(SCHEDULED, "sh")["daily.sh"])
    (folder / "daily.sh").chmod(0o755)
    tool = folder / "bin" / "evenhand"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m evenhand "$@"\n')
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}",
    }

    def daily(day):
        return subprocess.run([folder / "daily.sh", day], env=environment, cwd="/", capture_output=True, text=True)

    good = daily("2026-09-08")
    assert good.returncode == 0, good.stderr
    assert "No alarm" in (folder / "alarms.txt").read_text()
    assert (folder / "reach.prom").read_text().endswith("# EOF\n")
    (folder / "plan.toml").write_text((folder / "plan.toml").read_text().replace("gini <= 0.9", "gini <= 0.01"))
    assert daily("2026-09-09").returncode == 1
    assert eh.history(folder / "reach.parquet").frame["at"].n_unique() == 2
    assert daily("2026-01-01").returncode == 2


def test_the_workflow_gives_the_action_inputs_that_it_has_and_commands_that_run(folder, capsys):
    (folder / "plan.toml").write_text(named(SCHEDULED, "toml")["plan.toml"])
    steps = yaml.safe_load(blocks(SCHEDULED, "yaml")[0])["jobs"]["audit"]["steps"]
    (given,) = [step["with"] for step in steps if step.get("uses") == "./evenhand"]
    action = yaml.safe_load((DOCS.parent / "action.yml").read_text(encoding="utf-8"))
    assert set(given) <= set(action["inputs"])
    options = [f"--{name}={given[name]}" for name in ("history", "junit")]
    assert main(["run", given["plan"], "--at", "2026-09-08", *options]) == 0, capsys.readouterr().err
    (trend,) = [step["run"] for step in steps if "evenhand history" in step.get("run", "")]
    assert main(shlex.split(trend)[1:]) == 0, capsys.readouterr().err
    for made in steps[-1]["with"]["path"].split():
        assert (folder / made).is_file(), made


def test_the_tasks_for_airflow_are_commands_that_run(folder, capsys):
    (folder / "plan.toml").write_text(named(SCHEDULED, "toml")["plan.toml"])
    [code] = blocks(SCHEDULED, "python")
    scope = {}
    exec(compile(code, "evenhand_daily.py", "exec"), scope)
    for day in ("2026-09-08", "2026-09-08", "2026-09-09"):
        for command in (scope["AUDIT"], scope["TREND"]):
            assert main(shlex.split(command.replace("{{ ds }}", day))[1:]) == 0, capsys.readouterr().err
    assert eh.history("reach.parquet").frame["at"].n_unique() == 2

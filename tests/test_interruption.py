"""Interrupting a run, however rudely, never leaves half a file behind, nor spoils the one that was there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.report import files

LONG = "bootstrap(200000)"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
WORK = pytest.mark.parametrize("how", list(CODES), ids=lambda how: how.name)


def start(folder, *words):
    """A run that takes far longer than the test waits."""
    path = folder / "log.parquet"
    if not path.exists():
        rng = np.random.default_rng(0)
        pl.DataFrame({"author": np.arange(20_000), "views": rng.integers(0, 9_000, 20_000)}).write_parquet(path)
    command = [
        sys.executable,
        "-m",
        "evenhand",
        "inequality",
        str(path),
        "--unit",
        "author",
        "--amount",
        "views",
        "--population",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [*command, "none", "--interval", LONG, "-m", "percentile_ratio", "--seed", "1", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def wait_until_it_measures(process):
    for line in process.stderr:
        if "measuring" in line:
            return
    raise AssertionError(f"ended early with code {process.wait()}")


@pytest.mark.slow
@WORK
def test_an_interrupted_run_leaves_nothing_behind_and_keeps_the_answer_of_the_last_one(how, tmp_path):
    (tmp_path / "out.csv").write_text("the last answer\n")
    outputs = ["--output", str(tmp_path / "out.csv"), "--format", "csv", "--html", str(tmp_path / "out.html")]
    process = start(tmp_path, *outputs, "--plot", f"lorenz={tmp_path / 'curve.svg'}")
    wait_until_it_measures(process)
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    assert process.returncode == CODES[how]
    assert out == ""
    assert "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.parquet", "out.csv"]
    assert (tmp_path / "out.csv").read_text() == "the last answer\n"


def test_an_interruption_says_what_was_written(tmp_path, capsys, monkeypatch):
    log, curve = tmp_path / "log.csv", tmp_path / "curve.svg"
    log.write_text("author,views\na,1\nb,3\nc,9\n")
    monkeypatch.setattr(files, "WRITTEN", [])

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(eh.Result, "report", interrupted)
    words = [
        "inequality",
        str(log),
        "--unit",
        "author",
        "--amount",
        "views",
        "--population",
        "none",
        "--interval",
        "none",
    ]
    assert main([*words, "--plot", f"lorenz={curve}", "--html", str(tmp_path / "out.html")]) == 130
    assert f"interrupted; {curve} had been written, nothing else." in capsys.readouterr().err


WRITER = """
import itertools, sys
from evenhand.report.files import write_whole
for turn in itertools.cycle("ab"):
    write_whole(sys.argv[1], turn * 3_000_000)
    print("written", flush=True)
"""


@pytest.mark.slow
@WORK
def test_a_file_is_whole_at_whatever_moment_its_writer_dies(how, tmp_path):
    target = tmp_path / "report.html"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    rng = np.random.default_rng(3)
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(target)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        process.stdout.readline()  # one whole file is there
        time.sleep(float(rng.uniform(0, 0.05)))
        process.send_signal(how)
        process.communicate(timeout=60)
        written = target.read_text()
        assert written in ("a" * 3_000_000, "b" * 3_000_000)


def test_a_reader_never_sees_half_of_a_file_that_is_being_replaced(tmp_path):
    target = tmp_path / "report.html"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    process.stdout.readline()
    try:
        seen = {target.read_text()[:1] + str(len(target.read_text())) for _ in range(60)}
    finally:
        process.kill()
        process.communicate()
    assert seen <= {"a3000000", "b3000000"}

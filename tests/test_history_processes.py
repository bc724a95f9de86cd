"""Real processes that write one history: killed at any moment, or two at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from io import BytesIO

import numpy as np
import polars as pl
import pytest

import evenhand as eh

WRITER = """
import sys, datetime as dt
import evenhand as eh
from evenhand.findings import Findings, row, tidy
from evenhand.results import Result

path, who, days = sys.argv[1], sys.argv[2], int(sys.argv[3])
kept = eh.history(path)
for i in range(days):
    rows = [row({"slice": f"s{j}"}, "gini", estimate=i + j / 1000) for j in range(200)]
    plan = {"plan": {"audit": "inequality", "who": who}}
    kept.append(Result(Findings("inequality", "?", ("slice",), tidy(rows, ["slice"]), provenance=plan)), at=dt.date(2020, 1, 1) + dt.timedelta(i))
    print(i, flush=True)
"""
ROWS = 200


def start(path, who="a", days=4000):
    """A writer; what it has done it tells in a file, line by line."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(path), who, str(days)]
    with (path.parent / f"{who}.told").open("w") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True, env=environment)


def told(path, who="a"):
    return len((path.parent / f"{who}.told").read_text().splitlines())


def wait_until_one_is_told(process, path, who="a"):
    while not told(path, who):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def whole(path):
    """The days in the file, each of which must have all of its rows."""
    # From one opening of the file: Polars opens a path twice, and another file may have taken its place in between.
    counts = pl.read_parquet(BytesIO(path.read_bytes())).group_by("plan", "at").agg(pl.len())
    assert counts["len"].unique().to_list() == [ROWS]
    return counts.height


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_a_writer_killed_at_any_moment_leaves_whole_days(how, tmp_path):
    path, rng = tmp_path / "reach.parquet", np.random.default_rng(1)
    done, there = 0, 0
    for turn in range(4):
        process = start(path, who=f"w{turn}")
        wait_until_one_is_told(process, path, f"w{turn}")
        time.sleep(float(rng.uniform(0, 0.3)))
        process.send_signal(how)
        _, err = process.communicate(timeout=60)
        assert "Error" not in err
        done += told(path, f"w{turn}")
        before, there = there, whole(path)
        assert done <= there <= done + turn + 1  # a day that was told is there; the last of each may be there untold
        assert there > before
    eh.history(path).append(eh.read.result(_saved(tmp_path)), at="2026-11-16")
    assert not list(tmp_path.glob(".*.lock"))


def _saved(folder):
    log = pl.DataFrame({"author": ["a", "b"], "views": [1, 3]})
    eh.inequality(log, unit="author", amount="views", population=None, metrics="gini", interval=None).to_json(
        folder / "saved.json"
    )
    return folder / "saved.json"


def test_two_writers_at_once_lose_nothing(tmp_path):
    path = tmp_path / "reach.parquet"
    processes = [start(path, who=who, days=8) for who in "ab"]
    ends = [process.communicate(timeout=240) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ends
    assert whole(path) == 16
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.told", "b.told", "reach.parquet"]


@pytest.mark.slow
def test_a_reader_never_meets_half_a_history(tmp_path):
    path = tmp_path / "reach.parquet"
    process = start(path)
    wait_until_one_is_told(process, path)
    try:
        seen = [whole(path) for _ in range(40)]
    finally:
        process.kill()
        process.communicate()
    assert seen == sorted(seen)

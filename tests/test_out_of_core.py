"""Units that are too many for the engine's memory are spilled to disk, and nothing changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import evenhand as eh

ASKED = ["gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "percentile_ratio"]
PROGRAM = """
import json, sys
import evenhand as eh
call = json.loads(sys.argv[2])
print(json.dumps(eh.inequality(sys.argv[1], **call).to_dict()["columns"]))
"""


def paid(rows: int, unit: type = int) -> pl.DataFrame:
    rng = np.random.default_rng(4)
    who = [unit(i) for i in (rng.integers(0, rows // 3, rows) - 500).tolist()]
    return pl.DataFrame(
        {
            "unit": who,
            "amount": rng.gamma(0.5, size=rows),
            "whole": rng.integers(0, 9, rows),
            "by": rng.choice(["x", "y"], rows),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("amount", ["amount", None])
def test_little_memory_changes_nothing(tmp_path, amount):
    path = tmp_path / "log.parquet"
    paid(1_200_000, str).write_parquet(path)
    call = {
        "unit": "unit",
        "amount": amount,
        "population": None,
        "by": "by",
        "metrics": ASKED,
        "interval": None,
        "rng": 1,
    }
    environment = {**os.environ, "EVENHAND_MEMORY": "90MB"}
    words = [sys.executable, "-c", PROGRAM, str(path), json.dumps(call)]
    cramped = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert cramped.returncode == 0, cramped.stderr
    assert json.loads(cramped.stdout) == json.loads(json.dumps(eh.inequality(path, **call).to_dict()["columns"]))


@pytest.mark.parametrize("amount", ["amount", "whole", None])
@pytest.mark.parametrize("unit", [int, str])
def test_a_file_gives_what_its_frame_gives(tmp_path, amount, unit):
    table = paid(12_000, unit)
    table.write_parquet(tmp_path / "log.parquet", row_group_size=1_000)
    call = {"unit": "unit", "amount": amount, "population": None, "by": "by", "metrics": ASKED, "rng": 1}
    first, second = (eh.inequality(source, **call).frame for source in (table, tmp_path / "log.parquet"))
    for column in ("estimate", "low", "high", "units"):
        assert np.array_equal(first[column], second[column], equal_nan=True)

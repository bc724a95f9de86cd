"""The example in CONTRIBUTING.md is real: it runs as printed and needs nothing else."""

import re
from pathlib import Path

import polars as pl
import pytest

import evenhand as eh
from evenhand import cards

ROOT = Path(__file__).parents[1]


@pytest.fixture
def zero_share():
    block = re.search(r"```python\n(@metric\(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)[1]
    from evenhand.metrics import inequality

    namespace = {**vars(inequality), "__name__": "evenhand.metrics.inequality"}
    exec(block, namespace)
    yield namespace["zero_share"]
    del cards.REGISTRY["zero_share"]


def test_a_metric_takes_one_function_with_its_card_and_nothing_else(zero_share, capsys):
    assert zero_share([0, 0, 0, 10]) == 0.75
    result = eh.inequality(
        pl.DataFrame({"author": list("abcd"), "views": [0, 0, 0, 10]}),
        unit="author", amount="views", population=10, metrics=["zero_share"], interval="bootstrap(99)", rng=1,
    )  # fmt: skip
    row = next(result.findings.rows())
    assert row["estimate"] == pytest.approx(0.9)
    assert row["low"] < 0.9 < row["high"] or row["high"] == pytest.approx(1.0)
    assert result.sentences()[0].startswith("90.0% of authors get no views at all")
    from evenhand.cli import main

    assert main(["metrics", "zero_share"]) == 0
    assert "Share with nothing" in capsys.readouterr().out

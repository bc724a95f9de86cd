"""The rebalance study: known re-rankers beside the frontier, and what would be said if one lay below it."""

from __future__ import annotations

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.studies import rebalance as module
from evenhand.studies.rebalance import METHODS, Market, discounted, running, study


@pytest.fixture(scope="module")
def found():
    return study(size=60, seed=3)


def test_no_setting_lies_below_the_frontier_and_every_method_is_tried(found):
    below = [c for c in found.claims if "no tuned method" in c.statement]
    assert len(below) == len(module.MARKETS)
    assert all(c.holds for c in below)
    assert {row[0] for row in found.tables[0].rows} == {"frontier", *METHODS}


def test_a_method_below_the_frontier_would_be_told(monkeypatch):
    table = eh.synthetic.market(40, 12, providers=6, items=30, rng=1)
    whole = eh.rebalance(
        table, top=10, providers="provider", strength=module.STRENGTHS, holdout=0, interval=None, rng=1
    )
    half = eh.rebalance(table, top=10, providers="provider", strength=module.STRENGTHS, interval=None, rng=1)
    settings = list(module._settings(Market(table), whole))
    wonder = module.Setting("wonder", 0.0, settings[0].ndcg, settings[0].attainable - 0.1, 0.0, 0.01)
    claims = module._claims("made up", whole, half, [*settings, wonder])
    assert claims[0].holds is False
    assert "1 below" in claims[0].measured


def test_methods_that_are_compared_do_what_they_say():
    scores = {"request": [0, 0, 1, 1], "item": [0, 1, 0, 1], "provider": ["x", "y"] * 2, "score": [1.0, 0.9, 1.0, 0.9]}
    market = Market(pl.DataFrame(scores), top=1)
    assert running(market, 0.0)["item"].to_list() == [0, 0]
    assert running(market, 1.0)["item"].to_list() == [0, 1]  # the second request makes up for the first
    assert discounted(market, 1.0)["item"].to_list() == [1, 1]


def test_the_study_runs_on_a_file_and_on_the_command_line(tmp_path, capsys):
    eh.synthetic.market(40, 12, providers=6, items=30, rng=1).write_parquet(tmp_path / "m.parquet")
    assert main(["study", "rebalance", "--data", str(tmp_path / "m.parquet"), "--format", "csv", "--no-progress"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_a_market_of_larger_skew_is_less_even():
    def gini(skew):
        made = eh.synthetic.market(100, 30, skew=skew, rng=2)
        best = made.sort("score", descending=True).group_by("request").head(5)
        counts = best.group_by("provider").len().join(pl.DataFrame({"provider": range(50)}), on="provider", how="right")
        return eh.metrics.gini(counts["len"].fill_null(0).to_list())

    assert gini(2.0) > gini(0.2) + 0.2

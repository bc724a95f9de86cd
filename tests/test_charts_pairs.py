"""Pictures of agreement, of stability and of pairs: the numbers they show, and shapes that are hard to draw."""

import json

import polars as pl
import pytest

import evenhand as eh
from evenhand.report.charts.registry import picture
from evenhand.synthetic import Maker


@pytest.fixture(scope="module")
def made():
    systems = {f"s{i}": Maker(bias=0.4 * i, skill=1 - 0.2 * (i % 3)) for i in range(4)}
    return eh.synthetic.corpus(80, 20, systems=systems, scored=20, rng=1)


@pytest.fixture(scope="module")
def result(made):
    return eh.exposure(
        made.rankings, groups=made.groups, relevance=made.relevance, protected="P", system="system", interval=None,
        metrics=["awrf", "log_dp", "eel"], chance=False,
    )  # fmt: skip


def drawn(found, kind):
    spec = json.dumps(found.plot(kind).to_dict())
    assert "NaN" not in spec
    return spec


def test_the_heat_map_has_every_pair_of_metrics_with_its_tau(result):
    found = eh.agreement(result, rng=1)
    spec = drawn(found, "agreement")
    for tau in found.frame["tau_c"]:
        assert f"{tau:.2f}" in spec
    _, shown = picture(found.findings, None)
    assert "p cannot fall below 0.0833" in shown.note
    assert len(shown.table["tau_c"]) == 6


def test_stability_shows_best_mean_and_worst_place(made):
    found = eh.sensitivity(
        eh.exposure, made.rankings, groups=made.groups, protected="P", system="system", metrics="awrf",
        vary={"attention": ["log", "geometric(stop=0.5)"], "target": ["equal", "population"]},
    )  # fmt: skip
    assert "place, 1 is the fairest" in drawn(found, "stability")
    _, shown = picture(found.findings, "stability")
    assert shown.table["settings"] == [4] * 4


def test_pairs_are_drawn_by_group_and_against_anyone(made):
    found = eh.pairwise(
        made.scores, groups=made.groups, relevance=made.relevance, protected="P", system="system", rng=1
    )
    spec = drawn(found, "pairs")
    assert "anyone" in spec
    assert spec.count('"more relevant item"') >= 4


def test_reports_hold_the_pictures(made, result, tmp_path):
    eh.agreement(result).report(tmp_path / "a.html")
    assert "Which metrics order the systems alike" in (tmp_path / "a.html").read_text()
    pairs = eh.pairwise(made.scores, groups=made.groups, relevance=made.relevance, protected="P", system="system")
    pairs.report(tmp_path / "p.html")
    assert "How often the more relevant item ranks higher" in (tmp_path / "p.html").read_text()
    eh.compare(result, rng=1).report(tmp_path / "c.html")
    eh.sensitivity(
        eh.exposure, made.rankings, groups=made.groups, protected="P", system="system", metrics="awrf",
        vary={"attention": ["log"]},
    ).report(tmp_path / "s.html")  # fmt: skip


def test_a_constant_metric_is_an_empty_square(result):
    from dataclasses import replace

    columns = {k: list(v) for k, v in result.findings.columns.items()}
    columns["estimate"] = [0.1] * len(columns["estimate"])
    flat = eh.agreement(replace(result, findings=replace(result.findings, columns=columns)))
    drawn(flat, "agreement")
    assert "No two metrics" in flat.headline


def test_pairs_need_the_table_of_groups(made):
    found = eh.pairwise(
        made.scores.filter(pl.col("system") == "s0"), groups=made.groups, relevance=made.relevance, protected="P",
        metrics="inter_acc",
    )  # fmt: skip
    with pytest.raises(eh.EvenhandError, match="no accuracy by groups"):
        found.plot("pairs")


def test_figure_1_shows_values_with_arrows_beside_the_agreement():
    rows = [(f"s{s}", q, f"d{(s * q + r) % 7}", r) for s in range(4) for q in range(1, 6) for r in range(1, 5)]
    run = pl.DataFrame(rows, schema=["system", "request", "item", "rank"], orient="row")
    found = eh.exposure(
        run, groups={f"d{i}": "fm"[i % 2] for i in range(7)}, protected="f", system="system", interval=None, chance=False,
        metrics=["awrf", "log_dp", "eer(target='equal')"],
    )  # fmt: skip
    agreed = eh.agreement(found, rng=1)
    assert agreed.kinds == ["agreement", "comparison"]
    drawn = json.dumps(agreed.plot("comparison").to_dict(), ensure_ascii=False)
    assert all(heading in drawn for heading in ("awrf ↓", "log_dp →", "eer(target='equal') ↑"))

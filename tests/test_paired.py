"""Systems on the same requests: the right difference, an honest level, letters that say who can be told apart."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.audits.compare import letters_of
from evenhand.cli import main
from evenhand.intervals.kinds import holm
from evenhand.intervals.requests import MANY, Draws, paired_difference

GROUPS = {i: "f" if i < 8 else "m" for i in range(20)}


def run_of(name, requests, rng, effect=0.0, depth=10):
    scores = rng.normal(size=(requests, 20)) - effect * (np.arange(20) < 8)
    order = np.argsort(-scores, axis=1)[:, :depth]
    return pl.DataFrame({
        "run": [name] * order.size, "request": np.repeat(np.arange(requests), depth), "item": order.reshape(-1),
        "rank": np.tile(np.arange(1, depth + 1), requests),
    })  # fmt: skip


def audit(table, metrics=("awrf", "log_dp"), **more):
    return eh.exposure(
        table, groups=GROUPS, protected="f", system="run", metrics=list(metrics), interval=None, chance=False, **more
    )


def three(seed=0):
    rng = np.random.default_rng(seed)
    return pl.concat([run_of("a", 60, rng), run_of("b", 60, rng), run_of("c", 60, rng, effect=1.5)])


def test_the_difference_is_that_of_the_estimates_for_means_and_for_ratios():
    result = audit(three(), ["awrf", "log_dp", "eed", "fair(p=0.4)", "ndd"])
    found = eh.compare(result, rng=1).frame
    values = {(r["system"], r["metric"]): r["estimate"] for r in result.frame.rows(named=True)}
    assert found.height == 3 * 5
    for r in found.rows(named=True):
        assert r["estimate"] == pytest.approx(values[r["versus"], r["metric"]] - values[r["system"], r["metric"]])
        assert r["low"] <= r["estimate"] <= r["high"]
        assert r["units"] == 60
        assert r["p"] <= r["p_adjusted"] <= 1


def test_a_handicap_is_found_and_like_systems_are_not_told_apart():
    found = eh.compare(audit(three(1)), rng=1)
    rows = {(r["system"], r["versus"], r["metric"]): r for r in found.frame.rows(named=True)}
    assert rows["a", "c", "log_dp"]["p_adjusted"] <= 0.01
    assert rows["a", "c", "log_dp"]["high"] < 0
    table = found.systems()
    assert "log_dp →" in table and "awrf ↓" in table  # noqa: PT018
    held = found.findings.curves["systems"]
    keys = zip(held["system"], held["metric"], strict=True)
    standing = dict(zip(keys, held["letters"], strict=True))
    assert not set(standing["a", "log_dp"]) & set(standing["c", "log_dp"])


def test_p_of_systems_is_adjusted_over_every_row_of_the_answer():
    found = eh.compare(audit(three(1), ["awrf", "log_dp", "eed"]), rng=1).frame
    np.testing.assert_allclose(found["p_adjusted"], holm(found["p"].to_list()), rtol=1e-12)
    least = found.sort("p").row(0, named=True)
    assert least["p_adjusted"] == pytest.approx(min(1.0, 9 * least["p"]))


def test_a_copy_of_a_system_never_differs():
    rng = np.random.default_rng(5)
    one = run_of("a", 30, rng)
    found = eh.compare(audit(pl.concat([one, one.with_columns(run=pl.lit("copy"))])), rng=1).frame
    assert found["p"].to_list() == [1.0] * 2
    assert found["estimate"].to_list() == [0.0] * 2
    assert found["low"].is_nan().all()
    assert found["note"].to_list() == ["no_variation"] * 2


def test_p_is_that_of_the_swapped_systems():
    rng = np.random.default_rng(2)
    a, b = rng.normal(0.4, 1, 12), rng.normal(0, 1, 12)
    sums = [np.stack([x, np.ones(12)], axis=1) for x in (a, b)]
    found = paired_difference(*sums, lambda t: t[..., 0] / t[..., 1], 0.95, Draws(12, 9_999, 1))
    signs = np.array(np.meshgrid(*[[-1, 1]] * 12)).reshape(12, -1).T
    exact = (np.abs(signs @ (a - b)) >= abs((a - b).sum()) - 1e-9).mean()
    assert found.p == pytest.approx(exact, abs=0.015)
    assert found.estimate == pytest.approx((b - a).mean())


def test_many_requests_are_handled_in_blocks_with_the_same_law():
    rng = np.random.default_rng(3)
    sums = [np.stack([rng.normal(m, 1, 3 * MANY), np.ones(3 * MANY)], axis=1) for m in (0.03, 0.0)]
    found = paired_difference(*sums, lambda t: t[..., 0] / t[..., 1], 0.95, Draws(3 * MANY, 499, 1))
    error = math.sqrt(2 / (3 * MANY))
    assert (found.high - found.low) / (2 * 1.96 * error) == pytest.approx(1, abs=0.15)


@pytest.mark.slow
def test_two_random_rankers_are_told_apart_at_the_nominal_rate():
    """400 worlds of two random rankers, all in one call: the rate is known to three points either way."""
    rng = np.random.default_rng(7)
    worlds, requests = 400, 20
    table = pl.concat([run_of(name, worlds * requests, rng, depth=6) for name in "ab"])
    table = table.with_columns(world=pl.col("request") // requests, request=pl.col("request") % requests)
    found = eh.compare(audit(table, by="world"), draws=199, rng=1).frame
    rejected = found.group_by("metric").agg((pl.col("p") <= 0.05).mean())
    assert all(0.02 <= share <= 0.08 for share in rejected["p"]), rejected


def test_two_results_are_compared_on_the_requests_they_share():
    rng = np.random.default_rng(4)
    a, b = run_of("x", 50, rng), run_of("x", 50, rng, effect=1.0)
    one, other = audit(a), audit(b.filter(pl.col("request") < 40))
    found = eh.compare(one, other, rng=1)
    assert found.frame["units"].to_list() == [40, 40]
    assert found.frame["note"].to_list() == ["unshared_requests"] * 2
    assert found.frame["estimate"].to_list() == one.compare(other).frame["estimate"].to_list()
    away = audit(b.with_columns(pl.col("request") + 1000))
    apart = eh.compare(one, away)
    assert apart.provenance["paired"] is False
    assert apart.sentences()[-1].startswith("The two cover different requests")
    shuffled = eh.compare(one, other, paired=False)
    assert (shuffled.provenance["paired"], found.provenance["paired"]) == (False, True)
    assert shuffled.frame["estimate"].to_list() != found.frame["estimate"].to_list()  # all requests of either
    with pytest.raises(eh.EvenhandError, match="share no request"):
        eh.compare(one, away, paired=True)
    same = eh.compare(audit(three()), systems=["a", "c"], rng=1).frame
    assert same["versus"].unique().to_list() == ["c"]


def test_prefix_and_pairwise_results_are_compared_too():
    table = three().with_columns(
        group=pl.col("item").replace_strict(GROUPS), score=-pl.col("rank"), relevance=pl.col("item") % 2
    )
    prefix = eh.prefix(table, group="group", protected="f", system="run", metrics="ndd", interval=None, chance=None)
    pairs = eh.pairwise(table, groups="group", relevance="relevance", protected="f", system="run", metrics="inter_acc")
    for result in (prefix, pairs):
        values = {r["system"]: r["estimate"] for r in result.frame.rows(named=True)}
        for r in eh.compare(result, rng=1).frame.rows(named=True):
            assert r["estimate"] == pytest.approx(values[r["versus"]] - values[r["system"]])


def test_the_table_of_systems_in_three_formats():
    found = eh.compare(audit(three(), ["awrf"]), rng=1)
    assert found.systems("markdown").startswith("| system | awrf ↓ |")
    latex = found.systems("latex")
    assert r"{AWRF $\downarrow$}" in latex
    assert latex.count(r"\\") == 4
    assert latex.count(r"\bfseries") == 1
    text = found.systems("table")
    assert "share a letter" in text
    assert repr(text) == str(text)
    assert "<td>" in text._repr_html_()
    with pytest.raises(eh.EvenhandError, match="format"):
        found.systems("html")


def test_the_command_line_prints_the_table_of_systems(tmp_path, capsys):
    path = tmp_path / "runs.csv"
    three().with_columns(group=pl.col("item").replace_strict(GROUPS)).write_csv(path)
    words = ["exposure", str(path), "--groups", "group", "--protected", "f", "--seed", "1", "-m", "awrf"]
    assert main([*words, "--system", "run", "--systems", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("| system | awrf ↓ |")
    assert main([*words, "--by", "run", "--by", "rank", "--systems", "table"]) == 2


def test_after_only_the_sums_are_still_those_of_the_metric():
    result = audit(three(), ["awrf", "log_dp"])
    whole = eh.compare(result, rng=1).frame.filter(metric="log_dp")
    alone = eh.compare(result.only("log_dp"), rng=1).frame
    assert whole["estimate"].to_list() == alone["estimate"].to_list()
    assert whole["p"].to_list() == alone["p"].to_list()


def test_an_undefined_value_is_said():
    rng = np.random.default_rng(6)
    men = run_of("m", 10, rng).with_columns(pl.col("item") % 12 + 8).unique(["run", "request", "item"])
    men = men.with_columns(rank=pl.int_range(1, pl.len() + 1).over("request"))
    found = eh.compare(
        audit(pl.concat([run_of("a", 10, rng), men.select("run", "request", "item", "rank")]), ["log_dp"]), rng=1
    )
    row = found.frame.row(0, named=True)
    assert row["estimate"] == -math.inf
    assert found.to_json()


def test_bad_calls_say_what_to_do(tmp_path):
    result = audit(three())
    result.to_json(tmp_path / "r.json")
    with pytest.raises(eh.EvenhandError, match="not a saved result"):
        eh.compare(eh.read.result(tmp_path / "r.json"))
    with pytest.raises(eh.EvenhandError, match="Known: a, b, c"):
        eh.compare(result, systems=["a", "z"])
    with pytest.raises(eh.EvenhandError, match="draws=5"):
        eh.compare(result, draws=5)
    with pytest.raises(eh.EvenhandError, match="Leave b or systems out"):
        eh.compare(result, result, systems=["a", "b"])
    with pytest.raises(eh.EvenhandError, match="No two systems"):
        eh.compare(audit(three().filter(pl.col("run") == "a")))


names = list("pqrstu")
pairs_of_names = st.sets(st.sampled_from([frozenset(p) for p in combinations(names, 2)]))


@given(pairs_of_names)
def test_two_systems_share_a_letter_exactly_when_they_do_not_differ(differing):
    letters = letters_of(names, differing)
    for one, other in combinations(names, 2):
        assert bool(set(letters[one]) & set(letters[other])) == (frozenset((one, other)) not in differing)
    assert letters["p"].startswith("a")


def test_pairing_is_not_lost_on_a_replaced_result():
    result = audit(three())
    assert replace(result).request_sums()[0].metric == "awrf"


def test_saved_results_say_that_they_are_not_paired_and_what_to_do(tmp_path):
    table = three()
    live = {name: audit(table.filter(pl.col("run") == name), by=None) for name in "ac"}
    for name, one in live.items():
        one.to_json(tmp_path / f"{name}.json")
    saved = {name: eh.read.result(tmp_path / f"{name}.json") for name in "ac"}
    assert "request" not in (tmp_path / "a.json").read_text().split('"columns"')[1].split('"curves"')[0]
    assert not any("unpaired" in (note or "") for note in eh.compare(live["a"], live["a"], rng=1).frame["note"])
    for a, b in ((saved, saved), (live, saved), (saved, live)):
        found = eh.compare(a["a"], b["a"])
        assert found.frame["note"].to_list() == ["unpaired"] * 2
        assert "before saving them" in found.sentences()[-1]
        assert len(found.sentences()) == 3


def chain(rankings, relevance, metrics, unknown):
    """Everything that follows a ranking audit with systems, as tidy columns and as the table of a paper."""
    roles = dict(groups=GROUPS, protected="f", system="run", relevance=relevance)
    result = eh.exposure(rankings, metrics=metrics, interval=None, chance=False, rng=1, **roles)
    differences = eh.compare(result, draws=199, rng=1)
    moved = eh.sensitivity(eh.exposure, rankings, metrics="awrf", vary={"unknown": unknown}, **roles)
    found = (result, differences, eh.agreement(result, rng=1), moved)
    return [r.findings.columns for r in found], differences.systems("markdown")


def same_chain(elsewhere, metrics, unknown):
    table = three(3)
    judged = pl.DataFrame({"request": np.repeat(np.arange(60), 4), "item": np.tile([0, 5, 9, 14], 60), "relevance": 1})
    here, there = chain(table, judged, metrics, unknown), chain(elsewhere(table), elsewhere(judged), metrics, unknown)
    assert there[1] == here[1]
    for mine, theirs in zip(here[0], there[0], strict=True):
        assert list(mine) == list(theirs)
        for name, column in mine.items():
            if any(isinstance(v, float) for v in column):
                np.testing.assert_allclose(
                    np.array(theirs[name], float), np.array(column, float), rtol=1e-9, err_msg=name
                )
            else:
                assert list(theirs[name]) == list(column), name


def test_compare_agreement_and_sensitivity_say_the_same_of_duckdb():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    metrics = ["awrf", "log_dp", "eel", "ndkl"]
    same_chain(lambda t: connection.from_arrow(t.to_arrow()), metrics, unknown=["drop", "group"])


def test_shares_of_exposure_are_rows_that_two_live_results_are_compared_by():
    rng = np.random.default_rng(6)
    runs = [run_of("x", 80, rng, effect=e).with_columns(pl.col("request") + 1000 * k) for k, e in enumerate((0.0, 1.5))]
    one, other = (audit(run, ["exposure_share", "log_dp"]) for run in runs)
    found = eh.compare(one, other).frame.row(0, named=True)
    assert found["metric"] == "exposure_share"
    assert found["estimate"] == pytest.approx(other.frame["estimate"][0] - one.frame["estimate"][0])
    assert one.frame["estimate"][0] == pytest.approx(1 / (1 + np.exp(-one.frame["estimate"][1])))  # two groups in all

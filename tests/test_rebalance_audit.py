"""`eh.rebalance` and `eh.rerank`: what the frame says, what can be taken away, and that row order and engines do not matter."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evenhand as eh
from evenhand.audits.rebalance import Headroom, least_gini
from test_report import visit

MARKET = eh.synthetic.market(120, 20, providers=8, items=60, rng=3).with_columns(
    provider=pl.format("p{}", "provider"), item=pl.format("i{}", "item")
)
CALL = {"top": 5, "providers": "provider", "strength": (0.05, 0.3), "rng": 1}


@pytest.fixture(scope="module")
def found():
    return eh.rebalance(MARKET, **CALL)


def value(result, metric, strength, on="held_out", by_means="policy", group=None):
    return next(
        r["estimate"]
        for r in result.findings.rows()
        if (r["metric"], r["strength"], r["on"], r["by_means"], r["group"]) == (metric, strength, on, by_means, group)
    )


def exposure_by_hand(rankings, top=5):
    """Attention of each provider, from the lists themselves."""
    whose = dict(MARKET.select("item", "provider").unique().iter_rows())
    got = dict.fromkeys(MARKET["provider"].unique().to_list(), 0.0)
    for row in rankings.iter_rows(named=True):
        got[whose[row["item"]]] += row.get("probability", 1.0) / np.log2(row["rank"] + 1)
    return got


def test_every_strength_has_rows_for_policy_and_boosts_on_learned_and_held_out_requests(found):
    frame = found.frame
    assert frame.columns[:5] == ["strength", "on", "by_means", "metric", "group"]
    kinds = set(frame.select("strength", "on", "by_means").unique().iter_rows())
    assert kinds == {
        (s, on, by) for s in (0.0, 0.05, 0.3) for on in ("learned", "held_out") for by in ("policy", "boosts")
    }
    for metric in ("ndcg", "gini", "top_share(p=0.1)", "rank_biased_overlap", "least_promoted"):
        assert frame.filter(pl.col("metric") == metric).height == 12
    assert frame.filter(pl.col("metric") == "duality_gap").height == 3


def test_more_strength_is_more_even_and_less_relevant_where_it_was_learned(found):
    gini = [value(found, "gini", s, "learned") for s in (0.0, 0.05, 0.3)]
    kept = [value(found, "ndcg", s, "learned") for s in (0.0, 0.05, 0.3)]
    assert gini == sorted(gini, reverse=True)
    assert gini[2] < gini[0] - 0.1
    assert kept[0] == 1
    assert kept == sorted(kept, reverse=True)
    assert all(value(found, "duality_gap", s, "learned") <= 0.001 * s for s in (0.05, 0.3))


def test_intervals_stand_on_held_out_rows_and_hold_their_estimates(found):
    for r in found.findings.rows():
        if r["on"] == "learned" or r["metric"] == "duality_gap":
            assert np.isnan(r["low"])
        elif not np.isnan(r["low"]):
            assert r["low"] <= r["estimate"] <= r["high"]
        else:
            assert r["note"] == "no_variation"
    assert value(found, "gini", 0.3) > 0


@pytest.mark.parametrize("by_means", ["policy", "boosts"])
def test_the_lists_that_are_handed_out_have_the_gini_that_the_frame_says(by_means):
    all_of_it = eh.rebalance(MARKET, **CALL, holdout=0, interval=None)
    lists = all_of_it.rankings(0.3, by_means=by_means)
    got = exposure_by_hand(lists)
    assert eh.metrics.gini(list(got.values())) == pytest.approx(value(all_of_it, "gini", 0.3, "learned", by_means))
    moved = all_of_it.movers(0.3, by_means=by_means)
    total = sum(got.values())
    assert dict(zip(moved["provider"], moved["after"], strict=True)) == pytest.approx(
        {p: v / total for p, v in got.items()}
    )


def test_the_policy_is_read_by_the_exposure_audit(found):
    lists = found.rankings(0.3)
    assert lists.columns == ["request", "item", "rank", "sample", "probability"]
    each = lists.group_by("request", "sample").agg(pl.col("probability").first(), pl.len())
    assert each.group_by("request").agg(pl.col("probability").sum())["probability"].to_list() == pytest.approx(
        [1.0] * 120
    )
    assert each["len"].unique().to_list() == [5]
    audit = eh.exposure(
        lists, groups=MARKET.select("item", group="provider").unique(), sample="sample", probability="probability",
        attention="log(offset=1)", metrics="eed", interval=None,
    )  # fmt: skip
    shares = np.array(list(exposure_by_hand(lists).values())) / 120
    assert audit.frame["estimate"][0] == pytest.approx((shares**2).sum())


def test_boosts_added_to_normalised_scores_give_the_lists_of_the_boosts(found):
    boosts = found.boosts(0.3)
    assert boosts["boost"].mean() == pytest.approx(0)
    again = eh.rerank(MARKET, method="boosts", top=5, groups="provider", boosts=boosts)
    assert again.sort("request", "rank").equals(found.rankings(0.3, by_means="boosts").sort("request", "rank"))


@pytest.mark.parametrize("library", [pd.DataFrame, pa.table, pl.DataFrame.lazy])
def test_row_order_and_library_do_not_change_a_number(found, library):
    shuffled = MARKET.sample(fraction=1, shuffle=True, seed=5)
    table = shuffled.lazy() if library is pl.DataFrame.lazy else library(shuffled.to_dict(as_series=False))
    other = eh.rebalance(table, **CALL)
    assert other.to_dict()["columns"] == found.to_dict()["columns"]
    assert other.to_dict()["curves"] == found.to_dict()["curves"]


def test_duckdb_gives_the_same_numbers(found, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    MARKET.write_parquet(tmp_path / "m.parquet")
    table = duckdb.sql(f"select * from '{tmp_path / 'm.parquet'}' order by score")
    assert eh.rebalance(table, **CALL).to_dict()["columns"] == found.to_dict()["columns"]


def test_providers_may_come_from_a_mapping_a_table_or_nowhere(found):
    pairs = MARKET.select("item", "provider").unique().sort("item")
    bare = MARKET.drop("provider")
    for providers in (dict(pairs.iter_rows()), pairs):
        assert eh.rebalance(bare, **{**CALL, "providers": providers}).to_dict()["columns"] == found.to_dict()["columns"]
    alone = eh.rebalance(bare, top=5, strength=0.1, interval=None, rng=1)
    assert alone.provenance["providers"] == bare["item"].n_unique()
    unknown = {item: who for item, who in pairs.iter_rows() if item != pairs["item"][0]}
    assert eh.rebalance(bare, **{**CALL, "providers": unknown}).provenance["items_without_provider"] == 1


def test_an_item_of_two_providers_shares_its_exposure():
    table = pl.DataFrame({"request": [1, 1], "item": ["a", "b"], "score": [2.0, 1.0]})
    made = eh.rollup(pl.DataFrame({"item": ["a", "a", "b"], "maker": ["x", "y", "y"]}), group="maker")
    for providers in (made, {"a": {"x": 0.5, "y": 0.5}, "b": {"y": 1.0}}):
        found = eh.rebalance(table, top=1, providers=providers, strength=0.01, holdout=0, interval=None, rng=1)
        assert dict(zip(*found.movers(0.01).select("provider", "before"), strict=True)) == {"x": 0.5, "y": 0.5}


@pytest.mark.parametrize("objective", ["atkinson(epsilon=0.5)", "welfare(epsilon=1)", "welfare(epsilon=0.5)"])
def test_other_objectives_even_out_as_well(objective):
    found = eh.rebalance(MARKET, **{**CALL, "objective": objective}, holdout=0, interval=None)
    assert value(found, "gini", 0.3, "learned") < value(found, "gini", 0.0, "learned")
    assert value(found, "duality_gap", 0.3, "learned") <= 0.0003
    assert value(found, objective, 0.3, "learned") != value(found, objective, 0.0, "learned")
    if objective == "welfare(epsilon=1)":
        shares = found.movers(0.3)["after"].to_numpy() * 8
        assert value(found, objective, 0.3, "learned") == pytest.approx(1 + np.log(shares).mean())


def test_target_shares_are_approached_as_far_as_candidates_allow():
    half = dict.fromkeys(sorted(MARKET["provider"].unique()), 1 / 8)
    found = eh.rebalance(MARKET, **{**CALL, "objective": half, "strength": 0.9})
    assert value(found, "target_distance", 0.9, "learned") < 0.05 < value(found, "target_distance", 0.0, "learned")
    table = pl.DataFrame(
        {"request": [1, 1, 2], "item": ["a", "b", "a"], "score": [2.0, 1.0, 1.0], "g": ["x", "y", "x"]}
    )
    short = eh.rebalance(
        table, top=1, providers="g", objective={"x": 0.1, "y": 0.9}, strength=0.9, holdout=0, interval=None, rng=1
    )
    assert value(short, "target_distance", 0.9, "learned") == pytest.approx(0.4)
    assert short.movers(0.9).filter(provider="y")["after"].item() == pytest.approx(0.5)


def test_relevance_adds_rows_and_another_attention_the_standard_ndcg():
    found = eh.rebalance(MARKET, **CALL, relevance="relevance", attention="uniform()", interval=None)
    assert {"ndcg_relevance", "ndcg_standard"} <= set(found.findings.metrics())
    best = MARKET.sort("request", "relevance", descending=[False, True]).group_by("request").head(5)
    assert best.height == 600
    assert 0 < value(found, "ndcg_relevance", 0.0) < 1


def test_ndcg_by_judgments_counts_relevant_items_that_are_no_candidates():
    rng = np.random.default_rng(4)
    relevance = {
        f"q{q}": {f"d{d}": int(rng.integers(0, 4)) for d in rng.permutation(30)[: rng.integers(1, 12)]}
        for q in range(40)
    }
    relevance["q0"] = {"d0": 0, "elsewhere": 3}  # nothing relevant among the candidates: 0
    relevance["q1"] = {"d0": 0}  # nothing relevant at all: left out
    del relevance["q2"]  # nobody judged it: left out
    rows = [(f"q{q}", f"d{d}", float(rng.random())) for q in range(40) for d in range(int(rng.integers(2, 20)))]
    table = pl.DataFrame(rows, schema=["request", "item", "score"], orient="row")
    values = []
    for _, part in table.group_by("request"):
        judged = relevance.get(part["request"][0], {})
        shown = [judged.get(item, 0) for item in part.sort("score", descending=True)["item"][:3]]
        discounts = 1 / np.log2(np.arange(2, 5))
        ideal = sum(y * a for y, a in zip(sorted(judged.values(), reverse=True), discounts, strict=False))
        values += [sum(y * a for y, a in zip(shown, discounts, strict=False)) / ideal] if ideal else []
    found = eh.rebalance(table, top=3, strength=0.1, holdout=0, relevance=relevance, interval=None, rng=1)
    row = next(r for r in found.findings.rows() if r["metric"] == "ndcg_relevance" and r["strength"] == 0.0)
    assert row["estimate"] == pytest.approx(np.mean(values), abs=1e-12)
    assert (row["units"], row["undefined"], row["note"].split("; ")[0]) == (
        len(values),
        40 - len(values),
        "some_undefined",
    )
    assert any(f"{40 - len(values)} requests without a relevant item are left out" in s for s in found.sentences())


def test_judgments_by_number_match_candidates_whose_labels_are_text():
    table = pl.DataFrame({"request": [1, 1, 2, 2], "item": [7, 8, 7, 8], "score": [2.0, 1.0, 2.0, 1.0]})
    call = {"top": 1, "strength": 0.1, "holdout": 0, "interval": None, "rng": 1}
    by_number = eh.rebalance(table, relevance={1: {7: 1, 9: 1}, 2: {8: 1}}, **call)
    by_text = eh.rebalance(
        table, relevance={"1": {"7": 1, "9": 1}, "2": {"8": 1}}, providers={"7": "x", "8": "y"}, **call
    )
    assert value(by_number, "ndcg_relevance", 0.0, "learned") == value(by_text, "ndcg_relevance", 0.0, "learned") == 0.5


def test_headroom_of_a_served_ranking_is_what_mixing_policies_attains():
    worst = MARKET.with_columns(rank=pl.col("score").rank("ordinal").over("request")).filter(pl.col("rank") <= 5)
    found = eh.rebalance(MARKET, **CALL, rankings=worst.select("request", "item", "rank"))
    left = found.headroom
    assert left.ndcg < 0.5
    assert left.attainable_gini <= left.gini
    assert any("the same relevance allows a Gini index of" in s for s in found.sentences())
    assert value(found, "attainable_gini", None, by_means="served") == left.attainable_gini
    as_ranked = found.rankings(0.0, by_means="boosts")
    even = eh.rebalance(MARKET, **CALL, rankings=as_ranked).headroom
    assert even.ndcg == 1
    assert "No policy" in even.sentence


def test_mixtures_of_two_policies_attain_what_lies_between_them():
    points = [(1.0, 0.5), (0.9, 0.3), (0.5, 0.0)]
    assert least_gini(points, 0.95) == pytest.approx(0.4)
    assert least_gini(points, 0.7) == pytest.approx(0.15)
    assert least_gini(points, 0.1) == 0.0
    found = Headroom(0.7, 0.4, least_gini(points, 0.7), "scores")
    assert found.sentence == "The same relevance allows a Gini of 0.15 where it is 0.40."


def test_the_result_is_saved_without_its_policies_and_says_so(found, tmp_path):
    path = tmp_path / "r.json"
    found.to_json(path)
    assert "i1" not in json.dumps(found.to_dict()["curves"])
    again = eh.read.result(path)
    assert again.to_dict()["columns"] == found.to_dict()["columns"]
    assert again.sentences() == found.sentences()


def test_every_chart_is_drawn_and_the_report_holds_no_name_of_a_provider(found, tmp_path):
    assert found.kinds == ["frontier", "before_after", "movers"]
    for kind in found.kinds:
        assert found.plot(kind).to_dict()
    page = found.report(tmp_path / "fix.html").read_text(encoding="utf-8")
    assert "Strength 0.3 keeps" in page
    assert "binding" in page or "bind" in page
    assert not any(f'"{p}"' in page for p in MARKET["provider"].unique())


def test_what_was_not_asked_for_is_refused_with_a_remedy(found):
    with pytest.raises(eh.EvenhandError, match=r"strength=0\.7 was not searched\. Pass one of 0, 0\.05, 0\.3"):
        found.boosts(0.7)
    with pytest.raises(eh.EvenhandError, match="by_means='both' is unknown"):
        found.rankings(0.3, by_means="both")
    with pytest.raises(eh.EvenhandError, match="Pass rankings="):
        _ = found.headroom


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"top": 0}, "top=0 is outside"),
        ({"strength": 2.0}, "strength=2.0"),
        ({"strength": ()}, "strength=()"),
        ({"strength": (0.1, 0.1)}, "one twice"),
        ({"objective": "ginny"}, "objective='ginny' is not an objective"),
        ({"objective": "atkinson(epsilon=-1)"}, "one epsilon above 0"),
        ({"objective": {"p0": 0.5}}, "do not add up to 1"),
        ({"objective": {"p0": 1.0}}, "lacks p1"),
        ({"attention": "cascade()"}, "depends on more than rank"),
        ({"holdout": 1}, "holdout=1"),
        ({"providers": "publisher"}, "providers='publisher'"),
        ({"score": "points"}, "score='points'"),
        ({"interval": "bootstrap(999)"}, "interval="),
        ({"rankings": pl.DataFrame({"request": [0], "item": ["i1"], "rank": [1]})}, "rankings lacks 119 of the 120"),
    ],
)
def test_bad_input_is_one_sentence_of_fact_and_one_of_remedy(change, said):
    with pytest.raises(eh.EvenhandError) as problem:
        eh.rebalance(MARKET, **{**CALL, **change})
    assert said in str(problem.value)
    assert str(problem.value).count(". ") >= 1


def test_negative_scores_are_refused_and_requests_without_a_gain_left_out_of_ndcg():
    with pytest.raises(eh.EvenhandError, match="below zero in 1 of 2 rows"):
        eh.rebalance(pl.DataFrame({"request": [1, 1], "item": [1, 2], "score": [1.0, -1.0]}), top=1)
    table = pl.DataFrame({"request": [1, 1, 2, 2], "item": [1, 2, 1, 2], "score": [1.0, 0.5, 0.0, 0.0]})
    found = eh.rebalance(table, top=1, holdout=0, strength=0.5, interval=None, rng=1)
    row = next(r for r in found.findings.rows() if r["metric"] == "ndcg")
    assert (row["units"], row["note"]) == (1, "some_undefined; learned_from")


def test_missing_scores_are_refused_or_left_out_and_counted():
    table = MARKET.with_columns(score=pl.when(pl.col("item") == "i1").then(None).otherwise("score"))
    missing = table["score"].null_count()
    with pytest.raises(eh.EvenhandError, match=f"missing in {missing}"):
        eh.rebalance(table, **CALL)
    found = eh.rebalance(table, **CALL, nan_policy="omit", interval=None)
    assert found.provenance["dropped"] == {"score is missing": missing}


def test_welfare_says_who_is_out_of_reach_of_what_is_learned():
    table = pl.DataFrame({"request": range(40), "item": [f"i{q}" for q in range(40)], "score": 1.0})
    with pytest.raises(eh.EvenhandError, match="candidates in held-out requests only"):
        eh.rebalance(table, top=1, objective="welfare(epsilon=1)", rng=1)


# --- rerank -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("fa_star_ir(p=0.5, alpha=0.1)", {"protected": "p0"}),
        ("det_const_sort", {"target": {f"p{i}": 1 / 8 for i in range(8)}}),
        ("calibrated(strength=0.9)", {"target": {f"p{i}": 1 / 8 for i in range(8)}}),
    ],
)
def test_a_known_re_ranker_fills_every_list_from_its_candidates(method, more):
    lists = eh.rerank(MARKET, method=method, top=5, groups="provider", **more)
    assert lists.columns == ["request", "item", "rank"]
    assert lists.group_by("request").len()["len"].unique().to_list() == [5]
    assert lists.join(MARKET, on=["request", "item"], how="anti").height == 0
    assert lists.group_by("request").agg(pl.col("item").n_unique() == 5)["item"].all()
    again = eh.rerank(
        MARKET.sample(fraction=1, shuffle=True, seed=2).to_pandas(), method=method, top=5, groups="provider", **more
    )
    assert isinstance(again, pd.DataFrame)
    assert pl.from_pandas(again).equals(lists)


def test_fa_star_ir_lists_pass_the_constraint_where_there_are_candidates():
    lists = eh.rerank(
        MARKET, method="fa_star_ir(p=0.6, alpha=0.1)", top=5, groups="provider", protected=["p0", "p1", "p2", "p3"]
    )
    whose = dict(MARKET.select("item", "provider").unique().iter_rows())
    table = eh.metrics.fair_table(5, 0.6, 0.1).table
    for _, own in lists.sort("rank").group_by("request"):
        held = np.cumsum([whose[i] in ("p0", "p1", "p2", "p3") for i in own["item"]])
        assert (held >= table).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "fairest"}, "not a known re-ranker"),
        ({"method": "boosts"}, "needs boosts"),
        ({"method": "boosts", "boosts": {"nobody": 1.0}}, "no provider in common"),
        ({"method": "boosts", "boosts": pl.DataFrame({"a": [1]})}, "table of provider and boost"),
        ({"method": "fa_star_ir(p=0.3)"}, "who is protected"),
        ({"method": "fa_star_ir"}, "Its numbers"),
        ({"method": "fa_star_ir(p=0.3)", "protected": "zz"}, "label of no candidate"),
        ({"method": "det_const_sort"}, "target=None"),
        ({"method": "calibrated(strength=3)", "target": {"p0": 1.0}}, "target says nothing of"),
        ({"method": "det_const_sort", "groups": None}, "Pass groups="),
    ],
)
def test_bad_words_of_a_re_ranker_are_told(change, said):
    with pytest.raises(eh.EvenhandError) as problem:
        eh.rerank(MARKET, **{"top": 5, "groups": "provider", **change})
    assert said in str(problem.value)


@pytest.mark.browser
def test_the_handle_of_the_report_moves_along_the_frontier_in_silence(found, browser, tmp_path):
    path = found.report(tmp_path / "fix.html")
    with visit(browser, path) as seen:
        handle = seen.page.locator("#before_after input[type=range]")
        assert handle.count() == 1
        told = seen.page.locator("#before_after svg text")
        assert "strength 0.05" in told.all_text_contents()
        handle.fill("2")
        seen.page.wait_for_function("document.querySelector('#before_after svg').textContent.includes('strength 0.3')")
        assert seen.said == []

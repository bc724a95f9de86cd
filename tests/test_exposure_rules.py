"""Rules of the exposure audit: groups in every form, unknown labels, missing judgments, targets, sides, and laws."""

import math
import random

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from oracles import exposure as slow
from test_exposure_audit import POLICY, estimates, same, tables, world

RUN = pl.DataFrame({"request": [1] * 4, "item": list("abcd"), "rank": [1, 2, 3, 4]})
LABELS = {"a": "m", "b": "f", "c": "m", "d": None}
ONE = {"interval": None, "protected": "f"}


def one(metric, run=RUN, groups=LABELS, **more):
    result = eh.exposure(run, groups=groups, metrics=metric, **(ONE | more))
    return result.findings.columns["estimate"][0]


def note(metric, run=RUN, groups=LABELS, **more):
    result = eh.exposure(run, groups=groups, metrics=metric, **(ONE | more))
    assert math.isnan(result.findings.columns["estimate"][0])
    return result.findings.columns["note"][0]


# Groups in every form ------------------------------------------------------------------------------------------------

FORMS = {
    "column": lambda: (RUN.with_columns(pl.Series("sex", list(LABELS.values()))), "sex"),
    "table": lambda: (RUN, pl.DataFrame({"item": list(LABELS), "sex": list(LABELS.values())})),
    "pandas table": lambda: (RUN, pd.DataFrame({"item": list(LABELS), "sex": list(LABELS.values())})),
    "duckdb table": lambda: (RUN, duckdb.from_arrow(pl.DataFrame({"item": list(LABELS), "g": list(LABELS.values())}).to_arrow())),
    "shares": lambda: (RUN, pl.DataFrame({"item": list("abcd"), "f": [0.0, 1, 0, None], "m": [1.0, 0, 1, None]})),
    "mapping of shares": lambda: (RUN, {"a": {"m": 1.0}, "b": {"f": 1.0}, "c": {"m": 1}, "d": None}),
    "item column by its own name": lambda: (RUN.rename({"item": "doc"}), pl.DataFrame({"doc": list("abcd"), "g": list(LABELS.values())})),
    "by request": lambda: (RUN, pl.DataFrame({"request": [1, 1, 1, 2], "item": list("abcd"), "g": ["m", "f", "m", "f"]})),
    "absent item": lambda: (RUN, {"a": "m", "b": "f", "c": "m"}),
    "rollup": lambda: (RUN, eh.rollup({"a": ["x"], "b": ["y"], "c": ["x", "z"]}, {"x": "m", "y": "f", "z": "m"})),
    "whole-number items": lambda: (
        RUN.with_columns(pl.Series("item", [1, 2, 3, 4])), pl.DataFrame({"item": ["1", "2", "3"], "g": ["m", "f", "m"]}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_groups_in_every_form_mean_the_same(form):
    run, groups = FORMS[form]()
    item = "doc" if "doc" in run.columns else "item"
    wanted = math.log(1 / (1 + 1 / math.log2(3)))
    assert one("log_dp", run, groups, item=item) == pytest.approx(wanted)
    assert one("awrf(distance='tv')", run, groups, item=item, target="equal", attention="uniform") == pytest.approx(
        1 / 6
    )


def test_several_columns_are_combined_and_unknown_where_one_is():
    run = RUN.with_columns(pl.Series("sex", ["f", "f", "m", "m"]), pl.Series("region", ["n", "s", "n", None]))
    result = eh.exposure(run, groups=["sex", "region"], metrics="awrf", target="equal", interval=None)
    assert result.findings.curves["exposure"]["group"] == ["f & n", "f & s", "m & n"]
    assert result.provenance["unlabelled_ranked_items"] == 1


def test_numbers_and_truth_values_can_be_labels():
    for labels, protected in (([1, 0, 1, None], 1), ([True, False, True, None], True), ([1, 0, 1, None], "1")):
        run = RUN.with_columns(pl.Series("g", labels))
        assert one("dp", run, "g", protected=protected, attention="uniform") == pytest.approx(2)
        assert one("dp", run.to_pandas(), "g", protected=protected, attention="uniform") == pytest.approx(2)


def test_labels_may_depend_on_the_request():
    run = pl.DataFrame({"request": [1, 1, 2, 2], "item": list("abab"), "rank": [1, 2, 1, 2], "stance": list("fmmf")})
    assert one("log_dp", run, "stance", attention="log(offset=1)") == pytest.approx(0)
    clash = pl.concat([run.with_columns(pl.lit(s).alias("sample")) for s in (0, 1)]).with_columns(
        pl.when(pl.col("sample") == 1).then(pl.lit("f")).otherwise("stance").alias("stance")
    )
    with pytest.raises(eh.EvenhandError, match="several labels in the same request"):
        one("log_dp", clash, "stance", sample="sample")


def test_a_provider_of_unknown_group_keeps_its_part_of_the_item():
    shared = eh.rollup({"a": ["x", "y"]}, {"x": "m"})
    assert sorted(shared.frame.iter_rows(), key=str) == [("a", "m", 0.5), ("a", None, 0.5)]
    weighted = eh.rollup(
        pl.DataFrame({"item": ["a", "a"], "provider": ["x", "y"], "part": [3, 1]}), {"x": "m", "y": "f"}, weight="part"
    )
    assert sorted(weighted.frame.iter_rows()) == [("a", "f", 0.25), ("a", "m", 0.75)]
    direct = eh.rollup(pl.DataFrame({"item": ["a", "a", "b"], "group": ["f", "m", None]}))
    assert sorted(direct.frame.iter_rows(), key=str) == [("a", "f", 0.5), ("a", "m", 0.5), ("b", None, 1.0)]


# Unknown labels ------------------------------------------------------------------------------------------------------


def test_unlabelled_items_keep_their_rank_by_every_policy():
    run = pl.DataFrame({"request": [1] * 3, "item": list("xab"), "rank": [1, 2, 3]})
    groups = {"a": "f", "b": "m"}
    call = {"attention": "rbp(patience=0.5)", "versus": "m"}
    assert one("dp", run, groups, **call) == pytest.approx(2)
    assert one("dp", run, groups, unknown="unprotected", **call) == pytest.approx(0.5 / 1.25)
    assert one("eed", run, groups, unknown="drop", **call) == pytest.approx(0.25 + 0.0625)
    assert one("eed", run, groups, unknown="group", **call) == pytest.approx(1 + 0.25 + 0.0625)
    with pytest.raises(eh.EvenhandError, match="1 ranked items have no group"):
        one("dp", run, groups, unknown="raise", **call)
    result = eh.exposure(run, groups=groups, metrics="eed", interval=None)
    assert result.provenance["unlabelled_exposure"] == {"all": {"rbp(patience=0.5)": pytest.approx(1 / 1.75)}}


@pytest.mark.parametrize("unknown", ["drop", "group", "unprotected"])
def test_awrf_by_every_policy_for_the_unknown(unknown):
    requests, groups = world(4)
    rankings, _ = tables(requests)
    ranked = {d for one in requests for r in one["rankings"] for d in r["items"]}
    everyone = {d: groups.get(d) for d in {*groups, *ranked}}
    policy = {"drop": None, "group": "unknown", "unprotected": "b"}[unknown]
    settled = {d: policy if g is None else g for d, g in everyone.items()}
    sizes = slow.sizes(settled)
    population = {g: n / sum(sizes.values()) for g, n in sizes.items()}
    from test_exposure_audit import awrf_of

    result = eh.exposure(
        rankings, groups=groups, unknown=unknown, protected="a", metrics="awrf", attention="log", **POLICY
    )
    assert estimates(result)["awrf"] == pytest.approx(awrf_of(requests, settled, population, "js", "log", {}))


def test_unknown_items_counted_as_unprotected_are_no_label_of_their_own():
    known = {**LABELS, "d": "m"}
    assert one("ndjs", unknown="unprotected") == pytest.approx(one("ndjs", groups=known))


def test_no_group_at_all_is_nan_and_not_an_error():
    reasons = {"awrf": "no_labelled_items", "log_dp": "zero_over_zero", "eed": "no_labelled_items"}
    for metric, reason in reasons.items():
        assert note(metric, groups={}) == reason
    judged = {1: {"a": 1}}
    assert note("log_eur", groups={}, relevance=judged) == "no_relevant_in_group"
    assert note("eel", groups={}, relevance=judged) == "no_labelled_items"
    assert note("iaa", RUN.with_columns(pl.lit(1.0).alias("s")), {}, score="s") == "no_labelled_items"


@pytest.mark.parametrize("metric", ["awrf", "fair(p=0.5)", "ndd"])
def test_groups_that_no_ranked_item_has_are_nan_and_not_an_error(metric):
    assert note(metric, groups={"x": "m", "y": "f"}) == "no_labelled_items"


def test_an_empty_table_is_nan_with_its_reason():
    empty = RUN.clear()
    reasons = {"awrf": "empty", "log_dp": "zero_over_zero", "eed": "empty", "fair(p=0.5)": "empty"}
    for metric, reason in reasons.items():
        assert note(metric, empty) == reason
    assert note("log_eur", empty, relevance={1: {"a": 1}}) == "zero_over_zero"
    assert note("iaa", empty.with_columns(pl.lit(1.0).alias("s")), score="s") == "empty"


# Judgments -----------------------------------------------------------------------------------------------------------


def test_ranked_items_without_a_judgment_by_every_policy():
    run = pl.DataFrame({"request": [1] * 3, "item": list("xab"), "rank": [1, 2, 3]})
    groups, judged = {"a": "f", "b": "m", "x": "m"}, {1: {"a": 1, "b": 1}}
    call = {"attention": "rbp(patience=0.5)", "relevance": judged}
    assert one("rur", run, groups, **call) == pytest.approx(2)
    assert one("eur", run, groups, **call) == pytest.approx(0.5 / 1.25)
    assert one("eur", run, groups, missing_relevance="drop", **call) == pytest.approx(1 / 0.5)
    with pytest.raises(eh.EvenhandError, match="1 ranked items have no judgment"):
        one("eur", run, groups, missing_relevance="raise", **call)
    result = eh.exposure(run, groups=groups, metrics="eel", missing_relevance="drop", interval=None, relevance=judged)
    assert result.provenance["dropped"] == {"ranked items without a judgment": 1}


def test_a_list_that_loses_every_item_is_still_a_list_that_somebody_asked_for():
    run = pl.DataFrame({"request": ["q", "q", "p"], "item": list("abc"), "rank": [1, 2, 1]})
    judged, dropped = (
        {"q": {"a": 1, "b": 1}, "p": {"a": 1}},
        {"missing_relevance": "drop", "attention": "rbp(patience=0.5)"},
    )
    # Request p judges a alone and was shown c: nobody judged was exposed, and a was due all of rank 1.
    assert one("eel(level='item')", run, relevance=judged, **dropped) == pytest.approx((0.125 + 1) / 2)
    found = eh.exposure(run, groups=LABELS, relevance=judged, metrics=["awrf", "fair(p=0.5)"], **dropped, **ONE)
    assert found.per_request.filter(pl.col("request") == "p")["note"].to_list() == ["empty", "empty"]
    assert found.findings.columns["undefined"] == [1, 1]


def test_a_draw_that_loses_every_item_is_still_a_draw():
    run = pl.DataFrame({"request": [1, 1], "sample": [1, 2], "item": ["a", "d"], "rank": [1, 1]})
    more = {"relevance": {1: {"a": 1}}, "missing_relevance": "drop", "sample": "sample"}
    assert one("eed(level='item')", run, **more) == pytest.approx(0.25)


def test_items_that_were_scored_and_not_shown_get_no_attention_and_stop_nobody():
    run = pl.DataFrame({"request": [1] * 3, "item": list("abc"), "rank": [1, 2, None], "score": [2.0, 1.0, 3.0]})
    metrics = ["iaa", "eed(level='item')", "log_dp"]
    found = eh.exposure(
        run, groups=LABELS, relevance={1: {"c": 1}}, metrics=metrics, score="score", attention="cascade(patience=1, stop=0.5)", **ONE
    )  # fmt: skip
    assert found.findings.columns["estimate"] == pytest.approx([2 * (1 / 2 - 1 / 6), 2.0, 0.0])


def test_a_pandas_table_is_read_by_its_columns_and_not_by_its_index():
    columns = {"request": 1, "item": ["a", "c", "b", "d"], "rank": [1.0, None, 2.0, 3.0], "score": [2.0, 3.0, 1.0, 0.0]}
    found = one("iaa(attention='uniform')", pd.DataFrame(columns), score="score")
    assert found == pytest.approx(2 * (1 / 2 - 1 / 6))


def test_a_column_of_shares_is_a_group_even_if_no_item_is_its():
    shares = pl.DataFrame({"item": ["a", "b"], "f": [1.0, 1.0], "m": [0.0, 0.0]})
    assert one("awrf(distance='tv')", groups=shares, target="equal") == pytest.approx(0.5)


def test_relevance_may_be_a_column_of_the_rankings():
    requests, groups = world(2, draws=1)
    rankings, judged = tables(requests)
    inside = rankings.join(judged, on=["request", "item"], how="left")
    ranked_only = judged.join(rankings, on=["request", "item"], how="semi")
    call = {"groups": groups, "protected": "a", "metrics": ["eur", "rur", "eel", "eel(level='item')"], **POLICY}
    same(
        estimates(eh.exposure(inside, relevance="relevance", **call)),
        estimates(eh.exposure(rankings, relevance=ranked_only, **call)),
    )
    twice = pl.concat([inside, inside.with_columns((pl.col("sample") + 9).alias("sample"), pl.col("relevance") + 1)])
    with pytest.raises(eh.EvenhandError, match="more than one relevance"):
        eh.exposure(twice, relevance="relevance", **call)


def test_requests_without_relevant_items_are_counted_and_defined():
    run = pl.DataFrame({"request": [1, 1, 2, 2], "item": list("abab"), "rank": [1, 2, 1, 2]})
    result = eh.exposure(
        run, groups={"a": "f", "b": "m"}, protected="f", relevance={1: {"a": 1, "b": 0}, 3: {"a": 1}}, target="relevant",
        metrics=["awrf", "eel", "eer"], interval=None,
    )  # fmt: skip
    facts = result.provenance
    assert facts["requests_without_relevant_items"] == 1
    assert facts["requests_without_judgment"] == 1
    rows = {r["metric"]: r for r in result.findings.rows()}
    assert rows["awrf"]["undefined"] == 1
    assert rows["awrf"]["note"] == "some_undefined"
    assert (rows["eel"]["undefined"], rows["eel"]["note"]) == (1, "unjudged_requests")
    assert {name: r["units"] for name, r in rows.items()} == {"awrf": 1, "eel": 1, "eer": 1}
    per = result.per_request.filter(pl.col("metric") == "awrf")
    assert per["note"].to_list() == [None, "no_relevant_in_group"]


# Sides, targets and other refusals -----------------------------------------------------------------------------------

THREE = {"a": "x", "b": "y", "c": "z"}
DOC = pl.DataFrame({"request": [1], "doc": ["a"], "relevance": [1]})
TWICE = pl.DataFrame({"request": [1, 1], "item": ["a", "a"], "relevance": [1, 0]})
WORDS = pl.DataFrame({"request": [1], "item": ["a"], "relevance": ["x"]})
REFUSED = {
    "protected missing": (lambda: one("log_dp", protected=None), "compares two groups"),
    "protected unknown": (lambda: one("log_dp", protected="female"), "protected='female' is no label of the groups. Labels: 'f', 'm'"),
    "versus needed": (lambda: one("log_dp", groups=THREE, protected="x"), "Pass versus="),
    "sides overlap": (lambda: one("log_dp", versus="f"), "overlap"),
    "relevance needed": (lambda: one("eel"), "needs relevance"),
    "relevance for cascade": (lambda: one("log_dp", attention="cascade"), "needs relevance"),
    "score needed": (lambda: one("iaa"), "score="),
    "negative score": (lambda: one("iaa", RUN.with_columns(pl.lit(-1.0).alias("s")), score="s"), "negative in 4 rows"),
    "target unknown": (lambda: one("awrf", target="fair"), "target='fair'"),
    "target not a distribution": (lambda: one("awrf", target={"f": 0.7}), "add up to 1"),
    "unknown policy": (lambda: one("awrf", unknown="keep"), "unknown='keep'"),
    "missing relevance policy": (lambda: one("awrf", missing_relevance="keep"), "missing_relevance='keep'"),
    "attention": (lambda: one("awrf", attention="rpb"), "Did you mean 'rbp'"),
    "attention of a metric": (lambda: one("awrf(attention='rpb')"), "Did you mean 'rbp'"),
    "metric": (lambda: one("awfr"), "Did you mean 'awrf'"),
    "foreign metric": (lambda: one("gini"), "does not fit"),
    "soft groups for eur": (lambda: one("eur", groups={"a": {"f": 0.5, "m": 0.5}}, relevance={1: {"a": 1}}), "one label per item"),
    "soft groups for fair": (lambda: one("fair(p=0.5)", groups={"a": {"f": 0.5, "m": 0.5}}), "one label per item"),
    "item level before": (lambda: one("eed(level='item', aggregate='before')"), "per_request"),
    "groups column": (lambda: one("awrf", groups="sexx", run=RUN.with_columns(pl.lit("f").alias("sex"))), "Did you mean 'sex'"),
    "groups twice": (lambda: one("awrf", groups=pl.DataFrame({"item": ["a", "a"], "g": ["f", "m"]})), "1 of its ids more than one label"),
    "groups not shares": (lambda: one("awrf", groups=pl.DataFrame({"item": ["a"], "f": [0.5], "m": [0.6]})), "do not add up to 1"),
    "groups mapping not shares": (lambda: one("awrf", groups={"a": {"f": 0.5}}), "add up to 1"),
    "groups mapping of both": (lambda: one("awrf", groups={"a": {"f": 1}, "b": "m"}), "plain or missing labels"),
    "groups mapping shares with nobody": (lambda: one("awrf", groups={"a": {"f": 0.5, None: 0.5}}), "plain or missing labels"),
    "groups without labels": (lambda: one("awrf", groups=pl.DataFrame({"item": ["a"]})), "at least one column of labels"),
    "groups of another type": (lambda: one("awrf", groups=3), "not a dataframe"),
    "ids of another type": (lambda: one("awrf", groups=pl.DataFrame({"item": [0.5], "g": ["f"]})), "same type"),
    "relevance columns": (lambda: one("eel", relevance=DOC), "item='item' is not a column of relevance"),
    "relevance negative": (lambda: one("eel", relevance={1: {"a": -1}}), "1 negative"),
    "relevance twice": (lambda: one("eel", relevance=TWICE), "more than once"),
    "relevance of words": (lambda: one("eel", relevance=WORDS), "is text"),
    "relevance neither": (lambda: one("eel", relevance="judgments"), "neither a column"),
    "relevance flat mapping": (lambda: one("eel", relevance={"a": 1}), "request: {item"),
    "grade without a stop": (
        lambda: one("log_dp", relevance={1: {"a": 3}}, attention="cascade(stop={1: 0.5})"), "says nothing about relevance 3",
    ),
    "probability varies": (
        lambda: one("log_dp", RUN.with_columns(pl.Series("p", [1.0, 1, 1, 2])), probability="p"), "Give each draw one probability",
    ),
    "weight varies": (
        lambda: one("log_dp", RUN.with_columns(pl.Series("w", [1.0, 1, 1, 2])), weight="w"), "Give each request one weight",
    ),
    "fair without a single target": (lambda: one("fair", target="ranking"), "fair\\(p=0.5\\)"),
    "mapping of rankings": (lambda: one("awrf", run={"q": 3}), "cannot be read"),
    "nan policy": (lambda: one("awrf", nan_policy="propagate"), "nan_policy='propagate'"),
    "rollup column": (lambda: eh.rollup(pl.DataFrame({"item": ["a"], "who": ["x"]}), {"x": "f"}), "provider='provider'"),
    "rollup providers twice": (
        lambda: eh.rollup({"a": ["x"]}, pl.DataFrame({"provider": ["x", "x"], "group": ["f", "m"]})), "1 providers more than once",
    ),
    "rollup pairs twice": (
        lambda: eh.rollup({"a": ["x", "x"], "b": ["x"]}, {"x": "f"}), "1 pairs of an item and a provider more than once",
    ),
    "rollup weights": (
        lambda: eh.rollup(pl.DataFrame({"item": ["a"], "group": ["f"], "w": [0.0]}), weight="w"), "only zero weights",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_call_is_refused_with_fact_and_remedy(case):
    call, words = REFUSED[case]
    with pytest.raises(eh.EvenhandError, match=words) as caught:
        call()
    assert caught.value.args[0].count(".") >= 2


def test_a_target_may_name_a_group_that_nobody_has():
    assert one("awrf(distance='kl')", run=RUN.head(1), groups={"a": "m"}, target={"m": 0.5, "f": 0.5}) == pytest.approx(
        1
    )


def test_a_target_from_a_plan_names_numbers_as_text():
    run = RUN.with_columns(pl.Series("g", [1, 0, 1, None]))
    given = one("awrf", run, "g", protected=1, target={1: 0.5, 0: 0.5})
    assert one("awrf", run, "g", protected="1", target={"1": 0.5, "0": 0.5}) == pytest.approx(given)


def test_one_group_alone_is_a_limit_and_not_an_error():
    assert one("log_dp", groups={"a": "f", "b": "f"}) == math.inf
    assert one("log_dp(per_item=True)", groups={"a": "f", "b": "f"}) == math.inf
    assert one("log_dp", groups={"a": "m", "z": "f"}) == -math.inf
    assert one("dp", groups={"a": "m", "z": "f"}) == 0


def test_default_metrics_are_those_that_the_input_allows():
    def named(**more):
        return eh.exposure(RUN, groups=LABELS, interval=None, **more).findings.metrics()

    assert named() == ["awrf", "eed"]
    assert named(protected="f") == ["awrf", "log_dp", "log_dp(per_item=True)", "eed"]
    assert named(protected="f", relevance={1: {"a": 1}}) == [
        "awrf", "log_dp", "log_dp(per_item=True)", "eed", "log_eur", "eel", "eer",
    ]  # fmt: skip


def test_each_metric_has_its_own_default_attention():
    requests, groups = world(6)
    rankings, judged = tables(requests)
    call = {"groups": groups, "relevance": judged, "protected": "a", **POLICY}
    metrics = ["awrf", "log_dp", "log_eur", "log_rur", "eed", "eel", "eer"]
    own = estimates(eh.exposure(rankings, metrics=metrics, **call))
    for model, names in (
        ("geometric(stop=0.5)", ["awrf"]),
        ("log", ["log_dp", "log_eur", "log_rur"]),
        ("rbp(patience=0.5)", ["eed", "eel", "eer"]),
    ):
        given = estimates(eh.exposure(rankings, metrics=names, attention=model, **call))
        inside = estimates(
            eh.exposure(rankings, metrics=[f"{n}(attention={model!r})" for n in names], attention="uniform", **call)
        )
        for name in names:
            assert own[name] == pytest.approx(given[name])
            assert own[name] == pytest.approx(inside[f"{name}(attention={model!r})"])


def test_awrf_of_one_call_may_have_two_targets():
    found = estimates(
        eh.exposure(RUN, groups=LABELS, metrics=["awrf(target='equal')", "awrf", "awrf(target={'f': 1.0})"], **ONE)
    )
    assert found["awrf(target='equal')"] == pytest.approx(one("awrf", target="equal"))
    assert found["awrf"] == pytest.approx(one("awrf"))
    assert found["awrf(target={'f': 1.0})"] == pytest.approx(one("awrf", target={"f": 1.0}))


# Laws ----------------------------------------------------------------------------------------------------------------

LOGS = ["log_dp", "log_dp(per_item=True)", "log_eur", "log_rur"]


@pytest.mark.parametrize("seed", range(3))
def test_swapping_the_sides_flips_the_sign_of_log_ratios(seed):
    requests, groups = world(seed + 20)
    rankings, judged = tables(requests)
    there = estimates(eh.exposure(rankings, groups=groups, relevance=judged, protected="a", metrics=LOGS, **POLICY))
    back = estimates(eh.exposure(rankings, groups=groups, relevance=judged, protected="b", metrics=LOGS, **POLICY))
    same(there, {name: -value for name, value in back.items()})


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_written_out_twice_is_the_same_policy(seed):
    requests, groups = world(seed + 30)
    rankings, judged = tables(requests)
    twice = pl.concat([rankings, rankings.with_columns(pl.col("sample") + 100)])
    metrics = ["awrf", *LOGS, "eed", "eel", "eer", "eel(level='item')", "eed(aggregate='per_request')"]
    call = {"groups": groups, "relevance": judged, "protected": "a", "metrics": metrics, **POLICY}
    same(estimates(eh.exposure(twice, **call)), estimates(eh.exposure(rankings, **call)))


def test_unlabelled_items_may_change_places_among_themselves():
    rng = random.Random(1)
    items = [f"l{i}" for i in range(4)] + [f"u{i}" for i in range(4)]
    groups = {f"l{i}": "ab"[i % 2] for i in range(4)}
    rng.shuffle(items)
    unknown = [i for i, d in enumerate(items) if d not in groups]
    swapped = list(items)
    for place, d in zip(unknown, reversed([items[i] for i in unknown]), strict=True):
        swapped[place] = d
    metrics = ["awrf", "log_dp", "eed", "ndd", "fair(p=0.5)"]
    first, second = (
        estimates(
            eh.exposure(
                {"q": dict(zip(order, range(8, 0, -1), strict=True))},
                groups=groups,
                protected="a",
                metrics=metrics,
                interval=None,
            )
        )
        for order in (items, swapped)
    )
    same(first, second)


def test_expected_exposure_parts_add_up_and_aggregating_later_loses_more():
    requests, groups = world(8, requests=8)
    rankings, judged = tables(requests)
    names = ["eed", "eel", "eer", "target_norm"]
    for inside in ("", "(aggregate='per_request')", "(level='item')"):
        call = {"groups": groups, "relevance": judged, "metrics": [n + inside for n in names], **POLICY}
        eed, eel, eer, norm = estimates(eh.exposure(rankings, **call)).values()
        assert eel == pytest.approx(eed - eer + norm)
    before, after = estimates(
        eh.exposure(
            rankings, groups=groups, relevance=judged, metrics=["eel", "eel(aggregate='per_request')"], **POLICY
        )
    ).values()
    assert after >= before


def test_the_least_disparity_is_shown_as_the_ideal():
    requests, groups = world(9)
    rankings, _ = tables(requests)
    result = eh.exposure(rankings, groups=groups, metrics="eed", **POLICY)
    total = sum(slow.exposure(requests, groups, "rbp").values())
    assert result.findings.columns["ideal"][0] == pytest.approx(total**2 / 2)
    assert result.findings.columns["estimate"][0] >= result.findings.columns["ideal"][0]


# Inputs, uncertainty, results ----------------------------------------------------------------------------------------


def test_mappings_of_scores_and_of_lists_are_rankings_and_mappings_of_columns_are_not():
    scores = {"q": {"a": 0.1, "b": 0.9, "c": 0.5}}
    groups = {"a": "m", "b": "f", "c": "m"}
    for rankings in (scores, {"q": ["b", "c", "a"]}):
        assert one("log_dp", rankings, groups, attention="rbp(patience=0.5)") == pytest.approx(math.log(1 / 0.75))
    with pytest.raises(eh.EvenhandError, match="mapping that cannot be read"):
        one("log_dp", {"q": {"a": "first"}}, groups)
    with pytest.raises(eh.EvenhandError, match="gives an item several labels"):
        one("log_dp", scores, {"a": ["m", "f"], "b": "f"})
    with pytest.raises(eh.EvenhandError, match=r"stop= fails at one of the grades .* 0 included"):
        eh.attention.cascade(0.5, lambda grade: 1 / grade).weights(3, [0, 1, 2])
    with pytest.raises(eh.EvenhandError, match="is a mapping of columns"):
        one("log_dp", {"request": ["q", "q"], "item": ["a", "b"], "rank": [1, 2]}, groups)
    assert one("iaa", scores, groups, score="score", attention="uniform") == pytest.approx(2 * (0.6 - 1 / 3))


def test_score_orders_where_there_is_no_rank():
    run = RUN.with_columns(pl.Series("s", [1.0, 4.0, 3.0, 2.0])).drop("rank")
    assert one("log_dp", run, score="s", attention="rbp(patience=0.5)") == pytest.approx(math.log(1 / 0.625))


def test_trec_runs_are_told_apart_and_ordered_by_score(tmp_path):
    (tmp_path / "a.run").write_text("1 Q0 a 2 1 A\n1 Q0 b 1 2 A\n")
    (tmp_path / "b.run").write_text("1 Q0 a 1 2 B\n1 Q0 b 2 1 B\n")
    (tmp_path / "q.qrels").write_text("1 0 a 1\n1 0 b 1\n")
    result = eh.exposure(
        [tmp_path / "a.run", tmp_path / "b.run"], groups=LABELS, relevance=str(tmp_path / "q.qrels"), protected="f",
        metrics="log_eur", attention="rbp(patience=0.5)", interval=None,
    )  # fmt: skip
    assert result.frame["system"].to_list() == ["a", "b"]
    assert result.frame["estimate"].to_list() == pytest.approx([math.log(2), -math.log(2)])


def test_samples_in_the_second_field_and_groups_in_the_iteration_are_expevals_form(tmp_path):
    (tmp_path / "x.run").write_text("1 s1 a 1 2 X\n1 s1 b 2 1 X\n1 s2 b 1 2 X\n1 s2 a 2 1 X\n")
    (tmp_path / "q.qrels").write_text("1 1|2 a 1\n1 2 b 1\n1 -1 c 0\n")
    judged = eh.read.qrels(tmp_path / "q.qrels")
    shared = eh.read.qrels_groups(judged)
    assert sorted(shared.frame.iter_rows(), key=str) == [
        ("a", "1", 0.5),
        ("a", "2", 0.5),
        ("b", "2", 1.0),
        ("c", None, 1.0),
    ]
    run = eh.read.trec_run(tmp_path / "x.run")
    result = eh.exposure(
        run,
        groups=shared,
        relevance=judged.select("request", "item", "relevance"),
        sample="sample",
        metrics="eed(level='item')",
        interval=None,
    )
    assert result.findings.columns["estimate"][0] == pytest.approx(2 * 0.75**2)


def test_intervals_cover_resamples_of_requests_and_count_infinite_draws():
    rng = np.random.default_rng(2)
    rows, items = [], [f"d{i}" for i in range(30)]
    groups = {d: ("f" if i < 3 else "m") for i, d in enumerate(items)}
    for q in range(12):
        rows += [{"request": q, "item": d, "rank": r} for r, d in enumerate(rng.choice(items, 3, replace=False), 1)]
    result = eh.exposure(pl.DataFrame(rows), groups=groups, protected="f", metrics=["log_dp", "awrf", "eed"], rng=4)
    rows = {r["metric"]: r for r in result.findings.rows()}
    for row in rows.values():
        assert row["low"] <= row["estimate"] <= row["high"]
    assert rows["log_dp"]["undefined_draws"] > 0
    assert "infinite_draws" in rows["log_dp"]["note"]
    again = eh.exposure(
        pl.DataFrame(rows.values() and result.findings.rows() and _rows_of(rng=2)),
        groups=groups,
        protected="f",
        metrics=["eed"],
        rng=4,
    )
    assert [again.findings.columns[c][0] for c in ("estimate", "low", "high")] == [
        rows["eed"][c] for c in ("estimate", "low", "high")
    ]


def _rows_of(rng):
    rng = np.random.default_rng(rng)
    items = [f"d{i}" for i in range(30)]
    return [
        {"request": q, "item": d, "rank": r}
        for q in range(12)
        for r, d in enumerate(rng.choice(items, 3, replace=False), 1)
    ]


@pytest.mark.slow
def test_the_interval_of_a_mean_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(5)
    groups = {"f": "f", "m": "m"}
    held = 0
    for trial in range(100):
        first = rng.random(60) < 0.3
        rows = [
            {"request": q, "item": d, "rank": r}
            for q, f in enumerate(first)
            for r, d in enumerate(("f", "m") if f else ("m", "f"), 1)
        ]
        result = eh.exposure(
            pl.DataFrame(rows), groups=groups, protected="f", metrics="awrf(distance='nd', signed=True)", target="equal",
            interval="percentile(199)", rng=trial, chance=False,
        )  # fmt: skip
        truth = 0.3 * (2 / 3) + 0.7 * (1 / 3) - 0.5
        held += result.findings.columns["low"][0] <= truth <= result.findings.columns["high"][0]
    assert 0.88 <= held / 100 <= 0.99


def test_normal_intervals_and_none():
    requests, groups = world(3, requests=12)
    rankings, _ = tables(requests)
    call = {"groups": groups, "metrics": "awrf", "rng": 1, "sample": "sample"}
    normal = next(iter(eh.exposure(rankings, interval="normal", **call).findings.rows()))
    usual = next(iter(eh.exposure(rankings, **call).findings.rows()))
    assert 0 < normal["low"] < normal["estimate"] < normal["high"] < 1
    width = usual["high"] - usual["low"]
    assert normal["high"] - normal["low"] == pytest.approx(width, rel=0.25)
    none = next(iter(eh.exposure(rankings, interval=None, **call).findings.rows()))
    assert math.isnan(none["low"])


def test_small_slices_are_suppressed_everywhere():
    run = RUN.with_columns(pl.lit("x").alias("system"))
    big = pl.concat(
        [RUN.with_columns((pl.col("request") + q).alias("request"), pl.lit("y").alias("system")) for q in range(3)]
    )
    result = eh.exposure(
        pl.concat([run, big.select(run.columns)]),
        groups=LABELS, system="system", metrics="awrf", min_units=2, interval=None,
    )  # fmt: skip
    rows = list(result.findings.rows())
    assert [r["note"] for r in rows] == ["suppressed", None]
    assert result.per_request.height == 0
    assert set(result.findings.curves["exposure"]["system"]) == {"y"}


def test_values_per_request_average_to_the_estimate():
    requests, groups = world(12, requests=9)
    rankings, judged = tables(requests)
    call = POLICY | {"weight": None}
    result = eh.exposure(rankings, groups=groups, relevance=judged, metrics=["awrf", "eel(level='item')"], **call)
    per = result.per_request
    assert per.columns == ["request", "system", "metric", "group", "estimate", "note"]
    for metric, value in estimates(result).items():
        assert per.filter(pl.col("metric") == metric)["estimate"].fill_nan(None).mean() == pytest.approx(value)
    assert set(result.only("awrf").per_request["metric"]) == {"awrf"}


def test_the_result_survives_json(tmp_path):
    requests, groups = world(12)
    rankings, judged = tables(requests)
    result = eh.exposure(rankings, groups=groups, relevance=judged, protected="a", rng=1, sample="sample")
    result.to_json(tmp_path / "r.json")
    assert eh.read.result(tmp_path / "r.json").to_dict() == result.to_dict()
    assert len(result.sentences()) >= len(result.findings)  # cautions follow


def test_nothing_the_caller_passed_is_changed():
    requests, groups = world(1)
    rankings, judged = (t.to_pandas() for t in tables(requests))
    before = rankings.copy(), judged.copy(), dict(groups)
    eh.exposure(rankings, groups=groups, relevance=judged, protected="a", sample="sample", rng=1)
    pd.testing.assert_frame_equal(rankings, before[0])
    pd.testing.assert_frame_equal(judged, before[1])
    assert groups == before[2]


@pytest.mark.parametrize("systems", [(), ("old", "new")])
@pytest.mark.parametrize("soft", [False, True])
def test_taking_every_item_once_gives_the_same_sums_as_the_engine(soft, systems):
    from evenhand.audits.exposure.measures import add_up, parse_exposure_metrics
    from evenhand.sources.judged_rankings import open_judged_rankings
    from evenhand.sources.relation import row_slicing
    from evenhand.tallies.ranked_lists import CrossedSums

    requests, groups = world(13, soft=soft)
    rankings, judged = tables(requests)
    roles = dict.fromkeys(("score", "probability", "weight", "system"))
    if systems:  # the judgments of a request are those of every system that ranks it
        rankings, roles["system"] = rankings.join(pl.DataFrame({"system": systems}), how="cross"), "system"
    roles |= {name: name for name in ("request", "item", "rank", "sample")}
    opened = open_judged_rankings(
        rankings,
        groups=groups,
        relevance=judged,
        missing="zero",
        by=row_slicing(None),
        ties="raise",
        unranked=False,
        nan_policy="raise",
        **roles,
    )
    asked, labels = parse_exposure_metrics(["awrf", "log_dp", "eed"], None, "equal"), opened.labels.labels
    sizes = opened.group_sizes(unknown=False)
    sums, _ = add_up(opened, asked, labels)
    crossed = CrossedSums.from_rankings(opened, sums)
    ((again, counted),) = crossed.drawn(sums, np.ones((crossed.items.shape[1], 1)))
    np.testing.assert_allclose(counted, sizes)
    np.testing.assert_allclose(again.items, sums.items, atol=1e-12)
    assert again.attended.keys() == sums.attended.keys()
    for look, values in sums.attended.items():
        np.testing.assert_allclose(again.attended[look], values, atol=1e-12)


def test_intervals_over_items_too_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(3)
    ranked = pl.DataFrame(
        {
            "request": np.repeat(np.arange(30), 20),
            "item": np.concatenate([rng.permutation(90)[:20] for _ in range(30)]),
            "rank": np.tile(np.arange(1, 21), 30),
            "worth": rng.random(600),
        }
    )
    groups = pl.DataFrame({"item": np.arange(90), "group": rng.choice(["a", "b"], 90)})
    call = {"groups": groups, "relevance": "worth", "protected": "a", "rng": 1, "chance": False}
    call |= {"metrics": ["log_dp", "awrf", "eed"], "resample": "requests_and_items", "interval": "percentile(49)"}
    seen, again = (eh.exposure(rows, **call).findings.columns for rows in (ranked, ranked[rng.permutation(600)]))
    assert [seen[end] for end in ("low", "high")] == [again[end] for end in ("low", "high")]


def test_intervals_over_items_too_are_wider_and_said_so():
    requests, groups = world(11, requests=12)
    rankings, judged = tables(requests)
    call = {"groups": groups, "relevance": judged, "protected": "a", "sample": "sample", "rng": 1, "chance": False}
    call |= {"metrics": ["awrf", "log_dp", "eed"], "interval": "percentile(199)"}
    for_these, for_others = (
        eh.exposure(rankings, resample=over, **call) for over in ("requests", "requests_and_items")
    )
    assert estimates(for_these) == pytest.approx(estimates(for_others))
    widths = [
        [h - low for low, h in zip(r.findings.columns["low"], r.findings.columns["high"], strict=True)]
        for r in (for_these, for_others)
    ]
    assert all(b > a for a, b in zip(*widths, strict=True) if math.isfinite(a) and math.isfinite(b))
    assert "requests, for these items" in for_these.provenance["interval"]
    assert "requests and items" in for_others.provenance["interval"]
    for metric in ("eel(level='item')", "ndd", "fair(p=0.5)", "eel", "log_eur", "awrf(attention='cascade')"):
        with pytest.raises(eh.EvenhandError, match="resampled over items"):
            eh.exposure(rankings, resample="requests_and_items", **(call | {"metrics": metric}))
    with pytest.raises(eh.EvenhandError, match="resample='items'"):
        eh.exposure(rankings, resample="items", **call)


def test_log_dp_is_the_same_to_the_bit_whatever_the_order_of_rows():
    draw = np.random.default_rng(11)
    table = pl.DataFrame(
        {
            "request": np.repeat(np.arange(400), 10), "item": draw.integers(0, 10**9, 4_000),
            "rank": list(range(1, 11)) * 400, "g": draw.choice(["a", "b"], 4_000),
        }
    )  # fmt: skip
    call = {"groups": "g", "protected": "a", "metrics": "log_dp", "interval": None, "rng": 1}
    found = {
        eh.exposure(table.sample(fraction=1, shuffle=True, seed=seed), **call).findings.columns["estimate"][0].hex()
        for seed in range(3)
    }
    assert len(found) == 1


def own_target_data():
    rng = np.random.default_rng(5)
    rows = [(q, f"d{d}", r) for q in range(15) for r, d in enumerate(rng.permutation(12)[:6].tolist(), 1)]
    run = pl.DataFrame(rows, schema=["request", "item", "rank"], orient="row")
    return run, {f"d{i}": "fmx"[i % 3] for i in range(11)}  # d11 has no label


@pytest.mark.parametrize("shares", [{"f": 0.5, "m": 0.3, "x": 0.2}, {"f": 0.5, "m": 0.1, "z": 0.4}, "equal"])
@pytest.mark.parametrize("aggregate", ["before", "per_request"])
def test_eel_and_eer_aim_at_shares_of_all_labelled_exposure(shares, aggregate):
    run, groups = own_target_data()
    asked = [f"{m}(target={shares!r}, aggregate={aggregate!r})" for m in ("eel", "eer", "target_norm")]
    found = eh.exposure(run, groups=groups, metrics=asked, attention="rbp(patience=0.7)", interval=None, rng=1).frame
    wanted = dict.fromkeys("fmx", 1 / 3) if shares == "equal" else shares
    each = []
    for _, one in run.group_by("request"):
        got = {
            g: sum(0.7 ** (r - 1) for d, r in one.select("item", "rank").iter_rows() if groups.get(d) == g)
            for g in "fmxz"
        }
        total = sum(got.values())
        each.append([(got[g], wanted.get(g, 0.0) * total) for g in "fmxz"])
    if aggregate == "before":
        each = [[tuple(np.mean([q[g] for q in each], axis=0)) for g in range(4)]]
    slow = [
        np.mean([sum((e - t) ** 2 for e, t in q) for q in each]),
        np.mean([sum(2 * e * t for e, t in q) for q in each]),
        np.mean([sum(t * t for _, t in q) for q in each]),
    ]
    assert found["estimate"].to_list() == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize(
    "asked",
    [
        "eel(target='equal', level='item')",
        "eel(target='equal', unbiased=True)",
        "eel(target='ranking')",
        "eel(target={'f': 0.4})",
    ],
)
def test_targets_of_expected_exposure_that_cannot_be_are_refused(asked):
    run, groups = own_target_data()
    with pytest.raises(eh.EvenhandError, match="target"):
        eh.exposure(run, groups=groups, metrics=asked, interval=None)


def test_a_curve_of_one_s_own_is_the_same_as_a_function_on_every_engine_and_in_the_plan():
    run, groups = own_target_data()
    relevance = run.with_columns(relevance=pl.col("rank") % 3).select("request", "item", "relevance")
    call = {"groups": groups, "relevance": relevance, "metrics": ["awrf", "eel", "eer@3"], "interval": None, "rng": 1}
    listed = eh.exposure(run, attention=[1, 0.5, 0.3], **call)
    function = eh.exposure(run, attention=lambda rank: [1, 0.5, 0.3, 0, 0, 0][rank - 1], **call)
    engine = eh.exposure(duckdb.from_arrow(run.to_arrow()), attention=[1, 0.5, 0.3], **call)
    assert function.frame.equals(listed.frame)
    assert engine.frame["estimate"].to_pylist() == pytest.approx(listed.frame["estimate"].to_list(), abs=1e-12)
    assert function.provenance["plan"]["attention"] == "curve([1.0, 0.5, 0.3, 0.0, 0.0, 0.0])"
    stopping = eh.exposure(run, attention=eh.attention.cascade(0.8, lambda grade: grade / 4), **call)
    assert stopping.provenance["plan"]["attention"] == "cascade(patience=0.8, stop={1: 0.25, 2: 0.5})"
    assert eh.exposure(run, **{**call, "attention": stopping.provenance["plan"]["attention"]}).frame.equals(
        stopping.frame
    )

"""What random order would give: awrf by simulation against enumeration, fair exactly, prefix metrics through this door."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.attention import parse
from evenhand.metrics.representation import fair_chance
from evenhand.tallies.placement import Placement
from oracles import exposure as slow
from test_exposure_audit import tables, world


def lists(requests, depth, protected, rng):
    """Random rankings with a fixed number of protected items."""
    rows = []
    for q in range(requests):
        order = rng.permutation(depth)
        rows += [
            {"request": q, "item": f"{q}-{d}", "rank": r, "group": "f" if d < protected else "m"}
            for r, d in enumerate(order, 1)
        ]
    return pl.DataFrame(rows)


# 200,000 simulated orders give 0.2001 and 0.0543 at depth 10, 0.2242 and 0.0719 at depth 100.
@pytest.mark.parametrize(("depth", "nd", "js"), [(10, 0.200, 0.054), (100, 0.224, 0.072)])
def test_a_random_ranker_scores_its_chance_level(depth, nd, js):
    run = lists(300, depth, depth * 3 // 10, np.random.default_rng(1))
    result = eh.exposure(
        run,
        groups="group",
        protected="f",
        metrics=["awrf(distance='nd')", "awrf", "awrf(distance='nd', signed=True)"],
        rng=2,
    )
    found = {r["metric"]: r for r in result.findings.rows()}
    assert found["awrf(distance='nd')"]["chance"] == pytest.approx(nd, abs=0.011)
    assert found["awrf"]["chance"] == pytest.approx(js, abs=0.006)
    assert found["awrf(distance='nd', signed=True)"]["chance"] == pytest.approx(0, abs=0.01)
    for row in found.values():
        assert row["low"] - 0.02 <= row["chance"] <= row["high"] + 0.02


@pytest.mark.parametrize("attention", ["geometric(stop=0.5)", "cascade(patience=0.9, stop=0.5)"])
def test_the_chance_of_awrf_is_the_mean_over_all_orders(attention):
    requests, groups = world(3, items=5, judged=4, draws=1, requests=3, labels="ab")
    rankings, judged = tables(requests)
    name, params = (
        ("geometric", {"stop": 0.5}) if attention.startswith("geo") else ("cascade", {"patience": 0.9, "stop": 0.5})
    )
    result = eh.exposure(
        rankings, groups=groups, relevance=judged, attention=attention, target="equal", metrics="awrf(distance='tv')",
        weight="weight", interval=None, rng=5,
    )  # fmt: skip
    total = weight = 0.0
    for one in requests:
        items = one["rankings"][0]["items"]
        values = []
        grades = [one["rel"].get(d, 0) for d in items]  # only labels move: relevance stays with the rank
        for order in itertools.permutations(items):
            values.append(
                slow.awrf(
                    [groups[d] for d in order], {"a": 0.5, "b": 0.5}, "tv", model=name, relevance=grades, **params
                )
            )
        if not any(map(math.isnan, values)):
            total += one["prob"] * np.mean(values)
            weight += one["prob"]
    assert result.findings.columns["chance"][0] == pytest.approx(total / weight, abs=1e-9)


def test_lists_of_few_arrangements_are_put_in_all_of_them_however_many_lists_there_are():
    run = pl.concat([lists(1, 10, n, np.random.default_rng(n)).with_columns(request=pl.lit(n)) for n in range(2, 9)])
    found = eh.exposure(
        run, groups="group", protected="f", target="equal", metrics="awrf(distance='tv')", interval=None, rng=1
    )
    expected = []
    for n in range(2, 9):
        at = itertools.combinations(range(10), n)
        orders = (["f" if i in chosen else "m" for i in range(10)] for chosen in map(set, at))
        expected.append(np.mean([slow.awrf(order, {"f": 0.5, "m": 0.5}, "tv", model="geometric", stop=0.5) for order in orders]))  # fmt: skip
    assert found.findings.columns["chance"][0] == pytest.approx(np.mean(expected), abs=1e-12)


@pytest.mark.parametrize("labels", [[0, 1], [1, 0, 0, None], [1, 1, 0, 0, 0], [None, 1, 0]])
def test_the_chance_of_fair_is_the_mean_over_all_orders(labels):
    known = [x for x in labels if x is not None]
    wanted = np.mean([slow.fair(order, 1, 0.3) for order in itertools.permutations(known)])
    assert fair_chance(Placement.from_arrays(labels, protected=1), 0.3)[0] == pytest.approx(wanted)


def test_prefix_metrics_and_fair_come_through_the_same_door():
    rng = np.random.default_rng(4)
    run = lists(6, 9, 3, rng).with_columns(
        pl.when(pl.col("item").str.ends_with("-5")).then(None).otherwise(pl.col("group")).alias("group")
    )
    metrics = ["ndd", "ndkl@6", "ndjs", "pref_nd(step=3)"]
    here = eh.exposure(run, groups="group", protected="f", metrics=[*metrics, "fair(p=0.3)"], rng=1)
    there = eh.prefix(run, group="group", protected="f", metrics=metrics, rng=1)
    for name in ("estimate", "chance"):
        assert here.findings.columns[name][:4] == pytest.approx(there.findings.columns[name])
    wanted = np.mean(
        [
            slow.fair(part.sort("rank")["group"].to_list(), "f", 0.3)
            for _, part in run.group_by("request", maintain_order=True)
        ]
    )
    assert here.findings.columns["estimate"][4] == pytest.approx(wanted)
    items = eh.exposure(
        run.drop("group"), groups=run.select("item", "group"), protected="f", metrics=metrics, interval=None
    )
    assert items.findings.columns["estimate"] == pytest.approx(here.findings.columns["estimate"][:4])


def test_fair_takes_its_share_from_the_target_where_none_is_given():
    run = lists(3, 6, 2, np.random.default_rng(1))
    call = {"groups": "group", "protected": "f", "interval": None}
    given = eh.exposure(run, metrics="fair(p=0.5)", **call).findings.columns["estimate"]
    assert eh.exposure(run, metrics="fair", target="equal", **call).findings.columns["estimate"] == pytest.approx(given)


def test_soft_groups_reach_the_prefix_metrics_that_take_them():
    rows = {"a": {"x": 0.5, "y": 0.5}, "b": {"x": 1.0}, "c": {"y": 1.0}}
    found = eh.exposure({"q": {"a": 3, "b": 2, "c": 1}}, groups=rows, metrics="ndjs", interval=None).findings.columns[
        "estimate"
    ][0]
    assert found == pytest.approx(eh.metrics.ndjs([rows[d] for d in "abc"]))


def test_chance_can_be_left_out():
    run = lists(3, 6, 2, np.random.default_rng(1))
    result = eh.exposure(run, groups="group", protected="f", metrics=["awrf", "fair(p=0.5)", "ndd"], chance=False)
    assert all(math.isnan(c) for c in result.findings.columns["chance"])


def arrangements(counts):
    """Every order of so many labels of each kind, none twice."""
    left = [(k, n) for k, n in enumerate(counts) if n]
    if not left:
        return [()]
    return [(k, *rest) for k, _ in left for rest in arrangements([n - (g == k) for g, n in enumerate(counts)])]


def chance_of(labels, lists, attention, metric="awrf(distance='tv')"):
    rows = [
        {"request": q, "item": f"{q}-{i}", "rank": i + 1, "group": g}
        for q in range(lists)
        for i, g in enumerate(labels)
    ]
    call = {"target": "equal", "attention": attention, "metrics": metric, "interval": None}
    return eh.exposure(pl.DataFrame(rows), groups="group", **call).findings.columns["chance"][0]


def over_all_orders(labels, weights):
    """Mean total variation from equal shares, labels dealt again among the ranks that have one."""
    known = [i for i, g in enumerate(labels) if g is not None]
    names = sorted({labels[i] for i in known})
    orders = np.array(arrangements([sum(labels[i] == g for i in known) for g in names]))
    got = np.stack([((orders == k) * weights[known]).sum(1) for k in range(len(names))], axis=1)
    return np.abs(got / got.sum(1, keepdims=True) - 1 / len(names)).sum(1).mean() / 2


@pytest.mark.parametrize(("attention", "near"), [("geometric(stop=0.5)", 5e-5), ("log", 2e-4)])
@pytest.mark.parametrize("labels", ["abbaabbaabbababa", "abcabcabcaba"])
def test_drawn_orders_come_next_to_the_mean_over_all_orders(labels, attention, near):
    weights = parse(attention).weights(len(labels))
    wanted = over_all_orders(list(labels), weights)
    assert chance_of(list(labels), 3, attention) == pytest.approx(wanted, abs=near)


@pytest.mark.parametrize("labels", ["aabbbaabbb", ["a", None, "b", "b", "a", None, "c", "b", "c"]])
def test_many_lists_alike_are_put_in_every_order_once(labels):
    wanted = over_all_orders(list(labels), parse("log").weights(len(labels)))
    assert chance_of(list(labels), 300, "log") == pytest.approx(wanted, abs=1e-12)


def judged_lists(rng, requests=6, draws=1):
    """Lists with unlabelled items, relevance and weights; `draws` rankings of each request, each of its own items."""
    rows = []
    for q in range(requests):
        for s in range(draws):
            items = rng.permutation(12)[: int(rng.integers(4, 10))]
            rows += [
                {"request": q, "sample": s, "item": f"{q}-{d}", "rank": r, "group": [None, "a", "a", "b", "b", "c"][(q + d) % 6],
                 "relevance": float((q * d) % 3 == 0), "weight": 1.0 + q % 3}
                for r, d in enumerate(items.tolist(), 1)
            ]  # fmt: skip
    return pl.DataFrame(rows)


def in_random_order(lists, worlds, rng, *, unlabelled_stay):
    """So many copies of the lists, each in random order: items move with all they carry."""
    parts = []
    for copy in range(worlds):
        for part in lists.partition_by("request", "sample", maintain_order=True):
            moves = np.flatnonzero(part["group"].is_not_null().to_numpy() | (not unlabelled_stay))
            order = np.arange(len(part))
            order[moves] = rng.permutation(moves)
            parts.append(part[order.tolist()].with_columns(rank=part["rank"], world=pl.lit(copy)))
    return pl.concat(parts)


CASCADE = "attention='cascade(patience=0.8, stop=0.5)'"
BY_GROUP = [
    "eed", "eed@3", "eed(aggregate='per_request')", "eel", "eel(aggregate='per_request')", "eel(target='equal')",
    f"eed({CASCADE})", f"eel({CASCADE})", f"eel(aggregate='per_request', {CASCADE})", "awrf", "awrf@3", "fair(p=0.4)", "ndd",
]  # fmt: skip
OF_DRAWS = [
    "eed(unbiased=True)", "eed(aggregate='per_request', unbiased=True)", "eel(unbiased=True)", "eed",
    "eed(aggregate='per_request')",
]  # fmt: skip


@pytest.mark.parametrize(
    ("metrics", "draws", "unlabelled_stay"),
    [
        (BY_GROUP, 1, True),
        (OF_DRAWS, 3, True),
        (["eel(level='item')"], 1, False),
        (["eed(level='item')", "eel(level='item')", "eed(level='item', unbiased=True)"], 3, False),
    ],
)
def test_the_chance_column_is_the_mean_over_lists_in_random_order(metrics, draws, unlabelled_stay):
    rng = np.random.default_rng(13)
    call = {
        "groups": "group", "relevance": "relevance", "protected": "a", "versus": "*", "weight": "weight", "metrics": metrics,
        "interval": None, "sample": "sample",
    }  # fmt: skip
    lists = judged_lists(rng, draws=draws)
    found = eh.exposure(lists, **call)
    assert found.findings.provenance["chance"] == dict.fromkeys(metrics, "in random order")
    worlds = in_random_order(lists, 150, rng, unlabelled_stay=unlabelled_stay)
    drawn = eh.exposure(worlds, **call, by="world", chance=False).frame
    for metric, chance in zip(metrics, found.frame["chance"], strict=True):
        values = drawn.filter(pl.col("metric") == metric)["estimate"].drop_nulls().to_numpy()
        assert chance == pytest.approx(values.mean(), abs=3 * values.std() / math.sqrt(len(values))), metric


def test_ratios_of_exposure_and_norms_that_no_order_moves_have_no_chance():
    lists = judged_lists(np.random.default_rng(2))
    metrics = ["dp", "log_dp", "eur", "log_eur", "rur", "log_rur", "eer", "target_norm", "eed(level='item')"]
    found = eh.exposure(
        lists, groups="group", relevance="relevance", protected="a", versus="b", metrics=metrics, interval=None
    )
    assert found.frame["chance"].is_nan().all()


def test_soft_labels_have_the_chance_of_expected_exposure_too():
    shares = {"x": {"f": 0.5, "m": 0.5}, "y": {"f": 1.0, "m": 0.0}, "z": {"f": 0.2, "m": 0.8}}
    table = pl.DataFrame([{"item": i, **row} for i, row in shares.items()])
    run = pl.DataFrame({"request": ["q"] * 3, "item": list("xyz"), "rank": [1, 2, 3]})
    found = eh.exposure(run, groups=table, metrics="eed", interval=None).frame["chance"][0]
    weights, values = [1.0, 0.5, 0.25], []
    for order in itertools.permutations(shares.values()):
        values.append(sum(sum(w * row[g] for w, row in zip(weights, order, strict=True)) ** 2 for g in "fm"))
    assert found == pytest.approx(np.mean(values))


def test_the_ideal_policy_on_as_few_requests_is_the_floor_of_eel():
    lists = judged_lists(np.random.default_rng(2))
    found = eh.exposure(lists, groups="group", relevance="relevance", metrics=["eel", "eed"], interval=None)
    assert found.frame["floor"][0] > 0
    assert found.frame["floor"][1] is None or math.isnan(found.frame["floor"][1])
    assert "an ideal policy judged on as few requests would score" in found.sentences()[0]
    assert "in random order: " in found.sentences()[0]
    assert "floor" not in eh.exposure(lists, groups="group", metrics="eed", interval=None).frame.columns

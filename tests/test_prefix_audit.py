"""From a table of rankings to prefix metrics: the same numbers on every engine, against chance, with intervals."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand import EvenhandError
from evenhand.intervals.orders import parse_draws, random_orders
from evenhand.metrics import ndd, ndjs, ndkl
from evenhand.metrics.prefix import TEMPLATES, Reading, lean_and_spread
from evenhand.report.charts.registry import KINDS
from evenhand.tallies.placement import Placement
from golden_cases import cases
from oracles import prefix as oracle
from ranked_tables import ENGINES, table

engines = pytest.mark.parametrize("engine", ENGINES)
LISTS = {
    "zoo": ["con", "pro", None, "con", "pro", "pro"],
    "tax": ["pro", "pro", "con", "con"],
    "war": ["pro", "pro"],
    "sea": [None, None],
    "sun": ["con", "neutral", "pro", "con", "pro", "pro", "neutral", "con"],
}
SERP = table(LISTS)


def many(requests=40, depth=12, seed=3, lean=1.0):
    """Random rankings; `lean` above 1 puts con higher."""
    rng = np.random.default_rng(seed)
    lists = {}
    for q in range(requests):
        labels = rng.choice(["con", "pro", "neutral"], depth, p=[0.3, 0.5, 0.2])
        keys = rng.exponential(size=depth) / np.where(labels == "con", lean, 1.0)
        lists[f"q{q:03}"] = labels[np.argsort(keys)].tolist()
    return table(lists)


@cases(["ndd", "ndr", "ndkl", "ndjs", "pref", "pref_multi"])
def test_the_audit_gives_the_book_its_values(case):
    args = case["args"]
    labels = args["labels"] if "labels" in args else [g for g, n in args["labels_rle"] for _ in range(n)]
    if not labels:
        return
    usual = {"ndjs": "bound", "pref": "max", "pref_multi": "max"}.get(case["fn"], "published")
    name = {"pref": f"pref_{args.get('distance', '').lower()}", "pref_multi": "pref_kl"}.get(case["fn"], case["fn"])
    params = [f"normalizer={args.get('normalizer', usual)!r}"] + ([f"step={args['step']}"] if "step" in args else [])
    result = eh.prefix(
        table({"q": labels}), group="stance", protected=None if case["fn"] in ("ndjs", "pref_multi") else 1,
        metrics=f"{name}({', '.join(params)})", chance=None, rng=1,
    )  # fmt: skip
    found = result.frame.row(0, named=True)
    if isinstance(case["expect"], dict):
        assert math.isnan(found["estimate"])
        assert found["note"] == case["expect"]["nan"]
    else:
        assert found["estimate"] == pytest.approx(case["expect"], abs=case["tol"])


@engines
def test_every_engine_gives_the_same_numbers(engine):
    shuffled = many().sample(fraction=1, shuffle=True, seed=1)
    call = {"group": "stance", "protected": "con", "metrics": ["ndd", "ndkl", "ndjs", "pref_nd(step=5)"], "rng": 7}
    one = eh.prefix(many(), **call).to_dict()
    other = eh.prefix(ENGINES[engine](shuffled), **call).to_dict()
    assert one["columns"] == other["columns"]
    assert one["curves"] == other["curves"]


def test_means_leave_undefined_requests_out_and_count_them():
    found = eh.prefix(SERP, group="stance", protected="con", metrics=["ndd", "ndjs"], rng=1)
    row = found.frame.row(0, named=True)
    values = [ndd(LISTS[q], protected="con") for q in ("zoo", "tax", "sun")]
    assert row["estimate"] == pytest.approx(np.mean(values))
    assert (row["units"], row["undefined"], row["note"]) == (3, 2, "some_undefined; few_requests")
    assert found.provenance["undefined_requests"]["ndd"] == {"one_group_only": 1, "no_labelled_items": 1}
    each = found.per_request
    assert each.columns[:4] == ["request", "system", "metric", "group"]
    assert each.filter(pl.col("metric") == "ndd").sort("request")["note"].to_list() == [
        "no_labelled_items", None, None, "one_group_only", None,
    ]  # fmt: skip
    assert each.filter((pl.col("metric") == "ndjs") & (pl.col("request") == "sun"))["estimate"][0] == pytest.approx(
        ndjs(LISTS["sun"])
    )


def test_slices_are_independent_of_each_other():
    both = pl.concat([many(seed=s).with_columns(engine=pl.lit(e), day=pl.lit(s)) for s, e in ((1, "x"), (2, "y"))])
    call = {"group": "stance", "protected": "con", "rng": 5}
    sliced = eh.prefix(both, by=["engine", "day"], **call).frame.drop("p_adjusted")  # that one knows how many there are
    alone = eh.prefix(both.filter(engine="y"), by=["engine", "day"], **call).frame.drop("p_adjusted")
    assert sliced.filter(engine="y").equals(alone)
    assert sliced.columns[:3] == ["engine", "day", "metric"]


def test_a_cut_looks_at_the_first_ranks_only():
    found = eh.prefix(table({"q": list("aabbab")}), group="stance", protected="a", metrics=["ndd", "ndd@4"], rng=1)
    assert found.frame["metric"].to_list() == ["ndd", "ndd@4"]
    assert found.frame["estimate"][1] == pytest.approx(ndd(list("aabb"), protected="a"))


def test_the_default_metrics_depend_on_whether_a_side_is_protected():
    assert eh.prefix(SERP, group="stance", protected="con", rng=1).frame["metric"].to_list() == ["ndd", "ndkl"]
    assert eh.prefix(SERP, group="stance", rng=1).frame["metric"].to_list() == ["ndjs"]


def test_several_labels_are_taken_together():
    lists = {"q": [-3, 0, -1, 2, -2, 3, 1]}
    found = eh.prefix(table(lists), group="stance", protected=[-3, -2, -1], metrics="ndkl", rng=1)
    assert found.frame["estimate"][0] == pytest.approx(ndkl([int(x < 0) for x in lists["q"]], protected=1))
    assert found.frame["favoured"][0] == "-3, -2, -1"


def test_empty_ranks_count_as_unknown_items():
    gap = table({"q": ["con", "pro", "con", "pro", "pro"]}).filter(pl.col("rank") != 2)
    found = eh.prefix(gap, group="stance", protected="con", metrics="ndd", rng=1)
    assert found.frame["estimate"][0] == pytest.approx(ndd(["con", None, "con", "pro", "pro"], protected="con"))


@pytest.mark.parametrize(
    ("unknown", "labels"),
    [
        ("drop", ["con", None, "pro", "con", "pro"]),
        ("group", ["con", "unknown", "pro", "con", "pro"]),
        ("unprotected", ["con", "unknown", "pro", "con", "pro"]),
    ],
)
def test_unknown_labels_do_what_was_asked(unknown, labels):
    serp = table({"q": ["con", None, "pro", "con", "pro"]})
    found = eh.prefix(serp, group="stance", protected="con", unknown=unknown, metrics=["ndd", "ndjs"], rng=1)
    wanted = [ndd(labels, protected="con"), ndjs(labels)]
    assert found.frame["estimate"].to_list() == pytest.approx(wanted)
    assert found.provenance["unlabelled_items"] == 1


def test_unknown_labels_can_be_refused():
    with pytest.raises(EvenhandError, match="3 of 22 items have no label"):
        eh.prefix(SERP, group="stance", unknown="raise")


@pytest.mark.parametrize("columns", [("item", "group"), ("item", "stance"), ("item", "label")])
def test_labels_may_stand_in_another_table(columns, tmp_path):
    labels = SERP.select("item", "stance").drop_nulls().rename(dict(zip(("item", "stance"), columns, strict=True)))
    path = tmp_path / "labels.csv"
    labels.write_csv(path)
    bare = SERP.drop("stance")
    wanted = eh.prefix(SERP, group="stance", rng=1).frame["estimate"].to_list()
    for group in (labels, labels.to_pandas(), str(path), dict(labels.iter_rows())):
        assert eh.prefix(bare, group=group, rng=1).frame["estimate"].to_list() == pytest.approx(wanted)


def test_ids_are_compared_as_text_where_their_types_differ():
    serp = pl.DataFrame({"request": [1, 1, 1], "rank": [1, 2, 3], "item": [10, 11, 12]})
    found = eh.prefix(serp, group={"10": "a", "11": "b", "12": "a"}, rng=1)
    assert found.frame["estimate"][0] == pytest.approx(ndjs(["a", "b", "a"]))


def test_labels_that_fit_no_item_are_refused_but_an_empty_mapping_is_not():
    with pytest.raises(EvenhandError, match="None of the items in the rankings has a label"):
        eh.prefix(SERP, group={"x": "con"})
    assert eh.prefix(SERP, group={}, rng=1).frame["note"].to_list() == ["no_labelled_items"]


def test_items_may_be_shared_out_between_groups():
    shared = pl.DataFrame({"request": ["q"] * 3, "rank": [1, 2, 3], "a": [1.0, 0.5, 0.0], "b": [0.0, 0.5, 1.0]})
    found = eh.prefix(shared, group=eh.shares("a", "b"), metrics=["ndjs", "pref_kl(step=2)"], rng=1).frame
    rows = [{"a": 1.0, "b": 0.0}, {"a": 0.5, "b": 0.5}, {"a": 0.0, "b": 1.0}]
    assert found["estimate"][0] == pytest.approx(ndjs(rows))
    assert np.isfinite(found["chance"].to_numpy()).all()
    with pytest.raises(EvenhandError, match="needs one label per item, not shares"):
        eh.prefix(shared, group=eh.shares("a", "b"), protected="a", metrics="ndd")
    with pytest.raises(EvenhandError, match="1 rows with shares that are negative"):
        eh.prefix(shared.with_columns(b=pl.Series([0.5, 0.5, 1.0])), group="shares(a, b)")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"group": "stanc"}, "group='stanc' is not a column of the rankings. Did you mean 'stance'?"),
        ({"group": "stance", "protected": "conn"}, "Did you mean 'con'?"),
        ({"group": "stance", "metrics": "ndd"}, "metrics='ndd' compares two groups. Pass protected="),
        ({"group": "stance", "metrics": "gini"}, "does not fit this question"),
        ({"group": "stance", "metrics": "ndjss"}, "Did you mean 'ndjs'?"),
        ({"group": "stance", "unknown": "skip"}, "unknown='skip' does not fit"),
        ({"group": "stance", "chance": "shuffle(9)"}, "chance='shuffle\\(9\\)' cannot be read"),
        ({"group": "stance", "chance": "permutation(3)"}, "needs 20 to 1,000,000 random orders"),
        ({"group": "stance", "interval": "jackknife"}, "not a known interval"),
        ({"group": "stance", "min_units": -1}, "min_units=-1 is outside"),
        ({"group": eh.shares("rank", "stance")}, "hold no numbers: stance"),
        ({"group": {"a": 1, "b": "x"}}, "group mixes kinds of items or labels"),
        (
            {"group": pl.DataFrame({"item": ["x", "x"], "group": ["a", "b"]})},
            "group gives 1 of its ids more than one label",
        ),
        ({"group": pl.DataFrame({"doc": ["x"], "group": ["a"]})}, "has no column 'item'"),
    ],
)
def test_bad_calls_are_refused_in_words(call, words):
    with pytest.raises(EvenhandError, match=words):
        eh.prefix(SERP, **call)


def test_too_small_slices_are_suppressed_everywhere():
    both = pl.concat([many(requests=n).with_columns(engine=pl.lit(e)) for n, e in ((30, "x"), (3, "y"))])
    found = eh.prefix(both, group="stance", protected="con", by="engine", min_units=10, rng=1)
    hidden = found.frame.filter(engine="y")
    assert hidden["note"].to_list() == ["suppressed"] * 2
    assert hidden["estimate"].is_nan().all()
    assert hidden["favoured"].is_null().all()
    assert found.per_request.height == 0
    for curve in found.findings.curves.values():
        assert set(curve["engine"]) == {"x"}


def test_chance_is_exact_and_p_small_only_where_there_is_bias():
    fair = eh.prefix(many(60), group="stance", protected="con", metrics="ndd", rng=1).frame.row(0, named=True)
    biased = eh.prefix(many(60, lean=4.0), group="stance", protected="con", metrics="ndd", rng=1).frame.row(
        0, named=True
    )
    assert fair["estimate"] == pytest.approx(fair["chance"], abs=0.05)
    assert fair["p"] > 0.05
    assert biased["p"] < 0.01
    assert biased["favoured"] == "con"


def test_a_held_back_minority_of_short_lists_is_seen_by_who_is_favoured():
    lists = eh.synthetic.viewpoints({"a": 3, "b": 7}, alpha=0.3, lists=400, favoured=["a"], rng=1)
    row = eh.prefix(lists, group="viewpoint", protected="a", metrics="ndd", rng=1).frame.row(0, named=True)
    assert row["p"] > 0.5
    assert row["favoured"] == "b"
    assert row["p_favoured"] < 1e-6


def test_the_spread_of_the_lean_is_that_of_every_order():
    for labels in (list("aabbb"), ["a", None, "b", "b", None, "a"], list("abcab")):
        p = Placement.from_arrays(labels)
        every = np.array([lean_and_spread(Placement.from_arrays(order))[0][0] for order in oracle.arrangements(labels)])
        assert lean_and_spread(p)[1][0] == pytest.approx(every.std(0))
        assert every.mean(0) == pytest.approx(np.zeros(len(p.groups)), abs=1e-12)


def test_p_of_the_favoured_is_uniform_under_random_orders():
    found = [
        eh.prefix(many(30, seed=s), group="stance", protected="con", metrics="ndd", chance=None, interval=None).frame[
            "p_favoured"
        ][0]
        for s in range(60)
    ]
    assert np.mean(np.array(found) <= 0.5) == pytest.approx(0.5, abs=0.14)
    assert np.mean(np.array(found) <= 0.05) <= 0.12


def test_without_chance_there_is_no_p():
    row = eh.prefix(SERP, group="stance", chance=None, rng=1).frame.row(0, named=True)
    assert math.isnan(row["chance"])
    assert math.isnan(row["p"])


def test_one_request_has_no_interval():
    row = eh.prefix(SERP.filter(request="zoo"), group="stance", rng=1).frame.row(0, named=True)
    assert math.isnan(row["low"])
    assert not math.isnan(row["p"])


@pytest.mark.slow
def test_the_interval_covers_the_mean_over_all_requests():
    hits, runs = 0, 60
    whole = many(2000, seed=99, lean=2.0)
    truth = eh.prefix(whole, group="stance", protected="con", metrics="ndd", chance=None, interval=None).frame[
        "estimate"
    ][0]
    for seed in range(runs):
        part = many(60, seed=seed, lean=2.0)
        row = eh.prefix(
            part, group="stance", protected="con", metrics="ndd", chance=None, interval="bootstrap(199)", rng=seed
        )
        low, high = row.frame["low"][0], row.frame["high"][0]
        hits += low <= truth <= high
    assert 0.85 <= hits / runs <= 1.0


def test_p_is_uniform_under_random_orders():
    rng = np.random.default_rng(5)
    for gaps in (0.0, 0.2):
        codes = np.where(rng.random(2000 * 15) < gaps, -1, rng.integers(0, 2, 2000 * 15)).astype(np.int8)
        p = Placement(codes, np.arange(0, 2000 * 15 + 1, 15), ("a", "b"), (0,))
        reading = Reading.from_placement(TEMPLATES["ndd"](p), p)  # lists of one length have theirs in common
        orders = random_orders(reading, reading.scores(), 1999, 1)
        shares = [float((orders.p <= level).mean()) for level in (0.05, 0.25, 0.5, 0.75)]
        assert shares == pytest.approx([0.05, 0.25, 0.5, 0.75], abs=0.035)


@pytest.mark.parametrize("requests", [2, 30, 300])
def test_p_of_the_mean_is_uniform_under_random_orders(requests):
    rng = np.random.default_rng(6)
    runs, depth = 150, 10
    codes = rng.integers(0, 2, runs * requests * depth).astype(np.int8)
    p = Placement(codes, np.arange(0, runs * requests * depth + 1, depth), ("a", "b"), (0,))
    reading = Reading.from_placement(TEMPLATES["ndd"](p), p)
    scores = reading.scores()
    orders = random_orders(reading, scores, 199, 1)
    found = [orders.p_of_mean(np.arange(i * requests, (i + 1) * requests)) for i in range(runs)]
    assert np.mean(np.array(found) <= 0.5) == pytest.approx(0.5, abs=0.12)
    assert np.mean(np.array(found) <= 0.05) <= 0.12


def test_random_orders_are_drawn_once_per_composition():
    p = Placement(np.array([0, 1, 1, 0] * 50, dtype=np.int8), np.arange(0, 201, 4), ("a", "b"), (0,))
    reading = Reading.from_placement(TEMPLATES["ndd"](p), p)
    assert len(set(random_orders(reading, reading.scores(), 99, 1).variances.tolist())) == 1


def test_number_of_random_orders_is_read_from_text():
    assert (parse_draws("permutation(50)"), parse_draws("permutation"), parse_draws(None)) == (50, 999, 0)


def test_the_result_survives_saving(tmp_path):
    found = eh.prefix(SERP, group="stance", protected="con", rng=1)
    found.to_json(tmp_path / "r.json")
    assert eh.read.result(tmp_path / "r.json").to_dict() == json.loads(found.to_json())
    assert found.only("ndd").per_request["metric"].unique().to_list() == ["ndd"]


def test_labels_have_one_colour_on_a_page():
    found = eh.prefix(table({1: list("czzza"), 2: list("zzcaz")}), group="stance", rng=1).findings
    for kind in ("prefix", "strip"):
        assert colours(KINDS[kind].draw(found)) == ["z", "a", "c"]


def colours(picture):
    """Labels in the order of the palette."""
    text = json.dumps([panel.chart.to_dict() for panel in picture.panels])
    return json.loads(re.search(r'"domain": (\["\w", "\w", "\w"\])', text)[1])


def test_sentences_name_chance_and_who_is_favoured():
    said = eh.prefix(table({"q": list("aaabbb")}), group="stance", protected="a", metrics="ndd", rng=1).sentences()
    assert "random order would give" in said[0]
    assert "a stands neither significantly nearer to nor further from the top than random order gives." in said[1]
    quiet = eh.prefix(
        table({"q": list("aaabbb")}), group="stance", protected="a", metrics="ndd", chance=None
    ).sentences()
    assert "random order" not in quiet[0]


@pytest.mark.parametrize("least", [None, 20])
def test_labels_by_item_of_rankings_without_items_are_refused(least):
    rows = pl.DataFrame({"request": [1, 1, 2, 2], "rank": [1, 2, 1, 2]})
    with pytest.raises(eh.EvenhandError, match=r"the rankings have no column of items\. Name it with item="):
        eh.prefix(rows, group={1: "a", 2: "b"}, protected="a", min_units=least)


def test_an_empty_table_is_undefined_and_says_so():
    row = eh.prefix(SERP.clear(), group="stance", protected="con", metrics="ndd", rng=1).frame.row(0, named=True)
    assert (row["note"], row["units"]) == ("empty", 0)
    assert math.isnan(row["estimate"])


def test_a_table_of_one_label_has_no_two_sides_to_compare():
    with pytest.warns(eh.DataWarning, match="protected='con' is no label"):
        found = eh.prefix(table({"q": ["pro"] * 4}), group="stance", protected="con", metrics=["ndd", "ndkl"], rng=1)
    assert found.frame["note"].to_list() == ["one_group_only"] * 2


def test_a_page_need_not_hold_every_protected_label():
    labels = [-1, 2, 0, -2, 3]
    with pytest.warns(eh.DataWarning, match="protected=-3 is no label"):
        found = eh.prefix(table({"q": labels}), group="stance", protected=[-3, -2, -1], metrics="ndd", rng=1)
    assert found.frame["estimate"][0] == pytest.approx(ndd([int(x < 0) for x in labels], protected=1))


@pytest.mark.parametrize("metric", ["ndr", "ndd"])
def test_orders_that_tie_with_the_mean_reach_it_whatever_the_seed(metric):
    lists = ["ffmmf", "mf", "fmm"]
    rows = [(q, f"{q}{i}", i + 1, label) for q, labels in enumerate(lists) for i, label in enumerate(labels)]
    run = pl.DataFrame(rows, schema=["request", "item", "rank", "group"], orient="row")
    values = [
        [getattr(eh.metrics, metric)(order, protected="f") for order in itertools.permutations(labels)]
        for labels in lists
    ]
    means = np.array([np.mean(each) for each in itertools.product(*values)])
    found = np.mean([values[i][0] for i in range(3)])
    exact = np.mean(means >= found - 1e-9)
    for seed in range(6):
        call = {"group": "group", "protected": "f", "metrics": metric, "interval": None, "chance": "permutation(9999)"}
        assert eh.prefix(run, **call, rng=seed).frame["p"][0] == pytest.approx(exact, abs=0.03)


def test_random_orders_of_a_very_long_list_are_refused_and_its_top_is_not():
    n = 200_001
    frame = pl.DataFrame({"request": [1] * n, "rank": range(1, n + 1), "stance": ["con", "pro", "pro"] * (n // 3)})
    call = {"group": "stance", "protected": "con", "metrics": "ndd", "interval": None, "rng": 1}
    with pytest.raises(eh.EvenhandError, match=r"A ranking has 200,001 ranks.* chance=None"):
        eh.prefix(frame, **call)
    assert eh.prefix(frame, **call, chance=None).frame["estimate"][0] < 0.01
    assert eh.prefix(frame, **(call | {"metrics": "ndd@100"})).frame["estimate"][0] > 0

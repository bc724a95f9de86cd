"""Our metrics inside LensKit's RunAnalysis, on lists that LensKit made, equal to the plain functions; runs into eh.exposure."""

import math

import numpy as np
import pandas as pd
import pytest
from lenskit.basic import PopScorer
from lenskit.batch import recommend
from lenskit.data import ItemList, ItemListCollection, from_interactions_df
from lenskit.metrics import RunAnalysis
from lenskit.pipeline import topn_pipeline

import evenhand as eh
from evenhand.adapters.lenskit import AWRF, EED, EEL, EER, ExposureMetric, ProviderGini
from evenhand_conformance import vectors
from hosts.blocks import run_page, upstream

ITEMS = range(60)
GROUPS = {i: "f" if i % 3 == 0 else "m" for i in ITEMS if i < 55}
SHARE = {g: sum(v == g for v in GROUPS.values()) / len(GROUPS) for g in "fm"}
PROVIDERS = {i: f"p{i % 9}" for i in ITEMS} | {7: ["p1", "new"]}


@pytest.fixture(scope="module")
def run():
    """Recommendations of a trained LensKit pipeline, and held out items of the same users."""
    rng = np.random.default_rng(3)
    seen = pd.DataFrame({"user_id": rng.integers(1, 41, 900), "item_id": (rng.random(900) ** 2 * 60).astype(int)})
    seen = seen.drop_duplicates()
    pipeline = topn_pipeline(PopScorer(), n=12)
    pipeline.train(from_interactions_df(seen))
    users = list(range(1, 41))
    output = recommend(pipeline, users, n_jobs=1)
    test = ItemListCollection.from_dict(
        {u: ItemList(item_ids=rng.choice(60, 5, replace=False)) for u in users[:-1]}, "user_id"
    )
    return output, test


def analysed(run, **metrics):
    analysis = RunAnalysis()
    for label, metric in metrics.items():
        analysis.add_metric(metric, label=label)
    return analysis.measure(*run)


def labels(found, n=None):
    return [GROUPS.get(i) for i in found.ids()[np.argsort(found.ranks())][:n].tolist()]


@pytest.mark.filterwarnings("ignore::evenhand.UndefinedWarning")
def test_list_metrics_equal_the_plain_functions(run):
    metrics = {
        "awrf": AWRF(GROUPS, 10),
        "tv": AWRF(GROUPS, target="equal", distance="tv", attention="log"),
        "signed": AWRF(GROUPS, protected="f", distance="nd", signed=True),
    }
    plain = {
        "awrf": lambda x: eh.metrics.awrf(x[:10], target=SHARE),
        "tv": lambda x: eh.metrics.awrf(x, target={"f": 0.5, "m": 0.5}, distance="tv", attention="log"),
        "signed": lambda x: eh.metrics.awrf(x, target=SHARE, protected="f", distance="nd", signed=True),
    }
    found = analysed(run, **metrics).list_metrics()
    for name, function in plain.items():
        expected = [function(labels(one)) for one in run[0].lists()]
        assert found[name].tolist() == pytest.approx(expected, rel=1e-12, nan_ok=True), name


def test_expected_exposure_equals_that_of_the_audit_on_the_same_lists(run):
    metrics = {m.__name__.lower(): m(GROUPS) for m in (EED, EEL, EER)}
    found = analysed(run, **metrics).list_metrics()
    for name in metrics:
        asked = f"{name}(aggregate='per_request')"
        audit = eh.exposure(run[0], groups=GROUPS, relevance=run[1], metrics=asked, interval=None, chance=False)
        each = audit.per_request.set_index("request")["estimate"]
        assert found[name].to_dict() == pytest.approx(each.to_dict(), rel=1e-9, nan_ok=True), name


def test_lists_are_read_by_rank_whatever_order_their_rows_have():
    frame = pd.DataFrame({"user_id": 1, "item_id": [3, 0, 2, 1], "rank": [1, 4, 2, 3]})
    shuffled = ItemListCollection.from_df(frame, "user_id")
    straight = ItemListCollection.from_df(frame.sort_values("rank"), "user_id")
    none = ItemListCollection.from_dict({1: ItemList([])}, "user_id")
    both = [analysed((lists, none), awrf=AWRF(GROUPS)).list_metrics()["awrf"][1] for lists in (shuffled, straight)]
    assert both == [pytest.approx(eh.metrics.awrf(["f", "m", "m", "f"], target=SHARE))] * 2


def test_lists_without_a_value_are_nan_and_left_out_of_means():
    lists = {1: [0, 1, 2], 2: [57, 58], 3: []}  # of the second no group is known; the third is empty
    output = ItemListCollection.from_dict(
        {u: ItemList(item_ids=ids, ordered=True) for u, ids in lists.items()}, "user_id"
    )
    test = ItemListCollection.from_dict({u: ItemList(item_ids=[0]) for u in lists}, "user_id")
    metric = AWRF(GROUPS)
    found = analysed((output, test), awrf=metric)
    assert found.list_metrics()["awrf"].isna().tolist() == [False, True, True]
    one = eh.metrics.awrf(["f", "m", "m"], target=SHARE)
    assert found.list_summary().loc["awrf", "mean"] == pytest.approx(one)
    assert found.global_metrics()["awrf"] == pytest.approx(one)
    assert metric.summarize([one, math.nan, math.nan])["undefined"] == 2


def test_labels_name_the_metric_and_the_cutoff():
    assert [m.label for m in (AWRF(GROUPS, 10), EEL(GROUPS), ProviderGini(PROVIDERS, 5))] == [
        "AWRF@10",
        "EEL",
        "ProviderGini@5",
    ]


def by_hand(output, n):
    """Attention per provider, list by list, rank by rank."""
    totals = dict.fromkeys([f"p{i}" for i in range(9)] + ["new"], 0.0)
    for one in output.lists():
        for place, item in enumerate(one.ids()[np.argsort(one.ranks())][:n].tolist()):
            owners = PROVIDERS[item] if isinstance(PROVIDERS[item], list) else [PROVIDERS[item]]
            for owner in owners:
                totals[owner] += 0.5 ** (place + 1) / len(owners)
    return totals


def test_provider_gini_is_that_of_the_attention_on_each_provider(run):
    found = analysed(run, gini=ProviderGini(PROVIDERS, 5), more=ProviderGini(PROVIDERS, 5, population=20))
    amounts = list(by_hand(run[0], 5).values())
    assert found.global_metrics()["gini"] == pytest.approx(eh.metrics.gini(amounts), rel=1e-12)
    assert found.global_metrics()["more"] == pytest.approx(eh.metrics.gini([*amounts, *[0.0] * 10]), rel=1e-12)


def test_provider_gini_reads_a_table_and_says_what_it_left_out(run):
    table = pd.DataFrame({"item_id": list(ITEMS), "provider": [i % 9 for i in ITEMS]})
    whole = ProviderGini(table, 5).measure_run(*run)
    assert whole == pytest.approx(ProviderGini({i: i % 9 for i in ITEMS}, 5).measure_run(*run))
    shown = {i for one in run[0].lists() for i in labels_ids(one)}
    with pytest.warns(eh.DataWarning, match=f"^{len(shown) - 1} items shown have no provider"):
        ProviderGini({min(shown): "a", 999: "b"}, 5).measure_run(*run)


def labels_ids(one):
    return one.ids()[np.argsort(one.ranks())][:5].tolist()


def test_metrics_of_a_whole_run_equal_the_audit(run):
    found = analysed(run, dp=ExposureMetric("log_dp", GROUPS, protected="f"), eel=ExposureMetric("eel", GROUPS))
    audit = eh.exposure(
        run[0], groups=GROUPS, relevance=run[1], protected="f", metrics=["log_dp", "eel"], interval=None, chance=False
    )
    assert found.global_metrics()[["dp", "eel"]].tolist() == audit.frame["estimate"].tolist()


def test_a_collection_goes_straight_into_exposure(run):
    table = run[0].to_df()
    asked = dict(groups=GROUPS, metrics=["awrf@10", "eed"], interval=None, chance=False)
    straight = eh.exposure(run[0], **asked).frame
    assert isinstance(straight, pd.DataFrame)
    pd.testing.assert_frame_equal(straight, eh.exposure(table, request="user_id", item="item_id", **asked).frame)


def test_a_collection_with_several_keys_keeps_the_others_for_slices(run):
    two = ItemListCollection(["model", "user_id"])
    for model in ("a", "b"):
        for key, found in run[0].items():
            two.add(found, model=model, user_id=key.user_id)
    asked = dict(groups=GROUPS, metrics="awrf", interval=None, chance=False)
    found = eh.exposure(two, system="model", **asked).frame
    one = eh.exposure(run[0], **asked).frame["estimate"][0]
    assert found["system"].tolist() == ["a", "b"]
    assert found["estimate"].tolist() == [one, one]
    other = ItemListCollection(["model", "session"])
    other.add(next(iter(run[0].lists())), model="a", session=1)
    with pytest.raises(eh.EvenhandError, match=r"keyed by model, session.*request="):
        eh.exposure(other, **asked)


def test_an_empty_collection_has_no_value_and_no_traceback():
    found = eh.exposure(ItemListCollection(["user_id"]), groups=GROUPS, metrics="eed", interval=None, chance=False)
    assert all(math.isnan(v) for v in found.frame["estimate"])


def test_bad_calls_say_what_to_pass():
    with pytest.raises(eh.EvenhandError, match="is no label of the groups"):
        AWRF(GROUPS, protected="x", distance="nd")
    with pytest.raises(eh.EvenhandError, match="smaller than the 10 providers"):
        ProviderGini(PROVIDERS, population=3)
    unordered = ItemList(item_ids=[1, 2])
    with pytest.raises(eh.EvenhandError, match="no ranks"):
        AWRF(GROUPS).measure_list(unordered, unordered)


def test_the_example_of_the_page_runs(tmp_path):
    assert "ProviderGini" in run_page("lenskit", tmp_path)


def test_the_metric_drafted_for_lenskit_gives_the_values_of_the_kit():
    scope = {}
    exec(compile(upstream("lenskit"), "lenskit.md", "exec"), scope)
    cases = [
        v
        for v in vectors("awrf")
        if set(v["parameters"]) == {"target", "distance"} and v["parameters"]["distance"] == "js"
    ]
    assert len(cases) >= 3
    for vector in cases:
        labels, target = vector["input"]["labels"], vector["parameters"]["target"]
        metric = scope["AWRF"](dict(enumerate(labels)), target)
        shown = ItemList(item_ids=list(range(len(labels))), ordered=True)
        expected = math.nan if vector["value"] is None else vector["value"]
        assert metric.measure_list(shown, None) == pytest.approx(expected, nan_ok=True), vector["id"]

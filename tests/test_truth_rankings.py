"""Rankings with gaps in what is known: requests nobody judged, items without a label. What is left out moves no number."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from oracles import exposure as slow

AIMED = ["eel", "eer", "target_norm", "eel(level='item')", "eel(aggregate='per_request')", "log_eur", "log_rur"]


def world(requests, judged, seed=1, depth=6):
    """Random lists of two groups; the first `judged` requests have judgments."""
    rng = np.random.default_rng(seed)
    rows, truth = [], []
    for q in range(requests):
        order = rng.permutation(depth)
        rows += [{"request": f"q{q}", "item": f"d{d}", "rank": r} for r, d in enumerate(order, 1)]
        relevant = rng.integers(0, 3, depth) + (np.arange(depth) < 2)
        if q < judged:
            truth += [{"request": f"q{q}", "item": f"d{d}", "relevance": int(relevant[d])} for d in range(depth)]
    groups = {f"d{d}": "fm"[d % 2] for d in range(depth)}
    return pl.DataFrame(rows), pl.DataFrame(truth), groups


def test_requests_that_nobody_judged_do_not_move_what_judgments_decide():
    rankings, truth, groups = world(8, 5)
    call = {"groups": groups, "relevance": truth, "protected": "f", "metrics": AIMED, "rng": 1}
    whole = eh.exposure(rankings, **call)
    judged = eh.exposure(rankings.filter(pl.col("request").is_in(truth["request"].unique().to_list())), **call)
    for name in AIMED:
        one, other = (next(iter(r.only(name).findings.rows())) for r in (whole, judged))
        assert one["estimate"] == pytest.approx(other["estimate"]), name
        assert one["note"] == "unjudged_requests; few_requests"
        assert one["undefined"] == 3
        assert other["note"] == "few_requests"


def test_the_sentence_counts_the_requests_that_nobody_judged():
    rankings, truth, groups = world(8, 5)
    said = eh.exposure(rankings, groups=groups, relevance=truth, metrics="eel", interval=None).sentences()
    assert any("3 of 8" in sentence and "have no judgments" in sentence for sentence in said)


def test_a_slice_without_a_judged_request_has_no_value():
    rankings, truth, groups = world(6, 3)
    rankings = rankings.with_columns(half=pl.col("request").is_in(["q0", "q1", "q2"]))
    found = eh.exposure(rankings, groups=groups, relevance=truth, by="half", metrics=["eel", "eed"], interval=None)
    rows = {(r["half"], r["metric"]): r for r in found.findings.rows()}
    assert math.isnan(rows[False, "eel"]["estimate"])
    assert rows[False, "eel"]["note"] == "no_judged_requests"
    assert rows[True, "eel"]["note"] is None
    assert not math.isnan(rows[False, "eed"]["estimate"])


def test_judgments_of_other_requests_are_refused_with_an_id_of_each():
    rankings, truth, groups = world(4, 4)
    other = truth.with_columns(pl.col("request").str.replace("q", "topic-"))
    with pytest.raises(eh.EvenhandError, match=r"'topic-\d'.*'q\d'"):
        eh.exposure(rankings, groups=groups, relevance=other, metrics="eel")


@pytest.mark.parametrize("metric", ["awrf(distance='tv')", "awrf(distance='tv')@3"])
@pytest.mark.parametrize("labels", ["f-m-mf", "-mfm-m", "abca-b", "fmmmmmmmmf"])
def test_chance_deals_labels_among_the_labelled_ranks_and_leaves_the_others(labels, metric):
    rows = [
        {"request": "q", "item": str(i), "rank": i + 1, "group": None if g == "-" else g} for i, g in enumerate(labels)
    ]
    known = [g for g in labels if g != "-"]
    aim = {g: 1 / len(set(known)) for g in set(known)}
    found = eh.exposure(pl.DataFrame(rows), groups="group", target="equal", metrics=metric, interval=None, rng=1)
    cut = int(metric.partition("@")[2] or len(labels))
    values = []
    for order in set(itertools.permutations(known)):
        deal = iter(order)
        dealt = [None if g == "-" else next(deal) for g in labels]
        values.append(slow.awrf(dealt[:cut], aim, "tv", model="geometric", stop=0.5))
    assert found.frame["chance"][0] == pytest.approx(np.nanmean(values), abs=1e-9)


def test_no_seed_moves_a_chance_level():
    rng = np.random.default_rng(3)
    rows = [
        {"request": q, "item": f"{q}-{r}", "rank": r, "group": rng.choice(["a", "b", "c", None])}
        for q in range(20)
        for r in range(1, 31)
    ]
    call = {"groups": "group", "metrics": ["awrf", "awrf@10"], "interval": None}
    one, other = (eh.exposure(pl.DataFrame(rows), **call, rng=seed).frame["chance"].to_list() for seed in (1, 2))
    assert one == other


def test_the_chance_of_a_cut_fair_deals_the_whole_list():
    labels = "fmmfmmm"
    rows = [{"request": "q", "item": str(i), "rank": i + 1, "group": g} for i, g in enumerate(labels)]
    found = eh.exposure(pl.DataFrame(rows), groups="group", protected="f", metrics="fair(p=0.3)@3", interval=None)
    orders = set(itertools.permutations(labels))
    assert found.frame["chance"][0] == pytest.approx(np.mean([slow.fair(o[:3], "f", 0.3) for o in orders]))


def test_pairs_of_a_request_know_the_labels_of_that_request_only():
    """Labels given as judgments (stance per topic and document): by brute force over every pair of every request."""
    rng = np.random.default_rng(8)
    rows = [
        {
            "request": q,
            "item": f"d{d}",
            "score": float(rng.random()),
            "relevance": int(rng.integers(0, 2)),
            "group": str(g),
        }
        for q in "abcd"
        for d, g in enumerate(rng.choice(["pro", "con"], 7))
    ]
    table = pl.DataFrame(rows)
    labels = table.select("request", "item", "group")
    wins = {}
    for one, two in itertools.permutations(rows, 2):
        if one["request"] == two["request"] and one["relevance"] > two["relevance"]:
            wins.setdefault((one["group"], two["group"]), []).append(one["score"] > two["score"])
    wanted = np.mean(wins["con", "pro"]) - np.mean(wins["pro", "con"])
    found = eh.pairwise(
        table.drop("group"), groups=labels, relevance="relevance", protected="pro", metrics="inter_acc", interval=None
    )
    assert found.frame["estimate"][0] == pytest.approx(wanted)
    assert found.frame["pairs"][0] == len(wins["con", "pro"]) + len(wins["pro", "con"])

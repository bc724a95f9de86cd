"""Prefix metrics: against their definitions, the worked cases, the laws, and what the paper says."""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import EvenhandError, UndefinedWarning
from evenhand.cards import parse_metric
from evenhand.metrics import prefix as metrics
from evenhand.metrics import prefix_terms
from evenhand.metrics.prefix import (
    TEMPLATES,
    geyik_ndkl,
    lean_and_spread,
    looked_at,
    ndd,
    ndjs,
    ndkl,
    ndr,
    pref,
    pref_kl,
    pref_nd,
    pref_rd,
    scores_of,
)  # fmt: skip
from evenhand.metrics.prefix_terms import Terms, nd
from evenhand.tallies.placement import Placement
from golden_cases import cases, holds
from oracles import prefix as oracle

two_sides = st.lists(st.sampled_from([0, 1]), min_size=2, max_size=8).filter(lambda x: 0 < sum(x) < len(x))
with_gaps = st.lists(st.sampled_from([0, 1, None]), min_size=2, max_size=8).filter(lambda x: {0, 1} <= set(x))
several = st.lists(st.sampled_from("abc"), min_size=2, max_size=7).filter(lambda x: len(set(x)) > 1)

SIDED = {
    "ndd": (partial(ndd, protected=1), oracle.share_difference),
    "ndr": (partial(ndr, protected=1), oracle.ratio_difference),
    "ndr_one_sided": (partial(ndr, protected=1, one_sided=True), oracle.ratio_shortfall),
    "ndkl": (partial(ndkl, protected=1), oracle.smoothed_divergence),
    "ndkl_bare": (partial(ndkl, protected=1, smoothing=None), partial(oracle.smoothed_divergence, smoothing=None)),
}
each_sided = pytest.mark.parametrize(("metric", "difference"), SIDED.values(), ids=SIDED)


def long_list(case):
    """The labels of a case; `labels_rle` stands for a long list."""
    args = case["args"]
    return args["labels"] if "labels" in args else [g for g, n in args["labels_rle"] for _ in range(n)]


@cases(["ndd", "ndr", "ndkl"])
def test_two_sided_metrics_give_the_book_its_values(case):
    metric = getattr(metrics, case["fn"])
    normalizer = case["args"].get("normalizer", "published")
    holds(case["expect"], case["tol"], lambda: metric(long_list(case), protected=1, normalizer=normalizer))


@cases(["ndr_one_sided"])
def test_the_one_sided_ratio_gives_the_book_its_values(case):
    holds(case["expect"], case["tol"], lambda: ndr(long_list(case), protected=1, one_sided=True))


@cases(["ndjs"])
def test_ndjs_gives_the_book_its_values(case):
    normalizer = case["args"].get("normalizer", "bound")
    holds(case["expect"], case["tol"], lambda: ndjs(long_list(case), normalizer=normalizer))


@cases(["prefix_raw"])
def test_sums_without_a_normaliser_give_the_book_its_values(case):
    args, labels = case["args"], long_list(case)
    kind = args["kind"]
    if kind == "RD1":
        with pytest.raises(EvenhandError):  # the ratio of another tool, not offered
            pref(labels, distance="rd1", protected=1, step=args["step"], normalizer=None)
        return
    if kind.startswith("n"):
        holds(case["expect"], case["tol"], lambda: getattr(metrics, kind.lower())(labels, protected=1, normalizer=None))
        return
    discount = "log2(i+1)" if args["plus_one"] else "log2(i)"
    holds(
        case["expect"],
        case["tol"],
        lambda: pref(labels, distance=kind.lower(), protected=1, step=args["step"], discount=discount, normalizer=None),
    )


@cases(["prefix_max"])
def test_the_exact_maximum_is_that_of_full_enumeration(case):
    size, ours = case["args"]["N"], case["args"]["Sp"]
    metric, labels = getattr(metrics, case["args"]["kind"].lower()), [1] * ours + [0] * (size - ours)
    holds(
        case["expect"],
        case["tol"],
        lambda: metric(labels, protected=1, normalizer=None) / metric(labels, protected=1, normalizer="max"),
    )


@cases(["pref"])
def test_pref_gives_the_book_its_values(case):
    distance = case["args"]["distance"].lower()
    holds(case["expect"], case["tol"], lambda: pref(long_list(case), distance=distance, protected=1))


@cases(["pref_multi"])
def test_pref_of_many_groups_gives_the_book_its_values(case):
    holds(case["expect"], case["tol"], lambda: pref(long_list(case), distance="kl", step=case["args"].get("step", 10)))


@each_sided
@given(labels=with_gaps)
@settings(max_examples=40)
def test_two_sided_metrics_are_their_definition(metric, difference, labels):
    raw, largest = oracle.prefix_sum(labels, difference), oracle.largest(labels, difference)
    assert metric(labels, normalizer=None) == pytest.approx(raw, abs=1e-12)
    if largest > 1e-12:
        assert metric(labels, normalizer="max") == pytest.approx(raw / largest, abs=1e-12)


@given(labels=with_gaps, step=st.integers(2, 4), plus_one=st.booleans(), distance=st.sampled_from(["nd", "rd", "kl"]))
@settings(max_examples=80)
def test_pref_is_its_definition_at_any_step_and_discount(labels, step, plus_one, distance):
    if len(labels) < step:
        return
    difference = {
        "nd": oracle.share_difference,
        "rd": oracle.ratio_difference,
        "kl": partial(oracle.smoothed_divergence, smoothing=None),
    }[distance]
    how = {"step": step, "plus_one": plus_one}
    raw, largest = oracle.prefix_sum(labels, difference, **how), oracle.largest(labels, difference, **how)
    call = partial(
        pref,
        labels,
        distance=distance,
        protected=1,
        step=step,
        discount="log2(i+1)" if plus_one else "log2(i)",
    )
    assert call(normalizer=None) == pytest.approx(raw, abs=1e-12) or largest < 1e-12
    if largest > 1e-12:
        assert call() == pytest.approx(raw / largest, abs=1e-12)


@given(labels=several, gap=st.integers(0, 6))
@settings(max_examples=50)
def test_metrics_of_many_groups_are_their_definition(labels, gap):
    labels = [*labels[:gap], None, *labels[gap:]]
    js, kl = oracle.mix_jensen_shannon, oracle.mix_divergence
    worst = oracle.largest(labels, js)
    assert ndjs(labels, normalizer=None) == pytest.approx(oracle.prefix_sum(labels, js), abs=1e-12)
    assert ndjs(labels, normalizer="max") == pytest.approx(oracle.prefix_sum(labels, js) / worst, abs=1e-12)
    how = {"step": 2, "plus_one": False}
    worst = oracle.largest(labels, kl, **how)
    if worst > 1e-12:
        assert pref_kl(labels, step=2) == pytest.approx(oracle.prefix_sum(labels, kl, **how) / worst, abs=1e-12)


@each_sided
@given(labels=with_gaps)
@settings(max_examples=25)
def test_the_chance_level_is_the_mean_over_every_order(metric, difference, labels):
    template = TEMPLATES[metric.func.card.name]
    keywords = {k: v for k, v in metric.keywords.items() if k != "protected"}
    p = Placement.from_arrays(labels, protected=1)
    found = template(p, normalizer=None, **keywords).scores(p).chances[0]
    assert found == pytest.approx(oracle.expected(labels, difference), abs=1e-12)


@given(labels=several)
@settings(max_examples=25)
def test_the_chance_level_of_many_groups_is_the_mean_over_every_order(labels):
    p = Placement.from_arrays([None, *labels])
    found = TEMPLATES["ndjs"](p, normalizer=None).scores(p).chances[0]
    assert found == pytest.approx(oracle.expected([None, *labels], oracle.mix_jensen_shannon), abs=1e-12)


@pytest.mark.parametrize(("size", "ours", "level"), [(10, 5, 0.56), (20, 6, 0.36), (700, 300, 0.09)])
def test_chance_levels_are_those_the_book_states(size, ours, level):
    p = Placement.from_arrays([1] * ours + [0] * (size - ours), protected=1)
    assert TEMPLATES["ndd"](p).scores(p).chances[0] == pytest.approx(level, abs=0.005)


@pytest.mark.parametrize("ours", range(1, 39))
def test_the_worst_order_puts_the_smaller_side_first(ours):
    smaller, larger = (1, 0) if ours <= 20 else (0, 1)
    labels = [smaller] * min(ours, 39 - ours) + [larger] * max(ours, 39 - ours)
    assert ndd(labels, protected=1) == pytest.approx(1, abs=1e-12)
    assert ndkl(labels, protected=1) == pytest.approx(1, abs=1e-12)


@given(size=st.integers(1, 40), weights=st.lists(st.floats(0, 9), min_size=40, max_size=40))
@settings(max_examples=40)
def test_under_weights_that_never_rise_the_smaller_side_first_is_furthest_from_the_whole(size, weights):
    counts = np.arange(size + 1.0)
    terms = Terms(nd, counts, np.full(size + 1, size), counts, np.full(size + 1, size))
    falling = np.tile(sorted(weights[:size], reverse=True), (size + 1, 1))
    kinds = np.arange(size + 1)
    found = prefix_terms.largest_of_sides(metrics.ND, terms, falling, kinds)
    np.testing.assert_allclose(found, prefix_terms.longest_paths(terms, falling, kinds), atol=1e-11)


def test_under_weights_that_rise_it_need_not_be():
    terms, kinds = Terms(nd, *(np.array([float(n)]) for n in (30, 100, 30, 100))), np.zeros(1, dtype=int)
    weights = np.zeros((1, 100))
    weights[0, [0, 69]] = 1.0  # one protected item first, then all that are not
    found = prefix_terms.largest_of_sides(metrics.ND, terms, weights, kinds)
    assert found == pytest.approx(0.7 + 0.3 - 1 / 70)
    assert prefix_terms.arranged(terms, weights, kinds, first=True) < found


@pytest.mark.parametrize("counts", [(1, 2, 3), (2, 2, 2), (1, 1, 5), (2, 3, 4, 5), (3, 3, 1, 9)])
def test_the_worst_order_of_many_groups_is_blocks_of_ascending_size(counts):
    labels = [g for g, n in sorted(enumerate(counts), key=lambda pair: pair[1]) for _ in range(n)]
    assert ndjs(labels, normalizer="max") == pytest.approx(1, abs=1e-12)


def test_the_exact_maximum_of_long_lists_of_many_groups_is_refused():
    labels = list("abcd") * 40
    with pytest.raises(EvenhandError, match=r"160 items in 4 groups is out of reach\. Pass normalizer=None"):
        ndjs(labels, normalizer="max")
    with pytest.raises(EvenhandError, match="out of reach"):
        pref_kl(labels)
    assert pref_kl(labels, normalizer=None) >= 0


def test_very_long_lists_use_the_worse_of_the_two_extremes(monkeypatch):
    labels = [1, 0, 0, 1, 0, 0, 0, 1, 0, 0]
    exact = ndkl(labels, protected=1)
    monkeypatch.setattr(prefix_terms, "MOST_STATES", 0)
    assert ndkl(labels, protected=1) == pytest.approx(exact, abs=1e-12)
    with pytest.raises(EvenhandError, match="too long for the exact maximum"):
        ndr(labels, protected=1, normalizer="max")


@pytest.mark.parametrize(
    ("ours", "true_maximum", "published"), [(300, 6194.96, 235.11), (240, 4179.04, 190.12), (180, 2528.03, 146.70)]
)
def test_the_published_normaliser_of_ndr_is_far_below_the_maximum(ours, true_maximum, published):
    labels = [1] * ours + [0] * (700 - ours)
    raw = ndr(labels, protected=1, normalizer=None)
    assert raw == pytest.approx(published, abs=0.005)
    assert raw / ndr(labels, protected=1, normalizer="max") == pytest.approx(true_maximum, abs=0.006)


@given(labels=two_sides)
def test_difference_and_divergence_do_not_care_which_side_is_protected(labels):
    for metric in (ndd, ndkl):
        assert metric(labels, protected=1) == pytest.approx(metric(labels, protected=0), abs=1e-12)


@given(labels=several, renamed=st.permutations("xyz"))
def test_names_of_labels_change_nothing(labels, renamed):
    other = [renamed["abc".index(label)] for label in labels]
    assert ndjs(labels) == pytest.approx(ndjs(other), abs=1e-12)


@given(labels=with_gaps)
def test_trailing_unknown_items_change_nothing(labels):
    assert ndd(labels, protected=1) == pytest.approx(ndd([*labels, None, None], protected=1), abs=1e-12)


@given(labels=two_sides)
def test_pref_at_every_rank_is_ndd(labels):
    assert pref(labels, protected=1, step=1, discount="log2(i+1)") == pytest.approx(ndd(labels, protected=1))


@given(labels=two_sides)
def test_two_labels_and_two_sides_have_the_same_divergence(labels):
    if len(labels) > 2:
        assert pref_kl(labels, step=2, normalizer=None) == pytest.approx(
            pref_kl(labels, protected=1, step=2, normalizer=None), abs=1e-12
        )


@given(labels=several)
def test_labels_given_as_whole_rows_are_labels(labels):
    rows = [{label: 1.0} for label in labels]
    assert ndjs(rows, normalizer="max") == pytest.approx(ndjs(labels, normalizer="max"), abs=1e-12)
    matrix = np.array([[label == g for g in "abc"] for label in labels], dtype=float)
    assert ndjs(matrix, groups="abc") == pytest.approx(ndjs(labels), abs=1e-12)


def test_shares_are_compared_by_their_running_mean():
    rows = [{"a": 0.5, "b": 0.5}, None, {"a": 1.0}, {"b": 1.0}]
    total, taken = {"a": 0.5, "b": 0.5}, [{"a": 0.5, "b": 0.5}] * 2 + [{"a": 0.75, "b": 0.25}, {"a": 0.5, "b": 0.5}]
    js = []
    for p in taken:
        middle = {g: (p[g] + total[g]) / 2 for g in p}
        js.append((oracle.divergence(p, middle) + oracle.divergence(total, middle)) / 2)
    weights = [1 / math.log2(i + 1) for i in range(1, 5)]
    assert ndjs(rows) == pytest.approx(sum(w * x for w, x in zip(weights, js, strict=True)) / sum(weights), abs=1e-12)
    kl = oracle.divergence({"a": 0.75, "b": 0.25}, total)
    assert pref_kl(rows, step=3) == pytest.approx(kl / math.log2(3), abs=1e-12)


@pytest.mark.parametrize("metric", [ndd, ndr, ndkl, pref_nd, pref_rd])
def test_metrics_of_two_sides_refuse_shares(metric):
    with pytest.raises(EvenhandError, match="one label per item"):
        metric([{"a": 0.5, "b": 0.5}, {"a": 1.0}], protected="a")


def test_an_exact_maximum_of_shares_is_refused():
    with pytest.raises(EvenhandError, match="needs one label per item"):
        ndjs([{"a": 0.5, "b": 0.5}, {"a": 1.0}], normalizer="max")


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: ndd([], protected=1), "empty"),
        (lambda: ndd([None], protected=1), "no_labelled_items"),
        (lambda: ndd([1], protected=1), "one_group_only"),
        (lambda: ndd([0, 0], protected=1), "one_group_only"),
        (lambda: ndjs([]), "empty"),
        (lambda: ndjs(["a"]), "one_group_only"),
        (lambda: pref([1, 0] * 4, protected=1), "too_short"),
        (lambda: pref([1, 0] * 5, protected=1, distance="rd"), "zero_normalizer"),
        (lambda: pref([1, 0] * 5, distance="kl"), "zero_normalizer"),
        (lambda: pref([1] * 20, protected=1, distance="kl"), "one_group_only"),
    ],
)
def test_what_does_not_exist_is_nan_with_its_reason(call, reason):
    with pytest.warns(UndefinedWarning) as caught:
        assert math.isnan(call())
    assert caught[0].message.reason == reason


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ndd([1, 0]), "No side is protected"),
        (lambda: ndd([1, float("nan")], protected=1), "labels holds NaN"),
        (lambda: ndd("ab", protected="a"), "is not a list"),
        (lambda: ndd([1, 0], protected=[]), "names no label"),
        (lambda: ndd([1, 0], protected=1, normalizer="bound"), "does not fit"),
        (lambda: ndjs([["a"], ["b"]]), "unhashable"),
        (lambda: pref([1, 0], protected=1, distance="jsd"), "Known: nd, rd, kl"),
        (lambda: pref([1, 0], protected=1, step=1), "divides by log2"),
        (lambda: pref([1, 0], protected=1, step=0), "outside"),
        (lambda: pref([1, 0] * 9, protected=1, target={1: 0.2, 0: 0.2}), "is not a distribution"),
        (lambda: pref([1, 0] * 9, protected=1, target={"x": 1.0}), "names no label"),
        (lambda: pref([1, 0] * 9, protected=1, target=["x"]), "cannot be read"),
        (lambda: ndjs([{"a": 0.4}, {"b": 1.0}]), "sum to 1"),
        (lambda: ndjs([{"a": 1.0}, "b"]), "mixes labels"),
    ],
)
def test_bad_input_is_refused_in_words(call, words):
    with pytest.raises(EvenhandError, match=words.replace("(", r"\(")):
        call()


def test_a_target_replaces_the_mix_of_the_list():
    labels = [1, 0, 0, 1]
    wanted = (abs(0.5 - 0.25) / math.log2(2) + abs(0.5 - 0.25) / math.log2(4)) / 1
    for target in (0.25, {1: 0.25, 0: 0.75}):
        assert pref(labels, protected=1, step=2, target=target, normalizer=None) == pytest.approx(wanted)
    with_gap = [1, 0, None, 0, 1, None]
    by_hand = sum(abs(s - 0.25) / math.log2(i) for i, s in [(2, 0.5), (4, 1 / 3), (6, 0.5)])
    assert pref(with_gap, protected=1, step=2, target=0.25, normalizer=None) == pytest.approx(by_hand)
    assert pref([1, 1], protected=1, step=2, target=0.25, normalizer=None) == pytest.approx(0.75)


def test_a_group_that_the_target_lacks_is_infinitely_far():
    labels = list("aabb")
    assert pref(labels, distance="kl", step=2, target={"a": 0.0, "b": 1.0}, normalizer=None) == math.inf
    with pytest.warns(UndefinedWarning) as caught:
        assert math.isnan(pref(labels, distance="kl", step=2, target={"a": 0.0, "b": 1.0}))
    assert caught[0].message.reason == "no_common_support"


def test_several_labels_together_are_one_side():
    labels = [-3, 0, -1, 2, -2, 3]
    binary = [int(label < 0) for label in labels]
    assert ndd(labels, protected=[-3, -2, -1]) == pytest.approx(ndd(binary, protected=1))


def test_the_sign_says_who_is_favoured():
    assert lean_and_spread(Placement.from_arrays(list("aabb"), protected="a"))[0][0].tolist() == pytest.approx(
        [0.8988, -0.8988], abs=1e-4
    )
    assert np.isnan(lean_and_spread(Placement.from_arrays([None]))[0]).sum() == 0
    gap = lean_and_spread(Placement.from_arrays([None, "a", "b"]))[0][0]
    assert gap[0] == pytest.approx(0.5 / math.log2(3))


def test_ndkl_of_other_libraries_is_offered_under_its_own_name():
    prefixes = [(1, 0), (1, 0), (2 / 3, 1 / 3), (0.5, 0.5)]
    weights = [1 / math.log2(i + 1) for i in range(1, 5)]
    kls = [sum((x + 1e-7) * math.log((x + 1e-7) / (0.5 + 1e-7)) for x in p) for p in prefixes]
    wanted = sum(w * k for w, k in zip(weights, kls, strict=True)) / sum(weights)
    assert geyik_ndkl(list("aabb")) == pytest.approx(wanted, abs=1e-12)


@st.composite
def many_rankings(draw):
    """Ragged lists with gaps, some empty, some of one group."""
    return draw(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=9), min_size=1, max_size=12))


def placed(lists, protected=None):
    names = ("a", "b", "c")
    codes = [-1 if label is None else names.index(label) for labels in lists for label in labels]
    starts = np.concatenate([[0], np.cumsum([len(labels) for labels in lists])]).astype(np.int64)
    p = Placement(np.array(codes, dtype=np.int32), starts, names)
    return p.protecting(protected)


@given(lists=many_rankings())
@settings(max_examples=60)
def test_many_rankings_at_once_equal_a_loop(lists):
    for name, keywords in [
        ("ndd", {}),
        ("ndr", {"normalizer": "max"}),
        ("ndkl", {"normalizer": "published"}),
        ("pref_rd", {"step": 3}),
        ("ndjs", {"normalizer": "max"}),
        ("pref_nd", {"step": 2, "target": 0.3}),
    ]:
        metric = getattr(metrics, name)
        together = metric.on(placed(lists, "a"), **keywords)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedWarning)
            alone = [metric(labels, protected="a", **keywords) for labels in lists]
        np.testing.assert_allclose(together, alone, atol=1e-12, equal_nan=True)


def test_lists_of_very_different_lengths_have_the_values_they_have_alone():
    rng = np.random.default_rng(1)
    lists = [rng.choice(["a", "b", "c", None], size).tolist() for size in (1, 2, 90, 3, 40, 5, 200, 4)]
    p = placed(lists * 40, "a")
    for name in ("ndd", "ndkl", "ndjs"):
        alone = [TEMPLATES[name](one).values(one)[0] for one in (placed([labels], "a") for labels in lists)]
        np.testing.assert_allclose(TEMPLATES[name](p).values(p), alone * 40, atol=1e-12, equal_nan=True)


def test_a_cut_looks_at_the_first_ranks_only():
    p = placed([list("aabbcc"), list("ab")], "a")
    np.testing.assert_allclose(ndd.on(p.cut(4)), [ndd(list("aabb"), protected="a"), ndd(list("ab"), protected="a")])


def test_the_hypergeometric_window_of_long_lists_changes_nothing(monkeypatch):
    p = Placement.from_arrays([1, 0, 0] * 300, protected=1)
    whole = TEMPLATES["ndd"](p).scores(p).chances[0]
    monkeypatch.setattr(prefix_terms, "MOST_CELLS", 1 << 12)
    assert TEMPLATES["ndd"](p).scores(p).chances[0] == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("form", ["pyarrow", "chunked", "polars", "pandas", "category"])
def test_labels_may_come_as_a_column_of_any_dataframe(form):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    labels = ["a", None, "b", "b", "a"]
    column = {
        "pyarrow": lambda: pa.array(labels),
        "chunked": lambda: pa.chunked_array([labels[:2], labels[2:]]),
        "polars": lambda: pl.Series(labels),
        "pandas": lambda: pd.Series(labels),
        "category": lambda: pd.Series(labels, dtype="category"),
    }[form]()
    assert ndd(column, protected="a") == ndd(labels, protected="a")


def test_a_target_without_a_group_that_is_ranked_has_no_largest_distance():
    call = {"step": 2, "target": {1: 1, 0: 0}}
    with pytest.warns(UndefinedWarning) as said:
        assert math.isnan(pref([1, 0, 0, 1], distance="kl", **call))
    assert [w.message.reason for w in said] == ["no_common_support"]
    assert pref([1, 0, 0, 1], distance="kl", normalizer=None, **call) == math.inf


@pytest.mark.parametrize("distance", ["nd", "rd", "kl"])
def test_every_member_of_pref_takes_the_same_words(distance):
    words = {"protected": 1, "step": 10, "target": None, "discount": "log2(i)", "normalizer": "max"}
    assert pref([1, 0] * 10, distance=distance, one_sided=False, **words) == 0


def test_only_the_ratio_has_a_one_sided_form():
    with pytest.raises(EvenhandError, match="one_sided"):
        pref([1, 0] * 10, distance="nd", protected=1, one_sided=True)


AIMED = {"ndd": oracle.share_difference, "ndkl": oracle.smoothed_divergence}
AIMS = {0.25: [1, 0, 0, 0], 0.5: [1, 0], 0.6: [1, 1, 1, 0, 0]}


def looked(metric, labels, *, depth=None, **params):
    """One list as an audit hands it to a metric with a cutoff."""
    written = ", ".join(f"{k}={v!r}" for k, v in params.items())
    asked = parse_metric(f"{metric}({written})" + (f"@{depth}" if depth else ""))
    p = looked_at(asked, Placement.from_arrays(labels, protected=None if metric == "ndjs" else 1))
    return scores_of(asked, p, chance=True)


@pytest.mark.parametrize("metric", AIMED)
@pytest.mark.parametrize("depth", [None, 3])
@pytest.mark.parametrize("aim", [None, *AIMS])
def test_targets_and_the_whole_list_have_exact_maxima_and_chance_levels(metric, depth, aim):
    for labels in ([1, 0, 0, 1, 0, 0, 1], [0, None, 1, 1, 0, None, 1], [1, 1, 1, 0, 1]):
        found = looked(metric, labels, depth=depth, target=aim, reference="list")
        how = {"depth": depth, "target": AIMS.get(aim)}
        worst = oracle.largest(labels, AIMED[metric], **how)
        assert found.values[0] == pytest.approx(oracle.prefix_sum(labels, AIMED[metric], **how) / worst, abs=1e-12)
        assert found.normalizers[0] == pytest.approx(worst, abs=1e-12)
        assert found.chances[0] == pytest.approx(oracle.expected(labels, AIMED[metric], **how) / worst, abs=1e-12)


@pytest.mark.parametrize("normalizer", ["bound", "max"])
@pytest.mark.parametrize("depth", [None, 2, 4])
@pytest.mark.parametrize(
    "aim", [None, {"a": 0.5, "b": 0.25, "c": 0.25}, {"a": 0.5, "b": 0.25, "d": 0.25}, {"a": 0.25, "b": 0.75}]
)
def test_ndjs_against_a_target_counts_groups_that_the_list_lacks(normalizer, depth, aim):
    whole = None if aim is None else [g for g, share in aim.items() for _ in range(round(4 * share))]
    for labels in (list("aabbc"), ["c", None, "a", "b", "b"], list("aab")):
        how = {"depth": depth, "target": whole}
        found = looked("ndjs", labels, depth=depth, target=aim, reference="list", normalizer=normalizer)
        z = oracle.largest(labels, oracle.mix_jensen_shannon, **how)
        if normalizer == "bound":
            z = sum(1 / math.log2(i + 1) for i in range(1, min(len(labels), depth or 9) + 1))
            z -= 0 if labels[0] is not None else 1
        assert found.normalizers[0] == pytest.approx(z, abs=1e-12)
        assert found.values[0] == pytest.approx(
            oracle.prefix_sum(labels, oracle.mix_jensen_shannon, **how) / z, abs=1e-12
        )
        assert found.chances[0] == pytest.approx(
            oracle.expected(labels, oracle.mix_jensen_shannon, **how) / z, abs=1e-12
        )


def test_a_cutoff_alone_takes_the_first_ranks_for_the_whole():
    labels = [1, 1, 0, 0, 0, 0]
    assert looked("ndd", labels, depth=3).values[0] == pytest.approx(ndd(labels[:3], protected=1))
    assert looked("ndd", labels, depth=3, reference="list").values[0] == 1.0


def test_against_a_target_a_list_of_one_group_is_as_far_as_its_items_allow():
    assert ndd([0, 0, 0], protected=1, target=0.3) == 1.0
    with pytest.warns(UndefinedWarning):
        assert math.isnan(ndd([0, 0, 0], protected=1, target=0.0))


@pytest.mark.parametrize(
    ("target", "words"), [(1.3, "target=1.3 is no share"), ({"x": 1.0}, "names no label"), ("even", "cannot be read")]
)
def test_targets_that_are_none_are_refused(target, words):
    with pytest.raises(EvenhandError, match=words):
        ndd([1, 0], protected=1, target=target)


def test_text_stands_for_the_label_that_reads_the_same():
    assert ndd([1, 0, 0], protected=1, target={"1": 0.5, "0": 0.5}) == ndd([1, 0, 0], protected=1, target=0.5)

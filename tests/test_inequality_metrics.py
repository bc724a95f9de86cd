"""Inequality metrics against their slow definitions, the worked cases and, for errors, numerical derivatives."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import evenhand as eh
from evenhand import EvenhandError, UndefinedWarning, metrics
from evenhand.cards import REGISTRY, parse_metric
from evenhand.metrics.inequality import spread_of_mean, standard_error
from evenhand.tallies.spectrum import UNPADDED, Spectrum
from golden_cases import cases, holds, plain
from oracles import inequality as oracle

counts = st.lists(st.integers(0, 50), min_size=1, max_size=25).filter(any)
large = st.lists(st.integers(0, 2**40), min_size=1, max_size=12).filter(any)
continuous = st.lists(
    st.floats(0, 1e9, allow_subnormal=False).map(lambda v: round(v, 6)), min_size=1, max_size=20
).filter(any)
amounts = counts | large | continuous
shares = st.builds(Fraction, st.integers(1, 39), st.just(40)) | st.builds(Fraction, st.integers(1, 99), st.just(100))

# What each metric is called, and its definition, for a share p, an upper and a lower one.
READINGS = {
    "gini": (metrics.gini, lambda x, w, p, u: oracle.gini(x, w)),
    "hoover": (metrics.hoover, lambda x, w, p, u: oracle.hoover(x, w)),
    "mean": (metrics.mean, lambda x, w, p, u: oracle.mean(x, w)),
    "top_share": (lambda x, p, u, **k: metrics.top_share(x, p, **k), lambda x, w, p, u: oracle.top_share(x, p, w)),
    "bottom_share": (lambda x, p, u, **k: metrics.bottom_share(x, p, **k), lambda x, w, p, u: oracle.lorenz(x, p, w)),
    "percentile": (lambda x, p, u, **k: metrics.percentile(x, p, **k), lambda x, w, p, u: oracle.percentile(x, p, w)),
    "percentile_ratio": (
        lambda x, p, u, **k: metrics.percentile_ratio(x, upper=u, lower=p, **k),
        lambda x, w, p, u: oracle.percentile_ratio(x, u, p, w),
    ),
    "share_ratio": (
        lambda x, p, u, **k: metrics.share_ratio(x, upper=u, lower=p, **k),
        lambda x, w, p, u: oracle.share_ratio(x, u, p, w),
    ),
    "palma": (metrics.palma, lambda x, w, p, u: oracle.share_ratio(x, Fraction(9, 10), Fraction(4, 10), w)),
    "equal_share": (metrics.equal_share, lambda x, w, p, u: oracle.equal_share(x, w)),
    "equivalent_to_top": (
        lambda x, p, u, **k: metrics.equivalent_to_top(x, p, **k),
        lambda x, w, p, u: oracle.equivalent_to_top(x, p, w),
    ),
}
EXACT = pytest.mark.parametrize("name", READINGS)


def measured(name, x, p, u, **keywords):
    """The product's value; undefined comes back as None."""
    call, _ = READINGS[name]
    own = call if call is not REGISTRY.get(name) else (lambda x, p, u, **k: call(x, **k))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)
        value = own(x, float(p), float(u), **keywords)
    return None if math.isnan(value) else value


def same(value, expected, rel=1e-9):
    if expected is None or value is None:
        return value is None and expected is None
    return value == pytest.approx(float(expected), rel=rel, abs=1e-11)


@EXACT
@given(amounts, shares, shares)
def test_a_metric_equals_its_definition(name, x, p, u):
    assert same(measured(name, x, p, u), READINGS[name][1](x, None, p, u))


@EXACT
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1, max_size=12), shares, shares)
def test_whole_weights_mean_the_same_as_replication(name, pairs, p, u):
    x, w = zip(*pairs, strict=True)
    replicated = [amount for amount, times in pairs for _ in range(times)]
    assume(any(replicated))
    assert same(measured(name, x, p, u, weights=w), measured(name, replicated, p, u) if replicated else None)


@EXACT
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 64)), min_size=1, max_size=12), shares, shares)
def test_a_weighted_metric_equals_its_weighted_definition(name, pairs, p, u):
    x, w = [a for a, _ in pairs], [b / 16 for _, b in pairs]
    assume(any(x))
    assert same(measured(name, x, p, u, weights=w), READINGS[name][1](x, w, p, u))


@given(amounts, st.sampled_from([0, 0.1, 0.5, 0.9, 1, 1.5, 2, 5, 20, math.inf]))
def test_atkinson_equals_its_definition_for_every_aversion(x, epsilon):
    assert metrics.atkinson(x, epsilon=epsilon) == pytest.approx(oracle.atkinson(x, epsilon), rel=1e-9, abs=1e-11)


@given(amounts, st.sampled_from([-2, -1, 0, 0.3, 0.5, 1, 1.5, 2, 3]))
def test_generalized_entropy_equals_its_definition_for_every_alpha(x, alpha):
    expected = oracle.generalized_entropy(x, alpha)
    assume(expected < 1e200)  # where the definition itself overflows there is nothing to compare
    assert metrics.generalized_entropy(x, alpha=alpha) == pytest.approx(expected, rel=1e-8, abs=1e-11)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 64)), min_size=1, max_size=12).filter(
        lambda z: any(a for a, _ in z)
    )
)
def test_weighted_welfare_indices_equal_their_weighted_definitions(pairs):
    x, w = [a for a, _ in pairs], [b / 16 for _, b in pairs]
    for epsilon in (0.5, 1, 2):
        assert metrics.atkinson(x, epsilon=epsilon, weights=w) == pytest.approx(
            oracle.atkinson(x, epsilon, w), abs=1e-11
        )
    for alpha in (0, 1, 2):
        assert metrics.generalized_entropy(x, alpha=alpha, weights=w) == pytest.approx(
            oracle.generalized_entropy(x, alpha, w), rel=1e-9, abs=1e-11
        )


@given(amounts)
def test_theil_is_generalized_entropy_at_one(x):
    assert metrics.theil(x) == pytest.approx(oracle.generalized_entropy(x, 1), rel=1e-9, abs=1e-12)


@given(amounts)
def test_corrected_gini_is_the_mean_over_distinct_pairs(x):
    assume(len(x) > 1)
    assert metrics.gini(x, corrected=True) == pytest.approx(
        float(oracle.gini_over_distinct_pairs(x)), rel=1e-9, abs=1e-12
    )


@given(amounts)
def test_gini_is_one_minus_twice_the_area_under_the_lorenz_curve(x):
    curve = metrics.lorenz(x)
    area = np.trapezoid(curve.share, curve.population)
    assert 1 - 2 * area == pytest.approx(float(oracle.gini_area(x)), abs=1e-11)
    assert metrics.gini(x) == pytest.approx(1 - 2 * area, abs=1e-11)


@given(amounts)
def test_herfindahl_equals_its_definition(x):
    assert metrics.herfindahl(x) == pytest.approx(float(oracle.herfindahl(x)), rel=1e-9)
    assume(len(x) > 1)
    assert metrics.herfindahl(x, normalized=True) == pytest.approx(
        float(oracle.herfindahl(x, normalized=True)), abs=1e-11
    )


@given(amounts, shares)
def test_inverted_readings_are_one_minus_the_others(x, p):
    assert metrics.equal_share(x, inverted=True) == pytest.approx(1 - metrics.equal_share(x), abs=1e-12)
    assert metrics.equivalent_to_top(x, float(p), inverted=True) == pytest.approx(
        1 - metrics.equivalent_to_top(x, float(p)), abs=1e-12
    )


@given(amounts, shares)
def test_the_lorenz_curve_goes_through_the_corners_of_its_definition(x, p):
    curve = metrics.lorenz(x)
    for at, share in oracle.lorenz_corners(x):
        assert curve.at(float(at)) == pytest.approx(float(share), abs=1e-11)
    assert curve.at(float(p)) == pytest.approx(float(oracle.lorenz(x, p)), abs=1e-11)
    assert (curve.population[0], curve.share[0], curve.population[-1], curve.share[-1]) == (0, 0, 1, 1)


def test_a_curve_dominates_another_when_it_lies_nowhere_below():
    equal, mild, harsh = (metrics.lorenz(x) for x in ([2, 2, 2], [1, 2, 3], [0, 0, 6]))
    assert equal.dominates(mild)
    assert mild.dominates(harsh)
    assert equal.dominates(harsh)
    assert not harsh.dominates(mild)
    assert mild.dominates(mild)
    assert mild.dominates(metrics.lorenz([10, 20, 30, 10, 20, 30]))


def test_crossing_curves_dominate_in_neither_direction():
    one, other = metrics.lorenz([1, 1, 1, 7]), metrics.lorenz([0, 3, 3, 4])
    assert not one.dominates(other)
    assert not other.dominates(one)


def test_a_lorenz_curve_is_read_inside_the_unit_interval_only():
    with pytest.raises(EvenhandError, match="outside"):
        metrics.lorenz([1, 2]).at(1.5)


# --- the worked cases -------------------------------------------------------------------------------------------------

CALLS = {
    "gini": lambda a: metrics.gini(a["x"]),
    "gini_area": lambda a: metrics.gini(a["x"]),
    "gini_corrected": lambda a: metrics.gini(a["x"], corrected=True),
    "gini_weighted": lambda a: metrics.gini(a["x"], weights=a["w"]),
    "atkinson": lambda a: metrics.atkinson(a["x"], epsilon=a["eps"]),
    "generalized_entropy": lambda a: metrics.generalized_entropy(a["x"], alpha=a["alpha"]),
    "hoover": lambda a: metrics.hoover(a["x"]),
    "palma": lambda a: metrics.palma(a["x"]),
    "hhi": lambda a: metrics.herfindahl(a["x"]),
    "hhi_normalized": lambda a: metrics.herfindahl(a["x"], normalized=True),
    "percentile": lambda a: metrics.percentile(a["x"], a["p"]),
    "percentile_ratio": lambda a: metrics.percentile_ratio(a["x"], upper=a["upper"], lower=a["lower"]),
    "share_ratio": lambda a: metrics.share_ratio(a["x"], upper=a["upper"], lower=a["lower"]),
    "top_share": lambda a: metrics.top_share(a["x"], a["top"]),
    "bottom_share": lambda a: metrics.bottom_share(a["x"], a["bottom"]),
    "equal_share": lambda a: metrics.equal_share(a["x"]),
    "equivalent_to_top": lambda a: metrics.equivalent_to_top(a["x"], a["top"]),
    "lorenz": lambda a: metrics.lorenz(a["x"]).at(a["p"]),
    "gini_se": lambda a: metrics.gini_se(a["x"]),
    "top_share_se": lambda a: metrics.top_share_se(a["x"], a["top"]),
}


@cases(CALLS)
def test_the_worked_cases_come_out(case):
    holds(case["expect"], case["tol"], lambda: CALLS[case["fn"]](plain(case["args"])))


# --- edges of the formula book (F7) -----------------------------------------------------------------------------------


def reason_of(text, x, **keywords):
    found = parse_metric(text)
    with pytest.warns(UndefinedWarning) as caught:
        assert math.isnan(found.metric(x, **found.params, **keywords))
    return caught[0].message.reason


EVERY = [name for name, found in REGISTRY.items() if found.card.needs is Spectrum]


@pytest.mark.parametrize("name", EVERY)
def test_nobody_at_all_is_undefined_as_empty(name):
    assert reason_of(name, []) == "empty"


@pytest.mark.parametrize("name", [name for name in EVERY if REGISTRY[name].card.at_zero is None])
def test_nothing_received_is_undefined_as_zero_total(name):
    assert reason_of(name, [0, 0, 0]) == "zero_total"


def test_the_level_of_nothing_is_zero():
    assert metrics.mean([0, 0]) == 0
    assert metrics.percentile([0, 0], 0.5) == 0
    assert metrics.reach([0, 0]) == 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_reach_counts_those_who_get_anything(x):
    assert metrics.reach(x) == pytest.approx(sum(v > 0 for v in x) / len(x))


def test_reach_has_an_interval_that_knows_the_population():
    log = pl.DataFrame({"who": range(300), "views": [1] * 200 + [5] * 100})
    found = eh.inequality(log, unit="who", amount="views", population=1_000, metrics="reach", rng=1)
    (row,) = found.findings.rows()
    assert row["estimate"] == 0.3
    assert 0.26 < row["low"] < 0.285
    assert 0.315 < row["high"] < 0.34
    assert "30.0% of whos get any views at all" in found.sentences()[0]


@pytest.mark.parametrize("name", EVERY)
def test_weights_that_are_all_zero_are_undefined_as_zero_weight(name):
    assert reason_of(name, [1, 2], weights=[0, 0]) == "zero_weight"


@pytest.mark.parametrize("name", EVERY)
def test_a_missing_amount_is_refused_left_out_or_carried_on_as_asked(name):
    metric = REGISTRY[name]
    with pytest.raises(EvenhandError, match="1 amounts are NaN"):
        metric([1, 2, math.nan, 4])
    assert metric([1, 2, math.nan, 4], nan_policy="omit") == metric([1, 2, 4])
    assert reason_of(name, [1, 2, math.nan, 4], nan_policy="propagate") == "nan_in_data"
    assert metric([1, 2, math.nan], nan_policy="omit", weights=[1, 2, 3]) == metric([1, 2], weights=[1, 2])


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "x", [[-1, 2], [1.0, -1e-9], [math.inf, 1], [-math.inf], [[1, 2], [3, 4]], ["a"], "ab", 5, [1, object()]]
)
def test_amounts_that_are_no_amounts_are_refused(name, x):
    with pytest.raises(EvenhandError):
        REGISTRY[name](x)


@pytest.mark.parametrize("w", [[1], [1, 2, 3], [1, -1], [1, math.nan], [1, math.inf], ["a", "b"], [[1, 1]]])
def test_weights_that_do_not_fit_are_refused(w):
    with pytest.raises(EvenhandError):
        metrics.gini([1, 2], weights=w)


def test_a_single_member_is_as_equal_as_can_be_but_has_no_distinct_pairs():
    for name in ("gini", "atkinson", "generalized_entropy", "theil", "hoover"):
        assert REGISTRY[name]([5]) == 0
    assert metrics.herfindahl([5]) == 1
    assert metrics.top_share([5], 0.01) == pytest.approx(0.01)
    assert metrics.equal_share([5]) == 0.5
    assert metrics.palma([5]) == pytest.approx(0.25)
    assert metrics.percentile_ratio([5]) == 1
    assert reason_of("gini(corrected=True)", [5]) == "single_member"
    assert reason_of("herfindahl(normalized=True)", [5]) == "single_member"
    for text in ("gini(corrected=True)", "herfindahl(normalized=True)"):  # weights that add up to less than one member
        assert reason_of(text, [1, 5], weights=[0.2, 0.3]) == "single_member"


@pytest.mark.parametrize("text", ["share_ratio", "palma", "percentile_ratio"])
def test_a_ratio_over_nothing_is_undefined(text):
    assert reason_of(text, [0, 0, 0, 0, 1, 2, 3, 4]) == "zero_denominator"


@pytest.mark.parametrize("percent", range(1, 100))
def test_a_bottom_that_holds_nothing_is_nothing_whatever_the_rounding_of_its_share(percent):
    # 0.55 * 100 is 55.00000000000001: a trace of the first positive amount must not become a denominator.
    x = [0] * percent + [1] * (100 - percent)
    assert reason_of(f"share_ratio(upper=0.99, lower={percent / 100})", x) == "zero_denominator"
    assert reason_of(f"percentile_ratio(upper=0.99, lower={percent / 100})", x) == "zero_denominator"


@pytest.mark.parametrize("members", [100, 10**8])
@pytest.mark.parametrize("percent", range(1, 100))
def test_percentiles_hit_the_member_they_name_at_every_size(members, percent):
    per_cell = members // 100
    hundred = Spectrum(np.arange(1.0, 101.0), np.full(100, float(per_cell)))
    assert metrics.percentile.on(hundred, p=percent / 100) == percent


def test_zeros_meet_welfare_indices_at_their_limits():
    assert metrics.atkinson([0, 1, 3], epsilon=0.9) < 1
    assert metrics.atkinson([0, 1, 3], epsilon=1) == 1
    assert metrics.atkinson([0, 1, 3], epsilon=7) == 1
    assert metrics.atkinson([0, 1, 3], epsilon=math.inf) == 1
    assert metrics.generalized_entropy([0, 1, 3], alpha=0) == math.inf
    assert metrics.generalized_entropy([0, 1, 3], alpha=-1) == math.inf


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=20))
@example([1, 1000])
def test_atkinson_runs_smoothly_through_one_and_towards_its_limit(x):
    at_one = metrics.atkinson(x, epsilon=1)
    for step in (1e-6, 1e-8, 1e-10, 1e-12):
        assert metrics.atkinson(x, epsilon=1 - step) == pytest.approx(at_one, abs=10 * step + 1e-10)
        assert metrics.atkinson(x, epsilon=1 + step) == pytest.approx(at_one, abs=10 * step + 1e-10)
    assert metrics.atkinson(x, epsilon=1e6) == pytest.approx(metrics.atkinson(x, epsilon=math.inf), abs=1e-4)


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=20), st.sampled_from([0, 1]))
def test_generalized_entropy_runs_smoothly_through_its_special_alphas(x, special):
    at = metrics.generalized_entropy(x, alpha=special)
    for step in (1e-6, 1e-8, 1e-10, 1e-12):
        assert metrics.generalized_entropy(x, alpha=special + step) == pytest.approx(at, abs=100 * step + 1e-9)
        assert metrics.generalized_entropy(x, alpha=special - step) == pytest.approx(at, abs=100 * step + 1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e270])
def test_metrics_keep_their_digits_at_extreme_scales(scale):
    x = [1, 2, 3, 4, 10]
    for text in (
        "gini",
        "atkinson",
        "atkinson(epsilon=1)",
        "atkinson(epsilon=2)",
        "theil",
        "generalized_entropy(alpha=2)",
        "hoover",
        "herfindahl",
        "top_share(p=0.1)",
        "equal_share",
        "palma",
        "percentile_ratio",
    ):
        found = parse_metric(text)
        assert found.metric([v * scale for v in x], **found.params) == pytest.approx(
            found.metric(x, **found.params), rel=1e-12
        )


def test_amounts_beyond_int32_and_beyond_2_to_the_53_are_summed_without_wrapping():
    assert metrics.mean(np.array([2**31 - 1] * 4, dtype=np.int32)) == 2**31 - 1
    assert metrics.mean(np.array([2**63 - 1] * 4, dtype=np.int64)) == pytest.approx(2.0**63)
    assert metrics.gini(np.array([0, 0, 0, 2**64 - 1], dtype=np.uint64)) == 0.75
    assert metrics.mean(np.array([200, 200, 200], dtype=np.uint8)) == 200


@pytest.mark.parametrize(
    "kind", [list, tuple, np.array, lambda x: np.array(x, dtype=np.float32), lambda x: np.array(x, dtype=bool)]
)
def test_any_kind_of_sequence_will_do(kind):
    assert metrics.gini(kind([0, 0, 0, 1])) == 0.75


def test_dataframe_columns_are_taken_as_they_are():
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    for column in (
        pl.Series([0, 0, 0, 10]),
        pd.Series([0, 0, 0, 10], index=[7, 3, 5, 1]),
        pa.chunked_array([[0, 0], [0, 10]]),
    ):
        assert metrics.gini(column) == 0.75
    with pytest.raises(EvenhandError, match="NaN"):
        metrics.gini(pl.Series([0, None, 10]))


def test_the_callers_array_is_not_touched():
    x = np.array([3.0, 1.0, 2.0])
    for name in EVERY:
        REGISTRY[name](x)
        REGISTRY[name](x, weights=x)
    assert x.tolist() == [3, 1, 2]


def test_a_plain_call_gives_a_plain_float():
    assert type(metrics.gini([1, 2])) is float


@pytest.mark.parametrize("ties", ["none", "some", "zeros"])
def test_spectra_larger_than_a_block_give_the_same_numbers(ties):
    rng = np.random.default_rng(3)
    n = 2 * UNPADDED + 17
    x = {
        "none": rng.random(n),
        "some": np.round(rng.random(n), 5),
        "zeros": np.where(rng.random(n) < 0.6, 0, rng.random(n)),
    }[ties]
    ordered = np.sort(x)
    ranks = np.arange(1, n + 1)
    assert metrics.gini(x) == pytest.approx(((2 * ranks - n - 1) * ordered).sum() / (n * ordered.sum()), rel=1e-11)
    held = np.concatenate([[0], np.cumsum(ordered)]) / ordered.sum()
    for p in (0.01, 0.1, 0.5):
        assert metrics.top_share(x, p) == pytest.approx(1 - np.interp(1 - p, np.arange(n + 1) / n, held), rel=1e-11)
        assert metrics.percentile(x, 1 - p) == np.quantile(x, 1 - p, method="inverted_cdf")
    assert metrics.equal_share(x) == pytest.approx(np.interp(0.5, held, np.arange(n + 1) / n), rel=1e-11)
    assert metrics.atkinson(x) == pytest.approx(1 - np.sqrt(x).mean() ** 2 / x.mean(), rel=1e-11)


# --- standard errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["gini", "gini(corrected=True)", "atkinson(epsilon=0.5)", "top_share(p=0.1)", "bottom_share(p=0.3)"]
)
@pytest.mark.parametrize("near", [0.0, 10.0, 1e4, 1e9])
def test_an_error_from_sums_of_terms_is_that_of_the_units(text, near):
    """Also where amounts hardly differ and nearly all digits of the sums cancel out, and where a draw has one amount only."""
    rng, a = np.random.default_rng(7), parse_metric(text)
    values = near + np.cumsum(rng.integers(1, 5, 12))[None, :]
    counts = np.concatenate([rng.poisson(2, (40, 12)), np.eye(12)[:1] * 9]).astype(float)
    s = Spectrum(values, counts)
    moves = a.linearised(s, a.on(s))
    slow = [
        np.std(np.repeat(row, count), dtype=np.longdouble) for row, count in zip(moves, counts.astype(int), strict=True)
    ]
    assert spread_of_mean(s, moves) == pytest.approx(
        np.array(slow, float) / np.sqrt(counts.sum(-1)), rel=1e-6, abs=1e-15
    )


@given(counts)
def test_gini_se_equals_its_definition(x):
    assert metrics.gini_se(x) == pytest.approx(oracle.gini_se(x), rel=1e-9, abs=1e-12)


@given(counts, shares)
def test_top_share_se_equals_its_definition(x, p):
    assert metrics.top_share_se(x, float(p)) == pytest.approx(oracle.top_share_se(x, p), rel=1e-9, abs=1e-11)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4)), min_size=2, max_size=10).filter(
        lambda z: any(a for a, _ in z)
    )
)
def test_a_weight_shared_by_all_leaves_the_error_alone(pairs):
    x = [a for a, _ in pairs]
    assert metrics.gini_se(x, weights=[3.5] * len(x)) == pytest.approx(metrics.gini_se(x), rel=1e-9, abs=1e-12)
    assert metrics.top_share_se(x, 0.3, weights=[3.5] * len(x)) == pytest.approx(
        metrics.top_share_se(x, 0.3), rel=1e-9, abs=1e-12
    )


LINEARISED = [
    "gini",
    "gini(corrected=True)",
    "atkinson(epsilon=0.5)",
    "atkinson(epsilon=1)",
    "atkinson(epsilon=3)",
    "generalized_entropy(alpha=-1)",
    "generalized_entropy(alpha=0)",
    "generalized_entropy(alpha=0.5)",
    "generalized_entropy(alpha=2)",
    "theil",
    "hoover",
    "herfindahl",
    "herfindahl(normalized=True)",
    "mean",
    "top_share(p=0.1)",
    "bottom_share(p=0.3)",
    "share_ratio",
    "palma",
    "reach",
    "equal_share",
    "equal_share(inverted=True)",
    "equivalent_to_top(p=0.1)",
    "equivalent_to_top(p=0.1, inverted=True)",
]


def test_every_registered_linearisation_is_held_against_a_derivative():
    declared = {name for name in EVERY if REGISTRY[name]._influence is not None}
    assert declared == {parse_metric(text).card.name for text in LINEARISED}


def derivative(found, values, masses, cell, weighted):
    """How the value moves when a little of everybody's mass goes to one cell."""
    step = 1e-6

    def at(e):
        moved = (1 - e) * masses
        moved[cell] += e * masses.sum()
        return float(found.on(Spectrum(values, np.ones_like(values), moved) if weighted else Spectrum(values, moved)))

    return (at(step) - at(-step)) / (2 * step)


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("text", LINEARISED)
def test_the_influence_of_a_unit_is_the_derivative_of_the_metric(text, weighted):
    rng = np.random.default_rng(11)
    values = np.sort(rng.lognormal(1, 1, 23))
    masses = rng.random(23) + 0.5 if weighted else rng.integers(1, 4, 23).astype(float)
    found = parse_metric(text)
    tally = Spectrum(values, np.ones(23), masses) if weighted else Spectrum(values, masses)
    influence = found.linearised(tally, found.on(tally))
    numerical = [derivative(found, values, masses, cell, weighted) for cell in range(23)]
    np.testing.assert_allclose(influence, numerical, rtol=2e-5, atol=2e-6 * np.abs(numerical).max())
    assert float((influence * masses).sum() / masses.sum()) == pytest.approx(0, abs=1e-9 * np.abs(numerical).max())


def jackknife(found, x):
    without = np.array([found.metric(np.delete(x, i), **found.params) for i in range(len(x))])
    return math.sqrt((len(x) - 1) / len(x) * ((without - without.mean()) ** 2).sum())


@pytest.mark.parametrize(
    "text", [t for t in LINEARISED if "share" not in t and t not in ("palma", "equivalent_to_top(p=0.1)")]
)
def test_the_linearised_error_agrees_with_the_jackknife(text):
    x = np.random.default_rng(5).lognormal(0, 0.7, 400)
    found = parse_metric(text)
    assert standard_error(found.metric, Spectrum.from_arrays(x), **found.params) == pytest.approx(
        jackknife(found, x), rel=0.08
    )


@pytest.mark.parametrize("text", LINEARISED)
def test_the_linearised_error_agrees_with_the_bootstrap(text):
    tally = Spectrum.from_arrays(np.random.default_rng(7).lognormal(0, 0.7, 1500))
    found = parse_metric(text)
    draws = found.on(tally.resample(800, np.random.default_rng(1)))
    assert standard_error(found.metric, tally, **found.params) == pytest.approx(draws.std(), rel=0.12)


@pytest.mark.parametrize("text", LINEARISED)
def test_a_batch_of_influences_equals_a_loop(text):
    found = parse_metric(text)
    draws = Spectrum.from_arrays([1, 2, 2, 5, 9, 14, 30, 3, 3, 8]).resample(5, np.random.default_rng(2))
    batch = found.linearised(draws, found.on(draws))
    for i, drawn in enumerate(draws.counts):
        one = Spectrum(draws.values, drawn)
        held = drawn > 0
        np.testing.assert_allclose(
            np.broadcast_to(batch, draws.counts.shape)[i][held],
            found.linearised(one, found.on(one))[held],
            rtol=1e-9,
            atol=1e-12,
        )


def test_equal_amounts_have_no_error():
    for text in LINEARISED:
        found = parse_metric(text)
        assert standard_error(found.metric, Spectrum.from_arrays([3, 3, 3, 3]), **found.params) == pytest.approx(
            0, abs=1e-12
        )


# --- chance -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "printed"), [(0.1, 0.909), (1, 0.524), (10, 0.177)])
def test_the_chance_level_of_gini_is_that_of_poisson_counts(rate, printed):
    assert metrics.gini_chance(np.array(rate)) == pytest.approx(oracle.gini_of_poisson(rate, 80), abs=1e-9)
    assert metrics.gini_chance(np.array(rate)) == pytest.approx(printed, abs=5e-4)


def test_the_chance_level_of_gini_falls_with_volume_and_survives_any():
    levels = metrics.gini_chance(np.array([0.0, 0.01, 1, 100, 1e6, 1e12]))
    assert levels[0] == 1
    assert (np.diff(levels) < 0).all()
    assert np.isfinite(levels).all()


def test_a_share_ratio_may_look_at_everybody_or_nobody():
    assert metrics.share_ratio([1, 2, 3, 4, 10], upper=0.8, lower=1) == pytest.approx(0.5)
    assert metrics.share_ratio([1, 2, 3, 4, 10], upper=1, lower=0.2) == 0
    with pytest.warns(UndefinedWarning) as said:
        assert math.isnan(metrics.share_ratio([1, 2, 3, 4, 10], upper=0.8, lower=0))
    assert [w.message.reason for w in said] == ["zero_denominator"]
    assert math.isnan(parse_metric("share_ratio(lower=0)").ideal)


@pytest.mark.parametrize(("x", "reason"), [([], "empty"), ([0, 0], "zero_total")])
def test_a_lorenz_curve_of_nothing_says_why(x, reason):
    with pytest.warns(UndefinedWarning) as said:
        assert math.isnan(metrics.lorenz(x).at(0.5))
    assert [w.message.reason for w in said] == [reason]


def test_what_equal_rates_would_give_is_their_bessel_functions():
    from scipy.special import i0e, i1e

    mean = np.concatenate([[0.0, 15.99, 16.0, 16.01], np.geomspace(1e-9, 1e12, 200)])
    np.testing.assert_allclose(metrics.gini_chance(mean), i0e(2 * mean) + i1e(2 * mean), rtol=1e-14)

"""Interval plans, random streams, interval ends, and intervals of spectra: what they depend on and what they cover."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenhand import EvenhandError
from evenhand.cards import needing, parse_metric, parse_metrics
from evenhand.intervals import spectra as module
from evenhand.intervals.kinds import (
    Interval,
    Scale,
    drawn_ends,
    normal_ends,
    percentile_ends,
    seed_of,
    studentised_ends,
)
from evenhand.intervals.requests import Reduced, metric_draws, picks, resampled
from evenhand.intervals.spectra import MANY, estimates, tail_exponents, tail_units
from evenhand.labels import stream
from evenhand.metrics.inequality import spread_of_mean
from evenhand.tallies.requests import Requests, measure_rankings
from evenhand.tallies.spectrum import Spectra, Spectrum

KNOWN = needing(Spectrum)
UNIT = (0.0, 1.0)


# --- plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "draws"),
    [
        ("bootstrap(999)", "bootstrap", 999),
        ("bootstrap", "bootstrap", 999),
        ("percentile(200)", "percentile", 200),
        ("percentile(draws=200)", "percentile", 200),
        ("normal", "normal", 0),
        (None, "none", 0),
        ("none", "none", 0),
    ],
)
def test_a_plan_is_read(text, kind, draws):
    assert Interval.parse(text) == Interval(kind, draws, 0.95)


@pytest.mark.parametrize(
    "text",
    [
        "bootstrp(999)", "bootstrap(5)", "bootstrap(0)", "bootstrap(-1)", "bootstrap(1.5)", "bootstrap('a')", "bootstrap(True)",
        "bootstrap(10000001)", "bootstrap(99, 99)", "bootstrap(seed=1)", "percentile(99, draws=99)", "normal(99)", "normal(draws=9)",
        "", "jackknife", "bootstrap(", 999, True, ["normal"],
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(EvenhandError) as problem:
        Interval.parse(text)
    assert repr(text) in str(problem.value)


@pytest.mark.parametrize("level", [0, 1, 1.5, -0.1, "0.95", None, True, math.nan, 95])
def test_a_level_outside_the_unit_interval_is_refused(level):
    with pytest.raises(EvenhandError, match="level="):
        Interval.parse("normal", level)


def test_a_near_miss_is_told_the_nearest_plan():
    with pytest.raises(EvenhandError, match="Did you mean 'bootstrap'"):
        Interval.parse("bootstrp(999)")


# --- seeds and streams ------------------------------------------------------------------------------------------------


def test_a_seed_is_kept_and_one_that_was_not_given_is_drawn():
    assert seed_of(7) == 7
    assert seed_of(np.int64(7)) == 7
    assert seed_of(np.random.default_rng(1)) == seed_of(np.random.default_rng(1))
    assert seed_of(None) != seed_of(None)


@pytest.mark.parametrize("rng", [-1, 1.5, "7", True, [1]])
def test_what_is_no_seed_is_refused(rng):
    with pytest.raises(EvenhandError, match="not a seed"):
        seed_of(rng)


def test_a_stream_depends_on_the_seed_and_the_labels_and_nothing_else():
    def first(*of):
        return stream(*of).integers(2**60)

    assert first(1, "a", 2) == first(1, "a", 2)
    assert first(1, "a", np.int64(2)) == first(1, "a", 2)
    different = {
        first(1, "a", 2),
        first(2, "a", 2),
        first(1, "b", 2),
        first(1, "a", "2"),
        first(1, "a"),
        first(1, None),
        first(1),
    }
    assert len(different) == 7


# --- ends -------------------------------------------------------------------------------------------------------------


def test_percentile_ends_are_the_order_statistics_that_the_level_names():
    draws = np.random.default_rng(0).permutation(np.arange(1.0, 1000.0))[None, :]
    low, high = percentile_ends(draws, 0.95)
    assert (low[0], high[0]) == (25, 975)
    low, high = percentile_ends(draws, 0.9)
    assert (low[0], high[0]) == (50, 950)


def test_undefined_draws_are_left_out_of_the_ends():
    draws = np.concatenate([np.arange(1.0, 1000.0), np.full(500, np.nan)])[None, :]
    low, high = percentile_ends(draws, 0.95)
    assert (low[0], high[0]) == (25, 975)


def test_no_defined_draw_gives_no_ends():
    low, high = percentile_ends(np.full((1, 99), np.nan), 0.95)
    assert np.isnan(low[0])
    assert np.isnan(high[0])


@given(st.lists(st.floats(-1e6, 1e6), min_size=20, max_size=60), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_ends_are_drawn_values_in_order_and_wider_at_a_higher_level(draws, level):
    values = np.array(draws)[None, :]
    low, high = percentile_ends(values, level)
    assert low[0] in draws
    assert high[0] in draws
    assert low[0] <= high[0]
    wider_low, wider_high = percentile_ends(values, (1 + level) / 2)
    assert wider_low[0] <= low[0]
    assert wider_high[0] >= high[0]


def test_normal_ends_are_symmetric_on_the_scale_that_fits_the_span():
    z = NormalDist().inv_cdf(0.975)
    estimate, error = np.array([0.8]), np.array([0.05])
    low, high = normal_ends(estimate, error, 0.95, UNIT)
    logit = math.log(0.8 / 0.2)
    assert math.log(low[0] / (1 - low[0])) == pytest.approx(logit - z * 0.05 / (0.8 * 0.2))
    assert math.log(high[0] / (1 - high[0])) == pytest.approx(logit + z * 0.05 / (0.8 * 0.2))
    low, high = normal_ends(np.array([2.0]), np.array([0.3]), 0.95, (0.0, math.inf))
    assert math.log(low[0]) == pytest.approx(math.log(2) - z * 0.15)
    assert math.log(high[0]) == pytest.approx(math.log(2) + z * 0.15)
    low, high = normal_ends(np.array([2.0]), np.array([0.3]), 0.95, (-math.inf, math.inf))
    assert (low[0], high[0]) == (pytest.approx(2 - z * 0.3), pytest.approx(2 + z * 0.3))


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0, 10), st.sampled_from([0.8, 0.95, 0.999]))
def test_ends_never_leave_the_span(estimate, error, level):
    low, high = normal_ends(np.array([estimate]), np.array([error]), level, UNIT)
    assert 0 <= low[0] <= estimate + 1e-12
    assert estimate - 1e-12 <= high[0] <= 1


@pytest.mark.parametrize("span", [UNIT, (0.0, math.inf), (-1.0, 1.0)])
def test_a_scale_is_undone_by_its_inverse_and_has_the_slope_it_says(span):
    scale, x, step = Scale.fitting(span), np.array([0.2, 0.5, 0.9]), 1e-6
    np.testing.assert_allclose(scale.inverse(scale.forward(x)), x)
    np.testing.assert_allclose(
        (scale.forward(x + step) - scale.forward(x - step)) / (2 * step), scale.slope(x), rtol=1e-6
    )


def test_no_error_gives_an_interval_of_no_width():
    for ends in (
        normal_ends(np.array([0.4]), np.array([0.0]), 0.95, UNIT),
        studentised_ends(
            np.array([0.4]),
            np.array([0.0]),
            np.full((1, 99), 0.4),
            np.zeros((1, 99)),
            np.full((1, 99), 0.4),
            0.95,
            UNIT,
        ),
    ):
        assert [e[0] for e in ends] == [0.4, 0.4]


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_an_estimate_at_the_end_of_its_span_has_an_interval_that_reaches_inwards(value):
    low, high = normal_ends(np.array([value]), np.array([0.1]), 0.95, UNIT)
    assert (low[0], high[0]) == pytest.approx((0, 0.196) if value == 0 else (0.804, 1), abs=0.001)


def test_studentised_ends_are_the_textbook_ones_where_no_scale_is_needed():
    rng = np.random.default_rng(1)
    draws, errors = rng.normal(5, 1, (1, 999)), rng.uniform(0.5, 1.5, (1, 999))
    ratios = np.sort((draws - 5.1) / errors)[0]
    low, high = studentised_ends(
        np.array([5.0]), np.array([0.7]), draws, errors, np.full((1, 999), 5.1), 0.95, (-math.inf, math.inf)
    )
    assert low[0] == pytest.approx(5 - 0.7 * ratios[974])
    assert high[0] == pytest.approx(5 - 0.7 * ratios[24])


# --- intervals of spectra ---------------------------------------------------------------------------------------------

ASKED = parse_metrics(
    ["gini", "atkinson(epsilon=0.5)", "top_share(p=0.1)", "equal_share", "percentile(p=0.9)", "share_ratio", "mean"],
    KNOWN,
)


def sample(seed=0, n=400):
    return Spectrum.from_arrays(np.round(np.random.default_rng(seed).lognormal(1, 1, n), 1))


def run(parts, asked=ASKED, interval="bootstrap(199)", seed=5, labels=None):
    return estimates(
        Spectra.from_spectra(parts), asked, Interval.parse(interval), seed, labels or [(i,) for i in range(len(parts))]
    )


@pytest.mark.parametrize("interval", ["bootstrap(199)", "percentile(199)", "normal"])
def test_every_estimate_lies_in_its_interval_and_inside_the_span(interval):
    for a, found in zip(ASKED, run([sample(i) for i in range(5)], interval=interval), strict=True):
        if interval == "normal" and a.card.name == "percentile":
            assert np.isnan(found.low).all()  # no linearised error: nothing is made up
            continue
        assert (found.low <= found.estimate).all()
        assert (found.estimate <= found.high).all()
        assert (found.low < found.high).all()
        assert (found.low >= a.span[0]).all()
        assert (found.high <= a.span[1]).all()


def test_the_estimate_is_that_of_the_metric():
    parts = [sample(i) for i in range(3)]
    for a, found in zip(ASKED, run(parts), strict=True):
        np.testing.assert_allclose(found.estimate, [float(a.on(s)) for s in parts], rtol=1e-12)


def test_one_more_slice_or_metric_changes_no_other_number():
    parts = [sample(i, 100 * (i + 1)) for i in range(4)]
    labels = [("a",), ("b",), ("c",), ("d",)]
    together = run(parts, labels=labels)
    for i in range(4):
        alone = run(parts[i : i + 1], labels=labels[i : i + 1])
        for one, other in zip(alone, together, strict=True):
            assert (one.low[0], one.high[0]) == (other.low[i], other.high[i])
    fewer = run(parts, asked=ASKED[1:3], labels=labels)
    for one, other in zip(fewer, together[1:3], strict=True):
        np.testing.assert_array_equal(one.low, other.low)
        np.testing.assert_array_equal(one.high, other.high)


def test_draws_follow_the_seed_and_what_has_a_standard_error_needs_none():
    drawn = [run([sample()], seed=s, interval="percentile(99)")[0] for s in (5, 5, 6)]
    assert (drawn[0].low[0], drawn[0].high[0]) == (drawn[1].low[0], drawn[1].high[0])
    assert (drawn[0].low[0], drawn[0].high[0]) != (drawn[2].low[0], drawn[2].high[0])
    first, other = (run([sample()], seed=s)[0] for s in (5, 6))
    assert (first.low[0], first.high[0]) == (other.low[0], other.high[0])


def test_a_draw_without_spread_is_no_information():
    draws, errors = np.array([[0.4, 0.5, 0.6, 0.9]]), np.array([[0.1, 0.1, 0.1, 0.0]])
    estimate, error, centre = np.array([0.5]), np.array([0.1]), np.full((1, 4), 0.5)
    low, high = studentised_ends(estimate, error, draws, errors, centre, 0.5, UNIT)
    assert (low[0], high[0]) == studentised_ends(estimate, error, draws[:, :3], errors[:, :3], centre[:, :3], 0.5, UNIT)
    assert 0 < low[0] < high[0] < 1


def test_memory_bounded_batches_change_no_number(monkeypatch):
    parts = [sample(i, 50 * (i + 1)) for i in range(6)]
    usual = run(parts)
    monkeypatch.setattr(module, "MOST_CELLS", 300)
    for one, other in zip(run(parts), usual, strict=True):
        np.testing.assert_allclose(one.low, other.low, rtol=1e-12)
        np.testing.assert_allclose(one.high, other.high, rtol=1e-12)


def test_small_slices_drawn_at_once_have_the_draws_that_each_has_by_itself(monkeypatch):
    parts = [sample(i, 5 + i) for i in range(12)]
    usual = run(parts)
    monkeypatch.setattr(module, "MOST_CELLS", 1)
    for result, other in zip(run(parts), usual, strict=True):
        np.testing.assert_array_equal(result.low, other.low)
        np.testing.assert_array_equal(result.high, other.high)


def test_an_undefined_slice_has_no_interval_and_disturbs_no_other():
    asked = parse_metrics(["gini"], KNOWN)
    found = run([Spectrum.from_arrays([0, 0]), sample(), Spectrum.from_arrays([])], asked=asked)[0]
    assert np.isnan(found.estimate[[0, 2]]).all()
    assert np.isnan(found.low[[0, 2]]).all()
    assert found.low[1] < found.estimate[1] < found.high[1]


def test_draws_that_are_undefined_are_counted():
    few_hold = Spectrum.from_arrays([0] * 9 + [1])
    found = run([few_hold], asked=parse_metrics(["gini"], KNOWN), interval="percentile(999)")[0]
    nobody = 0.9**10  # chance that a draw of ten units has nobody who holds
    assert found.undefined_draws[0] == pytest.approx(999 * nobody, abs=4 * math.sqrt(999 * nobody * (1 - nobody)))


def test_intervals_by_resampling_the_spectrum_agree_with_resampling_the_units():
    x = np.round(np.random.default_rng(8).lognormal(1, 1, 300), 1)
    rng = np.random.default_rng(9)
    naive = [float(parse_metric("gini").on(Spectrum.from_arrays(rng.choice(x, 300)))) for _ in range(2000)]
    low, high = np.quantile(naive, [0.025, 0.975])
    found = run([Spectrum.from_arrays(x)], asked=parse_metrics(["gini"], KNOWN), interval="percentile(1999)")[0]
    assert found.low[0] == pytest.approx(low, abs=0.01)
    assert found.high[0] == pytest.approx(high, abs=0.01)


@pytest.mark.parametrize("spread", [1.0, 1e-6])
def test_many_amounts_are_drawn_in_few_cells_with_an_exact_estimate_and_the_same_spread(spread):
    x = 10 * np.exp(np.random.default_rng(4).normal(0, spread, 10 * MANY))
    s = Spectrum.from_arrays(x)
    assert len(module._coarse(s).values) < MANY
    asked = parse_metrics(["gini", "top_share(p=0.1)", "equal_share", "generalized_entropy(alpha=2)"], KNOWN)
    for a, found in zip(asked, run([s], asked=asked, interval="percentile(199)"), strict=True):
        assert found.estimate[0] == pytest.approx(float(a.on(s)), rel=1e-13)
        assert found.low[0] < found.estimate[0] < found.high[0]
        error = float(spread_of_mean(s, a.linearised(s, a.on(s))))
        assert (found.high[0] - found.low[0]) / (2 * 1.96 * error) == pytest.approx(1, abs=0.3)


def test_fewer_cells_have_the_errors_of_all_of_them_and_the_same_tail():
    rng = np.random.default_rng(5)
    asked = parse_metrics(["gini", "atkinson(epsilon=0.5)", "theil", "generalized_entropy(alpha=0)"], KNOWN)
    for x in (rng.lognormal(0, 2, 20_000), rng.pareto(1.2, 20_000) + 1, rng.geometric(1e-4, 20_000)):
        s = Spectrum.from_arrays(x)
        few = module._coarse(s)
        for a in asked:
            exact = spread_of_mean(s, a.linearised(s, a.on(s)))
            assert spread_of_mean(few, a.linearised(few, a.on(few))) == pytest.approx(exact, rel=1e-3)
        assert tail_exponents(few) == pytest.approx(tail_exponents(s), rel=1e-2)
        edge = float(s.units - tail_units(s.units))
        assert few.values[np.searchsorted(np.cumsum(few.counts), edge)] == np.sort(x)[int(edge) - 1]


def test_a_percentile_is_drawn_from_all_amounts_and_moves_no_other_metric():
    x = np.random.default_rng(6).permutation(2 * MANY).astype(float)
    alone = run([Spectrum.from_arrays(x)], asked=parse_metrics(["gini"], KNOWN), interval="percentile(49)")[0]
    both = run(
        [Spectrum.from_arrays(x)], asked=parse_metrics(["percentile(p=0.5)", "gini"], KNOWN), interval="percentile(49)"
    )
    assert {float(both[0].low[0]), float(both[0].high[0])} <= set(x)
    assert (both[1].low[0], both[1].high[0]) == (alone.low[0], alone.high[0])


@pytest.mark.parametrize("p", [0.001, 0.2, 0.5, 0.9, 0.999])
def test_draws_of_a_percentile_have_the_law_of_order_statistics(p):
    n, draws = 6 * MANY, 4_000
    s = Spectrum.from_arrays(np.random.default_rng(3).lognormal(0, 1, n))
    few = module._coarse(s, [p])
    assert len(few.values) < len(s.values) / 2
    drawn = few.resample(draws, np.random.default_rng(7))
    found = (
        np.searchsorted(s.values, parse_metric(f"percentile(p={p})").on(drawn)) + 1
    )  # rank of the unit that the draw reads
    for rank in np.quantile(found, [0.05, 0.25, 0.5, 0.75, 0.95]).astype(int):
        # At least p n units of a draw of n are among the first `rank`: a binomial number.
        exact = stats.binom.sf(math.ceil(p * n) - 1, n, rank / n)
        assert (found <= rank).mean() == pytest.approx(exact, abs=4 * 0.5 / math.sqrt(draws))


def test_weighted_spectra_have_intervals_too():
    rng = np.random.default_rng(2)
    s = Spectrum.from_arrays(rng.lognormal(0, 1, 300), weights=rng.integers(1, 4, 300))
    for found in run([s], asked=ASKED[:3]):
        assert found.low[0] < found.estimate[0] < found.high[0]


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["bootstrap(199)", "normal"])
def test_intervals_cover_the_truth_of_tame_data_as_often_as_they_say(interval):
    worlds, n, sigma = 400, 1000, 0.5
    truth = math.erf(sigma / 2)  # Gini of a lognormal
    rng = np.random.default_rng(12)
    parts = [Spectrum.from_arrays(rng.lognormal(0, sigma, n)) for _ in range(worlds)]
    found = run(parts, asked=parse_metrics(["gini"], KNOWN), interval=interval)[0]
    covered = ((found.low <= truth) & (truth <= found.high)).mean()
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / worlds) <= covered


# --- bootstrap over requests ------------------------------------------------------------------------------------------


def test_sums_over_requests_are_resampled_whole():
    sums = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    drawn = resampled(sums, 500, np.random.default_rng(0))
    np.testing.assert_allclose(drawn[:, 1], 10 * drawn[:, 0])
    assert set(drawn[:, 0]) <= set(range(3, 10))
    assert drawn[:, 0].mean() == pytest.approx(6, abs=0.2)


@pytest.mark.parametrize("requests", [50, 655])
def test_requests_are_picked_with_replacement_however_many_there_are(requests):
    found = picks(requests, 400, np.random.default_rng(0))
    assert set(found.sum(1)) == {requests}
    assert found.var() == pytest.approx(1 - 1 / requests, rel=0.02)


def test_blocks_of_many_requests_keep_the_variance():
    rng = np.random.default_rng(1)
    sums = rng.normal(0, 1, (40_000, 1))
    spread = resampled(sums, 400, rng).std()
    assert spread == pytest.approx(math.sqrt(40_000), rel=0.15)


def test_no_requests_give_nothing_to_resample():
    assert resampled(np.zeros((0, 2)), 5, np.random.default_rng(0)).tolist() == [[0, 0]] * 5


def over_requests(values, draws=999, weights=None):
    """Estimate and draws of a mean over requests, as ranking audits make them."""
    within = Requests([()], np.array([0, len(values)]), list(range(len(values))))
    codes = np.where(np.isnan(values), "empty", "")
    found = Reduced.from_measured(
        measure_rankings(parse_metric("ndjs"), np.asarray(values), codes, within, weight=weights), within
    )
    part = within.part(0)
    (drawn,) = metric_draws([found], 0, part, draws, lambda: np.random.default_rng(0))
    return found.estimate(0, part), drawn, found.reason(0, part)


def test_a_ratio_of_sums_has_a_bootstrap_interval():
    values = np.random.default_rng(3).normal(2, 1, 500)
    estimate, draws, _ = over_requests(values)
    low, high = drawn_ends(estimate, draws, Interval.parse("percentile(999)"), (-math.inf, math.inf), 500)
    assert estimate == pytest.approx(values.mean())
    assert (high - low) / (2 * 1.96 / math.sqrt(500)) == pytest.approx(1, abs=0.15)
    assert not np.isnan(draws).any()


def test_the_mean_over_requests_skips_undefined_ones():
    values = np.array([1.0, np.nan, 3.0, 5.0])
    estimate, draws, _ = over_requests(values, 99)
    low, high = drawn_ends(estimate, draws, Interval.parse("percentile(99)"), (0.0, math.inf), 3)
    assert estimate == 3
    assert 1 <= low <= 3 <= high <= 5
    assert over_requests(values, 99, np.array([1.0, 1, 0, 1]))[0] == 3
    estimate, _, reason = over_requests(np.array([np.nan]), 99)
    assert np.isnan(estimate)
    assert reason == "empty"


@pytest.mark.parametrize("span", [(0.0, 1.0), (0.0, math.inf), (-1.0, 1.0), (0.0, 2.0)])
def test_a_normal_interval_from_draws_keeps_to_the_span(span):
    draws = np.random.default_rng(1).normal(0.02, 0.5, 199)
    low, high = drawn_ends(0.02, draws, Interval.parse("normal"), span, 30)
    assert span[0] <= low <= 0.02 <= high <= span[1]


def test_a_normal_interval_says_nothing_where_draws_are_infinite():
    low, high = drawn_ends(1.0, np.array([1.0, 2.0, np.inf]), Interval.parse("normal"), (0.0, math.inf), 30)
    assert np.isnan(low)
    assert np.isnan(high)


@given(
    st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 1e-12, 1e-300]), min_size=1, max_size=60), st.integers(0, 150)
)
def test_units_drawn_one_by_one_lie_in_the_cell_that_their_number_falls_in(weights, size):
    shares = np.array([*weights, 0.5]) / (sum(weights) + 0.5)
    shares = shares[shares > 0]
    sizes = np.array([size, 0, size + 1, 3])
    counts = module._draw_units(stream(1, "x"), sizes, shares)
    ends, rng = np.cumsum(shares), stream(1, "x").bit_generator
    ends = np.rint(ends / ends[-1] * 2**32) / 2**32
    for found, many in zip(counts, sizes, strict=True):
        numbers = rng.random_raw(-(-many // 2)).view(np.uint32)[:many] / 2**32
        assert np.array_equal(found, np.bincount(np.searchsorted(ends, numbers, side="right"), minlength=len(shares)))


def both_streams():
    cells = stream(1, "x")
    return cells, cells.spawn(1)[0]


@given(
    st.lists(st.sampled_from([0.0, 1e-300, 1e-9, 0.01, 0.1, 1.0, 30.0]), min_size=1, max_size=40), st.integers(0, 400)
)
def test_populations_hold_as_many_units_as_there_are_and_none_where_nobody_is(weights, size):
    shares = np.array([*weights, 1.0]) / (sum(weights) + 1)
    counts = module.draw_populations(both_streams(), size, shares, 7)
    assert (counts.sum(1) == size).all()
    assert not counts[:, shares == 0].any()
    held = shares > 0
    assert np.array_equal(counts[:, held], module.draw_populations(both_streams(), size, shares[held], 7))


@pytest.mark.parametrize("shares", [np.arange(1.0, 41.0) / 820, np.array([0.5, 0.3, *np.full(40, 0.005)])])
def test_populations_are_the_same_however_many_are_drawn_at_a_time(shares):
    def draw(*parts: int):
        rngs = both_streams()
        return np.concatenate([module.draw_populations(rngs, 333, shares, many) for many in parts])

    whole = draw(20)
    assert np.array_equal(whole, draw(1, 12, 7))
    assert np.array_equal(whole, draw(*[1] * 20))


@pytest.mark.parametrize("often", [0, 2, 5, 100])
def test_all_ways_of_drawing_populations_have_the_same_law(often, monkeypatch):
    monkeypatch.setattr(module, "OFTEN", often)
    shares = np.array([0.55, 0.3, 0.1, 0.04, 0.01])
    one = module.draw_populations(both_streams(), 12, shares, 40_000)
    other = np.random.default_rng(3).multinomial(12, shares, 40_000)
    assert np.allclose(one.mean(0), other.mean(0), atol=0.04)
    assert np.allclose(np.cov(one.T), np.cov(other.T), atol=0.08)


@pytest.mark.parametrize("most", [1, 700, 9 * 112 * 40 + 5, 9 * 111 * 40, 1 << 20])
def test_ends_are_the_same_however_many_cells_are_handled_at_a_time(most, monkeypatch):
    rng = np.random.default_rng(2)
    spectra = Spectra.from_spectra([Spectrum.from_arrays(rng.poisson(mean, 60)) for mean in (2, 3, 20, 3000)])
    asked, labels = (
        parse_metrics(["gini", "top_share(p=0.1)", "equal_share"], needing(Spectrum)),
        [(i,) for i in range(4)],
    )

    def ends():
        found = estimates(spectra, asked, Interval.parse("bootstrap(999)"), 1, labels)
        return [(one.low.tolist(), one.high.tolist()) for one in found]

    usual = ends()
    monkeypatch.setattr(module, "MOST_CELLS", most)
    assert ends() == usual

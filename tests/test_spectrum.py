"""The spectrum tally: counting, merging, padding, binning, resampling, and many slices at once."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import EvenhandError, metrics
from evenhand.cards import parse_metric
from evenhand.intervals.spectra import heavy_tails, tail_exponents
from evenhand.tallies import spectrum
from evenhand.tallies.spectrum import BIN_WIDTH, UNPADDED, Spectra, Spectrum, collapse

whole = st.lists(st.integers(0, 30), max_size=30)
real = st.lists(st.floats(0, 1e6).map(lambda v: round(v, 2)), max_size=30)
amounts = whole | real
some = amounts.filter(bool)


def cells(s):
    """The spectrum as a mapping, with cells that nobody is in left out."""
    weights = np.ones_like(s.values) if s.weights is None else s.weights
    found = Counter()
    for value, count, weight in zip(s.values, s.counts, weights, strict=True):
        found[float(value), float(weight)] += float(count)
    return {cell: count for cell, count in found.items() if count}


def ascending(s):
    return bool((np.diff(s.values) > 0).all())


# --- counting ---------------------------------------------------------------------------------------------------------


@given(amounts)
def test_counting_units_per_amount_is_what_a_counter_does(x):
    s = Spectrum.from_arrays(x)
    assert cells(s) == {(float(v), 1.0): c for v, c in Counter(x).items()}
    assert ascending(s)
    assert s.units == len(x)
    assert s.total == pytest.approx(math.fsum(x))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=20))
def test_units_without_weight_are_left_out_and_equal_ones_joined(pairs):
    x, w = [a for a, _ in pairs], [b for _, b in pairs]
    if not any(w):
        return
    assert cells(Spectrum.from_arrays(x, weights=w)) == {
        (float(a), float(b)): c for (a, b), c in Counter(pairs).items() if b
    }


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.float32, np.float64])
def test_every_number_type_counts_the_same(dtype):
    assert cells(Spectrum.from_arrays(np.array([3, 0, 0, 3, 1], dtype=dtype))) == {(0, 1): 2, (1, 1): 1, (3, 1): 2}


@pytest.mark.parametrize("n", [UNPADDED - 1, UNPADDED, UNPADDED + 1, 3 * UNPADDED + 5])
@pytest.mark.parametrize("step", [1, 3], ids=["distinct", "ties"])
def test_large_populations_are_counted_like_small_ones(n, step):
    x = (np.arange(n) // step).astype(float)
    s = Spectrum.from_arrays(np.random.default_rng(0).permutation(x))
    assert (s.units, s.total) == (n, x.sum())
    assert bool((np.diff(s.values) >= 0).all())
    reach = s.reach
    held = s.cum_amount
    np.testing.assert_array_equal(reach, np.cumsum(s.counts))
    np.testing.assert_allclose(held, np.cumsum(s.counts * s.values), rtol=1e-12)


def test_a_cell_that_nobody_is_in_changes_nothing():
    full, sparse = Spectrum.from_arrays([1, 1, 5]), Spectrum(np.array([0.0, 1, 3, 5, 9]), np.array([0.0, 2, 0, 1, 0]))
    texts = ["gini", "theil", "hoover", "palma", "equal_share", "percentile", "top_share", "mean"]
    texts += [f"atkinson(epsilon={e})" for e in (0, 0.5, 1, 2, math.inf)]
    texts += [f"generalized_entropy(alpha={a})" for a in (-1, 0, 0.3, 2)]
    for text in texts:
        assert parse_metric(text).on(sparse) == pytest.approx(float(parse_metric(text).on(full)), rel=1e-14)


def test_a_spectrum_tells_why_nothing_can_be_said():
    assert Spectrum.from_arrays([]).reason() == "empty"
    assert Spectrum.from_arrays([0]).reason() == "zero_total"
    assert Spectrum.from_arrays([1], weights=[0]).reason() == "zero_weight"
    assert Spectrum.from_arrays([1]).reason() == ""


# --- merging and padding ----------------------------------------------------------------------------------------------


@given(amounts, amounts)
def test_merging_is_exact_and_does_not_care_for_order(x, y):
    one, other = Spectrum.from_arrays(x), Spectrum.from_arrays(y)
    assert cells(one.merge(other)) == cells(other.merge(one)) == cells(Spectrum.from_arrays([*x, *y]))
    assert ascending(one.merge(other))


@given(amounts, amounts, amounts)
def test_shards_may_be_merged_in_any_grouping(x, y, z):
    a, b, c = map(Spectrum.from_arrays, (x, y, z))
    assert cells(a.merge(b).merge(c)) == cells(a.merge(b.merge(c)))


@given(some, some)
def test_weighted_and_unweighted_shards_merge(x, y):
    merged = Spectrum.from_arrays(x, weights=[2.0] * len(x)).merge(Spectrum.from_arrays(y))
    assert merged.size == 2 * len(x) + len(y)
    assert cells(merged) == cells(Spectrum.from_arrays(x, weights=[2.0] * len(x))) | cells(Spectrum.from_arrays(y))


@given(amounts, st.integers(0, 40))
def test_padding_adds_units_that_received_nothing(x, zeros):
    assert cells(Spectrum.from_arrays(x).padded(zeros)) == cells(Spectrum.from_arrays([*x, *[0] * zeros]))


def test_padding_to_the_size_of_a_platform_keeps_every_unit():
    s = Spectrum.from_arrays([1, 2, 3]).padded(10**8 - 3)
    assert s.units == 10**8
    n = 10**8  # sum of (2i - n - 1) x_i over n times the total, with the last three units the only ones that hold
    assert metrics.gini.on(s) == pytest.approx(((n - 5) * 1 + (n - 3) * 2 + (n - 1) * 3) / (6 * n), rel=1e-15)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.sampled_from([0.5, 1.0])), max_size=20))
def test_collapsing_cells_in_any_order_sums_their_units(rows):
    values, counts, weights = (np.array([r[i] for r in rows], dtype=float) for i in range(3))
    expected = Counter()
    for v, c, w in rows:
        expected[float(v), w] += c
    assert cells(collapse(values, counts, weights)) == {k: c for k, c in expected.items() if c}


# --- binning ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e270).filter(lambda v: v == 0 or v > 1e-290), min_size=1, max_size=40))
def test_bins_keep_units_and_total_and_move_no_amount_far(x):
    s = Spectrum.from_arrays(x)
    binned = s.binned()
    assert binned.units == s.units
    assert binned.total == pytest.approx(s.total, rel=1e-12)
    assert ascending(binned)
    assert binned.counts[binned.values == 0].sum() == s.counts[s.values == 0].sum()
    every = np.repeat(s.values, s.counts.astype(int))
    moved = np.repeat(binned.values, binned.counts.astype(int))
    np.testing.assert_allclose(moved, every, rtol=2 * BIN_WIDTH)


def test_binning_hardly_moves_any_metric():
    x = np.random.default_rng(1).lognormal(0, 1.5, 50_000)
    s = Spectrum.from_arrays(x)
    assert len(s.binned().values) < len(s.values)
    for name, tolerance in (
        ("gini", 1e-7),
        ("atkinson", 1e-7),
        ("theil", 1e-7),
        ("top_share", 1e-7),
        ("equal_share", 1e-6),
    ):
        assert getattr(metrics, name).on(s.binned()) == pytest.approx(getattr(metrics, name).on(s), rel=tolerance)


def test_bins_bound_the_size_of_a_spectrum():
    x = np.random.default_rng(2).lognormal(0, 2, 300_000)
    decades = math.log2(x.max() / x.min()) + 2
    assert len(Spectrum.from_arrays(x).binned().values) <= decades / BIN_WIDTH


def test_weighted_cells_are_not_binned():
    s = Spectrum.from_arrays([1.0, 1.0001], weights=[1, 2])
    assert s.binned() is s


@given(st.lists(st.floats(1e-300, 1e270) | st.integers(0, 9), min_size=1, max_size=60), st.integers(2, 32))
def test_gathered_cells_keep_units_and_total_and_span_little(x, parts):
    s = Spectrum.from_arrays([float(v) for v in x])
    found = s.gathered(parts)
    assert found.units == s.units
    assert found.total == pytest.approx(s.total, rel=1e-12)
    assert found.counts[found.values == 0].sum() == s.counts[s.values == 0].sum()
    stops = np.cumsum(found.counts)
    every = np.repeat(s.values, s.counts.astype(int))
    for stop, count in zip(stops.astype(int), found.counts.astype(int), strict=True):
        held = every[stop - count : stop]
        if held[0] < held[-1]:
            assert count <= 2 * len(every) / parts
            assert (held / every.max()).sum() <= 2 * (every / every.max()).sum() / parts * (1 + 1e-9)
            assert np.log2(held[-1]) - np.log2(held[0]) <= 16 / parts + 1e-9


def test_who_holds_most_or_stands_at_a_given_rank_shares_a_cell_with_nobody():
    x = np.arange(1.0, 2001.0)
    found = Spectrum.from_arrays(x).gathered(32, separate_rank=1500)
    assert {1, 2, 1500, 1999, 2000} <= set(found.values[found.counts == 1])
    assert len(found.values) < 150


@given(st.lists(st.integers(0, 40), min_size=1, max_size=300), st.floats(-20, 320), st.floats(0, 40))
def test_amounts_near_a_rank_share_a_cell_with_no_other(x, rank, far):
    s = Spectrum.from_arrays([v**2 for v in x])
    found = s.gathered(2, near=[(rank - far, rank + far)])
    assert found.units == s.units
    assert found.total == pytest.approx(s.total)
    reach = np.cumsum(s.counts)
    near = (reach >= rank - far) & (reach - s.counts <= rank + far) & (s.values > 0)
    held = dict(zip(found.values, found.counts, strict=True))
    assert [held.get(v) for v in s.values[near]] == s.counts[near].tolist()


# --- resampling -------------------------------------------------------------------------------------------------------


def test_a_draw_keeps_the_number_of_units_and_the_amounts():
    s = Spectrum.from_arrays([0, 0, 1, 5, 5, 9])
    drawn = s.resample(50, np.random.default_rng(0))
    assert drawn.counts.shape == (50, 4)
    assert (drawn.units == 6).all()
    assert drawn.values is s.values


def test_resampling_the_spectrum_has_the_law_of_resampling_the_units():
    x = np.array([0, 0, 0, 1, 2, 2, 7, 10, 10, 30])
    rng = np.random.default_rng(4)
    by_cell = Spectrum.from_arrays(x).resample(20_000, rng).counts
    picked = rng.choice(x, (20_000, 10))
    by_unit = np.stack([(picked == v).sum(1) for v in np.unique(x)], axis=1)
    np.testing.assert_allclose(by_cell.mean(0), by_unit.mean(0), atol=0.05)
    np.testing.assert_allclose(np.cov(by_cell.T), np.cov(by_unit.T), atol=0.08)
    values = np.unique(x).astype(float)
    one, other = (metrics.gini.on(Spectrum(values, drawn.astype(float))) for drawn in (by_cell, by_unit))
    np.testing.assert_allclose(np.quantile(one, [0.05, 0.5, 0.95]), np.quantile(other, [0.05, 0.5, 0.95]), atol=0.01)


def test_weights_travel_with_the_units_that_are_drawn():
    s = Spectrum.from_arrays([1, 2, 3], weights=[1, 2, 4])
    drawn = s.resample(20, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.size, drawn.counts @ s.weights)


def test_nobody_can_be_resampled_as_nobody():
    assert Spectrum.from_arrays([]).resample(3, np.random.default_rng(0)).counts.shape == (3, 0)


# --- many slices ------------------------------------------------------------------------------------------------------

slices = st.lists(amounts, min_size=1, max_size=8)


@given(slices)
def test_slices_end_to_end_come_apart_again(parts):
    together = Spectra.from_spectra([Spectrum.from_arrays(x) for x in parts])
    assert len(together) == len(parts)
    assert [cells(together[i]) for i in range(len(parts))] == [cells(Spectrum.from_arrays(x)) for x in parts]
    assert together.units.tolist() == [len(x) for x in parts]


@given(slices, st.data())
def test_padding_slices_at_once_equals_padding_each(parts, data):
    zeros = data.draw(st.lists(st.integers(0, 20), min_size=len(parts), max_size=len(parts)))
    padded = Spectra.from_spectra([Spectrum.from_arrays(x) for x in parts]).padded(np.array(zeros, dtype=float))
    for i, (x, z) in enumerate(zip(parts, zeros, strict=True)):
        assert cells(padded[i]) == cells(Spectrum.from_arrays([*x, *[0] * z]))
        assert ascending(padded[i])


@given(slices, st.sampled_from([1, 4, 16, 10_000]))
def test_batches_hold_every_slice_once_and_give_its_numbers(parts, most_cells):
    together = Spectra.from_spectra([Spectrum.from_arrays(x) for x in parts])
    seen = []
    for chosen, batch in together.batches(most_cells):
        assert batch.counts.ndim == 2
        assert len(chosen) == 1 or batch.counts.size <= 2 * most_cells
        values = metrics.gini.on(batch)
        for i, value in zip(chosen, values, strict=True):
            seen.append(int(i))
            np.testing.assert_allclose(value, metrics.gini.on(together[int(i)]), rtol=1e-12)
    assert sorted(seen) == list(range(len(parts)))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), min_size=1, max_size=12), some)
def test_weighted_slices_keep_their_weights_in_a_batch(pairs, x):
    weighted = Spectrum.from_arrays([a for a, _ in pairs], weights=[b for _, b in pairs])
    together = Spectra.from_spectra([weighted, Spectrum.from_arrays(x)])
    for chosen, batch in together.batches(10_000):
        for i, value in zip(chosen, metrics.mean.on(batch), strict=True):
            assert value == pytest.approx(float(metrics.mean.on([weighted, Spectrum.from_arrays(x)][int(i)])))


def test_no_slices_at_all_are_no_trouble():
    assert len(Spectra.from_spectra([])) == 0
    assert list(Spectra.from_spectra([]).batches(100)) == []


def test_padding_keeps_the_weights_of_a_weighted_slice():
    weighted = Spectra.from_spectra([Spectrum.from_arrays([1, 2], weights=[3, 4])])
    assert weighted.padded(np.array([0.0]))[0].size == 7
    assert cells(weighted.padded(np.array([5.0]))[0]) == {(0, 1): 5, (1, 3): 1, (2, 4): 1}


# --- tails ------------------------------------------------------------------------------------------------------------


def hill(x):
    ordered = np.sort(x)
    top = int(math.sqrt(len(x)))
    return 1 / np.mean(np.log(ordered[-top:] / ordered[-top - 1]))


def test_the_tail_exponent_is_hills_from_the_top_root_n():
    x = np.random.default_rng(0).pareto(1.5, 2500) + 1
    assert tail_exponents(Spectrum.from_arrays(x)) == pytest.approx(hill(x))


def test_ties_do_not_disturb_the_tail_exponent():
    x = np.round(np.random.default_rng(0).pareto(1.5, 2500) * 10) + 1
    assert tail_exponents(Spectrum.from_arrays(x)) == pytest.approx(hill(x))


def test_heavy_tails_are_told_from_light_ones_slice_by_slice():
    rng = np.random.default_rng(3)
    heavy, light = rng.pareto(1.2, 4000) + 1, rng.lognormal(0, 0.4, 4000)
    flat, few, none = np.ones(4000), np.array([1.0, 1e9]), np.zeros(0)
    together = Spectra.from_spectra([Spectrum.from_arrays(x) for x in (heavy, light, flat, few, none)])
    assert heavy_tails(together).tolist() == [True, False, False, False, False]


@pytest.mark.parametrize("receivers", [1, 3, 40, 4000])
@pytest.mark.parametrize("silent", [0, 50, 200_000])
def test_amounts_that_are_all_equal_have_no_heavy_tail(receivers, silent):
    spectrum = Spectrum.from_arrays(np.repeat([0.0, 7.5], [silent, receivers]))
    assert heavy_tails(Spectra.from_spectra([spectrum])).tolist() == [False]


@pytest.mark.parametrize("bad", [[[1, 2]], [None], ["x"], [math.inf], [-1]])
def test_amounts_that_cannot_be_counted_are_refused(bad):
    with pytest.raises(EvenhandError):
        Spectrum.from_arrays(bad)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_long_whole_numbers_are_counted_right(dtype, sigma):
    x = np.random.default_rng(4).lognormal(3, sigma, 2 * UNPADDED + 9).clip(0, np.iinfo(dtype).max // 2).astype(dtype)
    values, counts = np.unique(x, return_counts=True)
    found = Spectrum.from_arrays(x)
    assert np.array_equal(found.values, values)
    assert np.array_equal(found.counts, counts)


def test_negative_numbers_are_counted():
    x = np.ones(2 * UNPADDED + 5, dtype=np.int64)
    x[[0, UNPADDED + 1, -1]] = -2
    with pytest.raises(EvenhandError, match=r"^3 amounts are negative"):
        Spectrum.from_arrays(x)


def test_long_fractions_are_counted_like_short_ones():
    rng = np.random.default_rng(3)
    x = np.where(rng.random(200_000) < 0.5, 0.0, rng.lognormal(0, 2, 200_000))
    x[:7] = -0.0
    values, counts = np.unique(x, return_counts=True)
    found = Spectrum.from_arrays(x)
    assert found.values.tolist() == values.tolist()
    assert found.counts.tolist() == counts.tolist()
    for bad, said in (
        (np.nan, "1 amounts are NaN"),
        (np.inf, "1 amounts are infinite"),
        (-1.0, "1 amounts are negative"),
    ):
        x[100_000] = bad
        with pytest.raises(EvenhandError, match=said):
            Spectrum.from_arrays(x)


@given(some, st.integers(1, 5))
def test_a_row_sums_to_the_same_bits_whatever_stands_beside_it(x, more):
    s = Spectrum.from_arrays(x)
    drawn = np.vstack([s.counts, np.random.default_rng(more).random((more, len(s.counts)))])
    together, alone = Spectrum(s.values, drawn), Spectrum(s.values, s.counts)
    for of in ("gini", "top_share(p=0.3)", "equal_share", "atkinson(epsilon=0.5)"):
        np.testing.assert_array_equal(parse_metric(of).on(together)[0], parse_metric(of).on(alone))


def test_sums_over_many_cells_are_those_over_few():
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 3, 30_000))
    np.testing.assert_allclose(spectrum.dot(a, b), (a * b).sum(-1), rtol=1e-12)
    np.testing.assert_allclose(spectrum.dot(a), a.sum(-1), rtol=1e-12)

"""The alarm: how rarely it is false, how soon it is true, and what cannot mislead it."""

import numpy as np
import pytest
from benchmarks.alarms import Design, detected, error, false_alarms

from evenhand.intervals.alarms import normal_score, trend, watch

DAYS = np.arange(1_000) % 7


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["Gaussian", "t(2)", "exponential", "GARCH(.1,.85)"])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5])
def test_stable_years_hardly_ever_give_an_alarm(noise, rho):
    share = false_alarms(Design(noise, rho), 800, np.random.default_rng(5))
    assert share <= 0.05 + 2 * error(0.05, 800)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "within", "least"), [(1, 60, 0.35), (2, 14, 0.85)])
def test_lasting_shifts_are_found(size, within, least):
    assert detected(Design("Gaussian", 0.0), 800, np.random.default_rng(6), size, within) >= least


def test_a_small_simulated_year_keeps_what_is_promised():
    rng = np.random.default_rng(7)
    assert false_alarms(Design("Gaussian", 0.5), 150, rng) <= 0.1
    assert detected(Design("Gaussian", 0.0), 150, rng, 1, 60) >= 0.35
    assert detected(Design("Gaussian", 0.0), 150, rng, 2, 14) >= 0.8


def test_windows_that_overlap_are_closely_related_looks_and_raise_no_alarm():
    assert false_alarms(Design("Gaussian", 0.0, "none", window=7), 150, np.random.default_rng(8)) <= 0.1


def test_a_few_odd_days_are_an_alarm_that_ends():
    levels = usual(looks=110)
    levels[:, 80:85] += 0.04
    [alarm] = watch(levels, DAYS[:110]).alarms
    assert alarm.look < 85
    assert alarm.until in range(85, 88)


def test_a_shift_that_ends_is_one_alarm_with_its_end():
    levels = usual(looks=240)
    levels[:, 80:160] -= 0.03
    [alarm] = watch(levels, DAYS[:240]).alarms
    assert alarm.until in range(158, 163)
    assert watch(levels[:, :160], DAYS[:160]).alarms[0].until is None


def test_the_old_level_is_watched_again_once_it_is_back():
    levels = usual(looks=200)
    levels[:, 80:90] += 0.04
    levels[:, 120:] += 0.04
    first, second = watch(levels, DAYS[:200]).alarms
    assert first.until in range(88, 93)
    assert second.look < 127
    assert second.before == pytest.approx(0.8, abs=0.005)
    assert second.until is None


def test_a_return_to_the_first_level_ends_later_alarms_too():
    levels = usual(looks=300)
    levels[:, 80:] += 0.05
    levels[:, 150:] += 0.05
    levels[:, 230:] -= 0.1
    first, second = watch(levels, DAYS[:300]).alarms
    assert {first.until, second.until} <= set(range(228, 233))


def usual(seed=0, looks=90, size=1):
    return np.random.default_rng(seed).normal(0.8, 0.01, (size, looks))


def test_the_alarm_says_since_when_and_from_where_to_where():
    levels = usual()
    levels[:, 60:] -= 0.04
    [alarm] = watch(levels, DAYS[:90]).alarms
    assert alarm.since in range(58, 62)
    assert alarm.look in range(alarm.since, 67)
    assert alarm.before == pytest.approx(0.8, abs=0.005)
    assert alarm.after == pytest.approx(0.76, abs=0.01)
    assert alarm.deviations == pytest.approx(-4, abs=1.5)


def test_a_weekly_pattern_however_strong_is_no_change():
    levels = usual(looks=365, size=40) + np.where(DAYS[:365] >= 5, 0.3, 0)
    assert watch(levels, DAYS[:365]).alarms == ()


def test_one_odd_day_however_odd_is_no_alarm_and_does_not_blind():
    levels = usual()
    levels[:, 50] += 100
    assert watch(levels[:, :60], DAYS[:60]).alarms == ()
    levels[:, 60:] += 0.05
    assert [a.look for a in watch(levels, DAYS[:90]).alarms if 60 <= a.look < 67]


def test_nothing_is_told_before_28_days():
    levels = usual(looks=40)
    levels[:, 20:] += 1
    seen = watch(levels, DAYS[:40])
    assert np.isnan(seen.evidence[:, :28]).all()
    assert np.isfinite(seen.evidence[:, 28]).all()


def test_after_an_alarm_the_new_level_is_the_usual_one():
    levels = usual(looks=300)
    levels[:, 60:] += 0.05
    levels[:, 200:] += 0.05
    told = watch(levels, DAYS[:300]).alarms
    assert [60 <= told[0].look < 67, 200 <= told[1].look < 207, len(told)] == [True, True, 2]
    assert told[1].before == pytest.approx(0.85, abs=0.01)


def test_days_without_a_number_are_days_without_a_look():
    levels, days = usual(looks=120), DAYS[:120]
    levels[:, 70:] += 0.05
    kept = np.random.default_rng(2).random(120) > 0.2
    gaps = np.where(kept, levels, np.nan)
    gaps[:, 5] = np.inf
    some = watch(gaps, days).alarms
    fewer = watch(gaps[:, kept & np.isfinite(gaps[0])], days[kept & np.isfinite(gaps[0])]).alarms
    assert [a.after for a in some] == [a.after for a in fewer]
    assert len(some) == 1


def test_series_do_not_know_of_one_another():
    levels = usual(size=5, looks=200)
    levels[2, 100:] += 0.05
    together = watch(levels, DAYS[:200])
    for i in range(5):
        alone = watch(levels[i], DAYS[:200])
        np.testing.assert_array_equal(together.evidence[i], alone.evidence[0])
        assert [a.look for a in together.alarms if a.series == i] == [a.look for a in alone.alarms]


def test_levels_in_other_units_give_the_same_alarms():
    levels = usual(size=3, looks=200)
    levels[:, 120:] += 0.035
    one, other = (watch(x, DAYS[:200]).alarms for x in (levels, 1_000 - 70 * levels))
    assert [(a.series, a.look, a.since) for a in one] == [(a.series, a.look, a.since) for a in other]
    assert [a.deviations for a in one] == pytest.approx([-a.deviations for a in other])


def test_a_smaller_rate_never_speaks_earlier():
    levels = usual(size=20, looks=100)
    levels[:, 60:] += 0.03
    first = {
        rate: {a.series: a.look for a in reversed(watch(levels, DAYS[:100], rate=rate).alarms)}
        for rate in (0.2, 0.05, 0.001)
    }
    for lax, strict in ((0.2, 0.05), (0.05, 0.001)):
        assert all(first[lax][i] <= look for i, look in first[strict].items())


@pytest.mark.parametrize("level", [0.0, 0.3, -5e9])
def test_what_never_varied_is_told_when_it_does(level):
    levels = np.full(80, level)
    assert watch(levels, DAYS[:80]).alarms == ()
    levels[60:] += 1e-4 * max(1, abs(level))
    [alarm] = watch(levels, DAYS[:80]).alarms
    assert alarm.since == 60
    assert alarm.look < 67
    assert np.isinf(alarm.deviations)


def test_rounding_is_no_change():
    levels = np.full(80, 0.1 + 0.2)
    levels[60:] = 0.3
    assert watch(levels, DAYS[:80]).alarms == ()


def test_looks_once_a_week_are_watched_too():
    levels = usual(looks=60)
    levels[:, 40:] += 0.06
    [alarm] = watch(levels, np.zeros(60, dtype=int)).alarms
    assert 40 <= alarm.look < 50


@pytest.mark.parametrize(("rho", "low", "high"), [(0.0, -0.1, 0.1), (0.3, 0.2, 0.4), (0.6, 0.45, 0.7)])
def test_how_closely_days_follow_one_another_is_told(rho, low, high):
    levels = Design("Gaussian", rho).draw(np.random.default_rng(1), 20, 365)
    assert low < watch(levels, DAYS[:365], rate=1e-12).autocorrelation.mean() < high


def test_scores_are_as_unlikely_as_the_ratios_they_stand_for():
    scipy = pytest.importorskip("scipy.stats")
    t = np.linspace(-4, 4, 81)
    for freedom in (15, 40, 200):
        exact = scipy.norm.ppf(scipy.t.cdf(t, freedom))
        assert np.abs(normal_score(t, np.full(81, float(freedom))) - exact).max() < 0.02


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_the_interval_of_a_trend_allows_for_related_days(rho):
    levels = Design("Gaussian", rho, "none").draw(np.random.default_rng(4), 300, 100)
    fitted = [trend(np.arange(100), y) for y in levels + 0.002 * np.arange(100)]
    covered = np.mean([t.low <= 0.002 * 365.25 <= t.high for t in fitted])
    assert 0.91 <= covered <= 0.99


def test_a_few_days_have_no_trend():
    assert trend(np.arange(7), np.arange(7)) is None
    assert trend(np.arange(9), np.full(9, 0.5)).slope == 0

"""The rules of every interval (formula book F12.8), over all audits."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from benchmarks.rules import WORLDS, broken, faults

import evenhand as eh
from evenhand.cards import parse_metric
from evenhand.intervals.kinds import centred_ends, percentile_ends, reported_ends, t_quantile, tail_share
from evenhand.intervals.spectra import heavy_tails, likely_populations
from evenhand.tallies.spectrum import Spectra, Spectrum


def units_of(x, **call):
    table = pl.DataFrame({"unit": np.arange(len(x)), "views": x})
    return eh.inequality(table, unit="unit", amount="views", population=None, rng=1, **call).frame


def pareto(units):
    return np.random.default_rng(5).pareto(2, units) + 1


def fair_lists(requests, seed, items=6):
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((requests, items)), axis=1)
    return pl.DataFrame(
        {
            "request": np.repeat(np.arange(requests), items),
            "item": order.ravel(),
            "rank": np.tile(np.arange(1, items + 1), requests),
            "relevance": np.ones(requests * items),
        }
    )


GROUPS = {i: "f" if i < 3 else "m" for i in range(6)}


@pytest.mark.filterwarnings("ignore")
def test_no_interval_breaks_a_rule_in_random_worlds_over_all_audits():
    measured = Counter()
    assert list(faults(90, 7, measured)) == []
    assert measured.keys() == {world.__name__ for world in WORLDS}


def test_a_broken_interval_would_be_found():
    good = eh.inequality(pl.DataFrame({"u": range(30), "n": range(30)}), unit="u", amount="n", population=None, rng=1)
    assert list(broken(good)) == []
    columns = {k: list(v) for k, v in good.findings.columns.items()}
    columns["low"][0], columns["high"][1], columns["low"][2], columns["high"][2] = 0.9, 1.5, math.nan, math.nan
    columns["note"][2] = None
    found = list(broken(replace(good, findings=replace(good.findings, columns=columns))))
    assert [f.split(":")[0] for f in found] == [
        "does not hold its estimate",
        "leaves the span (0.0, 1.0)",
        "no interval and no note",
    ]


def test_an_interval_is_widened_to_its_estimate_and_cut_at_the_span():
    assert reported_ends(0.4, 0.5, 1.2, (0, 1))[:2] == (0.4, 1.0)
    assert reported_ends(0.4, math.nan, 0.5)[2] == "no_interval"
    assert reported_ends(0.4, 0.4, 0.4 * (1 + 1e-15))[2] == "no_variation"
    assert reported_ends(1.0, math.nan, math.nan, certain=True) == (1.0, 1.0, "")


def test_small_samples_take_quantiles_of_student():
    from scipy import stats

    assert t_quantile(0.9, 8) == pytest.approx(stats.t.ppf(0.95, 7))
    assert tail_share(0.95, 5) == pytest.approx(stats.norm.cdf(-math.sqrt(5 / 4) * stats.t.ppf(0.975, 4)))
    draws = np.random.default_rng(1).normal(size=(1, 99_999))
    low, high = percentile_ends(draws, 0.95, 10)
    assert high[0] - low[0] == pytest.approx(2 * math.sqrt(10 / 9) * stats.t.ppf(0.975, 9), rel=0.03)


@pytest.mark.parametrize(("units", "note"), [(1, "few_units"), (4, "few_units"), (12, "few_units"), (30, None)])
def test_few_units_are_said_and_below_five_there_is_no_interval(units, note):
    x = np.random.default_rng(3).gamma(2, 1, units)
    found = units_of(x, metrics="gini").row(0, named=True)
    assert math.isnan(found["low"]) == (units < 5)
    assert found["note"] == note


def test_no_variation_gives_no_interval_whatever_the_population():
    found = units_of(np.full(40, 3.0), metrics=["gini", "top_share(p=1)"])
    assert found["note"].to_list() == ["no_variation", None]
    assert found["low"].is_nan().to_list() == [True, False]
    table = pl.DataFrame({"u": range(40), "n": [3] * 40})
    one = eh.inequality(table, unit="u", amount="n", population=40, metrics="gini", rng=1).frame.row(0, named=True)
    assert one["note"] == "no_variation"


def test_a_share_of_less_than_one_unit_is_called_a_part_of_it():
    x = np.random.default_rng(3).gamma(2, 1, 99)
    found = units_of(x, metrics=["top_share(p=0.01)", "top_share(p=0.1)"])
    assert found["note"].to_list()[0].startswith("part_of_a_unit; few_units")
    assert found["note"].to_list()[1] is None
    assert units_of(np.append(x, 1.0), metrics="top_share(p=0.01)")["note"][0] == "few_units"


def test_bias_of_a_squared_norm_is_taken_off_and_both_values_are_held():
    rng = np.random.default_rng(5)
    draws = (0.3 + rng.normal(0, 1, (1, 9_999))) ** 2
    low, high = centred_ends(np.array([0.09]), draws, 0.95, biased=True)
    assert low[0] < 0 < 0.09 < high[0]
    plain = centred_ends(np.array([0.09]), draws, 0.95)
    assert plain[1][0] == pytest.approx(high[0])
    assert plain[0][0] == pytest.approx(low[0] + draws.mean() - 0.09)


def test_the_interval_of_a_perfectly_fair_policy_holds_zero_and_its_floor_stands_beside_it():
    held = []
    for seed in range(25):
        call = {"groups": GROUPS, "relevance": "relevance", "metrics": ["eel", "eed"], "interval": "bootstrap(199)"}
        eel, eed = eh.exposure(fair_lists(60, seed), **call, rng=seed).frame.rows(named=True)
        held.append(eel["low"] <= 0 <= eel["high"] and eed["low"] <= eed["ideal"] * (1 + 1e-12))
        assert 0 < eel["floor"] < 0.05
        assert eed["chance"] > eed["ideal"]
    assert np.mean(held) >= 0.92


def test_the_floor_of_eel_is_what_fair_policies_score_on_average_and_chance_of_eed_what_random_orders_do():
    call = {"groups": GROUPS, "relevance": "relevance", "metrics": ["eel", "eed"], "interval": None}
    frames = [eh.exposure(fair_lists(30, seed), **call).frame for seed in range(20)]
    found = [(frame["floor"][0], frame["chance"][1]) for frame in frames]
    weights = 0.5 ** np.arange(6)
    drawn = 3 * (6 - 3) / (6 - 1) * weights.var()  # variance of what three of six ranks hold, drawn without replacement
    assert np.mean([eel for eel, _ in found]) == pytest.approx(2 * drawn / 30, rel=0.1)
    assert np.mean([eed for _, eed in found]) == pytest.approx(weights.sum() ** 2 / 2 + 2 * drawn / 30, rel=0.002)


def test_requests_and_items_resampled_hold_their_own_estimate():
    for seed in range(5):
        call = {"groups": GROUPS, "metrics": ["awrf", "log_dp"], "protected": "f", "interval": "bootstrap(99)"}
        found = eh.exposure(fair_lists(30, seed), **call, resample="requests_and_items", rng=seed)
        for r in found.frame.rows(named=True):
            assert r["low"] <= r["estimate"] <= r["high"]
        assert "other items" in found.provenance["interval_for"]


def test_a_tail_goes_on_beyond_the_largest_amount_and_keeps_units():
    x = np.random.default_rng(2).pareto(2, 400) + 1
    populations, chances = likely_populations(Spectrum.from_arrays(x))
    assert chances.sum() == pytest.approx(1)
    assert populations.units == pytest.approx(400)
    assert (np.diff(populations.values) >= 0).all()
    assert (populations.values[-3:].max(-1) > x.max()).all()
    totals = populations.total
    assert totals[0] < x.sum() < totals[-1]
    assert (np.diff(totals) >= 0).all()  # lightest tail first


def test_a_flat_top_and_few_units_are_as_they_are():
    for x in (np.ones(40), np.append(np.zeros(300), np.ones(100)), np.arange(1.0, 5.0)):
        s = Spectrum.from_arrays(x)
        populations, chances = likely_populations(s)
        assert np.array_equal(populations.total, np.full(len(chances), s.total))


def test_light_tails_end_near_the_largest_amount():
    x = np.random.default_rng(1).random(400)
    assert likely_populations(Spectrum.from_arrays(x))[0].values.max() < 1.3 * x.max()


def test_tails_are_as_uncertain_as_their_few_units_leave_them():
    few, many = (likely_populations(Spectrum.from_arrays(pareto(n)))[0].total for n in (30, 30_000))
    assert few[-1] / few[0] > 1.2 * many[-1] / many[0]


def test_a_slice_has_the_same_tails_whatever_slices_stand_beside_it():
    slices = [Spectrum.from_arrays(pareto(n)) for n in (40, 38)]
    (_, stacked), *_ = Spectra.from_spectra(slices).batches(10_000)
    (single, _), (both, _) = likely_populations(slices[0]), likely_populations(stacked)
    filled, filled_too = single.counts > 0, both.counts[0] > 0
    assert np.array_equal(single.counts[filled], both.counts[0][filled_too])
    assert np.array_equal(single.values[filled], both.values[0][filled_too])


@pytest.mark.parametrize("reached", [0, 1, 997, 998])
@pytest.mark.parametrize("interval", ["bootstrap(99)", "normal", "percentile(99)"])
def test_a_share_of_units_has_wilsons_interval_also_where_all_or_none_are_reached(reached, interval):
    x = np.append(np.zeros(998 - reached), np.full(reached, 3.0))
    r = units_of(x, metrics="reach", interval=interval).row(0, named=True)
    z = 1.959964
    middle, half = (
        reached / 998 + z**2 / 1996,
        z * math.sqrt(reached / 998 * (1 - reached / 998) / 998 + (z / 1996) ** 2),
    )
    ends = [(middle - half) / (1 + z**2 / 998), (middle + half) / (1 + z**2 / 998)]
    assert [r["low"], r["high"]] == pytest.approx(ends, abs=1e-6)
    assert r["high"] - r["low"] < 0.007


def test_a_small_gini_of_draws_without_variation_has_a_short_interval():
    for zeros in (1, 2, 3):
        r = units_of(np.append(np.zeros(zeros), np.ones(998 - zeros)), metrics="gini").row(0, named=True)
        assert r["estimate"] == pytest.approx(zeros / 998)
        assert 0 < r["low"] < r["estimate"] < r["high"] < 0.011


def test_the_tail_makes_intervals_of_heavy_tailed_amounts_wider_upwards():
    x = np.random.default_rng(8).lognormal(0, 2, 300)
    with_it = units_of(x, metrics="equal_share", interval="bootstrap(499)").row(0, named=True)
    without = units_of(x, metrics="equal_share", interval="percentile(499)").row(0, named=True)
    assert with_it["high"] > without["high"]


@pytest.mark.parametrize(
    ("draw", "least", "most"),
    [
        (lambda rng: rng.gamma(1, 1, 500), 0.0, 0.1),
        (lambda rng: rng.lognormal(0, 0.7, 500), 0.0, 0.1),
        (lambda rng: rng.lognormal(0, 2, 500), 0.9, 1.0),
        (lambda rng: rng.pareto(1.2, 500), 0.9, 1.0),
    ],
)
def test_heavy_tail_fires_where_intervals_are_short_and_rarely_elsewhere(draw, least, most):
    rng = np.random.default_rng(11)
    fired = heavy_tails(Spectra.from_spectra([Spectrum.from_arrays(draw(rng)) for _ in range(60)])).mean()
    assert least <= fired <= most


def test_few_receivers_among_many_units_are_a_caution_and_many_are_none():
    rng = np.random.default_rng(3)
    few, many = (np.concatenate([rng.gamma(3, 1, n), np.zeros(100)]) for n in (30, 80))
    assert set(units_of(few, metrics="gini", interval="normal")["note"]) == {"few_receivers"}
    assert set(units_of(many, metrics="gini", interval="normal")["note"]) == {None}
    assert set(units_of(rng.gamma(3, 1, 30), metrics="gini", interval="normal")["note"]) == {None}


def test_a_point_with_fewer_than_five_units_above_it_is_read_off_single_units():
    x = np.concatenate([np.ones(96), np.full(4, 30.0)])
    found = units_of(x, metrics=["equal_share", "equal_share(inverted=True)", "gini"], interval=None)
    assert found["note"].to_list() == ["few_at_the_top", "few_at_the_top", None]
    assert units_of(np.arange(1.0, 101.0), metrics="equal_share", interval=None)["note"].to_list() == [None]


def test_the_end_of_a_point_within_the_last_unit_is_the_end_of_the_span():
    x = np.append(np.random.default_rng(1).gamma(2, 1, 49), 1_000.0)  # half of everything is half of the last one
    r = units_of(x, metrics="equal_share", interval="percentile(199)").row(0, named=True)
    assert r["high"] == 1
    assert r["low"] < r["estimate"] < 1
    assert units_of(np.ones(8), metrics="equivalent_to_top")["note"][0].endswith("no_variation")


def test_parts_have_intervals_that_are_no_shorter_in_proportion_than_that_of_the_total():
    rng = np.random.default_rng(6)
    table = pl.DataFrame({"u": np.arange(40), "n": rng.lognormal(0, 1.2, 40), "g": ["a", "b"] * 20})
    call = {"unit": "u", "amount": "n", "group": "g", "population": None, "index": "theil", "rng": 1}
    rows = {r["metric"]: r for r in eh.decompose(table, **call, metrics=["total", "within"]).frame.rows(named=True)}
    total, within = rows["total"], rows["within"]
    for end, sign in (("low", 1), ("high", -1)):
        assert sign * within[end] / within["estimate"] <= sign * total[end] / total["estimate"] + 1e-9


def viewed(viewers, rng, authors=40):
    taste = rng.lognormal(0, 0.7, (viewers, authors)) / np.arange(1, authors + 1)
    views = rng.poisson(20 * taste / taste.sum(1, keepdims=True))
    viewer, author = np.nonzero(views)
    return pl.DataFrame({"viewer": viewer, "author": author, "views": views[viewer, author]})


def test_viewers_and_units_both_resampled_add_their_errors_in_squares():
    log = viewed(40, np.random.default_rng(3))
    call = {"unit": "author", "amount": "views", "population": 40, "metrics": ["gini", "top_share(p=0.1)"], "rng": 1}
    seen, drawn = (eh.inequality(log, **call, within=w).frame.rows(named=True) for w in ("viewer", None))
    both = eh.inequality(log, **call, within=["viewer", "author"])
    for one, other, r in zip(seen, drawn, both.frame.rows(named=True), strict=True):
        down = math.hypot(r["estimate"] - one["low"], r["estimate"] - other["low"])
        assert r["low"] == pytest.approx(max(0.0, r["estimate"] - down), abs=1e-9)
        assert r["high"] > max(one["high"], other["high"])
    assert [r["note"] for r in both.frame.rows(named=True)] == [
        r["note"] for r in drawn
    ]  # the top 10% of 40 are few units
    assert "other authors like these, seen by as many other viewers like" in both.provenance["interval_for"]


@pytest.mark.parametrize("within", [["viewer", "day"], ["author"], ["viewer", "author", "day"]])
def test_within_is_one_column_of_viewers_alone_or_beside_the_units(within):
    log = viewed(10, np.random.default_rng(3)).with_columns(day=1)
    with pytest.raises(eh.EvenhandError, match="is not one column of viewers"):
        eh.inequality(log, unit="author", amount="views", population=None, within=within)


def test_intervals_within_viewers_are_the_jackknife_over_viewers():
    from scipy import stats

    log = viewed(30, np.random.default_rng(1))
    call = {"unit": "author", "amount": "views", "population": 40, "metrics": "gini"}
    found = eh.inequality(log, **call, within="viewer", rng=1)
    row = found.frame.row(0, named=True)
    left = [
        float(parse_metric("gini").on(Spectrum.from_arrays(np.bincount(d["author"], d["views"], 40))))
        for d in (log.filter(pl.col("viewer") != v) for v in range(30))
    ]
    error = math.sqrt(29 / 30 * np.sum((np.array(left) - np.mean(left)) ** 2))
    g, t = row["estimate"], stats.t.ppf(0.975, 29)
    low = 1 / (1 + math.exp(-(math.log(g / (1 - g)) - t * error / (g * (1 - g)))))
    assert row["low"] == pytest.approx(low, rel=1e-9)
    assert g == eh.inequality(log, **call, interval=None).frame["estimate"][0]
    assert "other viewer" in found.provenance["interval_for"]


def test_intervals_within_viewers_hold_what_other_viewers_would_give():
    rng = np.random.default_rng(4)
    call = {"unit": "author", "amount": "views", "population": 40, "metrics": "gini"}
    truth = np.mean([eh.inequality(viewed(30, rng), **call, interval=None).frame["estimate"][0] for _ in range(60)])
    found = [eh.inequality(viewed(30, rng), **call, within="viewer", rng=1).frame.row(0, named=True) for _ in range(60)]
    assert np.mean([f["low"] <= truth <= f["high"] for f in found]) >= 0.87


def test_few_viewers_are_said_and_a_log_of_rows_has_none():
    rng = np.random.default_rng(6)
    call = {"unit": "author", "amount": "views", "population": 40, "metrics": "gini", "within": "viewer"}
    assert eh.inequality(viewed(10, rng), **call).frame["note"][0] == "few_viewers"
    four = eh.inequality(viewed(4, rng), **call).frame.row(0, named=True)
    assert math.isnan(four["low"])
    with pytest.raises(eh.EvenhandError, match="within='viewer' needs units"):
        eh.inequality(viewed(10, rng), **call | {"unit": None})


def test_every_audit_that_prints_p_prints_it_adjusted_over_all_its_rows():
    rng = np.random.default_rng(1)
    lists = pl.DataFrame(
        {"day": np.repeat([0, 1], 60), "request": np.repeat(np.arange(12), 10), "rank": np.tile(np.arange(1, 11), 12)}
    ).with_columns(stance=pl.Series(rng.choice(["con", "pro"], 120)))
    found = eh.prefix(lists, group="stance", protected="con", by="day", chance="permutation(99)", rng=1).frame
    p = np.sort(found["p"].to_numpy())
    assert np.sort(found["p_adjusted"].to_numpy())[0] == pytest.approx(min(1, p[0] * len(p)))
    scores = rng.random((30, 8))
    shown = eh.recommender(scores, user_groups=["a", "b"] * 15, top=2, chance="permutation(99)", rng=1).frame
    known = shown.filter(pl.col("p").is_not_nan() & pl.col("p").is_not_null())
    assert (known["p_adjusted"] >= known["p"]).all()
    assert known["p_adjusted"].min() == pytest.approx(min(1, known["p"].min() * len(known)))


def test_what_an_interval_is_for_is_said_in_the_report(tmp_path):
    table = pl.DataFrame({"author_id": range(30), "n": range(30)})
    call = {"unit": "author_id", "amount": "n", "population": None}
    found = eh.inequality(table, **call, rng=1)
    assert found.provenance["interval_for"].startswith("The interval is for other authors like these")
    found.report(tmp_path / "r.html")
    assert "The interval is for other authors like these" in (tmp_path / "r.html").read_text()
    assert "interval_for" not in eh.inequality(table, **call, interval=None).provenance


def test_the_page_of_a_history_says_that_intervals_of_two_days_are_no_test(tmp_path):
    history = eh.history(tmp_path / "h.parquet")
    for day, scale in (("2026-11-01", 1), ("2026-11-02", 2)):
        table = pl.DataFrame({"author": range(30), "n": np.arange(30) ** scale})
        history.append(eh.inequality(table, unit="author", amount="n", population=None, rng=1, metrics="gini"), at=day)
    assert "for the alarms to say" in history.report(tmp_path / "h.html").read_text()


@pytest.mark.parametrize("items", [0, 1, 30, 2_000])
def test_as_many_items_are_drawn_as_there_are(items):
    from evenhand.intervals.requests import picks

    drawn = picks(items, 40, np.random.default_rng(1))
    assert drawn.shape == (40, items)
    assert drawn.sum(1).tolist() == [items] * 40
    if items > 1:
        assert drawn.var() == pytest.approx(1 - 1 / items, rel=0.1)  # as multinomial counts do

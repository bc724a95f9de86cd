"""Did the change make it more even? Against slow definitions, on every engine, and refused where it cannot be answered."""

import itertools
import math

import duckdb
import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cards import needing, parse_metrics
from evenhand.cli import main
from evenhand.intervals.experiments import contrast, paired_contrast, sample_ratio, subsets, units_contrast
from evenhand.metrics.inequality import standard_error
from evenhand.tallies.buckets import Buckets, bucket_size
from evenhand.tallies.paired_amounts import PairedAmounts
from evenhand.tallies.spectrum import Spectrum
from oracles import experiment as slow

ASKED = parse_metrics(["gini", "atkinson(epsilon=0.5)", "top_share(p=0.1)", "percentile(p=0.7)"], needing(Spectrum))
GINI = parse_metrics("gini", needing(Spectrum))
CALL = {"unit": "author", "amount": "views", "arm": "arm", "randomized": "viewer", "population": None, "rng": 1}


def log(viewers=60, authors=25, share=0.5, effect=0.0, seed=0, rows=8):
    """Viewers who look at authors by popularity; `effect` flattens it for those treated."""
    rng = np.random.default_rng(seed)
    popular = np.sort(rng.lognormal(0, 1.2, authors))
    treated = rng.permutation(viewers) < viewers * share
    seen = np.repeat(np.arange(viewers), rng.poisson(rows, viewers) + 1)
    shares = [popular ** (1 - effect * arm) for arm in (0, 1)]
    author = [rng.choice(authors, p=shares[t] / shares[t].sum()) for t in treated[seen].astype(int)]
    arm = np.where(treated[seen], "new", "control")
    views = rng.integers(1, 4, len(seen))
    return pl.DataFrame({"viewer": seen, "author": author, "arm": arm, "views": views})


def alternating(table, column, labels):
    """Labels in turn, row by row."""
    return table.with_columns(pl.Series(column, [labels[i % len(labels)] for i in range(table.height)]))


def small():
    """Nine viewers, four of them treated."""
    return log(viewers=9, authors=5, share=0.4, seed=2, rows=3)


def parts(table):
    rows = table.select("viewer", "author", "views").rows()
    arms = {arm: set(table.filter(arm=arm)["viewer"]) for arm in ("new", "control")}
    return rows, arms["new"], arms["control"], sorted(set(table["author"]))


def one(result, metric="gini", **where):
    (row,) = [r for r in result.findings.rows() if r["metric"] == metric and all(r[k] == v for k, v in where.items())]
    return row


# The tally


@pytest.mark.parametrize("amounts", ["counts", "large", "floats"])
@pytest.mark.parametrize("weighted", [False, True])
def test_any_choice_of_buckets_gives_the_spectrum_of_its_rows(amounts, weighted):
    rng = np.random.default_rng(4)
    units, buckets, n = 300, 9, 1500
    popular = rng.lognormal(0, 2, units)
    unit = rng.choice(units, n, p=popular / popular.sum())
    unit[:units] = np.arange(units)  # everyone is seen
    bucket = rng.integers(0, buckets, n)
    amount = {"counts": np.ones(n, int), "large": rng.integers(1, 5000, n), "floats": rng.random(n)}[amounts]
    weights = rng.integers(1, 4, units).astype(float) if weighted else None
    whole = np.zeros((buckets, units))
    np.add.at(whole, (bucket, unit), amount)
    tally = Buckets.from_arrays(unit, bucket, amount, sizes=np.ones(buckets), weights=weights, unseen=7)
    assert tally.units == units + 7
    chosen = rng.random((5, buckets)) < 0.4
    zeros, more = np.zeros(7), None if weights is None else np.concatenate([weights, np.ones(7)])
    for at, found in tally.spectra(chosen):
        for k in range(at.start, at.stop):
            there = Spectrum(
                *(None if x is None else x[k - at.start] for x in (found.values, found.counts, found.weights))
            )
            exact = Spectrum.from_arrays(np.concatenate([chosen[k] @ whole, zeros]), more)
            assert np.allclose([a.on(there) for a in ASKED], [a.on(exact) for a in ASKED], rtol=1e-9, equal_nan=True)


def test_some_buckets_alone_leave_the_others_units_unseen():
    tally = Buckets.from_arrays([0, 1, 2, 2], [0, 0, 1, 0], [3, 1, 5, 1], sizes=[1, 1])
    alone = tally.only(np.array([False, True]))
    assert (alone.units, alone.unseen, alone.totals.tolist()) == (3.0, 2.0, [5])


def test_pairs_of_amounts_merge_and_keep_their_units():
    first = PairedAmounts.from_arrays([1, 0, 1], [2, 2, 2])
    both = first.merge(PairedAmounts.from_arrays([1, 4], [2, 0]))
    assert dict(zip(zip(both.first, both.second, strict=True), both.counts, strict=True)) == {
        (0, 2): 1,
        (1, 2): 3,
        (4, 0): 1,
    }
    drawn = both.resample(200, np.random.default_rng(1))
    assert set(drawn.sum(-1)) == {5.0}
    assert np.allclose(drawn.mean(0), both.counts, atol=0.4)


# Viewers randomised


def test_raw_chance_and_p_are_those_of_dealing_viewers_out_in_every_way():
    table = small()
    rows, treated, control, units = parts(table)
    found = one(eh.experiment(table, **CALL | {"draws": 4000, "metrics": "gini", "population": len(units)}))
    every = np.array(slow.every_reassignment(rows, treated, control, units))
    raw = slow.difference(rows, treated, control, units)
    assert found["raw"] == pytest.approx(raw)
    assert found["chance"] == pytest.approx(every.mean(), abs=5 * every.std() / 60)
    p = np.mean(np.abs(every - every.mean()) >= abs(raw - every.mean()) - 1e-12)
    assert found["p"] == pytest.approx(p, abs=0.03)
    assert found["units"] == len(treated | control)


def test_the_estimate_is_the_difference_at_equal_numbers_of_viewers():
    table = small()
    rows, treated, control, units = parts(table)
    found = one(eh.experiment(table, **CALL | {"metrics": "gini"}))
    few, many = sorted((treated, control), key=len)
    exact = {id(few): slow.gini(slow.totals(rows, few, units)), id(many): slow.rarefied(rows, many, len(few), units)}
    assert found["treatment"] == pytest.approx(exact[id(treated)], abs=0.01)
    assert found["control_value"] == pytest.approx(exact[id(control)], abs=0.01)
    assert found["estimate"] == pytest.approx(found["treatment"] - found["control_value"])


def test_the_error_of_equal_arms_is_the_jackknife_over_viewers():
    table = log(viewers=24, share=0.5, seed=3)
    rows, treated, control, units = parts(table)
    assert len(treated) == len(control)
    found = one(eh.experiment(table, **CALL | {"metrics": "gini", "draws": 99}))
    variance = [slow.jackknife(rows, arm, units) for arm in (treated, control)]
    from scipy.stats import t

    freedom = sum(variance) ** 2 / sum(v**2 / (len(treated) - 1) for v in variance)
    reach = t.ppf(0.975, freedom) * math.sqrt(sum(variance))
    assert found["high"] - found["estimate"] == pytest.approx(reach)
    assert found["estimate"] - found["low"] == pytest.approx(reach)


def test_a_real_effect_is_found_and_called_by_its_direction():
    result = eh.experiment(log(viewers=400, effect=0.7, seed=5), **CALL | {"metrics": ["gini", "equal_share"]})
    found = one(result)
    assert found["high"] < 0
    assert found["p"] == 0.001
    assert found["p_adjusted"] == pytest.approx(0.002)
    assert "more even, statistically significant" in result.sentences()[0]
    assert "at equal volume" in result.sentences()[0]


def test_a_small_arm_looks_unequal_by_volume_alone_and_that_is_taken_off():
    result = eh.experiment(log(viewers=800, share=0.05, seed=1, authors=150, rows=2), **CALL | {"metrics": "gini"})
    found = one(result)
    assert found["raw"] > 0.05
    assert found["chance"] > 0.05
    assert found["low"] < 0 < found["high"]
    assert found["p"] > 0.05
    assert "unequal volume alone would give" in result.sentences()[0]


@pytest.mark.slow
def test_true_nulls_are_rejected_at_the_nominal_rate_and_intervals_hold_zero():
    rejected, held = 0, 0
    for seed in range(80):
        found = one(eh.experiment(log(viewers=200, share=0.1, seed=seed), **CALL | {"metrics": "gini", "draws": 199}))
        rejected += found["p"] <= 0.05
        held += found["low"] <= 0 <= found["high"]
    assert rejected / 80 < 0.1
    assert held / 80 > 0.9


def test_several_arms_are_each_compared_with_control_and_neither_moves_the_other():
    table = log(viewers=90, seed=1)
    three = table.with_columns(arm=pl.when(pl.col("viewer") % 3 == 0).then(pl.lit("other")).otherwise("arm"))
    found = eh.experiment(three, **CALL | {"metrics": "gini"})
    assert found.frame["arm"].to_list() == ["new", "other"]
    assert found.frame["p_adjusted"].to_list() >= found.frame["p"].to_list()
    swapped = eh.experiment(three, **CALL | {"metrics": "gini", "control": "new"})
    assert swapped.frame["arm"].to_list() == ["control", "other"]
    assert one(swapped, arm="control")["raw"] == pytest.approx(-one(found, arm="new")["raw"])


def test_one_more_slice_or_metric_changes_no_other_number():
    table = alternating(log(viewers=80, seed=2), "source", ["a", "b"])
    both = eh.experiment(table, **CALL | {"by": "source", "metrics": ["gini", "hoover"], "draws": 99})
    alone = eh.experiment(table, **CALL | {"by": "source", "metrics": "hoover", "draws": 99})
    for source in ("a", "b"):
        row, same = one(both, "hoover", source=source), one(alone, "hoover", source=source)
        assert {k: v for k, v in row.items() if k != "p_adjusted"} == {
            k: v for k, v in same.items() if k != "p_adjusted"
        }


def test_a_property_of_viewers_gives_each_slice_its_own_buckets():
    table = log(viewers=80, seed=2).with_columns(
        country=pl.when(pl.col("viewer") < 30).then(pl.lit("at")).otherwise(pl.lit("be"))
    )
    found = eh.experiment(table, **CALL | {"by": "country", "metrics": "gini", "draws": 99})
    assert found.frame["units"].to_list() == [30, 50]
    one_country = eh.experiment(table.filter(country="at"), **CALL | {"metrics": "gini", "draws": 99})
    assert one(found, country="at")["raw"] == pytest.approx(one(one_country)["raw"])


def test_who_could_have_received_something_counts_in_every_arm():
    table = small()
    rows, treated, control, units = parts(table)
    found = one(eh.experiment(table, **CALL | {"population": 12, "metrics": "gini"}))
    nobody = [0] * (12 - len(units))
    raw = slow.gini(slow.totals(rows, treated, units) + nobody) - slow.gini(slow.totals(rows, control, units) + nobody)
    assert found["raw"] == pytest.approx(raw)
    listed = eh.experiment(table, **CALL | {"population": pl.DataFrame({"author": range(12)}), "metrics": "gini"})
    assert one(listed)["raw"] == pytest.approx(raw)


@pytest.mark.parametrize("engine", ["lazy", "pandas", "pyarrow", "duckdb", "shuffled"])
def test_every_engine_and_order_of_rows_gives_the_same_bytes(engine):
    table = log(viewers=1200, seed=6, rows=3).with_columns(viewer=pl.format("v{}", "viewer"), source=pl.lit("x"))
    expected = eh.experiment(table, **CALL | {"draws": 99, "by": "source"})
    con = duckdb.connect()
    con.register("log", table.to_arrow())
    other = {
        "lazy": lambda: table.lazy(),
        "pandas": lambda: table.to_pandas(),
        "pyarrow": lambda: table.to_arrow(),
        "duckdb": lambda: con.table("log"),
        "shuffled": lambda: table.sample(fraction=1, shuffle=True, seed=1),
    }[engine]()
    found = eh.experiment(other, **CALL | {"draws": 99, "by": "source"})
    assert found.to_dict()["columns"] == expected.to_dict()["columns"]


def test_buckets_are_of_one_size_and_never_mix_arms():
    assert [bucket_size(n) for n in ([500, 500], [20_000, 980_000])] == [1, 1000]
    for arms in ([50_017, 49_983], [2_011, 97_989], [700, 700, 1_200]):
        size = bucket_size(arms)
        assert min(arms) // size >= 20
        assert sum(n // size for n in arms) >= 200


def test_a_share_of_an_arm_is_drawn_in_whole_buckets_of_the_right_mean():
    arm = Buckets.from_arrays([0], [0], [1], sizes=[10] * 50, arms=[0] * 50)
    chosen, weight, left = subsets(arm, 0.33, np.random.default_rng(1))
    assert set(chosen.sum(1)) == {16, 17}
    assert weight @ chosen.sum(1) == pytest.approx(16.5)
    assert (left == 50 - chosen.sum(1)).all()


def test_equal_amount_thins_the_arm_whose_viewers_see_more():
    table = log(viewers=300, seed=4)
    louder = table.with_columns(views=pl.when(pl.col("arm") == "new").then(pl.col("views") * 3).otherwise("views"))
    units, amount = (eh.experiment(louder, **CALL | {"metrics": "gini", "equal": e}) for e in ("units", "amount"))
    found = one(units)
    assert found["volume_ratio"] == pytest.approx(3, rel=0.3)
    assert "volume_changed" in found["note"]
    assert "times that of control" in units.sentences()[-1]
    assert one(amount)["treatment"] > found["treatment"]  # fewer viewers, sparser, less equal
    assert one(amount)["control_value"] == found["control_value"]


def test_the_past_narrows_the_interval_where_it_predicts_and_does_no_harm_where_not():
    rng = np.random.default_rng(3)
    viewers, authors = 400, 60
    picky = rng.random(viewers) < 0.3  # some viewers look at one author only, now as before
    arm = np.where(rng.permutation(viewers) < viewers / 2, "new", "control")

    def period(picky):
        v = np.repeat(np.arange(viewers), 12)
        u = np.where(picky[v], 0, rng.integers(0, authors, len(v)))
        return pl.DataFrame({"viewer": v, "author": u, "arm": arm[v], "views": 1})

    now, past, other = period(picky), period(picky).drop("arm"), period(rng.permutation(picky)).drop("arm")
    call = CALL | {"metrics": "gini", "draws": 499}
    width = {
        k: (r := one(eh.experiment(now, **call, before=b)))["high"] - r["low"]
        for k, b in (("none", None), ("past", past), ("other", other))
    }
    assert width["past"] < 0.7 * width["none"]
    assert width["other"] < 1.1 * width["none"]
    assert "adjusted for the period before" in eh.experiment(now, **call, before=past).sentences()[0]


# Units randomised, and nothing randomised


def test_units_randomised_finds_what_linkedins_public_example_finds():
    """As in spark-inequality-impact: incomes in two arms, Atkinson with epsilon 0.2; here generated, so that no file is needed."""
    rng = np.random.default_rng(8)
    arms = {"treatment": rng.lognormal(10.5, 0.55, 4000), "control": rng.lognormal(10.5, 0.62, 4000)}
    table = pl.concat(
        [
            pl.DataFrame({"id": np.arange(4000) + 4000 * i, "arm": a, "income": x.round()})
            for i, (a, x) in enumerate(arms.items())
        ]
    )
    call = {"unit": "id", "amount": "income", "arm": "arm", "randomized": "id", "population": None, "rng": 1}
    found = one(eh.experiment(table, **call, metrics="atkinson(epsilon=0.2)"), "atkinson(epsilon=0.2)")
    metric = parse_metrics("atkinson(epsilon=0.2)", needing(Spectrum))[0]
    values = {a: float(metric.on(Spectrum.from_arrays(x.round()))) for a, x in arms.items()}
    assert found["raw"] == pytest.approx(values["treatment"] - values["control"])
    errors = [standard_error(metric.metric, Spectrum.from_arrays(x.round()), epsilon=0.2) for x in arms.values()]
    reach = 1.96 * math.hypot(*errors)
    assert found["low"] == pytest.approx(found["raw"] - reach, abs=0.15 * reach)
    assert found["high"] == pytest.approx(found["raw"] + reach, abs=0.15 * reach)


def test_the_bias_of_few_units_is_taken_off_each_arm():
    rng = np.random.default_rng(1)
    found = [
        units_contrast(
            PairedAmounts.from_arrays(rng.lognormal(0, 0.7, 12)),
            PairedAmounts.from_arrays(rng.lognormal(0, 0.7, 600)),
            GINI,
            draws=99,
            level=0.95,
            rng=rng,
        )
        for _ in range(100)
    ]
    error = np.std([f.estimate[0] for f in found]) / math.sqrt(100)
    assert abs(np.mean([f.estimate[0] for f in found])) < 3 * error
    assert np.mean([f.raw[0] for f in found]) < -3 * error
    assert np.mean([f.chance[0] for f in found]) == pytest.approx(np.mean([f.raw[0] for f in found]), abs=4 * error)


@pytest.mark.slow
def test_sixty_against_six_hundred_units_reject_at_the_nominal_rate():
    rng = np.random.default_rng(2)
    p = [
        units_contrast(
            PairedAmounts.from_arrays(rng.lognormal(0, 1, 60).round(2)),
            PairedAmounts.from_arrays(rng.lognormal(0, 1, 600).round(2)),
            ASKED[:3],
            draws=199,
            level=0.95,
            rng=rng,
        ).p
        for _ in range(100)
    ]
    assert (np.mean(np.array(p) <= 0.05, axis=0) < 0.1).all()


def test_the_same_units_twice_are_as_sure_as_a_paired_bootstrap():
    rng = np.random.default_rng(5)
    base = rng.lognormal(2, 1, 300)
    first, second = np.round(base * rng.lognormal(0, 0.2, 300)), np.round(base * rng.lognormal(0, 0.2, 300))
    found = paired_contrast(PairedAmounts.from_arrays(first, second), GINI, draws=499, level=0.95, rng=rng)
    draws = []
    for _ in range(499):
        k = rng.integers(0, 300, 300)
        draws.append(slow.gini(first[k]) - slow.gini(second[k]))
    low, high = np.quantile(draws, [0.025, 0.975])
    assert found.raw[0] == pytest.approx(slow.gini(first) - slow.gini(second))
    assert found.high[0] - found.low[0] < 1.4 * (high - low)
    apart = math.hypot(eh.metrics.gini_se(first), eh.metrics.gini_se(second)) * 1.96 * 2
    assert found.high[0] - found.low[0] < 0.6 * apart


def periods(rng, spreads, units, metrics=ASKED):
    """Amounts of the same units twice, lognormal with these spreads and a correlation of 0.7 on the log scale."""
    z = rng.normal(size=(2, units))
    second = 0.7 * z[0] + math.sqrt(1 - 0.7**2) * z[1]
    pairs = PairedAmounts.from_arrays(np.exp(spreads[0] * z[0]), np.exp(spreads[1] * second))
    return paired_contrast(pairs, metrics, draws=199, level=0.95, rng=rng)


@pytest.mark.parametrize("units", [25, 60])
def test_two_periods_without_a_change_raise_few_alarms_under_heavy_tails(units):
    rng = np.random.default_rng(8)
    found = [periods(rng, (1.8, 1.8), units) for _ in range(200)]
    assert (np.mean([c.p <= 0.05 for c in found], axis=0) < 0.05 + 2 * math.sqrt(0.05 * 0.95 / 200)).all()
    held = np.mean([(c.low <= 0) & (c.high >= 0) for c in found], axis=0)
    assert (held > 0.92).all()


def test_two_periods_that_differ_are_told_apart_and_their_change_is_held():
    rng = np.random.default_rng(9)
    found = [periods(rng, (1.2, 0.8), 100, GINI) for _ in range(120)]
    change = math.erf(0.6) - math.erf(0.4)
    assert np.mean([c.p[0] <= 0.05 for c in found]) > 0.8
    assert np.mean([c.low[0] <= change <= c.high[0] for c in found]) > 0.88  # two Monte Carlo errors below 0.92
    width = np.median([c.high[0] - c.low[0] for c in found])
    assert width < 1.5 * 2 * 1.96 * np.std([c.estimate[0] for c in found])


def test_swaps_within_few_units_give_the_exact_p():
    first, second = np.array([9.0, 4, 8, 7, 2, 9]), np.array([1.0, 5, 2, 6, 1, 3])
    found = paired_contrast(
        PairedAmounts.from_arrays(first, second), GINI, draws=9_999, level=0.95, rng=np.random.default_rng(1)
    )
    ratios = []
    for flips in itertools.product([False, True], repeat=6):
        x, y = np.where(flips, second, first), np.where(flips, first, second)
        ratios.append((slow.gini(x) - slow.gini(y)) / paired_gini_error(x, y))
    exact = np.mean(np.abs(ratios) >= abs(ratios[0]) * (1 - 1e-9))
    assert found.p[0] == pytest.approx(exact, abs=0.02)


def paired_gini_error(x, y):
    """The linearised standard error of a difference of two Gini indices of the same units."""

    def influence(x):
        mean, gini = x.mean(), slow.gini(x)
        return np.array([2 * np.abs(x - v).mean() / (2 * mean) - gini * (1 + v / mean) for v in x])

    moves = influence(x) - influence(y)
    return moves.std() / math.sqrt(len(x))


def test_the_larger_change_is_not_blurred_by_renaming_the_periods():
    rng = np.random.default_rng(4)
    x, y = rng.lognormal(0, 1, 40).round(2), rng.lognormal(0, 1, 40).round(2)
    one_way, other = (
        paired_contrast(PairedAmounts.from_arrays(*pair), ASKED, draws=999, level=0.95, rng=np.random.default_rng(1))
        for pair in ((x, y), (y, x))
    )
    assert one_way.p == pytest.approx(other.p, abs=1e-12)
    assert one_way.estimate == pytest.approx(-other.estimate)


def test_periods_are_compared_author_by_author_without_a_causal_word():
    table = alternating(log(viewers=200, seed=1), "month", [1, 2])
    result = eh.experiment(
        table, unit="author", amount="views", arm="month", randomized=None, control=1, population=30, rng=1
    )
    found = one(result)
    sums = [table.filter(month=m).group_by("author").agg(pl.col("views").sum())["views"].to_list() for m in (2, 1)]
    sums = [x + [0] * (30 - len(x)) for x in sums]
    assert found["estimate"] == found["raw"] == pytest.approx(slow.gini(sums[0]) - slow.gini(sums[1]))
    assert found["units"] == 30
    told = " ".join(result.sentences()).lower()
    assert "nothing was randomised" in told
    assert not any(word in told for word in ("caus", "effect", "impact"))


# Planning, the split, and what is refused


def test_a_plan_says_what_a_test_would_find_and_larger_tests_find_less():
    table = log(viewers=600, seed=1).drop("arm")
    result = eh.experiment(table, **CALL | {"arm": None, "metrics": ["gini"], "shares": {"control": 0.8, "new": 0.2}})
    found = result.detectable
    assert found["times"].to_list() == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert found["detectable"].to_list() == sorted(found["detectable"].to_list(), reverse=True)
    assert one(result)["detectable"] == found.filter(times=1.0)["detectable"][0]
    assert "has 80% power for a difference of" in result.sentences()[0]
    half = eh.experiment(table, **CALL | {"arm": None, "metrics": ["gini"]})
    assert one(half)["detectable"] < one(result)["detectable"]
    with pytest.raises(eh.EvenhandError, match="plans none"):
        _ = eh.experiment(small(), **CALL | {"metrics": "gini", "draws": 99}).detectable


def test_a_change_that_evens_out_is_claimed_with_the_p_of_its_row():
    result = eh.experiment(
        log(viewers=400, effect=0.8), **CALL | {"metrics": ["gini", "top_share(p=0.1)"], "draws": 199}
    )
    assert [c.p_adjusted for c in result.claims] == result.frame["p_adjusted"].to_list()
    assert result.claims[0].text == "Gini index is lower in new than in control"
    assert "more even in new than in control" in result.headline
    assert "more even, statistically significant" in result.sentences()[0]


def test_a_split_that_does_not_fit_its_design_is_said():
    table = log(viewers=400, seed=1)
    fine = eh.experiment(table, **CALL | {"metrics": "gini", "draws": 99, "shares": {"new": 0.5, "control": 0.5}})
    off = eh.experiment(table, **CALL | {"metrics": "gini", "draws": 99, "shares": {"new": 0.1, "control": 0.9}})
    assert "matches the design" in fine.sentences()[-1]
    assert fine.check("gini <= 1").passed
    assert "does not match" in off.sentences()[-1]
    assert off.headline.startswith("The arms are not split as intended (p ")
    assert off.headline.endswith(": find out why before reading any number.")
    gate = off.check("gini <= 1")
    assert not gate.passed
    assert str(gate).startswith("FAIL: p of the intended split >= 0.001: ")
    assert "sample_ratio_mismatch" in one(off)["note"]
    assert sample_ratio([500, 500], [0.5, 0.5]) == 1.0


REFUSED = {
    "a viewer in two arms": (lambda t: alternating(t, "arm", ["new", "control"]), {}, "have rows in several arms"),
    "no control": (lambda t: t.with_columns(arm=pl.when(pl.col("arm") == "new").then(pl.lit("b")).otherwise(pl.lit("a"))), {}, "No arm is called 'control'"),
    "another control": (lambda t: t, {"control": "old"}, "control='old' is no arm"),
    "one arm": (lambda t: t.filter(arm="new"), {}, "only one arm"),
    "units in two arms": (lambda t: t, {"randomized": "author"}, "not what was randomised"),
    "a number of units for arms of units": (lambda t: t, {"randomized": "author", "population": 90}, "how many units each arm has"),
    "no such column": (lambda t: t, {"arm": "variant"}, "arm='variant'"),
    "a past of nothing": (lambda t: t, {"randomized": None, "before": small()}, "nothing was randomised"),
    "shares of other arms": (lambda t: t, {"shares": {"a": 0.5, "b": 0.5}}, "Give each arm its share"),
    "shares above one": (lambda t: t, {"shares": {"new": 0.9, "control": 0.9}}, "are not shares"),
    "a plan without anything randomised": (lambda t: t, {"arm": None, "randomized": None}, "whose values were assigned"),
    "a jackknife of units": (lambda t: t, {"randomized": None, "interval": "jackknife"}, "Use 'auto'"),
    "missing arms": (lambda t: t.with_columns(arm=pl.when(pl.col("viewer") > 5).then("arm")), {}, "arm='arm' is missing in"),
    "a slice called like a column": (lambda t: t.with_columns(raw=pl.lit("x")), {"by": "raw"}, "also a column of this result"),
    "thinned fractions": (lambda t: t.with_columns(views=pl.col("views") / 3), {"randomized": None, "equal": "amount"}, "holds fractions"),
    "few draws": (lambda t: t, {"draws": 5}, "draws=5 is outside"),
    "a past without viewers": (lambda t: t, {"before": small().drop("viewer")}, "In before: "),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_answered_is_refused_with_a_remedy(what):
    change, more, said = REFUSED[what]
    with pytest.raises(eh.EvenhandError) as error:
        eh.experiment(change(log()), **CALL | more)
    assert said in str(error.value)


def test_an_arm_without_anything_has_no_number_and_says_why():
    table = log(seed=1).with_columns(views=pl.when(pl.col("arm") == "new").then(0).otherwise("views"))
    result = eh.experiment(table, **CALL | {"metrics": "gini", "draws": 99})
    found = one(result)
    assert math.isnan(found["estimate"])
    assert found["note"] == "zero_total"
    assert result.sentences()[0].endswith("cannot be compared: nobody received anything.")


@pytest.mark.parametrize("randomized", ["viewer", "author"])
def test_an_arm_that_a_slice_lacks_has_a_row_without_a_number(randomized):
    table = log(viewers=80, seed=2)
    arm = (pl.col(randomized) % 2 == 0) & (pl.col(randomized) > 10)
    table = table.with_columns(
        arm=pl.when(arm).then(pl.lit("new")).otherwise(pl.lit("control")),
        country=pl.when(pl.col(randomized) <= 10).then(pl.lit("at")).otherwise(pl.lit("be")),
    )
    result = eh.experiment(table, **CALL | {"by": "country", "metrics": "gini", "draws": 99, "randomized": randomized})
    assert one(result, country="at")["note"] == {"viewer": "zero_total", "author": "empty"}[randomized]
    assert not math.isnan(one(result, country="be")["estimate"])


def test_an_interval_that_was_not_asked_for_is_not_explained():
    result = eh.experiment(log(), **CALL | {"metrics": "gini", "draws": 99, "interval": None})
    assert math.isnan(one(result)["low"])
    assert one(result)["note"] is None


def test_small_arms_are_suppressed_whole():
    result = eh.experiment(
        log(viewers=60, share=0.1, seed=1), **CALL | {"metrics": "gini", "draws": 99, "min_units": 20}
    )
    row = one(result)
    assert row["note"] == "suppressed"
    assert row["units"] is None
    assert all(math.isnan(row[k]) for k in ("estimate", "low", "raw", "treatment", "volume_ratio", "p"))
    assert not result.findings.curves
    assert "arms" not in result.provenance


def test_pictures_and_the_report_are_drawn(tmp_path):
    result = eh.experiment(log(viewers=200, effect=0.5), **CALL | {"metrics": ["gini", "hoover"], "draws": 99})
    for kind in ("reassigned", "arms", "intervals"):
        result.plot(kind).to_dict()
    page = result.report(tmp_path / "r.html").read_text()
    assert "Before you act on it" in page
    assert "Peeking" in page
    plan = eh.experiment(log(viewers=200).drop("arm"), **CALL | {"arm": None, "metrics": "gini", "draws": 99})
    plan.plot("detectable").to_dict()


def test_the_command_line_compares_plans_and_refuses(tmp_path, capsys):
    file = str(tmp_path / "log.csv")
    log().write_csv(file)
    words = [
        "experiment",
        file,
        "--unit",
        "author",
        "--amount",
        "views",
        "--randomized",
        "viewer",
        "--population",
        "none",
        "--seed",
        "1",
        "-m",
        "gini",
    ]
    assert main([*words, "--arm", "arm", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("new,gini,")
    assert main([*words, "--power", "--sentences"]) == 0
    assert "has 80% power for a difference of" in capsys.readouterr().out
    assert main([*words, "--arm", "author"]) == 2
    assert "Traceback" not in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "--arm --power is required" in capsys.readouterr().err


def test_contrast_is_the_same_for_the_same_seed():
    rng = np.random.default_rng(0)
    tally = Buckets.from_arrays(
        rng.integers(0, 30, 400), rng.integers(0, 40, 400), np.ones(400, int), sizes=np.ones(40), arms=np.arange(40) % 2
    )
    found = [
        contrast(tally, ASKED, arm=1, control=0, draws=99, level=0.95, rng=np.random.default_rng(5)) for _ in range(2)
    ]
    assert np.array_equal(found[0].draws, found[1].draws)
    assert np.array_equal(found[0].low, found[1].low)


def test_amounts_in_millionths_cost_no_more_than_others():
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 60, 400), rng.integers(0, 30, 400), rng.integers(1, 4, 400)
    small, large = (Buckets.from_arrays(*rows[:2], rows[2] * unit, sizes=np.ones(30)) for unit in (1, 10**12))
    chosen = rng.random((5, 30)) < 0.5
    for (_, a), (_, b) in zip(small.spectra(chosen), large.spectra(chosen), strict=True):
        np.testing.assert_allclose((a.values * a.counts).sum(-1) * 1e12, (b.values * b.counts).sum(-1))
        np.testing.assert_allclose(a.counts.sum(-1), b.counts.sum(-1))


def test_arms_of_which_one_has_no_curve_at_equal_volume_are_drawn_with_the_other():
    rows = [
        ("u16", "x", "new", 21), ("u29", "x", "control", 20), ("u2", "y", "new", 19), ("u35", "x", "control", 20),
        ("u35", "y", "new", 7), ("u21", "x", "control", 26), ("u35", "y", "new", 9), ("u30", "z", "new", 5),
        ("u5", "z", "new", 3), ("u22", "x", "new", 13), ("u8", "x", "new", 7), ("u38", "y", "new", 23),
    ]  # fmt: skip
    log = pl.DataFrame(rows, schema=["unit", "slice", "arm", "viewer"], orient="row")
    result = eh.experiment(
        log, unit="unit", amount=None, arm="arm", randomized="viewer", population=None, by="slice", metrics="equal_share",
        draws=99, rng=1,
    )  # fmt: skip
    assert set(result.findings.curves["arms"]["side"]) == {"control"}
    result.plot("arms")


def test_what_a_plan_could_detect_is_rounded_under_min_units_like_the_frame():
    """`.detectable` held sixteen digits of the values that `min_units` rounds in the frame."""
    rng = np.random.default_rng(3)
    log = pl.DataFrame({"unit": rng.integers(0, 40, 600), "viewer": rng.integers(0, 200, 600)})
    plan = {"unit": "unit", "amount": None, "arm": None, "randomized": "viewer", "population": None, "metrics": "gini"}
    exact = eh.experiment(log, **plan, draws=99, rng=1)
    result = eh.experiment(log, **plan, draws=99, rng=1, min_units=5)
    for column in ("value", "detectable"):
        published = result.detectable[column].to_list()
        assert published == [round(x, 3) for x in published]
        assert published != exact.detectable[column].to_list()

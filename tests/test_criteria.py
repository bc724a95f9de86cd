"""The criteria audit: the paper's Table 2 measured on data, the authors' judgement beside it."""

import math

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits.criteria import METRICS, theoretical, transfers
from evenhand.cards import needing, parse_metrics
from evenhand.tallies.spectrum import Spectrum
from golden_cases import CASES

CALL = dict(unit="author", amount="views", population=None, rng=1)


def events(n=3000, seed=1, floor=0):
    rng = np.random.default_rng(seed)
    pull = rng.pareto(1.3, n)
    parts = [
        pl.DataFrame({"author": np.arange(n), "source": [name] * n, "views": rng.poisson(pull**power * 2) + floor})
        for name, power in (("in", 0.7), ("out", 1.1), ("misc", 1.5))
    ]
    return pl.concat(parts)


def verdicts(result, column="measured"):
    frame = result.findings.columns
    return {(m, c): v for m, c, v in zip(frame["metric"], frame["criterion"], frame[column], strict=True)}


def facts(metric, x, seed=1):
    (asked,) = parse_metrics(metric, needing(Spectrum))
    return {f.criterion: f for f in theoretical(asked, Spectrum.from_arrays(x), np.random.default_rng(seed))}


def test_published_is_table_2_of_the_paper():
    (case,) = [c for c in CASES if c["fn"] == "criteria_table"]
    published = verdicts(eh.criteria(events(), **CALL), "published")
    words = {1: "yes", 0: "no"}
    for metric, answers in case["expect"].items():
        for criterion, answer in answers.items():
            assert published[metric, criterion] == words.get(answer, answer)


def test_the_frame_has_the_columns_of_the_contract():
    frame = eh.criteria(events(), **CALL).frame
    assert frame.columns == ["metric", "criterion", "measured", "value", "published", "note"]
    assert frame["metric"].n_unique() == 7


def test_every_metric_of_the_paper_is_population_and_scale_invariant():
    found = verdicts(eh.criteria(events(floor=1), **CALL, by="source"))
    for metric in METRICS:
        assert found[metric, "population"] == found[metric, "scale"] == "yes"


def test_the_disagreement_about_population_is_explained():
    result = eh.criteria(events(), **CALL)
    notes = verdicts(result, "note")
    for metric in ("equal_share", "equivalent_to_top"):
        assert notes[metric, "population"] == "replication_invariant"
    assert "does not change when the population is replicated" in "\n".join(result.sentences())


def test_what_is_not_invariant_is_found_out():
    found = verdicts(eh.criteria(events(), **CALL, metrics=["mean", "herfindahl", "gini(corrected=True)"]))
    assert found["mean", "scale"] == "no"
    assert found["herfindahl", "population"] == "no"
    assert found["gini(corrected=True)", "population"] == "no"
    assert found["mean", "population"] == found["herfindahl", "scale"] == "yes"


def test_adjustable_means_that_a_number_moves_it_one_way():
    found = verdicts(eh.criteria(events(floor=1), **CALL, metrics=[*METRICS, "hoover"]))
    for metric in ("atkinson", "top_share", "percentile_ratio", "share_ratio", "equivalent_to_top"):
        assert found[metric, "adjustable"] == "yes", metric
    for metric in ("gini", "equal_share", "hoover"):
        assert found[metric, "adjustable"] == "no", metric


def test_a_parameter_that_changes_nothing_does_not_adjust():
    assert facts("atkinson", [5, 5, 5])["adjustable"].measured == "no"


@pytest.mark.parametrize(
    "metric",
    ["atkinson(epsilon=0.5)", "atkinson(epsilon=1.0)", "theil", "generalized_entropy(alpha=2)", "mean", "herfindahl"],
)
def test_exact_identities_hold_on_the_data(metric):
    found = facts(metric, np.random.default_rng(2).poisson(3, 500) + 1)["subgroups"]
    assert found.measured == "yes"
    assert found.value < 1e-12


def test_gini_decomposes_only_with_the_overlap():
    found = facts("gini", np.random.default_rng(2).poisson(3, 500))["subgroups"]
    assert (found.measured, found.note) == ("with overlap", "needs_overlap")
    assert found.value > 0.01


def test_shares_have_no_identity():
    assert facts("top_share", [1, 2, 3, 4])["subgroups"].measured == "no"


def test_transfers_make_strict_indices_more_even_and_may_leave_shares_alone():
    x = np.random.default_rng(2).lognormal(0, 1, 400).round(2)
    for metric in ("gini", "atkinson", "theil"):
        assert facts(metric, x)["transfer"].measured == "yes", metric
    for metric in ("top_share(p=0.01)", "hoover"):
        assert facts(metric, x)["transfer"].measured == "weak", metric
    assert facts("percentile_ratio", x)["transfer"].measured == "no"
    assert facts("mean", x)["transfer"].measured is None


def test_a_transfer_keeps_the_total_and_the_number_of_units():
    s = Spectrum.from_arrays([0, 0, 1, 2, 2, 5, 9, 40])
    after = transfers(s)
    assert len(after) > 5
    for one in after:
        assert float(one.total) == pytest.approx(float(s.total))
        assert float(one.units) == float(s.units)


def test_adding_those_with_nothing_makes_it_less_even():
    x = [1, 2, 3, 4, 10]
    for metric in ("gini", "atkinson", "top_share(p=0.1)", "equal_share"):
        assert facts(metric, x)["zeros"].measured == "yes", metric
    assert facts("share_ratio", x)["zeros"].measured == "undefined"


def test_a_ratio_that_zeros_make_undefined_is_checked_on_the_others():
    found = facts("share_ratio", [0, 0, 0, 0, 1, 2, 3, 4, 10])["population"]
    assert (found.measured, found.note) == ("yes", "without_zeros")
    nobody = facts("share_ratio", [0, 0, 0])
    assert nobody["population"].measured == nobody["adjustable"].measured == "undefined"
    assert nobody["subgroups"].measured == "no"


def test_ratios_that_are_often_undefined_are_not_stable():
    result = eh.criteria(events(), **CALL, by="source", metrics=["share_ratio", "gini"])
    found, values = verdicts(result), verdicts(result, "value")
    assert found["share_ratio", "stable"] == "low"
    assert values["share_ratio", "undefined_draws"] > 0.05
    assert found["gini", "stable"] in ("medium", "high")
    assert values["gini", "undefined_draws"] == 0


def test_the_coefficient_of_variation_is_that_of_resampled_units():
    x = np.random.default_rng(3).poisson(4, 400)
    df = pl.DataFrame({"author": range(400), "views": x})
    found = verdicts(eh.criteria(df, **CALL, metrics="gini", draws=2000), "value")["gini", "stable"]
    rng = np.random.default_rng(4)
    drawn = [eh.metrics.gini(rng.choice(x, 400)) for _ in range(600)]
    assert found == pytest.approx(np.std(drawn) / np.mean(drawn), rel=0.15)


def test_effect_compares_slices_and_needs_them():
    alone = eh.criteria(events().filter(pl.col("source") == "in"), **CALL, metrics="gini")
    assert verdicts(alone)["gini", "effect"] is None
    assert verdicts(alone, "note")["gini", "effect"] == "needs_slices"
    result = eh.criteria(events(), **CALL, metrics=["gini", "top_share"], by="source")
    found, values = verdicts(result), verdicts(result, "value")
    spread = eh.inequality(
        events(),
        unit="author",
        amount="views",
        population=None,
        by="source",
        metrics=["gini", "top_share"],
        interval=None,
    ).frame
    for metric in ("gini", "top_share"):
        x = spread.filter(pl.col("metric") == metric)["estimate"]
        assert values[metric, "dynamic_range"] == pytest.approx(x.max() / x.min())
    assert values["gini", "effect"] > 10
    assert (found["gini", "dynamic_range"], found["gini", "effect"]) == ("medium", "medium")


def test_slices_that_do_not_differ_have_no_effect():
    df = events().with_columns(views=pl.lit(3))
    assert verdicts(eh.criteria(df, **CALL, metrics="gini", by="source"))["gini", "effect"] == "low"


def test_cutoffs_are_the_users():
    df = pl.DataFrame({"author": range(4000), "views": np.random.default_rng(3).poisson(4, 4000)})
    call = CALL | {"metrics": "gini"}
    assert verdicts(eh.criteria(df, **call))["gini", "stable"] == "high"
    strict = eh.criteria(df, **call, cutoffs={"stable": (1e-6, 1e-9)})
    assert verdicts(strict)["gini", "stable"] == "low"
    assert strict.provenance["cutoffs"]["stable"] == (1e-6, 1e-9)


def test_judgement_is_not_measured():
    found = verdicts(eh.criteria(events(), **CALL))
    assert all(found[m, c] is None for m in METRICS for c in ("user", "interpretable"))


def test_several_amounts_are_slices():
    df = events().pivot("source", index="author", values="views")
    call = CALL | {"amount": ["in", "out"], "metrics": "gini"}
    assert verdicts(eh.criteria(df, **call), "value")["gini", "dynamic_range"] > 1


def test_the_seed_decides_and_the_result_can_be_saved(tmp_path):
    first, again = (eh.criteria(events(), **CALL, metrics=["gini", "atkinson"]) for _ in range(2))
    assert first.to_text("csv") == again.to_text("csv")
    first.to_json(tmp_path / "r.json")
    assert eh.read.result(tmp_path / "r.json").to_text("csv") == first.to_text("csv")
    assert all("nan" not in line for line in first.to_text("markdown").splitlines())


def test_the_report_leads_with_what_differs_from_the_paper(tmp_path):
    page = eh.criteria(events(), **CALL).report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "does not change when the population is replicated" in page


def test_a_criteria_result_has_no_estimates_to_check_or_draw():
    result = eh.criteria(events(), **CALL, metrics="gini")
    with pytest.raises(eh.EvenhandError, match="no estimates"):
        result.check("gini <= 1")
    with pytest.raises(eh.EvenhandError, match="No chart fits"):
        result.plot()
    assert math.isnan(verdicts(result, "value")["gini", "user"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metrics": "ginni"}, "Did you mean 'gini'"),
        ({"draws": 3}, "draws=3"),
        ({"cutoffs": {"stabel": (1, 2)}}, "Did you mean 'stable'"),
        ({"cutoffs": {"effect": (3, 2)}}, "rising pair"),
        ({"cutoffs": {"stable": (0.1, 0.2)}}, "falling pair"),
        ({"cutoffs": {"stable": (math.nan, math.nan)}}, "falling pair"),
        ({"cutoffs": [0.1, 0.02]}, "cutoffs=.* does not fit"),
        ({"unit": "auhtor"}, "Did you mean 'author'"),
        ({"metrics": "gini@3"}, "knows no ranks"),
        ({"min_units": -1}, "min_units=-1 is outside"),
        ({"min_units": 10**6}, "No slice has min_units=1000000 units"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    with pytest.raises(eh.EvenhandError, match=said):
        eh.criteria(events(), **(CALL | change))


def test_small_slices_are_left_out_and_counted():
    table = pl.concat([events(), pl.DataFrame({"author": [1, 2], "source": ["tiny"] * 2, "views": [0, 9]})])
    with_tiny = eh.criteria(table, **CALL, by="source", metrics="gini", min_units=10)
    without = eh.criteria(events(), **CALL, by="source", metrics="gini", min_units=10)
    assert (with_tiny.provenance["slices"], with_tiny.provenance["slices_left_out"]) == (3, 1)
    assert with_tiny.to_text("csv") == without.to_text("csv")


def test_a_table_without_rows_is_refused():
    with pytest.raises(eh.EvenhandError, match="no rows"):
        eh.criteria(events().clear(), **CALL)


def slices_of(k, n, spread, seed):
    rng = np.random.default_rng(seed)
    amounts = np.exp(rng.normal(size=(k, n)) * np.asarray(spread)[:, None])
    return pl.DataFrame(
        {"author": np.arange(k * n), "slice": np.repeat(np.arange(k), n).astype(str), "views": amounts.ravel()}
    )


def test_a_wide_range_over_many_slices_that_are_alike_is_undecided_and_no_claim():
    alike = slices_of(20, 60, [1.0] * 20, 3)
    found = eh.criteria(
        alike, unit="author", amount="views", population=None, by="slice", metrics="gini", draws=99, rng=1
    )
    measured = {r["criterion"]: r for r in found.findings.rows()}
    assert measured["effect"]["value"] > 3  # medium by the cut-off, which many slices reach by chance
    assert measured["effect"]["measured"] == measured["dynamic_range"]["measured"] == "undecided"
    assert not any(c.made for c in found.claims)
    assert "no significant difference of gini between slices" in found.headline


def test_slices_that_differ_are_claimed_to():
    planted = slices_of(2, 300, [0.5, 1.5], 3)
    found = eh.criteria(
        planted, unit="author", amount="views", population=None, by="slice", metrics="gini", draws=99, rng=1
    )
    assert found.claims[0].made
    assert next(r for r in found.findings.rows() if r["criterion"] == "effect")["measured"] == "high"


def test_one_metric_is_named_with_stability_effect_and_power():
    planted = slices_of(2, 300, [0.5, 1.5], 3)
    found = eh.criteria(planted, unit="author", amount="views", population=None, by="slice", draws=99, rng=1)
    metric = found.provenance["recommended"]
    assert found.headline.startswith(f"Use {metric}: it varies by ")
    assert f"{metric} differs between slices" in found.headline
    power = verdicts(found, "value")[metric, "power"]
    assert power == pytest.approx(
        min(v for (m, c), v in verdicts(found, "value").items() if c == "power" and v > 0), rel=0.11
    )


def test_power_is_what_a_test_between_two_such_samples_has():
    rng = np.random.default_rng(5)
    table = pl.DataFrame({"author": np.arange(400), "views": rng.lognormal(size=400)})
    found = eh.criteria(table, **CALL, metrics="gini", draws=999)
    share = verdicts(found, "value")["gini", "power"]
    draws = rng.choice(table["views"].to_numpy(), (2, 1500, 400))
    plain, spread = draws[0], (1 - share) * draws[1] + share * draws[1].mean(1, keepdims=True)
    g = [np.array([eh.metrics.gini(x) for x in side]) for side in (plain, spread)]
    error = np.sqrt(g[0].var() + g[0].var())
    assert np.mean(np.abs(g[1] - g[0]) > 1.96 * error) == pytest.approx(0.8, abs=0.05)


def test_power_is_that_of_an_experiment_on_what_is_randomised():
    log = eh.synthetic.trial(viewers=120, authors=30, share=0.5, effect=0.0, rng=7)
    call = {"unit": "author", "amount": "views", "population": 30, "metrics": "gini", "rng": 1}
    result = eh.criteria(log, **call, randomized="viewer")
    power = next(r["value"] for r in result.findings.rows() if r["criterion"] == "power")
    planned = eh.experiment(log, **call, arm=None, randomized="viewer").findings.rows()
    amounts = np.zeros(30)
    amounts[: log["author"].n_unique()] = log.group_by("author").agg(pl.col("views").sum())["views"].to_numpy()
    spread = (1 - power) * amounts + power * amounts.mean()
    moved = eh.metrics.gini(amounts) - eh.metrics.gini(spread)
    assert moved == pytest.approx(next(iter(planned))["detectable"], rel=0.02)
    assert "an experiment on these viewers would show" in result.headline

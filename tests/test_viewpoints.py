"""Rankings of known bias, the study that uses them, and the advice drawn from it."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand import EvenhandError
from evenhand.audits.advise import TABLE_5
from evenhand.cli import main
from evenhand.metrics.prefix import TEMPLATES
from evenhand.studies.viewpoints import ALPHAS, claims, placement, simulate, study
from evenhand.synthetic.viewpoints import OPPOSING, SETS, viewpoint_codes
from golden_cases import CASES, cases
from ranked_tables import table


@cases(["sample_weights"])
def test_weights_are_those_of_table_3(case):
    assert list(eh.synthetic.viewpoint_weights(**case["args"])) == pytest.approx(case["expect"], abs=case["tol"])


@cases(["recommended_metric"])
def test_advice_is_that_of_table_5(case):
    first = eh.advise(**case["args"]).frame.row(0, named=True)
    assert (first["symbol"], first["advice"]) == (case["expect"], "recommended")


@cases(["simulate"])
def test_simulated_means_lie_where_the_paper_says(case):
    args = case["args"]
    means = {}
    for kind, metrics in (("binomial", ("ndd", "ndr", "ndkl")), ("multinomial", ("ndjs",))):
        made = {"alpha": args["alpha"], "lists": args["reps"], "kind": kind, "rng": args["seed"]}
        codes = viewpoint_codes(SETS[args["set_name"]], **made)
        p = placement(codes, tuple(SETS[args["set_name"]]), OPPOSING if kind == "binomial" else None)
        for metric in metrics:
            template = TEMPLATES[metric](p, **({} if metric == "ndjs" else {"normalizer": "published"}))
            means[{"ndd": "nDD", "ndr": "nDR", "ndkl": "nDKL", "ndjs": "nDJS"}[metric]] = template.values(p).mean()
    for name, (low, high) in case["expect"]["range"].items():
        assert low <= means[name] <= high, name


@pytest.mark.parametrize("name", SETS)
def test_lists_hold_every_document_of_their_set_once(name):
    made = eh.synthetic.viewpoints(name, alpha=0.3, lists=3, kind="multinomial", rng=1)
    assert made.columns == ["request", "rank", "viewpoint"]
    for _, one in made.group_by("request"):
        assert dict(one["viewpoint"].value_counts().sort("viewpoint").iter_rows()) == SETS[name]
        assert sorted(one["rank"]) == list(range(1, 701))


def test_negative_bias_puts_the_opposing_viewpoints_on_top():
    def first_hundred(alpha):
        made = eh.synthetic.viewpoints("S1", alpha=alpha, lists=50, rng=2)
        return made.filter(pl.col("rank") <= 100)["viewpoint"].is_in(OPPOSING).mean()

    assert first_hundred(-1.0) > 0.99
    assert first_hundred(1.0) < 0.01
    assert first_hundred(0.0) == pytest.approx(3 / 7, abs=0.02)


def test_drawing_by_weight_is_what_sorting_does():
    codes = viewpoint_codes({"a": 1, "b": 1, "c": 1}, alpha=-0.5, lists=20_000, favoured=["a"], rng=3)
    heavy, light = eh.synthetic.viewpoint_weights(-0.5)
    assert (codes[:, 0] == 0).mean() == pytest.approx(heavy / (heavy + 2 * light), abs=0.012)
    second = codes[codes[:, 0] == 1][:, 1]
    assert (second == 0).mean() == pytest.approx(heavy / (heavy + light), abs=0.015)


def test_one_of_the_opposing_viewpoints_is_chosen_for_each_list():
    made = eh.synthetic.viewpoints("S1", alpha=-1.0, lists=300, kind="multinomial", rng=4)
    tops = made.filter(pl.col("rank") == 1)["viewpoint"].value_counts()
    assert set(tops["viewpoint"]) == set(OPPOSING)
    assert tops["count"].min() > 70


def test_the_same_seed_gives_the_same_lists_whatever_the_block_size(monkeypatch):
    made = eh.synthetic.viewpoints("S2", alpha=0.2, lists=5, rng=9)
    assert made.equals(eh.synthetic.viewpoints("S2", alpha=0.2, lists=5, rng=9))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"set": "S4", "alpha": 0, "lists": 1}, "Known: S1, S2, S3"),
        ({"set": "S1", "alpha": 2, "lists": 1}, "alpha=2 is not a ranking bias"),
        ({"set": "S1", "alpha": 0, "lists": 0}, "lists=0 is not a number of lists"),
        ({"set": "S1", "alpha": 0, "lists": 1, "kind": "trinomial"}, "kind='trinomial' is not"),
        ({"set": {"a": 1}, "alpha": 0, "lists": 1}, "is not a set of documents"),
        ({"set": "S1", "alpha": 0, "lists": 1, "favoured": 7}, "favoured=7 of 7 viewpoints is no side"),
        ({"set": "S1", "alpha": 0, "lists": 1, "favoured": ["x"]}, "favoured='x' is not a viewpoint"),
    ],
)
def test_impossible_simulations_are_refused(call, words):
    with pytest.raises(EvenhandError, match=words):
        eh.synthetic.viewpoints(**call)


@pytest.mark.slow
def test_the_study_finds_what_the_paper_states_and_says_what_it_does_not():
    verdicts = {c.statement: c.verdict for c in claims(simulate(1_000, seed=3))}
    assert len(verdicts) == 39
    stated = {says: v for says, v in verdicts.items() if says.startswith("Mean ")}
    assert stated == dict.fromkeys(stated, "yes")  # 300 lists cannot tell every mean from the paper's
    assert len(stated) == 12
    found = study(size=20, seed=3)
    assert verdicts["Curves are steeper with fewer minority items"] == "no"
    assert verdicts["At bias -1 one viewpoint is disadvantaged"] == "no"
    assert len(found.tables) == 4
    assert [figure.name for figure in found.figures] == ["figure-1", "figure-2"]


def test_the_study_covers_21_degrees_of_bias_on_three_sets():
    points = simulate(2, seed=1)
    assert len(points) == 21 * 3 * 4
    assert ALPHAS[0] == -1.0
    assert ALPHAS[10] == 0.0
    assert points["ndd", "S1", 1.0].chance == pytest.approx(0.089, abs=0.001)


@pytest.mark.parametrize(("balance", "bias"), TABLE_5)
def test_every_cell_of_table_5_is_answered_with_a_reason(balance, bias):
    frame = eh.advise(balance=balance, bias=bias).frame
    assert frame["metric"][0] == TABLE_5[balance, bias]
    assert frame["metric"].to_list()[-1] == "ndr"
    assert frame["advice"].to_list()[-1] == "avoid"
    assert f"{balance} balance and {bias} bias" in frame["reason"][0]


def test_many_viewpoints_call_for_ndjs():
    first = eh.advise(viewpoints=7, bias="low").frame.row(0, named=True)
    assert first["metric"] == "ndjs"
    assert "advises care where bias" in first["reason"]


def test_advice_for_data_reads_the_balance_off_and_adds_chance():
    lists = {f"q{i}": ["con", "pro"] * 5 + ["pro"] * 4 for i in range(5)}
    found = eh.advise(table(lists), group="stance", protected="con", bias="high", rng=1)
    assert found.provenance["share_of_the_smaller_side"] == pytest.approx(5 / 14)
    papers = found.frame.filter(advice="the paper's choice")
    assert papers["metric"][0] == TABLE_5["medium", "high"]
    assert found.frame["metric"][0] == "ndd"  # which finds significantly more on these lists
    assert found.headline.endswith("The paper names nDKL, which finds it in " + f"{100 * papers['found'][0]:.0f}%.")
    p = eh.prefix(table({"q": lists["q0"]}), group="stance", protected="con", metrics=["ndd"], rng=1).frame
    assert found.frame.filter(metric="ndd")["chance"][0] == pytest.approx(p["chance"][0])
    assert (found.frame["found"].to_numpy() <= 1).all()
    assert found.frame["found"][0] > 0.2


def test_advice_for_data_measures_stability_and_effect_of_each_metric_on_these_lists():
    lists = eh.synthetic.viewpoints({"con": 4, "pro": 8}, alpha=0.5, lists=30, favoured=["con"], rng=3)
    found = eh.advise(lists, group="viewpoint", protected="con", bias="medium", rng=1)
    metrics = found.frame["metric"].to_list()
    seen = eh.prefix(lists, group="viewpoint", protected="con", metrics=metrics, rng=1).per_request
    for row in found.frame.iter_rows(named=True):
        values, chance = seen.filter(metric=row["metric"]).select("estimate", "chance").to_numpy().T
        drawn = np.random.default_rng(1).choice(values, (20_000, 30)).mean(1)
        assert row["stability"] == pytest.approx(drawn.std() / drawn.mean(), rel=0.03)  # as in criteria: by resampling
        assert row["effect"] == pytest.approx((values.mean() - chance.mean()) / values.std(ddof=1))
    first = found.frame.row(0, named=True)
    assert f"its effect (mean less chance) is {first['effect']:.2g} standard deviations between lists" in found.headline
    assert f"its mean varies by {100 * first['stability']:.2g}% from sample to sample" in found.headline


def test_effect_is_measured_beside_the_chance_level_of_each_list():
    lists = {f"q{i}": ["con", "pro"] * (i + 1) + ["pro"] * i for i in range(6)}
    found = eh.advise(table(lists), group="stance", protected="con", rng=1)
    seen = eh.prefix(table(lists), group="stance", protected="con", metrics=["ndd"], rng=1).per_request
    beyond = (seen["estimate"] - seen["chance"]).to_numpy()
    assert found.frame.filter(metric="ndd")["effect"][0] == pytest.approx(beyond.mean() / beyond.std(ddof=1))
    assert found.headline.startswith("Use nDD: its mean varies by ")


@pytest.mark.parametrize(
    "call", [{"table": table({"q": ["con", "pro", "pro"]}), "group": "stance", "protected": "con"}, {"balance": "low"}]
)
def test_one_list_or_none_has_neither_stability_nor_effect(call):
    found = eh.advise(**call)
    assert np.isnan(found.frame.select("stability", "effect").to_numpy()).all()
    assert found.headline == "Use nDD."


def test_lists_without_spread_are_stable_and_have_no_effect_in_standard_deviations():
    lists = {f"q{i}": ["con", "pro"] * 5 for i in range(5)}
    first = eh.advise(table(lists), group="stance", protected="con").frame.row(0, named=True)
    assert first["stability"] == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(first["effect"])


def test_a_list_too_short_to_show_bias_says_so():
    found = eh.advise(table({"q": ["con", "pro", "pro"]}), group="stance", protected="con", bias="high", rng=1)
    assert found.frame["found"].to_list() == [0.0] * 4


def test_advice_without_a_protected_side_compares_all_labels():
    found = eh.advise(table({"q": list("abcab")}), group="stance", bias="low", rng=1).frame
    assert found["metric"][0] == "ndjs"
    assert not math.isnan(found["chance"][0])
    assert np.isnan(found["chance"].to_numpy()[1:]).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({}, "Nothing to go by"),
        ({"balance": "lo"}, "Did you mean 'low'?"),
        ({"bias": "huge"}, "bias='huge' does not fit"),
        ({"viewpoints": 1}, "viewpoints=1 is outside"),
        ({"table": table({"q": ["a", "b"]})}, "group is not given"),
    ],
)
def test_advice_on_nothing_is_refused(call, words):
    with pytest.raises(EvenhandError, match=words):
        eh.advise(**call)


def test_advice_on_the_command_line(capsys, tmp_path):
    assert main(["advise", "--balance", "low", "--bias", "high", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"]["metric"][0] == "ndd"
    path = tmp_path / "serp.csv"
    table({"q": ["con", "pro", "pro", "con"]}).write_csv(path)
    assert main(["advise", str(path), "--group", "stance", "--protected", "con", "--sentences"]) == 0
    assert capsys.readouterr().out.startswith(
        "nDD: named for high balance and unstated bias by Table 5 of the paper (Draws et al. 2020)"
    )
    assert main(["advise"]) == 2


def test_no_case_of_the_simulation_is_left_out():
    known = {"simulate", "sample_weights", "recommended_metric"}
    assert {c["fn"] for c in CASES if c["family"] == "sim"} == known


def own_rankings():
    rng = np.random.default_rng(1)
    rows = [
        (f"q{q}", ("con", "pro", "neutral")[rng.choice(3, p=[0.1 + 0.04 * q, 0.5, 0.4 - 0.04 * q])])
        for q in range(8)
        for _ in range(40)
    ]
    return pl.DataFrame(rows, schema=["query", "stance"], orient="row")


def test_the_study_takes_the_viewpoints_of_the_users_own_rankings(monkeypatch):
    monkeypatch.setattr("evenhand.studies.viewpoints.OWN_LISTS", 20)
    found = study(data=own_rankings(), request="query", group="stance", protected="con")
    assert "S1 is q" in found.setting
    assert "Mean nDD at bias" not in " ".join(c.statement for c in found.claims)
    assert {c.verdict for c in found.claims} <= {"yes", "no", "cannot be told"}


def test_rankings_without_a_minority_are_refused_in_words():
    with pytest.raises(EvenhandError, match="the study needs three"):
        study(data=own_rankings().filter(query="q1"), request="query", group="stance")
    with pytest.raises(EvenhandError, match="data= needs group="):
        study(data=own_rankings(), request="query")

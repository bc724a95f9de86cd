"""`eh.agreement` and `eh.sensitivity`: orientation, exact p, and orders that do or do not survive."""

import itertools
import json
import math
import shlex

import numpy as np
import polars as pl
import pytest
from scipy.stats import kendalltau

import evenhand as eh
from evenhand.cli import main
from evenhand.findings import Findings
from evenhand.metrics.agreement import fairness, oriented, places
from evenhand.report import table as tables
from evenhand.report.reproduce import ways

GROUPS = {f"d{i}": "f" if i % 3 == 0 else "m" for i in range(30)}


def runs(systems=5, requests=12, seed=0):
    """Systems that put women lower and lower, from none of it to a lot."""
    rng = np.random.default_rng(seed)
    rows = []
    for s, q in itertools.product(range(systems), range(requests)):
        scores = {d: rng.normal() - 0.5 * s * (g == "f") for d, g in GROUPS.items()}
        for rank, d in enumerate(sorted(scores, key=scores.get, reverse=True)[:10], 1):
            rows.append((f"s{s}", q, d, rank, int((7 * q + 3 * int(d[1:])) % 5 < 2)))
    return pl.DataFrame(rows, schema=["run", "request", "item", "rank", "relevance"], orient="row")


def measured(table, metrics=("awrf", "log_dp", "eed", "eer", "fair(p=0.3)"), **more):
    return eh.exposure(
        table, groups=GROUPS, protected="f", system="run", relevance="relevance", metrics=list(metrics), interval=None,
        **{"chance": False} | more,
    )  # fmt: skip


def test_tau_is_that_of_the_oriented_values():
    result = measured(runs(6))
    wide = result.frame.pivot("metric", index="system", values="estimate")
    fairer = {"awrf": -wide["awrf"], "log_dp": -wide["log_dp"].abs(), "eed": -wide["eed"], "eer": wide["eer"],
              "fair(p=0.3)": wide["fair(p=0.3)"]}  # fmt: skip
    found = eh.agreement(result, rng=1).frame
    assert found.columns == ["metric", "other", "tau_c", "p", "p_adjusted", "systems", "note"]
    assert found.height == 5 * 4
    for row in found.rows(named=True):
        expected = kendalltau(fairer[row["metric"]], fairer[row["other"]], variant="c").statistic
        assert row["tau_c"] == pytest.approx(expected)
        assert row["systems"] == 6


def test_p_is_exact_and_cannot_fall_below_two_in_n_factorial():
    rng = np.random.default_rng(2)
    table = runs(4, seed=int(rng.integers(100)))
    found = eh.agreement(measured(table), rng=1)
    assert found.frame["p"].min() >= 2 / 24 - 1e-12
    assert set(found.frame.filter(pl.col("tau_c").is_not_nan())["note"]) == {"few_systems"}
    assert found.provenance["least_p"] == {"4": 2 / 24}
    assert "cannot fall" in found.to_text()
    row = found.frame.filter(pl.col("tau_c").is_not_nan()).row(0, named=True)
    one, other = (
        oriented(f["estimate"], f["better"][0], f["ideal"])
        for f in (measured(table, [row[k]]).frame for k in ("metric", "other"))
    )
    taus = [
        abs(kendalltau(one, [other[i] for i in order], variant="c").statistic)
        for order in itertools.permutations(range(4))
    ]
    assert row["p"] == pytest.approx(np.mean([t >= abs(row["tau_c"]) - 1e-12 for t in taus]))


def test_systems_without_a_value_are_left_out_in_pairs_and_constant_columns_say_so():
    result = measured(runs(5), ["awrf", "eed"])
    columns = {k: list(v) for k, v in result.findings.columns.items()}
    first = columns["metric"].index("awrf")
    columns["estimate"][first] = math.nan
    from dataclasses import replace

    broken = replace(result, findings=replace(result.findings, columns=columns))
    assert set(eh.agreement(broken).frame["systems"]) == {4}
    columns["estimate"] = [
        0.5 if m == "awrf" else e for m, e in zip(columns["metric"], columns["estimate"], strict=True)
    ]
    flat = replace(result, findings=replace(result.findings, columns=columns))
    found = eh.agreement(flat).frame
    assert found["tau_c"].is_nan().all()
    assert set(found["note"]) == {"constant_input"}


def test_results_of_two_audits_are_put_side_by_side_and_groups_name_their_metric():
    table = runs(4).with_columns(score=-pl.col("rank"))
    pairs = eh.pairwise(table, groups=GROUPS, relevance="relevance", protected="f", system="run", interval=None)
    found = eh.agreement(measured(table, ["awrf"]), pairs).frame
    assert {"awrf", "intra_acc", "inter_acc", "accuracy f>m", "accuracy m>*"} <= set(found["metric"])


def test_slices_beside_the_systems_are_experiments():
    table = pl.concat([runs(4, seed=s).with_columns(task=pl.lit(f"t{s}")) for s in (1, 2)])
    found = eh.agreement(measured(table, ["awrf", "eed"], by="task")).frame
    assert found["task"].to_list() == ["t1", "t1", "t2", "t2"]


def test_a_saved_result_and_the_command_line_give_the_same(tmp_path, capsys):
    result = measured(runs(5), ["awrf", "eed", "log_dp"])
    path = tmp_path / "r.json"
    result.to_json(path)
    assert main(["agreement", str(path), "--seed", "1", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["columns"]["tau_c"] == eh.agreement(result, rng=1).frame["tau_c"].to_list()
    assert main(["agreement", str(tmp_path / "no.json")]) == 2


def test_sentences_name_every_two_metrics_once_and_say_what_few_systems_can_show():
    four, six = (eh.agreement(measured(runs(systems=n), ["awrf", "log_dp", "eed"]), rng=1) for n in (4, 6))
    assert len(four.sentences()) == 3 + 1
    assert len(six.sentences()) == 3
    assert four.sentences()[0].startswith("awrf and log_dp")
    assert "p cannot fall below 0.0833" in four.sentences()[-1]
    tau = four.frame["tau_c"][0]
    assert f"tau-c {tau:.2f}" in four.sentences()[0]


def test_metrics_that_order_alike_are_claimed_and_those_that_do_not_are_not():
    result = measured(runs(8), ["log_dp", "dp", "awrf"])
    found = eh.agreement(result, rng=1)
    claims = {(c.metric, c.where["other"]): c for c in found.claims}
    assert len(claims) == 3
    made = claims["log_dp", "dp"]
    assert (made.made, made.direction, made.text) == (True, "higher", "log_dp and dp order the systems alike")
    assert made.p_adjusted == found.frame["p_adjusted"][0]
    assert found.headline.startswith(
        f"{sum(c.direction == 'higher' for c in claims.values())} of 3 pairs of metrics significantly order"
    )
    for sentence, claim in zip(found.sentences(), found.claims, strict=True):
        assert ("not statistically significant" in sentence) is not claim.made


@pytest.mark.parametrize("metric", ["dp", "eur", "log_dp", "awrf"])
def test_a_system_that_never_shows_the_protected_group_is_last(metric):
    table = pl.concat(
        [runs(2), runs(1).filter(pl.col("item").replace_strict(GROUPS) != "f").with_columns(run=pl.lit("none"))]
    )
    result = measured(table, [metric, "eed"], chance=True)
    standing = eh.agreement(result).findings.curves["systems"]
    by_system = {
        s: f
        for s, m, f in zip(standing["system"], standing["metric"], standing["fairness"], strict=True)
        if m == metric
    }
    assert min(by_system, key=by_system.get) == "none"
    assert by_system["none"] == -math.inf
    swept = eh.sensitivity(
        eh.exposure, table, groups=GROUPS, protected="f", system="run", relevance="relevance", metrics=metric,
        vary={"attention": ["log", "rbp(patience=0.8)"]},
    )  # fmt: skip
    assert set(swept.frame.filter(system="none")["rank"]) == {3.0}
    shades = charts_of(result, metric)
    assert min(shades, key=shades.get) == "none"


def charts_of(result, metric):
    """How dark each system is in the table of systems."""
    from evenhand.report.charts.registry import KINDS
    from test_charts import data_of

    (panel,) = KINDS["systems"].draw(result.only(metric).findings).panels
    return {row["column"]: row["strength"] for row in data_of(panel.chart)}


def test_ratios_order_systems_as_their_logarithms_do():
    values = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 8.0, math.inf])
    with np.errstate(divide="ignore"):
        assert oriented(values, "ideal", 1.0).tolist() == oriented(np.log(values), "ideal", 0.0).tolist()
    assert places(oriented(values, "ideal", 1.0)).tolist() == [7, 5, 3, 1, 2, 3, 6, 7]


def test_what_chance_gives_is_subtracted_where_it_differs_between_systems():
    row = {"better": "lower", "ideal": 0.0}
    short, long = {**row, "estimate": 0.30, "chance": 0.29}, {**row, "estimate": 0.20, "chance": 0.10}
    assert fairness([short, long]).tolist() == pytest.approx([-0.01, -0.1])
    assert fairness([short, {**long, "chance": 0.29}]).tolist() == [-0.3, -0.2]
    assert fairness([short, {**long, "chance": math.nan}]).tolist() == [-0.3, -0.2]


def test_bad_calls_say_what_to_do():
    with pytest.raises(eh.EvenhandError, match="No result"):
        eh.agreement()
    with pytest.raises(eh.EvenhandError, match="no column of systems"):
        eh.agreement(eh.exposure(runs(1), groups=GROUPS, protected="f", metrics="awrf", interval=None))
    with pytest.raises(eh.EvenhandError, match="fewer than two metrics"):
        eh.agreement(measured(runs(3), ["awrf"]))
    with pytest.raises(eh.EvenhandError, match="DataFrame"):
        eh.agreement(runs(2))


def test_places_share_ties_and_skip_the_undefined():
    assert places(np.array([1.0, 1.0, 0.0])).tolist() == [1, 1, 3]
    assert oriented([math.inf, -math.inf, 0.0], "ideal", 0.0).tolist() == [-math.inf, -math.inf, 0.0]


def test_sensitivity_repeats_the_audit_and_ranks_the_systems():
    table = runs(5)
    vary = {"attention": ["log", "rbp(patience=0.8)"], "target": ["population", "equal"]}
    fixed = dict(groups=GROUPS, protected="f", system="run")
    found = eh.sensitivity(eh.exposure, table, **fixed, metrics=["awrf", "eed"], vary=vary)
    assert found.frame.columns[:4] == ["attention", "target", "system", "metric"]
    assert found.frame.height == 2 * 2 * 5 * 2
    one = eh.exposure(
        table, **fixed, metrics=["awrf", "eed"], attention="rbp(patience=0.8)", target="equal", interval=None
    ).frame
    same = found.frame.filter(attention="rbp(patience=0.8)", target="equal")
    assert sorted(same["estimate"]) == pytest.approx(sorted(one["estimate"]))
    awrf = same.filter(metric="awrf").sort("estimate")
    one = one.filter(metric="awrf")
    beyond = dict(zip(one["system"], one["estimate"] - one["chance"], strict=False))
    assert awrf["rank"].to_list() == [1 + sum(other < beyond[s] for other in beyond.values()) for s in awrf["system"]]
    assert found.frame.filter(attention="log", target="population")["tau_c"].to_list() == [1.0] * 10
    stability = found.findings.curves["stability"]
    assert stability["settings"] == [4] * 10
    assert "rank" in found.to_text("csv")
    assert found.sentences()


def leaning(requests=60, seed=1, **systems):
    """Systems that put the same 15 items in order, with a handicap of the protected."""
    makers = {name: eh.synthetic.Maker(bias=bias) for name, bias in systems.items()}
    return eh.synthetic.corpus(15, requests, systems=makers, unknown=0.0, depth=15, rng=seed)


def swept(made, **vary):
    roles = dict(groups=made.groups, protected="P", system="system", metrics="awrf", rng=1)
    return eh.sensitivity(eh.exposure, made.rankings, vary=vary, **roles)


BOTH_TARGETS = {"target": [{"P": 0.3, "U": 0.7}, {"P": 0.6, "U": 0.4}], "attention": ["log", "rbp(patience=0.8)"]}


def test_an_order_that_a_choice_reverses_is_found_and_the_choice_is_named():
    found = swept(leaning(plain=0.0, favouring=-1.0), **BOTH_TARGETS)
    assert found.headline.startswith("The order of the systems does not survive: 1 of 1 pair change places")
    assert "target moves it most (pairs turned round by another choice: target 100%, attention 0%)" in found.headline
    assert [(c.made, c.direction) for c in found.claims] == [(True, "differs"), (True, "most")]


def test_an_order_that_survives_is_claimed_to():
    found = swept(leaning(plain=0.0, biased=3.0), attention=["log", "rbp(patience=0.8)"], unknown=["drop", "group"])
    claim = "plain is fairer than biased by awrf under all choices"
    assert found.headline.startswith(f"The order of the systems survives: {claim}")
    assert found.sentences()[0] == f"{claim[0].upper()}{claim[1:]}."


def test_systems_that_are_alike_leave_the_question_open():
    found = [swept(leaning(requests=20, seed=i, a=0.0, b=0.0), **BOTH_TARGETS) for i in range(5)]
    assert sum(any(c.made for c in one.claims) for one in found) <= 1
    assert any("cannot be told" in one.headline for one in found)


def test_sensitivity_varies_metrics_themselves():
    vary = {"metrics": ["awrf(distance='js')", "awrf(distance='tv')", "awrf@3"]}
    found = eh.sensitivity(eh.exposure, runs(4), groups=GROUPS, protected="f", system="run", vary=vary).frame
    assert found["metric"].unique(maintain_order=True).to_list() == vary["metrics"]
    assert found.filter(metrics="awrf(distance='js')")["tau_c"].to_list() == [1.0] * 4


@pytest.mark.parametrize(
    ("vary", "message"),
    [({}, "nothing to vary"), ({"atention": ["log"]}, "Did you mean 'attention'"), ({"attention": "log"}, "list of choices"),
     ({"metrics": ["awrf"]}, "both fixed and varied"), ({"level": [0.9] * 600}, "combinations")],
)  # fmt: skip
def test_bad_variations_are_refused(vary, message):
    with pytest.raises(eh.EvenhandError, match=message):
        eh.sensitivity(eh.exposure, runs(2), groups=GROUPS, protected="f", system="run", metrics="awrf", vary=vary)


def test_a_pair_of_metrics_is_listed_once_for_people_and_both_ways_round_in_the_frame():
    rows = [{"metric": a, "other": b, "tau_c": 0.5, "p": 0.1, "systems": 5} for a in "xyz" for b in "xyz" if a != b]
    found = Findings("agreement", "?", (), {k: [r[k] for r in rows] for k in rows[0]})
    _, shown = tables.readable(found)
    assert [row[:2] for row in shown] == [["x", "y"], ["x", "z"], ["y", "z"]]
    assert len(found) == 6


def test_results_that_measured_the_same_systems_are_different_experiments():
    import polars as pl

    import evenhand as eh

    def run(order):
        rows = [
            {"system": s, "request": 1, "item": d, "rank": r}
            for s, items in order.items()
            for r, d in enumerate(items, 1)
        ]
        call = {
            "groups": {"x": "f", "y": "m", "z": "m"},
            "protected": "f",
            "metrics": ["eed", "awrf"],
            "interval": None,
        }
        return eh.exposure(pl.DataFrame(rows), system="system", **call)

    one, other = run({"a": "xyz", "b": "yxz"}), run({"a": "yxz", "b": "xyz"})
    found = eh.agreement(one, other).frame
    assert found["experiment"].unique().sort().to_list() == ["result 1", "result 2"]
    alone = eh.agreement(one).frame
    assert found.filter(pl.col("experiment") == "result 1")["tau_c"].to_list() == alone["tau_c"].to_list()


VARY = {"attention": ["log", [1, 0.5, 0.25]], "target": ["equal", {"f": 0.3, "m": 0.7}]}


def test_sensitivity_is_made_again_by_its_plan_command_python_and_plan_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runs(3).with_columns(side=pl.col("item").replace_strict(GROUPS, default=None)).write_csv("runs.csv")
    call = {"groups": "side", "protected": "f", "system": "run", "metrics": ["awrf", "eed"], "rng": 4}
    found = eh.sensitivity(eh.exposure, "runs.csv", vary=VARY, **call)
    plan = dict(json.loads(found.to_json())["provenance"]["plan"])
    assert plan == {"audit": "sensitivity", "of": "exposure", "table": "runs.csv", "vary": VARY, **call}
    expected = found.to_dict()["columns"]
    assert getattr(eh, plan.pop("audit"))(**plan).to_dict()["columns"] == expected
    shell, python, file = (text for _, text in ways(found.findings))
    assert main([*shlex.split(shell)[1:], "--format", "json", "--no-progress"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == expected
    scope = {}
    exec(python.replace("eh.sensitivity(", "made = eh.sensitivity("), scope)
    assert scope["made"].to_dict()["columns"] == expected
    (tmp_path / "plan.toml").write_text(file)
    assert main(["run", "plan.toml", "--format", "json", "--no-progress"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == expected


def test_the_verb_sensitivity_takes_a_choice_at_a_time(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runs(3).with_columns(side=pl.col("item").replace_strict(GROUPS, default=None)).write_csv("runs.csv")
    words = ["sensitivity", "exposure", "runs.csv", "--groups", "side", "--system", "run", "-m", "awrf", "--seed", "1"]
    vary = [
        "--vary",
        "attention=log",
        "--vary",
        "attention=1,0.5",
        "--vary",
        "target=equal",
        "--vary",
        "target=f=0.3,m=0.7",
    ]
    assert main([*words, *vary, "--format", "json", "--no-progress"]) == 0
    found = json.loads(capsys.readouterr().out)["columns"]
    assert set(found["attention"]) == {"log", "1.0, 0.5"}
    assert set(found["target"]) == {"equal", "{'f': 0.3, 'm': 0.7}"}
    assert main([*words, "--vary", "atention=log"]) == 2
    assert "Did you mean 'attention'" in capsys.readouterr().err
    assert main([*words, "--vary", "attention"]) == 2
    assert main([*words, "--group", "side", "--vary", "attention=log"]) == 2
    assert "--group is not an option of exposure" in capsys.readouterr().err
    assert main(["sensitivity", "prefix", "runs.csv", "--vary", "metrics=ndd"]) == 2
    assert "prefix needs --group" in capsys.readouterr().err

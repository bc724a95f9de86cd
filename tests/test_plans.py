"""A result can be made again: its plan, the printed command, the printed Python and the printed plan file give the same frame."""

import json
import shlex

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits.declare import AUDITS, find, names
from evenhand.cli import VERBS, main
from evenhand.findings import Findings
from evenhand.report.reproduce import ways

RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files of every kind that audits read, in one folder."""
    folder = tmp_path_factory.mktemp("plans")
    n = 300
    log = pl.DataFrame(
        {
            "who": RNG.integers(0, 40, n),
            "source": RNG.choice(["home", "search"], n),
            "views": RNG.poisson(4, n),
            "likes": RNG.poisson(1, n),
            "followers": 0,
            "w": 1.0,
        }
    ).with_columns(followers=(pl.col("who") * 7 + 1), w=1 + pl.col("who") % 3)
    log = log.with_columns(band=pl.when(pl.col("who") % 2 == 0).then(pl.lit("x, y")).otherwise(pl.lit("b=1")))
    log = log.with_columns(viewer=pl.Series(np.random.default_rng(1).integers(0, 60, n)))
    log = log.with_columns(
        arm=pl.when(pl.col("viewer") < 20).then(pl.lit("new")).otherwise(pl.lit("control")),
        half=pl.when(pl.col("who") % 2 == 0).then(pl.lit(1)).otherwise(pl.lit(2)),
    )
    log.write_parquet(folder / "log.parquet")
    pl.DataFrame({"who": range(50)}).write_csv(folder / "everyone.csv")
    seen = [v for v in log["viewer"].unique(maintain_order=True) for _ in range(4)]
    pl.DataFrame({"fan": seen, "star": [i * 7 % 50 for i in range(len(seen))]}).write_csv(folder / "follows.csv")
    ranked = pl.DataFrame(
        {
            "request": [f"q{i}" for i in range(12) for _ in range(8)],
            "query": [f"q{i}" for i in range(12) for _ in range(8)],
            "item": [f"d{(i * 5 + j) % 30}" for i in range(12) for j in range(8)],
            "rank": list(range(1, 9)) * 12,
            "position": list(range(1, 9)) * 12,
            "score": RNG.random(96).round(6).tolist(),
            "system": ["a", "b"] * 48,
        }
    ).with_columns(
        system=pl.when(pl.col("request").str.slice(1).cast(int) < 6).then(pl.lit("a")).otherwise(pl.lit("b"))
    )
    number = ranked["item"].str.slice(1).cast(int)
    ranked = ranked.with_columns(
        side=pl.when(number % 3 == 0).then(pl.lit("f")).otherwise(pl.lit("m")),
        era=pl.when(number % 2 == 0).then(pl.lit("old")).otherwise(pl.lit("new")),
        grade=(number % 4 == 0).cast(pl.Int64),
        user=pl.col("request").str.slice(1).cast(int) // 2,
    )
    ranked.write_csv(folder / "ranked.csv")
    ranked = ranked.with_columns(worth=pl.col("score").abs())
    ranked.with_columns(
        score=pl.when(pl.col("rank") == 3).then(None).otherwise("score"),
        worth=pl.when(pl.col("rank") == 3).then(None).otherwise("worth"),
    ).write_csv(folder / "gaps.csv")
    ranked.select("item", group="side").unique().sort("item").write_csv(folder / "sides.csv")
    listed = ranked.select("item", group="side").unique().sort("item").with_row_index("place")
    pl.concat([listed, listed.head(3).with_columns(place=pl.col("place") + 50)]).write_csv(folder / "listed.csv")
    ranked.select("request", "item", relevance="grade").write_csv(folder / "judged.csv")
    made = ranked.select("item").unique(maintain_order=True).with_row_index("n")
    made = made.with_columns(by=pl.concat_str(pl.lit("p"), pl.col("n") % 4), f=pl.col("n") % 3, m=pl.lit(1))
    made.select("item", "by", w=pl.col("n") + 1).write_csv(folder / "made.csv")
    kinds = pl.when(pl.col("n") % 3 == 0).then(pl.lit("f|m")).otherwise(pl.lit("m"))
    made.select("item", "f", "m", kinds=kinds).write_csv(folder / "counted.csv")
    pl.DataFrame({"by": ["p0", "p1", "p2"], "kind": ["f", "m", "f"]}).write_csv(folder / "makers.csv")
    people = pl.DataFrame(
        {"s": RNG.random(400).round(3), "g": RNG.choice(["F", "M"], 400), "job": RNG.integers(0, 40, 400)}
    )
    people = people.with_columns(y=(pl.Series(RNG.random(400)) < people["s"]).cast(int), t=pl.lit(1))
    people = people.with_columns(w=1.0 + people["job"] % 3, land=pl.when(people["job"] < 20).then(pl.lit("at")))
    people.write_parquet(folder / "people.parquet")
    scores = RNG.random((12, 9)).round(3)
    np.save(folder / "scores.npy", scores)
    np.save(folder / "truth.npy", (RNG.random((12, 9)) > 0.5).astype(float))
    long = pl.DataFrame(
        [{"who": f"u{u}", "what": f"i{i}", "s": scores[u, i], "kind": "ab"[u % 2]} for u in range(12) for i in range(7)]
    )
    long.write_parquet(folder / "scores.parquet")
    pl.DataFrame({"user": range(12), "group": ["a", "b"] * 6}).write_csv(folder / "users.csv")
    return folder


UNITS = {"table": "log.parquet", "unit": "who", "amount": "views", "population": None}
CALLS = {
    "inequality": [
        {**UNITS, "rng": 5},
        {**UNITS, "unit": None, "amount": None, "interval": None},
        {**UNITS, "population": "everyone.csv", "by": "source", "metrics": ["gini", "top_share(p=0.1)"], "interval": "percentile(49)"},
        {**UNITS, "population": {"x, y": 70, "b=1": 60}, "by": "band", "metrics": "gini", "level": 0.9},
        {**UNITS, "amount": ["views", "likes"], "by": ["source", "band"], "metrics": "hoover", "interval": "normal"},
        {**UNITS, "by": "log_bins('followers', 3)", "metrics": "gini", "min_units": 4, "weight": "w"},
        {**UNITS, "within": "viewer", "metrics": "gini"},
        {**UNITS, "within": ["viewer", "who"], "metrics": "gini", "interval": "bootstrap(29)"},
    ],
    "sources": [{**UNITS, "source": "source", "population": 60, "interval": "percentile(29)", "metrics": ["gini", "marginal"]}],
    "decompose": [
        {**UNITS, "group": "band", "index": "ge", "alpha": 2.0, "interval": "percentile(29)"},
        {**UNITS, "group": "band", "index": "atkinson(epsilon=0.5)", "population": {"x, y": 70, "b=1": 60}, "metrics": ["between"]},
    ],
    "experiment": [
        {**UNITS, "arm": "arm", "randomized": "viewer", "rng": 4, "draws": 99, "shares": {"control": 0.7, "new": 0.3}},
        {**UNITS, "arm": "arm", "randomized": "viewer", "by": "source", "population": "everyone.csv", "before": "log.parquet", "equal": "amount", "metrics": ["gini"], "draws": 99, "interval": "jackknife"},
        {**UNITS, "arm": "half", "randomized": "who", "control": 2, "metrics": ["gini", "hoover"], "draws": 99, "population": {"1": 30, "2": 25}},
        {**UNITS, "arm": "source", "randomized": None, "control": "home", "metrics": "gini", "draws": 99, "weight": "w", "interval": None},
        {**UNITS, "arm": None, "randomized": "viewer", "metrics": ["gini"], "draws": 99, "min_units": 2, "level": 0.9},
    ],
    "impact": [
        {"table": "people.parquet", "group": ["g", "land"], "selected": "y"},
        {"table": "people.parquet", "group": "g", "score": "s", "min_share": 0.1, "level": 0.9},
    ],
    "explain": [
        {**UNITS, "arm": "source", "control": "home", "group": "band", "metric": "theil", "top": 3, "interval": None},
        {**UNITS, "arm": "half", "control": 2, "min_units": 2, "level": 0.9},
    ],
    "network": [
        {"table": "log.parquet", "edges": "follows.csv", "unit": "who", "amount": "views", "viewer": "viewer", "follower": "fan", "followed": "star", "draws": 9, "by": "log_bins('followers', 2)", "reach": 2, "interval": None},
    ],
    "criteria": [{**UNITS, "metrics": ["gini"], "draws": 29, "cutoffs": {"stable": [0.2, 0.05]}, "by": "source"}],
    "prefix": [
        {"table": "ranked.csv", "group": "side", "protected": "f", "interval": "percentile(49)", "chance": "permutation(99)"},
        {"table": "ranked.csv", "group": "era", "request": "query", "rank": "position", "system": "system", "cluster": "user", "chance": None, "metrics": ["ndjs@5"]},
        {"table": "gaps.csv", "group": "side", "protected": "f", "rank": None, "score": "score", "nan_policy": "omit", "interval": None},
        {"table": "ranked.csv", "group": "sides.csv", "protected": ["f"], "unknown": "group", "interval": "normal"},
        {"table": "listed.csv", "group": "group", "request": None, "rank": None, "score": "place", "duplicates": "first"},
        {"table": "ranked.csv", "group": "rollup(counted.csv, group=kinds, split='|')", "chance": None, "interval": None},
        {"table": "ranked.csv", "group": "side", "protected": "f", "metrics": ["ndd(target=0.5)", "ndd(reference='list')@3", "ndjs(target={'f': 0.5, 'm': 0.5})@3"], "interval": None},
    ],
    "exposure": [
        {"rankings": "ranked.csv", "groups": "side", "protected": "f", "interval": "percentile(49)"},
        {"rankings": "ranked.csv", "groups": ["side", "era"], "metrics": ["awrf", "eed"], "target": "equal", "cluster": "user", "chance": False},
        {"rankings": "ranked.csv", "groups": "side", "protected": "f", "versus": "*", "metrics": ["log_dp"], "interval": None},
        {"rankings": "ranked.csv", "groups": "sides.csv", "relevance": "judged.csv", "protected": "f", "versus": "m", "system": "system", "attention": "rbp(patience=0.8)"},
        {"rankings": "ranked.csv", "groups": "side", "relevance": "grade", "protected": "f", "target": {"f": 0.6, "m": 0.4}, "interval": None},
        {"rankings": "gaps.csv", "groups": "side", "score": "worth", "metrics": "iaa", "nan_policy": "omit"},
        {"rankings": "ranked.csv", "groups": "side", "attention": [1, 0.5, 0.25], "metrics": ["awrf", "eel(target='equal')", "eer(target={'f': 0.5, 'm': 0.5})"], "interval": None},
        {"rankings": "ranked.csv", "groups": "rollup('made.csv', 'makers.csv', provider='by', group='kind', weight='w')", "metrics": ["awrf"], "interval": None},
        {"rankings": "ranked.csv", "groups": "shares('f', 'm', of='counted.csv', counts=True)", "metrics": ["awrf"], "interval": None},
        {"rankings": "ranked.csv", "groups": "side", "metrics": ["awrf"], "resample": "requests_and_items", "interval": "percentile(29)"},
    ],
    "pairwise": [
        {"scores": "ranked.csv", "groups": "side", "relevance": "grade", "protected": "f", "interval": "percentile(49)"},
        {"scores": "ranked.csv", "groups": "side", "relevance": "grade", "protected": "f", "rank": "position", "cluster": "user", "interval": "percentile(29)"},
        {"scores": "gaps.csv", "nan_policy": "omit", "groups": "sides.csv", "relevance": "judged.csv", "protected": "f", "average": "macro", "negatives": 3, "system": "system"},
    ],
    "outcome_test": [
        {"table": "people.parquet", "score": "s", "outcome": "y", "group": "g", "bins": 4},
        {"table": "people.parquet", "score": "s", "outcome": "y", "group": "g", "positive": 1, "bins": 2, "metrics": "pooled_gap"},
        {"table": "people.parquet", "score": "s", "outcome": "y", "group": "g", "bins": [0.3, 0.6], "request": "job", "reference": "F", "covariance": "HC1"},
        {"table": "people.parquet", "score": "s", "outcome": "y", "group": "g", "kind": "classification", "threshold": 0.4, "treated": "t", "min_units": 3},
        {"table": "people.parquet", "score": "s", "outcome": "y", "group": "g", "bins": 2, "weight": "w", "by": "land", "metrics": ["pooled_gap", "joint_test", "equal_opportunity_gap"]},
    ],
    "recommender": [
        {"scores": "scores.npy", "items": None, "top": 2, "metrics": "item_gini"},
        {"scores": "scores.npy", "user_groups": "users.csv", "protected": "b", "versus": "a", "relevant": "truth.npy", "top": 3, "chance": "permutation(29)"},
        {"scores": "scores.parquet", "items": 9, "top": 2, "user": "who", "item": "what", "score": "s", "user_groups": "kind", "interval": "percentile(49)"},
        {"scores": "scores.npy", "user_groups": "users.csv", "threshold": 0.5, "normalize": True, "convention": "holisticai", "interval": None},
        {"scores": "ranked.csv", "user": "request", "top": 2, "by": "side", "system": "query", "metrics": "item_gini", "interval": "percentile(29)"},
    ],
    "rebalance": [
        {"scores": "ranked.csv", "top": 3, "providers": "side", "rng": 4},
        {"scores": "ranked.csv", "top": 3, "providers": "rollup(made.csv, provider=by, group=by)", "strength": 0.5, "iterations": 20, "interval": None},
        {"scores": "ranked.csv", "top": 2, "request": "query", "strength": [0.1, 0.9], "objective": "atkinson(epsilon=0.5)", "holdout": 0.25, "relevance": "judged.csv", "iterations": 50},
        {"scores": "ranked.csv", "top": 4, "providers": "sides.csv", "objective": {"f": 0.5, "m": 0.5}, "strength": 0.5, "attention": "uniform()", "rankings": "ranked.csv", "holdout": 0.0, "interval": None},
    ],
}  # fmt: skip
EVERY = [pytest.param(name, call, id=f"{name}-{i}") for name, calls in CALLS.items() for i, call in enumerate(calls)]


def columns(result):
    """Cells as JSON has them, NaN included; sums of attention differ in their last bits from run to run."""
    return rounded(result.to_dict()["columns"])


def rounded(columns):
    return {
        k: [
            float(f"{v:.9g}") + 0.0
            if isinstance(v, float) and abs(v) > 1e-12
            else v
            if not isinstance(v, float)
            else 0.0
            for v in c
        ]
        for k, c in columns.items()
    }


@pytest.mark.parametrize(("name", "call"), EVERY)
def test_the_plan_the_command_python_and_the_plan_file_give_the_same_frame(name, call, data, monkeypatch, capsys):
    monkeypatch.chdir(data)
    found = getattr(eh, name)(**call)
    expected = columns(found)
    plan = dict(json.loads(found.to_json())["provenance"]["plan"])
    assert plan.pop("audit") == name
    defaults = {n: p.default for n, p in find(name).parameters.items()}
    recorded = {"metrics"} if name == "inequality" else set()  # defaults that the number of units decides
    assert set(plan) - {"rng"} - recorded == {k for k, v in call.items() if v != defaults[k]} - {"rng"} - recorded
    assert all(found.provenance["plan"][k] == v for k, v in call.items() if k in plan)
    assert columns(getattr(eh, name)(**plan)) == expected
    shell, python, file = (text for _, text in ways(found.findings))
    assert main([*shlex.split(shell)[1:], "--format", "json", "--no-progress"]) == 0
    assert rounded(json.loads(capsys.readouterr().out)["columns"]) == expected
    scope = {}
    exec(python.replace(f"eh.{name}(", f"made = eh.{name}("), scope)
    assert columns(scope["made"]) == expected
    (data / "plan.toml").write_text(file)
    assert main(["run", "plan.toml", "--format", "json", "--no-progress"]) == 0
    assert rounded(json.loads(capsys.readouterr().out)["columns"]) == expected


def test_every_audit_that_reads_a_table_is_made_again_here():
    reading = {name for name in names() if next(iter(AUDITS[name].parameters.values())).takes.table}
    assert reading - {"advise"} == set(CALLS)


def test_every_audit_has_a_verb_and_every_parameter_an_option(capsys):
    for name in names():
        assert name.replace("_", "-") in VERBS
        with pytest.raises(SystemExit):
            main([name.replace("_", "-"), "--help-all"])
        said = capsys.readouterr().out
        for parameter in AUDITS[name].parameters.values():
            if not parameter.positional:
                option = {"metrics": "--metric", "rng": "--seed"}.get(
                    parameter.name, f"--{parameter.name.replace('_', '-')}"
                )
                assert option in said, (name, option)
                assert parameter.about or parameter.name in ("interval", "level", "rng", "metrics"), (
                    f"{name}: {parameter.name}"
                )


def test_objects_are_called_so_and_asked_for_again(data, monkeypatch):
    monkeypatch.chdir(data)
    table = pl.read_parquet("log.parquet")
    found = eh.inequality(
        table, unit="who", amount="views", population=pl.read_csv("everyone.csv"), rng=1, metrics="gini"
    )
    assert found.provenance["needed_again"] == {"table": "a polars DataFrame", "population": "a polars DataFrame"}
    ((lead, python),) = ways(found.findings)
    assert lead == "In Python, where table is a polars DataFrame and population is a polars DataFrame:"
    assert python.endswith(
        "eh.inequality(table, unit='who', amount='views', population=population, metrics='gini', rng=1)"
    )
    plan = {k: v for k, v in found.provenance["plan"].items() if k != "audit"}
    with pytest.raises(eh.EvenhandError, match="stands for an object of the call that was recorded"):
        eh.inequality(**plan)


def test_a_sequence_of_files_and_an_engine_are_recorded_as_files(data, monkeypatch, capsys):
    monkeypatch.chdir(data)
    words = ["inequality", "log.parquet", "--unit", "who", "--population", "none", "--seed", "1", "--format", "json"]
    assert main([*words, "--engine", "duckdb"]) == 0
    saved = json.loads(capsys.readouterr().out)
    assert saved["provenance"]["plan"]["table"] == "log.parquet"
    assert "evenhand inequality log.parquet --unit who" in ways(Findings.from_dict(saved))[0][1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("request = 3", "request=3 is not a column name"),
        ("by = {}", "by={} is not a column name"),
        ("level = 2", "level=2 is outside"),
        ("rng = -1", "rng=-1"),
        ("unknown = ['drop']", "unknown=['drop'] does not fit"),
        ("metrics = [1]", "metrics=[1] does not fit"),
        ("protectd = 'f'", "Did you mean 'protected'?"),
    ],
)
def test_a_plan_of_the_wrong_kind_is_refused_by_the_declaration(line, said, data, monkeypatch, capsys):
    monkeypatch.chdir(data)
    (data / "bad.toml").write_text(f'audit = "exposure"\nrankings = "ranked.csv"\ngroups = "side"\n{line}\n')
    assert main(["run", "bad.toml"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error

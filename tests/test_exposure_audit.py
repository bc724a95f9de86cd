"""The exposure audit against slow definitions, on random requests, policies, groups and judgments."""

import math
import random

import duckdb
import numpy as np
import polars as pl
import pytest

import evenhand as eh
from oracles import exposure as slow

ENGINES = {
    "pandas": lambda df: df.to_pandas(),
    "polars": lambda df: df,
    "polars-lazy": lambda df: df.lazy(),
    "pyarrow": lambda df: df.to_arrow(),
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}
MODELS = {
    "rbp(patience=0.8)": ("rbp", {"patience": 0.8}),
    "log": ("log", {}),
    "geometric(stop=0.4)": ("geometric", {"stop": 0.4}),
    "uniform": ("uniform", {}),
    "cascade(patience=0.9, stop=0.5)": ("cascade", {"patience": 0.9, "stop": 0.5}),
    "cascade(patience=0.9, stop={1: 0.3, 2: 1})": ("cascade", {"patience": 0.9, "stop": {1: 0.3, 2: 1}}),
}


def world(seed, *, soft=False, labels="ab", requests=4, draws=3, items=7, judged=5):
    """Random requests: some items unjudged, some judged and never ranked, some without a label."""
    rng = random.Random(seed)
    names = [f"d{i}" for i in range(items)]
    groups = {}
    for d in names:
        if rng.random() < 0.2:
            groups[d] = None
        elif soft:
            parts = [rng.randint(0, 3) for _ in labels]
            parts[0] += 1
            groups[d] = {g: n / sum(parts) for g, n in zip(labels, parts, strict=True) if n}
        else:
            groups[d] = rng.choice(labels)
    found = []
    for _ in range(requests):
        rankings = []
        for _ in range(rng.randint(1, draws)):
            rankings.append({"prob": rng.choice([1, 2, 3]) / 4, "items": rng.sample(names, rng.randint(1, items))})
        rel = {d: rng.choice([0, 0, 1, 1, 2]) for d in rng.sample(names, judged)}
        found.append({"prob": rng.choice([1, 2]) / 2, "rel": rel, "rankings": rankings})
    return found, groups


def tables(requests):
    rows = [
        {"request": f"q{q}", "sample": s, "item": d, "rank": r, "probability": ranking["prob"], "weight": one["prob"]}
        for q, one in enumerate(requests)
        for s, ranking in enumerate(one["rankings"])
        for r, d in enumerate(ranking["items"], 1)
    ]
    judged = [
        {"request": f"q{q}", "item": d, "relevance": y} for q, one in enumerate(requests) for d, y in one["rel"].items()
    ]
    return pl.DataFrame(rows), pl.DataFrame(judged)


POLICY = {"sample": "sample", "probability": "probability", "weight": "weight", "interval": None}


def estimates(result):
    return dict(zip(result.findings.columns["metric"], result.findings.columns["estimate"], strict=True))


def same(found, wanted):
    assert found.keys() >= wanted.keys()
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=1e-9, nan_ok=True), name


def awrf_of(requests, groups, target, distance, model, params, **more):
    """Mean over requests of the mean over draws of a ranking's value; those that do not exist are left out."""
    total = weight = 0.0
    for one in requests:
        values = []
        for share, ranking in zip(slow.normalised(one["rankings"]), one["rankings"], strict=True):
            rows = [groups.get(d) for d in ranking["items"]]
            aim = target(one, ranking) if callable(target) else target
            grades = [one["rel"].get(d, 0) for d in ranking["items"]]
            value = (
                math.nan
                if aim is None
                else slow.awrf(rows, aim, distance, model=model, relevance=grades, **params, **more)
            )
            if not math.isnan(value):
                values.append((share, value))
        if values:
            total += one["prob"] * sum(s * v for s, v in values) / sum(s for s, _ in values)
            weight += one["prob"]
    return total / weight


def composition(groups, items):
    found = slow.by_group(dict.fromkeys(items, 1.0), groups)
    return {g: n / sum(found.values()) for g, n in found.items()} if found else None


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(2))
def test_two_sided_and_expected_exposure_follow_their_definitions(seed, model):
    requests, groups = world(seed)
    rankings, judged = tables(requests)
    name, params = MODELS[model]
    metrics = ["dp", "log_dp", "log_dp(per_item=True)", "dp(epsilon=0.25)", "eur", "log_eur(as_printed=True)", "rur"]
    metrics += ["rur(epsilon=0.25)"]
    metrics += [
        f"{m}({p})"
        for m in ("eed", "eer", "eel", "target_norm")
        for p in ("", "aggregate='per_request'", "level='item'")
    ]
    result = eh.exposure(
        rankings, groups=groups, relevance=judged, protected="a", attention=model, metrics=metrics, **POLICY
    )
    sides = (requests, groups, "a", "b", name)
    wanted = {
        "dp": slow.dp(*sides, **params),
        "log_dp": slow.logged(slow.dp(*sides, **params)),
        "log_dp(per_item=True)": slow.logged(slow.dp(*sides, per_item=True, **params)),
        "dp(epsilon=0.25)": slow.dp(*sides, epsilon=0.25, **params),
        "eur": slow.eur(*sides, **params),
        "log_eur(as_printed=True)": slow.logged(slow.eur(*sides, as_printed=True, **params)),
        "rur": slow.eur(*sides, realised=True, **params),
        "rur(epsilon=0.25)": slow.eur(*sides, realised=True, epsilon=0.25, **params),
    }
    for inside, level, aggregate in (
        ("", "group", "before"),
        ("aggregate='per_request'", "group", "per_request"),
        ("level='item'", "item", ""),
    ):
        found = slow.expected_exposure(requests, groups, name, level=level, aggregate=aggregate, **params)
        wanted |= {f"{m}({inside})": v for m, v in found.items()}
    same(estimates(result), wanted)


def settled(requests, groups, unknown, missing):
    """The same world after what the policies say was done to it by hand."""
    instead = {"drop": None, "group": "unknown", "unprotected": "b"}[unknown]
    ranked = {d for one in requests for ranking in one["rankings"] for d in ranking["items"]}
    everyone = {d: instead if groups.get(d) is None else groups[d] for d in {*ranked, *groups}}
    kept = [
        {
            **one,
            "rankings": [
                {**r, "items": [d for d in r["items"] if missing == "zero" or d in one["rel"]]} for r in one["rankings"]
            ],
        }
        for one in requests
    ]
    return kept, everyone


@pytest.mark.parametrize("missing", ["zero", "drop"])
@pytest.mark.parametrize("unknown", ["drop", "group", "unprotected"])
@pytest.mark.parametrize("seed", range(2))
def test_policies_do_what_could_be_done_to_the_tables_by_hand(seed, unknown, missing):
    requests, groups = world(seed, draws=2, judged=3)
    groups = {d: label for d, label in groups.items() if label is not None or seed}  # absent, or there without a label
    rankings, judged = tables(requests)
    model = list(MODELS)[-1 - seed]
    name, params = MODELS[model]
    found = eh.exposure(
        rankings, groups=groups, relevance=judged, protected="a", versus="b", attention=model, unknown=unknown,
        missing_relevance=missing, target={"a": 0.5, "b": 0.5}, **POLICY,
        metrics=["awrf", "dp", "dp(per_item=True)", "eur", "rur", "eed()", "eel()", "eer()", "eel(level='item')"],
    )  # fmt: skip
    requests, groups = settled(requests, groups, unknown, missing)
    sides = (requests, groups, "a", "b", name)
    wanted = {
        "awrf": awrf_of(requests, groups, {"a": 0.5, "b": 0.5}, "js", name, params),
        "dp": slow.dp(*sides, **params),
        "dp(per_item=True)": slow.dp(*sides, per_item=True, **params),
        "eur": slow.eur(*sides, **params),
        "rur": slow.eur(*sides, realised=True, **params),
        "eel(level='item')": slow.expected_exposure(requests, groups, name, level="item", **params)["eel"],
    }
    expected = slow.expected_exposure(requests, groups, name, **params)
    same(estimates(found), wanted | {f"{m}()": expected[m] for m in ("eed", "eel", "eer")})


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_awrf_of_many_rankings_follows_its_definition(model, soft):
    requests, groups = world(int(soft), soft=soft, labels="abc", requests=6)
    rankings, judged = tables(requests)
    name, params = MODELS[model]
    call = {"groups": groups, "relevance": judged, "protected": "a", "versus": "b", "attention": model, **POLICY}
    metrics = ["awrf", "awrf(distance='tv')", "awrf(distance='nd')", "awrf(distance='nd', signed=True)"]
    sizes = slow.sizes(groups)
    population = {g: n / sum(sizes.values()) for g, n in sizes.items()}
    aims = {
        "population": population,
        "equal": dict.fromkeys(sizes, 1 / len(sizes)),
        "ranking": lambda one, ranking: composition(groups, ranking["items"]),
        "relevant": lambda one, ranking: composition(groups, [d for d, y in one["rel"].items() if y > 0]),
    }
    for target, aim in aims.items():
        result = eh.exposure(rankings, target=target, metrics=metrics, **call)
        args = (requests, groups, aim)
        wanted = {
            "awrf": awrf_of(*args, "js", name, params),
            "awrf(distance='tv')": awrf_of(*args, "tv", name, params),
            "awrf(distance='nd')": awrf_of(*args, "nd", name, params, protected="a"),
            "awrf(distance='nd', signed=True)": awrf_of(*args, "nd", name, params, protected="a", signed=True),
        }
        same(estimates(result), wanted)


def cut(requests, k):
    return [{**one, "rankings": [{**r, "items": r["items"][:k]} for r in one["rankings"]]} for one in requests]


def test_a_cutoff_looks_at_the_first_ranks_only_and_cuts_the_ideal_ranking_too():
    requests, groups = world(5)
    rankings, judged = tables(requests)
    call = {"groups": groups, "relevance": judged, "protected": "a", "attention": "rbp(patience=0.8)", **POLICY}
    found = estimates(eh.exposure(rankings, metrics=["log_dp@2", "eed@2", "awrf@2", "eel(level='item')@3"], **call))
    shorter = tables(cut(requests, 2))[0]
    assert found["log_dp@2"] == pytest.approx(estimates(eh.exposure(shorter, metrics="log_dp", **call))["log_dp"])
    assert found["eed@2"] == pytest.approx(estimates(eh.exposure(shorter, metrics="eed", **call))["eed"])
    assert found["awrf@2"] == pytest.approx(estimates(eh.exposure(shorter, metrics="awrf", **call))["awrf"])
    wanted = 0.0
    for share, one in zip(slow.normalised(requests), cut(requests, 3), strict=True):
        order = sorted(one["rel"].values(), reverse=True)
        weights = [0.8**i if i < 3 else 0.0 for i in range(len(order))]
        due = {d: np.mean([w for w, y in zip(weights, order, strict=True) if y == one["rel"][d]]) for d in one["rel"]}
        e = slow.item_exposure(one, "rbp", patience=0.8)
        wanted += share * sum((e.get(d, 0) - due.get(d, 0)) ** 2 for d in {*e, *due})
    assert found["eel(level='item')@3"] == pytest.approx(wanted)


@pytest.mark.parametrize("normalize", ["per_ranking", "pooled"])
@pytest.mark.parametrize("level", ["group", "item"])
@pytest.mark.parametrize("seed", range(3))
def test_amortised_attention_follows_its_definition(seed, level, normalize):
    requests, groups = world(seed, soft=True, draws=1, labels="abc")
    rng = random.Random(seed)
    rankings = [
        {"items": one["rankings"][0]["items"], "score": {d: rng.randint(0, 5) for d in groups if rng.random() < 0.8}}
        for one in requests
    ]
    for r in rankings:
        r["score"] = {**dict.fromkeys(r["items"], 0), **r["score"]}
    rows = [
        {"request": q, "item": d, "rank": (r["items"].index(d) + 1 if d in r["items"] else None), "score": float(s)}
        for q, r in enumerate(rankings)
        for d, s in r["score"].items()
    ]
    metric = f"iaa(normalize={normalize!r}, level={level!r})"
    result = eh.exposure(
        pl.DataFrame(rows), groups=groups, score="score", metrics=metric, attention="log", interval=None
    )
    wanted = slow.iaa(rankings, groups if level == "group" else None, "log", normalize=normalize)
    assert estimates(result)[metric] == pytest.approx(wanted)


def test_few_draws_of_a_random_policy_are_put_right_by_the_unbiased_form():
    rng = np.random.default_rng(0)
    items, draws, requests = 10, 5, 400
    rows = []
    for q in range(requests):
        for s in range(draws):
            rows += [
                {"request": q, "sample": s, "item": int(d), "rank": r} for r, d in enumerate(rng.permutation(items), 1)
            ]
    weights = 0.8 ** np.arange(items)
    truth = weights.sum() ** 2 / items
    metrics = ["eed(level='item')", "eed(level='item', unbiased=True)"]
    result = eh.exposure(
        pl.DataFrame(rows), groups={}, sample="sample", attention="rbp(patience=0.8)", metrics=metrics, rng=1
    )
    plain, unbiased = estimates(result).values()
    assert truth == pytest.approx(1.99, abs=0.01)
    assert plain == pytest.approx(2.14, abs=0.02)
    assert unbiased == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize(
    "metric", ["eed(unbiased=True)", "eed(unbiased=True, aggregate='per_request')", "eel(unbiased=True)"]
)
def test_the_unbiased_form_agrees_with_pairs_of_draws(metric):
    requests, groups = world(3, draws=4, requests=3)
    for one in requests:
        one["rankings"] = (one["rankings"] * 2)[: max(2, len(one["rankings"]))]
        for r in one["rankings"]:
            r["prob"] = 1.0
    rankings, judged = tables(requests)
    rankings = rankings.drop("probability")
    found = estimates(
        eh.exposure(
            rankings,
            groups=groups,
            relevance=judged,
            sample="sample",
            weight="weight",
            metrics=metric,
            interval=None,
            attention="log",
        )
    )[metric]
    exposures = [
        [slow.by_group(slow.item_exposure({**one, "rankings": [r]}, "log"), groups) for r in one["rankings"]]
        for one in requests
    ]
    share = slow.normalised(requests)
    names = "ab"
    vectors = [np.array([[e.get(g, 0.0) for g in names] for e in draws]) for draws in exposures]
    pairs = [
        sum(v[s] @ v[t] for s in range(len(v)) for t in range(len(v)) if s != t) / (len(v) * (len(v) - 1))
        for v in vectors
    ]
    if "per_request" in metric:
        assert found == pytest.approx(sum(w * p for w, p in zip(share, pairs, strict=True)))
        return
    means = [v.mean(0) for v in vectors]
    norm = sum(share[i] * share[j] * means[i] @ means[j] for i in range(3) for j in range(3) if i != j)
    norm += sum(share[i] ** 2 * pairs[i] for i in range(3))
    if metric.startswith("eed"):
        assert found == pytest.approx(norm)
        return
    biased = slow.expected_exposure(requests, groups, "log")
    assert found == pytest.approx(norm - biased["eer"] + biased["target_norm"])


def test_one_draw_cannot_be_told_from_a_fixed_policy():
    requests, groups = world(1, draws=1)
    rankings, _ = tables(requests)
    result = eh.exposure(
        rankings.drop("probability"), groups=groups, sample="sample", metrics="eed(unbiased=True)", interval=None
    )
    assert math.isnan(result.findings.columns["estimate"][0])
    assert result.findings.columns["note"] == ["single_member"]


def everything(rankings, groups, judged, **more):
    metrics = [
        "awrf",
        "awrf@3",
        "log_dp",
        "log_dp(per_item=True)",
        "log_eur",
        "log_rur",
        "eed",
        "eel",
        "eer",
        "eel(level='item')",
        "eel(attention='cascade(patience=0.9, stop={1: 0.3, 2: 1})')",
        "eed(unbiased=True, level='item')",
    ]
    call = {
        "sample": "sample",
        "protected": "a",
        "versus": "b",
        "metrics": metrics,
        "interval": "percentile(49)",
        "rng": 3,
    }
    return eh.exposure(rankings, groups=groups, relevance=judged, **(call | more))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_numbers(engine):
    requests, groups = world(11, requests=12, draws=4)
    rankings, judged = tables(requests)
    rankings = rankings.drop("probability").with_columns(
        pl.when(pl.col("request").str.slice(1).cast(pl.Int64) % 2 == 0)
        .then(pl.lit("x"))
        .otherwise(pl.lit("y"))
        .alias("system")
    )
    labels = pl.DataFrame({"item": list(groups), "group": list(groups.values())})
    wanted = everything(rankings, labels, judged, system="system").findings.columns
    other = ENGINES[engine]
    shuffled = rankings.sample(fraction=1.0, shuffle=True, seed=1)
    found = everything(other(shuffled), other(labels), other(judged), system="system").findings.columns
    for name, column in wanted.items():
        if name in ("estimate", "low", "high", "chance", "ideal"):
            np.testing.assert_allclose(found[name], column, rtol=1e-9, atol=1e-12)
        else:
            assert found[name] == column, name
    mixed = everything(
        other(rankings),
        groups,
        {q: one["rel"] for q, one in zip([f"q{i}" for i in range(12)], requests, strict=True)},
        system="system",
    )
    np.testing.assert_allclose(mixed.findings.columns["estimate"], wanted["estimate"], rtol=1e-9)


def test_an_empty_table_of_systems_has_no_rows():
    rows = pl.DataFrame({"request": [1], "item": [1], "rank": [1], "system": ["s"]}).clear()
    found = eh.exposure(rows, groups={1: "a", 2: "b"}, system="system", interval=None)
    assert len(found.frame) == 0

"""Decompositions of an index by group and by source, as plain functions."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenhand.errors import EvenhandError, UndefinedWarning
from evenhand.metrics import gini
from evenhand.metrics.decomposition import (
    decompose,
    decompose_sources,
    parts,
    parts_influence,
    source_influence,
    source_parts,
)
from evenhand.tallies.sources import Partition, Sources
from oracles import decomposition as slow

CASES = [
    c
    for c in json.loads((Path(__file__).parent / "golden" / "cases.json").read_text())["cases"]
    if c["family"] == "decomp"
]
PARTS = {"gini_decomposition": "gini", "ge_decomposition": "ge", "atkinson_decomposition": "atkinson"}
RENAMED = {"corr": "correlation"}

amount = st.integers(0, 50)
units = st.lists(st.tuples(amount, st.sampled_from("abc")), min_size=1, max_size=14).filter(
    lambda u: any(x for x, _ in u)
)
INDICES = [("gini", {})] + [("theil", {})] + [("ge", {"alpha": a}) for a in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.5)]
INDICES += [("atkinson", {"epsilon": e}) for e in (0.0, 0.3, 0.5, 1.0, 2.0, math.inf)]
every_index = pytest.mark.parametrize(("index", "params"), INDICES, ids=str)


def expected(x, groups, index, params):
    if index == "gini":
        return slow.gini_parts(x, groups)
    if index == "atkinson":
        return slow.atkinson_parts(x, groups, params["epsilon"])
    return slow.entropy_parts(x, groups, params.get("alpha", 1.0))


def close(found, wanted):
    return found == pytest.approx(wanted, rel=1e-9, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("case", [c for c in CASES if c["fn"] in PARTS], ids=lambda c: c["id"])
def test_cases_by_group(case):
    args = dict(case["args"])
    params = {"ge": "alpha", "atkinson": "eps"}.get(index := PARTS[case["fn"]])
    chosen = {{"eps": "epsilon"}.get(params, params): args[params]} if params else {}
    found = decompose(args["x"], args["groups"], index=index, **chosen)
    for name, value in case["expect"].items():
        assert getattr(found, name) == pytest.approx(value, abs=case["tol"])


@pytest.mark.parametrize("case", [c for c in CASES if c["fn"] == "lerman_yitzhaki"], ids=lambda c: c["id"])
def test_cases_by_source(case):
    found = decompose_sources(case["args"]["sources"])
    assert found.total == pytest.approx(case["expect"]["total"], abs=case["tol"])
    for source, figures in case["expect"]["sources"].items():
        for name, value in figures.items():
            wanted = math.nan if value is None else value
            assert getattr(found.sources[source], RENAMED.get(name, name)) == pytest.approx(
                wanted, abs=case["tol"], nan_ok=True
            )


@every_index
@settings(max_examples=40)
@given(units)
def test_by_group_equals_the_slow_definition(index, params, members):
    x, groups = zip(*members, strict=True)
    found = decompose(x, groups, index=index, **params)
    for name, value in expected(list(x), groups, index, params).items():
        assert close(getattr(found, name), value), name


@every_index
@settings(max_examples=40)
@given(units)
def test_the_parts_rebuild_the_whole(index, params, members):
    x, groups = zip(*members, strict=True)
    found = decompose(x, groups, index=index, **params)
    assume(not math.isnan(found.between))
    if index == "atkinson":
        assert close((1 - found.within) * (1 - found.between), 1 - found.total)
    else:
        assert close(found.within + found.between + found.overlap, found.total)


@every_index
def test_one_group_has_everything_within(index, params):
    found = decompose([1, 2, 4, 9], ["a"] * 4, index=index, **params)
    assert close(found.within, found.total)
    assert close(found.between, 0.0)
    assert close(found.groups["a"].index, found.total)


@given(units)
def test_groups_that_do_not_interleave_have_no_overlap(members):
    x = sorted(x for x, _ in members)
    edge = len(x) // 2
    found = decompose(x, [i < edge for i in range(len(x))])
    assert found.overlap == pytest.approx(0, abs=1e-12)


def test_groups_that_interleave_overlap():
    assert decompose([1, 3, 2, 4], list("aabb")).overlap > 0.01


@every_index
@settings(max_examples=40)
@given(units)
def test_weights_count_units_several_times(index, params, members):
    x, groups = zip(*members, strict=True)
    weights = [1 + i % 3 for i in range(len(x))]
    found = decompose(x, groups, weights=weights, index=index, **params)
    repeated = decompose(np.repeat(x, weights), np.repeat(groups, weights), index=index, **params)
    for name in ("total", "within", "between", "overlap"):
        assert close(getattr(found, name), getattr(repeated, name))


def test_a_group_with_nothing_has_no_index_and_adds_nothing():
    found = decompose([0, 0, 2, 5], list("aabb"))
    assert math.isnan(found.groups["a"].index)
    assert found.groups["a"].share == 0
    assert found.groups["a"].population_share == 0.5
    assert decompose([0, 0, 2, 5], list("aabb"), index="ge", alpha=0.0).within == math.inf


def test_a_zero_in_every_group_leaves_the_atkinson_between_undefined():
    found = decompose([0, 1, 0, 3], list("aabb"), index="atkinson", epsilon=1.0)
    assert found.total == found.within == 1
    assert math.isnan(found.between)


def test_missing_labels_are_one_group():
    found = decompose([1, 2, 3, 4], ["a", None, float("nan"), "a"])
    assert set(found.groups) == {None, "a"}
    assert found.groups[None].population_share == 0.5


@pytest.mark.parametrize(("x", "reason"), [([], "empty"), ([0, 0], "zero_total")])
def test_an_undefined_total_says_why(x, reason):
    with pytest.warns(UndefinedWarning) as caught:
        assert math.isnan(decompose(x, ["a"] * len(x)).within)
    assert caught[0].message.reason == reason
    with pytest.warns(UndefinedWarning) as caught:
        assert math.isnan(decompose_sources({"a": x}).total)
    assert caught[0].message.reason == reason


@pytest.mark.parametrize(
    "call",
    [
        lambda: decompose([1, 2], ["a"]),
        lambda: decompose([1, -2], ["a", "b"]),
        lambda: decompose([1, math.nan], ["a", "b"]),
        lambda: decompose([1, 2], ["a", "b"], weights=[1]),
        lambda: decompose([1, 2], "ab"),
        lambda: decompose([1, 2], ["a", "b"], index="hoover"),
        lambda: decompose([1, 2], ["a", "b"], index="gini", corrected=True),
        lambda: decompose([1, 2], ["a", "b"], index="theil", alpha=2),
        lambda: decompose([1, 2], ["a", "b"], index="atkinson", epsilon=-1),
        lambda: decompose_sources({}),
        lambda: decompose_sources([1, 2]),
        lambda: decompose_sources({"a": [1, 2], "b": [1]}),
        lambda: decompose_sources({"a": [1, -2]}),
        lambda: decompose_sources({"a": [1, math.inf]}),
        lambda: decompose_sources({"a": ["x", "y"]}),
        lambda: decompose_sources({"a": [[1, 2]]}),
    ],
)
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(EvenhandError, match=r"\. "):
        call()


rows = st.lists(st.tuples(amount, amount, st.integers(0, 3)), min_size=1, max_size=12).filter(
    lambda r: any(map(sum, r))
)


def as_sources(table):
    return dict(zip("abc", (list(map(float, column)) for column in zip(*table, strict=True)), strict=True))


@given(rows)
def test_by_source_equals_the_slow_definition(table):
    sources = as_sources(table)
    found, wanted = decompose_sources(sources), slow.source_parts(sources)
    assert close(found.total, wanted["total"])
    for name, figures in wanted["sources"].items():
        for figure, value in figures.items():
            assert close(getattr(found.sources[name], figure), value), (name, figure)


@given(rows)
def test_contributions_add_up_to_the_gini_of_the_totals(table):
    sources = as_sources(table)
    found = decompose_sources(sources)
    assert math.fsum(s.contribution for s in found.sources.values()) == pytest.approx(found.total, abs=1e-15)
    assert found.total == pytest.approx(gini(np.sum(list(sources.values()), axis=0)), abs=1e-13)
    assert math.fsum(s.marginal for s in found.sources.values()) == pytest.approx(0, abs=1e-13)


def test_the_marginal_is_the_derivative_of_the_index():
    rng = np.random.default_rng(5)
    sources = {"a": rng.lognormal(0, 1, 60), "b": rng.lognormal(1, 0.3, 60), "c": rng.poisson(2, 60) + rng.random(60)}
    found, step = decompose_sources(sources), 1e-6
    for name in sources:
        up, down = (decompose_sources({**sources, name: sources[name] * (1 + s)}).total for s in (step, -step))
        assert (up - down) / (2 * step) == pytest.approx(found.sources[name].marginal, abs=1e-7)


def test_a_source_can_contribute_and_still_equalise():
    found = decompose_sources({"flat": [5, 5, 6, 6], "steep": [0, 0, 1, 20]})
    assert found.sources["flat"].contribution > 0 > found.sources["flat"].marginal


def test_a_constant_source_contributes_nothing_and_equalises():
    found = decompose_sources({"same": [0.1] * 4, "other": [1, 2, 3, 9]}).sources["same"]
    assert (found.gini, found.contribution) == (0, 0)
    assert math.isnan(found.correlation)
    assert found.marginal < 0


def test_totals_that_differ_by_rounding_alone_tie():
    found = decompose_sources({"a": [0.1, 0.3, 1.0], "b": [0.2, 0.0, 0.0]})
    wanted = decompose_sources({"a": [1, 3, 10], "b": [2, 0, 0]})
    assert found.sources["b"].contribution == pytest.approx(wanted.sources["b"].contribution, abs=1e-15)


@every_index
def test_a_batch_of_partitions_equals_a_loop(index, params):
    rng = np.random.default_rng(3)
    tally = Partition.from_arrays(rng.poisson(2, 40), rng.choice(list("abc"), 40))
    counts = rng.multinomial(40, tally.counts / 40, 6).astype(float)
    counts[0] = 0
    batch = parts(tally.with_counts(counts), index, **params)
    for i, one in enumerate(counts):
        alone = parts(tally.with_counts(one), index, **params)
        for name in ("total", "within", "between", "overlap", "index", "share", "population_share"):
            np.testing.assert_allclose(getattr(batch, name)[i], getattr(alone, name), rtol=1e-12, atol=1e-15)


def test_a_batch_of_sources_equals_a_loop():
    rng = np.random.default_rng(3)
    tally = Sources.from_arrays({"a": rng.poisson(1, 40), "b": rng.poisson(3, 40)})
    drawn = tally.with_counts(rng.multinomial(40, tally.counts / 40, 6).astype(float))
    batch = source_parts(drawn)
    for i, one in enumerate(drawn.counts):
        alone = source_parts(tally.with_counts(one))
        for name in ("gini", "share", "own_gini", "correlation", "contribution", "marginal"):
            np.testing.assert_allclose(getattr(batch, name)[i], getattr(alone, name), rtol=1e-12)


def moved(counts, cell, step):
    """The population with a little more of one cell and a little less of all others."""
    shares = counts / counts.sum()
    bumped = shares * (1 - step)
    bumped[cell] += step
    return bumped


def slopes(counts, values_at, step=1e-6):
    return np.array(
        [
            (values_at(moved(counts, c, step)) - values_at(moved(counts, c, -step))) / (2 * step)
            for c in range(len(counts))
        ]
    )


def centred(counts, per_cell):
    return per_cell - (counts[:, None] * per_cell.reshape(len(counts), -1)).sum(0) / counts.sum()


@pytest.mark.parametrize(("index", "params"), [i for i in INDICES if i[1].get("epsilon") != math.inf], ids=str)
def test_the_influence_by_group_is_the_derivative(index, params):
    tally = Partition.from_arrays([1, 2, 2, 3, 7, 4, 4, 9, 5, 1, 30, 6], list("aabbabcccabb"))
    moves = parts_influence(tally, parts(tally, index, **params), index, **params)
    for name, per_cell in moves.items():
        numeric = slopes(tally.counts, lambda c, n=name: getattr(parts(tally.with_counts(c), index, **params), n))
        found = centred(tally.counts, per_cell[:, None])
        np.testing.assert_allclose(found[:, 0], numeric, rtol=1e-5, atol=1e-7, err_msg=name)


def test_the_influence_by_source_is_the_derivative():
    tally = Sources.from_arrays({"a": [1, 2, 2, 3, 7, 4], "b": [4, 0, 0, 9, 5, 1], "c": [1, 0, 1, 1, 0, 1]})
    for name, per_cell in source_influence(tally, source_parts(tally)).items():
        numeric = slopes(tally.counts, lambda c, n=name: getattr(source_parts(tally.with_counts(c)), n))
        found = centred(tally.counts, per_cell)
        np.testing.assert_allclose(found, numeric.reshape(found.shape), rtol=1e-5, atol=1e-7, err_msg=name)

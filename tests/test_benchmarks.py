"""The benchmarks measure what they say: contestants do the same work, differences are found, truths are true."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks import coverage, end_to_end, exposure, inequality
from benchmarks.harness import Contestant, Outcome, Race, disagreements, growth, run

from evenhand.cards import needing, parse_metrics
from evenhand.tallies.spectrum import Spectrum

HERE = "test_benchmarks"


def told(value):
    """A contestant that finds what it was told to."""
    return lambda: value


def broken():
    raise RuntimeError("no such thing")


def race(*values, tolerance=1e-9):
    contestants = [Contestant(f"c{i}", f"{HERE}:told", rounds=2, arguments={"value": v}) for i, v in enumerate(values)]
    return Race("finding", 1, {}, contestants, tolerance)


@pytest.mark.parametrize(
    ("values", "agree"),
    [
        ((0.5, 0.5 + 1e-12), True),
        ((0.5, 0.500001), False),
        (([1.0, 2.0], [1.0, 2.0]), True),
        (([1.0, 2.0], [1.0, 2.1]), False),
        (([1.0], [1.0, 2.0]), False),
        ((0.5, float("nan")), False),
    ],
)
def test_a_contestant_that_finds_something_else_is_named(values, agree):
    outcomes = [Outcome("finding", 1, f"c{i}", value=v) for i, v in enumerate(values)]
    wrong = disagreements(race(*values), outcomes)
    assert (not wrong) == agree
    assert agree or "c1 found" in wrong[0]


def test_contestants_run_in_processes_of_their_own_and_one_that_breaks_does_not_stop_the_others():
    contestants = [Contestant("bad", f"{HERE}:broken"), *race(0.5).contestants]
    said = []
    bad, good = run(Race("mixed", 1, {}, contestants), say=said.append)
    assert (good.contestant, good.rounds, good.value) == ("c0", 2, 0.5)
    assert good.ran
    assert good.wall > 0
    assert good.cpu >= 0
    assert "no such thing" in bad.problem
    assert "did not run" in said[0]


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_growth_is_the_slope_on_a_log_scale(exponent):
    found = growth([Outcome("g", n, "c", cpu=3e-9 * n**exponent) for n in (10**5, 10**6, 10**7)])
    assert found == pytest.approx(exponent)


@pytest.mark.parametrize("kind", inequality.PIECES)
def test_all_ways_to_the_same_numbers_agree(kind, tmp_path):
    path = inequality.amounts(tmp_path, kind, 3_000)
    assert inequality.gini_ours(path)() == pytest.approx(inequality.gini_naive(path)(), rel=1e-12)
    assert inequality.intervals_ours(path, "percentile(20)")() == pytest.approx(
        inequality.intervals_naive(path, 1)(), rel=1e-9
    )


def test_all_ways_from_a_log_to_the_same_numbers_agree(tmp_path):
    path = inequality.events(tmp_path, 3_000, 5, 500)
    ours = inequality.log_ours(path, 500)()
    for other in (inequality.log_polars, inequality.log_duckdb, inequality.log_naive):
        assert other(path, 500)() == pytest.approx(ours, rel=1e-12)
    assert inequality.log_ours(path, 500, engine="duckdb")() == ours


def test_all_ways_to_the_same_awrf_agree(tmp_path):
    hard = exposure.labels(tmp_path, 30)
    ours = exposure.hard_ours(hard)()
    assert exposure.hard_numpy(hard)() == pytest.approx(ours, rel=1e-12)
    assert exposure.hard_loop(hard, 30)() == pytest.approx(ours, rel=1e-12)
    ids, shares = exposure.items(tmp_path, 30), exposure.shares(tmp_path)
    ours = exposure.soft_ours(ids, shares)()
    assert exposure.soft_numpy(ids, shares)() == pytest.approx(ours, rel=1e-12)
    assert exposure.soft_loop(ids, shares, 30)() == pytest.approx(ours, rel=1e-12)


def test_all_ways_from_rankings_in_parquet_to_the_same_awrf_agree(tmp_path):
    files = exposure.tables(tmp_path, 30)
    ours = exposure.audit_ours(**files)()
    for other in (exposure.audit_polars, exposure.audit_duckdb):
        assert other(**files)() == pytest.approx(ours, rel=1e-12)
    assert exposure.audit_ours(**files, engine="duckdb")() == pytest.approx(ours, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("world", coverage.WORLDS, ids=lambda world: world.name)
def test_the_truth_that_intervals_must_hold_is_that_of_a_huge_sample(world):
    rng = np.random.default_rng(5)
    sample = Spectrum.from_arrays(world.draw(rng, 400_000))
    found = [float(a.on(sample)) for a in parse_metrics(coverage.METRICS, needing(Spectrum))]
    heavy = world.name.startswith(("Pareto", "lognormal 2"))
    assert world.truth() == pytest.approx(found, rel=0.1 if heavy else 0.02)
    assert not any(math.isnan(v) for v in world.truth())


def test_growth_is_drawn_beside_a_line_of_exponent_one():
    outcomes = [Outcome("growth: a call", 10**k, "evenhand", cpu=10.0 ** (k - 6)) for k in (4, 5, 6)]
    outcomes.append(Outcome("another race", 10, "evenhand", cpu=1.0))
    values = end_to_end.charts(outcomes)["growth"].to_dict()["data"]["values"]
    lines = {line: [v["cpu"] for v in values if v["line"] == line] for line in ("measured", "exponent 1")}
    assert lines["measured"] == pytest.approx(lines["exponent 1"])
    assert end_to_end.summary(outcomes) == {"growth: a call, exponent": pytest.approx(1.0)}


@pytest.mark.parametrize("named", [False, True])
def test_the_audits_end_to_end_read_what_is_written_for_them(tmp_path, named):
    files = end_to_end.rankings(tmp_path, 20, 1_000, named=named)
    for name, asked in (("prefix", {"protected": "c"}), ("exposure", {"relevance": "relevance"})):
        end_to_end.audit(name, **files, **asked, rng=1)()
    end_to_end.bare_rankings(**files)()
    rated = end_to_end.scores(tmp_path, 1_000, named=named)
    end_to_end.audit("recommender", **rated, protected="f", versus="m", top=10, interval=None)()
    path = end_to_end.events(tmp_path, 1_000, 50, named=named, continuous=named)
    end_to_end.audit("inequality", path, unit="unit", amount="amount", population=None, interval=None)()


@pytest.mark.parametrize("scored", end_to_end.SCORES)
def test_outcome_tests_end_to_end_read_scores_of_every_shape(tmp_path, scored):
    path = end_to_end.candidates(tmp_path, 2_000, scored, 4)
    end_to_end.audit("outcome_test", path, score="score", outcome="outcome", group="group", cluster="cluster")()
    for by in (["group"], ["cluster", "group"]):
        end_to_end.bare_candidates(path, by, scored)()


def test_memory_is_told_for_one_more_and_ratios_size_by_size():
    outcomes = [Outcome("prefix, x", n, "evenhand", cpu=1.0, extra_mib=n / 2**20 * 700 + 9) for n in (1_000, 2_000)]
    outcomes += [Outcome("prefix, x", 1_000, "bare group-by", cpu=0.5, extra_mib=1.0)]
    assert end_to_end.summary(outcomes) == {
        "prefix, x, n = 1,000: evenhand, times bare": pytest.approx(2.0),
        "prefix, x: bytes for one more of n": pytest.approx(700.0),
    }


def test_data_of_races_that_are_left_out_are_not_made(tmp_path):
    large = [race for race in end_to_end.races(tmp_path, quick=True) if not race.name.startswith("small")]
    assert len(large) > 20
    assert all(callable(race.arguments) for race in large)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1_000_000

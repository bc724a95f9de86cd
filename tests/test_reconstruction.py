"""An intruder who solves the published figures for single amounts: what works without `min_units` must fail with it.

Sixteen digits of a Gini index of whole amounts are a fraction whose denominator is n times the total; with the total, the
Atkinson index gives the sum of square roots, and which amounts have that sum is found by meeting in the middle. From two
releases, an intruder who knows everybody but the newcomer tries every amount that the newcomer could have.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import polars as pl
import pytest

import evenhand as eh

MOST = 60
"""The intruder knows that nobody has more."""


def release(amounts, **more) -> dict[str, float]:
    """Figures of the default metrics as published, with their number of units."""
    table = pl.DataFrame({"who": range(len(amounts)), "views": amounts})
    found = eh.inequality(table, unit="who", amount="views", population=None, interval=None, rng=1, **more).findings
    return {m: (v, n) for m, v, n in zip(*(found.columns[c] for c in ("metric", "estimate", "units")), strict=True)}


def totals_of(gini: float, units: int, most: int) -> list[int]:
    """Totals of whole amounts for which the Gini index can be this number to all its digits."""
    exact = Fraction(gini * units).limit_denominator(most)
    if abs(float(exact) - gini * units) > 1e-12 * units:
        return []
    return list(range(exact.denominator, most + 1, exact.denominator))


def halves(values: range, many: int, units: int) -> tuple[np.ndarray, np.ndarray, list[tuple[int, ...]]]:
    """Number, sum and sum of roots of every choice of up to so many of these values."""
    chosen = [c for k in range(min(many, units) + 1) for c in combinations_with_replacement(values, k)]
    roots = np.array([np.sqrt(c).sum() if c else 0.0 for c in chosen])
    return np.array([(len(c), sum(c)) for c in chosen]), roots, chosen


def recovered(figures, most: int, low: range, high: range) -> list[tuple[int, ...]]:
    """All amounts that the Gini and the Atkinson index of one release allow, to all their digits."""
    gini, units = figures["gini"]
    atkinson, _ = figures["atkinson(epsilon=0.5)"]
    (sizes, roots, lows), (other_sizes, other_roots, highs) = (halves(v, units, units) for v in (low, high))
    answers = []
    by_size: dict[tuple[int, int], list[int]] = {}
    for i, (k, s) in enumerate(other_sizes.tolist()):
        by_size.setdefault((k, s), []).append(i)
    for total in totals_of(gini, units, most):
        root = units * np.sqrt((1 - atkinson) * total / units)
        for i, (k, s) in enumerate(sizes.tolist()):
            for j in by_size.get((units - k, total - s), ()):
                if abs(roots[i] + other_roots[j] - root) < 1e-9:
                    amounts = (*lows[i], *highs[j])
                    if abs(eh.metrics.gini(amounts) - gini) < 1e-12:
                        answers.append(tuple(sorted(amounts)))
    return answers


CASES = {
    6: (range(1, 7), range(7, 13), [2, 3, 5, 7, 11, 12]),
    21: (range(1, 4), range(4, 7), [1] * 5 + [2] * 4 + [3] * 4 + [4] * 3 + [5] * 3 + [6] * 2),
}


@pytest.mark.parametrize("units", CASES)
def test_amounts_of_a_slice_are_recovered_from_all_digits_and_not_from_a_release(units):
    low, high, amounts = CASES[units]
    most = units * high.stop
    assert recovered(release(amounts), most, low, high) == [tuple(sorted(amounts))], "the attack works"
    published = release(amounts, min_units=5)
    assert published["gini"][0] >= 0, "it is shown"
    assert recovered(published, most, low, high) != [tuple(sorted(amounts))]


def agreeing(known: list[int], published, **more) -> list[int]:
    """Amounts of a newcomer that give the figures of the second release."""
    values = {m: v for m, (v, _) in published.items()}
    return [x for x in range(1, MOST + 1) if {m: v for m, (v, _) in release([*known, x], **more).items()} == values]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("units", [6, 21])
def test_the_amount_of_a_newcomer_does_not_follow_from_two_releases(units, seed):
    draw = np.random.default_rng(seed)
    known = draw.integers(1, MOST, units).tolist()
    newcomer = int(draw.integers(1, MOST))
    assert agreeing(known, release([*known, newcomer])) == [newcomer], "the attack works"
    possible = agreeing(known, release([*known, newcomer], min_units=5), min_units=5)
    assert newcomer in possible
    assert len(possible) >= MOST / 6, "even who knows all others is left with a wide range"


def test_rows_that_are_counted_do_not_tell_how_many_a_newcomer_has():
    log = pl.DataFrame({"who": [i for i in range(30) for _ in range(4 + i % 3)]})
    more = pl.concat([log, pl.DataFrame({"who": [99] * 7})])
    rows = [
        eh.inequality(t, unit="who", population=None, interval=None, min_units=5, rng=1).provenance["rows"]
        for t in (log, more)
    ]
    assert rows[1] - rows[0] != 7
    assert all(n % 5 == 0 for n in rows)


def test_figures_are_multiples_of_a_step_that_is_at_least_one_over_the_units_of_the_smallest_slice():
    draw = np.random.default_rng(3)
    table = pl.DataFrame({"u": range(140), "v": draw.integers(1, 900, 140), "s": ["a"] * 40 + ["b"] * 100})
    found = eh.inequality(table, unit="u", amount="v", by="s", population=None, min_units=5, rng=1)
    for name in ("estimate", "low", "high"):
        for v in found.findings.columns[name]:
            assert v != v or v * 20 == pytest.approx(round(v * 20)), (name, v)  # 1/40 becomes 0.05
    exact = eh.inequality(table, unit="u", amount="v", by="s", population=None, rng=1).findings
    for low, high, e_low, e_high in zip(
        *(f.columns[c] for f in (found.findings, exact) for c in ("low", "high")), strict=True
    ):
        assert low != low or (low <= e_low + 1e-9 and high >= e_high - 1e-9), "intervals only grow"


def test_one_holder_of_nearly_everything_makes_the_step_as_large_as_what_leaving_it_out_changes():
    table = pl.DataFrame({"u": range(400), "v": [10**6] + [1] * 399})
    found = eh.inequality(
        table, unit="u", amount="v", population=None, metrics="gini", interval=None, min_units=5, rng=1
    )
    assert found.frame["estimate"][0] in (0.0, 1.0), "with it 0.997, without it 0"


def test_checks_sentences_and_saved_results_read_the_figures_as_published(tmp_path):
    draw = np.random.default_rng(3)
    table = pl.DataFrame({"u": range(60), "v": draw.integers(1, 900, 60)})
    found = eh.inequality(
        table, unit="u", amount="v", population=None, metrics="gini", interval=None, min_units=5, rng=1
    )
    exact = eh.inequality(table, unit="u", amount="v", population=None, metrics="gini", rng=1).frame["estimate"][0]
    (shown,) = found.frame["estimate"]
    assert shown != exact
    assert found.check(f"gini <= {shown}").passed
    assert found.check(f"gini >= {shown}").passed
    assert str(exact)[:6] not in found.to_json() + " ".join(found.sentences())
    found.to_json(tmp_path / "r.json")
    assert eh.read.result(tmp_path / "r.json").frame["estimate"][0] == shown


def test_labels_of_suppressed_cells_of_two_columns_are_not_shown():
    rows = [("north", "teacher", i) for i in range(30)] + [("south", "nurse", i) for i in range(30, 60)]
    rows += [("south", "astronaut", 90), ("north", "diver", 91)]
    table = pl.DataFrame(rows, schema=["land", "job", "u"], orient="row").with_columns(v=pl.col("u") + 1)
    call = {
        "unit": "u",
        "amount": "v",
        "population": None,
        "metrics": "gini",
        "interval": None,
        "min_units": 5,
        "rng": 1,
    }
    found = eh.inequality(table, by=["land", "job"], **call)
    text = found.to_json() + found.to_text("csv") + " ".join(found.sentences())
    assert "astronaut" not in text
    assert "diver" not in text
    assert found.findings.columns["land"].count("(suppressed)") == 1
    found.report("/dev/null")


def test_nothing_about_single_requests_or_users_leaves_a_result():
    rows = [(q, f"i{(q + r) % 7}", r + 1, "fm"[(q + r) % 2], f"s{q % 2}") for q in range(40) for r in range(3)]
    lists = pl.DataFrame(rows, schema=["request", "item", "rank", "g", "run"], orient="row")
    how = {"groups": "g", "interval": None, "rng": 1}
    assert eh.exposure(lists, **how).per_request.height > 0
    assert eh.exposure(lists, **how, min_units=10).per_request.height == 0
    assert eh.prefix(lists, group="g", protected="f", interval=None, rng=1, min_units=10).per_request.height == 0
    choices = {"attention": ["log", "uniform"]}
    several = eh.sensitivity(eh.exposure, lists, system="run", vary=choices, **how, min_units=30)
    assert several.provenance["rows"] is None
    scores = pl.DataFrame({"user": [r[0] for r in rows], "item": [r[1] for r in rows], "score": [1.0] * len(rows)})
    served = eh.recommender(scores, top=2, interval=None, chance=None, rng=1, min_units=10)
    with pytest.raises(eh.EvenhandError, match="`shown` has the list of every single user"):
        _ = served.shown


def judged(n: int = 400) -> pl.DataFrame:
    draw = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "p": draw.random(n),
            "y": draw.integers(0, 2, n),
            "g": ["a", "b"] * (n // 2),
            "h": ["x", "y", "y", "x"] * (n // 4),
        }
    )


def lists() -> pl.DataFrame:
    draw = np.random.default_rng(6)
    order = [draw.permutation(25)[:8] for _ in range(40)]
    rows = [(q, int(i), r + 1, "f" if i % 3 else "m") for q, items in enumerate(order) for r, i in enumerate(items)]
    return pl.DataFrame(rows, schema=["request", "item", "rank", "g"], orient="row")


def spread() -> pl.DataFrame:
    draw = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "who": range(70),
            "views": draw.lognormal(3, 1, 70),
            "land": [i // 30 for i in range(70)],
            "arm": ["control", "new"] * 35,
        }
    )


RELEASES = {
    "inequality": lambda how: eh.inequality(spread(), unit="who", amount="views", population=None, by=["land", "arm"], **how),
    "experiment": lambda how: eh.experiment(spread(), unit="who", amount="views", arm="arm", randomized="who", population=None, **how),
    "exposure": lambda how: eh.exposure(lists(), groups="g", protected="f", **how),
    "outcome": lambda how: eh.outcome_test(judged(), score="p", outcome="y", group="g", by="h", min_units=12),
    "counterfactual": lambda how: eh.outcome_test(judged(), score="p", outcome="y", group="g", min_units=12).counterfactual(rng=1, null_draws=20),
}  # fmt: skip


def figures(value, path=""):
    """Every fraction in a saved result or a chart, with where it stands."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from figures(part, f"{path}/{name}")
    elif isinstance(value, list):
        for part in value:
            yield from figures(part, path)
    elif isinstance(value, float) and np.isfinite(value):
        yield path, value


@pytest.mark.parametrize("name", RELEASES)
def test_no_figure_with_more_than_three_digits_leaves_in_any_form(name, tmp_path):
    released = RELEASES[name]({"interval": None, "rng": 1, "min_units": 12})
    saved = json.loads(released.to_json())
    past = eh.history(tmp_path / "h.parquet").append(released, at="2026-01-01")
    leaving = [*figures(saved), *figures(past.frame.select(pl.selectors.float()).to_dicts(), "history")]
    released.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    for n, spec in enumerate(re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)):
        data = json.loads(spec)
        leaving += figures(data.get("datasets", {}) if isinstance(data, dict) else [], f"chart {n}")
    assert len(leaving) > 20
    derived = (
        "p_adjusted",
        "population",
        "/x",
        "/y",
        "/x2",
        "/y2",
    )  # a multiple of p; points between corners of a curve
    many = [
        (path, v) for path, v in leaving if not path.endswith(derived) and abs(float(f"{v:.3g}") - v) > 1e-9 * abs(v)
    ]
    assert many == []


def test_a_metric_of_amounts_does_not_flatten_the_curve_beside_it():
    table = pl.DataFrame({"who": range(60), "views": np.random.default_rng(1).lognormal(6, 0.8, 60)})
    how = {"unit": "who", "amount": "views", "population": None, "interval": None, "min_units": 10, "rng": 1}
    plain, beside = (
        eh.inequality(table, metrics=m, **how).findings.curves["lorenz"]
        for m in (["gini"], ["gini", "percentile(p=0.5)"])
    )
    assert beside == plain
    assert any(0 < share < 0.5 for share in plain["share"])

"""An intruder with everything that leaves an audit learns nothing about fewer than `min_units`.

The rule is played, not read: one receiver, item or candidate of a small group is changed in the data, and whatever leaves
must not change at all; and no step between two points that leave is of fewer than `min_units` receivers.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.cards import parse_metric
from evenhand.report import page as report
from evenhand.report.charts import registry as charts
from evenhand.tallies.spectrum import Spectrum

pytestmark = pytest.mark.usefixtures("stopped_clock")
FEW = 10
CALL = {"unit": "u", "amount": "v", "interval": None, "rng": 1, "min_units": FEW}
METRICS = [
    "gini",
    "atkinson(epsilon=0.5)",
    "top_share(p=0.01)",
    "top_share(p=0.1)",
    "equal_share",
    "percentile(p=0.99)",
]


def everything(found: eh.Result) -> str:
    """All that leaves: frame, sentences, every text format, saved result, charts' data, report, provenance and plan."""
    said = [found.to_json(), *found.sentences(), found.to_text("csv"), found.to_text("table"), str(found.frame)]
    said.append(report.html(found.findings))
    for kind in found.findings.charts:
        try:
            said.append(json.dumps(charts.draw(found.findings, kind).to_dict(), default=str))
        except eh.EvenhandError:
            continue
    if hasattr(found, "per_request"):
        said.append(str(found.per_request.to_dict(as_series=False)))
    said = [re.sub(r"[A-Za-z0-9+/=]{200,}", "", one) for one in said]  # what is packed is in the saved result
    # the last digits of sums depend on threads
    return re.sub(r"\d+\.\d{9,}(e-?\d+)?", lambda n: f"{float(n[0]):.6g}", "\n".join(said))


def numbers(found: eh.Result) -> list[float]:
    """Every number that leaves in the saved result, but those that are there whatever the data."""

    def walk(value):
        if isinstance(value, dict):
            return [n for k, v in value.items() if k not in ("versions", "plan") for n in walk(v)]
        if isinstance(value, list):
            return [n for v in value for n in walk(v)]
        return [float(value)] if isinstance(value, (int, float)) and not isinstance(value, bool) else []

    return walk(json.loads(found.to_json()))


amounts = st.lists(st.integers(1, 10**6), min_size=FEW, max_size=60)


@settings(max_examples=25, deadline=None)
@given(
    amounts, st.lists(st.integers(1, 10**6), min_size=1, max_size=FEW - 1), st.integers(1, 10**6), st.integers(0, 400)
)
def test_a_slice_of_few_receivers_leaves_no_trace_whatever_is_padded(many, few, other, unseen):
    rows = [("a", f"a{i}", v) for i, v in enumerate(many)] + [("b", f"b{i}", v) for i, v in enumerate(few)]
    rows += [("c", f"c{i}", v) for i, v in enumerate(many)]
    table = pl.DataFrame(rows, schema=["s", "u", "v"], orient="row")
    changed = table.with_columns(v=pl.when(pl.col("u") == "b0").then(other).otherwise(pl.col("v")))
    sizes = {"a": len(many) + unseen, "b": len(few) + unseen, "c": len(many)}
    call = CALL | {"by": "s", "population": sizes, "metrics": METRICS}
    before, after = (eh.inequality(t, **call).to_dict() for t in (table, changed))
    assert before == after


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=FEW, max_size=80).filter(lambda x: sum(v > 0 for v in x) >= FEW))
def test_no_step_of_a_lorenz_curve_and_no_difference_of_shares_is_about_fewer(x):
    table = pl.DataFrame({"u": range(len(x)), "v": x})
    tops = [f"top_share(p={p})" for p in np.linspace(0.001, 1, 60).round(6).tolist()]
    found = eh.inequality(table, population=None, metrics="gini", **CALL).findings
    points = found.curves["lorenz"]
    share = np.array(points["share"])
    steps = np.diff(np.array(points["population"]) * len(x))[np.diff(share) > 0]
    assert steps.min() >= FEW - 1e-6
    ordered = np.sort([v for v in x if v > 0])[::-1]
    ends = [*range(0, (len(ordered) // FEW) * FEW, FEW), len(ordered)]
    held = np.interp(
        np.linspace(0.001, 1, 60).round(6) * len(x), [*ends, len(x)], [*(ordered[:e].sum() for e in ends), sum(x)]
    )
    spectrum = Spectrum.from_arrays(x)
    measured = [float(parse_metric(top).coarse(FEW).on(spectrum)) for top in tops]  # before they are rounded
    assert measured == pytest.approx((held / sum(x)).tolist(), abs=1e-9)


def rankings(seed: int, tiny: int, wee: int = 0) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    rows = []
    for q in range(24):
        for rank, i in enumerate(draw.permutation(60)[:20].tolist(), 1):
            group = "tiny" if i < tiny else "wee" if i < tiny + wee else "mid" if i < 25 else "big"
            rows.append(
                (f"q{q}", f"i{i}", rank, group, int(draw.random() < 0.4), 100.0 - rank, "de" if q % 2 else "fr")
            )
    names = ["request", "item", "rank", "g", "rel", "score", "land"]
    return pl.DataFrame(rows, schema=names, orient="row")


RANKED = {
    "prefix": lambda t, **more: eh.prefix(t, group="g", chance=None, interval=None, rng=1, min_units=FEW, **more),
    "exposure": lambda t, **more: eh.exposure(
        t, groups="g", relevance="rel", metrics=["awrf", "eel"], interval=None, rng=1, min_units=FEW, **more
    ),
    "pairwise": lambda t, **more: eh.pairwise(
        t, groups="g", relevance="rel", metrics="accuracy", interval=None, rng=1, min_units=FEW, **more
    ),
}


@pytest.mark.parametrize("audit", RANKED)
@pytest.mark.parametrize("by", [None, "land"])
def test_what_leaves_a_ranking_audit_does_not_tell_small_groups_apart_that_are_merged(audit, by):
    """Items of one small group change places with others of the other: nothing that leaves may notice."""
    table = rankings(seed=1, tiny=6, wee=7)
    swap = {f"i{i}": ("wee" if i < 3 else "tiny" if 6 <= i < 9 else None) for i in range(9)}
    swapped = table.with_columns(g=pl.col("item").replace_strict(swap, default=None).fill_null(pl.col("g")))
    sides = {"protected": "big"} if audit == "pairwise" else {}
    before, after = (RANKED[audit](t, by=by, **sides) for t in (table, swapped))
    assert everything(before) == everything(after)
    assert '"tiny"' not in json.dumps(before.to_dict()["curves"])
    assert "(small groups)" in everything(before)


@pytest.mark.parametrize("audit", RANKED)
@pytest.mark.parametrize("sides", [{}, {"protected": "mid", "versus": "big"}])
def test_a_single_small_group_is_left_out_by_itself_and_the_large_ones_stay(audit, sides):
    """Its items count as unlabelled: what is shown of the others is what it would be if nobody knew its label."""
    sides = {k: v for k, v in sides.items() if audit != "prefix" or k != "versus"}
    sides |= {"protected": "mid"} if audit == "pairwise" and not sides else {}
    table = rankings(seed=1, tiny=3)
    unlabelled = table.with_columns(g=pl.when(pl.col("g") != "tiny").then(pl.col("g")))
    before, after = (RANKED[audit](t, **sides) for t in (table, unlabelled))
    shown = [r for r in before.findings.rows() if r["note"] != "suppressed"]
    others = {(r["metric"], r["group"]): r["estimate"] for r in after.findings.rows()}
    assert shown
    assert all(r["estimate"] == pytest.approx(others[r["metric"], r["group"]], nan_ok=True) for r in shown)
    assert {r["metric"] for r in before.findings.rows() if r["note"] == "suppressed"} <= {"eel"}, (
        "it adds up to a known whole"
    )
    assert before.provenance["rows"] is None
    assert "tiny" not in json.dumps(before.to_dict()["curves"]) + str(before.sentences())
    assert "<html" in report.html(before.findings)


@pytest.mark.parametrize("audit", ["prefix", "exposure", "pairwise"])
def test_a_protected_side_of_few_items_is_not_shown_at_all(audit):
    table = rankings(seed=2, tiny=3)
    other = table.with_columns(rank=pl.col("rank").reverse().over("request"), score=-pl.col("score"))
    first, second = (RANKED[audit](t, protected="tiny") for t in (table, other))
    assert set(first.findings.columns["note"]) == {"suppressed"}
    assert {k: v for k, v in first.to_dict().items() if k in ("columns", "curves")} == {
        k: v for k, v in second.to_dict().items() if k in ("columns", "curves")
    }


def test_a_small_group_of_an_outcome_test_moves_no_number_not_even_the_scope():
    draw = np.random.default_rng(3)
    score = draw.random(907)
    group = ["a"] * 500 + ["b"] * 400 + ["tiny"] * 7
    table = pl.DataFrame({"s": score, "y": draw.integers(0, 2, 907), "g": group})
    narrow = table.with_columns(s=pl.when(pl.col("g") == "tiny").then(0.5 + pl.col("s") / 100).otherwise(pl.col("s")))
    more = pl.concat([table, table.filter(pl.col("g") == "tiny").head(2)])
    call = {"score": "s", "outcome": "y", "group": "g", "reference": "a", "bins": 3, "min_units": FEW}
    told = [everything(eh.outcome_test(t, **call)) for t in (table, narrow, more)]
    assert told[0] == told[1] == told[2]
    assert " 907," not in told[0]


@pytest.mark.parametrize("few", [1, 4])
def test_a_source_with_few_receivers_is_hidden_with_the_next_smallest(few):
    rows = [(f"u{i}", "home", 5 + i) for i in range(40)] + [(f"u{i}", "search", 1) for i in range(20)]
    rows += [(f"u{i}", "mail", 7) for i in range(few)]
    found = eh.sources(
        pl.DataFrame(rows, schema=["u", "via", "v"], orient="row"), source="via", population=500, **CALL
    ).findings
    shown = {r["group"] for r in found.rows() if r["note"] != "suppressed"}
    assert shown == {None, "home", "(small sources)"}


def test_padded_units_are_no_receivers():
    table = pl.DataFrame({"u": ["x", "y", "z"], "v": [1, 20, 300]})
    found = eh.inequality(table, population=500, **CALL)
    assert set(found.findings.columns["note"]) == {"suppressed"}
    assert found.findings.curves["lorenz"] == {}
    parts = eh.decompose(table.with_columns(g=pl.lit("one")), group="g", population={"one": 500}, **CALL)
    assert set(parts.findings.columns["note"]) == {"suppressed"}


@pytest.mark.parametrize("tiny", [2, 5])
def test_a_small_group_of_users_cannot_be_told_from_the_others(tiny):
    draw = np.random.default_rng(4)
    scores, groups = draw.random((60, 8)), ["a"] * (60 - tiny) + ["tiny"] * tiny
    other = scores.copy()
    other[-1] = other[-1][::-1]
    call = {
        "user_groups": groups,
        "top": 2,
        "min_units": FEW,
        "rng": 1,
        "interval": None,
        "metrics": ["exposure_tv", "mad"],
    }
    first, second = (eh.recommender(s, **call) for s in (scores, other))
    assert set(first.findings.columns["note"]) == {"suppressed"}
    assert first.to_dict()["columns"] == second.to_dict()["columns"]


def test_steps_of_sorted_numbers_that_leave_are_no_single_amounts():
    x = np.random.default_rng(5).integers(1, 10**9, 45)
    found = eh.inequality(pl.DataFrame({"u": range(45), "v": x}), population=None, metrics=METRICS, **CALL)
    told = {round(n * x.sum()) for n in numbers(found)} | {
        round(abs(a - b) * x.sum()) for a, b in pairwise(numbers(found))
    }
    assert not told & set(x.tolist())

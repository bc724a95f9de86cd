"""FA*IR over many rankings: the share that passes and where the others first fail, against the plain function."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.metrics import fair_satisfied, fair_table, fair_violation
from evenhand.metrics.representation import first_violations, satisfied
from evenhand.tallies.placement import Placement

lists = st.lists(st.sampled_from([0, 1, None]), min_size=1, max_size=25)
levels = st.sampled_from([0.05, 0.1, 0.3])


def first_by_definition(labels, p, alpha, adjusted):
    known = [x for x in labels if x is not None]
    table = fair_table(len(known), p, alpha, adjusted=adjusted).table if known else []
    seen = held = 0
    for rank, x in enumerate(labels, 1):
        if x is None:
            continue
        seen, held = seen + 1, held + x
        if held < table[seen - 1]:
            return rank
    return 0


@given(st.lists(lists, min_size=1, max_size=5), st.sampled_from([0.2, 0.5, 0.7]), levels, st.booleans())
def test_many_rankings_at_once_equal_one_by_one(rankings, p, alpha, adjusted):
    placed = [Placement.from_arrays(r, protected=1) for r in rankings]
    for one, labels in zip(placed, rankings, strict=True):
        expected = first_by_definition(labels, p, alpha, adjusted)
        assert first_violations(one, p, alpha, adjusted=adjusted).tolist() == [expected]
        if any(x is not None for x in labels):
            passes = fair_satisfied(labels, protected=1, p=p, alpha=alpha, adjusted=adjusted)
            assert satisfied.on(one, p=p, alpha=alpha, adjusted=adjusted).tolist() == [float(passes)]


def table_of(rankings):
    rows = [(q, f"{q}-{r}", r, g) for q, labels in enumerate(rankings) for r, g in enumerate(labels, 1)]
    return pl.DataFrame(rows, schema=["request", "item", "rank", "group"], orient="row")


def test_the_audit_gives_the_share_that_passes_and_the_mean_first_violation():
    rankings = [list("UUUUUP"), list("UPUPUP"), list("UUUUUUUU"), list("PPPP")] * 2
    found = eh.exposure(
        table_of(rankings), groups="group", protected="P", rng=1,
        metrics=["fair_satisfied(p=0.5, alpha=0.1)", "fair_violation(p=0.5, alpha=0.1)"],
    )  # fmt: skip
    firsts = [first_by_definition([int(g == "P") for g in labels], 0.5, 0.1, True) for labels in rankings]
    share, where = found.frame.rows(named=True)
    assert share["estimate"] == np.mean([f == 0 for f in firsts])
    assert where["estimate"] == np.mean([f for f in firsts if f])
    assert 0 <= share["low"] <= share["estimate"] <= share["high"] <= 1
    each = found.per_request.filter(pl.col("metric").str.starts_with("fair_violation"))
    assert each["estimate"].fill_nan(0).to_list() == firsts
    assert set(each.filter(pl.col("estimate").is_nan())["note"]) == {"satisfied"}
    assert any("FA*IR" in s for s in found.sentences())


def test_where_every_ranking_passes_there_is_no_first_violation():
    found = eh.exposure(table_of([list("PU")] * 3), groups="group", protected="P", metrics="fair_violation(p=0.5)")
    assert math.isnan(found.frame["estimate"][0])
    assert found.frame["note"][0] == "satisfied"
    with pytest.warns(eh.UndefinedWarning) as caught:
        assert math.isnan(fair_violation([1, 1], protected=1, p=0.5))
    assert caught[0].message.reason == "satisfied"


def test_without_p_the_target_gives_it():
    rankings = [list("UUUUUUUUPPPPPPPP"), list("UPUPUPUPUPUPUPUP")]
    named, by_target = (
        eh.exposure(table_of(rankings), groups="group", protected="P", metrics=m, target="equal", interval=None).frame
        for m in ("fair_satisfied(p=0.5)", "fair_satisfied")
    )
    assert named["estimate"].to_list() == by_target["estimate"].to_list() == [0.5]


def test_at_most_alpha_of_fair_rankings_fail():
    rng = np.random.default_rng(3)
    codes = (rng.random(2000 * 30) >= 0.4).astype(np.int64)
    placed = Placement(codes, np.arange(0, 2000 * 30 + 1, 30), ("P", "U"), protected=(0,))
    failed = (first_violations(placed, 0.4, 0.1, adjusted=True) > 0).mean()
    exact = fair_table(30, 0.4, 0.1).failure
    assert failed == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2000))
    assert exact <= 0.1


def test_bad_parameters_are_refused():
    for bad in ("fair_satisfied(p=0)", "fair_satisfied(p=0.5, alpha=1)", "fair_violation(alpha=0)"):
        with pytest.raises(eh.EvenhandError, match="outside"):
            eh.exposure(table_of([list("PU")]), groups="group", protected="P", metrics=bad)
    with pytest.raises(eh.EvenhandError, match="Pass p="):
        fair_violation([1, 0], protected=1)

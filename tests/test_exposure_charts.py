"""Pictures of exposure, and the plain functions on sums."""

import math

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand import metrics as m
from evenhand.report.charts import registry as charts
from test_exposure_audit import tables, world


def result_of(systems=2, relevance=True, **more):
    requests, groups = world(11, requests=12, draws=1)
    rankings, judged = tables(requests)
    number = pl.col("request").str.slice(1).cast(pl.Int64)
    rankings = rankings.with_columns(("run " + (number % systems).cast(pl.String)).alias("system"))
    call = {
        "groups": groups,
        "protected": "a",
        "system": "system",
        "rng": 1,
        "interval": "percentile(49)",
        "chance": False,
    } | more
    return eh.exposure(rankings, relevance=judged if relevance else None, **call)


def test_the_kinds_that_fit_are_offered_and_exposure_comes_first():
    names = [k.name for k in charts.kinds_for(result_of().findings)]
    assert names[:3] == ["exposure", "relevance", "systems"]
    assert "relevance" not in [k.name for k in charts.kinds_for(result_of(relevance=False).findings)]
    assert "systems" not in [k.name for k in charts.kinds_for(result_of(system=None).findings)]


@pytest.mark.parametrize("systems", [2, 9])
@pytest.mark.parametrize("kind", ["exposure", "relevance", "systems"])
def test_every_kind_draws_and_tells_its_numbers(kind, systems):
    result = result_of(systems)
    _, drawn = charts.picture(result.findings, kind)
    assert len({len(column) for column in drawn.table.values()}) == 1
    result.plot(kind).to_dict()


def test_the_exposure_picture_holds_shares_that_add_up_and_the_target():
    _, drawn = charts.picture(result_of().findings, "exposure")
    by_slice = {}
    for where, share, target in zip(drawn.table["slice"], drawn.table["exposure"], drawn.table["target"], strict=True):
        got, due = by_slice.get(where, (0.0, 0.0))
        by_slice[where] = (got + share, due + target)
    assert all(got == pytest.approx(1) and due == pytest.approx(1) for got, due in by_slice.values())


def test_the_system_table_points_the_right_way():
    _, drawn = charts.picture(result_of(metrics=["awrf", "eer", "log_dp", "eed"]).findings, "systems")
    assert list(drawn.table) == ["slice", "awrf ↓", "eer ↑", "log_dp →", "eed ↓"]
    from evenhand.metrics.agreement import fairness
    from evenhand.report.charts.rankings import places

    def row(value, better, ideal=0.0):
        return {"estimate": value, "better": better, "ideal": ideal}

    assert places(fairness([row(0.1, "lower"), row(0.3, "lower"), row(0.2, "lower")])) == [1.0, 0.0, 0.5]
    assert places(fairness([row(0.1, "higher"), row(0.3, "higher")])) == [0.0, 1.0]
    assert places(fairness([row(-0.5, "ideal"), row(0.1, "ideal"), row(math.nan, "ideal")])) == [
        0.0,
        1.0,
        0.0,
    ]


def test_names_that_vega_would_read_as_paths_are_only_text():
    run = pl.DataFrame({"request": [1, 1], "item": ["a", "b"], "rank": [1, 2], "a.b[0]": ["</script>", "x:y"]})
    result = eh.exposure(run, groups="a.b[0]", interval=None)
    spec = str(result.plot("exposure").to_dict())
    assert "'label': '</script>'" in spec


def test_two_duckdb_connections_meet():
    here, there = duckdb.connect(), duckdb.connect()
    rankings = here.sql("select 1 as request, * from (values ('a', 1), ('b', 2)) t(item, rank)")
    groups = there.sql("select * from (values ('a', 'f'), ('b', 'm')) t(item, label)")
    found = eh.exposure(
        rankings, groups=groups, protected="f", metrics="dp", attention="rbp(patience=0.5)", interval=None
    )
    assert found.findings.columns["estimate"] == [pytest.approx(2)]


# Zero or far from it: a ratio of numbers like 1e-300 has too few bits left for its logarithm to be compared.
amounts = st.lists(st.floats(0, 100).map(lambda x: x if x > 1e-9 else 0.0), min_size=2, max_size=2)


@pytest.mark.filterwarnings("ignore::evenhand.errors.UndefinedWarning")
@given(amounts, amounts, amounts)
def test_log_ratios_are_logs_of_ratios_and_flip_with_the_sides(received, utility, gained):
    for plain, logged, sums in (
        (m.dp, m.log_dp, {}),
        (m.eur, m.log_eur, {"utility": utility}),
        (m.rur, m.log_rur, {"utility": utility, "gained": gained}),
    ):
        ratio, log = plain(received, **sums), logged(received, **sums)
        swapped = logged(received, protected=1, versus=0, **sums)
        if math.isnan(ratio):
            assert math.isnan(log)
        elif 0 < ratio < math.inf:
            assert log == pytest.approx(math.log(ratio), abs=1e-9)
        assert swapped == pytest.approx(-log, abs=1e-9, nan_ok=True)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=6), st.data())
def test_expected_exposure_parts_add_up_for_any_sums(received, data):
    due = data.draw(st.lists(st.floats(0, 10), min_size=len(received), max_size=len(received)))
    loss = m.eed(received) - m.eer(received, due=due) + m.target_norm(received, due=due)
    assert m.eel(received, due=due) == pytest.approx(loss, abs=1e-9)
    assert m.eel(received, due=received) == 0
    assert m.eed(received) >= sum(received) ** 2 / len(received) - 1e-9


@pytest.mark.parametrize(
    "call",
    [
        lambda: m.dp([1, -1]),
        lambda: m.dp([1, math.nan]),
        lambda: m.dp(["x", 1]),
        lambda: m.eur([1, 1]),
        lambda: m.eur([1, 1], utility=[1]),
        lambda: m.dp([1, 1], per_item=True),
        lambda: m.eel([1, 1]),
        lambda: m.eed([1, 1], unbiased=True),
        lambda: m.eed([1, 1], level="item"),
        lambda: m.iaa([1, 1], utility=[1]),
        lambda: m.iaa([1, 1], utility=[-1, 1]),
        lambda: m.target_exposure([1, 0], "rbp"),
    ],
)
def test_sums_that_make_no_sense_are_refused(call):
    with pytest.raises(eh.EvenhandError):
        call()

"""A change taken apart: against brute force over all subsets and all orders, and in worlds where one part was planted."""

from itertools import combinations, permutations
from math import factorial

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits import explain
from evenhand.cli import main
from evenhand.metrics.decomposition import Worlds

CALL = {"unit": "who", "amount": "views", "arm": "month", "control": "may", "population": None, "rng": 1}


def table(rng, units=60, sources=("home", "search"), *, whole=False, groups=("x", "y")):
    """Two months of amounts by source; some units enter, some leave."""
    frames = []
    gone = {"may": rng.random(units) < 0.15, "june": rng.random(units) < 0.1}
    for month in ("may", "june"):
        for source in sources:
            amounts = rng.lognormal(1, 1, units) * ~gone[month]
            amounts = amounts.round() if whole else amounts
            frames.append(
                pl.DataFrame({
                    "who": np.arange(units), "month": month, "via": source,
                    "views": amounts.astype(int) if whole else amounts,
                    "band": [groups[i % len(groups)] for i in range(units)],
                })
            )  # fmt: skip
    return pl.concat(frames)


def parts_of(result):
    return {(part, group): x for part, group, x in result.frame.select("part", "group", "estimate").rows()}


def amounts(log, month, source):
    rows = log.filter(month=month, via=source).sort("who")
    return rows["views"].to_numpy().astype(float)


def shapley(value, players):
    """By the definition: the weighted mean of what a player adds to every set of others."""
    parts = {}
    for i in players:
        others = [p for p in players if p != i]
        sets = [set(s) for size in range(len(others) + 1) for s in combinations(others, size)]
        weight = {len(s): factorial(len(s)) * factorial(len(others) - len(s)) / factorial(len(players)) for s in sets}
        parts[i] = sum(weight[len(s)] * (value(s | {i}) - value(s)) for s in sets)
    return parts


@pytest.mark.parametrize("metric", ["gini", "atkinson(epsilon=0.5)", "theil", "top_share(p=0.1)"])
def test_parts_are_shapley_values_of_all_subsets(metric):
    log = table(np.random.default_rng(5), sources=("home", "search", "push"), groups=("x", "y", "z"))
    found = parts_of(eh.explain(log, **CALL, source="via", group="band", metric=metric, interval=None))
    name, _, rest = metric.partition("(")
    parameters = eval(f"dict({rest.rstrip(')')})")

    def m(x):
        return getattr(eh.metrics, name)(x, **parameters)

    by = {month: {s: amounts(log, month, s) for s in ("home", "search", "push")} for month in ("may", "june")}
    total = {month: sum(x.values()) for month, x in by.items()}
    who = np.arange(60)
    kinds = {"entry": (total["may"] == 0) & (total["june"] > 0), "exit": (total["may"] > 0) & (total["june"] == 0)}
    kinds["stayed"] = ~(kinds["entry"] | kinds["exit"])
    bands = {b: who % 3 == i for i, b in enumerate("xyz")}

    def of_units(members):
        return lambda chosen: m(np.where(sum([members[c] for c in chosen], who < 0), total["june"], total["may"]))

    expected = {(k, None): v for k, v in shapley(of_units(kinds), list(kinds)).items()}
    expected |= {("group", k): v for k, v in shapley(of_units(bands), list(bands)).items()}
    by_source = shapley(lambda c: m(sum(by["june" if s in c else "may"][s] for s in by["may"])), list(by["may"]))
    expected |= {("source", k): v for k, v in by_source.items()}
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=1e-12), key
    assert found["change", None] == pytest.approx(m(total["june"]) - m(total["may"]), abs=1e-12)


@pytest.mark.parametrize("whole", [False, True])
def test_every_way_adds_up_to_the_change(whole):
    log = table(np.random.default_rng(6), whole=whole)
    found = parts_of(eh.explain(log, **CALL, source="via", group="band"))
    volume = found.get(("volume", None), 0.0)
    assert (("volume", None) in found) == whole
    for names in (("entry", "exit", "stayed"), ("source",), ("group",)):
        total = sum(v for (part, _), v in found.items() if part in names)
        assert volume + total == pytest.approx(found["change", None], abs=1e-12)


def test_volume_is_the_mean_of_thinned_events():
    rng = np.random.default_rng(7)
    few = rng.poisson(2.0, 2000)
    many = few * 3
    log = pl.DataFrame({
        "who": [*range(2000)] * 2, "month": ["may"] * 2000 + ["june"] * 2000, "views": [*few, *many],
    })  # fmt: skip
    found = parts_of(eh.explain(log, **CALL, interval=None))
    thinned = np.mean([eh.metrics.gini(rng.binomial(many, 1 / 3)) for _ in range(200)])
    assert found["change", None] == pytest.approx(0.0, abs=1e-12)
    assert found["volume", None] == pytest.approx(eh.metrics.gini(many) - thinned, abs=0.002)


@pytest.mark.parametrize("metric", ["gini", "theil"])
def test_movers_are_what_leaving_out_each_unit_takes_off(metric):
    log = table(np.random.default_rng(8), whole=True, units=40)
    found = eh.explain(log, **CALL, metric=metric, interval=None, top=40)
    m = getattr(eh.metrics, metric)
    before, after = (sum(amounts(log, month, s) for s in ("home", "search")) for month in ("may", "june"))
    change = m(after) - m(before)
    effect = {i: change - (m(np.delete(after, i)) - m(np.delete(before, i))) for i in range(40)}
    rows = found.movers.rows(named=True)
    assert [abs(r["effect"]) for r in rows] == pytest.approx(sorted(map(abs, effect.values()), reverse=True), abs=1e-12)
    for r in rows:
        assert r["effect"] == pytest.approx(effect[r["unit"]], abs=1e-12)
        assert (r["before"], r["after"]) == (before[r["unit"]], after[r["unit"]])
    largest = max(effect, key=lambda i: abs(effect[i]))
    assert parts_of(found)["without_largest", None] == pytest.approx(change - effect[largest], abs=1e-12)


def test_weighted_units_count_as_often_as_they_weigh():
    log = table(np.random.default_rng(9), units=30).with_columns(weight=pl.lit(1.0) + pl.col("who") % 2)
    twice = pl.concat([
        log.filter(pl.col("who") % 2 == 0),
        *(log.filter(pl.col("who") % 2 == 1).with_columns(who=pl.col("who") + 1000 * k) for k in (1, 2)),
    ])  # fmt: skip
    weighted = parts_of(eh.explain(log, **CALL, source="via", weight="weight", interval=None))
    repeated = parts_of(eh.explain(twice, **CALL, source="via", interval=None))
    for key in (k for k in weighted if k[0] not in ("without_largest", "without_top_1%")):
        assert weighted[key] == pytest.approx(repeated[key], abs=1e-12), key


def test_walked_orders_add_up_and_come_near_all_orders():
    walked = Worlds._walked(5, np.random.default_rng(1))
    value = np.random.default_rng(2).normal(size=32)
    code = {tuple(s): value[sum(2**i for i, on in enumerate(s) if on)] for s in map(tuple, walked.switched.tolist())}
    values = np.array([code[tuple(s)] for s in walked.switched.tolist()])
    parts, error = walked.shares @ values, walked.sampling_error(values)
    exact = np.zeros(5)
    for order in permutations(range(5)):
        on = 0
        for player in order:
            exact[player] += (value[on | 2**player] - value[on]) / 120
            on |= 2**player
    assert parts.sum() == pytest.approx(value[31] - value[0], abs=1e-12)
    assert (np.abs(parts - exact) < 4 * error).all()
    assert (error < 0.1).all()


def test_more_than_twelve_groups_add_up_too():
    log = table(np.random.default_rng(3), units=120, groups=[f"g{i:02}" for i in range(20)])
    found = eh.explain(log, **CALL, group="band", interval=None)
    parts = parts_of(found)
    groups = [v for (part, _), v in parts.items() if part == "group"]
    assert len(groups) == 20
    assert sum(groups) == pytest.approx(parts["change", None], abs=1e-12)
    assert "standard error of a part at most" in found.provenance["orders"]


def test_intervals_hold_the_error_of_random_orders(monkeypatch):
    monkeypatch.setattr("evenhand.metrics.decomposition.ORDERS", 4)
    log = table(np.random.default_rng(3), units=120, groups=[f"g{i:02}" for i in range(14)])
    errors, widths = explain._order_errors, []
    for certain in (False, True):
        monkeypatch.setattr(explain, "_order_errors", lambda *given, k=1 - certain: k * errors(*given))
        found = eh.explain(log, **CALL, group="band").frame.filter(part="group")
        widths.append((found["high"] - found["low"]).to_numpy())
    assert (widths[0] > widths[1]).all()


def test_a_change_that_rests_on_one_unit_says_so():
    rng = np.random.default_rng(4)
    base = rng.lognormal(0, 0.3, 300)
    later = base * rng.lognormal(0, 0.05, 300)
    later[0] = 400.0
    log = pl.DataFrame({"who": [*range(300)] * 2, "month": ["may"] * 300 + ["june"] * 300, "views": [*base, *later]})
    found = eh.explain(log, **CALL)
    assert found.movers["unit"][0] == 0
    rows = {r["part"]: r for r in found.frame.rows(named=True)}
    assert rows["change"]["estimate"] > 0.3 > abs(rows["without_largest"]["estimate"])
    made = {c.where["part"]: c.made for c in found.claims}
    assert ("rests on one who" in found.headline) == (made["change"] and not made["without_largest"])


def test_arms_without_a_common_unit_have_a_change_only_and_a_pointer():
    log = table(np.random.default_rng(5)).with_columns(who=pl.concat_str("month", "who"))
    found = eh.explain(log, **CALL)
    assert found.frame["part"].to_list() == ["change", "without_largest", "without_top_1%"]
    assert "eh.experiment" in found.sentences()[-1]
    with pytest.raises(eh.EvenhandError, match="how many units each arm has"):
        eh.explain(log, **CALL | {"population": 500})


def test_small_parts_are_hidden_and_nobody_is_named():
    log = table(np.random.default_rng(6), units=400, groups=["x"] * 99 + ["rare"])
    found = eh.explain(log, **CALL, group="band", min_units=10)
    assert found.movers.is_empty()
    notes = {(r["part"], r["group"]): r["note"] for r in found.frame.rows(named=True)}
    assert notes["without_largest", None] == "suppressed"
    assert "rare" not in found.to_json()


def test_the_population_counts_who_received_nothing_both_times():
    log = table(np.random.default_rng(6))
    found = parts_of(eh.explain(log, **CALL | {"population": 100}, interval=None))
    before, after = (sum(amounts(log, month, s) for s in ("home", "search")) for month in ("may", "june"))
    padded = [np.concatenate([x, np.zeros(40)]) for x in (before, after)]
    expected = eh.metrics.gini(padded[1]) - eh.metrics.gini(padded[0])
    assert found["change", None] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"control": "april"}, "control='april' is no arm"),
        ({"arm": "via"}, "No arm is called 'control'"),
        ({"source": "month"}, "also named as arm"),
        ({"group": "via"}, "units"),
        ({"metric": "awrf"}, "does not fit this question"),
    ],
)
def test_bad_calls_are_refused_in_words(changes, words):
    call = CALL | ({"control": None} if "arm" in changes else {}) | changes
    with pytest.raises(eh.EvenhandError, match=words):
        eh.explain(table(np.random.default_rng(1)), **call)


def test_a_missing_source_is_a_label_of_its_own():
    log = table(np.random.default_rng(2))
    named = log.with_columns(pl.col("via").replace("search", "(missing)"))
    missing = log.with_columns(via=pl.when(pl.col("via") != "search").then(pl.col("via")))
    frames = [eh.explain(t, **CALL, source="via", interval=None).frame.filter(part="source") for t in (named, missing)]
    parts = [dict(frame.select("group", "estimate").rows()) for frame in frames]
    assert parts[0] == pytest.approx(parts[1])


def test_a_part_that_nobody_is_in_is_zero_and_not_said():
    log = table(np.random.default_rng(2)).with_columns(pl.col("views") + 1)
    result = eh.explain(log, **CALL)
    parts = parts_of(result)
    assert (parts["entry", None], parts["exit", None]) == (0.0, 0.0)
    assert not any("entered" in line or "left" in line for line in result.sentences())
    assert "the largest part" not in result.headline


def test_sentences_name_the_unit_that_the_change_goes_with_most(tmp_path):
    log = table(np.random.default_rng(2))
    result = eh.explain(log, **CALL)
    named = f"Without the who that it goes with most, {result.movers['unit'][0]} ("
    assert any(line.startswith(named) for line in result.sentences())
    (tmp_path / "result.json").write_text(result.to_json())
    assert eh.read.result(tmp_path / "result.json").sentences() == result.sentences()


def test_two_periods_in_an_experiment_show_the_parts_of_the_change():
    log = table(np.random.default_rng(2))
    call = {k: v for k, v in CALL.items() if k != "rng"}
    found = eh.experiment(log, **call, randomized=None, metrics="gini", rng=1)
    parts = parts_of(eh.explain(log, **CALL, interval=None))
    (line,) = [line for line in found.sentences() if line.startswith("Of the change of the Gini index: ")]
    largest = max((abs(parts[kind, None]), kind) for kind in ("entry", "exit", "stayed"))[1]
    assert line.split(": ")[1].startswith(f"{parts[largest, None]:+.4f}")


def test_a_stream_that_can_be_read_once_is_explained():
    import pyarrow as pa

    log = table(np.random.default_rng(2)).to_arrow()
    call = CALL | {"interval": None}
    streams = [pa.RecordBatchReader.from_batches(log.schema, log.to_batches()) for _ in range(2)]
    assert (
        eh.explain(streams[0], **call).frame["estimate"][0].as_py()
        == eh.explain(log, **call).frame["estimate"][0].as_py()
    )
    found = eh.experiment(streams[1], **call, randomized=None, metrics="gini")
    assert "Of the change of the Gini index: " in found.sentences()[-1]


def test_three_arms_are_refused():
    log = table(np.random.default_rng(1))
    more = pl.concat([log, log.filter(month="may").with_columns(month=pl.lit("july"))])
    with pytest.raises(eh.EvenhandError, match="rows of two of them"):
        eh.explain(more, **CALL)


def test_nothing_in_one_month_is_undefined_with_a_reason():
    log = table(np.random.default_rng(1)).with_columns(
        views=pl.when(pl.col("month") == "may").then(0.0).otherwise("views")
    )
    found = eh.explain(log, **CALL)
    row = found.frame.row(0, named=True)
    assert row["note"] == "zero_total"
    assert row["estimate"] != row["estimate"]


def test_the_command_line_writes_movers(tmp_path, capsys):
    table(np.random.default_rng(1)).write_csv(tmp_path / "log.csv")
    words = [
        "explain",
        str(tmp_path / "log.csv"),
        "--unit",
        "who",
        "--amount",
        "views",
        "--arm",
        "month",
        "--control",
        "may",
    ]
    assert (
        main(
            [*words, "--population", "none", "--source", "via", "--movers", str(tmp_path / "movers.csv"), "--top", "3"]
        )
        == 0
    )
    assert "stayed" in capsys.readouterr().out
    assert pl.read_csv(tmp_path / "movers.csv").columns == ["unit", "before", "after", "effect"]


def planted(rng, what):
    """Two months of 150 units in which one thing changed a lot."""
    n = 150
    base = {s: rng.lognormal(1, 0.8, n) for s in ("home", "search", "push")}
    group = np.arange(n) % 3
    frames = []
    for month in ("may", "june"):
        for source, x in base.items():
            amounts = x * rng.lognormal(0, 0.1, n)
            if month == "june":
                if what == "source" and source == "search":
                    amounts = amounts * base["search"]
                if what == "group":
                    amounts = np.where(group == 0, amounts / 4, amounts)
                if what == "stayed":
                    amounts = amounts * (base["home"] > 3) * 2 + amounts
            if what == "entry":
                amounts = np.where((np.arange(n) < 50) & (month == "may"), 0.0, amounts)
            frames.append(pl.DataFrame({"who": np.arange(n), "month": month, "via": source, "views": amounts,
                                        "band": [f"g{g}" for g in group]}))  # fmt: skip
    return pl.concat(frames)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "where", "group"),
    [("source", "source", "search"), ("group", "group", "g0"), ("entry", "entry", None), ("stayed", "stayed", None)],
)
def test_the_planted_part_is_the_largest(what, where, group):
    named = 0
    for world in range(4):
        found = eh.explain(
            planted(np.random.default_rng(world), what), **CALL | {"rng": world}, source="via", group="band"
        )
        rows = found.frame.rows(named=True)
        rivals = {(r["part"], r["group"]): abs(r["estimate"]) for r in rows
                  if r["part"] == where or (group is None and r["part"] in ("entry", "exit", "stayed"))}  # fmt: skip
        assert max(rivals, key=rivals.get) == (where, group)
        named += any(
            c.made and c.direction == "most" and c.where["part"] == where and c.group == group for c in found.claims
        )
    assert named >= 3


def test_parts_that_no_draw_defines_have_no_interval_and_no_warning():
    """Weights, groups and few units: in every draw some part is about nobody, so that it has no spread."""
    rows = [
        ("u36", "g0", "new", 1.0), ("u1", "g1", "control", 2.0), ("u37", "g1", "new", 2.0), ("u10", "g1", "new", 2.0),
        ("u16", "g1", "new", 2.0), ("u4", "g1", "new", 2.0), ("u39", "g0", "control", 1.0), ("u20", "g2", "control", 0.5),
        ("u36", "g0", "control", 1.0), ("u11", "g2", "control", 0.5), ("u25", "g1", "new", 2.0), ("u16", "g1", "new", 2.0),
    ]  # fmt: skip
    log = pl.DataFrame(rows, schema=["unit", "team", "arm", "weight"], orient="row")
    result = eh.explain(
        log,
        unit="unit",
        amount=None,
        arm="arm",
        population=None,
        group="team",
        metric="atkinson",
        weight="weight",
        rng=1,
    )
    undefined = result.frame.filter(pl.col("estimate").is_nan())
    assert "group" in undefined["part"].to_list()
    assert undefined["note"].null_count() == 0

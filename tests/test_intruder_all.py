"""The intruder with every audit: two tables that differ in fewer than `min_units` receivers must not be told apart.

Frame, sentences, report and charts are made of the findings and nothing else (`tests/test_intruder.py` looks at each of
them), so what is compared here is the saved result, and what a comparison and a history make of it. `EVENHAND_SEEDS=5,6 pytest tests/test_intruder_all.py` plays with other data.
"""

from __future__ import annotations

import os
import re
from datetime import date

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits.min_units import grid_step

pytestmark = pytest.mark.usefixtures("stopped_clock")
FEW = 8
SEEDS = [int(seed) for seed in os.environ.get("EVENHAND_SEEDS", "1,2").split(",")]
PLAIN = {"interval": None, "rng": 1, "min_units": FEW}
ENDS = [
    "generalized_entropy(alpha=200)",
    "generalized_entropy(alpha=-30)",
    "atkinson(epsilon=inf)",
    "top_share(p=0.02)",
]


def told(found: eh.Result) -> str:
    """The saved result, numbers to the digits that do not depend on threads."""
    return re.sub(r"\d+\.\d{9,}(e-?\d+)?", lambda n: f"{float(n[0]):.6g}", found.to_json())


def feed(seed: int) -> pl.DataFrame:
    """Three slices of authors, the last with three receivers, one row each."""
    draw = np.random.default_rng(seed)
    sizes = {"a": 40, "b": 25, "tiny": 3}
    land = [name for name, n in sizes.items() for _ in range(n)]
    return pl.DataFrame(
        {
            "who": [f"u{i}" for i in range(len(land))], "land": land, "views": draw.integers(1, 900, len(land)),
            "arm": ["control" if i % 2 else "new" for i in range(len(land))], "viewer": [f"v{i % 17}" for i in range(len(land))],
        }
    )  # fmt: skip


def richer(table: pl.DataFrame, column: str = "land") -> pl.DataFrame:
    """Somebody of the smallest has another amount."""
    return table.with_columns(views=pl.when(pl.col(column) == "tiny").then(7).otherwise(pl.col("views")))


def larger(table: pl.DataFrame, column: str = "land") -> pl.DataFrame:
    """There is one more of the smallest."""
    more = table.filter(pl.col(column) == "tiny").head(1).with_columns(who=pl.lit("new one"), viewer=pl.lit("v1"))
    return pl.concat([table, more])


def smaller(table: pl.DataFrame, column: str = "land") -> pl.DataFrame:
    """There is one less."""
    gone = table.filter(pl.col(column) == "tiny").head(1)
    return table.join(gone, on=table.columns, how="anti", maintain_order="left")


SLICED = {
    "inequality": lambda t: eh.inequality(t, unit="who", amount="views", population=None, by="land", **PLAIN),
    "inequality of rows": lambda t: eh.inequality(t, unit=None, amount="views", population=None, by="land", **PLAIN),
    "inequality, counted": lambda t: eh.inequality(t, unit="who", population=None, by="land", **PLAIN),
    "inequality with intervals": lambda t: eh.inequality(
        t, unit="who", amount="views", population=None, by="land", metrics=["gini", *ENDS], rng=1, min_units=FEW,
        interval="percentile(50)",
    ),
    "inequality by viewers": lambda t: eh.inequality(
        t, unit="who", amount="views", population=None, within="viewer", by="land", rng=1, min_units=FEW
    ),
    "sources": lambda t: eh.sources(t, unit="who", amount="views", source="arm", population=None, by="land", **PLAIN),
    "decompose": lambda t: eh.decompose(t, unit="who", amount="views", group="arm", population=None, by="land", **PLAIN),
    "criteria": lambda t: eh.criteria(
        t.filter(pl.col("land") != "b"), unit="who", amount="views", population=None, by="land", metrics="gini", draws=50,
        rng=1, min_units=FEW,
    ),
    "experiment on units": lambda t: eh.experiment(
        t, unit="who", amount="views", arm="arm", randomized="who", population=None, by="land", draws=99, rng=1, min_units=FEW
    ),
    "experiment on viewers": lambda t: eh.experiment(
        t.with_columns(arm=pl.when(pl.col("viewer").is_in([f"v{i}" for i in range(8)])).then(pl.lit("new")).otherwise(pl.lit("control"))),
        unit="who", amount="views", arm="arm", randomized="viewer", population=None, by="land", draws=99, rng=1, min_units=FEW,
    ),
}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("audit", SLICED)
def test_a_small_slice_leaves_no_trace_of_its_amounts_or_its_size(audit, seed):
    table = feed(seed)
    before = SLICED[audit](table)
    assert audit == "criteria" or {"tiny", "a"} <= set(before.to_dict()["columns"]["land"])
    for change in (richer, larger, smaller):
        assert told(before) == told(SLICED[audit](change(table))), change


ARMS = {
    "units": lambda t: eh.experiment(
        t, unit="who", amount="views", arm="land", control="a", randomized="who", population=None, draws=99, rng=1, min_units=FEW
    ),
    "nothing": lambda t: eh.inequality(t, unit="who", amount=["views", "other"], population=None, by="land", **PLAIN),
}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("audit", ARMS)
def test_a_small_arm_or_amount_leaves_no_trace(audit, seed):
    table = feed(seed).with_columns(other=pl.col("views") % 97 + 1)
    before = ARMS[audit](table)
    for change in (richer, larger, smaller):
        assert told(before) == told(ARMS[audit](change(table))), change


def swapped(table: pl.DataFrame, one: str, other: str, names: pl.Series) -> pl.DataFrame:
    """Those named are of the other group than they were."""
    flip = pl.col("g").replace({one: other, other: one})
    return table.with_columns(g=pl.when(pl.col("who").is_in(names.implode())).then(flip).otherwise(pl.col("g")))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("index", ["gini", "theil", "ge(alpha=90)", "atkinson(epsilon=0.5)"])
def test_groups_that_are_taken_together_cannot_be_told_apart(index, seed):
    table = feed(seed).rename({"land": "g"})
    names = table.filter(pl.col("g").is_in(["b", "tiny"]))["who"].sample(4, seed=seed)
    call = {"unit": "who", "amount": "views", "group": "g", "index": index, **PLAIN}
    for population in (None, {"a": 100, "b": 60, "tiny": 30}):
        before, after = (
            eh.decompose(t, population=population, **call) for t in (table, swapped(table, "b", "tiny", names))
        )
        assert told(before) == told(after)
        assert {r["note"] for r in before.findings.rows() if r["group"] in ("b", "tiny")} == {"suppressed"}
        assert "(small groups)" in before.findings.columns["group"]


@pytest.mark.parametrize("seed", SEEDS)
def test_sources_that_are_taken_together_cannot_be_told_apart(seed):
    draw = np.random.default_rng(seed)
    rows = [(f"u{i}", "home", int(draw.integers(1, 900))) for i in range(40)]
    rows += [(f"u{i}", "search", int(draw.integers(1, 900))) for i in range(0, 40, 2)]
    rows += [(f"u{i}", "mail", int(draw.integers(1, 900))) for i in range(3)]
    table = pl.DataFrame(rows, schema=["who", "g", "views"], orient="row")
    call = {"unit": "who", "amount": "views", "source": "g", "population": 60, **PLAIN}
    moved = table.filter(pl.col("g") == "search")["who"].slice(4).sample(3, seed=seed)
    before, after = (eh.sources(t, **call) for t in (table, swapped(table, "search", "mail", moved)))
    shown = {r["group"] for r in before.findings.rows() if r["note"] != "suppressed"}
    assert shown == {None, "home", "(small sources)"}
    assert told(before) == told(after)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_reads_the_ends_knows_nothing_finer_than_min_units(seed):
    """The highest gives to the next and the lowest takes from the one above it: their runs keep their sums."""
    x = np.sort(np.random.default_rng(seed).integers(10**5, 10**6, 5 * FEW))
    y = x.copy()
    y[[0, 1, -2, -1]] += [-50_000, 50_000, (x[-1] - x[-2]) // 2, -((x[-1] - x[-2]) // 2)]
    metrics = [
        *ENDS, "percentile(p=0.99)", "percentile_ratio", "share_ratio", "palma", "bottom_share(p=0.02)", "equal_share",
        "equivalent_to_top(p=0.02)",
    ]  # fmt: skip
    call = {"unit": "u", "amount": "v", "population": None, "metrics": metrics, **PLAIN}
    before, after = (eh.inequality(pl.DataFrame({"u": range(len(z)), "v": z}), **call) for z in (x, y))
    assert told(before) == told(after)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slice_is_hidden_where_as_many_figures_are_asked_as_it_has_units(seed):
    x = np.random.default_rng(seed).integers(1, 10**6, FEW + 2)
    table = pl.DataFrame({"u": range(len(x)), "v": x})
    powers = [f"generalized_entropy(alpha={a})" for a in np.linspace(0.1, 2, len(x)).round(3).tolist()]
    call = {"unit": "u", "amount": "v", "population": None, **PLAIN}
    assert set(eh.inequality(table, metrics=powers, **call).findings.columns["note"]) == {"suppressed"}
    assert "suppressed" not in eh.inequality(table, metrics=powers[:5], **call).findings.columns["note"]


def candidates(seed: int, rows: int = 900) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    score = draw.beta(2, 2, rows)
    group = np.where(draw.random(rows) < 0.12 + 0.3 * (score < 0.3), "b", "a")
    return pl.DataFrame({"s": score, "y": (draw.random(rows) < score).astype(int), "g": group})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("more", [{}, {"kind": "classification"}, {"kind": "classification", "threshold": 0.4}])
def test_an_outcome_test_tells_no_score_and_no_count_of_few_rows(more, seed):
    table = candidates(seed)
    found = eh.outcome_test(table, score="s", outcome="y", group="g", reference="a", bins=12, min_units=FEW, **more)
    rows, facts = list(found.findings.rows()), found.findings.provenance
    scores = table["s"].to_list()
    edges = {r[end] for r in rows for end in ("bin_low", "bin_high") if r["bin"] is not None}
    edges |= {facts["scope"]["low"], facts["scope"]["high"], *facts["bins"]["edges"]}
    assert not edges & set(scores)
    cells = {(r["bin"], r["group"]): r["units"] for r in rows if r["metric"] == "mean_outcome"}
    whole = {r["bin"]: r["units"] for r in rows if r["metric"] == "bin_test" and r["units"] is not None}
    sizes = {r["group"]: r["units"] for r in rows if r["metric"] in ("base_rate", "precision")}
    smallest = min(n for n in cells.values() if n)
    for margin, at in ((whole, 0), (sizes, 1)):
        for name, many in margin.items():
            parts = [n for key, n in cells.items() if key[at] == name and n]
            left = many - sum(parts)
            noise = sum(grid_step(n / smallest) / 2 + 0.5 for n in (many, *parts))  # counts are rounded, each by itself
            assert abs(left) <= noise or left >= FEW
    assert any(n is None for n in cells.values()) or more


def ranked(seed: int) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    rows = []
    for q in range(33):
        for rank, i in enumerate(draw.permutation(60)[:20].tolist(), 1):
            land = "tiny" if q < 3 else "de" if q % 2 else "fr"
            rows.append((f"q{q}", f"i{i}", rank, "x" if i < 25 else "y", int(draw.random() < 0.4), 100.0 - rank, land))
    return pl.DataFrame(rows, schema=["request", "item", "rank", "g", "rel", "score", "land"], orient="row")


RANKED = {
    "prefix": lambda t: eh.prefix(t, group="g", by="land", chance=None, **PLAIN),
    "prefix by rows": lambda t: eh.prefix(t.drop("item"), group="g", protected="x", by="land", chance=None, **PLAIN),
    "exposure": lambda t: eh.exposure(t, groups="g", relevance="rel", protected="x", by="land", **PLAIN),
    "pairwise": lambda t: eh.pairwise(t, groups="g", relevance="rel", protected="x", by="land", **PLAIN),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("audit", RANKED)
def test_a_slice_of_few_rankings_leaves_no_trace_of_its_lists_or_their_number(audit, seed):
    table = ranked(seed)
    turned = table.with_columns(
        rank=pl.when(pl.col("land") == "tiny").then(21 - pl.col("rank")).otherwise(pl.col("rank")),
        score=pl.when(pl.col("land") == "tiny").then(-pl.col("score")).otherwise(pl.col("score")),
    )
    fewer = table.filter(pl.col("request") != "q0")
    left = [told(RANKED[audit](t)) for t in (table, turned, fewer)]
    assert left[0] == left[1] == left[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_made_of_results_tells_no_more(seed, tmp_path):
    table = feed(seed)
    made = []
    for k, one in enumerate((table, richer(table), larger(table))):
        first, second = (SLICED["inequality"](t) for t in (one, one.with_columns(views=pl.col("views") + 1)))
        compared = eh.compare(first, second, independent=True, rng=1)
        log = eh.history(tmp_path / f"log{k}.parquet")
        log.append(first, at=date(2026, 1, 1))
        log.append(second, at=date(2026, 1, 2))
        kept = str(pl.read_parquet(tmp_path / f"log{k}.parquet").drop("kept", strict=False).to_dicts())
        made.append(told(compared) + kept + log.frame.write_csv())
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recommender_names_no_item_that_few_users_were_shown(seed):
    draw = np.random.default_rng(seed)
    scores = draw.random((60, 40)) + np.linspace(0, 0.7, 40)
    found = eh.recommender(scores, user_groups=["a"] * 30 + ["b"] * 30, top=3, **PLAIN)
    points, slots = found.findings.curves["differences"], 90
    for share in (*points["versus_share"], *points["protected_share"]):
        assert share == 0 or round(share * slots) >= FEW - 1  # as rounded
    steps = np.diff(np.array(found.findings.curves["lorenz"]["population"]) * 40)
    assert steps.min() >= 1 - 1e-9

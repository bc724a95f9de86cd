"""Recommenders by country, week and system: a slice is what the same rows alone would be, and no slice moves another."""

from __future__ import annotations

from datetime import date

import duckdb
import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main

HOW = {"top": 3, "rng": 5, "interval": "percentile(49)", "chance": "permutation(29)"}
METRICS = ["mad", "exposure_tv", "precision_ratio", "item_gini", "aggregate_diversity"]


def log(seed: int = 1) -> pl.DataFrame:
    """Two systems that score 8 items for the users of three countries, some scores missing."""
    draw = np.random.default_rng(seed)
    rows = [
        (name, land, f"u{u}", f"i{i}", float(draw.random()), "ab"[u % 2])
        for land, users in {"at": range(20), "ch": range(15, 40), "li": range(40, 44)}.items()
        for name in ("new", "old")
        for u in users
        for i in range(8)
        if draw.random() < 0.9
    ]
    return pl.DataFrame(rows, schema=["model", "land", "user", "item", "score", "side"], orient="row")


def truth(seed: int = 2) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    return pl.DataFrame(
        [(f"u{u}", f"i{i}") for u in range(60) for i in range(8) if draw.random() < 0.4],
        schema=["user", "item"], orient="row",
    )  # fmt: skip


def groups() -> pl.DataFrame:
    return pl.DataFrame({"user": [f"u{u}" for u in range(60)], "group": ["ab"[u % 2] for u in range(60)]})


def estimates(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select("metric", "group", "estimate", "chance", "units", "least", "most")


def test_a_slice_is_what_its_rows_alone_would_be():
    table = log()
    found = eh.recommender(
        table, by="land", system="model", user_groups=groups(), relevant=truth(), metrics=METRICS, **HOW
    )
    frame = found.frame
    assert frame.columns[:4] == ["land", "system", "metric", "group"]
    assert frame.select("land", "system").unique().height == 6
    for (land, name), own in frame.group_by("land", "system", maintain_order=True):
        rows = table.filter((pl.col("land") == land) & (pl.col("model") == name))
        here = rows.select("user").unique()
        alone = eh.recommender(
            rows, user_groups=groups().join(here, on="user", how="semi"), relevant=truth().join(here, on="user", how="semi"),
            metrics=METRICS, **HOW,
        ).frame  # fmt: skip
        assert estimates(own).drop("chance").equals(estimates(alone).drop("chance"), null_equal=True), (land, name)


def test_between_systems_alone_all_listed_users_count_as_they_do_for_one():
    table = log()
    found = eh.recommender(
        table.filter(land="at"), system="model", user_groups=groups(), metrics=METRICS[:2], **HOW
    ).frame
    alone = eh.recommender(table.filter(land="at", model="old"), user_groups=groups(), metrics=METRICS[:2], **HOW).frame
    assert estimates(found.filter(system="old")).drop("chance").equals(estimates(alone).drop("chance"))
    assert found["units"].to_list() == [60] * 4


def test_one_more_slice_changes_no_number_of_another():
    table = log().filter(model="old")
    few = eh.recommender(table.filter(pl.col("land") != "li"), by="land", user_groups="side", score=None, rng=5)
    all_of = eh.recommender(table, by="land", user_groups="side", score=None, rng=5)
    kept = all_of.frame.filter(pl.col("land") != "li").drop("p_adjusted")
    assert few.frame.drop("p_adjusted").equals(kept, null_equal=True)


def test_every_engine_slices_alike():
    table = log()
    asked = {"by": "land", "system": "model", "user_groups": "side", "metrics": METRICS[:2], **HOW}
    found = eh.recommender(table, **asked)
    for other in (table.to_pandas(), duckdb.from_arrow(table.to_arrow())):
        assert eh.recommender(other, **asked).to_dict()["columns"] == found.to_dict()["columns"]


def test_slices_may_be_days_numbers_or_missing():
    day = {"at": date(2026, 11, 9), "ch": date(2026, 11, 16), "li": None}
    table = (
        log().filter(model="old").with_columns(pl.col("land").replace_strict(day, return_dtype=pl.Date).alias("week"))
    )
    found = eh.recommender(table.to_pandas(), by="week", metrics="item_gini", interval=None, top=2, rng=1)
    assert [str(w)[:10] for w in found.findings.columns["week"]] == ["2026-11-09", "2026-11-16", "None"]
    numbered = table.with_columns(pl.col("land").replace_strict({"at": 1.0, "ch": 2.0, "li": None}).alias("land"))
    again = eh.recommender(numbered, by="land", metrics="item_gini", interval=None, top=2, rng=1)
    assert again.findings.columns["land"] == [1, 2, None]
    assert again.findings.columns["estimate"] == found.findings.columns["estimate"]


def test_what_was_shown_says_in_which_slice():
    shown = eh.recommender(log(), by="land", system="model", **HOW).shown
    assert shown.columns == ["land", "system", "user", "item", "shown"]
    assert shown.filter(land="li", system="new").group_by("user").len()["len"].to_list() == [3] * 4
    best = log().filter(land="ch", model="old").sort("score", descending=True).group_by("user").head(3)
    mine = shown.filter(land="ch", system="old")
    assert set(mine.select("user", "item").rows()) == set(best.select("user", "item").rows())


def test_a_truth_with_the_slice_columns_is_the_truth_of_the_slice():
    table = log().filter(model="old")
    both = pl.concat([truth(1).with_columns(land=pl.lit("at")), truth(2).with_columns(land=pl.lit("ch"))])
    asked = {"user_groups": groups(), "metrics": "recall_ratio", **HOW, "interval": None}
    found = eh.recommender(table.filter(pl.col("land") != "li"), by="land", relevant=both, **asked).frame
    for land, seed in (("at", 1), ("ch", 2)):
        here = pl.concat([table.filter(land=land)["user"], truth(seed)["user"]]).unique().to_frame()
        mine = {**asked, "user_groups": groups().join(here, on="user", how="semi")}
        alone = eh.recommender(table.filter(land=land), relevant=truth(seed), **mine).frame
        assert found.filter(land=land)["estimate"].to_list() == alone["estimate"].to_list(), land


def test_small_slices_and_groups_are_hidden_slice_by_slice():
    found = eh.recommender(
        log(), by="land", system="model", user_groups="side", min_units=5, metrics=METRICS[:2], **HOW
    )
    rows = found.findings.rows()
    assert {r["note"] for r in rows if r["land"] == "li"} == {"suppressed"}
    assert all(r["note"] != "suppressed" for r in rows if r["land"] != "li")
    provenance = found.findings.provenance
    assert provenance["groups"]["land=li, system=new"] == {"a": "suppressed", "b": "suppressed"}
    assert provenance["items"]["land=li, system=new"] is None
    assert provenance["rows"] is None, "all rows less those of the other slices would tell"
    assert not any("li" in map(str, held["land"]) for held in found.findings.curves.values())


def test_two_tables_that_differ_in_a_hidden_slice_are_not_told_apart():
    tiny = pl.col("land") == "li"
    base = log()
    others = [
        base.with_columns(score=pl.when(tiny & (pl.col("item") == "i3")).then(5.0).otherwise("score")),
        base.filter(~(tiny & (pl.col("user") == "u40"))),
        base.with_columns(item=pl.when(tiny & (pl.col("item") == "i3")).then(pl.lit("secret")).otherwise("item")),
    ]
    asked = {"by": "land", "system": "model", "user_groups": "side", "min_units": 5, **HOW, "interval": None}
    told = eh.recommender(base, **asked).to_json()
    assert all(eh.recommender(other, **asked).to_json() == told for other in others)


def test_a_group_that_a_slice_lacks_is_absent_there():
    table = log().filter((pl.col("land") != "li") | (pl.col("side") == "a"))
    frame = eh.recommender(table, by="land", system="model", user_groups="side", metrics="mad", **HOW).frame
    assert frame.filter(land="li")["note"].to_list() == ["group_absent"] * 2
    with pytest.raises(eh.EvenhandError, match="'z'"):
        eh.recommender(table, by="land", user_groups="side", protected="z", **HOW)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"scores": [[0.1, 0.2]], "by": "land"}, "scores is a matrix"),
        ({"by": "lnd"}, "Did you mean 'land'"),
        ({"system": "modle"}, "Did you mean 'model'"),
        ({"by": ["land", "land"]}, "twice"),
        ({"by": "metric"}, "also a column of every result"),
        ({}, "by or system"),
    ],
)  # fmt: skip
def test_what_cannot_be_sliced_is_refused(more, says):
    with pytest.raises(eh.EvenhandError, match=says):
        eh.recommender(**{"scores": log().with_columns(metric=pl.lit(1)), "top": 2, **more})


def test_sentences_and_charts_name_the_slice():
    found = eh.recommender(log(), by="land", system="model", user_groups="side", **HOW)
    assert any("at" in s and "new" in s for s in found.sentences())
    for kind in ("differences", "lorenz"):
        assert "at, new" in found.plot(kind).to_json(validate=False), kind


def test_the_command_line_slices_too(tmp_path, capsys):
    log().write_csv(tmp_path / "log.csv")
    asked = ["--by", "land", "--system", "model", "--user-groups", "side", "--top", "2", "-m", "mad", "--seed", "1"]
    assert main(["recommender", str(tmp_path / "log.csv"), *asked, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("at,new,mad,b vs a,")


def test_agreement_ranks_the_systems_of_every_slice():
    found = eh.recommender(log(), by="land", system="model", user_groups="side", metrics=METRICS[:2], **HOW)
    assert eh.agreement(found).frame.columns[0] == "land"


def test_recommenders_of_a_result_are_not_compared_two_by_two():
    found = eh.recommender(log(), by="land", system="model", user_groups="side", metrics=["mad"], **HOW)
    with pytest.raises(eh.EvenhandError, match="does not hold its requests"):
        eh.compare(found)

"""`eh.pairwise`: the same numbers as the double loop, on every engine, with intervals that hold the sampling error."""

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from golden_cases import cases


def world(requests=40, items=30, seed=0, effect=0.0):
    """Scores that follow relevance, with a handicap for the protected group; one item in ten has no group."""
    rng = np.random.default_rng(seed)
    side = {f"i{d}": [None, *"PU" * 5][rng.integers(0, 11)] for d in range(items)}
    rows = []
    for q in range(requests):
        for d, group in side.items():
            y = int(rng.integers(0, 3))
            rows.append((f"q{q}", d, round(float(y + rng.normal() - effect * (group == "P")), 1), y, group))
    return pl.DataFrame(rows, schema=["request", "item", "score", "relevance", "group"], orient="row")


def by_definition(table, above, below, average="pooled"):
    shares, wins, pairs = [], 0.0, 0
    for _, own in table.group_by("request", maintain_order=True):
        won = count = 0
        rows = own.rows(named=True)
        for a in rows:
            for b in rows:
                sides = a["group"] == above and (b["group"] == below or (below == "*" and b["group"] is not None))
                if sides and a["relevance"] > b["relevance"]:
                    count += 1
                    won += 1.0 if a["score"] > b["score"] else 0.5 if a["score"] == b["score"] else 0.0
        wins, pairs = wins + won, pairs + count
        shares += [won / count] if count else []
    return float(np.mean(shares)) if average == "macro" else wins / pairs


def rows_of(result):
    return {(r["metric"], r["group"]): r for r in pl.DataFrame(result.findings.columns, strict=False).rows(named=True)}


@cases(["pairwise_accuracy", "pair"])
def test_cases_of_the_book_through_the_audit(case):
    args, expect = case["args"], case["expect"]
    scores = {q: r["score"] for q, r in enumerate(args["requests"])}
    relevance = {q: r["rel"] for q, r in enumerate(args["requests"])}
    ours, theirs = args.get("plus", args.get("g1")), args.get("minus")
    found = rows_of(
        eh.pairwise(scores, groups=args["groups"], relevance=relevance, protected=ours, versus=theirs, interval=None)
    )
    if case["fn"] == "pairwise_accuracy":
        row = found["accuracy", f"{args['g1']}>{args['g2'] or '*'}"]
        assert row["estimate"] == pytest.approx(expect, abs=case["tol"])
    elif "nan" in expect:
        assert math.isnan(found["intra_acc", ours]["estimate"])
        assert found["intra_acc", ours]["note"] == expect["nan"]
    else:
        assert found["intra_acc", ours]["estimate"] == pytest.approx(expect["IntraAcc"], abs=case["tol"])
        assert found["inter_acc", ours]["estimate"] == pytest.approx(expect["InterAcc"], abs=case["tol"])


@pytest.mark.parametrize("average", ["pooled", "macro"])
def test_every_accuracy_equals_the_double_loop(average):
    table = world(12, 15, seed=3)
    found = rows_of(
        eh.pairwise(
            table,
            groups="group",
            relevance="relevance",
            protected="P",
            average=average,
            interval=None,
            metrics="accuracy",
        )
    )
    assert set(found) == {("accuracy", f"{a}>{b}") for a in "PU" for b in "PU*"}
    for (_, pair), row in found.items():
        assert row["estimate"] == pytest.approx(by_definition(table, *pair.split(">"), average))


def test_differences_are_those_of_the_accuracies():
    for average in ("pooled", "macro"):
        found = rows_of(
            eh.pairwise(world(), groups="group", relevance="relevance", protected="P", average=average, rng=1)
        )
        a = {pair: found["accuracy", pair]["estimate"] for pair in ("U>U", "P>P", "U>P", "P>U")}
        assert found["intra_acc", "P"]["estimate"] == pytest.approx(a["U>U"] - a["P>P"])
        assert found["inter_acc", "P"]["estimate"] == pytest.approx(a["U>P"] - a["P>U"])


def test_a_handicap_shows_between_groups_and_not_within():
    found = rows_of(eh.pairwise(world(300, effect=1.0), groups="group", relevance="relevance", protected="P", rng=1))
    assert found["inter_acc", "P"]["low"] > 0.2
    assert found["intra_acc", "P"]["low"] < 0.05
    assert found["intra_acc", "P"]["high"] > -0.05


def test_pandas_polars_lazy_arrow_and_duckdb_give_the_same_bytes():
    duckdb = pytest.importorskip("duckdb")
    table = world(20, 12).sample(fraction=1.0, shuffle=True, seed=5)
    relation = duckdb.from_arrow(table.to_arrow())
    forms = [table, table.lazy(), table.to_pandas(), table.to_arrow(), relation]
    for negatives in (None, 3):
        texts = {
            eh.pairwise(t, groups="group", relevance="relevance", protected="P", rng=4, negatives=negatives).to_text(
                "csv"
            )
            for t in forms
        }
        assert len(texts) == 1


def test_groups_and_judgments_may_come_as_tables():
    table = world(10, 12)
    groups = table.select("item", "group").unique()
    judged = table.filter(pl.col("relevance") > 0).select("request", "item", "relevance")
    inside = eh.pairwise(table, groups="group", relevance="relevance", protected="P", rng=1)
    beside = eh.pairwise(
        table.select("request", "item", "score"), groups=groups, relevance=judged, protected="P", rng=1
    )
    assert inside.to_text("csv") == beside.to_text("csv")
    assert beside.provenance["scored_items_without_judgment"] == int((table["relevance"] == 0).sum())
    dropped = eh.pairwise(
        table.select("request", "item", "score"), groups=groups, relevance=judged, protected="P",
        missing_relevance="drop", interval=None,
    )  # fmt: skip
    assert rows_of(dropped)["accuracy", "P>P"]["pairs"] < rows_of(beside)["accuracy", "P>P"]["pairs"]


def test_several_labels_are_taken_together_and_unknown_follows_its_policy():
    table = world(10, 20).with_columns(
        pl.when(pl.col("item") == "i3").then(pl.lit("Q")).otherwise(pl.col("group")).alias("group")
    )
    roles = dict(relevance="relevance", interval=None)
    merged = table.with_columns(pl.col("group").replace({"Q": "P"}))
    together = rows_of(eh.pairwise(table, groups="group", protected=["P", "Q"], **roles))
    alone = rows_of(eh.pairwise(merged, groups="group", protected="P", **roles))
    assert together["inter_acc", "P, Q"]["estimate"] == alone["inter_acc", "P"]["estimate"]
    filled = merged.with_columns(pl.col("group").fill_null("U"))
    as_versus = rows_of(eh.pairwise(merged, groups="group", protected="P", unknown="unprotected", **roles))
    assert as_versus["intra_acc", "P"]["estimate"] == pytest.approx(
        rows_of(eh.pairwise(filled, groups="group", protected="P", **roles))["intra_acc", "P"]["estimate"]
    )
    as_group = rows_of(eh.pairwise(merged, groups="group", protected="P", versus="U", unknown="group", **roles))
    assert ("accuracy", "P>unknown") in as_group
    with pytest.raises(eh.EvenhandError, match="no group"):
        eh.pairwise(merged, groups="group", protected="P", unknown="raise", **roles)


def test_rows_without_a_score_are_left_out_and_counted_or_refused():
    table = world(5, 10).with_columns(
        pl.when(pl.col("item") == "i1").then(None).otherwise(pl.col("score")).alias("score")
    )
    roles = dict(groups="group", relevance="relevance", protected="P", interval=None)
    found = eh.pairwise(table, nan_policy="omit", **roles)
    assert found.provenance["dropped"] == {"score is missing": 5}
    without = table.filter(pl.col("item") != "i1")
    assert found.to_text("csv") == eh.pairwise(
        without, groups="group", relevance="relevance", protected="P", interval=None
    ).to_text("csv")
    with pytest.raises(eh.EvenhandError, match="nan_policy='omit'"):
        eh.pairwise(table, groups="group", relevance="relevance", protected="P")


def test_systems_are_slices_and_every_request_has_its_value():
    two = pl.concat([world(8).with_columns(system=pl.lit("a")), world(8, effect=1).with_columns(system=pl.lit("b"))])
    found = eh.pairwise(two, groups="group", relevance="relevance", protected="P", system="system", rng=1)
    assert found.frame["system"].unique(maintain_order=True).to_list() == ["a", "b"]
    each = found.per_request
    assert each.columns == ["request", "system", "metric", "group", "estimate", "note"]
    means = each.filter(metric="inter_acc").group_by("system").agg(pl.col("estimate").mean()).sort("system")
    macro = eh.pairwise(
        two, groups="group", relevance="relevance", protected="P", system="system", average="macro", metrics="inter_acc"
    )
    assert means["estimate"].to_list() == pytest.approx(macro.frame["estimate"].to_list())


def test_sampled_negatives_estimate_the_same_number_and_carry_their_error():
    table = world(60, 80, seed=2)
    roles = dict(groups="group", relevance="relevance", protected="P", metrics="accuracy", rng=1)
    exact, few = rows_of(eh.pairwise(table, **roles)), rows_of(eh.pairwise(table, negatives=2, **roles))
    every = rows_of(eh.pairwise(table, negatives=1000, **roles))
    for key, row in exact.items():
        assert every[key]["estimate"] == pytest.approx(row["estimate"])
        assert few[key]["low"] <= row["estimate"] <= few[key]["high"]
        assert few[key]["high"] - few[key]["low"] > row["high"] - row["low"]


@pytest.mark.slow
def test_intervals_with_sampled_negatives_cover_the_truth():
    """200 worlds, scores without signal: every accuracy is one half."""
    hits = 0
    for seed in range(200):
        table = world(40, 30, seed=seed).with_columns(
            score=pl.Series(np.random.default_rng(1000 + seed).normal(size=1200))
        )
        found = eh.pairwise(
            table, groups="group", relevance="relevance", protected="P", metrics="inter_acc", negatives=3, rng=seed,
            interval="bootstrap(399)",
        ).frame.row(0, named=True)  # fmt: skip
        hits += found["low"] <= 0 <= found["high"]
    assert 0.90 <= hits / 200 <= 0.985


def test_one_request_has_no_interval_and_few_requests_are_suppressed():
    one = eh.pairwise(world(1), groups="group", relevance="relevance", protected="P")
    assert one.frame["low"].is_nan().all()
    hidden = eh.pairwise(world(3), groups="group", relevance="relevance", protected="P", min_units=5)
    assert hidden.frame["estimate"].is_nan().all()
    assert set(hidden.frame["note"]) == {"suppressed"}
    assert hidden.per_request.height == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(protected="X"), "protected='X' is no label of the groups. Labels: 'P', 'U'"),
        (dict(average="mean"), "average='mean'"),
        (dict(negatives=0), "negatives=0"),
        (dict(relevance=None), "relevance is not given"),
        (dict(score="scoer"), "Did you mean 'score'"),
        (dict(metrics="gini"), "does not fit"),
        (dict(metrics="inter_acc@3"), "knows no ranks"),
        (dict(protected=None), "compares two groups"),
        (dict(protected="P", versus="P"), "overlap"),
        (dict(groups={"i1": {"P": 0.5, "U": 0.5}}), "one label per item"),
    ],
)
def test_bad_calls_say_what_to_do(change, message):
    roles = dict(groups="group", relevance="relevance", protected="P")
    with pytest.raises(eh.EvenhandError, match=message):
        eh.pairwise(world(2), **(roles | change))


def test_an_item_scored_twice_is_refused():
    table = world(2)
    with pytest.raises(eh.EvenhandError, match="scored twice"):
        eh.pairwise(pl.concat([table, table]), groups="group", relevance="relevance", protected="P")


def test_without_any_label_nothing_is_defined():
    found = eh.pairwise(world(2), groups={}, relevance="relevance", protected="P", metrics="inter_acc")
    assert found.frame["note"].to_list() == ["no_pairs"]


def test_the_command_line_gives_the_same_answer(tmp_path, capsys):
    table = world(10).with_columns(pl.col("group").replace({"P": "1", "U": "0"}).cast(pl.Int64))
    table.write_csv(tmp_path / "scores.csv")
    words = [
        "pairwise",
        str(tmp_path / "scores.csv"),
        "--groups",
        "group",
        "--relevance",
        "relevance",
        "--protected",
        "1",
    ]
    assert main([*words, "--seed", "3", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    direct = eh.pairwise(table, groups="group", relevance="relevance", protected=1, rng=3)
    assert answer["columns"]["estimate"] == pytest.approx(direct.frame["estimate"].to_list())
    assert main([*words[:-1], "7"]) == 2
    assert "is no label of the groups" in capsys.readouterr().err


def test_pandas_gets_pandas_back():
    found = eh.pairwise(world(3).to_pandas(), groups="group", relevance="relevance", protected="P")
    assert isinstance(found.frame, pd.DataFrame)
    assert isinstance(found.per_request, pd.DataFrame)


def test_the_command_line_leaves_out_items_without_a_score_as_the_function_does(tmp_path, capsys):
    path = tmp_path / "scores.csv"
    path.write_text("request,item,score,relevance,group\n1,a,2,1,P\n1,b,5,0,U\n1,c,,1,U\n1,d,3,1,U\n1,e,0,0,P\n")
    words = [
        "pairwise",
        str(path),
        "--groups",
        "group",
        "--relevance",
        "relevance",
        "--protected",
        "P",
        "--no-progress",
    ]
    assert main([*words, "--nan-policy", "omit", "-m", "inter_acc", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["columns"]["estimate"], told["columns"]["pairs"]) == ([1.0], [2.0])
    assert main([*words, "--nan-policy", "raise"]) == 2
    assert "missing in 1 of 5 rows" in capsys.readouterr().err


def test_ranks_order_where_there_are_no_scores():
    rng = np.random.default_rng(3)
    rows = [
        (q, f"d{d}", r, int(rng.integers(0, 3)))
        for q in range(9)
        for r, d in enumerate(rng.permutation(14)[:8].tolist(), 1)
    ]
    ranked = pl.DataFrame(rows, schema=["request", "item", "rank", "relevance"], orient="row")
    call = {
        "groups": {f"d{i}": "PU"[i % 2] for i in range(14)},
        "relevance": "relevance",
        "protected": "P",
        "interval": None,
    }
    found = eh.pairwise(ranked, **call)
    scored = ranked.with_columns(score=20.0 - pl.col("rank")).drop("rank")
    assert found.frame.equals(eh.pairwise(scored, **call).frame)
    assert found.provenance["ordered_by"] == "rank"
    named = ranked.rename({"rank": "place"}).with_columns(score=0.5)
    assert eh.pairwise(named, rank="place", **call).frame.equals(found.frame)
    assert eh.pairwise(named, rank="place", score=None, **call).frame.equals(found.frame)
    wins, pairs = 0, 0  # equation 11, pair by pair
    for q in ranked.partition_by("request"):
        for a in q.iter_rows(named=True):
            for b in q.iter_rows(named=True):
                if (
                    call["groups"][a["item"]] == "P"
                    and call["groups"][b["item"]] == "U"
                    and a["relevance"] > b["relevance"]
                ):
                    wins, pairs = wins + (a["rank"] < b["rank"]), pairs + 1
    assert found.frame.filter(group="P>U")["estimate"][0] == pytest.approx(wins / pairs)


def test_a_rank_that_is_no_number_is_called_a_rank():
    table = pl.DataFrame({"request": [1], "item": ["a"], "rank": ["first"], "relevance": [1]})
    with pytest.raises(eh.EvenhandError, match="rank='rank'"):
        eh.pairwise(table, groups={"a": "P"}, relevance="relevance", protected="P")

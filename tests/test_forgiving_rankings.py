"""Tables that are nearly rankings: without a request, or with an item listed twice."""

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main

ONE = pl.DataFrame(
    {
        "item": list("abcdefgh"),
        "rank": range(1, 9),
        "side": list("fmmfmmfm"),
        "good": [1, 0, 1, 0, 1, 0, 0, 1],
        "score": [8.0, 7, 6, 5, 4, 3, 2, 1],
    }
)
SEVERAL = pl.concat([ONE.with_columns(request=pl.lit(q), rank=(pl.col("rank") + q - 1) % 8 + 1) for q in range(6)])
TWICE = pl.concat([SEVERAL, SEVERAL.filter(pl.col("rank") <= 2).with_columns(rank=pl.col("rank") + 8, score=-1.0)])
ASKS = {
    "exposure": lambda t, **more: eh.exposure(t, groups="side", protected="f", relevance="good", rng=1, **more),
    "prefix": lambda t, **more: eh.prefix(t, group="side", protected="f", rng=1, **more),
    "pairwise": lambda t, **more: eh.pairwise(t, groups="side", relevance="good", protected="f", rng=1, **more),
}


def numbers(result, *columns):
    return [v for c in ("estimate", "units", *columns) for v in result.frame[c].to_list()]


@pytest.mark.parametrize("name", ASKS)
def test_a_table_without_requests_is_one_ranking(name):
    named, unnamed = ASKS[name](ONE.with_columns(request=pl.lit(1))), ASKS[name](ONE, request=None)
    assert numbers(unnamed) == pytest.approx(numbers(named))
    assert unnamed.provenance["plan"]["request"] is None
    with pytest.raises(eh.EvenhandError, match="pass request=None"):
        ASKS[name](ONE)


@pytest.mark.parametrize("name", ASKS)
def test_every_system_has_one_ranking_of_the_table(name):
    both = pl.concat(
        [
            ONE.with_columns(run=pl.lit("a")),
            ONE.with_columns(run=pl.lit("b"), rank=9 - pl.col("rank"), score=-pl.col("score")),
        ]
    )
    frame = ASKS[name](both, request=None, system="run").frame
    assert set(frame["units"]) == {1}
    assert set(frame["system"]) == {"a", "b"}


def test_judgments_of_one_ranking_need_no_request():
    by_column = ASKS["exposure"](ONE, request=None)
    for judged in (ONE.select("item", relevance="good"), dict(zip(ONE["item"], ONE["good"], strict=True))):
        other = eh.exposure(ONE, groups="side", protected="f", relevance=judged, rng=1, request=None)
        assert numbers(other) == pytest.approx(numbers(by_column))


@pytest.mark.parametrize("name", ASKS)
def test_the_first_of_an_item_that_is_listed_twice_is_kept(name):
    with pytest.raises(eh.EvenhandError, match="duplicates='first'"):
        ASKS[name](TWICE)
    found = ASKS[name](TWICE.sample(fraction=1, shuffle=True, seed=2), duplicates="first")
    assert numbers(found) == pytest.approx(numbers(ASKS[name](SEVERAL)))
    assert found.provenance["dropped"] == {"item is listed higher up in the same ranking": 12}
    assert numbers(ASKS[name](SEVERAL, duplicates="first"), "low") == pytest.approx(
        numbers(ASKS[name](SEVERAL), "low"), nan_ok=True
    )


def test_stated_ranks_stay_and_the_gap_is_an_empty_rank():
    again = ONE.with_columns(item=pl.when(rank=3).then(pl.lit("a")).otherwise("item"), request=pl.lit(1))
    kept, gapped = ASKS["prefix"](again, duplicates="first"), ASKS["prefix"](again.filter(pl.col("rank") != 3))
    assert numbers(kept, "chance", "p") == pytest.approx(numbers(gapped, "chance", "p"))
    assert kept.provenance["rankings_with_empty_ranks"] == 1


def test_rows_that_are_copied_whole_count_once():
    assert numbers(ASKS["prefix"](pl.concat([SEVERAL, SEVERAL]), duplicates="first")) == pytest.approx(
        numbers(ASKS["prefix"](SEVERAL))
    )


def test_runs_may_list_a_document_twice(tmp_path):
    lines = [f"q{q} Q0 {item} {i} {9 - i} x" for q in range(3) for i, item in enumerate("abcad", 1)]
    (tmp_path / "x.run").write_text("\n".join(lines))
    groups = {"a": "f", "b": "m", "c": "m", "d": "f"}
    with pytest.raises(eh.EvenhandError, match="duplicates='first'"):
        eh.exposure(str(tmp_path / "x.run"), groups=groups, protected="f")
    found = eh.exposure(str(tmp_path / "x.run"), groups=groups, protected="f", duplicates="first", rng=1)
    assert found.provenance["dropped"] == {"item is listed higher up in the same ranking": 3}
    assert found.provenance["rankings_with_empty_ranks"] == 3


def test_command_line_and_plan_take_both(tmp_path, capsys):
    ONE.write_csv(tmp_path / "one.csv")
    TWICE.write_csv(tmp_path / "twice.csv")
    words = ["--group", "side", "--protected", "f", "--seed", "1"]
    assert main(["prefix", str(tmp_path / "one.csv"), *words, "--request", "none"]) == 0
    assert main(["prefix", str(tmp_path / "twice.csv"), *words, "--duplicates", "first"]) == 0
    plan = f'audit = "prefix"\ntable = "{tmp_path / "one.csv"}"\ngroup = "side"\nprotected = "f"\nrequest = "none"\n'
    (tmp_path / "plan.toml").write_text(plan)
    assert main(["run", str(tmp_path / "plan.toml")]) == 0
    capsys.readouterr()
    assert main(["prefix", str(tmp_path / "one.csv"), *words]) == 2
    assert "pass --request none" in capsys.readouterr().err

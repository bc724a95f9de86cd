"""Sentences beside their rows: choices that differ read differently, and what the table carries is said."""

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.errors import plural
from evenhand.report.words.summary import key_sentences
from evenhand.report.words.text import counted, number, percent


def serps(share_unknown=0.25, seed=0):
    rng = np.random.default_rng(seed)
    weights = [(1 - share_unknown) / 4] * 4 + [share_unknown]
    labels = rng.choice(["con", "pro", "neu", "odd", None], 60, p=weights)
    return pl.DataFrame(
        {"request": np.repeat(range(6), 10), "rank": list(range(1, 11)) * 6, "item": range(60), "stance": labels}
    )


@pytest.mark.parametrize(
    "metrics",
    [
        ["awrf@5", "awrf@8"],
        ["eed", "eed(level='item')", "eed(aggregate='per_request')"],
        ["awrf", "awrf(attention='log')", "awrf(distance='tv')"],
        ["log_dp", "log_dp(per_item=True)"],
        ["awrf", "awrf(convention='trec')"],
    ],
)
def test_two_choices_never_read_alike(metrics):
    call = {"groups": "stance", "protected": "con", "versus": "pro", "interval": None, "chance": False}
    told = eh.exposure(serps(), metrics=metrics, **call).sentences()[: len(metrics)]
    # The values may agree by chance; the words around them must not.
    words = ["".join(c for c in line if not c.isdigit() or line[line.index(c) - 1] == " ") for line in told]
    assert len(set(words)) == len(metrics)


def test_the_other_side_is_called_by_its_name():
    one, other = (
        eh.exposure(serps(), groups="stance", protected="con", versus=v, metrics="log_dp", interval=None).sentences()[0]
        for v in ("pro", "neu")
    )
    assert "pro" in one
    assert "neu" in other
    assert "other group" not in one + other


def test_items_without_a_label_are_said_to_be_left_out():
    table = serps(share_unknown=0.9, seed=3)
    part = percent(table["stance"].null_count() / 60)
    for result in (
        eh.exposure(table, groups="stance", metrics="awrf", interval=None),
        eh.prefix(table, group="stance", metrics="ndjs", interval=None, rng=1),
    ):
        assert any(f"{part} of ranked items have no label" in sentence for sentence in result.sentences())


def test_the_gini_of_counts_says_what_equal_rates_would_give():
    log = pl.DataFrame({"author": np.random.default_rng(1).integers(0, 50, 60)})
    found = eh.inequality(log, unit="author", population=50, metrics="gini", interval=None)
    assert f"; at equal rates: {number(found.frame['chance'][0])}." in found.sentences()[0]
    assert found.provenance["chance"] == {"gini": "at equal rates"}
    assert "chance: expected at equal rates." in str(found)


def test_notes_are_cautions_in_the_sentence():
    rng = np.random.default_rng(2)
    log = pl.DataFrame({"author": range(300), "views": np.floor(rng.pareto(0.8, 300) * 10)})
    found = eh.inequality(log, unit="author", amount="views", population=None, metrics="gini", rng=1)
    assert "heavy_tail" in found.frame["note"][0]
    assert "intervals may be too short" in found.sentences()[-1]


def test_another_tools_number_is_told_in_that_tools_words():
    scores = np.random.default_rng(3).random((20, 6))
    call = {"user_groups": ["adult"] * 10 + ["young"] * 10, "protected": "young", "versus": "adult", "interval": None}
    truth = np.random.default_rng(4).random((20, 6)) > 0.5
    found = eh.recommender(scores, relevant=truth, top=2, convention="holisticai", metrics="precision_ratio", **call)
    assert "adult over young" in found.sentences()[0]
    assert "holisticai" in found.sentences()[0]
    assert found.frame["convention"].to_list() == ["holisticai"]
    elliot = eh.recommender(scores, top=2, convention="elliot", metrics="item_gini", interval=None)
    assert "higher is more even" in elliot.sentences()[0]


def test_trecs_awrf_is_trecs_number():
    """Formula book F12.6: items m m m f m f, target m .2 f .8."""
    aim = {"m": 0.2, "f": 0.8}
    assert eh.metrics.awrf(list("mmmfmf"), target=aim, convention="trec") == pytest.approx(0.8237, abs=5e-5)
    found = eh.exposure(
        {"q": list("abcdef")}, groups=dict(zip("abcdef", "mmmfmf", strict=True)), target=aim,
        metrics="awrf(convention='trec')", interval=None,
    )  # fmt: skip
    assert found.frame["estimate"][0] == pytest.approx(0.8237, abs=5e-5)


def test_a_range_over_slices_does_not_rest_on_tiny_or_infinite_ones():
    rows = [{"day": d, "author": a, "views": 1 + (a % 7)} for d in range(12) for a in range(30)]
    rows += [{"day": 99, "author": a, "views": v} for a, v in ((0, 1), (1, 1000))]
    found = eh.inequality(
        pl.DataFrame(rows), unit="author", amount="views", by="day", population=None, metrics="gini", interval=None
    )
    said = " ".join(key_sentences(found.findings))
    assert "day 99" not in said
    assert "with fewer than 20 units" in said


def test_words_agree_in_number():
    assert plural("search") == "searches"
    assert plural("class") == "classes"
    assert counted(1, "slice") == "1 slice"
    assert percent(-0.0) == percent(-1e-14) == "0%"


def test_renaming_a_column_moves_no_seeded_interval():
    rng = np.random.default_rng(5)
    log = pl.DataFrame({"who": range(80), "views": rng.poisson(4, 80), "band": rng.choice(["x", "y"], 80)})
    other = log.rename({"views": "reads"})
    for ask in (
        lambda t, a: eh.inequality(t, unit="who", amount=a, population=None, by="band", rng=1),
        lambda t, a: eh.decompose(t, unit="who", amount=a, group="band", population=None, rng=1),
    ):
        one, two = ask(log, "views").frame, ask(other, "reads").frame
        assert one["low"].to_list() == two["low"].to_list()


def test_decompose_drops_groups_or_refuses_units_without_a_label():
    log = pl.DataFrame({"who": range(6), "views": [1, 2, 3, 4, 5, 6], "band": ["x", "x", "y", "y", None, None]})
    call = {"unit": "who", "amount": "views", "population": None, "interval": None}
    told = log.drop_nulls("band")
    dropped = eh.decompose(log, group="band", unknown="drop", **call).frame
    assert dropped["estimate"].to_list() == eh.decompose(told, group="band", **call).frame["estimate"].to_list()
    with pytest.raises(eh.EvenhandError, match="2 units have no group"):
        eh.decompose(log, group="band", unknown="raise", **call)


def test_decompose_combines_several_columns_of_labels():
    log = pl.DataFrame({"who": range(8), "views": range(1, 9), "a": list("xxyyxxyy"), "b": list("ppppqqqq")})
    call = {"unit": "who", "amount": "views", "population": None, "interval": None}
    joined = log.with_columns(ab=pl.concat_str("a", "b", separator=" & "))
    one, two = (eh.decompose(t, group=g, **call).frame for t, g in ((log, ["a", "b"]), (joined, "ab")))
    assert one["estimate"].to_list() == two["estimate"].to_list()


def test_unprotected_needs_to_know_who_is_protected():
    with pytest.raises(eh.EvenhandError, match="protected="):
        eh.prefix(serps(), group="stance", unknown="unprotected")


def test_advice_for_much_bias_is_not_justified_by_little():
    assert "mild" not in eh.advise(balance="low", bias="high").sentences()[0]

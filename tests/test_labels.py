"""Labels are read, ordered and matched in one place: whichever door they come through, the numbers are the same."""

import datetime as dt
import functools
from decimal import Decimal

import duckdb
import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.audits.declare import in_words
from evenhand.errors import EvenhandError
from evenhand.labels import in_order, match, matches, no_label, order, whole
from evenhand.sources.labels import as_call, read_shares

ITEMS = [f"d{i}" for i in range(8)]
SIDE = dict(zip(ITEMS, ["f", "m", "m", "f", "m", "f", "m", None], strict=True))
PLACE = dict(zip(ITEMS, ["n", "n", "s", "s", "n", "s", "s", "n"], strict=True))
PART = dict(zip(ITEMS, [1.0, 0.25, 0.0, 0.5, 0.0, 0.75, 0.5, None], strict=True))
TABLES = {
    "pandas": lambda f: f.to_pandas(),
    "polars": lambda f: f,
    "duckdb": lambda f: duckdb.connect().from_arrow(f.to_arrow()),
}


def rankings():
    """Twelve lists of six of the eight items; what an item is called does not depend on the list."""
    rng = np.random.default_rng(7)
    rows = []
    for q in range(12):
        for rank, i in enumerate(rng.permutation(8)[:6], 1):
            rows.append((f"q{q}", ITEMS[i], rank, -rank / 2, int(rng.random() < 0.5)))
    frame = pl.DataFrame(rows, schema=["request", "item", "rank", "score", "relevance"], orient="row")
    found = pl.col("item")
    return frame.with_columns(
        found.replace_strict(SIDE, return_dtype=pl.String).alias("side"),
        found.replace_strict(PLACE, return_dtype=pl.String).alias("place"),
        found.replace_strict(PART, return_dtype=pl.Float64).alias("f"),
        (1 - found.replace_strict(PART, return_dtype=pl.Float64)).alias("m"),
    )


RANKED = rankings()
RANKED = RANKED.with_columns(pl.col("f", "m").fill_null(0.0).mul(4).cast(pl.Int64).name.suffix("4"))
EACH = RANKED.select("item", "side", "place", "f", "m").unique().sort("item")
COUNTED = RANKED.select("item", "f4", "m4").unique().sort("item")  # of four: nobody where nothing is known


def exposure(table, groups, **more):
    call = {"metrics": ["awrf", "log_dp", "ndjs"], "protected": "f", "versus": "m"} | more
    return eh.exposure(table, groups=groups, interval=None, rng=1, **call).findings.columns


def prefix(table, groups, **more):
    call = {"metrics": ["ndd", "ndjs"], "protected": "f", "chance": None} | more
    return eh.prefix(table, group=groups, interval=None, rng=1, **call).findings.columns


def pairwise(table, groups, **more):
    call = {"protected": "f", "versus": "m"} | more
    return eh.pairwise(table, groups=groups, relevance="relevance", interval=None, rng=1, **call).findings.columns


AUDITS = {"exposure": exposure, "prefix": prefix, "pairwise": pairwise}


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        for a, b in zip(found[name], column, strict=True):
            assert a == pytest.approx(b, abs=1e-12, nan_ok=True) if isinstance(b, float) else a == b, name


def written(tmp_path):
    path = tmp_path / "labels.qrels"
    known = RANKED.filter(pl.col("side").is_not_null())
    path.write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in known.select("request", "item", "side").iter_rows()))
    return str(path)


HARD = {
    "a mapping": lambda _, __: SIDE,
    "a table": lambda convert, _: convert(EACH.select("item", "side")),
    "a table with a row twice": lambda convert, _: convert(pl.concat([EACH.select("item", "side")] * 2)),
    "judgments": lambda convert, _: convert(RANKED.select("request", "item", "side")),
    "judgments with a field that says nothing": lambda convert, _: convert(
        RANKED.select("request", "item", pl.col("side").alias("relevance"), pl.lit("Q0").alias("iteration"))
    ),
    "a file in the form of judgments": lambda _, tmp_path: written(tmp_path),
    "a list of one column": lambda _, __: ["side"],
}


@pytest.mark.parametrize("engine", TABLES)
@pytest.mark.parametrize("door", HARD)
@pytest.mark.parametrize("audit", AUDITS)
def test_the_same_labels_through_every_door_give_the_same_frame(audit, door, engine, tmp_path):
    convert = TABLES[engine]
    same(AUDITS[audit](convert(RANKED), HARD[door](convert, tmp_path)), by_column(audit))


@functools.cache
def by_column(audit):
    return AUDITS[audit](RANKED, "side")


@pytest.mark.parametrize("engine", TABLES)
@pytest.mark.parametrize("audit", AUDITS)
def test_several_columns_are_labels_combined_in_every_audit(audit, engine):
    sides = {"protected": ["f & n", "f & s"], "versus": ["m & n", "m & s"]}
    if audit == "prefix":
        sides.pop("versus")
    if audit == "exposure":
        sides = {"metrics": "awrf", "protected": None, "versus": None}
    both = RANKED.with_columns(both=pl.concat_str("side", "place", separator=" & "))
    expected = AUDITS[audit](both, "both", **sides)
    table = TABLES[engine](RANKED)
    same(AUDITS[audit](table, ["side", "place"], **sides), expected)
    same(AUDITS[audit](table, TABLES[engine](EACH.select("item", "side", "place")), **sides), expected)


SOFT = {
    "text": lambda _: "shares(f, m)",
    "quoted text": lambda _: "shares('f', 'm')",
    "in another order": lambda _: eh.shares("m", "f"),
    "a table of shares": lambda convert: convert(EACH.select("item", "f", "m")),
    "judgments of shares": lambda convert: convert(RANKED.select("request", "item", "f", "m")),
    "a long table": lambda convert: convert(
        EACH.filter(pl.col("f").is_not_null()).unpivot(
            ["f", "m"], index="item", variable_name="group", value_name="share"
        )
    ),
    "a mapping": lambda _: {d: None if p is None else {"f": p, "m": 1 - p} for d, p in PART.items()},
    "a rollup": lambda convert: eh.rollup(
        convert(
            EACH.filter(pl.col("f").is_not_null())
            .unpivot(["f", "m"], index="item", variable_name="group", value_name="part")
            .filter(pl.col("part") > 0)
        ),
        weight="part",
    ),
    "a table of counts": lambda convert: eh.shares(of=convert(COUNTED.rename({"f4": "f", "m4": "m"})), counts=True),
    "some columns of a table": lambda convert: eh.shares("f", "m", of=convert(EACH)),
    "a mapping of counts": lambda _: eh.shares(
        of={d: {"f": 0, "m": 0} if p is None else {"f": 4 * p, "m": 4 - 4 * p} for d, p in PART.items()}, counts=True
    ),
}


@pytest.mark.parametrize("engine", TABLES)
@pytest.mark.parametrize("door", SOFT)
def test_the_same_shares_through_every_door_give_the_same_frame(door, engine):
    convert = TABLES[engine]
    groups, table = SOFT[door](convert), convert(RANKED)
    for found, expected in zip(by_shares(table, groups), by_shares_of_columns(), strict=True):
        same(found, expected)
    with pytest.raises(EvenhandError, match="pairs need one label per item"):
        pairwise(table, groups)


def by_shares(table, groups):
    measured = exposure(table, groups, metrics=["awrf", "log_dp", "ndjs"])
    return measured, prefix(table, groups, metrics="ndjs", protected=None)


@functools.cache
def by_shares_of_columns():
    return by_shares(RANKED, eh.shares("f", "m"))


@pytest.mark.parametrize("engine", TABLES)
@pytest.mark.parametrize("audit", AUDITS)
def test_labels_given_as_judgments_count_per_request(audit, engine):
    """A page may argue for something under one question and against it under another."""
    odd = pl.col("request").str.slice(1).cast(pl.Int64) % 2 == 1
    turned = pl.when(odd).then(pl.col("side").replace({"f": "m", "m": "f"})).otherwise(pl.col("side"))
    table = RANKED.with_columns(side=turned)
    judged = table.select("request", "item", "side")
    found = AUDITS[audit](TABLES[engine](table.drop("side")), TABLES[engine](judged))
    same(found, AUDITS[audit](table, "side"))
    if audit == "pairwise":  # the pairs of all requests are those of the two halves, each with labels by item
        halves = [
            eh.pairwise(
                table.filter(which).drop("side"),
                groups=judged.filter(which).select("item", "side").unique(),
                relevance="relevance",
                protected="f",
                metrics="accuracy",
                interval=None,
            ).frame
            for which in (odd, ~odd)
        ]
        whole_table = pl.DataFrame(found).filter(pl.col("metric") == "accuracy")
        assert whole_table["pairs"].to_list() == [a + b for a, b in zip(*(h["pairs"] for h in halves), strict=True)]


@pytest.mark.parametrize("engine", TABLES)
def test_nan_in_a_table_of_shares_is_as_missing_as_null(engine):
    shared = EACH.select("item", "f", "m")
    holes = shared.with_columns(pl.col("f", "m").fill_null(float("nan")))
    measured = {"metrics": ["awrf", "log_dp"], "unknown": "group"}
    same(exposure(RANKED, TABLES[engine](holes), **measured), exposure(RANKED, shared, **measured))


def test_shares_may_depend_on_the_request():
    odd = pl.col("request").str.slice(1).cast(pl.Int64) % 2 == 1
    table = RANKED.with_columns(f=pl.when(odd).then("m").otherwise("f"), m=pl.when(odd).then("f").otherwise("m"))
    judged = table.select("request", "item", "f", "m")
    measured = {"metrics": ["awrf", "ndjs"], "target": "equal"}
    same(exposure(table.drop("f", "m"), judged, **measured), exposure(table, eh.shares("f", "m"), **measured))
    soft = {"metrics": "ndjs", "protected": None}
    same(prefix(table.drop("f", "m"), judged, **soft), prefix(table, eh.shares("f", "m"), **soft))


@pytest.mark.parametrize("audit", AUDITS)
def test_a_list_of_columns_of_shares_is_refused_with_the_call_that_was_meant(audit):
    with pytest.raises(EvenhandError, match=r"Pass eh\.shares\('f', 'm'\)"):
        AUDITS[audit](RANKED, ["f", "m"])


@pytest.mark.parametrize("columns", [(), ("a",), ("a", "a"), ("a", 1)])
def test_shares_need_two_columns_of_their_own(columns):
    with pytest.raises(EvenhandError, match="does not name two columns"):
        eh.shares(*columns)


def test_shares_are_written_as_text_that_reads_the_same():
    for columns in (("con", "pro"), ("of women", "a, b"), ("it's", 'say "x"')):
        assert read_shares(str(eh.shares(*columns))) == eh.shares(*columns)
        assert in_words(eh.shares(*columns), table=True) == str(eh.shares(*columns))
    assert read_shares("shares") is None
    for counted in (
        eh.shares("a", "b", counts=True),
        eh.shares(of="x, y.csv"),
        eh.shares("a", "b", of="t.csv", counts=True),
    ):
        assert read_shares(str(counted)) == counted
    assert read_shares("shares(of=a-b/t.csv, counts=True)") == eh.shares(of="a-b/t.csv", counts=True)


@pytest.mark.parametrize("engine", TABLES)
def test_counts_in_columns_are_their_shares_and_zeros_are_unknown(engine):
    counted = TABLES[engine](RANKED.drop("f", "m").rename({"f4": "f", "m4": "m"}))
    same(
        exposure(counted, "shares(f, m, counts=True)", metrics="awrf"), exposure(RANKED, "shares(f, m)", metrics="awrf")
    )
    soft = {"metrics": "ndjs", "protected": None}
    same(prefix(counted, eh.shares("f", "m", counts=True), **soft), prefix(RANKED, eh.shares("f", "m"), **soft))


@pytest.mark.parametrize("counts", [[-1, 1], [-1, -1], [None, 2], [float("nan"), 2.0], [float("inf"), 1.0]])
def test_counts_that_are_none_are_refused_and_never_made_shares(counts):
    wrong = pl.DataFrame({"item": ["d0", "d1"], "f": [1.0, counts[0]], "m": [2.0, counts[1]]})
    for groups in (
        eh.shares(of=wrong, counts=True),
        eh.shares(of={"d0": {"f": 1, "m": 2}, "d1": dict(zip("fm", counts, strict=True))}, counts=True),
    ):
        with pytest.raises(EvenhandError, match=r"negative|missing"):
            exposure(RANKED, groups, metrics="awrf")
    here = RANKED.select("request", "item", "rank").join(wrong, on="item", how="left")
    with pytest.raises(EvenhandError, match=r"negative|missing"):
        prefix(here, eh.shares("f", "m", counts=True), metrics="ndjs", protected=None)


def test_counts_are_taken_for_shares_only_where_they_are_called_counts():
    with pytest.raises(EvenhandError, match=r"counts: eh\.shares\(\.\.\., counts=True\)"):
        exposure(RANKED, COUNTED, metrics="awrf")
    with pytest.raises(EvenhandError, match="Did you mean 'counts'"):
        exposure(RANKED, "shares(f4, m4, count=True)", metrics="awrf")
    with pytest.raises(EvenhandError, match=r"'f5' is not a column of groups\. Did you mean 'f4'"):
        exposure(RANKED, eh.shares("f5", "m4", of=COUNTED, counts=True), metrics="awrf")
    with pytest.raises(EvenhandError, match="a table of labels, not of numbers"):
        exposure(RANKED, eh.shares(of=EACH.select("item", "side"), counts=True), metrics="awrf")


@pytest.mark.parametrize(
    "text",
    [
        r"rollup(a.csv, group=g, split='\t')",
        r"rollup('a.csv', group='g', split='\t')",
        r"""rollup(a.csv, "b'.csv", split="\t",)""",
    ],
)
def test_a_word_in_quotes_is_read_alike_whether_or_not_its_neighbours_have_quotes(text):
    args, named = as_call(text, "rollup", ["group", "split"])
    assert (args[0], named["split"]) == ("a.csv", "\t")


@pytest.mark.parametrize("text", ["rollup(it's.csv)", "rollup('a'b.csv)", "rollup(a.csv,,split='|')"])
def test_a_call_in_words_that_cannot_be_read_is_refused_rather_than_guessed(text):
    with pytest.raises(eh.EvenhandError, match="Put quotes around the whole word"):
        as_call(text, "rollup", ["split"])


def test_a_rollup_is_written_as_text_that_reads_the_same(tmp_path):
    films, makers = tmp_path / "films of ann's.csv", tmp_path / "makers.csv"
    pl.DataFrame({"item": ["d0", "d1", "d1"], "provider": ["ann", "ann", "bob"], "part": [1, 1, 3]}).write_csv(films)
    pl.DataFrame({"provider": ["ann", "bob"], "side": ["f", "m"]}).write_csv(makers)
    made = eh.rollup(films, str(makers), group="side", weight="part")
    assert in_words(made, table=True) == f"rollup({str(films)!r}, {str(makers)!r}, group='side', weight='part')"
    same(exposure(RANKED, in_words(made, table=True), metrics="awrf"), exposure(RANKED, made, metrics="awrf"))
    assert sorted(made.frame.rows()) == [("d0", "f", 1.0), ("d1", "f", 0.25), ("d1", "m", 0.75)]
    assert "mapping" not in str(in_words(eh.rollup({"d0": ["ann"]}, {"ann": "f"}), table=True))


DATES = {"f": dt.date(2020, 1, 1), "m": dt.date(2021, 1, 1)}
MOMENTS = {g: dt.datetime(d.year, 1, 1) for g, d in DATES.items()}  # noqa: DTZ001
KINDS = {
    "whole numbers": ({"f": 1, "m": 2}, ["1"]),
    "numbers": ({"f": 1.5, "m": 2.0}, ["1.5"]),
    "truth values": ({"f": True, "m": False}, ["True", "true"]),
    "text for a number": ({"f": "1", "m": "2"}, [1]),
    "dates": (DATES, ["2020-01-01"]),
    "moments": (MOMENTS, ["2020-01-01", "2020-01-01 00:00:00", "2020-01-01T00:00:00"]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("audit", AUDITS)
def test_text_stands_for_the_label_that_it_spells(audit, kind):
    labels, words = KINDS[kind]
    labelled = {d: None if g is None else labels[g] for d, g in SIDE.items()}
    more = {} if audit == "prefix" else {"versus": str(labels["m"])}
    expected = AUDITS[audit](RANKED, "side")["estimate"]
    if audit == "pairwise":
        more["metrics"] = ["intra_acc", "inter_acc"]  # whose rows do not follow the order of the labels
        expected = expected[:2]
    for word in words:
        assert AUDITS[audit](RANKED, labelled, protected=word, **more)["estimate"] == pytest.approx(expected)


def test_keys_of_a_target_and_a_reference_are_matched_like_sides():
    years = {d: None if g is None else DATES[g] for d, g in SIDE.items()}
    target = {"2020-01-01": 0.3, "2021-01-01": 0.7}
    found = exposure(RANKED, years, metrics="awrf", protected=None, versus=None, target=target)
    assert found["estimate"] == exposure(RANKED, "side", metrics="awrf", target={"f": 0.3, "m": 0.7})["estimate"]
    table = RANKED.filter(pl.col("side").is_not_null()).with_columns(pl.col("side") == "f")
    for reference in (True, "true", "True"):
        audit = eh.outcome_test(table, score="score", outcome="relevance", group="side", reference=reference, bins=1)
        assert audit.provenance["reference"] == "True"


MISSPELT = {
    "exposure": lambda: exposure(RANKED, "side", protected="fm"),
    "versus": lambda: exposure(RANKED, "side", versus="fm"),
    "prefix": lambda: prefix(RANKED, "side", protected="fm"),
    "pairwise": lambda: pairwise(RANKED, "side", protected="fm"),
    "reference": lambda: eh.outcome_test(RANKED, score="score", outcome="relevance", group="side", reference="fm"),
}


@pytest.mark.parametrize("where", MISSPELT)
def test_a_label_that_nobody_has_is_refused_in_the_same_words_everywhere(where):
    with pytest.raises(EvenhandError, match=r"='fm' is no label of .*\. Did you mean 'm'\? Labels: 'f', 'm'"):
        MISSPELT[where]()


def test_no_more_than_ten_labels_are_listed():
    with pytest.raises(EvenhandError, match=r"'9' and 20 more\.$"):
        matches("protected", "x", map(str, range(30)))


def test_labels_stand_in_one_order():
    mixed = ["b", None, 10, Decimal("9.5"), dt.date(2020, 1, 2), "a", float("nan"), False, dt.date(2020, 1, 1), b"x"]
    found = in_order(mixed)
    assert found[:6] == [False, Decimal("9.5"), 10, b"x", dt.date(2020, 1, 1), dt.date(2020, 1, 2)]
    assert found[6:8] == ["a", "b"]
    assert [order(label)[0] for label in found[8:]] == [2, 2]


def test_an_equal_label_is_meant_before_one_that_is_written_the_same():
    assert match("1", [1, "1"]) == "1"
    assert match(np.int64(1), ["1", 1]) == 1
    assert match("none", [None, "a"]) == "none"
    assert whole([1.0, 2**60 * 1.0]) == [1.0, 2**60 * 1.0]


@pytest.mark.parametrize("versus", ["*", ["m", "x"]])
def test_a_star_is_all_others_taken_together(versus):
    lists = pl.DataFrame(
        {"request": ["q"] * 6 + ["r"] * 6, "item": list("abcdef") * 2, "rank": [1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1]}
    ).with_columns(g=pl.Series(["f", "m", "x"] * 4), y=pl.col("rank") % 2, score=-pl.col("rank"))
    call = {"protected": "f", "interval": None, "rng": 1}
    exposed, named = (eh.exposure(lists, groups="g", versus=v, metrics="log_dp", **call) for v in (versus, ["x", "m"]))
    assert exposed.to_dict()["columns"] == named.to_dict()["columns"]
    assert "f to m, x" in exposed.sentences()[0]
    paired, named = (
        eh.pairwise(lists, groups="g", relevance="y", versus=v, metrics="intra_acc", **call)
        for v in (versus, ["m", "x"])
    )
    assert paired.to_dict()["columns"] == named.to_dict()["columns"]
    scores = np.random.default_rng(1).random((9, 5))
    shown, named = (
        eh.recommender(scores, user_groups=list("fmx") * 3, versus=v, top=2, chance=None, **call)
        for v in (versus, ["m", "x"])
    )
    assert shown.to_dict()["columns"] == named.to_dict()["columns"]


def test_a_star_needs_somebody_to_be_other_than():
    lists = pl.DataFrame({"request": ["q"] * 3, "item": list("abc"), "rank": [1, 2, 3], "g": ["f", "m", "x"]})
    with pytest.raises(eh.EvenhandError, match="all but the protected"):
        eh.exposure(lists, groups="g", versus="*", metrics="awrf")


def test_several_labels_in_one_text_share_the_item():
    films = pl.DataFrame({"item": ["a", "b", "c", "d"], "genres": ["X|Y", "Y | Y|", "", None]})
    found = {(i, g): s for i, g, s in eh.rollup(films, group="genres", split="|").frame.iter_rows()}
    assert found == {("a", "X"): 0.5, ("a", "Y"): 0.5, ("b", "Y"): 1.0, ("c", None): 1.0, ("d", None): 1.0}
    lists = pl.DataFrame({"request": ["q"] * 4, "item": list("abcd"), "rank": [1, 2, 3, 4]})
    by_split = eh.exposure(lists, groups=eh.rollup(films, group="genres", split="|"), metrics="awrf", interval=None)
    by_hand = eh.exposure(lists, groups=eh.rollup({"a": ["X", "Y"], "b": ["Y"]}), metrics="awrf", interval=None)
    assert by_split.frame["estimate"].to_list() == by_hand.frame["estimate"].to_list()


@pytest.mark.parametrize(
    ("how", "said"), [({"split": ""}, "no separator"), ({"split": "|", "weight": "w"}, "one of the two")]
)
def test_a_split_that_makes_no_sense_is_refused(how, said):
    films = pl.DataFrame({"item": ["a"], "group": ["X|Y"], "w": [1.0]})
    with pytest.raises(eh.EvenhandError, match=said):
        eh.rollup(films, **how)


def test_labels_that_there_are_stand_in_order_in_a_message():
    assert no_label("protected", ["zz"], {"b", "10", "a", "9"}).endswith("Labels: '9', '10', 'a', 'b'.")

"""The door: whatever holds a table comes out as a relation with the owner's names, types and values."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import json
import math
import multiprocessing
import os
import subprocess
import sys
import threading
import uuid
from zoneinfo import ZoneInfo

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import evenhand as eh
from evenhand.sources.engine import DuckDBEngine, memory_limit
from evenhand.sources.formats import FORMATS, known_endings
from evenhand.sources.opening import ROWS_AT_ONCE, open_table
from evenhand.sources.relation import label_problems, role_problems

HOME = ZoneInfo("Europe/Amsterdam")


def labels(table, name="c"):
    return table.cells(table.select({"x": table.label(name)})).values("x")


def numbers(table, name="c"):
    return table.cells(table.select({"x": table.number(name)})).values("x")


def rows(table):
    named = {str(i): table.column(name) for i, name in enumerate(table.names)}
    return table.names, table.cells(table.select(named)).frame.rows()


class Streamed:
    """A frame of a library that nobody knows, with its Arrow stream."""

    def __init__(self, frame):
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self._frame.__arrow_c_stream__(requested_schema)


def one_shot(frame):
    table = frame.to_arrow()
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


def in_duckdb(frame):
    return duckdb.from_arrow(frame.to_arrow())


FRAMES = {
    "polars": lambda df: df,
    "lazy": pl.DataFrame.lazy,
    "pyarrow": pl.DataFrame.to_arrow,
    "one-shot reader": one_shot,
    "stream": Streamed,
    "duckdb": in_duckdb,
}
FILES = {
    "parquet": pl.DataFrame.write_parquet,
    "arrow": pl.DataFrame.write_ipc,
    "feather": pl.DataFrame.write_ipc,
}
KINDS = [*FRAMES, *FILES]


def passed(kind, frame, tmp_path):
    if kind in FRAMES:
        return FRAMES[kind](frame)
    FILES[kind](frame, tmp_path / f"table.{kind}")
    return str(tmp_path / f"table.{kind}")


TYPES = {
    # name: (column, type, labels)
    "small whole numbers": (pl.Series([1, 2, None], dtype=pl.Int8), nw.Int8, [1, 2, None]),
    "hashes": (pl.Series([2**63 + 1, 5, None], dtype=pl.UInt64), nw.UInt64, [2**63 + 1, 5, None]),
    "numbers with NaN": (pl.Series([1.5, math.nan, None]), nw.Float64, [1.5, None, None]),
    "short floats": (pl.Series([1.5, math.nan, None], dtype=pl.Float32), nw.Float32, [1.5, None, None]),
    "infinity": (pl.Series([-math.inf, math.inf]), nw.Float64, [-math.inf, math.inf]),
    "truth values": (pl.Series([True, None, False]), nw.Boolean, [True, None, False]),
    "text": (pl.Series(["b", "a", None, ""]), nw.String, ["b", "a", None, ""]),
    "decimals": (pl.Series([decimal.Decimal("1.50"), None]), nw.Decimal, [decimal.Decimal("1.50"), None]),
    "days": (pl.Series([dt.date(2020, 1, 2), None]), nw.Date, [dt.date(2020, 1, 2), None]),
    "moments": (pl.Series([dt.datetime(2020, 1, 2, 3), None]), nw.Datetime, [dt.datetime(2020, 1, 2, 3), None]),  # noqa: DTZ001
    "nothing at all": (pl.Series([None, None]), nw.Unknown, [None, None]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TYPES)
def test_a_column_comes_out_as_it_went_in(name, kind, tmp_path):
    column, dtype, expected = TYPES[name]
    if (name, kind) == ("nothing at all", "stream"):
        pytest.skip("columns of Polars that arro3 does not read")
    table = open_table(passed(kind, pl.DataFrame({"c": column}), tmp_path))
    assert table.schema["c"] == dtype
    assert label_problems("by", "c", table) == []
    assert labels(table) == expected
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        assert numbers(table) == [None if v is None else float(v) for v in expected]


@pytest.mark.parametrize("kind", ["polars", "lazy", "pyarrow", "stream", "parquet", "arrow"])
def test_categories_are_text_and_moments_keep_their_zone(kind, tmp_path):
    frame = pl.DataFrame(
        {
            "category": pl.Series(["b", "a", None], dtype=pl.Categorical),
            "hour": [dt.datetime(2020, 7, 1, tzinfo=HOME), None, None],
        }
    )
    table = open_table(passed(kind, frame, tmp_path))
    assert table.schema["category"] == nw.Categorical
    assert labels(table, "category") == ["b", "a", None]
    assert [str(hour) for hour in labels(table, "hour")] == ["2020-07-01 00:00:00+02:00", "None", "None"]


UNREAD = {
    "bytes": pl.Series([b"b", None]),
    "times": pl.Series([dt.time(1), None]),
    "durations": pl.Series([dt.timedelta(seconds=3), None]),
    "whole numbers of 128 bits": pl.Series([7, None], dtype=pl.Int128),
    "half precision": pl.Series([1.5, None], dtype=pl.Float16),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNREAD)
def test_other_types_are_refused_where_they_are_named_and_nowhere_else(name, kind, tmp_path):
    try:
        given = passed(kind, pl.DataFrame({"c": UNREAD[name], "v": [1, 2]}), tmp_path)
    except Exception:  # noqa: BLE001
        pytest.skip("a type that others do not have")
    if (name, kind) == ("half precision", "parquet"):
        assert labels(open_table(given)) == [1.5, None]  # DuckDB reads it as a float
        return
    try:
        table = open_table(given)
    except eh.EvenhandError:
        assert kind in ("stream", "one-shot reader")  # types that Arrow has no name for
        return
    (problem,) = label_problems("by", "c", table)
    assert problem.startswith("by='c' holds ")
    (problem,) = role_problems(table, [("amount", "c")], {"amount"})
    assert problem.endswith("values, not numbers. Convert the column first.")
    with pytest.raises(eh.EvenhandError, match=r"'c' holds .* values. Pass a column of plain labels or numbers."):
        labels(table)
    assert labels(table, "v") == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_nested_columns_are_no_labels_and_no_numbers(kind, tmp_path):
    frame = pl.DataFrame({"tags": [["a"], ["b"]], "both": [{"x": 1}, {"x": 2}], "c": [1, 2]})
    table = open_table(passed(kind, frame, tmp_path))
    assert label_problems("by", "tags", table) == [
        "by='tags' holds List(String) values. Pass a column of plain labels."
    ]
    assert role_problems(table, [("amount", "both")], {"amount"}) == [
        "amount='both' holds Struct({'x': Int64}) values, not numbers. Convert the column first."
    ]
    assert labels(table) == [1, 2]


def objects(*values):
    return pd.Series(list(values), dtype=object)


IDS = [uuid.UUID(int=1), uuid.UUID(int=2)]
OBJECTS = {
    # name: (column, labels)
    "whole numbers": (objects(1, 2, None), [1, 2, None]),
    "numbers": (objects(1, 2.5, None), [1.0, 2.5, None]),
    "truth values": (objects(True, None, False), [True, None, False]),
    "text": (objects("b", None, math.nan, pd.NA, "a"), ["b", None, None, None, "a"]),
    "days": (objects(dt.date(2020, 1, 1), None), [dt.date(2020, 1, 1), None]),
    "decimals": (objects(decimal.Decimal("1.5"), None), [decimal.Decimal("1.5"), None]),
    "ids of databases": (objects(IDS[0], None, IDS[1]), [str(IDS[0]), None, str(IDS[1])]),
    "nothing": (objects(None, None), [None, None]),
    "text categories": (pd.Series(pd.Categorical(["b", None, "a"], categories=["b", "z", "a"])), ["b", None, "a"]),
    "whole categories": (pd.Series(pd.Categorical([3, None, 1])), ["3", None, "1"]),
    "truth categories": (pd.Series(pd.Categorical([True, None])), ["True", None]),
    "nullable whole numbers": (pd.Series([1, None], dtype="Int64"), [1, None]),
    "nullable hashes": (pd.Series([2**63 + 1, None], dtype="UInt64"), [2**63 + 1, None]),
    "Arrow text": (pd.Series(["b", None], dtype=pd.ArrowDtype(pa.large_string())), ["b", None]),
    "Arrow decimals": (pd.Series([decimal.Decimal("1.50"), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2))), [decimal.Decimal("1.50"), None]),
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_a_column_of_pandas_is_read_as_what_it_holds(name):
    column, expected = OBJECTS[name]
    table = open_table(pd.DataFrame({"c": column, "v": range(len(column))}))
    assert label_problems("by", "c", table) == []
    assert labels(table) == expected
    assert table.backend == "pandas"


MIXED = "holds values that are neither all text nor all numbers. Pass a column of plain labels."
REFUSED = {
    "numbers and text": (objects(1, "1", "x"), MIXED),
    "text and a number, late": (objects(*["x"] * 2_000, 1), MIXED),
    "ids and text": (objects(IDS[0], "x"), MIXED),
    "lists": (objects([1], [2]), "holds List(Int64) values. Pass a column of plain labels."),
    "moments among objects": (objects(dt.datetime(2020, 1, 1), None), MIXED),  # noqa: DTZ001
    "more than 64 bits": (objects(2**70, 1), MIXED),
    "categories of several types": (pd.Series(pd.Categorical([1, "1"])), MIXED),
    "times": (objects(dt.time(1), None), MIXED),
    "bytes": (objects(b"1", None), MIXED),
    "half precision": (pd.Series([1.5, np.nan], dtype="float16"), "holds float16 values. Pass a column of plain labels."),
    "durations": (pd.Series(pd.to_timedelta([3, None], unit="s")).astype("timedelta64[ns]"), "holds timedelta64[ns] values. Pass a column of plain labels."),
    "complex numbers": (pd.Series([1j, 2j]), "holds complex128 values. Pass a column of plain labels."),
    "months": (pd.Series(pd.period_range("2020", periods=2, freq="M")), "holds period[M] values. Pass a column of plain labels."),
    "sparse numbers": (pd.Series(pd.arrays.SparseArray([1, 0])), "holds Sparse[int64, 0] values. Pass a column of plain labels."),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_column_of_pandas_that_cannot_be_labels_is_refused(name):
    column, words = REFUSED[name]
    table = open_table(pd.DataFrame({"c": column, "v": range(len(column))}))
    assert label_problems("by", "c", table) == [f"by='c' {words}"]
    (problem,) = role_problems(table, [("amount", "c")], {"amount"})
    assert problem.endswith("values, not numbers. Convert the column first.")
    assert labels(table, "v") == list(range(len(column)))


OF_DUCKDB = {
    # SQL of 1 and 2: labels
    "uuid": ("CAST('00000000-0000-0000-0000-00000000000' || i AS UUID)", [str(uuid.UUID(int=i)) for i in (1, 2)]),
    "wide numbers": ("i::HUGEINT", [1, 2]),
    "enumerations": ("(CASE WHEN i = 1 THEN 'b' ELSE 'a' END)::ENUM('b', 'a')", ["b", "a"]),
    "nothing": ("NULL", [None, None]),
    "decimals": ("i::DECIMAL(20, 3)", [decimal.Decimal("1.000"), decimal.Decimal("2.000")]),
    "seconds": ("make_timestamp(2020, 1, i::INT, 0, 0, 0)::TIMESTAMP_S", [dt.datetime(2020, 1, i) for i in (1, 2)]),  # noqa: DTZ001
}  # fmt: skip


@pytest.mark.parametrize("place", ["relation", "file"])
@pytest.mark.parametrize("name", OF_DUCKDB)
def test_a_type_of_duckdb_is_a_label(name, place, tmp_path):
    sql, expected = OF_DUCKDB[name]
    query = f"SELECT {sql} AS c FROM range(1, 3) AS numbers(i)"
    with duckdb.connect(str(tmp_path / "w.duckdb") if place == "file" else ":memory:") as connection:
        if place == "file":
            connection.execute(f"CREATE TABLE log AS {query}")
        relation = connection.sql(query)
        table = open_table(relation) if place == "relation" else None
    table = table or open_table(f"{tmp_path / 'w.duckdb'}::log")
    assert label_problems("by", "c", table) == []
    assert labels(table) == expected


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("to_days(1)", "holds INTERVAL values. Pass a column of plain labels."),
        ("1::BIT", "holds BIT values. Pass a column of plain labels."),
        ("'01:00:00'::TIME", "holds TIME values. Pass a column of plain labels."),
        ("MAP([1], [2])", "holds MAP(INTEGER, INTEGER) values. Pass a column of plain labels."),
        ("[1, 2]", "holds List(Int32) values. Pass a column of plain labels."),
    ],
)
def test_a_type_of_duckdb_that_cannot_be_labels_is_refused(sql, words):
    assert label_problems("by", "c", open_table(duckdb.sql(f"SELECT {sql} AS c"))) == [f"by='c' {words}"]


NAMES = [
    ["A", "a"],
    ["", "b"],
    ['q"x', "a.b", "*", "^v$", "a b", "it's", "new\nline"],
    ["c0", "C1", "column_1", "COLUMN_2", ""],
]


@pytest.mark.parametrize("kind", [*KINDS, "pandas", "csv", "tsv", "jsonl", "json"])
@pytest.mark.parametrize("names", NAMES, ids=["case", "empty", "signs", "ours"])
def test_columns_have_the_names_that_their_owner_gave_them(names, kind, tmp_path):
    if (kind == "duckdb" and ("" in names or "a" in names)) or (kind == "pyarrow" and "" in names):
        pytest.skip("DuckDB itself gives such columns other names, and so does Polars on the way from PyArrow")
    frame = pl.DataFrame({name: [f"{i}", f"x{i}"] for i, name in enumerate(names)})
    if kind == "pandas":
        table = open_table(frame.to_pandas())
    elif kind in ("csv", "tsv", "jsonl", "json"):
        path = tmp_path / f"table.{kind}"
        if kind in ("csv", "tsv"):
            frame.write_csv(path, separator="," if kind == "csv" else "\t")
        elif kind == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in frame.iter_rows(named=True)))
        else:
            path.write_text(json.dumps(list(frame.iter_rows(named=True))))
        table = open_table(path)
    else:
        table = open_table(passed(kind, frame, tmp_path))
    assert rows(table) == (names, frame.rows())
    chosen = open_table(frame, columns=[names[1]])
    assert chosen.names == names
    assert labels(chosen, names[1]) == frame[names[1]].to_list()


def test_a_name_twice_is_refused_and_a_name_that_is_no_text(tmp_path):
    twice = pa.table([pa.array([1]), pa.array([2])], names=["v", "v"])
    for table in (twice, pd.DataFrame([[1, 2]], columns=["v", "v"])):
        with pytest.raises(
            eh.EvenhandError, match=r"table has several columns .*[.] Give each column a name of its own"
        ):
            open_table(table)
    with pytest.raises(eh.EvenhandError, match="as text"):
        open_table(pd.DataFrame([[1, 2]], columns=["v", 7]))
    (tmp_path / "x.csv").write_text("v,u,v\n1,2,3\n")
    with pytest.raises(eh.EvenhandError, match="log has several columns named v"):
        open_table(tmp_path / "x.csv", role="log")


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "duckdb"])
def test_a_table_without_rows_has_its_columns(kind, tmp_path):
    frame = pl.DataFrame(schema={"u": pl.String, "v": pl.Int64, "when": pl.Date})
    table = open_table(passed(kind, frame, tmp_path))
    assert rows(table) == (["u", "v", "when"], [])
    assert table.schema["v"] == nw.Int64


@pytest.mark.parametrize(
    "empty", [pl.DataFrame(), pd.DataFrame(), pa.table({}), pl.LazyFrame()], ids=lambda t: type(t).__module__
)
def test_a_table_without_columns_says_so(empty):
    with pytest.raises(eh.EvenhandError, match=r"amount='v' is not a column of the table\. Columns: none"):
        eh.inequality(empty, unit=None, amount="v", population=None)


@pytest.mark.parametrize(
    "thing", [3, None, object(), [1, 2], {"a": 1}, pl.Series([1]), pd.Series([1]), pa.array([1]), np.zeros(3)]
)
def test_what_is_no_table_is_refused_in_words(thing):
    with pytest.raises(eh.EvenhandError, match=rf"table is of type {type(thing).__name__}, which is not a dataframe"):
        open_table(thing)


def test_only_the_columns_that_are_read_are_fetched():
    frame = pl.DataFrame({"u": ["a"], "v": [1], "unused": [2]})
    for table in (frame, frame.lazy(), frame.to_arrow(), frame.to_pandas(), in_duckdb(frame)):
        opened = open_table(table, columns=["v", None, "nowhere"])
        assert opened.names == ["u", "v", "unused"]
        assert list(opened.expressions) == ["v"]


def test_nothing_that_was_passed_is_changed():
    table = pd.DataFrame({"c": objects(1, None), "k": pd.Categorical([1, 2]), "h": np.array([1, 2], dtype="float16")})
    before = table.copy(deep=True)
    labels(open_table(table))
    pd.testing.assert_frame_equal(table, before)


def test_a_lazy_frame_is_run_once():
    runs = []

    def count(frame):
        runs.append(1)
        return frame

    lazy = pl.LazyFrame({"c": [1, 2]}).map_batches(count)
    table = open_table(lazy)
    assert (labels(table), labels(table)) == ([1, 2], [1, 2])
    assert len(runs) == 1


def test_frames_in_parts_keep_the_order_of_their_rows():
    frame = pl.DataFrame({"c": np.arange(3 * ROWS_AT_ONCE + 7)})
    for table in (frame, frame.to_pandas(), frame.lazy(), in_duckdb(frame)):
        opened = open_table(table)
        query = (
            f"SELECT c, ROW_NUMBER() OVER () - 1 AS place FROM ({opened.select({'c': opened.column('c')})}) AS ordered"
        )
        assert opened.facts({"n": "COUNT(*)"})["n"] == len(frame)
        assert opened.cells(f"SELECT COUNT(*) AS moved FROM ({query}) AS places WHERE c <> place").row()["moved"] == 0


def test_two_tables_are_joined_in_one_engine():
    log = open_table(pl.DataFrame({"u": ["a", "b"], "v": [1, 2]}))
    for other in (pd.DataFrame({"u": ["a"]}), pa.table({"u": ["a"]}), duckdb.sql("SELECT 'a' AS u")):
        beside = open_table(other, same_engine_as=log)
        assert beside.engine is log.engine
        query = f"SELECT l.v FROM {log.name} AS l JOIN {beside.name} AS o ON l.u = o.u"
        assert log.cells(query).values("v") == [1]


def test_files_with_other_columns_or_types_of_numbers_are_read_together(tmp_path):
    pl.DataFrame({"u": ["a"], "v": [1], "x": [9]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"v": [2.5], "u": ["b"]}).write_parquet(tmp_path / "2.parquet")
    pl.DataFrame({"v": pl.Series([3], dtype=pl.Int8), "u": ["c"]}).write_parquet(tmp_path / "3.parquet")
    table = open_table(str(tmp_path / "*.parquet"))
    assert rows(table) == (["u", "v"], [("a", 1.0), ("b", 2.5), ("c", 3.0)])
    assert table.schema["v"] == nw.Float64
    assert table.lacking == {"x": str(tmp_path / "2.parquet")}


def test_columns_that_nobody_reads_may_have_any_type_in_any_file(tmp_path):
    pl.DataFrame({"u": ["a"], "v": [1]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"u": ["b"], "v": ["x"]}).write_parquet(tmp_path / "2.parquet")
    assert labels(open_table(str(tmp_path), columns=["u"]), "u") == ["a", "b"]
    with pytest.raises(
        eh.EvenhandError, match=r"2.parquet' cannot be read together with '.*1.parquet': 'v' holds String"
    ):
        open_table(str(tmp_path))


@pytest.mark.parametrize("packed", [False, True])
def test_files_of_text_with_other_columns_are_read_together(packed, tmp_path):
    contents = {"1.csv": b"u,v,x\na,1,9\n", "2.csv": b"v,u\r\n2,b\r\n", "3.csv": b"u,v\n"}
    for name, content in contents.items():
        path = tmp_path / (name + ".gz" * packed)
        path.write_bytes(gzip.compress(content) if packed else content)
    table = open_table(str(tmp_path))
    assert rows(table) == (["u", "v"], [("a", "1"), ("b", "2")])
    assert set(table.lacking) == {"x"}


TEXT = {
    "empty lines before the header": (b"\n\nu,v\na,1\n", [("a", "1")]),
    "line ends in quotes": (b'u,v\n"a\r\nb",1\n"c\n",2\n', [("a\r\nb", "1"), ("c\n", "2")]),
    "empty text and nothing": (b'u,v\n"",1\n,2\n"",\n', [("", "1"), (None, "2"), ("", None)]),
    "zeros before numbers": (b"u,v\n007,1\n7,2\n", [("007", "1"), ("7", "2")]),
    "a byte order mark before quotes": (b'\xef\xbb\xbf"u",v\na,1\n', [("a", "1")]),
    "quotes in quotes": (b'u,v\n"a ""b""",1\n"""",2\n', [('a "b"', "1"), ('"', "2")]),
    "a long line": (b"u,v\n" + b"x" * 3_000_000 + b",1\n", [("x" * 3_000_000, "1")]),
}


@pytest.mark.parametrize("name", TEXT)
def test_text_is_read_as_it_is_written(name, tmp_path):
    content, expected = TEXT[name]
    (tmp_path / "x.csv").write_bytes(content)
    assert rows(open_table(tmp_path / "x.csv"))[1] == expected


ROWS = b"a,1\n" * 50_000
BROKEN = {
    "a quote that is never closed, late": (b"u,v\n" + ROWS + b'"a,2\nb,3\n', "has quotes or line ends that cannot be read"),
    "quotes inside fields, even in number": (b'u,v\na"b,1\n"c,2\n', "has quotes or line ends that cannot be read"),
    "text after a quote": (b'u,v\n"a"b,1\n', "has quotes or line ends that cannot be read"),
    "more fields, late": (b"u,v\n" + ROWS + b"a,2,3\n", "has lines with more fields than its header"),
    "carriage returns in lines": (b"u,v\na\rb,1\nc,2\n", "has quotes or line ends that cannot be read"),
    "lines that end in several ways": (b"u,v\r\na,1\nb,2\r\n", "has quotes or line ends that cannot be read"),
    "short lines beside line ends in quotes": (b'u,v\n"a\nb"\nc,2\n', "more fields than its header, or fewer"),
    "a zero byte": (b"u,v\na\x00b,1\n", "is not text"),
    "a header alone": (b"u,v\n", "has no rows, only a header"),
    "nothing": (b"", "is empty. Pass a file with a header and rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_text_that_is_broken_is_refused_and_never_read_in_part(name, tmp_path):
    content, words = BROKEN[name]
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(eh.EvenhandError, match=words) as caught:
        open_table(tmp_path / "x.csv")
    assert "a,2" not in str(caught.value)


def test_keys_that_come_up_late_are_columns_and_capitals_count(tmp_path):
    lines = ['{"u": 1}'] * 20_000 + ['{"u": 2, "U": "x", "a/b~c": true}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    table = open_table(tmp_path / "x.jsonl")
    assert table.names == ["u", "U", "a/b~c"]
    assert rows(table)[1][-1] == ("2", "x", "true")


def test_what_is_nested_in_lines_of_json_is_told_apart_from_text(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"u": "a", "tags": ["x"], "more": {"n": 1}}\n{"u": "[b", "tags": null}\n')
    table = open_table(tmp_path / "x.jsonl")
    assert labels(table, "u") == ["a", "[b"]
    assert [label_problems("by", name, table) for name in ("tags", "more")] == [
        ["by='tags' holds List(String) values. Pass a column of plain labels."],
        ["by='more' holds Struct({'n': UInt64}) values. Pass a column of plain labels."],
    ]


@pytest.mark.parametrize("line", ['{"u": NaN}', '{"u": -Infinity}', '["u"]', "5", "{'u': 1}", '{"u": 1} {"u": 2}', "{"])
def test_a_line_that_is_no_object_is_named(line, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"u": 1}\n' + line + "\n")
    with pytest.raises(eh.EvenhandError, match="has no JSON object in line 2"):
        open_table(tmp_path / "x.jsonl")


def test_the_word_for_infinity_is_a_word_where_it_is_text(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"c": "NaN"}\n{"c": "inf"}\n')
    assert labels(open_table(tmp_path / "x.jsonl")) == ["NaN", "inf"]


def test_every_ending_of_the_register_is_read(tmp_path):
    frame = pl.DataFrame({"u": ["a", "b"], "v": ["1", "2"]})
    writers = {
        "parquet": frame.write_parquet,
        "arrow": frame.write_ipc,
        "jsonl": frame.write_ndjson,
        "csv": frame.write_csv,
        "tsv": lambda path: frame.write_csv(path, separator="\t"),
    }
    assert set(writers) == set(FORMATS)
    for ending, kind in known_endings().items():
        path = tmp_path / f"log{ending}"
        writers[kind](path)
        assert rows(open_table(path)) == (["u", "v"], frame.rows())
        path.with_suffix(ending.upper()).write_bytes(path.read_bytes())
        assert rows(open_table(path.with_suffix(ending.upper()))) == (["u", "v"], frame.rows())


@pytest.mark.parametrize(("ending", "word"), [("parquet", "Parquet"), ("arrow", "Arrow")])
def test_a_file_that_was_cut_off_is_told_before_anything_is_read(ending, word, tmp_path):
    whole = tmp_path / f"whole.{ending}"
    FILES[ending](pl.DataFrame({"c": range(1_000)}), whole)
    (tmp_path / f"cut.{ending}").write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(eh.EvenhandError, match=f"is not a whole {word} file"):
        open_table(tmp_path / f"cut.{ending}")


def test_names_of_files_are_names_and_no_patterns(tmp_path):
    odd = tmp_path / "it's [1] * log?.csv"
    odd.write_text("u\na\n")
    assert labels(open_table(odd), "u") == ["a"]
    pl.DataFrame({"u": ["b"]}).write_parquet(odd.with_suffix(".parquet"))
    assert labels(open_table(odd.with_suffix(".parquet")), "u") == ["b"]


def test_whole_groups_come_in_order_with_long_text_keys():
    frame = pl.DataFrame({"k": [f"key {i % 1000:030d}" for i in range(60_000)], "place": np.arange(60_000)})
    table = open_table(frame.sample(fraction=1.0, shuffle=True, seed=1))
    query = table.select({"k": table.column("k"), "place": table.column("place")})
    seen = []
    for batch in table.engine.groups(query, ["k"], ["place"]):
        seen += batch.firsts(["k"]).values("k")
        places = np.split(batch.integers("place"), batch.starts[1:-1])
        assert all((np.diff(part) == 1_000).all() for part in places)
    assert sorted(seen) == sorted(set(frame["k"]))


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip


QUIET = {
    "frames": "for t in (f, f.lazy(), f.to_pandas(), f.to_arrow()): eh.inequality(t, **call).frame",
    "relations": "import duckdb; t = duckdb.from_arrow(f.to_arrow()); r = eh.inequality(t, **call); r.frame",
    "relations that are held": "from evenhand.sources.opening import open_table; held = [open_table(f), open_table(f.lazy())]",
    "a stream that is not read to its end": "from evenhand.sources.opening import open_table; t = open_table(pl.DataFrame({'c': range(600_000)}));"
    " g = t.engine.groups(t.select({'c': t.column('c')}), ['c']); next(g)",
    "an error that is held": "\ntry: eh.inequality(f, **{**call, 'amount': 'w'})\nexcept eh.EvenhandError as error: held = error",
}


@pytest.mark.parametrize("name", QUIET)
def test_nothing_is_said_and_nothing_is_left_when_python_ends(name, tmp_path):
    begin = "import evenhand as eh, polars as pl\nf = pl.DataFrame({'u': list('abc'), 'v': [1, 2, 3]})\n"
    begin += "call = {'unit': 'u', 'amount': 'v', 'population': None, 'interval': None, 'metrics': 'gini'}\n"
    done = run(begin + QUIET[name], TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_spilled_is_removed_by_the_next(tmp_path):
    spill = (
        "import os, signal\nfrom evenhand.sources.engine import DuckDBEngine\ne = DuckDBEngine()\n"
        "e.keep('SELECT i, hash(i) AS h FROM range(3000000) AS t(i) ORDER BY h')\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    assert run(spill, TMPDIR=str(tmp_path), EVENHAND_MEMORY="60MB").returncode == -9
    assert list(tmp_path.iterdir())
    assert run("from evenhand.sources.engine import DuckDBEngine; DuckDBEngine()", TMPDIR=str(tmp_path)).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_the_memory_that_may_be_used_is_set_in_the_environment(monkeypatch):
    monkeypatch.setenv("EVENHAND_MEMORY", "400MB")
    assert memory_limit() == 400_000_000
    monkeypatch.setenv("EVENHAND_MEMORY", "1.5 GiB")
    assert memory_limit() == 3 << 29
    monkeypatch.setenv("EVENHAND_MEMORY", "lots")
    with pytest.raises(eh.EvenhandError, match="EVENHAND_MEMORY='lots' is not a size"):
        memory_limit()
    shown = "from evenhand.sources.engine import DuckDBEngine as E; print(E().cells(\"SELECT current_setting('memory_limit') AS m\").row()['m'])"
    assert run(shown, EVENHAND_MEMORY="512MiB").stdout.strip() == "512.0 MiB"


def test_threads_measure_at_the_same_time():
    frame = pl.DataFrame({"u": np.arange(5_000) % 97, "v": np.arange(5_000)})
    call = {"unit": "u", "amount": "v", "population": None, "interval": None, "metrics": "gini"}
    expected = eh.inequality(frame, **call).findings.columns["estimate"]
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(eh.inequality(frame, **call).findings.columns["estimate"]))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


def _measured(answers):
    try:
        answers.put(str(DuckDBEngine().cells("SELECT 1 AS one").row()))
    except eh.EvenhandError as error:
        answers.put(str(error))


@pytest.mark.skipif(sys.platform == "win32", reason="no forks")
def test_a_fork_of_a_process_that_has_measured_is_told_so_and_does_not_hang():
    DuckDBEngine()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=_measured, args=(answers,))
    process.start()
    assert "was forked from one that has measured something" in answers.get(timeout=60)
    process.join(timeout=60)
    assert process.exitcode == 0


def test_a_fork_before_anything_is_measured_has_a_database_of_its_own():
    code = (
        "import os, evenhand\nfrom evenhand.sources.engine import DuckDBEngine\nchild = os.fork()\n"
        "assert DuckDBEngine().cells('SELECT 1 AS n').row() == {'n': 1}\n"
        "if child: assert os.waitpid(child, 0)[1] == 0"
    )
    done = run(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interruption_leaves_the_next_call_alone(monkeypatch):
    frame = pl.DataFrame({"u": ["a", "b"], "v": [1, 3]})
    call = {"unit": "u", "amount": "v", "population": None, "interval": None, "metrics": "mean"}

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DuckDBEngine, "cells", interrupted)
        with pytest.raises(KeyboardInterrupt):
            eh.inequality(frame, **call)
    assert eh.inequality(frame, **call).findings.columns["estimate"] == [2.0]

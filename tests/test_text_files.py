"""Text files: ids are opaque, numbers are numbers where a role asks for them, and both engines read the same."""

from __future__ import annotations

import gzip
import io
import json
import sys

import duckdb
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.sources import files
from evenhand.sources.opening import Files, open_table

ENGINES = ("polars", "duckdb")

READ = {
    # name: (ending, bytes, columns, rows)
    "plain": (".csv", b"u,v\na,1\nb,2\n", ["u", "v"], [("a", "1"), ("b", "2")]),
    "leading zeros": (".csv", b"u,v\n01,1\n1,2\n001,3\n", ["u", "v"], [("01", "1"), ("1", "2"), ("001", "3")]),
    "dates and times": (".csv", b"u\n2020-01-02\n12:30\n2020-01-02 10:00\n", ["u"], [("2020-01-02",), ("12:30",), ("2020-01-02 10:00",)]),
    "numbers of many kinds": (".csv", b"u\n0x10\n1_000\n1e3\n1.50\n+5\n", ["u"], [("0x10",), ("1_000",), ("1e3",), ("1.50",), ("+5",)]),
    "truth values": (".csv", b"u\ntrue\nFalse\nt\n", ["u"], [("true",), ("False",), ("t",)]),
    "words for nothing": (".csv", b"u,v\nNA,1\nnull,2\nNone,3\n", ["u", "v"], [("NA", "1"), ("null", "2"), ("None", "3")]),
    "empty and quoted empty": (".csv", b'u,v\n"",1\n,2\n', ["u", "v"], [("", "1"), (None, "2")]),
    "blank lines": (".csv", b"u,v\na,1\n\nb,2\n\n\n", ["u", "v"], [("a", "1"), ("b", "2")]),
    "blank lines of Windows": (".csv", b"u,v\r\na,1\r\n\r\nb,2\r\n", ["u", "v"], [("a", "1"), ("b", "2")]),
    "lines of old Macs": (".csv", b"u,v\ra,1\rb,2\r", ["u", "v"], [("a", "1"), ("b", "2")]),
    "no last line end": (".csv", b"u,v\na,1", ["u", "v"], [("a", "1")]),
    "byte order mark": (".csv", b"\xef\xbb\xbfu,v\na,1\n", ["u", "v"], [("a", "1")]),
    "spaces": (".csv", b"u, v\n a,1 \n", ["u", "v"], [(" a", "1 ")]),
    "another separator": (".csv", b"u;v\na;1\n", ["u", "v"], [("a", "1")]),
    "latin-1": (".csv", b"u,v\n\xff,1\n", ["u", "v"], [("ÿ", "1")]),
    "quotes": (".csv", b'u,v\n"a ""b"", c",1\n"d\ne",2\n', ["u", "v"], [('a "b", c', "1"), ("d\ne", "2")]),
    "comments are data": (".csv", b"u,v\n#a,1\n", ["u", "v"], [("#a", "1")]),
    "names that differ in capitals": (".csv", b"v,V\na,1\n", ["v", "V"], [("a", "1")]),
    "a name that is missing": (".csv", b",v\na,1\n", ["", "v"], [("a", "1")]),
    "tabs": (".tsv", b"u\tv\na,b\t1\n", ["u", "v"], [("a,b", "1")]),
    "JSON ids": (".jsonl", b'{"u": 1, "v": 1}\n{"u": "1", "v": 2}\n{"u": "01", "v": 3}\n', ["u", "v"], [("1", "1"), ("1", "2"), ("01", "3")]),
    "JSON with blank lines": (".jsonl", b'{"u": "a"}\n\n{"u": "b"}\n', ["u"], [("a",), ("b",)]),
    "JSON with other keys": (".jsonl", b'{"u": "a"}\n{"v": true}\n', ["u", "v"], [("a", None), (None, "true")]),
    "JSON with a key twice": (".jsonl", b'{"u": "a", "u": "b"}\n', ["u"], [("a",)]),
    "JSON dates": (".jsonl", b'{"u": "2020-01-02"}\n{"u": null}\n', ["u"], [("2020-01-02",), (None,)]),
}  # fmt: skip

REFUSED = {
    "more fields than the header": (".csv", b"u,v\na,1,2\n", "more fields than its header"),
    "fewer fields than the header": (".csv", b"u,v\na\nb,2\n", "more fields than its header, or fewer"),
    "a stray quote": (".csv", b'u,v\na"b,1\nc,2\n', "quotes or line ends"),
    "a quote that is not closed": (".csv", b'u,v\n"a,1\nc,2\n', "quotes or line ends"),
    "text after a quote": (".csv", b'u,v\n"a"b,1\nc,2\n', "quotes or line ends"),
    "a column twice": (".csv", b"u,v,u\na,1,2\n", "several columns named u"),
    "not text": (".csv", b"u,v\n\x00\x01,1\n", "not text"),
    "nothing": (".csv", b"", "is empty"),
    "a header alone": (".csv", b"u,v\n", "only a header"),
    "JSON that is none": (".jsonl", b'{"u": 1}\n{"u": NaN}\n', "no JSON object in line 2"),
    "a JSON list": (".jsonl", b'[{"u": 1}]\n', "no JSON object in line 1"),
    "two JSON objects in a line": (".jsonl", b'{"u": 1} {"u": 2}\n', "no JSON object in line 1"),
}


def opened(path, engine):
    return open_table(Files((str(path),), engine))


def rows(table):
    names = table.names
    return names, table.cells(table.select({str(i): table.column(n) for i, n in enumerate(names)})).frame.rows()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", READ)
def test_a_text_file_reads_the_same_on_every_engine(name, engine, tmp_path):
    ending, content, names, expected = READ[name]
    path = tmp_path / f"x{ending}"
    path.write_bytes(content)
    assert rows(opened(path, engine)) == (names, expected)
    (tmp_path / f"x{ending}.gz").write_bytes(gzip.compress(content, mtime=0))
    assert rows(opened(tmp_path / f"x{ending}.gz", engine)) == (names, expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", REFUSED)
def test_a_text_file_is_refused_on_every_engine_in_the_same_words(name, engine, tmp_path):
    ending, content, words = REFUSED[name]
    path = tmp_path / f"x{ending}"
    path.write_bytes(content)
    with pytest.raises(eh.EvenhandError, match=words):
        opened(path, engine)


NUMBERS = {
    "whole": (["1", "02", "+3", "-4"], pl.Int64, [1, 2, 3, -4]),
    "whole with gaps": (["1", "", "3"], pl.Int64, [1, None, 3]),
    "fractions late": (["1"] * 20_000 + ["1.5"], pl.Float64, [1.0] * 20_000 + [1.5]),
    "written with exponents": (["1e3", ".5", "5.", "inf", "NaN"], pl.Float64, [1000.0, 0.5, 5.0, float("inf"), None]),
    "more digits than a whole number holds": (["12345678901234567890"], pl.Float64, [12345678901234567890.0]),
    "truth values": (["true", "False"], pl.Boolean, [True, False]),
    "nothing at all": (["", ""], pl.Float64, [None, None]),
    "hexadecimal": (["0x10", "1"], pl.String, ["0x10", "1"]),
    "with separators": (["1_000", "1"], pl.String, ["1_000", "1"]),
    "with spaces": ([" 1", "2"], pl.Int64, [1, 2]),
    "digits of other scripts": (["٣", "2"], pl.String, ["٣", "2"]),
    "a word for nothing among them": (["1", "NA"], pl.Int64, [1, None]),
    "another word among them": (["1", "few"], pl.String, ["1", "few"]),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NUMBERS)
def test_what_counts_as_a_number_is_the_same_on_every_engine(name, engine, tmp_path):
    written, dtype, expected = NUMBERS[name]
    path = tmp_path / "x.csv"
    path.write_text("u,v\n" + "".join(f"a,{v}\n" for v in written))
    table = opened(path, engine).with_numbers("v")
    found = table.cells(table.select({"v": table.column("v")})).frame["v"]
    assert found.dtype == dtype
    assert (found.fill_nan(None) if dtype == pl.Float64 else found).to_list() == expected


CALL = {"unit": "u", "amount": "v", "population": None, "metrics": "gini", "interval": None}


@pytest.mark.parametrize("engine", ENGINES)
def test_authors_that_differ_in_zeros_are_different_authors(engine, tmp_path):
    (tmp_path / "x.csv").write_text("u,v,z\n01,8,010\n1,1,10\n001,0,10\n")
    source = Files((str(tmp_path / "x.csv"),), engine)
    assert eh.inequality(source, **CALL).findings.columns["units"] == [3]
    assert eh.inequality(source, by="z", **CALL).findings.columns["z"] == ["010", "10"]


@pytest.mark.parametrize("engine", ENGINES)
def test_ids_of_a_parquet_file_and_of_a_text_file_meet(engine, tmp_path):
    pl.DataFrame({"u": [1, 2], "v": [3, 5], "band": [7, 8]}).write_parquet(tmp_path / "log.parquet")
    (tmp_path / "all.csv").write_text("u,band\n1,7\n2,8\n3,8\n")
    call = CALL | {"population": str(tmp_path / "all.csv"), "by": "band"}
    found = eh.inequality(Files((str(tmp_path / "log.parquet"),), engine), **call).findings
    assert (found.columns["band"], found.columns["units"]) == (["7", "8"], [1, 2])
    (tmp_path / "log.csv").write_text("u,v\n1,3\n2,5\n")
    pl.DataFrame({"u": [1, 2, 3]}).write_parquet(tmp_path / "all.parquet")
    call = CALL | {"population": str(tmp_path / "all.parquet")}
    assert eh.inequality(Files((str(tmp_path / "log.csv"),), engine), **call).findings.columns["units"] == [3]


def test_an_id_with_zeros_is_not_the_number_of_a_parquet_file(tmp_path):
    pl.DataFrame({"u": [1], "v": [3]}).write_parquet(tmp_path / "log.parquet")
    (tmp_path / "all.csv").write_text("u\n01\n2\n")
    with pytest.raises(eh.EvenhandError, match="1 units received something but are not in population"):
        eh.inequality(tmp_path / "log.parquet", **(CALL | {"population": tmp_path / "all.csv"}))


ODD = ["^v$", "*", "a.b", 'q"x', "new\nline", "it's", " ", "^.*$", "a[0]", "COLUMNS(*)", "`t`", "__proto__"]
MAKERS = {
    "polars": pl.DataFrame.lazy,
    "pandas": pl.DataFrame.to_pandas,
    "pyarrow": pl.DataFrame.to_arrow,
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}


@pytest.mark.parametrize("kind", [*MAKERS, "csv", "csv by duckdb", "parquet by duckdb"])
@pytest.mark.parametrize("name", ODD)
def test_a_column_name_is_a_name_and_no_pattern(name, kind, tmp_path):
    frame = pl.DataFrame({"v": [1, 1, 1], "b": list("xyz"), "a": list("xyz"), name: [5, 1, 0]})
    source = MAKERS[kind](frame) if kind in MAKERS else None
    if kind.startswith("csv"):
        frame.write_csv(tmp_path / "x.csv")
        source = Files((str(tmp_path / "x.csv"),), kind.rpartition(" ")[2] if " " in kind else "polars")
    elif kind.startswith("parquet"):
        frame.write_parquet(tmp_path / "x.parquet")
        source = Files((str(tmp_path / "x.parquet"),), "duckdb")
    call = {"population": None, "metrics": "mean", "interval": None}
    assert eh.inequality(source, unit="a", amount=name, **call).findings.columns["estimate"] == [2]
    found = eh.inequality(source, unit="a", amount="v", by=name, **call).findings
    assert [str(v) for v in found.columns[name]] == ["0", "1", "5"]
    assert eh.inequality(source, unit=name, amount="v", **call).findings.columns["units"] == [3]


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"u,v\n01,1\n1,3\n", 2),
        (b'{"u": 1, "v": 1}\n', 1),
        (b"u\tv\na\t1\n", 1),
        (gzip.compress(b"u,v\na,1\n", mtime=0), 1),
    ],
)
def test_what_is_piped_in_is_read(content, shown, monkeypatch, capsys):
    files._standard_input.cache_clear()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    words = [
        "inequality",
        "-",
        "--unit",
        "u",
        "--amount",
        "v",
        "--population",
        "none",
        "-m",
        "gini",
        "--format",
        "json",
    ]
    assert main([*words, "--interval", "none"]) == 0
    files._standard_input.cache_clear()
    told = json.loads(capsys.readouterr().out)
    assert told["columns"]["units"] == [shown]
    assert told["provenance"]["plan"]["table"] == "-"


SECRET = "Ada Lovelace 1815-12-10"


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_quotes_a_row_of_data(engine, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(f'u,v\na,1\n"{SECRET},2\n')
    with pytest.raises(eh.EvenhandError) as caught:
        eh.inequality(Files((str(path),), engine), **CALL)
    assert "Ada" not in str(caught.value)
    path.write_text("u,v\n" + "a,1\n" * 30_000 + f"b,{SECRET}\n")
    with pytest.raises(eh.EvenhandError, match="not numbers") as caught:
        eh.inequality(Files((str(path),), engine), **CALL)
    assert "Ada" not in str(caught.value)


def test_duckdb_quotes_no_row_of_a_view_that_fails(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(f"u,v\na,1\nb,{SECRET}\n")
    relation = duckdb.sql(f"select u, v::int as v from read_csv('{path}', all_varchar=true)")
    with pytest.raises(eh.EvenhandError, match="DuckDB failed with") as caught:
        eh.inequality(relation, **CALL)
    assert "Ada" not in str(caught.value)


def test_pandas_columns_of_nothing_are_told_as_missing():
    table = pd.DataFrame({"u": ["a", "b"], "v": [None, None], "w": [1, 2], "g": [None, None]})
    with pytest.raises(eh.EvenhandError, match=r"amount='v' is missing \(null or NaN\) in 2 of 2 rows"):
        eh.inequality(table, **CALL)
    found = eh.inequality(table, **(CALL | {"amount": "w"}), by="g")
    assert found.findings.columns["g"] == [None]
    with pytest.raises(eh.EvenhandError, match="unit='g' is missing in 2 rows"):
        eh.inequality(table, **(CALL | {"unit": "g", "amount": "w"}))

"""Malformed input: one message with fact and remedy, exit code 2, no traceback, nothing left behind; on three engines."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenhand as eh
from evenhand.audits.declare import find
from evenhand.cli import main
from evenhand.cli.audit import in_flags
from evenhand.report.files import write_whole

GOOD = {
    "author": ["a", "a", "b", "c", "d", "d"],
    "source": ["x", "y", "x", "x", "y", "x"],
    "country": ["nl", "nl", "de", "de", "nl", "nl"],
    "views": [5, 1, 2, 0, 3, 1],
    "watch": [0.5, 1.5, 2.0, 0.0, 3.25, 1.0],
    "followers": [10, 10, 200, 3000, 50, 50],
    "weight": [1.0, 1.0, 2.0, 1.5, 1.0, 1.0],
}
CALL: dict[str, Any] = {"unit": "author", "amount": "views", "population": 10, "rng": 1, "interval": None}
ENGINES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "pandas": lambda df: df.to_pandas(),
    "polars-lazy": lambda df: df.lazy(),
    "duckdb": lambda df: duckdb.from_arrow(df.to_arrow()),
}


@dataclass(frozen=True)
class Bad:
    """One malformed input: what is changed in a good call, and what the message must speak of (a pattern)."""

    name: str
    says: str
    columns: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] | None = None
    """Command line words for what `call` cannot be written as; an empty tuple: not expressible there."""

    @property
    def table(self) -> pl.DataFrame:
        return pl.DataFrame({**GOOD, **self.columns}, strict=False)

    @property
    def arguments(self) -> dict[str, Any]:
        return {**CALL, **self.call}


AUTHORS = pl.DataFrame({"author": ["a", "b", "c", "d", "e"]})
NUMBERED = pl.DataFrame({"author": [1, 2, 3, 4, 5]})

TABLE = [
    # roles
    Bad("a unit column that is not there", "unit='auther' is not a column.*Did you mean 'author'", call={"unit": "auther"}),
    Bad("an amount column that is not there", "amount='view' is not a column.*Did you mean 'views'", call={"amount": "view"}),
    Bad("a slice column that is not there", "by='sauce' is not a column.*Did you mean 'source'", call={"by": "sauce"}),
    Bad("a weight column that is not there", "weight='w' is not a column", call={"weight": "w", "population": None}),
    Bad("a column name in other letters", "unit='Author'.*Did you mean 'author'", call={"unit": "Author"}),
    Bad(
        "several columns that are not there, told at once",
        "(?s)3 problems.*unit='auther'.*amount='view'.*by='sauce'",
        call={"unit": "auther", "amount": "view", "by": "sauce"},
    ),
    Bad("one of several amounts that is not there", "amount='likes' is not a column", call={"amount": ["views", "likes"]}),
    Bad("an amount of text", "amount='source' holds .*not numbers", call={"amount": "source"}),
    Bad("numbers written as text", "amount='views' holds .*not numbers", columns={"views": list("512031")}),
    Bad("an amount of dates", "amount='views' holds .*not numbers", columns={"views": [date(2022, 1, d) for d in range(1, 7)]}),
    Bad("a weight of text", "weight='source' holds .*not numbers", call={"weight": "source", "population": None}),
    Bad("an amount of lists", "amount='views' holds .*not numbers", columns={"views": [[1], [2], [3], [4], [5], [6]]}),
    Bad("a unit of lists", "unit='author' holds .*plain labels", columns={"author": [["a"], ["a"], ["b"], ["c"], ["d"], ["d"]]}),
    Bad("a slice that is the unit", "unit='author' is also named in by", call={"by": "author"}),
    Bad("a slice named twice", "by names 'source' twice", call={"by": ["source", "source"]}),
    Bad("an amount named twice", "amount names 'views' twice", call={"amount": ["views", "views"]}),
    Bad("an empty list of amounts", "amount is an empty list", call={"amount": []}, words=()),
    Bad("a slice named like a column of the result", "by='note' is also a column of every result",
        columns={"note": list("xyxyxy")}, call={"by": "note"}),
    Bad("a unit that is no name", "unit=3 is not a column name", call={"unit": 3}, words=()),
    Bad("a slice that is no name", "by=3 is not a column name", call={"by": 3}, words=()),
    Bad("an amount that is no name", "amount=3 is not a column name", call={"amount": 3}, words=()),
    Bad("a column that is not there, beside one of durations", "by='sauce' is not a column",
        columns={"lag": [timedelta(1), timedelta(2)] * 3}, call={"by": "sauce"}),
    Bad("an amount of durations", "amount='views' holds .*not numbers",
        columns={"views": [timedelta(1), timedelta(2)] * 3}),
    Bad("sizes that are mappings", "population has entries that cannot be read", call={"by": "source", "population": {"x": {"y": 1}}},
        words=()),
    Bad("no size for any slice", "population lacks 2 slices", call={"by": "source", "population": {}}, words=()),
    Bad("a slice without a name", "by='' is not a column", call={"by": ""}),
    Bad("a slice that is nothing, in a list", "is not a column name", call={"by": [None]}, words=()),
    Bad("a level that is not a number", "level=nan does not fit", call={"level": math.nan, "interval": "normal"}),
    Bad("a fraction of a unit as the fewest", "min_units=2.5|is not a whole number", call={"min_units": 2.5}),
    Bad("more draws than anybody waits for", "from 20 to 1,000,000", call={"interval": "bootstrap(1000000000000)"}),
    Bad("an interval that is no text", "interval=99 does not fit", call={"interval": 99}, words=()),
    Bad("a seed that is true", "rng=True does not fit", call={"rng": True}, words=()),
    Bad("a weight that is the unit", "weight='author' holds .*not numbers", call={"weight": "author", "population": None}),
    Bad("bins of infinite numbers", "infinite for some units",
        columns={"followers": [math.inf, math.inf, 2, 3, 4, 4]}, call={"by": eh.log_bins("followers", 3), "population": None}, words=()),
    Bad("an empty population table", "4 units received something but are not in population", call={"population": AUTHORS.clear()}),
    Bad("a set of slices", "by=.*is not a column name", call={"by": {"source"}}, words=()),
    Bad("a list of units", "unit=.*is not a column name", call={"unit": ["author"]}, words=()),
    Bad("a list of weights", "weight=.*is not a column name", call={"weight": ["weight"], "population": None}, words=()),
    # values
    Bad("negative amounts", "amount='views' is negative in 2 rows", columns={"views": [5, -1, 2, 0, -3, 1]}),
    Bad("negative fractions", "amount='watch' is negative in 1 row",
        columns={"watch": [0.5, -1e-9, 2, 0, 3, 1]}, call={"amount": "watch"}),
    Bad("a missing amount", "amount='views' is missing.* in 1 of 6 rows", columns={"views": [5, None, 2, 0, 3, 1]}),
    Bad("an amount that is not a number", "amount='watch' is missing.* in 2 of 6 rows",
        columns={"watch": [0.5, math.nan, 2, math.nan, 3, 1]}, call={"amount": "watch"}),
    Bad("an infinite amount", "amount='watch' is infinite", columns={"watch": [0.5, math.inf, 2, 0, 3, 1]}, call={"amount": "watch"}),
    Bad("an amount of minus infinity", "amount='watch' is negative", columns={"watch": [0.5, -math.inf, 2, 0, 3, 1]},
        call={"amount": "watch"}),
    Bad("amounts that add up to more than numbers hold", "amount='watch' adds up",
        columns={"watch": [1e308] * 6}, call={"amount": "watch"}),
    Bad("a missing unit", "unit='author' is missing in 1 row", columns={"author": ["a", None, "b", "c", "d", "d"]}),
    Bad("several faults in the values, told at once", "(?s)problems.*negative.*missing",
        columns={"views": [-5, 1, 2, 0, 3, 1], "author": ["a", None, "b", "c", "d", "d"]}),
    Bad("a negative weight", "weight='weight' holds",
        columns={"weight": [1.0, 1, -2, 1, 1, 1]}, call={"weight": "weight", "population": None}),
    Bad("a missing weight", "weight='weight' holds",
        columns={"weight": [1.0, 1, None, 1, 1, 1]}, call={"weight": "weight", "population": None}),
    Bad("a unit with two weights", "weight='weight' differs between rows of the same unit for 1 units",
        columns={"weight": [1.0, 9, 2, 1, 1, 1]}, call={"weight": "weight", "population": None}),
    Bad("a unit that is not a number", "unit='author' is missing in 1 row", columns={"author": [1.0, 1, math.nan, 2, 3, 3]}),
    Bad("no rows at all", "no rows", columns={k: pl.Series(v)[:0] for k, v in GOOD.items()}),
    # population
    Bad("a population smaller than the units seen", "population=3 is smaller than the 4 units", call={"population": 3}),
    Bad("a population of nobody", "population=0 is not a number of units", call={"population": 0}),
    Bad("a negative population", "population=-5 is not a number of units", call={"population": -5}),
    Bad("a fraction of a population", "population=10.5 is not a number of units", call={"population": 10.5}, words=()),
    Bad("a population that is not a number", "population=nan", call={"population": math.nan}, words=()),
    Bad("a population without end", "population=inf", call={"population": math.inf}, words=()),
    Bad("a population that is true", "population=True is not a number", call={"population": True}, words=()),
    Bad("a population of more digits than a number keeps", "population is too many. Pass at most",
        call={"population": 10**30}),
    Bad("a size per slice of more digits than a number keeps", "population has entries that cannot be read: .*'y'",
        call={"by": "source", "population": {"x": 9, "y": 10**400}}),
    Bad("a population file without a name", "population='' names no file", call={"population": ""}),
    Bad("an interval of nothing", r"interval='' cannot be read.*'bootstrap\(999\)'", call={"interval": ""}),
    Bad("a population file that is not there", "population='authors.parquet' is not a file", call={"population": "authors.parquet"}),
    Bad("a size for every slice where the slice belongs to the unit", "by='country' never varies within a unit", call={"by": "country"}),
    Bad("sizes per slice with one left out", "population lacks 1 slices.*'y'", call={"by": "source", "population": {"x": 9}}),
    Bad("sizes per slice without slices", "no slices", call={"population": {"x": 9, "y": 9}}),
    Bad("a size that is no number", "population has entries that cannot be read.*'x'",
        call={"by": "source", "population": {"x": "many", "y": 9}}, words=("--by", "source", "--population", "x=many,y=9")),
    Bad("a size per slice that is too small", "population=1 is smaller than the 4 units.*'x'",
        call={"by": "source", "population": {"x": 1, "y": 9}}),
    Bad("a population table without the unit", "unit='author' is not a column of the population table",
        call={"population": AUTHORS.rename({"author": "writer"})}),
    Bad("a unit outside the population", "2 units received something but are not in population",
        call={"population": AUTHORS.filter(pl.col("author").is_in(["a", "b", "e"]))}),
    Bad("a unit in another slice than its population says", "not in population with the same slice",
        call={"by": "country", "population": AUTHORS.with_columns(country=pl.lit("nl"))}),
    Bad("numbers for units where the table has names", "4 units received something but are not in population", call={"population": NUMBERED}),
    Bad("fractions for units where the table has whole numbers", "holds .* in population",
        columns={"author": [1, 1, 2, 3, 4, 4]}, call={"population": NUMBERED.cast(pl.Float64)}),
    Bad("numbers for slices where the table has names", "4 units received something but are not in population with the same slice",
        call={"by": "country", "population": AUTHORS.with_columns(country=pl.lit(1))}),
    Bad("moments for units where the table has names", "unit='author' holds String .* and Datetime.* in population",
        call={"population": pl.DataFrame({"author": [datetime(2022, 1, 1, tzinfo=UTC)]})}),
    Bad("lists for units in the population", "In population, unit='author' holds .*plain labels",
        call={"population": AUTHORS.with_columns(author=pl.concat_list("author"))}),
    Bad("lists for slices that only the population holds", "In population, by='kind' holds .*plain labels",
        call={"by": "kind", "population": AUTHORS.with_columns(kind=pl.concat_list("author"))}),
    Bad("bins of text in the population", "'followers' holds none",
        call={"by": "log_bins(followers, 2)", "population": AUTHORS.with_columns(followers=pl.lit("x"))}),
    Bad("a population table where every row is a unit", "unit=None", call={"unit": None, "population": AUTHORS}),
    Bad("a population for weighted units", "what the unseen units weigh", call={"weight": "weight"}),
    Bad("a population that is no table", "population is of type", call={"population": [1, 2, 3]}, words=()),
    Bad("bins with one size for all of them", "population=10|never varies", call={"by": eh.log_bins("followers", 3)}, words=()),
    Bad("bins of a column that is not there", "follows", call={"by": eh.log_bins("follows", 3), "population": None}, words=()),
    Bad("bins of text", "source", call={"by": eh.quantile_bins("source", 3), "population": None}, words=()),
    # metrics and plans
    Bad("an unknown metric", "metrics='ginni' is not a known metric. Did you mean 'gini'", call={"metrics": ["ginni"]}),
    Bad("a metric of another question", "metrics='ndd' (does not fit this question|is not a known metric)", call={"metrics": ["ndd"]}),
    Bad("a parameter out of range", r"top_share\(p=1.5\) is outside", call={"metrics": ["top_share(p=1.5)"]}),
    Bad("a parameter that the metric has not", "has no parameter 'q'", call={"metrics": ["top_share(q=0.1)"]}),
    Bad("a parameter of the wrong kind", "does not fit", call={"metrics": ["top_share(p='a')"]}),
    Bad("a metric that cannot be read", "cannot be read", call={"metrics": ["top_share(p="]}),
    Bad("a metric cut at a rank that it does not know", "gini@10.*knows no ranks", call={"metrics": ["gini@10"]}),
    Bad("a metric twice", "'gini' twice", call={"metrics": ["gini", "gini"]}),
    Bad("no metric", "metrics is empty", call={"metrics": []}, words=()),
    Bad("a metric that is no text", "does not fit", call={"metrics": [3]}, words=()),
    Bad("metrics that are no list", "metrics", call={"metrics": 3}, words=()),
    Bad("an unknown interval", "interval.*bootstrp.99.. is not a known interval", call={"interval": "bootstrp(99)"}),
    Bad("an interval of too few draws", "whole number of draws", call={"interval": "bootstrap(3)"}),
    Bad("a level that is a percentage", "level.95.* is outside", call={"level": 95}),
    Bad("a seed below zero", "rng=-1 is not a seed", call={"rng": -1}),
    Bad("a seed of text", "rng='x' does not fit|is not a whole number", call={"rng": "x"}),
    Bad("a negative number of units", "min_units=-1", call={"min_units": -1}),
    Bad("an unknown rule for missing values", "nan_policy='ignore'|invalid choice: 'ignore'", call={"nan_policy": "ignore"}),
]  # fmt: skip

TOGETHER = pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.name)


def sound(message: str) -> None:
    """A message says a fact and a remedy, in whole sentences, and shows no machinery."""
    assert "Traceback" not in message
    assert 'File "' not in message
    assert "Error(" not in message
    assert message.strip().endswith((".", "?"))
    assert len(re.findall(r"[.?:](\s|$)", message)) >= 2, message
    assert len(message) < 2000


def refusal(table: Any, says: str, **call: Any) -> str:
    with pytest.raises(eh.EvenhandError) as problem:
        eh.inequality(table, **call)
    message = str(problem.value)
    assert re.search(says, message), message
    sound(message)
    return message


def test_there_are_more_than_forty_of_them():
    assert len(TABLE) + len(FILES) >= 80
    assert len({bad.name for bad in TABLE}) == len(TABLE)


@pytest.mark.parametrize("engine", ENGINES)
@TOGETHER
def test_python_refuses(bad, engine):
    refusal(ENGINES[engine](bad.table), bad.says, **bad.arguments)


# --- the command line -------------------------------------------------------------------------------------------------


def as_words(call: dict[str, Any], folder: Path) -> list[str]:
    """The same call as a command line."""
    words: list[str] = []
    names = {"rng": "--seed", "metrics": "--metric", "min_units": "--min-units", "nan_policy": "--nan-policy"}
    for role, value in call.items():
        if role == "population" and isinstance(value, pl.DataFrame):
            value.write_parquet(folder / "population.parquet")
            value = str(folder / "population.parquet")
        if role == "population" and isinstance(value, dict):
            value = ",".join(f"{k}={v}" for k, v in value.items())
        for one in value if isinstance(value, list) else [value]:
            words += [f"{names.get(role, f'--{role}')}={'none' if one is None else one}"]
    return words


def refused_by_cli(words: list[str], says: str, capsys: Any, folder: Path) -> None:
    """Exit code 2, a message on standard error, nothing on standard output, no file left behind."""
    before = sorted(p.name for p in folder.iterdir())
    outputs = ["--output", str(folder / "out.csv"), "--format", "csv", "--html", str(folder / "out.html")]
    try:
        code = main([*words, *outputs, "--no-progress"])
    except SystemExit as usage:
        code = int(str(usage.code))
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    message = err.split("evenhand: ", 1)[-1] if "usage:" not in err else err
    assert any(re.search(words, message) for words in (says, in_flags(says, find("inequality")))), err
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize("bad", [bad for bad in TABLE if bad.words != ()], ids=lambda bad: bad.name)
def test_the_command_line_refuses(bad, engine, tmp_path, capsys):
    bad.table.write_parquet(tmp_path / "log.parquet")
    call = bad.arguments
    if bad.words is not None:
        call = {k: v for k, v in call.items() if f"--{k}" not in bad.words}
    words = [
        "inequality",
        str(tmp_path / "log.parquet"),
        "--engine",
        engine,
        *as_words(call, tmp_path),
        *(bad.words or ()),
    ]
    refused_by_cli(words, bad.says if bad.words is None else "cannot be read", capsys, tmp_path)


# --- files ------------------------------------------------------------------------------------------------------------

CSV = "author,source,views\na,x,5\na,y,1\nb,x,2\n"


LONG = "x" * 300
"""More letters than a file name may have."""


def parquet_bytes(columns: dict[str, Any] | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pl.DataFrame(columns or GOOD).to_arrow(), sink)
    return sink.getvalue().to_pybytes()


WRONG_SUM = bytearray(gzip.compress(CSV.encode() + b"c,x,1\n" * 20_000))
WRONG_SUM[-8] ^= 255


FILES: dict[str, tuple[str, bytes | None, str]] = {
    # name: file, content (None: not written), what the message says
    "a file that is not there": ("log.parquet", None, "log.parquet.* is not a file"),
    "a glob without a match": ("*.parquet", None, "matches no file"),
    "an empty CSV": ("log.csv", b"", "is empty"),
    "an empty Parquet": ("log.parquet", b"", "is empty|not a whole Parquet"),
    "an empty JSON lines file": ("log.jsonl", b"", "is empty"),
    "a CSV with a header only": ("log.csv", b"author,source,views\n", "no rows|not numbers"),
    "a CSV of blank lines": ("log.csv", b"\n\n\n", "."),
    "a CSV with ragged rows": ("log.csv", CSV.encode() + b"c,x,2,9,9\n", "more fields than its header"),
    "a CSV with short rows": ("log.csv", CSV.encode() + b"c\n", "missing|cannot be read"),
    "a CSV with text among the numbers": ("log.csv", CSV.encode() + b"c,x,many\n", "cannot be read|not numbers"),
    "a CSV that is not text": ("log.csv", bytes(range(128, 256)) * 20, "."),
    "a CSV with a quote left open": ("log.csv", CSV.encode() + b'"c,x,2\n', "."),
    "a CSV with a column twice": ("log.csv", b"author,views,views\na,1,2\n", "."),
    "a truncated Parquet": ("log.parquet", parquet_bytes()[:-40], "not a whole Parquet"),
    "a Parquet of rubbish between its marks": ("log.parquet", b"PAR1" + b"\x00" * 200 + b"PAR1", "cannot be read"),
    "a CSV named Parquet": ("log.parquet", CSV.encode(), "not a whole Parquet"),
    "a Parquet named CSV": ("log.csv", parquet_bytes(), "."),
    "a broken line of JSON": (
        "log.jsonl",
        b'{"author": "a", "views": 1}\n{"author": "b", "vie',
        "log.jsonl.* has no JSON object in line 2|cannot be read.*log.jsonl",
    ),
    "JSON lines after a byte order mark": (
        "log.jsonl",
        b'\xef\xbb\xbf{"author": "a", "views": 1}',
        "log.jsonl.* byte order mark",
    ),
    "a NaN in JSON": (
        "log.jsonl",
        b'{"author": "a", "views": NaN}\n',
        "has no JSON object in line 1|views'? is missing",
    ),
    "a JSON array in place of lines": ("log.jsonl", json.dumps([{"author": "a", "views": 1}]).encode(), "."),
    "a gzip cut short": ("log.csv.gz", gzip.compress(CSV.encode() * 500)[:60], "cannot be read"),
    "a gzip with a wrong checksum": ("log.csv.gz", WRONG_SUM, "cannot be read"),
    "a gzip that is none": ("log.csv.gz", CSV.encode(), "cannot be read"),
    "a spreadsheet that is none": ("log.xlsx", CSV.encode(), "not a whole Excel file"),
    "no ending": ("log", CSV.encode(), "unknown file ending"),
}


def written(name: str, folder: Path) -> str:
    file, content, _ = FILES[name]
    if content is not None:
        (folder / file).write_bytes(content)
    return str(folder / file)


@pytest.mark.parametrize("name", FILES)
def test_python_refuses_the_file(name, tmp_path):
    refusal(written(name, tmp_path), FILES[name][2], unit="author", amount="views", population=None, interval=None)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize("name", FILES)
def test_the_command_line_refuses_the_file(name, engine, tmp_path, capsys):
    path = written(name, tmp_path)
    words = [
        "inequality",
        path,
        "--unit",
        "author",
        "--amount",
        "views",
        "--population",
        "none",
        "--engine",
        engine,
        "--interval",
        "none",
    ]
    refused_by_cli(words, FILES[name][2], capsys, tmp_path)


def test_files_of_several_kinds_are_not_mixed(tmp_path):
    for file, content in (("a.csv", CSV.encode()), ("b.parquet", parquet_bytes())):
        (tmp_path / file).write_bytes(content)
    refusal([str(tmp_path / "a.csv"), str(tmp_path / "b.parquet")], "mixes files", **CALL)
    refusal(str(tmp_path), "mixes files", **CALL)


def test_files_that_disagree_about_a_column_are_refused(tmp_path):
    (tmp_path / "a.parquet").write_bytes(parquet_bytes({"author": ["a"], "views": [1]}))
    (tmp_path / "b.parquet").write_bytes(parquet_bytes({"author": ["b"], "views": ["many"]}))
    refusal(str(tmp_path / "*.parquet"), "cannot be read", **CALL)


def test_a_role_whose_column_a_file_lacks_names_that_file(tmp_path):
    (tmp_path / "a.parquet").write_bytes(parquet_bytes({"author": ["a"], "views": [1]}))
    (tmp_path / "b.parquet").write_bytes(parquet_bytes({"author": ["b"], "reads": [1]}))
    refusal(str(tmp_path / "*.parquet"), "amount='views' is not a column of .*b.parquet'", **CALL)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_that_differ_only_in_columns_nobody_asked_for_are_read_together(tmp_path, capsys, ending, engine):
    one = pl.DataFrame({"author": ["a", "b"], "views": [1, 3], "x": [9, 9]})
    two = pl.DataFrame({"y": ["q"], "views": [4], "author": ["c"]})
    for name, frame in (("one", one), ("two", two)):
        frame.write_csv(tmp_path / f"{name}.csv") if ending == "csv" else frame.write_parquet(
            tmp_path / f"{name}.parquet"
        )
    words = f"--unit author --amount views --population none -m mean --interval none --format json --engine {engine}"
    assert main(["inequality", f"{tmp_path}/*.{ending}", *words.split()]) == 0
    assert json.loads(capsys.readouterr().out)["columns"]["estimate"] == pytest.approx([8 / 3])


def test_files_without_a_common_column_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("author,views\na,1\n")
    (tmp_path / "b.csv").write_text("item,rank\nb,1\n")
    assert "author, item, rank, views" in refusal(str(tmp_path), "share no column", **CALL)


def test_the_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv").write_text(CSV + "b,x,2,2\n")
    refusal(str(tmp_path), "b.csv' has lines with more fields", **CALL)


def test_a_file_of_a_header_alone_adds_nothing_to_the_others(tmp_path):
    (tmp_path / "a.csv").write_text("author,source,views\n")
    (tmp_path / "b.csv").write_text(CSV)
    assert eh.inequality(str(tmp_path), **CALL).provenance["rows"] == 3


def test_a_folder_without_tables_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing here")
    refusal(str(tmp_path), "folder without", **CALL)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_name_with_brackets_is_no_pattern(ending, tmp_path, capsys):
    write = {"csv": pl.DataFrame.write_csv, "jsonl": pl.DataFrame.write_ndjson, "parquet": pl.DataFrame.write_parquet}
    folder = tmp_path / "[x]"
    folder.mkdir()
    for name, views in (("a[1]", [7.0]), ("a1", [1.0])):
        write[ending](pl.DataFrame({"author": ["a"], "views": views}), folder / f"{name}.{ending}")
    path = folder / f"a[1].{ending}"
    call = {"unit": "author", "amount": "views", "metrics": "mean", "interval": None}
    found = eh.inequality(path, population=str(path), **call)
    assert found.findings.columns["estimate"] == [7.0]
    assert eh.inequality(str(folder), population=None, **call).findings.columns["estimate"] == [8.0]
    words = ["--unit=author", "--amount=views", "--population=none", "--metric=mean", "--interval=none", "--format=csv"]
    assert main(["inequality", str(path), *words, "--engine=duckdb"]) == 0
    assert ",7.0," in capsys.readouterr().out


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    os.mkfifo(tmp_path / "b.csv")
    assert eh.inequality(str(tmp_path), **CALL).provenance["rows"] == 3


def test_a_misspelt_file_is_told_its_neighbour(tmp_path):
    (tmp_path / "events.parquet").write_bytes(parquet_bytes())
    assert "Did you mean 'events.parquet'" in refusal(str(tmp_path / "event.parquet"), "is not a file", **CALL)


def test_a_link_that_leads_nowhere_is_told_so(tmp_path):
    (tmp_path / "broken.csv").symlink_to("nowhere.csv")
    said = refusal(str(tmp_path / "broken.csv"), "broken.csv' is a link to a file that is not there", **CALL)
    assert "Did you mean" not in said


@pytest.mark.parametrize(
    "words",
    [
        ["inequality", LONG + ".csv", "--unit", "item", "--population", "none"], ["prefix", LONG, "--group", "g"], ["prefix", "log.csv", "--group", LONG], ["recommender", LONG],
        ["exposure", "log.csv", "--groups", LONG, "--protected", "x"],
        ["exposure", "log.csv", "--groups", "log.csv", "--protected", "x", "--relevance", LONG],
        ["run", LONG], ["compare", LONG, LONG],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_no_verb_trips_over_a_word_that_is_too_long_for_a_name(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("request,item,rank\n1,a,1\n1,b,2\n")
    assert main(words) == 2
    assert "Traceback" not in capsys.readouterr().err


# --- things that are no tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", [None, 3, [1, 2, 3], {"author": ["a"]}, object(), b"log.parquet", [], "", {"a", "b"}])
def test_what_is_no_table_is_refused(thing):
    refusal(thing, ".", **CALL)


def test_a_lazy_table_that_cannot_be_collected_is_refused():
    table = pl.DataFrame(GOOD).lazy()
    refusal(table.with_columns(pl.col("nothing")), "cannot be read", **CALL)
    refusal(table.with_columns(views=pl.col("author").cast(pl.Int64)), "cannot be read", **CALL)
    refusal(duckdb.sql("select 'a' as author, cast('x' as int) as views"), "cannot be read", **CALL)
    connection = duckdb.connect()
    relation = connection.from_arrow(pl.DataFrame(GOOD).to_arrow())
    connection.close()
    refusal(relation, "cannot be read", **CALL)


def test_durations_that_duckdb_keeps_are_refused_in_our_words():
    table = pl.DataFrame({**GOOD, "lag": [timedelta(1), timedelta(2)] * 3})
    refusal(ENGINES["duckdb"](table), "by='lag' holds INTERVAL values", **{**CALL, "by": "lag"})


def test_columns_need_one_name_each():
    twice = pd.DataFrame([["a", 1, 2]], columns=["author", "views", "views"])
    refusal(twice, "columns named views", **CALL)
    refusal(pd.DataFrame([["a", 1]], columns=["author", 7]), "as text", **CALL)
    refusal(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])), ".", **CALL)


def test_ids_of_mixed_types_are_refused():
    mixed = pd.DataFrame({"author": ["a", 1, "b", 2.5], "views": [1, 2, 3, 4]})
    refusal(mixed, "author", unit="author", amount="views", population=None, interval=None)


ODD: dict[str, Any] = {
    "periods": pd.period_range("2020-01", periods=6, freq="M"),
    "intervals": pd.interval_range(0, 6),
    "sparse numbers": pd.arrays.SparseArray([0, 1] * 3),
    "complex numbers": np.array([1j, 2] * 3),
    "long doubles": np.array([1, 2] * 3, dtype=np.longdouble),
    "lists": [[1], [2]] * 3,
    "mappings": [{"x": 1}, {"x": 2}] * 3,
    "a number and its text": pd.Series([1, "1"] * 3, dtype=object),
    "numbers beyond all engines": pd.Series([10**40, 10**41] * 3, dtype=object),
}
if np.dtype(np.longdouble).itemsize == 8:
    del ODD["long doubles"]


@pytest.mark.parametrize("name", ODD)
def test_columns_that_are_no_labels_are_refused_in_every_role(name):
    table = pd.DataFrame(GOOD).assign(odd=ODD[name], q=1, rank=range(1, 7), click=[0, 1] * 3)
    units = {"unit": "author", "amount": "views", "population": None, "interval": None}
    scored = {"score": "watch", "outcome": "click"}
    calls: list[Callable[[], Any]] = [
        lambda: eh.inequality(table, **(units | {"unit": "odd"})),
        lambda: eh.inequality(table, by="odd", **units),
        lambda: eh.sources(table, source="odd", **units),
        lambda: eh.decompose(table, group="odd", **units),
        lambda: eh.outcome_test(table, group="odd", **scored),
        lambda: eh.outcome_test(table, group="source", request="odd", **scored),
        lambda: eh.prefix(table, group="odd", request="q", item="author"),
        lambda: eh.exposure(table, groups="odd", request="q", item="author"),
        lambda: eh.recommender(table, user="odd", item="author", score="watch"),
        lambda: eh.recommender(table, user="author", item="author", score="watch", user_groups="odd"),
    ]
    for call in calls:
        with pytest.raises(eh.EvenhandError, match=r"='odd' holds .* Pass a column of plain labels") as problem:
            call()
        sound(str(problem.value))


def test_text_that_turns_into_numbers_far_down_is_refused():
    mixed = pd.DataFrame({"author": pd.Series([*map(str, range(200)), 1], dtype=object), "views": 1})
    refusal(mixed, "author.* neither all text", unit="author", amount="views", population=None, interval=None)


def test_a_mapping_of_duckdb_is_no_label():
    refusal(duckdb.sql("select MAP {'a': 1} as author, 2 as views"), "author' holds MAP.*plain labels", **CALL)


@pytest.mark.parametrize("engine", [*ENGINES, "polars"])
@pytest.mark.parametrize("role", ["request", "cluster"])
def test_a_request_that_is_not_a_number_is_missing(role, engine):
    table = pl.DataFrame(
        {"s": range(40), "y": [0, 1] * 20, "g": ["a", "a", "b", "b"] * 10, "q": [math.nan, 1, 2, 3, 4] * 8}
    )
    make = ENGINES.get(engine, lambda df: df)
    call = {"score": "s", "outcome": "y", "group": "g", role: "q", "bins": 1}
    with pytest.raises(eh.EvenhandError, match=f"{role}='q' is missing in 8 rows"):
        eh.outcome_test(make(table), **call)
    found = eh.outcome_test(make(table), nan_policy="omit", **call)
    assert found.provenance["dropped"] == {f"{role}='q' is missing": 8}


def test_amounts_of_mixed_types_are_refused():
    mixed = pd.DataFrame({"author": ["a", "b", "c"], "views": [1, "2", 3.0]})
    refusal(mixed, "views", unit="author", amount="views", population=None, interval=None)


# --- the rest of a command --------------------------------------------------------------------------------------------

COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    # name: words after a good command, what the message says
    "an output in a folder that is not there": (("--output", "nowhere/out.csv"), "cannot be written"),
    "an output that is a folder": (("--output", "."), "cannot be written"),
    "an output in the place of the input": (("--output", "log.parquet"), "is read or written by this command already"),
    "a report in the place of the input": (("--html", "./log.parquet"), "is read or written by this command already"),
    "two answers in one file": (
        ("--output", "a.csv", "--html", "a.csv"),
        "is read or written by this command already",
    ),
    "a report in a folder that is not there": (("--html", "nowhere/out.html"), "cannot be written"),
    "two numbers for one population": (("--population", "10,5"), "'10,5' is not one number"),
    "one number with commas at the wrong places": (("--population", "1,2,3,4"), "is not one number"),
    "a number that begins with a comma": (("--population", ",10"), "is not one number"),
    "a number that ends in a comma": (("--population", "10,"), "is not one number"),
    "a slice of more letters than a file name holds": (("--by", "x" * 300), "is not a column of the table"),
    "a population of more letters than a file name holds": (("--population", "x" * 300), "is not a file"),
    "an output of more letters than a file name holds": (
        ("--output", "x" * 300),
        "cannot be written .File name too long",
    ),
    "two sizes for one slice": (("--by", "source", "--population", "x=9,x=8,y=9"), "gives x two numbers"),
    "a size with two signs": (("--population=--5",), "is not a file"),
    "a size in raised digits": (("--population", "\u00b2"), "is not a file"),
    "a chart of an unknown kind": (("--plot", "pie=out.svg"), "pie.*(is not|unknown)"),
    "a chart without a file": (("--plot", "lorenz"), "has no file name"),
    "a chart with an unknown ending": (("--plot", "lorenz=out.bmp"), "unknown file ending"),
    "a chart in a folder that is not there": (("--plot", "lorenz=nowhere/out.svg"), "cannot be written"),
    "a check that cannot be read": (("--check", "gini is small"), "gini is small"),
    "a check of a metric that was not asked for": (("--check", "palma <= 3"), "palma"),
    "a check against no number": (("--check", "gini <= much"), "much"),
    "an unknown format": (("--format", "xml"), "invalid choice: 'xml'"),
    "an unknown option": (("--colour", "red"), "unrecognized arguments"),
    "a level that is no number": (("--level", "high"), "'high' is not a number"),
    "an unknown engine": (("--engine", "sqlite"), "invalid choice: 'sqlite'"),
    "bins of a column that is not there": (("--by", "log_bins(follows, 3)"), "follows"),
    "bins with one size for all of them": (("--by", "log_bins(followers, 3)"), "population"),
    "bins that cannot be read": (("--by", "log_bins(followers, x)"), "log_bins"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_refuses_the_rest_of_the_command(name, tmp_path, capsys, monkeypatch):
    words, says = COMMANDS[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.parquet").write_bytes(parquet_bytes())
    good = [
        "inequality",
        "log.parquet",
        "--unit",
        "author",
        "--amount",
        "views",
        "--interval",
        "none",
        *([] if any("--population" in word for word in words) else ["--population", "10"]),
    ]
    try:
        code = main([*good, *words, "--no-progress"])
    except SystemExit as usage:
        code = int(str(usage.code))
    out, err = capsys.readouterr()
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    assert re.search(says, err), err
    assert [p.name for p in tmp_path.iterdir()] == ["log.parquet"]


@pytest.mark.parametrize(
    "sizes", [{}, {"x": 9, "y": 9, **{f"slice {i}": 100 for i in range(40)}}], ids=["1,000", "many"]
)
def test_the_command_line_reads_the_population(sizes, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.parquet").write_bytes(parquet_bytes())
    words = [
        "inequality",
        "log.parquet",
        "--unit",
        "author",
        "--amount",
        "views",
        "--interval",
        "none",
        "--format",
        "csv",
    ]
    typed = ",".join(f"{k}={v}" for k, v in sizes.items()) or "1,000"
    assert main([*words, "--by", "source", "--population", typed]) == 0
    called = {**CALL, "by": "source", "population": sizes or 1000}
    assert capsys.readouterr().out == eh.inequality(pl.DataFrame(GOOD), **called).to_text("csv")


def test_a_link_stays_a_link_and_what_it_points_at_is_written(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "real.csv").write_text("the last answer")
    for name, target in (("link.csv", "kept/real.csv"), ("broken.csv", "kept/new.csv")):
        (tmp_path / name).symlink_to(target)
        write_whole(tmp_path / name, "the answer")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_text() == "the answer"


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        (tmp_path / "log.parquet").write_bytes(parquet_bytes())
        words = [
            "inequality",
            str(tmp_path / "log.parquet"),
            "--unit",
            "author",
            "--amount",
            "views",
            "--population",
            "10",
        ]
        assert main([*words, "--interval", "none", "--output", str(pipe), "--format", "csv"]) == 0
        assert os.read(reader, 1 << 16).startswith(b"metric,")
    finally:
        os.close(reader)
    assert pipe.is_fifo()


PLANS = {
    "a plan that is not TOML": ("audit = inequality", "is not TOML"),
    "an empty plan": ("", "audit"),
    "a plan of an unknown audit": ('audit = "inequalty"', "Did you mean 'inequality'"),
    "a plan with an unknown line": ('audit = "inequality"\ntable = "log.parquet"\nunits = "author"', "units.*Did you mean 'unit'"),
    "a plan that lacks a line": ('audit = "inequality"\ntable = "log.parquet"\nunit = "author"', "lacks population"),
    "a plan with a table that is not there": (
        'audit = "inequality"\ntable = "lag.parquet"\nunit = "author"\namount = "views"\npopulation = 10', "is not a file"
    ),
    "a plan with a table of numbers": (
        'audit = "inequality"\ntable = 3\nunit = "author"\namount = "views"\npopulation = 10', "not a dataframe"
    ),
    "a plan with a wrong population": (
        'audit = "inequality"\ntable = "log.parquet"\nunit = "author"\namount = "views"\npopulation = 2', "smaller than"
    ),
    "a plan with metrics that are no list": (
        'audit = "inequality"\ntable = "log.parquet"\nunit = "author"\namount = "views"\npopulation = 10\nmetrics = 3', "metrics=3 does not fit"
    ),
    "a plan with a check that is no list": (
        'audit = "inequality"\ntable = "log.parquet"\nunit = "author"\namount = "views"\npopulation = 10\ncheck = 3', "check"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_refused(name, tmp_path, capsys):
    text, says = PLANS[name]
    (tmp_path / "log.parquet").write_bytes(parquet_bytes())
    (tmp_path / "plan.toml").write_text(text)
    refused_by_cli(["run", str(tmp_path / "plan.toml")], says, capsys, tmp_path)


def test_a_plan_that_is_not_there_is_refused(tmp_path, capsys):
    refused_by_cli(["run", str(tmp_path / "plan.toml")], "cannot be read", capsys, tmp_path)


@pytest.mark.parametrize(
    "words", [[], ["inequalty"], ["inequality"], ["inequality", "--unit", "a"], ["metrics", "ginni"], ["--colour"]]
)
def test_a_command_that_is_none_is_refused(words, capsys):
    try:
        code = main(words)
    except SystemExit as usage:
        code = int(str(usage.code))
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert err


SAVED = {
    "no JSON": "gini 0.75",
    "half a file": '{"audit": "inequality", "ques',
    "a list": "[]",
    "a number": "3",
    "another object": '{"a": 1}',
    "columns of a wrong kind": '{"audit": "inequality", "question": "", "slices": [], "columns": 3, "curves": {}, "provenance": {}}',
    "columns of different lengths": (
        '{"audit": "inequality", "question": "", "slices": [], "columns": {"metric": ["gini"], "estimate": []}, "curves": {}, '
        '"provenance": {}}'
    ),
    "a number that is none": (
        '{"audit": "inequality", "question": "", "slices": [], "columns": {"metric": ["gini"], "estimate": ["x"]}, "curves": {}, '
        '"provenance": {}}'
    ),
    "not even text": "\udcff",
}


@pytest.mark.parametrize("name", SAVED)
def test_what_is_no_saved_result_is_refused(name, tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(SAVED[name].encode("utf-8", "surrogateescape"))
    with pytest.raises(eh.EvenhandError) as problem:
        eh.read.result(path)
    sound(str(problem.value))


def test_a_saved_result_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(eh.EvenhandError, match="cannot be read"):
        eh.read.result(tmp_path / "result.json")


# --- not malformed, only unanswerable ---------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_slice_with_one_unit_is_answered_with_a_note(engine):
    table = pl.DataFrame({"author": ["a", "a", "b"], "source": ["x", "y", "x"], "views": [1, 2, 3]})
    call = {
        "unit": "author",
        "amount": "views",
        "population": None,
        "by": "source",
        "interval": "bootstrap(99)",
        "rng": 1,
    }
    found = eh.inequality(ENGINES[engine](table), metrics=["gini", "gini(corrected=True)"], **call).findings
    notes = {(r["source"], r["metric"]): (r["estimate"], r["note"]) for r in found.rows()}
    assert notes["y", "gini"][0] == 0
    assert notes["y", "gini(corrected=True)"][1] == "single_member"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_slice_that_got_nothing_is_answered_with_a_note(engine):
    table = pl.DataFrame({"author": ["a", "b", "a"], "source": ["x", "x", "y"], "views": [1, 2, 0]})
    found = eh.inequality(
        ENGINES[engine](table), unit="author", amount="views", population=5, by="source", interval=None
    )
    notes = {r["note"] for r in found.findings.rows() if r["source"] == "y"}
    assert notes == {"zero_total"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_slice_without_weight_is_answered_with_a_note(engine):
    table = pl.DataFrame({"author": list("abcd"), "source": list("xxyy"), "views": [1, 2, 3, 4], "w": [1.0, 2, 0, 0]})
    call = {"unit": "author", "amount": "views", "population": None, "by": "source", "weight": "w", "interval": None}
    found = eh.inequality(ENGINES[engine](table), **call).findings
    said = {(r["source"], r["note"]) for r in found.rows()}
    assert said == {("x", None), ("x", "few_at_the_top"), ("y", "zero_weight")}


TEXTS = {
    # what is written of the views, and their mean over two authors
    "fractions far down": ("1", 30_000, "1.5", 15_000.75),
    "truth values": ("true", 2, "false", 1.0),
    "numbers beyond 64 bits": ("1", 1, str(2**64), (1 + 2.0**64) / 2),
}


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("name", TEXTS)
def test_numbers_in_text_are_read_alike_by_both_engines(name, ending, engine, tmp_path, capsys):
    first, times, last, mean = TEXTS[name]
    if ending == "csv":
        text = "author,views\n" + f"a,{first}\n" * times + f"b,{last}\n"
    else:
        text = f'{{"author": "a", "views": {first}}}\n' * times + f'{{"author": "b", "views": {last}}}\n'
    (tmp_path / f"log.{ending}").write_text(text)
    words = [
        "--unit=author",
        "--amount=views",
        "--population=none",
        "--metric=mean",
        "--interval=none",
        "--format=jsonl",
    ]
    assert main(["inequality", str(tmp_path / f"log.{ending}"), f"--engine={engine}", *words]) == 0
    assert json.loads(capsys.readouterr().out)["estimate"] == pytest.approx(mean, rel=1e-12)


def test_amounts_that_are_all_missing_are_answered_with_a_note():
    table = pl.DataFrame({"author": ["a", "b"], "views": [None, None]}, schema={"author": pl.String, "views": pl.Int64})
    found = eh.inequality(table, unit="author", amount="views", population=None, interval=None, nan_policy="omit")
    assert {r["note"] for r in found.findings.rows()} == {"empty"}
    assert found.provenance["dropped"] == {"views is missing": 2}


# --- what only DuckDB does --------------------------------------------------------------------------------------------


def test_nan_that_duckdb_hides_behind_parquet_statistics_is_found(tmp_path):
    path = tmp_path / "log.parquet"
    pl.DataFrame({"author": list("abcd"), "watch": [0.5, math.nan, 2.0, 1.0]}).write_parquet(path)
    call = {"unit": "author", "amount": "watch", "population": None, "interval": None, "metrics": "gini"}
    refusal(duckdb.read_parquet(str(path)), "amount='watch' is missing", **call)
    omitted = eh.inequality(duckdb.read_parquet(str(path)), nan_policy="omit", **call)
    assert omitted.findings.columns["units"] == [3]
    spoilt = eh.inequality(duckdb.read_parquet(str(path)), nan_policy="propagate", **call)
    assert spoilt.findings.columns["note"] == ["nan_in_data"]


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_files_read_by_duckdb_treat_nan_as_asked(policy, tmp_path, capsys):
    path = tmp_path / "log.parquet"
    table = {"author": list("abcde"), "source": list("xxxyy"), "watch": [0.5, math.nan, 2.0, 1.0, 4.0]}
    pl.DataFrame(table).write_parquet(path)
    words = ["inequality", str(path), "--unit", "author", "--amount", "watch", "--population", "none", "--by", "source"]
    answers = []
    for engine in ("polars", "duckdb"):
        how = ["--nan-policy", policy, "--engine", engine, "--interval", "none", "--format", "csv"]
        assert main([*words, *how]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_a_relation_on_a_connection_of_its_own_meets_any_population():
    connection = duckdb.connect()
    log = pl.DataFrame(GOOD).to_arrow()
    relation = connection.from_arrow(log)
    for population in (AUTHORS, AUTHORS.to_pandas(), duckdb.from_arrow(AUTHORS.to_arrow())):
        found = eh.inequality(relation, unit="author", amount="views", population=population, interval=None)
        assert set(found.findings.columns["units"]) == {5}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("author,views\n", "has no rows, only a header"),
    ],
)
def test_a_csv_that_is_none_says_what_it_is(text, says, tmp_path):
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(eh.EvenhandError, match=says):
        eh.inequality(str(tmp_path / "log.csv"), unit="author", amount="views", population=None)


def test_a_plan_does_not_overwrite_the_table_it_names(tmp_path, capsys):
    table = tmp_path / "log.csv"
    table.write_text(CSV)
    (tmp_path / "plan.toml").write_text(
        'audit = "inequality"\ntable = "log.csv"\nunit = "author"\namount = "views"\npopulation = 10'
    )
    assert main(["run", str(tmp_path / "plan.toml"), "--output", str(table)]) == 2
    assert "is read or written" in capsys.readouterr().err
    assert table.read_text() == CSV

"""Exports as people send them: found out, said, and readable as told; nothing is guessed in silence."""

from __future__ import annotations

import gzip
import json
import warnings

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main

try:
    from compression import zstd  # Python 3.14
except ImportError:
    from backports import zstd

CALL = {
    "unit": "Author",
    "amount": "Views",
    "population": None,
    "metrics": "gini",
    "interval": None,
    "nan_policy": "omit",
}
AMOUNTS = [1234, 56, 12345678]

UGLY = {
    # name: (bytes, amounts, words that are said)
    "German": ("Author;Views;Quote\nJörg;1.234,5;0,5\nBob;56;0,25\n".encode("latin-1"), [1234.5, 56], "windows-1252"),
    "German, whole thousands": (b"Author;Views;Quote\na;1.234;0,5\nb;56;0,2\nc;12.345.678;1,5\n", AMOUNTS, "dots between thousands"),
    "French": ("Author;Views\né;1\u202f234,5\nb;56\n".encode(), [1234.5, 56], "spaces between thousands"),
    "no-break spaces in latin-1": ("Author;Views\né;1\u00a0234\nb;56\n".encode("latin-1"), [1234, 56], "spaces"),
    "Swiss": (b"Author,Views\na,1'234.5\nb,56\n", [1234.5, 56], "apostrophes"),
    "American, quoted": (b'Author,Views\na,"1,234"\nb,"56"\nc,"12,345,678"\n', AMOUNTS, "commas between thousands"),
    "words for nothing": (b"Author,Views\na,1234\nb,N/A\nc,-\nd,56\n", [1234, None, None, 56], "'-', 'N/A' mean missing"),
    "UTF-16 with a mark": ("Author\tViews\né\t1234\nb\t56\n".encode("utf-16"), [1234, 56], "utf-16"),
    "Windows quotes": ("Author,Views\n“a”,1234\nb €,56\n".encode("cp1252"), [1234, 56], "windows-1252"),
    "a mark of UTF-8, tabs": (b"\xef\xbb\xbfAuthor\tViews\na\t1234\nb\t56\n", [1234, 56], "tabs"),
    "a column that ends in nothing": (b"Author;Views\na;1234;\nb;56;\n", [1234, 56], "semicolons"),
    "spaces around names": (b" Author | Views \na|1234\nb|56\n", [1234, 56], "bars"),
    "titles above the header": (b"Views per author\nExported 2026-11-18\n\nAuthor,Views\na,1234\nb,56\n", [1234, 56], "3 lines above"),
    "a line of Excel": (b"sep=;\r\nAuthor;Views\r\na;1234\r\nb;56\r\n", [1234, 56], "1 line above"),
}  # fmt: skip


def written(tmp_path, content, name="export.csv"):
    path = tmp_path / name
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("name", UGLY)
def test_an_export_is_read_and_it_is_said_how(name, tmp_path, capsys):
    content, amounts, words = UGLY[name]
    path = written(tmp_path, content)
    table = eh.read.csv(path)
    assert table.columns[:2] == ["Author", "Views"]
    assert table.frame["Views"].to_list() == amounts
    result = eh.inequality(path, **CALL)
    assert result.findings.columns["units"] == [sum(a is not None for a in amounts)]
    assert result.provenance["reading"]
    words_typed = [
        "inequality",
        path,
        "--unit",
        "Author",
        "--amount",
        "Views",
        "--population",
        "none",
        "--nan-policy",
        "omit",
    ]
    assert main([*words_typed, "--interval", "none", "-m", "gini"]) == 0
    assert words in capsys.readouterr().err


def test_plain_text_has_nothing_to_say(tmp_path, capsys):
    path = written(tmp_path, b"Author,Views\na,1\nb,2.5\n")
    assert "reading" not in eh.inequality(path, **CALL).provenance
    assert main(["inequality", path, "--unit", "Author", "--amount", "Views", "--population", "none"]) == 0
    assert "read '" not in capsys.readouterr().err


def test_a_number_that_reads_in_two_ways_is_said(tmp_path, capsys):
    path = written(tmp_path, b"Author,Views\na,1.234\nb,567\n")
    with pytest.warns(
        eh.DataWarning, match=r"'\.' was taken for the decimal separator. If it is not, pass thousands='\.'"
    ):
        result = eh.inequality(path, **CALL)
    assert result.provenance["reading"]["columns"]["Views"]["doubtful"] == "1.234"
    assert eh.read.csv(path, thousands=".").frame["Views"].to_list() == [1234, 567]
    assert eh.read.csv(path, decimal=".").frame["Views"].to_list() == [1.234, 567]
    words = ["inequality", path, "--unit", "Author", "--amount", "Views", "--population", "none", "--interval", "none"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(words) == 0
    assert "could be read in two ways" in capsys.readouterr().err
    assert main([*words, "--csv", "thousands=dot"]) == 0
    assert "two ways" not in capsys.readouterr().err


def test_semicolons_speak_for_dots_between_thousands_and_it_is_said(tmp_path):
    path = written(tmp_path, b"Author;Views\na;1.234\nb;567\n")
    with pytest.warns(
        eh.DataWarning, match=r"'\.' was taken for the thousands separator. If it is not, pass decimal='\.'"
    ):
        assert eh.read.csv(path).frame["Views"].to_list() == [1234, 567]


@pytest.mark.parametrize("value", ["0.125", "1234.567", "1.2345"])
def test_one_value_that_is_no_thousand_settles_it(value, tmp_path):
    path = written(tmp_path, f"Author,Views\na,1.234\nb,{value}\n".encode())
    assert "reading" not in eh.inequality(path, **CALL).provenance


def test_what_is_no_number_is_shown(tmp_path, capsys):
    path = written(tmp_path, b"Author,Views\n" + b"a,1\n" * 5 + b"b,few\n")
    with pytest.raises(eh.EvenhandError, match=r"holds 'few' in 1 of 6 rows.*eh.read.csv\(path, null=\['few'\]\)"):
        eh.inequality(path, **CALL)
    words = ["inequality", path, "--unit", "Author", "--amount", "Views", "--population", "none", "--interval", "none"]
    assert main(words) == 2
    assert "--csv null=few" in capsys.readouterr().err
    assert main([*words, "--csv", "null=few"]) == 2
    assert "is missing (null or NaN) in 1 of 6 rows" in capsys.readouterr().err
    assert main([*words, "--csv", "null=few", "--nan-policy", "omit"]) == 0


def test_options_reach_second_tables_and_the_plan(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, b"Author;Views\na;1,5\nb;2\n")
    written(tmp_path, b"Author;Band\na;x\nb;y\nc;y\n", "all.csv")
    words = [
        "inequality",
        "export.csv",
        "--unit",
        "Author",
        "--amount",
        "Views",
        "--population",
        "all.csv",
        "-m",
        "gini",
    ]
    words += ["--csv", "delimiter=;,decimal=comma", "--interval", "none", "--seed", "1"]
    assert main([*words, "--format", "json", "--output", "r.json"]) == 0
    saved = eh.read.result("r.json")
    assert saved.findings.columns["units"] == [3]
    assert saved.provenance["reading"]["csv"] == {"delimiter": ";", "decimal": ","}
    assert main(["verify", "r.json"]) == 0
    assert main(["plan", *words]) == 0
    plan = capsys.readouterr().out
    (tmp_path / "plan.toml").write_text(plan[plan.index("audit") :])
    assert 'csv = "delimiter=;,decimal=comma"' in plan
    assert main(["run", "plan.toml"]) == 0


@pytest.mark.parametrize(
    "bad", ["delimiter=;;", "decimal=x", "decimal=dot,thousands=dot", "encoding=klingon", "separator=;", "x"]
)
def test_options_that_cannot_be_are_refused(bad, tmp_path, capsys):
    path = written(tmp_path, b"Author,Views\na,1\n")
    assert main(["look", path, "--csv", bad]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_packed_and_wrapped_files_are_read(tmp_path):
    text = b"Author;Views\na;1,5\nb;2\n"
    rows = [{"Author": "a", "Views": 1.5}, {"Author": "b", "Views": 2}]
    files = {
        "x.csv.zst": zstd.compress(text), "x.csv.gz": gzip.compress(text), "x.txt": text,
        "wrapped.json": json.dumps({"status": "ok", "data": {"rows": rows}}).encode(),
        "lines.json": b"".join(json.dumps(row).encode() + b"\n" for row in rows),
        "lines.jsonl.zst": zstd.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows)),
    }  # fmt: skip
    for name, content in files.items():
        table = (
            eh.read.csv(written(tmp_path, content, name)) if name.endswith("txt") else written(tmp_path, content, name)
        )
        result = eh.inequality(table, **CALL)
        assert result.findings.columns["units"] == [2], name
        assert result.provenance["inputs"][0]["rows"] == 2, name
    several = written(tmp_path, json.dumps({"a": rows, "b": rows}).encode(), "several.json")
    with pytest.raises(eh.EvenhandError, match="several arrays of objects: a, b"):
        eh.inequality(several, **CALL)


def test_half_a_zstandard_file_is_refused_in_words(tmp_path):
    whole = zstd.compress(b"Author,Views\n" + b"".join(b"a%d,%d\n" % (i, i * i) for i in range(500)))
    for name, content in {"cut.csv.zst": whole[:-9], "other.csv.zst": b"Author,Views\na,1\n"}.items():
        with pytest.raises(eh.EvenhandError, match="not a whole Zstandard file"):
            eh.inequality(written(tmp_path, content, name), **CALL)


def test_letters_of_windows_that_come_late_need_their_encoding(tmp_path):
    path = written(tmp_path, b"Author,Views\n" + b"a,1\n" * 300_000 + "J\u00f6rg,2\n".encode("cp1252"))
    with pytest.raises(eh.EvenhandError, match="not UTF-8 text all through"):
        eh.inequality(path, **CALL)
    assert eh.read.csv(path, encoding="cp1252").frame["Author"].to_list()[-1] == "J\u00f6rg"


def test_files_with_other_delimiters_are_one_table(tmp_path):
    written(tmp_path, b"Author;Views\na;1,5\n", "one.csv")
    written(tmp_path, b"Author,Views\nb,2\n", "two.csv")
    result = eh.inequality([str(tmp_path / "one.csv"), str(tmp_path / "two.csv")], **CALL)
    assert result.findings.columns["units"] == [2]


def workbook(path, sheets):
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return str(path)


def test_a_spreadsheet_is_read_below_its_title(tmp_path):
    rows = [
        ["Views per author"],
        [],
        ["Author", "Views", "Share"],
        ["a", 1234, 1.234],
        ["b", "N/A", 0.5],
        ["c", 56, None],
    ]
    path = workbook(tmp_path / "book.xlsx", {"Empty": [], "Data": rows, "Other": [["Author", "Views"], ["z", 1]]})
    result = eh.inequality(path, **CALL)
    assert result.findings.columns["units"] == [2]
    assert result.provenance["reading"]["files"][path] == {"lines_skipped": 2}
    assert eh.read.excel(path).frame["Share"].to_list() == [1.234, 0.5, None]
    other = eh.inequality(eh.read.excel(path, sheet="Other"), **CALL)
    assert other.findings.columns["units"] == [1]
    assert other.provenance["plan"]["table"] == f"{path}::Other"
    assert eh.inequality(f"{path}::Other", **CALL).findings.columns["units"] == [1]
    with pytest.raises(eh.EvenhandError, match=r"no sheet 'Othr'\. Did you mean 'Other'"):
        eh.inequality(eh.read.excel(path, sheet="Othr"), **CALL)


def test_a_sheet_with_a_single_line_is_passed_over_and_a_workbook_without_rows_is_named_as_typed(tmp_path, monkeypatch):
    data = [["Author", "Views"], ["a", 1], ["b", 2]]
    path = workbook(tmp_path / "notes.xlsx", {"Notes": [["exported by Bob"]], "Data": data})
    assert eh.inequality(path, **CALL).findings.columns["units"] == [2]
    workbook(tmp_path / "bare.xlsx", {"Data": data[:1]})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(eh.EvenhandError, match=r"bare\.xlsx' has no rows, only a header") as error:
        eh.inequality("bare.xlsx", **CALL)
    assert "bare.csv" not in str(error.value)


def test_without_the_extra_a_spreadsheet_is_refused_in_one_sentence(tmp_path, monkeypatch):
    import importlib.util

    path = workbook(tmp_path / "none.xlsx", {"Data": [["Author", "Views"], ["a", 1]]})
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openpyxl" else find(name))
    with pytest.raises(eh.EvenhandError, match=r"pip install 'evenhand\[excel\]'"):
        eh.inequality(path, **CALL)


def test_the_frame_of_a_file_is_polars(tmp_path):
    assert isinstance(eh.read.csv(written(tmp_path, b"a,b\n1,2\n")).frame, pl.DataFrame)


def test_an_answer_under_the_name_of_a_spreadsheet_is_one(tmp_path, capsys):
    import openpyxl

    path = written(tmp_path, b"Author,Views,Side\na,1,=1+1\nb,2,=1+1\nc,3,x\n")
    words = ["inequality", path, "--unit", "Author", "--amount", "Views", "--population", "none", "--by", "Side"]
    out = tmp_path / "out.xlsx"
    assert main([*words, "--interval", "none", "-m", "gini", "--output", str(out)]) == 0
    book = openpyxl.load_workbook(out)
    assert book.sheetnames == ["table", "sentences"]
    rows = list(book["table"].iter_rows(values_only=True))
    assert rows[0][:2] == ("Side", "metric")
    assert {row[0] for row in rows[1:]} == {"=1+1", "x"}
    assert book["table"]["A2"].data_type == "s"
    assert eh.read.excel(out).frame["estimate"].to_list()[0] == pytest.approx(1 / 6)
    for ending in (".xls", ".parquet"):
        assert main([*words, "--output", str(tmp_path / f"out{ending}")]) == 2
        assert not (tmp_path / f"out{ending}").exists()


@pytest.mark.parametrize(("text", "unit", "mean"), [
    ('unit\na\nb\n"x, y"\nb\n', "unit", 4 / 3),  # one column, with a comma in quotes
    ('"name\nof unit",n\na,1\nb,1\n', "name\nof unit", 1.0),  # a line end in the header
    ('A report\n\nunit;n\na;1\nb;1\nb;1\n', "unit", 1.5),
])  # fmt: skip
def test_titles_are_told_from_a_header_by_its_fields(tmp_path, text, unit, mean):
    (tmp_path / "log.csv").write_text(text, encoding="utf-8")
    result = eh.inequality(tmp_path / "log.csv", unit=unit, amount=None, population=None, metrics="mean", interval=None)
    assert result.frame["estimate"].to_list() == [pytest.approx(mean)]

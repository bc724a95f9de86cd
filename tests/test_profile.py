"""Pages for the file: a template of the package or of the caller, the same parts for every law."""

import re
from pathlib import Path

import polars as pl
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.report.profile import PARTS, load_profile, profile_names

LOG = pl.DataFrame({"who": list("abcde") * 20, "via": ["x", "<b>y</b>"] * 50, "views": range(100)})
PARTS_OF_A_RECORD = {"question", "answer", "scope", "method", "limits", "numbers", "inputs", "reproduce", "fields"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LOG.write_csv("log.csv")
    return tmp_path


def reach(**more):
    return eh.inequality("log.csv", unit="who", amount="views", population=None, by="via", rng=1, **more)


@pytest.mark.parametrize("name", profile_names())
def test_every_template_has_every_part_and_no_legal_conclusion(name, folder):
    profile = load_profile(name)
    assert {section.part for section in profile.sections} == PARTS_OF_A_RECORD
    text = reach().report("page.html", profile=name).read_text()
    (entry,) = reach().provenance["inputs"]
    assert profile.title in text
    assert entry["sha256"] in text
    assert "evenhand verify" in text
    assert "<b>y</b>" not in text  # labels are text
    words = " ".join([profile.title, profile.note, *(section.text for section in profile.sections)]).lower()
    assert not re.search(r"\b(compliant|complies|unlawful|illegal|discriminat\w+|violat\w+|fair|unfair)\b", words)


def test_a_template_of_the_callers_own(folder):
    Path("ours.toml").write_text(
        "title = 'Our page'\n[[sections]]\npart = 'answer'\ntitle = 'What came out'\n"
        "[[sections]]\npart = 'fields'\ntitle = 'Names'\nfields = ['Committee']\n"
    )
    text = reach().report("page.html", profile="ours.toml").read_text()
    assert "Our page" in text
    assert "Committee" in text
    assert "SHA-256" not in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("title = 'x'", "sections"),
        ("title = 'x'\n[[sections]]\npart = 'anwser'\ntitle = 'A'", "Did you mean 'answer'"),
        ("title = 'x'\n[[sections]]\npart = 'answer'\ntitle = 'A'\ncode = 'x'", "is not a template"),
        ("title = ", "is not a template"),
    ],
)
def test_what_is_no_template_is_refused_in_words(content, reason, folder, capsys):
    Path("ours.toml").write_text(content)
    words = ["inequality", "log.csv", "--unit", "who", "--amount", "views", "--population", "none", "--no-progress"]
    assert main([*words, "--html", "page.html", "--profile", "ours.toml"]) == 2
    assert reason in capsys.readouterr().err
    assert not Path("page.html").exists()


def test_the_command_line_writes_the_page(folder, capsys):
    words = ["inequality", "log.csv", "--unit", "who", "--amount", "views", "--population", "none", "--no-progress"]
    assert main([*words, "--html", "page.html", "--profile", "dsa"]) == 0
    assert "2022/2065" in Path("page.html").read_text()
    capsys.readouterr()
    assert main([*words, "--profile", "dsa"]) == 2
    assert "Add --html FILE" in capsys.readouterr().err
    assert main([*words, "--html", "page.html", "--profile", "das"]) == 2
    assert "Did you mean 'dsa'?" in capsys.readouterr().err


def test_every_part_works_for_an_empty_and_a_suppressed_result(folder):
    sections = "".join(f"[[sections]]\npart = '{part}'\ntitle = '{part}'\n" for part in PARTS)
    Path("ours.toml").write_text(f"title = 'x'\n{sections}")
    assert "x" in reach(min_units=10).report("page.html", profile="ours.toml").read_text()

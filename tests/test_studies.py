"""What all studies share: verdicts over several seeds, tallies that count only what the source states, pages."""

from __future__ import annotations

import json

import pytest

from evenhand.cli import main, options_of
from evenhand.cli.audit import flag
from evenhand.cli.study import STUDIES, declared, roles
from evenhand.errors import EvenhandError
from evenhand.studies.outcome import Move
from evenhand.studies.study import (
    Claim,
    Evidence,
    Study,
    Table,
    certain,
    count,
    decide,
    on_own_data,
    over_seeds,
    two_sides,
)


def made(seed, holds=True):
    return Study(
        "made", "Made up", f"Seed {seed}.",
        (
            Claim("always", "1", "so", f"{seed}", certain(True)),
            Claim("by seed", "2", "about 2", f"{seed}", certain(seed != 2), counts="1 or 3"),
            Claim("sometimes there", "3", "so", "", certain(None if seed == 1 else False)),
            Claim("never there", "4", "so", "", certain(None)),
            Claim("ours", "5", "(not stated)", "x", certain(holds), is_ours=True),
        ),
        tables=(Table("T", ("a",), (("1",),)),), caveats=("All of it is made up.",),
    )  # fmt: skip


def test_seeds_that_cannot_tell_are_counted_as_such():
    found = over_seeds(made, [1, 2, 3])
    assert [c.verdict for c in found.claims] == ["yes", "in some seeds", "no", "cannot be told", "yes"]
    assert [c.in_seeds for c in found.claims] == [
        "3 of 3",
        "2 of 3",
        "0 of 3, 1 cannot tell",
        "0 of 3, 3 cannot tell",
        "3 of 3",
    ]
    assert found.seeds == (1, 2, 3)
    assert "seeds 1, 2, 3" in found.setting


def test_one_seed_is_the_study_itself():
    assert over_seeds(made, [2]) == made(2)


def test_checks_of_ours_never_count_among_the_findings_of_the_source():
    text = made(2, holds=False).to_text()
    assert "Findings that the source states: 1 yes, 2 no, 1 cannot be told." in text
    assert "Checks of our own: 0 yes, 1 no, 0 cannot be told." in text
    assert text.index("by seed") < text.index("Checks of our own") < text.rindex("(not")


def test_the_tally_of_several_seeds_says_all_some_and_none():
    found = over_seeds(made, [1, 2])
    stated = [c for c in found.claims if not c.is_ours]
    assert count(stated) == ("Findings that the source states: 1 yes, 1 in some seeds, 1 no, 1 cannot be told.")


def test_what_counts_as_about_and_the_caveats_stand_in_every_form():
    found = over_seeds(made, [1, 2])
    text = found.to_text()
    assert "All of it is made up." in text
    assert "1 of 2" in text
    assert "about 2 (counts if 1 or 3)" in " ".join(text.split())
    page = found.to_html()
    assert "All of it is made up." in page
    assert "in 1 of 2" in page
    whole = json.loads(found.to_text("json"))
    assert whole["caveats"] == ["All of it is made up."]
    assert whole["seeds"] == [1, 2]
    assert whole["findings"][1]["counts if"] == "1 or 3"
    assert whole["findings"][1]["in seeds"] == "1 of 2"
    assert [f["whose"] for f in whole["findings"]] == ["paper"] * 4 + ["ours"]


@pytest.mark.parametrize(
    ("change", "low", "high", "is_gain"),
    [
        (-0.17, -0.81, -0.26, None),
        (0.5, -0.2, 0.3, True),
        (0.2, -0.2, 0.3, None),
        (-0.5, -0.2, 0.3, False),
        (-0.5, 0.1, 0.3, False),
    ],
)
def test_a_gain_is_above_zero_and_beyond_chance(change, low, high, is_gain):
    band = {"low": low, "high": high, "estimate": (low + high) / 2}
    assert Move({"estimate": change}, band).is_gain.verdict() is is_gain


def test_the_command_counts_seeds_and_writes_one_page(capsys, tmp_path):
    page = tmp_path / "page.html"
    call = ["study", "recommender", "--size", "60", "--seed", "4", "--seeds", "2", "--format", "json", "--no-progress"]
    assert main([*call, "--html", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seeds"] == [4, 5]
    assert page.read_text().count("<figure>") == page.read_text().count("<svg")
    assert main([*call, "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert main(["study", "recommender", "--seeds", "0"]) == 2
    assert "--seeds 0" in capsys.readouterr().err


def test_options_of_the_command_are_what_any_study_takes_and_others_are_refused(capsys):
    for name in STUDIES:
        study = declared(name)
        assert all(parameter.about for parameter in roles(study).values()), f"{name}: help comes from the docstring"
        assert set(map(flag, roles(study))) <= options_of("study").keys()
    for words in (["response", "--data", "log.csv"], ["rebalance", "--data", "log.csv", "--versus", "f"]):
        with pytest.raises(SystemExit) as stop:
            main(["study", *words])
        assert stop.value.code == 2
        assert f"unrecognized arguments: {words[-2]}" in capsys.readouterr().err


def test_a_table_of_ones_own_needs_its_columns_named_and_columns_need_a_table():
    needed, more = {"unit": "u", "amount": None}, {"by": "day"}
    with pytest.raises(EvenhandError, match=r"^data= needs amount= as well"):
        on_own_data("log.csv", needed, more)
    with pytest.raises(EvenhandError, match=r"^unit=, by= says how to read a table"):
        on_own_data(None, needed, more)
    with pytest.raises(EvenhandError, match="size= is how much is generated"):
        on_own_data("log.csv", {"unit": "u"}, {}, 10)


def test_findings_of_a_study_share_one_level():
    """Holm: the smallest of three p counts three times, what needs no test counts in no family."""
    alone = [Claim("", "", "", "", Evidence(p, 1.0)) for p in (0.02, 0.03, 0.6)]
    sure = [Claim("", "", "", "", certain(holds)) for holds in (True, False, None)]
    assert [c.holds for c in alone] == [True, True, None]
    assert [c.holds for c in decide(alone)] == [None, None, None]
    assert [c.holds for c in decide([alone[0], *sure])] == [True, True, False, None]
    refuted = decide([Claim("", "", "", "", Evidence(0.001, 0.002)), *alone])[0]
    assert refuted.holds is False, "a statement that one part refutes does not come out, whatever the others say"


def test_two_sides_are_the_smallest_and_the_largest_unless_named():
    sizes = {"a": 5, "b": 2, "c": 9}
    asked = [(None, None), ("c", None), (None, "b"), ("a", "c")]
    assert [two_sides(sizes, *named) for named in asked] == [("b", "c"), ("c", "a"), ("a", "b"), ("a", "c")]
    for named, words in (("b", "also versus"), ("x", "is no label")):
        with pytest.raises(EvenhandError, match=words):
            two_sides(sizes, named, "b")

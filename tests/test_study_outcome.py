"""The outcome-test paper again: what it states comes out where the mechanics hold it, and not where it is wrong."""

from __future__ import annotations

import pytest

from evenhand.studies import outcome


@pytest.mark.slow
def test_the_study_says_what_comes_out_and_what_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr(outcome, "WORLDS", 40)
    found = outcome.study(seed=7)
    verdicts = {c.says: c.holds for c in found.claims}
    for start in (
        "One bar for both groups",
        "The marginal outcomes agree",
        "Precision can be equal",
        "Men, under-scored, realise higher",
        "The gap found is the gap",
        "Women, under-scored, realise higher",
        "A scoring bias is found",
        "Equalised odds can hold although",
    ):
        assert all(holds for says, holds in verdicts.items() if says.startswith(start)), start
    for start in (
        "Scores q for one group and 1 - q",
        "Re-ranked without the bias, men move up",
        "The same procedure shows no rise",
    ):
        assert not any(holds for says, holds in verdicts.items() if says.startswith(start)), start
    written = {path.name for path in found.write(tmp_path)}
    assert {"figure-4.svg", "figure-5.svg", "figure-6.svg", "figure-7.svg", "slots.svg", "index.html"} <= written


def test_small_worlds_are_judged_by_four_measures():
    rates = outcome.rates_of({"bias": {"female": 1.0}}, 3, 1)
    assert rates.joint == 1.0
    assert all(0 <= value <= 1 for value in rates.cells())

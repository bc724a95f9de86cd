"""The fuzzer of `benchmarks/attack.py`, a little of it; `python -m benchmarks.attack --seed N --rounds 1000` plays more."""

from __future__ import annotations

import pytest
from benchmarks.attack import AUDITS, COMMANDS, attack, call, play

import evenhand as eh


@pytest.mark.parametrize("kind", COMMANDS)
def test_whatever_is_thrown_at_the_command_line_ends_in_an_answer_or_a_sentence(kind):
    assert attack(seed=3, rounds=25, only=kind) == []


@pytest.mark.parametrize("audit", AUDITS)
def test_a_plausible_call_ends_in_a_result_that_can_be_used_in_every_way(audit):
    assert play(seed=3, rounds=2, only=audit, ways=None)[1] == []


def test_differences_that_vary_by_rounding_alone_have_no_histogram(tmp_path):
    assert call(1020, 9, "experiment", tmp_path) == ("result", "")


@pytest.mark.parametrize("name", ["log.csv", "../../x", "", "a.b.c", "__init__"])
def test_an_audit_that_is_none_is_told_whatever_it_is_called(name):
    from evenhand.audits.declare import find

    with pytest.raises(eh.EvenhandError, match="audit"):
        find(name)

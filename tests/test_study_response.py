"""The study of responses: a metric that responds, one that does not, and worlds without a bias."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evenhand.studies.response import FACTORS, METRICS, Response, Setting, claims, measured, settings, study


def planted(hits):
    return {(s, m): Response(hits, 12) for s in settings() for m in METRICS}


@pytest.mark.parametrize(("hits", "verdict"), [(12, True), (0, False), (7, None)])
def test_verdicts_have_three_outcomes(hits, verdict):
    assert {claim.holds for claim in claims(planted(hits))} == {verdict}


def test_one_setting_without_a_response_decides():
    found = planted(12) | {(replace(Setting(), depth=5), "awrf"): Response(0, 12)}
    assert claims(found)[0].holds is False


def test_a_strong_bias_is_found_and_no_bias_is_not():
    strong, none = (measured(replace(Setting(), bias=bias), 8, (1,)) for bias in (1.0, 0.0))
    for metric in ("awrf", "fair", "log_dp", "eed", "eel", "log_eur"):
        assert strong[metric].hits == 8, metric
        assert none[metric].responds.verdict() is None, metric
    assert strong["ndd"].hits < 4  # compares a list with itself: who is left out of it does not count


def test_every_factor_has_a_table_and_a_figure():
    found = study(size=2, seed=1)
    assert len(found.tables) == len(FACTORS)
    assert [f.name for f in found.figures] == [
        f"response-{factor}-{x:g}" for factor in FACTORS for x in FACTORS[factor]
    ]
    assert found.figures[0].draw().to_dict()
    assert {row[0] for row in found.tables[0].rows} == set(METRICS)

"""Worlds in which nothing is there: no audit may claim something in more of them than the law of claims allows.

`make claims` asks 200 worlds of every audit (docs/claims.md); here are six, so that a claim without a test is caught at once.
"""

import pytest
from benchmarks.null_worlds import WORLDS, count


@pytest.mark.slow
@pytest.mark.parametrize("audit", WORLDS)
def test_hardly_any_null_world_makes_a_claim(audit):
    tally = count(audit, worlds=6, seed=11)
    assert tally.holds, tally.examples

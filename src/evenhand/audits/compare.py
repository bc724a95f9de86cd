"""Did it change? Two results of the same question, row by row; or the systems of one ranking result, two by two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.audits.paired import compare_results, compare_systems
from evenhand.audits.requests import RankingResult
from evenhand.errors import EvenhandError
from evenhand.results import Result


def compare(
    a: Result,
    b: Result | None = None,
    *,
    systems: Sequence[Any] | None = None,
    draws: int | None = None,
    rng: int | np.random.Generator | None = None,
) -> Result:
    """Difference a - b of every row that two results share, with interval and p (Holm-adjusted beside it).

    Ranking results that share requests are compared on them: the interval resamples requests, p swaps the two within
    requests at random. Others must rest on different units (two arms, two periods, two platforms), since their errors are
    taken as independent.

    With one ranking result: its systems, two by two, on the same requests; p is adjusted over pairs for each metric, and
    `.systems("markdown")` is the table of a paper.

    Parameters
    ----------
    systems : which systems of `a` to compare (default: all of them).
    draws, rng : resamples and swaps, and their seed (default: 999, and more swaps where p is small and pairs are many).

    Examples
    --------
    >>> import polars as pl, evenhand as eh
    >>> run = pl.DataFrame({"run": list("aabb") * 2, "request": [1] * 4 + [2] * 4, "item": list("xyyx") * 2, "rank": [1, 2] * 4})
    >>> result = eh.exposure(run, groups={"x": "f", "y": "m"}, protected="f", system="run", metrics="log_dp(attention='rbp')")
    >>> round(eh.compare(result, rng=1).frame["estimate"][0], 3)
    1.386
    """
    if not isinstance(a, Result):
        raise EvenhandError(f"a is a {type(a).__name__}, not a result. Pass what an audit or eh.read.result gave.")
    if b is None:
        return compare_systems(a, systems, draws=draws, rng=rng)
    if not isinstance(b, Result):
        raise EvenhandError(f"b is a {type(b).__name__}, not a result. Pass what an audit or eh.read.result gave.")
    if systems is not None:
        raise EvenhandError(
            "systems chooses among the systems of one result, and two were given. Leave b or systems out."
        )
    return compare_results(a, b, draws=draws, rng=rng) if isinstance(a, RankingResult) else a.compare(b)

"""Did it change? Two results of the same question, row by row; or the systems of one ranking result, two by two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from evenhand.audits.declare import Call, Seed, Takes, audit
from evenhand.audits.paired import compare_results, compare_systems
from evenhand.audits.paired_users import compare_recommenders
from evenhand.audits.recommender import RecommenderResult
from evenhand.audits.requests import RankingResult
from evenhand.audits.systems import Saved, opened, sides
from evenhand.cards import Between
from evenhand.errors import EvenhandError
from evenhand.results import COMPARED, Result, difference_of


@audit(
    "compare",
    question="Did it change, and by more than chance?",
    charts=("intervals",),
    extra=COMPARED,
    over="requests",
)
def compare(
    call: Call,
    a: Saved,
    b: Annotated[Result | str | Path | None, Takes("RESULT.json", files="what it is compared with")] = None,
    *,
    systems: Annotated[Sequence[Any] | None, Takes("SYSTEM", many=True)] = None,
    independent: bool = False,
    paired: bool | None = None,
    draws: Annotated[int, Between(99, 100_000)] | None = None,
    rng: Seed = None,
) -> Result:
    """Difference a - b of every row that two results share, with interval and p (Holm-adjusted beside it).

    Ranking results that share requests are compared on them: the interval resamples requests, p swaps the two within
    requests at random; those that share none are compared as two samples of requests. A result of units holds none of them,
    so whether two share any is not known: interval and p need `independent=True`. `eh.experiment` compares arms and periods
    from the log itself.

    With one ranking result: its systems, two by two, on the same requests; p is adjusted over all rows, and
    `.systems("markdown")` is the table of a paper. With one recommender result: both are measured again on the users that they
    share and the items that either has; users are resampled within their group, and p swaps the two within users.

    Parameters
    ----------
    a : the new result, or the path of a saved one; changes are `a` minus `b`.
    b : the result to compare with, of the same audit, or its path; left out, the systems of `a` are compared.
    systems : which systems of `a` to compare (default: all of them).
    independent : the two results share no unit and no request (two platforms, different people), which only you can
        know.
    paired : whether requests with the same id are the same request (default: yes if ids match); False if requests
        were randomly assigned to the two.
    draws : resamples and permutations (default: 999, with more permutations if p is small and there are many pairs).

    Examples
    --------
    >>> import polars as pl, evenhand as eh
    >>> run = pl.DataFrame({"run": list("aabb") * 2, "request": [1] * 4 + [2] * 4, "item": list("xyyx") * 2, "rank": [1, 2] * 4})
    >>> result = eh.exposure(run, groups={"x": "f", "y": "m"}, protected="f", system="run", metrics="log_dp(attention='rbp')")
    >>> round(eh.compare(result, rng=1).frame["estimate"][0], 3)
    1.386
    """
    first, second = opened(a), None if b is None else opened(b)
    if second is None and isinstance(first, RecommenderResult):
        return compare_recommenders(call, first, systems, draws)
    if second is None:
        return compare_systems(call, first, systems, draws)
    if systems is not None:
        raise EvenhandError(
            "systems chooses among the systems of one result, and two were given. Leave b or systems out."
        )
    if paired is not None and not (isinstance(first, RankingResult) and isinstance(second, RankingResult)):
        raise EvenhandError(
            "paired says how requests are compared, and a saved or other result holds none. Leave it out, or pass two results of "
            "a ranking audit made in this session."
        )
    called = sides([a, b or ""], [dict(r.findings.provenance.get("plan") or {}) for r in (first, second)])
    if isinstance(first, RankingResult):
        return compare_results(call, first, second, draws, called, independent=independent, paired=paired)
    difference = difference_of(first.findings, second.findings, independent=independent)
    words = {**difference.words, **called}
    return call.result(
        difference.columns, backend=first.backend, slices=difference.slices, words=words, facts=difference.provenance
    )

"""Assertions on results, for a test suite."""

from __future__ import annotations

import warnings
from pathlib import Path

from evenhand.errors import DataWarning, EvenhandError
from evenhand.gates import Adjust, Inconclusive
from evenhand.results import Result


def assert_within(
    result: Result,
    *rules: str,
    baseline: Result | str | Path | None = None,
    inconclusive: Inconclusive = "estimate",
    adjust: Adjust | None = "holm",
) -> None:
    """Fail the test unless every rule holds for every row of its metric.

    Parameters
    ----------
    result : what an audit or `eh.read.result` gave.
    rules : such as `"gini <= 0.9"` or, with `baseline`, `"gini <= baseline + 0.01"`.
    baseline : an earlier result, or the path of a saved one; the difference is tested with the errors of both.
    inconclusive : what decides where the interval reaches the other side: `"estimate"` (with a warning), `"pass"`, `"fail"`.
    adjust : with `inconclusive="pass"`: failures are adjusted over all checks (`"holm"`), or not (None).

    Examples
    --------
    >>> import evenhand as eh, polars as pl
    >>> log = pl.DataFrame({"author": ["a", "b", "c", "d"], "views": [1, 2, 3, 4]})
    >>> result = eh.inequality(log, unit="author", amount="views", population=None, metrics="gini", interval=None)
    >>> assert_within(result, "gini <= 0.3")
    >>> assert_within(result, "gini <= 0.2")
    Traceback (most recent call last):
    AssertionError: 1 of 1 checks failed.
    FAIL: gini <= 0.2: 0.25
    """
    if not isinstance(result, Result):
        raise EvenhandError(f"{type(result).__name__} is no result. Pass what an audit or eh.read.result gave.")
    if not rules:
        raise EvenhandError("assert_within was given no rule. Pass at least one, such as 'gini <= 0.9'.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # told below, from the line of the test
        checks = result.check(*rules, baseline=baseline, inconclusive=inconclusive, adjust=adjust)
    if not checks.passed:
        failures = "\n".join(map(str, checks.failed))
        raise AssertionError(f"{len(checks.failed):,} of {len(checks.checks):,} checks failed.\n{failures}")
    if doubt := checks.doubt(inconclusive):
        warnings.warn(doubt, DataWarning, stacklevel=2)

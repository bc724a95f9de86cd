"""Did it change? Two results of the same question, row by row."""

from __future__ import annotations

from evenhand.errors import EvenhandError
from evenhand.results import Result


def compare(a: Result, b: Result) -> Result:
    """Difference a - b of every row that two results share, with interval and p (Holm-adjusted beside it).

    The two must rest on different units (two arms, two periods, two platforms): their errors are taken as independent.
    """
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, Result):
            raise EvenhandError(
                f"{name} is a {type(given).__name__}, not a result. Pass what an audit or eh.read.result gave."
            )
    return a.compare(b)

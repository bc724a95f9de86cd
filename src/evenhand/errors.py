"""Every deliberate error and warning, and the words they share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

MOST_NAMES = 10


class EvenhandError(ValueError):
    """Bad input or a bad call: one sentence of fact, one of remedy."""


class MissingExtraError(EvenhandError, ImportError):
    """A package that only some need is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed. Install it with: pip install 'evenhand[{extra}]'.")


class UndefinedWarning(UserWarning):
    """The input is well formed but the quantity does not exist for it; `reason` is the code of the formula book."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class DataWarning(UserWarning):
    """Something was done to the data that the reader of a number should know."""


def listing(names: Iterable[object], most: int = MOST_NAMES) -> str:
    """Names in one line, never more than `most` of them.

    >>> listing(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    all_names = [str(name) for name in names]
    shown = ", ".join(all_names[:most])
    rest = len(all_names) - most
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def suggestion(typed: str, known: Iterable[str]) -> str:
    """The nearest known name as a question, or nothing.

    >>> suggestion("ginni", ["gini", "hoover"])
    "Did you mean 'gini'? "
    """
    names = list(known)
    folded = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(typed, names, n=1, cutoff=0.5)
    close = close or [folded[c] for c in difflib.get_close_matches(typed.lower(), list(folded), n=1, cutoff=0.5)]
    return f"Did you mean {close[0]!r}? " if close else ""


def unknown_name(role: str, typed: str, known: Sequence[str], *, what: str) -> EvenhandError:
    """An error for a name that is not one of `known`: what was typed, the nearest, and the rest."""
    return EvenhandError(f"{role}={typed!r} is not {what}. {suggestion(typed, known)}Known: {listing(known, 40)}.")


def all_problems(problems: Sequence[str], *, where: str = "") -> EvenhandError:
    """One error that reports every problem of a table at once."""
    if len(problems) == 1:
        return EvenhandError(problems[0])
    lines = "\n".join(f"  - {problem}" for problem in problems[:MOST_NAMES])
    return EvenhandError(f"{where or 'The input'} has {len(problems)} problems:\n{lines}")

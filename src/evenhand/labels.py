"""Labels of groups and slices: how they are written, in which order they stand, which a typed word means, and their random stream."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from evenhand.errors import EvenhandError, listing, suggestion

Unknown = Literal["drop", "group", "unprotected", "raise"]
"""How items without a label are counted."""

UnknownOrBounds = Literal["drop", "group", "unprotected", "raise", "bounds"]
"""The same, or left out of the estimate, beside which stands its range over all labelings."""


def counted_as(unknown: UnknownOrBounds) -> Unknown:
    """How the estimate counts items without a label."""
    return "drop" if unknown == "bounds" else unknown


UNKNOWN_LABEL = "unknown"
"""The group of items without a label, where they are one."""

NUMERAL = r"-?[0-9]{1,15}(\.[0-9]{1,15})?"
"""Text that is a number, for the order of labels alone: 01 and 1 are two labels."""


def missing(label: Any) -> bool:
    """Whether a label is not known: None, or the NaN or NA that some libraries write for it."""
    return (
        label is None or (isinstance(label, float) and label != label) or type(label).__name__ in ("NAType", "NaTType")
    )


def plain(label: Any) -> Any:
    """A scalar of numpy as Python's own."""
    return label.item() if type(label).__module__ == "numpy" and hasattr(label, "item") else label


def order(label: Any) -> tuple[Any, ...]:
    """Sort key of a label: numbers (as text too) by size, then by type, missing ones last.

    >>> sorted(["b", 10, None, 9.5, "a", True], key=order)
    [True, 9.5, 10, 'a', 'b', None]
    >>> sorted(["10", "b", "9", "-1", "09"], key=order)
    ['-1', '09', '9', '10', 'b']
    """
    if missing(label):
        return 2, "", ""
    if isinstance(label, (int, float, Decimal)):
        return 0, "", label
    if isinstance(label, str):
        number = re.fullmatch(NUMERAL, label)
        return 1, "str", not number, float(label) if number else 0.0, label
    return 1, type(label).__name__, label if isinstance(label, (bytes, date, time, timedelta)) else str(label)


def in_order(labels: Iterable[Any]) -> list[Any]:
    return sorted(labels, key=order)


def rows_in_order(labels: Sequence[tuple[Any, ...]]) -> list[int]:
    """The places of slices in the order of their labels.

    >>> rows_in_order([("b",), (None,), ("a",)])
    [2, 0, 1]
    """
    return sorted(range(len(labels)), key=lambda i: [order(v) for v in labels[i]])


def whole(labels: Sequence[Any]) -> list[Any]:
    """Labels as integers where a library has turned integers with gaps into floats.

    >>> whole([1.0, None, 2.0]), whole([1.0, 0.5])
    ([1, None, 2], [1.0, 0.5])
    """
    values = [v for v in labels if not missing(v)]
    if not any(isinstance(v, float) for v in values) or not all(isinstance(v, (int, float)) for v in values):
        return list(labels)
    if not all(abs(v) <= 2**53 and float(v).is_integer() for v in values):  # larger floats skip whole numbers
        return list(labels)
    return [None if missing(v) else int(v) for v in labels]


def whole_labels(labels: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
    """Labels of slices, column by column as their owner wrote them.

    >>> whole_labels([(1.0, 0.5), (2.0, 1.0), (None, 1.0)])
    ((1, 0.5), (2, 1.0), (None, 1.0))
    """
    by_column = [whole(column) for column in zip(*labels, strict=True)]
    return tuple(zip(*by_column, strict=True)) if by_column else tuple(labels)


def one_or_several(side: Any) -> Any:
    """A single label as it is; a list, set, range or column of labels as a list."""
    if isinstance(side, (list, tuple, set, frozenset, range)):
        return list(side)
    return listed(side) if hasattr(side, "__len__") and hasattr(side, "dtype") and len(side.shape) else side


def several(side: Any) -> list[Any]:
    """The labels that a side is made of, none where there is no side."""
    chosen = one_or_several(side)
    return chosen if isinstance(chosen, list) else [] if chosen is None else [chosen]


def listed(labels: Any) -> list[Any]:
    """Labels as plain Python values, missing ones as None.

    PyArrow would hand out scalars, and pandas writes a missing text or category as NaN.
    """
    for unpack in ("to_pylist", "to_list", "tolist"):
        if hasattr(labels, unpack):
            values = list(getattr(labels, unpack)())
            break
    else:
        values = list(labels)
    lost = labels.isna() if hasattr(labels, "isna") and labels.dtype.kind != "f" else [False] * len(values)
    return [
        None if gone or type(label).__name__ == "NAType" else label for label, gone in zip(values, lost, strict=True)
    ]


def spellings(label: Any) -> list[str]:
    """The words that stand for a label, as people, command lines and plans write it.

    >>> spellings(2.0), spellings(True), spellings("f")
    (['2.0', '2'], ['True', 'true'], ['f'])
    >>> import datetime
    >>> spellings(datetime.datetime(2020, 1, 1))
    ['2020-01-01 00:00:00', '2020-01-01T00:00:00', '2020-01-01']
    """
    words = [str(label)]
    if isinstance(label, bool):
        words.append(words[0].lower())
    elif isinstance(label, float) and label.is_integer():
        words.append(str(int(label)))
    elif isinstance(label, (date, time)):
        words += [label.isoformat(), label.isoformat().removesuffix("T00:00:00")]
    return list(dict.fromkeys(words))


def match(typed: Any, labels: Iterable[Any]) -> Any:
    """The label that was meant: an equal one, else one that is written the same, else `typed`.

    >>> match("1", [0, 1]), match("true", [False, True]), match(2, ["1", "2"]), match("x", [0, 1])
    (1, True, '2', 'x')
    """
    choices, typed = list(labels), plain(typed)
    if typed in choices:
        return choices[choices.index(typed)]
    words = set(spellings(typed))
    return next((label for label in choices if label is not None and words & set(spellings(label))), typed)


def no_label(role: str, lost: Sequence[Any], labels: Iterable[Any], *, of: str = "the groups") -> str:
    """Error message for unknown labels: what was typed, the nearest, and the labels there are."""
    choices = sorted(labels, key=order)
    near = suggestion(str(lost[0]), map(str, choices)) if lost else ""
    named = listing(map(repr, lost)) or "[]"
    return f"{role}={named} is no label of {of}. {near}Labels: {listing(map(repr, choices)) or 'none'}."


def matches(role: str, typed: Any, labels: Iterable[Any], *, of: str = "the groups") -> list[Any]:
    """Labels of a side as the table has them; an unknown one, or none, is an error."""
    choices = list(labels)
    chosen = [match(label, choices) for label in several(typed)]
    lost = [label for label in chosen if label not in choices]
    if not chosen or lost:
        raise EvenhandError(no_label(role, lost, choices, of=of))
    return chosen


OTHERS = "*"
"""Stands for all labels that are not protected, taken together."""


def all_but(versus: Any, protected: Any, labels: Iterable[Any]) -> Any:
    """The other side as typed; `"*"` is all but the protected, unless a label is called so.

    >>> all_but("*", "f", ["f", "m", "x"]), all_but("m", "f", ["f", "m", "x"]), all_but("*", "f", ["f", "*"])
    (['m', 'x'], 'm', '*')
    """
    named = [label for label in labels if not missing(label)]
    if not (isinstance(versus, str) and versus == OTHERS) or OTHERS in named:
        return versus
    if protected is None:
        raise EvenhandError("versus='*' is all but the protected, and none was named. Pass protected= with a label.")
    protected_labels = matches("protected", protected, named) if named else []
    return [label for label in named if label not in protected_labels] or None


def stream(seed: int, *labels: Any) -> np.random.Generator:
    """Generator that depends on the seed and the labels only, never on what else is computed."""
    digest = hashlib.blake2b(repr([_plain(label) for label in labels]).encode(), digest_size=8).digest()
    return np.random.default_rng(np.random.SeedSequence([seed, int.from_bytes(digest, "big")]))


def _plain(label: Any) -> Any:
    """A label as every engine means it: the same moment has several names of its time zone."""
    if isinstance(label, datetime) and label.tzinfo is not None:
        return label.astimezone(UTC).isoformat()
    return label.item() if isinstance(label, np.generic) else label

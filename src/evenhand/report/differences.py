"""What differs between a saved result and the same one made again, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from evenhand.findings import Findings, key_columns, plain

RELATIVE = 1e-9
"""How far numbers may be apart that another processor, or another order of rows, adds up: the contract of results."""
ABSOLUTE = 1e-12
"""The same for numbers near zero, where sums cancel out."""

NOT_COMPARED = frozenset({"inputs", "versions", "plan", "seed"})
"""Parts of the provenance with numbers that are compared elsewhere, or are not figures of the result."""


def differences(saved: Findings, recomputed: Findings) -> list[str]:
    """One sentence per figure that differs; of a result with fewer metrics, those that it has."""
    if set(saved.metrics()) < set(recomputed.metrics()):
        recomputed = recomputed.only(*saved.metrics())
    old, new = plain(saved.provenance), plain(recomputed.provenance)
    facts = {name: old[name] for name in old if name not in NOT_COMPARED and _has_numbers(old[name])}
    return [
        *_rows(saved, recomputed),
        *_parts(saved, recomputed),
        *(
            f"{name.replace('_', ' ')}: {value} recorded, {new.get(name)} now"
            for name, value in facts.items()
            if not is_same(value, new.get(name))
        ),
    ]


def _rows(saved: Findings, recomputed: Findings) -> Iterator[str]:
    """The cells of the frame that differ, each named by its metric and labels."""
    if list(saved.columns) != list(recomputed.columns) or len(saved) != len(recomputed):
        lost = ", ".join(sorted(set(saved.columns) ^ set(recomputed.columns)))
        only_one = f"; columns that only one has: {lost}" if lost else ""
        yield f"frame: {len(saved):,} rows recorded, {len(recomputed):,} now{only_one}"
        return
    keys = key_columns(saved) if "group" in saved.columns else saved.slices
    for old, new in zip(saved.rows(), recomputed.rows(), strict=True):
        labels = ", ".join(f"{k}={old[k]}" for k in keys if old[k] is not None)
        where = f"{old['metric']} ({labels})" if labels else old["metric"]
        for name in old:
            if not is_same(plain(old[name]), plain(new[name])):
                yield f"{where}: {name} {plain(old[name])} recorded, {plain(new[name])} now"


def _parts(saved: Findings, recomputed: Findings) -> Iterator[str]:
    """Curves, claims and words that differ."""
    old, new = saved.to_dict(), recomputed.to_dict()
    for name, points in old["curves"].items():
        if not is_same(points, new["curves"].get(name)):
            yield f"curve {name}: other points"
    pairs: Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]] = zip_longest(
        old["claims"], new["claims"], fillvalue={}
    )
    for claim, other in pairs:
        if not is_same(claim, other):
            text, p, p_now = claim.get("text") or other["text"], claim.get("p_adjusted"), other.get("p_adjusted")
            yield f"claim {text!r}: p {p} recorded, {p_now} now"
    for name in ("audit", "question", "slices", "words"):
        if old[name] != new[name]:
            yield f"{name}: {old[name]} recorded, {new[name]} now"


def is_same(old: Any, new: Any) -> bool:
    """Whether plain data agree: numbers to nine digits, labels as text.

    >>> is_same({"a": [1, 0.1 + 0.2, "x"]}, {"a": ["1", 0.3, "x"]}), is_same([0.3], [0.3001]), is_same([1], [1, 2])
    (True, False, False)
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(is_same(old[key], new[key]) for key in old)
    if (
        isinstance(old, Sequence)
        and isinstance(new, Sequence)
        and not isinstance(old, str)
        and not isinstance(new, str)
    ):
        return len(old) == len(new) and all(map(is_same, old, new))
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        return math.isclose(old, new, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return old == new or (old is not None and new is not None and str(old) == str(new))


def is_identical(saved: Findings, recomputed: Findings) -> bool:
    """Whether the frames agree to the last bit."""
    columns, others = ({k: list(map(plain, c)) for k, c in f.columns.items()} for f in (saved, recomputed))
    return columns == others


def _has_numbers(value: Any) -> bool:
    """Whether a fact is a number, or holds nothing but numbers."""
    if isinstance(value, Mapping):
        return bool(value) and all(map(_has_numbers, value.values()))
    return isinstance(value, (int, float))

"""Plain amounts, one per unit: read, refused where they are none, and looked through in pieces that stay in cache."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from evenhand.cards import Floats
from evenhand.errors import EvenhandError

PIECE = 1 << 15
"""Cells of a longer one handled at a time: working arrays stay in cache and are small enough to be used again."""

LARGEST = float(np.finfo(np.float64).max)


def vector(name: str, data: Any) -> Any:
    """Plain numbers, one per unit, as an array; text is not read as numbers."""
    try:
        if isinstance(
            data, (str, bytes, Mapping, AbstractSet)
        ):  # none of these is a number per unit: keys are labels, a set drops ties
            raise TypeError(type(data))
        x = np.ma.filled(data.astype(np.float64), np.nan) if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
        if x.dtype.kind not in "uifb":
            x = np.asarray([_number(v) for v in x.tolist()])
    except (TypeError, ValueError, OverflowError) as error:
        raise EvenhandError(f"{name} must be numbers. Pass a list or array with one number per unit.") from error
    if x.ndim != 1:
        raise EvenhandError(f"{name} must be one-dimensional, not of shape {x.shape}. Pass one number per unit.")
    return x.astype(np.int64) if x.dtype.kind == "b" else x


def _number(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(value)
    return math.nan if value is None else float(value)


def sound(x: Floats, nan_policy: str) -> Floats:
    """The amounts after the NaN policy; negative and infinite ones are refused."""
    missing = np.isnan(x)
    below, infinite = int((x < 0).sum()), int(np.isinf(x).sum())
    if below:
        raise negative(below)
    if infinite:
        raise EvenhandError(f"{infinite:,} amounts are infinite. Pass finite amounts.")
    if missing.any() and nan_policy == "raise":
        raise EvenhandError(
            f"{int(missing.sum()):,} amounts are NaN. Remove them, or pass nan_policy='omit' or 'propagate'."
        )
    if missing.any() and nan_policy == "propagate":
        return np.array([np.nan])
    return x[~missing]


def negative(how_many: int) -> EvenhandError:
    return EvenhandError(f"{how_many:,} amounts are negative. Pass amounts of zero or more.")


def refuse_endless(shrunk: float) -> None:
    """Refuse amounts whose sum (given times 2^-100) no float holds: every share of it would be wrong."""
    if shrunk > LARGEST * 2.0**-100:
        raise EvenhandError("x adds up to more than a number can hold. Pass it in a larger unit.")


def positive(x: Floats) -> tuple[Floats, int, int]:
    """A zero and the numbers above zero behind it, how many they are, and how many are zero; the rest is bad."""
    above_zero = np.empty(len(x) + 1)  # what is not written to takes up no memory, and is given back below
    above_zero[0], end, zeros = 0.0, 1, 0
    for start in range(0, len(x), PIECE):
        piece = x[start : start + PIECE]
        picked = np.flatnonzero(piece > 0)  # picking by position is twice as fast as by mask
        np.take(piece, picked, out=above_zero[end : end + len(picked)], mode="clip")
        end += len(picked)
        zeros += int(np.count_nonzero(piece == 0))
    above_zero.resize(end, refcheck=False)
    return above_zero, end - 1, zeros


def run_starts(*columns: Any) -> np.typing.NDArray[np.int64]:
    """Where a new run of equal rows begins."""
    length = len(columns[0])
    if not length:
        return np.zeros(0, dtype=np.int64)
    starts = [np.zeros(1, dtype=np.int64)]
    for start in range(0, length - 1, PIECE):  # in pieces: a mark per row would cost more than the sort
        parts = [column[start : start + PIECE + 1] for column in columns]
        changed = parts[0][1:] != parts[0][:-1]
        for part in parts[1:]:
            changed |= part[1:] != part[:-1]
        starts.append(np.flatnonzero(changed) + (start + 1))
    return np.concatenate(starts)


def distinct(ordered: Floats) -> int:
    """How many different numbers a sorted array holds, counted in pieces."""
    changes = 0
    for start in range(0, len(ordered) - 1, PIECE):
        block = ordered[start : start + PIECE + 1]
        changes += int(np.count_nonzero(block[1:] != block[:-1]))
    return changes + min(len(ordered), 1)

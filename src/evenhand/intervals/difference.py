"""Differences between two estimates that were made apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from evenhand.cards import Floats


def difference(
    a: tuple[Floats, Floats, Floats], b: tuple[Floats, Floats, Floats], level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Difference b - a with interval and p, from (estimate, low, high) of independent samples.

    The distances of each estimate from the end that faces the other are added in squares (MOVER; Zou and Donner, 2008),
    so that lopsided intervals stay lopsided. p is two-sided, from the distance that faces zero.

    >>> d, low, high, p = difference(*[tuple(map(np.array, t)) for t in ((0.8, 0.77, 0.83), (0.9, 0.88, 0.92))], 0.95)
    >>> round(float(d), 2), round(float(low), 3), round(float(high), 3), float(p) < 0.001
    (0.1, 0.064, 0.136, True)
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # estimates may be infinite
        gap = np.asarray(b[0] - a[0])
        down = np.sqrt((b[0] - b[1]) ** 2 + (a[2] - a[0]) ** 2)
        up = np.sqrt((b[2] - b[0]) ** 2 + (a[0] - a[1]) ** 2)
        facing = np.where(gap >= 0, down, up) / NormalDist().inv_cdf((1 + level) / 2)
        z = np.abs(gap) / facing
    p = np.vectorize(lambda x: math.erfc(x / math.sqrt(2)), otypes=[float])(z)  # exact where it is tiny, NaN where z is
    return gap, gap - down, gap + up, np.where(gap == 0, 1.0, p)


def holm(p: Any) -> Floats:
    """Holm's adjustment of several p-values; undefined ones are not counted.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.array([np.nan if x is None else x for x in p], dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    defined = np.flatnonzero(~np.isnan(values))
    order = defined[np.argsort(values[defined], kind="stable")]
    scaled = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0) if len(order) else scaled
    return adjusted


def holm_by_family(p: Sequence[Any], families: Sequence[str]) -> Floats:
    """Holm's adjustment within each family of questions.

    >>> holm_by_family([0.01, 0.04, 0.03], ["a", "b", "a"]).round(3).tolist()
    [0.02, 0.04, 0.03]
    """
    adjusted = np.full(len(p), np.nan)
    for family in dict.fromkeys(families):
        at = [i for i, name in enumerate(families) if name == family]
        adjusted[at] = holm([p[i] for i in at])
    return adjusted

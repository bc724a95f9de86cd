"""How large a pooled gap chance alone makes: labels permuted within score bins, or the signs of whole clusters flipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from evenhand.cards import Floats
from evenhand.metrics.outcome import Gaps
from evenhand.metrics.outcome_pooled import Null, Pooled
from evenhand.tallies.clusters import FLIPPED
from evenhand.tallies.moments import Moments
from evenhand.tallies.rows import Rows
from evenhand.uncertainty.intervals import stream

DRAWS = 4_999
SEED = 20_220
"""The test has no seed of its own to ask for: the same data always give the same p."""

MOST_NUMBERS = 1 << 22
FLAT = 1e-12
FEWEST_CLUSTERS = 10


def tested(m: Moments, found: Gaps, pooled: Pooled, rows: Callable[[], Rows | None]) -> Pooled:
    """The same with what chance alone gives, where the normal cannot say it; `rows` are read only if needed."""
    if pooled.by_cluster:
        return _flipped(pooled)
    needed = np.flatnonzero(pooled.few).tolist()
    held = rows() if needed else None
    if held is None:
        return pooled
    return replace(pooled, drawn={g: _permuted(m, found, pooled, g, held) for g in needed})


def _flipped(pooled: Pooled) -> Pooled:
    """Signs of whole clusters' contributions flipped at random; few contributing clusters allow no test."""
    drawn, few = {}, pooled.few.copy()
    for g, parts in pooled.by_cluster.items():
        if parts is None:
            continue
        parts = parts[np.abs(parts) > FLAT * np.abs(parts).max(initial=0.0)]  # what is left of rounding is no part
        if len(parts) < FEWEST_CLUSTERS:
            few[g] = True
        elif len(parts) <= FLIPPED:
            signs = stream(SEED, "flips", len(parts)).integers(0, 2, (DRAWS, len(parts)), dtype=np.int8)
            drawn[g] = np.abs((2.0 * signs - 1) @ parts) / np.sqrt((parts**2).sum())
    return replace(pooled, drawn=drawn, few=few)


def _permuted(m: Moments, found: Gaps, pooled: Pooled, g: int, rows: Rows) -> Floats:
    """Sizes of the studentised gap of one group when its labels and the reference's are dealt again within every bin."""
    null, draws = Null(m, found, g), DRAWS
    squares = np.maximum(null.residuals(0.0).sums[..., 0, 2].sum(-1), 0.0)
    spread = squares / np.maximum(m.rows.sum(-1) - found.lines.parameters + 1, 1)
    gap, square = np.zeros(draws), np.zeros(draws)
    rng = stream(SEED, "permuted", int(pooled.rows[g]))
    both = np.flatnonzero((rows.group == g) | (rows.group == found.reference))
    along, across = _rest(m, [h for h in range(m.rows.shape[1]) if h not in (g, found.reference)])
    for b in np.flatnonzero(pooled.share[:, g] > 0).tolist():
        at = both[rows.bin[both] == b]
        u, y, n = rows.score[at] - m.origin[b], rows.outcome[at], int((rows.group[at] == g).sum())
        w = 1.0 if rows.weight is None else rows.weight[at]
        sums = [np.asarray(w * u), np.asarray(w * y), *([] if rows.weight is None else [rows.weight[at]])]
        size = float(len(at)) if rows.weight is None else rows.weight[at].sum()
        total = [size, sums[0].sum(), sums[1].sum(), (sums[0] * u).sum() + along[b], (sums[0] * y).sum() + across[b]]
        picked = _picked(sums, n, draws, rng)
        mass = picked[2] if len(picked) > 2 else float(n)
        one, pull = _gap(mass, picked[0], picked[1], total, scored=bool(found.lines.scored[b]))
        gap += pooled.share[b, g] * one
        square += pooled.share[b, g] ** 2 * spread[b] * pull
    sizes = np.divide(np.abs(gap), np.sqrt(square), out=np.zeros(draws), where=square > 0)
    return np.asarray(sizes)


def _rest(m: Moments, others: list[int]) -> tuple[Floats, Floats]:
    """What groups that stay where they are add to the slope of each bin: squares of the score, and products with the outcome."""
    s, mean = m.sums[:, others], np.nan_to_num(m.mean_offset[:, others])
    along = s[..., 2, 0] - mean * s[..., 1, 0]
    across = s[..., 1, 1] - mean * s[..., 0, 1] + m.slope[:, others] * along
    return along.sum(-1), across.sum(-1)


def _gap(n: Floats | float, u: Floats, y: Floats, total: Sequence[float], *, scored: bool) -> tuple[Floats, Floats]:
    """The bin's gap, and its variance in units of the residuals', for every deal of the labels.

    `n`, `u` and `y` are the weight, score and outcome of the group in each deal, `total` those of both groups, then squares
    and products of score and outcome over all.
    """
    m = total[0] - n
    ug, yg, ur, yr = u / n, y / n, (total[1] - u) / m, (total[2] - y) / m
    apart, along = ug - ur, total[3] - n * ug**2 - m * ur**2
    across = total[4] - n * ug * yg - m * ur * yr
    steep = scored & (along > FLAT * total[3])
    slope = np.divide(across, along, out=np.zeros_like(along), where=steep)
    lean = np.divide(apart, along, out=np.zeros_like(along), where=steep)
    return yg - yr - slope * apart, 1 / n + 1 / m + lean * apart


def _picked(columns: Sequence[Floats], n: int, draws: int, rng: np.random.Generator) -> list[Floats]:
    """Sums of the columns over n rows drawn without replacement, `draws` times."""
    size = len(columns[0])
    if 2 * n > size:
        left = _picked(columns, size - n, draws, rng)
        return [column.sum() - part for column, part in zip(columns, left, strict=True)]
    out = [np.zeros(draws) for _ in columns]
    at_once = max(1, min(draws, MOST_NUMBERS // size))
    order = np.repeat(np.arange(size, dtype=np.min_scalar_type(size)), at_once)  # a shuffle is a column of this table
    places = order.reshape(size, at_once)
    for start in range(0, draws, at_once):
        line = np.arange(min(at_once, draws - start))
        here = slice(start, start + len(line))
        for k in range(n):  # the first n steps of a shuffle, for many shuffles at once
            at = rng.integers(k, size, len(line))
            at *= at_once
            at += line
            taken = order[at]
            order[at] = places[k, : len(line)]
            places[k, : len(line)] = taken
            for total, column in zip(out, columns, strict=True):
                total[here] += column.take(taken)
    return out

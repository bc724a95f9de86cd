"""How large a pooled gap chance alone makes: labels permuted within score bins, or the signs of whole clusters flipped."""

from __future__ import annotations

from collections.abc import Callable
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
        parts = parts[parts != 0]
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
    for b in np.flatnonzero(pooled.share[:, g] > 0).tolist():
        at = (rows.bin == b) & ((rows.group == g) | (rows.group == found.reference))
        u, y, w, mine = rows.score[at] - m.origin[b], rows.outcome[at], rows.mass[at], rows.group[at] == g
        others = [h for h in range(m.rows.shape[1]) if h not in (g, found.reference) and m.rows[b, h] > 0]
        along, across = _rest(m, b, others)
        total = np.array([w.sum(), (w * u).sum(), (w * y).sum(), (w * u * u).sum() + along, (w * u * y).sum() + across])
        picked = _picked(np.stack([w, w * u, w * y], axis=1), int(mine.sum()), draws, rng)
        one, pull = _gap(picked, total, scored=bool(found.lines.scored[b]))
        gap += pooled.share[b, g] * one
        square += pooled.share[b, g] ** 2 * spread[b] * pull
    sizes = np.divide(np.abs(gap), np.sqrt(square), out=np.zeros(draws), where=square > 0)
    return np.asarray(sizes)


def _rest(m: Moments, b: int, others: list[int]) -> tuple[float, float]:
    """What groups that stay where they are add to the slope of a bin: squares of the score, and products with the outcome."""
    s, mean = m.sums[b, others], np.nan_to_num(m.mean_offset[b, others])
    along = s[:, 2, 0] - mean * s[:, 1, 0]
    across = s[:, 1, 1] - mean * s[:, 0, 1] + m.slope[b, others] * along
    return float(along.sum()), float(across.sum())


def _gap(picked: Floats, total: Floats, *, scored: bool) -> tuple[Floats, Floats]:
    """The bin's gap, and its variance in units of the residuals', for every deal of the labels.

    `picked` are the weight, score and outcome of the group in each deal, `total` those of both groups, then squares and
    products of score and outcome over all.
    """
    n, u, y = picked.T
    m = total[0] - n
    ug, yg, ur, yr = u / n, y / n, (total[1] - u) / m, (total[2] - y) / m
    apart, along = ug - ur, total[3] - n * ug**2 - m * ur**2
    across = total[4] - n * ug * yg - m * ur * yr
    steep = scored & (along > FLAT * total[3])
    slope = np.divide(across, along, out=np.zeros_like(along), where=steep)
    lean = np.divide(apart, along, out=np.zeros_like(along), where=steep)
    return yg - yr - slope * apart, 1 / n + 1 / m + lean * apart


def _picked(columns: Floats, n: int, draws: int, rng: np.random.Generator) -> Floats:
    """Sums of the columns over n rows drawn without replacement, `draws` times."""
    size = len(columns)
    if 2 * n > size:
        return np.asarray(columns.sum(0) - _picked(columns, size - n, draws, rng))
    out = np.zeros((draws, columns.shape[1]))
    at_once = max(1, min(draws, MOST_NUMBERS // size))
    order = np.broadcast_to(np.arange(size, dtype=np.int32), (at_once, size)).copy()
    for start in range(0, draws, at_once):
        line = np.arange(min(at_once, draws - start))
        for k in range(n):  # the first n steps of a shuffle, for many shuffles at once
            j = rng.integers(k, size, len(line))
            taken = order[line, j]
            order[line, j] = order[line, k]
            order[line, k] = taken
            out[start : start + len(line)] += columns[taken]
    return out

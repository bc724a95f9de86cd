"""How large a pooled gap chance alone makes: labels permuted within score bins, or the signs of whole clusters flipped."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from evenhand.cards import Floats
from evenhand.intervals.kinds import MIN_CLUSTERS, ROUNDING
from evenhand.intervals.odds import SEED
from evenhand.labels import stream
from evenhand.metrics.outcome import Gaps
from evenhand.metrics.outcome_joint import Null, Pooled
from evenhand.tallies.candidates import Rows
from evenhand.tallies.clusters import FLIPPED
from evenhand.tallies.moments import Moments
from evenhand.tallies.ragged import Ints

DRAWS = 4_999


def with_null_draws(m: Moments, gaps: Gaps, pooled: Pooled, rows: Callable[[], Rows | None]) -> Pooled:
    """Pooled gaps with permutation or sign-flip draws where the normal does not apply.

    `rows` are read only if needed.
    """
    if pooled.by_cluster:
        return with_flipped_signs(pooled)
    needed = np.flatnonzero(pooled.few).tolist()
    row_data = rows() if needed else None
    if row_data is None:
        return pooled
    return replace(pooled, drawn={g: _permute_labels(m, gaps, pooled, g, row_data) for g in needed})


def with_flipped_signs(pooled: Pooled) -> Pooled:
    """Sign-flip draws of clusters' contributions; no test with few contributing clusters."""
    few, alike = pooled.few.copy(), dict[int, dict[int, Floats]]()
    for g, parts in pooled.by_cluster.items():
        if parts is None:
            continue
        parts = parts[np.abs(parts) > ROUNDING * np.abs(parts).max(initial=0.0)]  # what is left of rounding is no part
        if len(parts) < MIN_CLUSTERS:
            few[g] = True
        elif len(parts) <= FLIPPED:
            alike.setdefault(len(parts), {})[g] = parts
    drawn: dict[int, Floats] = {}
    for many, groups in alike.items():
        # Not as a product of matrices, which would be shared out between threads that wait for each other.
        bits, at_once = _sign_bits(1 << (many - 1).bit_length())[:, :many], max(1, (1 << 21) // many)
        blocks = (2.0 * bits[start : start + at_once] - 1 for start in range(0, DRAWS, at_once))
        sums = [[np.einsum("dc,c->d", signs, parts) for parts in groups.values()] for signs in blocks]
        for g, sizes in zip(groups, map(np.concatenate, zip(*sums, strict=True)), strict=True):
            drawn[g] = np.abs(sizes) / np.sqrt((groups[g] ** 2).sum())
    return replace(pooled, drawn=drawn, few=few)


@functools.lru_cache(maxsize=1)
def _sign_bits(many: int) -> np.typing.NDArray[np.int8]:
    """(draws, many) random bits shared by all groups and tables, which must not be written to."""
    bits = stream(SEED, "flips", many).integers(0, 2, (DRAWS, many), dtype=np.int8)
    bits.flags.writeable = False
    return bits


def _permute_labels(m: Moments, gaps: Gaps, pooled: Pooled, g: int, rows: Rows) -> Floats:
    """(draws,) studentised gap of one group with labels permuted within every bin."""
    null, draws = Null(m, gaps, g), DRAWS
    squares = np.maximum(null.residuals(0.0).sums[..., 0, 2].sum(-1), 0.0)
    spread = squares / np.maximum(m.rows.sum(-1) - gaps.lines.parameters + 1, 1)
    gap, square = np.zeros(draws), np.zeros(draws)
    rng = stream(SEED, "permuted", int(pooled.rows[g]))
    both = np.flatnonzero((rows.group == g) | (rows.group == gaps.reference))
    place, weight = rows.bin[both], rows.mass
    along, across = _other_products(m, [h for h in range(m.rows.shape[1]) if h not in (g, gaps.reference)])
    for b in np.flatnonzero(pooled.share[:, g] > 0).tolist():
        at = both[place == b]
        w, n = weight[at], int((rows.group[at] == g).sum())
        size = w.sum()
        u, y = (x - (w * x).sum() / size for x in (rows.score[at], rows.outcome[at]))
        sums = np.stack([w * u, w * y, w][: 2 if rows.weight is None else 3], axis=1)
        picked = _random_sums(sums, n, draws, rng).T
        mass = float(n) if rows.weight is None else picked[2]
        ease, total = 1 / mass + 1 / (size - mass), ((w * u * u).sum() + along[b], (w * u * y).sum() + across[b])
        bin_gap, pull = _bin_gap(ease, picked[0], picked[1], total, scored=bool(gaps.lines.scored[b]))
        gap += pooled.share[b, g] * bin_gap
        square += pooled.share[b, g] ** 2 * spread[b] * pull
    sizes = np.divide(np.abs(gap), np.sqrt(square), out=np.zeros(draws), where=square > 0)
    return np.asarray(sizes)


def _other_products(m: Moments, others: list[int]) -> tuple[Floats, Floats]:
    """Cross-products of the other groups in each bin: score squared, score times outcome."""
    s, mean = m.sums[:, others], np.nan_to_num(m.mean_offset[:, others])
    along = s[..., 2, 0] - mean * s[..., 1, 0]
    across = s[..., 1, 1] - mean * s[..., 0, 1] + m.slope[:, others] * along
    return along.sum(-1), across.sum(-1)


def _bin_gap(
    ease: Floats | float, u: Floats, y: Floats, total: tuple[float, float], *, scored: bool
) -> tuple[Floats, Floats]:
    """Gap of a bin, and its variance in units of the residual variance, per permutation.

    `u` and `y` are the group's sums of score and outcome, measured from the means of both groups; `ease` what the two weights
    1/n + 1/m make of them; `total` the squares of the score, and its products with the outcome, over all.
    """
    shift = ease * u
    along = total[0] - shift * u
    steep = scored & (along > ROUNDING * total[0])
    slope = np.divide(total[1] - shift * y, along, out=np.zeros_like(along), where=steep)
    lean = np.divide(shift, along, out=np.zeros_like(along), where=steep)
    return ease * y - slope * shift, ease + lean * shift


def _random_sums(columns: Floats, n: int, draws: int, rng: np.random.Generator) -> Floats:
    """(draws, columns) sums of the columns over n rows drawn without replacement."""
    size = len(columns)
    if 2 * n > size:
        return np.asarray(columns.sum(0) - _random_sums(columns, size - n, draws, rng))
    out = np.zeros((draws, columns.shape[1]))
    at_once = max(1, min(draws, (1 << 22) // size))
    order = np.repeat(np.arange(size, dtype=np.min_scalar_type(size)), at_once)  # a shuffle is a column of this table
    places = order.reshape(size, at_once)
    for start in range(0, draws, at_once):
        line = np.arange(min(at_once, draws - start))
        total = out[start : start + len(line)]
        for k, at in enumerate(_fisher_yates_steps(n, size, len(line), rng)):  # of many shuffles at once
            at *= at_once
            at += line
            taken = order.take(at)
            order[at] = places[k, : len(line)]
            places[k, : len(line)] = taken
            total += columns.take(taken, axis=0)
    return out


def _fisher_yates_steps(n: int, size: int, many: int, rng: np.random.Generator) -> Iterator[Ints]:
    """The first n Fisher-Yates steps; digits of one random number serve several steps."""
    per_number = max(1, int(62 / math.log2(max(size, 2))))  # digits that fit into an int64
    for start in range(0, n, per_number):
        left = range(size - start, size - min(start + per_number, n), -1)  # places that each step may go to
        number = rng.integers(0, math.prod(left), many)
        for places in left:
            rest = number // places
            number -= rest * places
            number += size - places
            yield number
            number = rest

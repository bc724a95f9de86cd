"""From scores to a crosstab of user groups by items, a block of users at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenhand.cards import Floats
from evenhand.tallies.crosstab import MARKS, Crosstab, UserBlock, scale_of, tabulate
from evenhand.tallies.replicates import Replicates, Weights
from evenhand.tallies.shown import Cut, Ints, Ragged
from evenhand.views.scores import BLOCK_CELLS, Rows, Scores

DRAWS_AT_ONCE = 32
"""Draws whose sums over users are made together, before they are added to those of other users."""

EXACT_STEPS = 4_000_000
"""Users and items, each squared, up to which the chance of lists among missing scores is exact."""
MOST_DEALS = 2_000
DEALT_CELLS = 2_000_000
"""How often lists are filled at random where scores are missing, and how many scores that may go over in all."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How scores become "shown" and truth becomes "relevant".

    `normalize` brings both to [0, 1] first, by the range of both or, with `alone`, of the scores; `fill` shows missing items
    too, as if they scored lowest (holisticai does);
    `listed` means that every row is shown as it stands.
    """

    shown: Cut
    true: Cut
    normalize: bool = False
    alone: bool = False
    fill: bool = False
    listed: bool = False

    @property
    def shows(self) -> bool:
        """Whether it is said what is shown."""
        return self.listed or self.shown.given


@dataclass(frozen=True, slots=True)
class Tabulation:
    """The crosstab, its replicates, how many users had a tie at the last slot, and how many slots there are."""

    total: Crosstab
    replicates: tuple[Replicates, ...]
    tied: int
    slots: float


def user_blocks(view: Scores, reading: Reading) -> Iterator[tuple[int, UserBlock]]:
    """What every user is shown, in order; each block comes with the number of its first user."""
    offset, width = scale(view, reading)

    def ready(cells: Floats | Rows) -> Ragged:
        rows = Ragged(*cells).there() if isinstance(cells, Rows) else Ragged.of(cells)
        return Ragged(rows.starts, rows.items, (rows.values - offset) / width) if reading.normalize else rows

    for block in view.blocks():
        scores, truth = ready(block.scores), None if block.truth is None else ready(block.truth)
        for start, stop in _runs(len(scores.starts) - 1, view.items) if reading.fill else [(0, len(scores.starts) - 1)]:
            if reading.fill:
                part = scores.filled(start, stop, view.items)
                true = None if truth is None else truth.filled(start, stop, view.items)
            else:
                part, true = scores, truth
            yield block.first + start, tabulate(part, true, reading.shown, reading.true, view.items)


def scale(view: Scores, reading: Reading) -> tuple[float, float]:
    """Offset and width that the reading takes scores and truth by: the range of both together, or of the scores alone."""
    both = [f for f in (view.facts, None if reading.alone else view.truth_facts) if f is not None and f.cells]
    return scale_of(min(f.low for f in both), max(f.high for f in both)) if reading.normalize and both else (0.0, 1.0)


def _runs(users: int, items: int) -> Iterator[tuple[int, int]]:
    """Runs of users whose whole rows fit into memory."""
    step = max(1, BLOCK_CELLS // max(1, items))
    return ((start, min(start + step, users)) for start in range(0, users, step))


def tabulation(view: Scores, reading: Reading, codes: Ints, groups: int, plans: Sequence[Weights] = ()) -> Tabulation:
    """Add up what was shown to whom, and again under the weights of each plan, in one pass over the scores."""
    items = view.items
    counts, shares, marks = np.zeros(groups * items), np.zeros(items), np.zeros((groups, len(MARKS)))
    tied, judged = 0, False
    lengths: Floats | None = np.zeros(1) if _open(view, reading) else None
    gaps = lengths is None and reading.shows
    odds: list[Floats] | None = [] if gaps and view.users**2 * items**2 <= EXACT_STEPS else None
    deals = min(MOST_DEALS, DEALT_CELLS // max(1, view.facts.cells)) if gaps and odds is None else 0
    dealt: Floats | None = np.zeros((deals, items)) if deals else None
    lots = np.random.default_rng(0)  # the level by chance has no seed of its own to ask for
    sums = [_Sums(plan, items, float(reading.shown.top or 1)) for plan in plans]
    for first, part in user_blocks(view, reading):
        here = codes[first : first + len(part.marks)]
        judged, tied = part.judged, tied + int(part.tied.sum())
        shown = part.shown
        counts += np.bincount(here[shown.rows] * items + shown.items, shown.values, groups * items)
        shares += np.bincount(shown.items, part.shares, items)
        lengths = None if lengths is None else _longer(lengths, part.lengths())
        if odds is not None:
            odds = [*odds, part.odds()] if part.whole else None
        if dealt is not None:
            dealt = dealt + part.dealt(lots, deals) if part.whole else None
        marks += np.stack([np.bincount(here, column, groups) for column in part.marks.T], axis=1)
        for one in sums:
            one.add(first, here, part)
    exact = np.concatenate(odds) if odds else None
    total = Crosstab(counts.reshape(groups, items), shares, marks, None, judged, reading.shows, lengths, dealt, exact)
    return Tabulation(total, tuple(one.replicates() for one in sums), tied, float(counts.sum()))


def _open(view: Scores, reading: Reading) -> bool:
    """Whether any item could have been shown to any user: no score is missing, or there are none."""
    return reading.listed or reading.fill or view.facts.cells == view.users * view.items


def _longer(held: Floats, more: Floats | None) -> Floats | None:
    if more is None:
        return None
    size = max(len(held), len(more))
    return np.asarray(np.pad(held, (0, size - len(held))) + np.pad(more, (0, size - len(more))))


class _Sums:
    """Running sums of replicates: a sparse product per block of users, so that no draw goes over the users again."""

    def __init__(self, plan: Weights, items: int, usual: float) -> None:
        self.plan, self.items, self.usual = plan, items, usual
        self.counts = np.zeros((len(plan.rows) * items, plan.draws), dtype=np.float32)
        self.odd: npt.NDArray[np.float32] | None = None
        self.marks = np.zeros((len(plan.rows), plan.draws, len(MARKS)))
        self.all, self.all_marks = np.zeros(items), np.zeros(len(MARKS))

    def add(self, first: int, codes: Ints, part: UserBlock) -> None:
        shown = part.shown
        for place, weights in self.plan.of_users(first, codes):
            if isinstance(place, int) and place == self.plan.rest:
                here = weights[:, 0].astype(np.float64)
                self.all += np.bincount(shown.items, shown.values * here[shown.rows], self.items)
                self.all_marks += here @ part.marks
                continue
            if isinstance(place, int):
                at = slice(place * self.items, (place + 1) * self.items)
                _add_product(self.counts[at], shown, shown.items, shown.values, weights)
                self.marks[place] += weights.T.astype(np.float64) @ part.marks
                continue
            _add_product(self.counts, shown, place[shown.rows] * self.items + shown.items, shown.values, weights)
            for i in range(len(self.marks)):
                own = place == i
                self.marks[i] += weights[own].T.astype(np.float64) @ part.marks[own]
            self._add_odd(part, weights)

    def _add_odd(self, part: UserBlock, weights: npt.NDArray[np.float32]) -> None:
        """Where users have another number of slots than most, an item's share of them is not times shown / `usual`."""
        off = part.shares - part.shown.values / self.usual
        odd = part.shown.where(np.abs(off) > 1e-12, off)
        if len(odd.values):
            if self.odd is None:
                self.odd = np.zeros((self.items, weights.shape[1]), dtype=np.float32)
            _add_product(self.odd, odd, odd.items, odd.values, weights)

    def replicates(self) -> Replicates:
        counts, rest = self.counts.reshape(len(self.plan.rows), self.items, self.plan.draws), self.plan.rest
        if rest is not None:
            others = [i for i in range(len(counts)) if i != rest]
            counts[rest] = self.all[:, None]
            for i in others:
                counts[rest] -= counts[i]
            np.maximum(counts[rest], 0.0, out=counts[rest])  # parts of a slot do not add up to the last digit
            self.marks[rest] = self.all_marks - self.marks[others].sum(0)
        return Replicates(self.plan.rows, counts, self.odd, self.marks, self.usual)


def _add_product(
    into: npt.NDArray[np.float32], shown: Ragged, at: Ints, cells: Floats, weights: npt.NDArray[np.float32]
) -> None:
    """Add the sum over users of what they were shown times their weights, (size, D), a few draws at a time."""
    from scipy.sparse import csc_array

    matrix = csc_array((cells.astype(np.float32), at, shown.starts), shape=(len(into), len(weights)))
    for start in range(0, weights.shape[1], DRAWS_AT_ONCE):
        some = slice(start, start + DRAWS_AT_ONCE)
        into[:, some] += matrix @ np.ascontiguousarray(weights[:, some])

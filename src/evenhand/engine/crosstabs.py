"""From scores to a crosstab of user groups by items, a block of users at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenhand.cards import Floats
from evenhand.tallies.crosstab import MARKS, Crosstab, UserBlock, scale_of, tabulate
from evenhand.tallies.replicates import Audience, Replicates, Weights
from evenhand.tallies.shown import Cut, Ints, Ragged
from evenhand.views.scores import BLOCK_CELLS, Rows, Scores

MOST_OFFERED = 2_000_000
"""Scores that are kept, where some are missing, for what lists filled with them at random would give."""


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
    """The crosstab, what it was made of, how many users had a tie at the last slot, and how many slots there are."""

    total: Crosstab
    audience: Audience
    usual: float
    tied: int
    slots: float

    def under(self, plan: Weights) -> Replicates:
        """The same users, counted as the plan says."""
        return Replicates(((self.audience, plan),), self.usual)


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


def tabulation(view: Scores, reading: Reading, codes: Ints, groups: int) -> Tabulation:
    """Add up what was shown to whom, in one pass over the scores."""
    items = view.items
    counts, shares, marks = np.zeros(groups * items), np.zeros(items), np.zeros((groups, len(MARKS)))
    tied, judged = 0, False
    lengths: Floats | None = np.zeros(1) if _open(view, reading) else None
    gaps = lengths is None and reading.shows and view.facts.cells <= MOST_OFFERED
    odds: list[Ragged] | None = [] if gaps else None
    audience: list[Audience] = []
    for first, part in user_blocks(view, reading):
        here = codes[first : first + len(part.marks)]
        judged, tied = part.judged, tied + int(part.tied.sum())
        shown = part.shown
        counts += np.bincount(here[shown.rows] * items + shown.items, shown.values, groups * items)
        shares += np.bincount(shown.items, part.shares, items)
        lengths = None if lengths is None else _longer(lengths, part.lengths())
        if odds is not None:
            odds = [*odds, part.odds()] if part.whole else None
        for column, own in enumerate(part.marks.T):
            marks[:, column] += np.bincount(here, own, groups)
        audience.append(Audience.of(part if reading.shows else part.unshown()))
    kept = Ragged.joined(odds) if odds else None
    total = Crosstab(counts.reshape(groups, items), shares, marks, None, judged, reading.shows, lengths, kept)
    return Tabulation(total, Audience.joined(audience), float(reading.shown.top or 1), tied, float(counts.sum()))


def _open(view: Scores, reading: Reading) -> bool:
    """Whether any item could have been shown to any user: no score is missing, or there are none."""
    return reading.listed or reading.fill or view.facts.cells == view.users * view.items


def _longer(held: Floats, more: Floats | None) -> Floats | None:
    if more is None:
        return None
    size = max(len(held), len(more))
    return np.asarray(np.pad(held, (0, size - len(held))) + np.pad(more, (0, size - len(more))))

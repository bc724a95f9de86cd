"""From scores to a crosstab of user groups by items, a block of users at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenhand.cards import Floats
from evenhand.engine.cuts import blocks_apart, filled, lives_apart
from evenhand.tallies.audience import Audience
from evenhand.tallies.crosstab import Crosstab, Sums, UserBlock, scale_of, settled, tabulate
from evenhand.tallies.replicates import Replicates, Weights
from evenhand.tallies.shown import Cut, Ints, Ragged
from evenhand.views.scores import Rows, Scores, Thinning

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

    @property
    def thinning(self) -> Thinning | None:
        """Which scores are wanted of a table with many of them; none where others matter too, or which are is not known yet."""
        return Thinning(self.shown.may_show, MOST_OFFERED) if self.shown.given and not self.normalize else None


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
        shown = self.audience if self.total.cut else self.audience.shown_nothing()
        return Replicates(((shown, plan),), self.usual)


def user_blocks(view: Scores, reading: Reading, *, offered: bool = False) -> Iterator[tuple[int, UserBlock]]:
    """What every user is shown, in order; each block comes with the number of its first user.

    With `offered`, what users have a score for is told as well; scores that live apart are told of no further than asked.
    """
    offset, width = scale(view, reading)
    if lives_apart(view):
        scaled, shows = (offset, width) if reading.normalize else None, reading.shows
        yield from blocks_apart(
            view, reading.shown, reading.true, scaled, shows=shows, offered=offered, fill=reading.fill
        )
        return

    def ready(cells: Floats | Rows) -> Ragged:
        rows = Ragged(*cells).there() if isinstance(cells, Rows) else Ragged.of(cells)
        return Ragged(rows.starts, rows.items, (rows.values - offset) / width) if reading.normalize else rows

    for block in view.blocks():
        scores, truth = ready(block.scores), None if block.truth is None else ready(block.truth)
        if block.sums is not None:
            yield block.first, settled(scores, None, reading.shown, Sums(*block.sums), view.items)
            continue
        if reading.fill:
            scores = filled(scores, reading.shown, view.items)
            truth = None if truth is None else filled(truth, reading.true, view.items)
        yield block.first, tabulate(scores, truth, reading.shown, reading.true, view.items)


def scale(view: Scores, reading: Reading) -> tuple[float, float]:
    """Offset and width that the reading takes scores and truth by: the range of both together, or of the scores alone."""
    both = [f for f in (view.facts, None if reading.alone else view.truth_facts) if f is not None and f.cells]
    return scale_of(min(f.low for f in both), max(f.high for f in both)) if reading.normalize and both else (0.0, 1.0)


def tabulation(view: Scores, reading: Reading, codes: Ints, groups: int) -> Tabulation:
    """Add up what was shown to whom, in one pass over the scores."""
    tied, judged, everywhere = 0, False, _open(view, reading)
    gaps = not everywhere and reading.shows and view.facts.cells <= MOST_OFFERED
    odds: list[Ragged] | None = [] if gaps else None
    parts: list[Audience] = []
    for _, part in user_blocks(view, reading, offered=gaps):
        judged, tied = part.judged, tied + int(part.tied.sum())
        if odds is not None:
            odds = [*odds, part.odds()] if part.shown.whole else None
        parts.append(part.audience())
    audience = Audience.joined(parts)
    total = Crosstab.summed(audience, codes, groups, view.items, cut=reading.shows, everywhere=everywhere)
    total = replace(total, judged=judged, odds=Ragged.joined(odds) if odds else None)
    slots = total.counts if reading.shows else total.mark("cells")
    return Tabulation(total, audience, audience.usual, tied, float(slots.sum()))


def _open(view: Scores, reading: Reading) -> bool:
    """Whether any item could have been shown to any user: no score is missing, or there are none."""
    return reading.listed or reading.fill or view.facts.cells == view.users * view.items

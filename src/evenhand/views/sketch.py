"""What one pass over scores, outcomes and groups tells before anything is known of them: ends, sums, and scores by part.

Scores are counted in parts of a range that the first rows suggest. The counts are exact whatever these rows are like: only how
many rows share a part with a wanted rank, and must be looked at one by one, depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.views.tables import in_batches, to_polars

Ints = np.typing.NDArray[np.int64]

PARTS = 1 << 13
PILOT = 1 << 16
"""Rows that suggest the range."""

TAIL = 5e-4
"""Share of these rows that may lie beyond it on either side, in the outermost parts."""

MOST_GROUPS = 64
STRIDE, MOST_KEPT = 128, 1 << 18
"""Every so manieth score is kept beside the counts, for a better range where the first rows are not like the others."""

FEW_LABELS = 20
"""Up to so many labels, comparing with one after another is faster than looking them up."""


@dataclass(frozen=True)
class Ruler:
    """Which part of a range a score lies in: never decreasing in the score, and scores beyond are in the outermost parts.

    Attributes
    ----------
    start : the low end. scale : parts per unit of the score, or None where parts grow with the distance from `start`: then
        `shift` and `first` say which bits of that number are the part.
    """

    start: float
    scale: float | None = None
    shift: int = 0
    first: int = 0

    @classmethod
    def of(cls, scores: Floats, *, whole: bool) -> Ruler:
        """Equal or growing parts, whichever leaves fewer of these rows together; a part for each number, if `whole` and few."""
        least = float(scores.min())
        low, high = np.quantile(scores, [TAIL, 1 - TAIL]).tolist()
        if whole and high - low < PARTS / 2 and abs(low) < 2**52:
            return cls(float(round((low + high - PARTS) / 2)), 1.0)
        with np.errstate(over="ignore", divide="ignore"):
            scale = float(np.float64(PARTS) / (np.float64(high) - low))
            near, far = np.maximum(np.array([low, high]) - least, 0.0).view(np.int64).tolist()
        shift = ((far - near) // PARTS).bit_length()
        rulers = [cls(low, scale if math.isfinite(scale) else 1.0), cls(least, None, shift, near >> shift)]
        return min(rulers, key=lambda one: float((np.bincount(one.part(scores)).astype(np.float64) ** 2).sum()))

    def part(self, scores: Floats) -> np.typing.NDArray[np.int32]:
        with np.errstate(over="ignore", invalid="ignore"):
            away = scores - self.start
            if self.scale is not None:
                away *= self.scale
                return np.clip(away, 0, PARTS - 1, out=away).astype(np.int32)
        bits = np.maximum(away, 0.0, out=away).view(np.int64)  # of numbers from zero on, in their order
        bits >>= self.shift
        bits -= self.first
        return np.clip(bits, 0, PARTS - 1, out=bits).astype(np.int32)


@dataclass
class Facts:
    """What all rows together say: how many there are, the ends of scores and of outcomes, and their sums."""

    rows: int = 0
    low: float = math.inf
    high: float = -math.inf
    outcome_low: float = math.inf
    outcome_high: float = -math.inf
    sums: list[tuple[float, float]] = field(default_factory=list)

    def add(self, score: Floats, outcome: Floats) -> bool:
        """More rows; false where a number among them is none."""
        self.rows += len(score)
        self.low, self.high = min(self.low, score.min()), max(self.high, score.max())
        self.outcome_low = min(self.outcome_low, outcome.min())
        self.outcome_high = max(self.outcome_high, outcome.max())
        self.sums.append((float(score.sum()), float(outcome.sum())))
        return all(map(math.isfinite, self.sums[-1]))

    def frame(self) -> Any:
        """The facts as a table of one row; every row counts, and weighs one."""
        import polars as pl

        score_sum, outcome_sum = map(math.fsum, zip(*self.sums, strict=True))
        ends = {name: float(getattr(self, name)) for name in ("low", "high", "outcome_low", "outcome_high")}
        rows = dict.fromkeys(("rows", "used", "mass"), self.rows)
        return pl.DataFrame({**rows, **ends, "score_sum": score_sum, "outcome_sum": outcome_sum})


@dataclass(frozen=True)
class Sketch:
    """How many scores lie in each part, and which groups there are.

    Attributes
    ----------
    counts : rows by part. labels, used, low, high : the groups, their rows and the ends of their scores.
    sample : scores from all over the table. whole : whether all are whole numbers.
    values, rows : the scores of some parts, in order, and how many rows have each. looked : whether anybody has looked there.
    """

    ruler: Ruler
    counts: Ints
    labels: tuple[Any, ...]
    used: Ints
    low: Floats
    high: Floats
    sample: Floats
    whole: bool
    values: Floats = field(default_factory=lambda: np.zeros(0))
    rows: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    looked: bool = False

    def again(self, lazy: nw.LazyFrame[Any]) -> Sketch:
        """The same in a range that rows from all over the table suggest."""
        ruler, counts = Ruler.of(self.sample, whole=self.whole), np.zeros(PARTS, dtype=np.int64)
        for batch in in_batches(lazy.select("score")):
            counts += np.bincount(ruler.part(batch["score"].to_numpy()), minlength=PARTS)
        return replace(self, ruler=ruler, counts=counts)


@dataclass
class _Counting:
    """A sketch that grows: parts of groups are counted apart, for the ends of a group are in its outermost parts."""

    ruler: Ruler
    labels: list[Any]
    counts: Ints = field(init=False)
    low: list[float] = field(init=False)
    high: list[float] = field(init=False)
    kept: list[Floats] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts = np.zeros((len(self.labels), PARTS), dtype=np.int64)
        self.low, self.high = [math.inf] * len(self.labels), [-math.inf] * len(self.labels)

    def add(self, score: Floats, code: Any) -> None:
        """Count more rows, which have these codes of groups."""
        size, place = len(self.labels), self.ruler.part(score)
        place += code * np.int32(PARTS)
        counts = np.bincount(place, minlength=size * PARTS).reshape(size, PARTS)
        self.counts += counts
        for g in np.flatnonzero(counts.any(1)).tolist():
            first, last = outermost(counts[g])
            self.low[g] = min(self.low[g], score[place == g * PARTS + first].min())
            self.high[g] = max(self.high[g], score[place == g * PARTS + last].max())
        self.kept.append(score[::STRIDE].copy())
        if sum(map(len, self.kept)) > MOST_KEPT:
            self.kept = [np.concatenate(self.kept)[::2]]

    def welcome(self, labels: Sequence[Any]) -> None:
        """More groups, of which no row was counted yet."""
        self.labels += labels
        self.low += [math.inf] * len(labels)
        self.high += [-math.inf] * len(labels)
        self.counts = np.concatenate([self.counts, np.zeros((len(labels), PARTS), dtype=np.int64)])

    def sketch(self, *, whole: bool) -> Sketch:
        ends = np.array(self.low), np.array(self.high)
        used, sample = self.counts.sum(1), np.concatenate(self.kept)
        return Sketch(self.ruler, self.counts.sum(0), tuple(self.labels), used, *ends, sample, whole)


def outermost(counts: Ints) -> tuple[int, int]:
    """The first and the last part that hold a row."""
    held = counts > 0
    return int(held.argmax()), len(held) - 1 - int(held[::-1].argmax())


def _code(labels: Sequence[Any]) -> Any:
    """The place of a row's group among the labels, -1 where it is none of them."""
    import polars as pl

    group = pl.col("group")
    if len(labels) > FEW_LABELS:
        places = list(range(len(labels)))
        return group.replace_strict(list(labels), places, default=-1, return_dtype=pl.Int8)
    found = pl.lit(-1, dtype=pl.Int8)
    for i, label in enumerate(labels):
        same = group.is_null() if label is None else group == label
        found = pl.when(same).then(pl.lit(i, dtype=pl.Int8)).otherwise(found)
    return found


def sketched(lazy: nw.LazyFrame[Any], columns: Sequence[str], *, whole: bool) -> tuple[Any, Sketch | None] | None:
    """Facts of a Polars table and, where it is long, a sketch; None where one of these columns lacks a value or holds NaN.

    There is no sketch of a table with very many groups either. `whole` : whether all scores are whole numbers.
    """
    facts, counting = Facts(), None
    chosen = lazy.select("group", *columns)
    first = to_polars(chosen.head(PILOT))
    batches: Any = [first]
    labels = first["group"].unique().to_list()
    if first.height == PILOT and not any(first[name].null_count() for name in columns):
        if len(labels) <= MOST_GROUPS and np.isfinite(first["score"].sum()):
            counting = _Counting(Ruler.of(first["score"].to_numpy(), whole=whole), labels)
            chosen = nw.from_native(chosen.to_native().with_columns(_code(labels).alias("code")))
        batches = in_batches(chosen)
    for batch in batches:
        if any(batch[name].null_count() for name in columns):
            return None
        if batch.is_empty():
            continue
        score, outcome = (batch[name].to_numpy() for name in ("score", "outcome"))
        if not facts.add(score, outcome):
            return None
        if counting is not None and not _count(counting, batch):
            counting = None
    return (facts.frame(), None if counting is None else counting.sketch(whole=whole)) if facts.rows else None


def _count(counting: _Counting, batch: Any) -> bool:
    """Count rows, also those of groups that were not heard of before; false where these are too many."""
    code = batch["code"].to_numpy()
    if code.min() < 0:
        known = len(counting.labels)
        code = batch.select(_code(counting.labels)).to_series().to_numpy()
        new = batch["group"].filter(code < 0).unique().to_list()
        if known + len(new) > MOST_GROUPS:
            return False
        counting.welcome(new)
        code = batch.select(_code(counting.labels)).to_series().to_numpy()
    counting.add(batch["score"].to_numpy(), code)
    return True

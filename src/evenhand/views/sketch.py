"""What one pass over scores, outcomes and groups tells before anything is known of them: ends, and sums by part of the scores.

Scores are counted in parts of a range that the first rows suggest. Where a bin of the scores will end is not known yet, only
about where: rows around there are kept one by one, the fewer the more rows have been seen. All sums are exact whatever the
first rows are like: only whether the rows that share a part with an edge were kept, or must be read again, depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np

from evenhand.cards import Floats
from evenhand.views.rulers import PARTS, Ruler
from evenhand.views.tables import in_batches, to_polars

Ints = np.typing.NDArray[np.int64]
Bools = np.typing.NDArray[np.bool_]

PILOT = 1 << 16
"""Rows that suggest the range."""

STRIDE = 1 << 5
"""Every so manieth row suggests it where the first rows are not like the others."""

BEYOND = 1 / 8
"""Share of the rows beyond the range from which on it is the wrong one."""

MARGIN = 3.0
"""Square roots of the number of rows that a rank may yet move by, while rows come in no order: six standard deviations. Half as
much where they are from all over the table."""

AHEAD = 64
"""Every so manieth row of a batch goes before the others."""

AGAIN = 1.2
"""Growth of the rows that were counted at which they are asked again where edges may be."""

MOST_KEPT = 1 << 22
"""Rows that are kept one by one."""

MOST_GROUPS = 64
MOST_GRADES = 4
"""Outcomes of so few different whole numbers are counted apart, not multiplied: their powers need no sums of their own."""

FEW_LABELS = 20
"""Up to so many labels, comparing with one after another is faster than looking them up."""

POWERS = tuple((i, j) for j in range(3) for i in range(5 - j))


@dataclass(frozen=True)
class Wish:
    """What will be asked of the scores: their quantiles at these shares, and who lies on which side of these edges."""

    shares: Sequence[Fraction] = ()
    edges: Sequence[float] = ()


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
class Kept:
    """Rows one by one: scores, outcomes, and places of their groups among the labels."""

    score: Floats
    outcome: Floats
    code: Any

    @classmethod
    def joined(cls, rows: Iterable[Kept]) -> Kept:
        parts = list(rows) or [cls(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int8))]
        columns = zip(*((one.score, one.outcome, one.code) for one in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    def at(self, where: Any) -> Kept:
        return Kept(self.score[where], self.outcome[where], self.code[where])


@dataclass(frozen=True)
class Places:
    """Where a score is counted: in its part, or beside it, where it is the one score of the part that many rows have."""

    ruler: Ruler
    modes: Floats | None

    @classmethod
    def of(cls, scores: Floats, *, whole: bool) -> Places:
        """Places that these rows suggest."""
        ruler = Ruler.of(scores, whole=whole)
        modes = ruler.modes(scores)
        return cls(ruler, None if np.isnan(modes).all() else modes)

    @property
    def many(self) -> int:
        return PARTS if self.modes is None else 2 * PARTS

    def of_scores(self, scores: Floats) -> Any:
        part = self.ruler.part(scores).astype(np.intp)  # once, for all that looks up by it
        if self.modes is None:
            return part
        same = scores == self.modes.take(part)
        part += part
        part += same
        return part

    def origins(self) -> Floats:
        """A score close to all that are counted in each place."""
        if self.modes is None:
            return self.ruler.starts()
        return np.stack([self.ruler.starts(), np.nan_to_num(self.modes)], axis=1).ravel()

    def loose(self, parts: Bools) -> Bools:
        """Of places, those in these parts that are not of one score."""
        return parts if self.modes is None else np.stack([parts, np.zeros_like(parts)], axis=1).ravel()

    def joined(self, of_places: Any) -> Any:
        """Numbers by place added up by part."""
        return of_places if self.modes is None else of_places[0::2] + of_places[1::2]


@dataclass(frozen=True)
class Sketch:
    """Sums of scores and outcomes by place and group, and rows one by one where an edge may be.

    Attributes
    ----------
    labels : the groups.
    sums : (places, groups, 5, 3) sums of u^i v^j as in `Moments`; u is the score from the place's origin, v the outcome from `level`.
    low, high : (places, groups) the ends of the scores; inf and -inf where there is no row.
    above, below : (places, groups) rows whose outcome lies above the smallest, below the largest of all.
    window : (parts,) whether all rows of the part are among those that were `kept`.
    values, rows : scores of some parts, in order, and how many rows have each. looked : the parts that these are all scores of.
    """

    places: Places
    labels: tuple[Any, ...]
    level: float
    sums: Floats
    low: Floats
    high: Floats
    above: Floats
    below: Floats
    window: Bools
    kept: Kept
    values: Floats = field(default_factory=lambda: np.zeros(0))
    rows: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    looked: Bools | None = None

    @property
    def counts(self) -> Ints:
        """Rows by part."""
        return np.asarray(self.places.joined(self.sums[..., 0, 0].sum(1)), dtype=np.int64)

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The ends of the scores of each group."""
        return self.low.min(0), self.high.max(0)

    def regrouped(self, labels: Sequence[Any], order: Sequence[Any] | None = None) -> Sketch:
        """The groups by other labels, in this order; those of one label are one."""
        order = list(dict.fromkeys(labels)) if order is None else order
        to = np.array([order.index(label) for label in labels])
        first = np.array([np.flatnonzero(to == g)[0] for g in range(len(order))])
        columns = {name: getattr(self, name)[:, first].copy() for name in ("sums", "low", "high", "above", "below")}
        for g in set(range(len(to))) - set(first.tolist()):
            for name in ("sums", "above", "below"):
                columns[name][:, to[g]] += getattr(self, name)[:, g]
            np.minimum(columns["low"][:, to[g]], self.low[:, g], out=columns["low"][:, to[g]])
            np.maximum(columns["high"][:, to[g]], self.high[:, g], out=columns["high"][:, to[g]])
        return replace(self, labels=tuple(order), kept=replace(self.kept, code=to[self.kept.code]), **columns)

    def wanted(self, wish: Wish) -> Bools:
        """The parts of which every row must be known to fulfil a wish."""
        return _wanted(self.places.ruler, self.counts, *self.ends, wish)

    def keeping(self, lazy: nw.LazyFrame[Any], parts: Bools) -> Sketch | None:
        """The same with all rows of these parts, read again where they were not kept; None where they are too many."""
        loose = self.places.loose(parts)
        if not (parts & ~self.window).any():
            kept = self.kept.at(loose[self.places.of_scores(self.kept.score)])
            return replace(self, window=parts, kept=kept)
        if self.sums[loose, :, 0, 0].sum() > MOST_KEPT:
            return None
        rows = []
        for batch in in_batches(_coded(lazy.select("group", "score", "outcome"), self.labels)):
            one = _rows_of(batch)
            rows.append(one.at(np.flatnonzero(loose.take(self.places.of_scores(one.score)))))
        return replace(self, window=parts, kept=Kept.joined(rows))


def _wanted(ruler: Ruler, counts: Ints, lows: Floats, highs: Floats, wish: Wish, margin: float = 0.0) -> Bools:
    """Parts that may hold one of the quantiles, of all rows or of the common support, or one of the edges; and those in which
    the common support begins and ends, if it does not where all scores do.

    `margin` : ranks that more rows may move a quantile by, which may also widen the common support; nothing, where these are all.
    """
    reach, wanted = np.cumsum(counts), np.zeros(len(counts), dtype=bool)
    wanted[ruler.part(np.array(wish.edges, dtype=np.float64))] = True
    low, high, total = lows.max(), highs.min(), int(reach[-1])
    scopes = [((0, total), (0, total))]
    if low <= high:
        one, before, other = ruler.part(np.array([low, np.nextafter(low, -np.inf), high])).tolist()
        firsts, lasts = [0, 0], [total, total]
        if margin:
            wanted[: one + 1] = wanted[other:] = True
            firsts, lasts = [0, int(reach[one])], [int(reach[other] - counts[other]), total]
        if low > lows.min():
            wanted[[before, one]], firsts = True, [0 if margin else int(reach[one] - counts[one]), int(reach[one])]
        if high < highs.max():
            wanted[other], lasts = True, [int(reach[other] - counts[other]), total if margin else int(reach[other])]
        scopes.append(((firsts[0], lasts[0]), (firsts[1], lasts[1])))
    elif margin:
        wanted[:] = True
    for share in wish.shares:
        for scope in scopes:
            ranks = [first + math.ceil(share * max(last - first, 1)) for first, last in scope]
            ends = np.clip([min(ranks) - margin, max(ranks) + margin], 1, total)
            first, last = np.searchsorted(reach, ends)
            wanted[first : last + 1] = True
    return wanted


@dataclass
class _Counting:
    """A sketch that grows.

    Attributes
    ----------
    level : what outcomes are measured from. grades : how many outcomes from `level` on, each one more than the last, are
        counted apart; 0 where they are multiplied.
    window : parts whose rows were all kept so far. moving : whether it narrows as rows come.
    least, most : outcomes, and how many rows have them, where they are multiplied.
    """

    places: Places
    labels: list[Any]
    wish: Wish
    level: float
    grades: int
    window: Bools
    moving: bool
    sums: Floats = field(init=False)
    low: Floats = field(init=False)
    high: Floats = field(init=False)
    least: _Extreme = field(init=False)
    most: _Extreme = field(init=False)
    kept: list[Kept] = field(default_factory=list)
    keeping: int = 0
    rows: int = 0
    judged: int = 0

    def __post_init__(self) -> None:
        self.origin, size = self.places.origins(), (self.places.many, len(self.labels))
        self.sums = np.zeros((5, *size, self.grades) if self.grades else (len(POWERS), *size))
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)
        self.least, self.most = _Extreme(np.zeros(size), -1), _Extreme(np.zeros(size), 1)
        self._keep(self.window)

    @classmethod
    def of(cls, pilot: Any, wish: Wish, *, whole: bool, moving: bool) -> _Counting | None:
        """What some rows suggest, of which none is counted yet; None where they are of very many groups."""
        labels = pilot["group"].unique().to_list()
        if len(labels) > MOST_GROUPS:
            return None
        rows = _rows_of(pilot.with_columns(_code(labels).alias("code")))
        least, most = float(rows.outcome.min()), float(rows.outcome.max())
        graded = most - least < MOST_GRADES and bool(np.all(rows.outcome == np.floor(rows.outcome)))
        level, grades = (least, int(most - least) + 1) if graded else (float(rows.outcome.mean()), 0)
        counting = cls(
            Places.of(rows.score, whole=whole), labels, wish, level, grades, np.ones(PARTS, dtype=bool), moving
        )
        counting.add(rows)
        return cls(counting.places, labels, wish, level, grades, counting.expected(), moving)

    def add(self, rows: Kept) -> None:
        """Count more rows."""
        self.rows += len(rows.score)
        grade = self._grade(rows.outcome) if self.grades else None
        score, place = rows.score, self.places.of_scores(rows.score)
        cell = place * len(self.labels) + rows.code
        u = score - self.origin.take(place)
        _reach(self.low, self.high, cell, score)
        with np.errstate(over="ignore", invalid="ignore"):  # a range whose powers no number holds is refused later
            if grade is not None:
                self._add_grades(cell, grade, u)
            else:
                self._add_products(cell, rows.outcome, u)
        at = np.flatnonzero(self.loose.take(place))
        if len(at):
            self.kept.append(rows.at(at))
            self.keeping += len(at)

    def _grade(self, outcome: Floats) -> Any:
        """The outcomes as steps from `level` on; None, from now on, where one is none of these."""
        away = outcome - self.level
        if away.min() >= 0 and away.max() < self.grades:
            grade = away.astype(np.int8)
            if np.array_equal(grade, away):
                return grade
        self._ungrade()
        return None

    def _add_grades(self, cell: Any, grade: Any, u: Floats) -> None:
        fine = cell * self.grades + grade
        added = self.sums.reshape(5, -1)
        power: Floats | None = None
        for row in added:
            row += np.bincount(fine, power, len(row))
            power = u if power is None else power * u

    def _add_products(self, cell: Any, outcome: Floats, u: Floats) -> None:
        v, rows = outcome - self.level, iter(self.sums.reshape(len(POWERS), -1))
        for j, power in enumerate((None, v, v * v)):
            for _ in range(5 - j):
                row = next(rows)
                row += np.bincount(cell, power, len(row))
                power = u if power is None else power * u
        self.least.add(cell, outcome)
        self.most.add(cell, outcome)

    def _ungrade(self) -> None:
        """Go on with products: there are more outcomes than some rows suggest."""
        counts = self.sums[0]
        for extreme, grades in ((self.least, range(self.grades)), (self.most, range(self.grades - 1, -1, -1))):
            found = [g for g in grades if counts[..., g].any()]
            if found:
                extreme.value, extreme.rows = self.level + found[0], counts[..., found[0]].copy()
        whole = self._products()
        self.sums, self.grades = np.stack([whole[..., i, j] for i, j in POWERS]), 0

    def _products(self) -> Floats:
        """The sums of u^i v^j, at [i, j]."""
        out = np.zeros((*self.low.shape, 5, 3))
        if not self.grades:
            for place, (i, j) in enumerate(POWERS):
                out[..., i, j] = self.sums[place]
            return out
        v = np.arange(self.grades, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            for i, j in POWERS:
                out[..., i, j] = self.sums[i] @ v**j
        return out

    def _counts(self) -> Floats:
        """Rows by place and group."""
        return np.asarray(self.sums[0].sum(-1) if self.grades else self.sums[0])

    def expected(self) -> Bools:
        """Parts that may hold an edge when all rows have come."""
        counts = self.places.joined(self._counts().sum(1)).astype(np.int64)
        margin = MARGIN * math.sqrt(counts.sum()) * (1 if self.moving else 0.5)
        return _wanted(self.places.ruler, counts, self.low.min(0), self.high.max(0), self.wish, margin)

    def goes_on(self) -> bool:
        """Keep no more rows than needed, as far as those that were counted tell; false where these are not like the pilot."""
        if self.moving and self.rows > AGAIN * self.judged:
            self.judged = self.rows
            if self.misled():
                return False
            self._keep(self.window & self.expected())
        if self.keeping > MOST_KEPT:
            rows = Kept.joined(self.kept)
            rows = rows.at(self.loose[self.places.of_scores(rows.score)])
            self.kept, self.keeping = [rows], len(rows.score)
        if self.keeping > MOST_KEPT:
            self.kept, self.keeping = [], 0
            self._keep(np.zeros_like(self.window))
        return True

    def _keep(self, window: Bools) -> None:
        self.window, self.loose = window, self.places.loose(window)

    def misled(self) -> bool:
        """Whether the rows are not like those which suggested the range."""
        counts = self._counts().sum(1)
        outer = self.places.loose(np.isin(np.arange(PARTS), [0, PARTS - 1]))
        return bool(counts[outer].sum() > BEYOND * counts.sum())

    def welcome(self, labels: Sequence[Any]) -> None:
        """More groups, of which no row was counted yet."""
        self.labels += labels
        self.low, self.high = _wider(self.low, len(labels), np.inf), _wider(self.high, len(labels), -np.inf)
        self.sums = np.stack([_wider(one, len(labels)) for one in self.sums])
        for extreme in (self.least, self.most):
            extreme.rows = _wider(extreme.rows, len(labels))

    def sketch(self) -> Sketch:
        if self.grades:
            self._ungrade()
        sums = self._products()
        above, below = (sums[..., 0, 0] - extreme.rows for extreme in (self.least, self.most))
        return Sketch(
            self.places, tuple(self.labels), self.level, sums, self.low, self.high, above, below, self.window,
            Kept.joined(self.kept),
        )  # fmt: skip


@dataclass
class _Extreme:
    """The smallest outcome (side -1) or the largest (1) so far, and how many rows of each cell have it."""

    rows: Floats
    side: int
    value: float | None = None

    def add(self, cell: Any, outcome: Floats) -> None:
        found = float(outcome.max() if self.side > 0 else outcome.min())
        if self.value is None or (found - self.value) * self.side > 0:
            self.value, self.rows = found, np.zeros_like(self.rows)
        at = np.flatnonzero(outcome == self.value)
        self.rows += np.bincount(cell[at], minlength=self.rows.size).reshape(self.rows.shape)


def _wider(by_group: Floats, more: int, blank: float = 0.0) -> Floats:
    """Numbers by place and group, with room for more groups."""
    shape = by_group.shape
    return np.concatenate([by_group, np.full((shape[0], more, *shape[2:]), blank)], axis=1)


def _reach(lows: Floats, highs: Floats, cell: Any, score: Floats) -> None:
    """Let the ends of cells reach these scores. Few rows move them, also where the rows are in order, if some went before."""
    for some in (slice(None, None, AHEAD), slice(None)):
        here, at = score[some], cell[some]
        for ends, meet in ((lows, np.minimum), (highs, np.maximum)):
            flat = ends.reshape(-1)
            known = flat.take(at)
            moves = np.flatnonzero(here < known if meet is np.minimum else here > known)
            if len(moves):
                meet.at(flat, at[moves], here[moves])


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


def _coded(lazy: nw.LazyFrame[Any], labels: Sequence[Any]) -> nw.LazyFrame[Any]:
    coded: nw.LazyFrame[Any] = nw.from_native(lazy.to_native().with_columns(_code(labels).alias("code")))
    return coded


def _rows_of(batch: Any) -> Kept:
    return Kept(*(batch[name].to_numpy() for name in ("score", "outcome", "code")))


def sketched(
    lazy: nw.LazyFrame[Any], columns: Sequence[str], wish: Wish, *, whole: bool
) -> tuple[Any, Sketch | None] | None:
    """Facts of a Polars table and, where it is long, a sketch; None where one of these columns lacks a value or holds NaN.

    There is no sketch of a table with very many groups either. `whole` : whether all scores are whole numbers.
    """
    chosen = lazy.select("group", *columns)
    first = to_polars(chosen.head(PILOT))
    told = _counted([first], columns, None)
    if told is None or first.height < PILOT:
        return told if told is None else (told[0].frame(), None)
    found = _passed(chosen, columns, first, wish, whole=whole, moving=True)
    if found is not None and found[1] is not None and found[1].misled():
        found = _passed(chosen, columns, _some_of(chosen), wish, whole=whole, moving=False)
    return None if found is None else (found[0].frame(), None if found[1] is None else found[1].sketch())


def _passed(
    chosen: nw.LazyFrame[Any], columns: Sequence[str], pilot: Any, wish: Wish, *, whole: bool, moving: bool
) -> tuple[Facts, _Counting | None] | None:
    """A pass over the table, its rows counted as the pilot suggests."""
    counting = _Counting.of(pilot, wish, whole=whole, moving=moving)
    return _counted(in_batches(chosen if counting is None else _coded(chosen, counting.labels)), columns, counting)


def _some_of(chosen: nw.LazyFrame[Any]) -> Any:
    """Rows from all over the table."""
    import polars as pl

    some: list[Any] = []
    stride = STRIDE
    for batch in in_batches(chosen):
        some.append(batch.gather_every(stride))
        if sum(one.height for one in some) > MOST_KEPT // 4:
            some, stride = [pl.concat(some).gather_every(2)], 2 * stride
    return pl.concat(some)


def _counted(
    batches: Iterable[Any], columns: Sequence[str], counting: _Counting | None
) -> tuple[Facts, _Counting | None] | None:
    """Facts of the rows, and all of them counted, if there are not too many groups; None where one lacks a value.

    Rows that are unlike those which suggested where to count are given up on.
    """
    facts = Facts()
    for batch in batches:
        if any(batch[name].null_count() for name in columns):
            return None
        if batch.is_empty():
            continue
        score, outcome = (batch[name].to_numpy() for name in ("score", "outcome"))
        if not facts.add(score, outcome):
            return None
        if counting is not None:
            code = _codes(counting, batch)
            if code is None:
                counting = None
                continue
            counting.add(Kept(score, outcome, code))
            if not counting.goes_on():
                break
    return (facts, counting) if facts.rows else None


def _codes(counting: _Counting, batch: Any) -> Any:
    """The groups of rows, also those that were not heard of before; None where these are too many."""
    code = batch["code"].to_numpy()
    if code.min() >= 0:
        return code
    batch = batch.with_columns(_code(counting.labels).alias("code"))
    new = batch.filter(batch["code"] < 0)["group"].unique().to_list()
    if len(counting.labels) + len(new) > MOST_GROUPS:
        return None
    counting.welcome(new)
    return batch.select(_code(counting.labels)).to_series().to_numpy()

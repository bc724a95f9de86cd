r"""When a series that is looked at again and again has moved for good.

One look a day, a level per look; the spread of the levels is learned from the levels themselves, never from their intervals, so
days may vary more than the intervals say. Each level is held against the earlier ones of its weekday:

.. math:: r_t = \frac{y_t - \bar y_{d(t)}}{\sqrt{1 + 1/n_{d(t)}}}, \qquad
          u_t = \mathrm{clip}\bigl(\Phi^{-1} F_{\nu}(r_t / s_t),\ \pm 2.25\bigr)

with :math:`s_t` from the residuals that are at least seven looks old (a shift does not hide itself by widening the spread) and
:math:`F_\nu` Student's distribution: in a stable Gaussian series :math:`u_t` is standard normal however short the history is
(Quesenberry's Q statistics). Evidence for a rise that began at look s is :math:`\prod_{i=s}^t \exp(\lambda u_i - \lambda k)`;
the sum over all s, with weights that add up to one, for rises and falls alike, is

.. math:: M_t = \tfrac12 \sum_{\pm} R^\pm_t, \qquad R^\pm_t = (R^\pm_{t-1} + w_t) \exp(\lambda(\pm u_t - k)).

An alarm is raised where :math:`M_t \ge 1/\text{rate}`. Were the factors of mean one given the past, Ville's inequality would bound the
chance of any false alarm, however many looks, by `rate`. Autocorrelation breaks that; the allowance k was set so that the
bound holds up to 0.3 (`benchmarks/alarms.py` has the figures, on other designs than those it was set on).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

WEEK = 7


class Calibrated(NamedTuple):
    """Settings of the control chart, chosen together.

    They were set on Gaussian, t(4), Laplace, gamma and exponential noise with autocorrelation 0.3. `benchmarks/alarms.py`
    checks on other designs that the false-alarm rate holds and how soon shifts are found.
    """

    settled: int = 15  # residuals behind the spread before an alarm may be raised: 28 days where every day has a look
    gain: float = 2.0  # lambda
    allowance: float = 1.16  # k
    most: float = 2.25  # a single day, however far off, counts for no more standard deviations
    outlying: float = 3.5  # residuals count in the spread and in the weekday's mean up to this many deviations
    patience: float = 300.0  # looks over which half of the false-alarm budget is spent


CHART = Calibrated()


@dataclass(frozen=True, slots=True)
class Alarm:
    """A series has moved.

    Attributes
    ----------
    series : which one (row of the levels).
    look : when the alarm was raised; `since` : the look at which the excursion that raised it began.
    before : mean level until then, over weekdays; `after` : that plus the mean departure from it since.
    deviations : the mean departure in standard deviations of the weekday-adjusted levels, signed.
    """

    series: int
    look: int
    since: int
    before: float
    after: float
    deviations: float


@dataclass(frozen=True, slots=True)
class Watch:
    """Alarms, the evidence behind them, and what they assume.

    Attributes
    ----------
    alarms : in order of time.
    evidence : (series, looks) as a share of what raises an alarm; NaN where none was possible yet.
    autocorrelation : (series,) of adjusted levels one look apart, since the watching last began; more than 0.3 is more than
        the false-alarm rate allows for.
    """

    alarms: tuple[Alarm, ...]
    evidence: Floats
    autocorrelation: Floats


def watch(levels: npt.ArrayLike, weekdays: npt.ArrayLike, *, rate: float = 0.05) -> Watch:
    """Alarms; at most a share `rate` of stable series gives any in a year of daily looks.

    docs/history.md has more.

    Parameters
    ----------
    levels : (series, looks) in order of time; what is not finite counts as not looked at.
    weekdays : (looks,) 0 to 6.
    rate : the chance that a stable series gives any false alarm in a year; after an alarm its watching starts afresh.

    >>> rng = np.random.default_rng(0)
    >>> levels = rng.normal(0.8, 0.01, 70)
    >>> levels[56:] += 0.03
    >>> [alarm] = watch([levels], np.arange(70) % 7).alarms
    >>> alarm.since, alarm.look < 63, round(alarm.after - alarm.before, 2)
    (56, True, 0.03)
    """
    y = np.atleast_2d(np.asarray(levels, dtype=np.float64))
    days = np.asarray(weekdays, dtype=np.int64)
    state = _State.fresh(len(y))
    alarms: list[Alarm] = []
    evidence = np.full(y.shape, np.nan)
    for look, day in enumerate(days):
        seen = np.flatnonzero(np.isfinite(y[:, look]))
        ready = state.look(y[seen, look], seen, int(day), look)
        evidence[ready, look] = rate * state.evidence[ready].sum(axis=1)
        over = ready[evidence[ready, look] >= 1]
        alarms += [state.alarm(int(i), y[i], days, look) for i in over]
        state.restart(over, look + 1)
    with np.errstate(invalid="ignore"):  # nothing yet to correlate
        return Watch(tuple(alarms), evidence, state.products / state.own_squares)


@dataclass(slots=True)
class _State:
    """Running statistics of every series before its next look; the two sides are rise and fall."""

    count: Floats  # (series, 7) looks of a weekday, and their mean
    mean: Floats
    recent: Floats  # (series, 7) squared residuals too fresh for the spread, the oldest first
    squares: Floats  # (series,) sum of the older ones, how many they are, and the spread that follows
    freedom: Floats
    spread: Floats
    age: Floats  # (series,) looks at which an alarm was possible
    evidence: Floats  # (series, 2)
    climb: Floats  # (series, 2) Page's CUSUM of the same scores: where it last left zero, the excursion began
    since: Whole
    began: Whole  # (series,) first look since the watching started
    latest: Floats  # (series,) the last score, sums of products of neighbours and of squares
    products: Floats
    own_squares: Floats

    @classmethod
    def fresh(cls, n: int, look: int = 0) -> _State:
        week, single, sides = (n, WEEK), (n,), (n, 2)
        return cls(
            count=np.zeros(week), mean=np.zeros(week), recent=np.full(week, np.nan), squares=np.zeros(single),
            freedom=np.zeros(single), spread=np.full(single, np.inf), age=np.zeros(single), evidence=np.zeros(sides),
            climb=np.zeros(sides), since=np.zeros(sides, dtype=np.int64),
            began=np.full(single, look, dtype=np.int64), latest=np.zeros(single), products=np.zeros(single), own_squares=np.zeros(single),
        )  # fmt: skip

    def restart(self, which: Whole, look: int) -> None:
        """Forget what was known of these series before this look."""
        blank = _State.fresh(len(which), look)
        for name in self.__slots__:
            getattr(self, name)[which] = getattr(blank, name)

    def look(self, y: Floats, which: Whole, day: int, look: int) -> Whole:
        """Take in one look at these series; returns those of them in which an alarm is possible."""
        has_mean = self.count[which, day] > 0
        self._learn(y[~has_mean], which[~has_mean], day)
        y, which = y[has_mean], which[has_mean]
        wider = np.sqrt(1 + 1 / self.count[which, day])
        residual = (y - self.mean[which, day]) / wider
        residual[np.abs(residual) <= 1e-9 * np.abs(self.mean[which, day])] = 0.0  # the same level but for rounding
        self._age_residuals(which)
        ready = self.freedom[which] >= CHART.settled
        self._weigh(residual[ready], which[ready], look)
        clipped = np.clip(residual, -CHART.outlying * self.spread[which], CHART.outlying * self.spread[which])
        self.recent[which, -1] = clipped**2
        self._learn(self.mean[which, day] + clipped * wider, which, day)
        return which[ready]

    def _learn(self, y: Floats, which: Whole, day: int) -> None:
        self.count[which, day] += 1
        self.mean[which, day] += (y - self.mean[which, day]) / self.count[which, day]

    def _age_residuals(self, which: Whole) -> None:
        """Every residual is a look older; the oldest of the recent ones now counts in the spread."""
        oldest = self.recent[which, 0]
        old = np.isfinite(oldest)
        self.squares[which] += np.where(old, oldest, 0.0)
        self.freedom[which] += old
        self.recent[which, :-1] = self.recent[which, 1:]
        enough = which[self.freedom[which] >= WEEK]
        self.spread[enough] = np.sqrt(self.squares[enough] / self.freedom[enough])

    def _weigh(self, residual: Floats, which: Whole, look: int) -> None:
        """Add what this look says for a rise and for a fall."""
        with np.errstate(divide="ignore", invalid="ignore"):  # after no variation, any change is infinitely far off
            ratio = np.where(residual == 0, 0.0, residual / self.spread[which])
        score = normal_score(ratio, self.freedom[which])
        clipped = np.clip(score, -CHART.outlying, CHART.outlying)
        self.products[which] += clipped * self.latest[which]
        self.own_squares[which] += clipped**2
        self.latest[which] = clipped
        score = np.clip(score, -CHART.most, CHART.most)
        sides = np.stack([score, -score], axis=1) - CHART.allowance
        # Weights of all looks and both sides add up to 1.
        age = self.age[which, None] + CHART.patience
        weight = CHART.patience / (age * (age + 1)) / 2
        self.evidence[which] = (self.evidence[which] + weight) * np.exp(CHART.gain * sides)
        begins = self.climb[which] <= 0
        self.since[which] = np.where(begins, look, self.since[which])
        self.climb[which] = np.maximum(np.where(begins, 0.0, self.climb[which]) + sides, 0.0)
        self.age[which] += 1

    def alarm(self, i: int, y: Floats, days: Whole, look: int) -> Alarm:
        """The alarm of one series; its size is the distance from the earlier means of the weekdays."""
        since = int(self.since[i, np.argmax(self.evidence[i])])
        before = np.arange(self.began[i], since)
        before = before[np.isfinite(y[before])]
        usual = {day: float(y[before[days[before] == day]].mean()) for day in np.unique(days[before])}
        moved = [t for t in range(since, look + 1) if np.isfinite(y[t]) and days[t] in usual]
        departure = float(np.mean([y[t] - usual[days[t]] for t in moved]))
        level = float(np.mean(list(usual.values())))
        with np.errstate(divide="ignore"):
            deviations = float(departure / self.spread[i])
        return Alarm(i, look, since, level, level + departure, deviations)


def normal_score(t: Floats, freedom: Floats) -> Floats:
    """The standard normal value as unlikely as a Student t (Wallace 1959; within 0.02 here).

    >>> normal_score(np.array([2.131]), np.array([15.0])).round(2)  # the 97.5% point
    array([1.96])
    """
    stretch = (8 * freedom + 1) / (8 * freedom + 3)
    return np.asarray(np.sign(t) * stretch * np.sqrt(freedom * np.log1p(t**2 / freedom)))

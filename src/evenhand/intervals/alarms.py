r"""When a series that is looked at again and again has moved for good, and when it is back.

One look a day, a level per look; the spread of the levels is learned from the levels themselves, never from their intervals, so
days may vary more than the intervals say. Each level is compared with the earlier ones of its weekday:

.. math:: r_t = \frac{y_t - \bar y_{d(t)}}{\sqrt{1 + 1/n_{d(t)}}}, \qquad
          u_t = \mathrm{clip}\bigl(\Phi^{-1} F_{\nu}(r_t / s_t),\ \pm c\bigr)

with :math:`s_t` from the residuals that are at least seven looks old (a shift does not hide itself by widening the spread), wider
where neighbouring looks have differed more of late than they usually do (spreads that come in waves), and
:math:`F_\nu` Student's distribution: in a stable Gaussian series :math:`u_t` is standard normal however short the history is
(Quesenberry's Q statistics). Evidence for a rise that began at look s is :math:`\prod_{i=s}^t \exp(\lambda u_i - \lambda k)`;
the sum over all s, with weights that add up to one, for rises and falls and for two gains :math:`\lambda` alike (a large one
for large shifts, a small one for lasting small ones), is

.. math:: M_t = \tfrac14 \sum_{\lambda} \sum_{\pm} R^\pm_t, \qquad R^\pm_t = (R^\pm_{t-1} + w_t) \exp(\lambda(\pm u_t - k_t)).

An alarm is raised where :math:`M_t \ge 1/\text{rate}`. Were the factors of mean one given the past, Ville's inequality would bound the
chance of any false alarm, however many looks, by `rate`. Sums of correlated looks vary more, by the long-run variance
:math:`V = (1 + \rho)/(1 - \rho)` of an AR(1), and so the allowance follows it: :math:`k_t = a_\lambda + b_\lambda (V_t - 1)`, with
:math:`\rho` estimated from the residuals so far (an upper confidence limit). Squared differences of residuals one look and three looks
apart give it, :math:`D_3 / D_1 = 1 + \rho + \rho^2`, because a shift, which moves both residuals of nearly every pair alike, hardly
raises it.
`benchmarks/alarms.py` has what this comes to; its `--unseen` designs were added after the constants were fixed.

An alarm stands until the series is back: Page's CUSUM of the log likelihood ratio of the old level against the new one. Then the old
level is watched again; until then the new one is, from its beginning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand.intervals.kinds import t_quantile

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

WEEK, YEAR = 7, 365
APART = 3  # looks: few, so that a shift shows in few differences; more than one, or nothing is learned of the autocorrelation


class Calibrated(NamedTuple):
    """Settings of the control chart, chosen together.

    `benchmarks/alarms.py` measures false alarms and power (autocorrelation 0, 0.3 and 0.5). Its `--unseen` designs, t(4), Laplace and gamma
    noise with autocorrelation 0, 0.2 and 0.4, were added after these were fixed.
    """

    settled: int = 15  # residuals behind the spread before an alarm may be raised: 28 days where every day has a look
    gains: tuple[float, float] = (0.7, 2.0)  # lambda: for small shifts that last, and for large ones
    allowances: tuple[float, float] = (
        0.37,
        0.85,
    )  # a: what independent looks need; Gaussian ones lambda / 2 where not clipped
    slopes: tuple[float, float] = (
        0.28,
        0.25,
    )  # b: less than lambda / 2, since runs of looks are short and scores clipped
    doubt: float = 0.5  # standard errors added to the estimated autocorrelation
    memory: float = 0.2  # weight of the newest look in the spread of late: about nine looks count
    most: float = 2.0  # a single day, however far off, counts for no more standard deviations
    outlying: float = 3.5  # residuals count in the spread and in the weekday's mean up to this many deviations
    patience: float = 300.0  # looks over which half of the false-alarm budget is spent


CHART = Calibrated()


@dataclass(frozen=True, slots=True)
class Alarm:
    """A series has moved.

    Attributes
    ----------
    series : which one (row of the levels).
    look : when the alarm was raised; `since` : the look at which the shift most likely began.
    before : mean level until then, over weekdays; `after` : that plus the mean departure from it since.
    deviations : the mean departure in standard deviations of the weekday-adjusted levels, signed.
    until : the first look back at the old level; None where the alarm stands.
    """

    series: int
    look: int
    since: int
    before: float
    after: float
    deviations: float
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Alarms, the evidence behind them, and what they assume.

    Attributes
    ----------
    alarms : in order of time.
    evidence : (series, looks) as a share of what raises an alarm; NaN where none was possible yet.
    autocorrelation : (series,) of adjusted levels one look apart, since the watching last began.
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
    state = _State.fresh(len(y), len(days))
    departures: list[_Departure] = []
    evidence = np.full(y.shape, np.nan)
    for look, day in enumerate(days):
        for departure in departures:
            if departure.stands and departure.is_back(y[departure.alarm.series, look], int(day), look, rate):
                _end(departures, departure, state)
        seen = np.flatnonzero(np.isfinite(y[:, look]))
        ready = state.look(y[seen, look], seen, int(day), look)
        evidence[ready, look] = rate * state.evidence[ready].sum(axis=(1, 2))
        for i in ready[evidence[ready, look] >= 1]:
            new = state.departure(int(i), y[i], days, look)
            if old := next((d for d in departures if d.ends_with(new.alarm)), None):
                old.returning = new.alarm.since
                _end(departures, old, state)
            else:
                departures.append(new)
                state.restart(np.array([i]))
    return Watch(tuple(d.alarm for d in departures), evidence, state.autocorrelation(np.arange(len(y))))


def _end(departures: list[_Departure], back: _Departure, state: _State) -> None:
    """Watch the level that held before an alarm again; later alarms of the series end with it."""
    state.put(np.array([back.alarm.series]), back.former)
    for d in departures:
        if d.stands and d.alarm.series == back.alarm.series and d.alarm.look >= back.alarm.look:
            d.alarm = replace(d.alarm, until=back.returning)


@dataclass(slots=True)
class _State:
    """Running statistics of every series before its next look; sides are rise and fall.

    Looks are counted by series: `position` is how many each has had since its watching began.
    """

    count: Floats  # (series, 7) looks of a weekday, and their mean
    mean: Floats
    squares: (
        Floats  # (series,) sum of squared residuals at least a week old, how many they are, and the spread that follows
    )
    freedom: Floats
    spread: Floats
    steps: Floats  # (series,) sums of squared differences of residuals one look and three looks apart, and how many
    step_count: Floats
    spans: Floats
    span_count: Floats
    recent: Floats  # (series,) moving average of the squared differences of neighbours
    age: Floats  # (series,) looks at which an alarm was possible
    evidence: Floats  # (series, gains, sides)
    position: Whole  # (series,)
    residuals: Floats  # (series, looks) clipped; scores; levels as learned; their looks
    scores: Floats
    learned: Floats
    looks: Whole

    @classmethod
    def fresh(cls, n: int, looks: int) -> _State:
        week, single, each = (n, WEEK), (n,), (n, looks)
        return cls(
            count=np.zeros(week), mean=np.zeros(week), squares=np.zeros(single), freedom=np.zeros(single),
            spread=np.full(single, np.inf), steps=np.zeros(single), step_count=np.zeros(single), spans=np.zeros(single),
            span_count=np.zeros(single), recent=np.zeros(single), age=np.zeros(single), evidence=np.zeros((n, len(CHART.gains), 2)),
            position=np.zeros(single, dtype=np.int64), residuals=np.full(each, np.nan), scores=np.full(each, np.nan),
            learned=np.full(each, np.nan), looks=np.full(each, -1, dtype=np.int64),
        )  # fmt: skip

    def rows(self, which: Whole) -> _State:
        return _State(**{name: getattr(self, name)[which].copy() for name in self.__slots__})

    def put(self, which: Whole, rows: _State) -> None:
        for name in self.__slots__:
            getattr(self, name)[which] = getattr(rows, name)

    def restart(self, which: Whole) -> None:
        self.put(which, _State.fresh(len(which), self.looks.shape[1]))

    def look(self, y: Floats, which: Whole, day: int, look: int) -> Whole:
        """Take in one look at these series; returns those of them in which an alarm is possible."""
        self.looks[which, self.position[which]] = look
        has_mean = self.count[which, day] > 0
        self._learn(y[~has_mean], which[~has_mean], day)
        y, which = y[has_mean], which[has_mean]
        wider = np.sqrt(1 + 1 / self.count[which, day])
        residual = (y - self.mean[which, day]) / wider
        residual[np.abs(residual) <= 1e-9 * np.abs(self.mean[which, day])] = 0.0  # the same level but for rounding
        self._age_residuals(which)
        ready = self.freedom[which] >= CHART.settled
        self._weigh(residual[ready], which[ready])
        clipped = np.clip(residual, -CHART.outlying * self.spread[which], CHART.outlying * self.spread[which])
        self._correlate(clipped, which)
        self._learn(self.mean[which, day] + clipped * wider, which, day)
        return which[ready]

    def _learn(self, y: Floats, which: Whole, day: int) -> None:
        self.count[which, day] += 1
        self.mean[which, day] += (y - self.mean[which, day]) / self.count[which, day]
        self.learned[which, self.position[which]] = y
        self.position[which] += 1

    def _earlier(self, which: Whole, lag: int) -> Floats:
        """The residuals so many looks ago; NaN where there are none."""
        at = self.position[which] - lag
        return np.where(at >= 0, self.residuals[which, np.maximum(at, 0)], np.nan)

    def _age_residuals(self, which: Whole) -> None:
        """Every residual is a look older; one more is old enough to count in the spread."""
        oldest = self._earlier(which, WEEK)
        old = np.isfinite(oldest)
        self.squares[which] += np.where(old, oldest, 0.0) ** 2
        self.freedom[which] += old
        enough = which[self.freedom[which] >= WEEK]
        self.spread[enough] = np.sqrt(self.squares[enough] / self.freedom[enough])

    def _correlate(self, residual: Floats, which: Whole) -> None:
        """Add differences of residuals: old ones to the autocorrelation, as to the spread, the newest to the spread of late."""
        old = self._earlier(which, WEEK)
        pairs = ((1, self.steps, self.step_count), (APART, self.spans, self.span_count))
        for lag, total, count in pairs:
            difference = old - self._earlier(which, WEEK + lag)
            total[which] += np.nan_to_num(difference) ** 2
            count[which] += np.isfinite(difference)
        step = residual - self._earlier(which, 1)
        weight = np.maximum(CHART.memory, 1 / np.maximum(self.step_count[which], 1))
        self.recent[which] += np.nan_to_num(weight * (step**2 - self.recent[which]))
        self.residuals[which, self.position[which]] = residual

    def _volatility(self, which: Whole) -> Floats:
        """The spread of late beside the usual one, at least 1: from differences, in which a shift shows only once."""
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.nan_to_num(self.recent[which] / (self.steps[which] / self.step_count[which]), nan=1.0)
        return np.sqrt(np.maximum(ratio, 1.0))

    def autocorrelation(self, which: Whole) -> Floats:
        """Of residuals one look apart, from differences, which a shift of the level hardly changes."""
        with np.errstate(invalid="ignore", divide="ignore"):  # nothing yet to correlate, or no variation
            ratio = (self.spans[which] / self.span_count[which]) / (self.steps[which] / self.step_count[which])
            return np.asarray((np.sqrt(np.maximum(4 * ratio - 3, 0.0)) - 1) / 2)  # ratio = 1 + rho + rho^2 in an AR(1)

    def _long_run_variance(self, which: Whole) -> Floats:
        """Of sums of looks beside independent ones: an AR(1) with an upper limit of the autocorrelation."""
        error = np.sqrt(2 / self.span_count[which])  # in independent looks
        limit = np.clip(np.nan_to_num(self.autocorrelation(which)) + CHART.doubt * error, 0.0, 0.98)
        return np.asarray((1 + limit) / (1 - limit))

    def _weigh(self, residual: Floats, which: Whole) -> None:
        """Add what this look says for a rise and for a fall."""
        with np.errstate(divide="ignore", invalid="ignore"):  # after no variation, any change is infinitely far off
            ratio = np.where(residual == 0, 0.0, residual / self.spread[which] / self._volatility(which))
        score = np.clip(normal_score(ratio, self.freedom[which]), -CHART.most, CHART.most)
        self.scores[which, self.position[which]] = score
        gains, sides = np.array(CHART.gains)[:, None], np.array([1.0, -1.0])
        excess = self._long_run_variance(which)[:, None, None] - 1
        allowance = np.array(CHART.allowances)[:, None] + np.array(CHART.slopes)[:, None] * excess
        # Weights of all looks, gains and sides add up to 1.
        age = self.age[which, None, None] + CHART.patience
        weight = CHART.patience / (age * (age + 1)) / (2 * len(CHART.gains))
        factors = np.exp(gains * (score[:, None, None] * sides - allowance))
        self.evidence[which] = (self.evidence[which] + weight) * factors
        self.age[which] += 1

    def departure(self, i: int, y: Floats, days: Whole, look: int) -> _Departure:
        """The alarm of one series; its size is the distance from the earlier means of the weekdays."""
        n = self.position[i]
        looks, scores = self.looks[i, :n], np.nan_to_num(self.scores[i, :n])
        sign = 1.0 if self.evidence[i, :, 0].sum() > self.evidence[i, :, 1].sum() else -1.0
        sums = np.maximum(sign * np.cumsum(scores[::-1])[::-1], 0.0)
        start = int(np.argmax(sums**2 / np.arange(n, 0, -1)))  # the most likely look of a shift in a Gaussian mean
        weekdays = days[looks[:start]]
        usual = {int(d): float(self.learned[i, :start][weekdays == d].mean()) for d in np.unique(weekdays)}
        moved = [t for t in looks[start:] if days[t] in usual]
        size = float(np.mean([y[t] - usual[days[t]] for t in moved]))
        level = float(np.mean(list(usual.values())))
        with np.errstate(divide="ignore"):
            deviations = float(np.divide(size, self.spread[i]))
        variance = float(self._long_run_variance(np.array([i]))[0])
        alarm = Alarm(i, look, int(looks[start]), level, level + size, deviations)
        return _Departure(alarm, usual, variance, self._without(i, start, usual, weekdays))

    def _without(self, i: int, start: int, usual: dict[int, float], weekdays: Whole) -> _State:
        """The statistics of one series without the looks from `start` on, for when it is back."""
        former = self.rows(np.array([i]))
        former.evidence[:] = 0.0
        for name in ("residuals", "scores", "learned"):
            getattr(former, name)[0, start:] = np.nan
        former.position[0] = start
        former.count[0] = np.bincount(weekdays, minlength=WEEK)
        former.mean[0] = [usual.get(d, 0.0) for d in range(WEEK)]
        return former


@dataclass(slots=True)
class _Departure:
    """An alarm, the level before it, and the evidence that the series is back there."""

    alarm: Alarm
    usual: dict[int, float]  # mean by weekday
    variance: float  # of sums of looks, beside independent ones
    former: _State
    evidence: float = 0.0
    returning: int = -1  # first look of the present run back

    @property
    def stands(self) -> bool:
        return self.alarm.until is None

    def ends_with(self, alarm: Alarm) -> bool:
        """Whether another alarm of the same series leads back to the level before this one."""
        size = self.alarm.after - self.alarm.before
        return (
            self.stands and self.alarm.series == alarm.series and abs(alarm.after - self.alarm.before) < abs(size) / 2
        )

    def is_back(self, y: float, day: int, look: int, rate: float) -> bool:
        """Take in one look: whether the old level is likelier than the new one by now."""
        if not np.isfinite(y) or day not in self.usual:
            return False
        size = self.alarm.after - self.alarm.before
        midway = 0.5 - (y - self.usual[day]) / size  # in shifts: 1/2 where it is back, -1/2 where it is not
        spreads = min(abs(self.alarm.deviations), 2 * CHART.most)  # a day, however far off, counts for no more
        gain = np.clip(midway, -0.5, 0.5) * spreads**2 / self.variance
        bar = np.log(
            YEAR / rate
        )  # tested at every look for as long as the alarm stands: the rate is for a year of them
        most = bar / 4  # no fewer than four looks
        if self.evidence <= 0:
            self.evidence, self.returning = 0.0, look
        self.evidence += float(np.clip(gain, -most, most))
        return bool(self.evidence >= bar - 1e-9)


def normal_score(t: Floats, freedom: Floats) -> Floats:
    """The standard normal value as unlikely as a Student t (Wallace 1959; within 0.02 here).

    >>> normal_score(np.array([2.131]), np.array([15.0])).round(2)  # the 97.5% point
    array([1.96])
    """
    stretch = (8 * freedom + 1) / (8 * freedom + 3)
    return np.asarray(np.sign(t) * stretch * np.sqrt(freedom * np.log1p(t**2 / freedom)))


DAYS_A_YEAR = 365.25
FEWEST = 8  # looks for a trend: six residual degrees of freedom


@dataclass(frozen=True, slots=True)
class Trend:
    """Change a year with its interval, and the ends of the fitted line."""

    slope: float
    low: float
    high: float
    first: float
    last: float


def trend(days: npt.ArrayLike, levels: npt.ArrayLike, level: float = 0.95) -> Trend | None:
    """The straight line through levels at these days (numbers, in order); None where looks are too few.

    >>> trend(np.arange(20) * 7, 0.5 + 0.01 * np.arange(20) + 0.001 * (-1) ** np.arange(20)).slope.__round__(2)
    0.52
    """
    t, y = np.asarray(days, dtype=np.float64), np.asarray(levels, dtype=np.float64)
    t, y = t[np.isfinite(y)], y[np.isfinite(y)]
    n = len(t)
    if n < FEWEST:
        return None
    t = t / DAYS_A_YEAR
    centred = t - t.mean()
    spread = float(centred @ centred)
    slope = float(centred @ (y - y.mean())) / spread
    residuals = y - y.mean() - slope * centred
    squares = float(residuals @ residuals)
    rho = float(residuals[1:] @ residuals[:-1]) / squares if squares > 0 else 0.0
    rho = min(max(rho + (2 + 4 * rho) / n, 0.0), 0.98)  # bias of an autocorrelation about a fitted line (Tanaka 1984)
    variance = (1 + rho) / (1 - rho)
    looks = max(n / variance - 1, 2.0)
    error = math.sqrt(squares / (n - 2) * variance / spread) * float(t_quantile(level, looks))
    ends = y.mean() + slope * centred[[0, -1]]
    return Trend(slope, slope - error, slope + error, float(ends[0]), float(ends[1]))

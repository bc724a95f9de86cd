"""`make alarms`: how often a stable year gives any false alarm, how soon a lasting shift is found, and how soon its end.

`--unseen` runs `UNSEEN`: other laws and autocorrelations, without a weekday pattern, added after the constants of `intervals/alarms.py`
were fixed; take another seed. Every figure has its Monte Carlo error. Exit 1 where what is promised does not hold within two of them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenhand.intervals.alarms import Alarm, watch

Floats = npt.NDArray[np.float64]
YEAR, WEEK, HISTORY = 365, 7, 120
RATE = 0.05
SHIFTS = ((1.0, 60), (2.0, 14), (3.0, 7))
"""Lasting shifts in standard deviations, and the looks within which they are to be found."""
PROMISED = (0.35, 0.85)
"""Shares of the first two shifts that are found in independent Gaussian looks."""


def garch(rng: np.random.Generator, shape: tuple[int, int], news: float, memory: float) -> Floats:
    """Noise whose spread comes in waves."""
    levels, variance = np.empty(shape), np.ones(shape[0])
    for t in range(shape[1]):
        levels[:, t] = np.sqrt(variance) * rng.standard_normal(shape[0])
        variance = 1 - news - memory + news * levels[:, t] ** 2 + memory * variance
    return levels


NOISE: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "Gaussian": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "t(5)": lambda rng, shape: rng.standard_t(5, shape) / math.sqrt(5 / 3),
    "t(3)": lambda rng, shape: rng.standard_t(3, shape) / math.sqrt(3),
    "t(2)": lambda rng, shape: rng.standard_t(2, shape) / 2,  # no standard deviation: about that of its middle 98%
    "exponential": lambda rng, shape: rng.exponential(1, shape) - 1,
    "lognormal": lambda rng, shape: (rng.lognormal(0, 0.5, shape) - math.exp(0.125)) / math.sqrt((math.exp(0.25) - 1) * math.exp(0.25)),
    "1% glitches": lambda rng, shape: rng.standard_normal(shape) * np.where(rng.random(shape) < 0.01, 10, 1) / math.sqrt(1.99),
    "GARCH(.1,.85)": lambda rng, shape: garch(rng, shape, 0.1, 0.85),
    "GARCH(.15,.8)": lambda rng, shape: garch(rng, shape, 0.15, 0.8),
    "t(4)": lambda rng, shape: rng.standard_t(4, shape) / math.sqrt(2),
    "Laplace": lambda rng, shape: rng.laplace(0, math.sqrt(0.5), shape),
    "gamma(2)": lambda rng, shape: (rng.gamma(2, 1, shape) - 2) / math.sqrt(2),
}  # fmt: skip
WEEKDAYS: dict[str, Floats] = {
    "none": np.zeros(WEEK),
    "weekend": np.array([0, 0, 0, 0, 0, 4.0, 4.0]),
    "saw": np.linspace(-3, 3, WEEK),
}


@dataclass(frozen=True)
class Design:
    """A stable series: its noise, autocorrelation, weekday pattern in standard deviations, share of days without a look."""

    noise: str
    rho: float
    weekdays: str = "weekend"
    lost: float = 0.0
    quieter: float = 1.0  # spread of weekends beside that of other days
    window: int = 1  # days that each look covers

    def draw(self, rng: np.random.Generator, series: int, looks: int) -> Floats:
        """(series, looks) levels with standard deviation one about their weekday means."""
        warm = 60 + self.window
        shocks = NOISE[self.noise](rng, (series, looks + warm)) * math.sqrt(1 - self.rho**2)
        for t in range(1, looks + warm):
            shocks[:, t] += self.rho * shocks[:, t - 1]
        sums = np.cumsum(shocks, axis=1)
        shocks = (sums[:, self.window :] - sums[:, : -self.window]) / math.sqrt(self.window)
        day = np.arange(looks) % WEEK
        scale = np.where(day >= 5, self.quieter, 1.0)
        scale = scale / math.sqrt((5 + 2 * self.quieter**2) / WEEK)
        levels = shocks[:, -looks:] * scale + WEEKDAYS[self.weekdays][day]
        return np.where(rng.random(levels.shape) < self.lost, np.nan, levels)


HELD_OUT = ("t(4)", "Laplace", "gamma(2)")
UNSEEN = tuple(Design(noise, rho, "none") for noise in ("Gaussian", *HELD_OUT) for rho in (0.0, 0.2, 0.4))
DESIGNS = (
    *(Design(noise, rho) for noise in NOISE if noise not in HELD_OUT for rho in (0.0, 0.3, 0.5)),
    Design("Gaussian", 0.3, "none"),
    Design("Gaussian", 0.3, "saw"),
    Design("Gaussian", 0.3, lost=0.1),
    Design("Gaussian", 0.3, quieter=0.5),
    Design("Gaussian", 0.0, "none", window=7),
)


def false_alarms(design: Design, series: int, rng: np.random.Generator, looks: int = HISTORY + YEAR) -> float:
    """Share of stable series with any alarm."""
    raised = watch(design.draw(rng, series, looks), np.arange(looks) % WEEK, rate=RATE).alarms
    return len({alarm.series for alarm in raised}) / series


def shifted(
    design: Design, series: int, rng: np.random.Generator, size: float, begins: int, ends: int, looks: int
) -> list[Alarm]:
    """Alarms of series that move up or down by `size` at one look and back at another, without those that had one before."""
    levels = design.draw(rng, series, looks)
    levels[:, begins:ends] += size * np.where(np.arange(series) % 2, 1, -1)[:, None]
    raised = watch(levels, np.arange(looks) % WEEK, rate=RATE).alarms
    early = {alarm.series for alarm in raised if alarm.look < begins}
    return [alarm for alarm in raised if alarm.series not in early]


def detected(
    design: Design, series: int, rng: np.random.Generator, size: float, within: int, history: int = HISTORY
) -> float:
    """Share of series in which a lasting shift after this much history is found within so many looks, and none before."""
    raised = shifted(design, series, rng, size, history, history + within, history + within)
    return len({alarm.series for alarm in raised}) / series


def ended(design: Design, series: int, rng: np.random.Generator, size: float, lasts: int) -> tuple[float, float, float]:
    """Shares of detected shifts that were said to have ended too early, within four weeks of their end, and whose end gave an alarm."""
    ends = HISTORY + lasts
    raised = shifted(design, series, rng, size, HISTORY, ends, ends + 4 * WEEK)
    first = {alarm.series: alarm for alarm in reversed(raised) if alarm.look < ends}
    early = sum(alarm.until is not None and alarm.until < ends - WEEK for alarm in first.values())
    back = sum(alarm.until is not None for alarm in first.values())
    second = {alarm.series for alarm in raised if alarm.look >= ends}
    return early / len(first), (back - early) / len(first), len(second & set(first)) / len(first)


def error(share: float, series: int) -> float:
    return math.sqrt(max(share * (1 - share), 1 / series) / series)


def table(designs: tuple[Design, ...], series: int, rng: np.random.Generator) -> bool:
    """Print false alarms and power of each design; whether something promised does not hold."""
    broken = False
    print(f"{series:,} series each, ± one Monte Carlo error: any false alarm in {HISTORY} + {YEAR} looks, shifts found")
    heads = " | ".join(f"{size:g} sd within {within}" for size, within in SHIFTS)
    print(f"| noise | autocorrelation | weekdays | any false alarm | {heads} |\n|{'---|' * (4 + len(SHIFTS))}")
    for design in designs:
        false = false_alarms(design, series, rng)
        shares = [detected(design, series, rng, size, within) for size, within in SHIFTS]
        if design.noise == "Gaussian" and not design.rho and design.window == 1:
            broken |= any(s + 2 * error(s, series) < p for s, p in zip(shares, PROMISED, strict=False))
        broken |= false - 2 * error(false, series) > RATE
        extra = f"{', 10% lost' if design.lost else ''}{', half the spread' if design.quieter < 1 else ''}"
        noise = f"{design.noise}{f', {design.window}-day window' if design.window > 1 else ''}"
        cells = [noise, f"{design.rho:g}", design.weekdays + extra, f"{false:.2%} ± {error(false, series):.2%}"]
        print(f"| {' | '.join([*cells, *(f'{share:.1%}' for share in shares)])} |", flush=True)
    return broken


def ends_and_long_histories(series: int, rng: np.random.Generator) -> None:
    for size, lasts in ((1.0, 90), (2.0, 60), (4.0, 5)):
        early, back, second = ended(Design("Gaussian", 0.0), series, rng, size, lasts)
        print(
            f"a shift of {size:g} for {lasts} looks, where found: end seen within 28 looks in {back:.1%}, before it came in {early:.1%}, "
            f"as another alarm in {second:.1%}"
        )
    for noise in ("Gaussian", "exponential"):
        false = false_alarms(Design(noise, 0.3), series // 2, rng, looks=5 * YEAR)
        print(f"{noise} noise, five years: {false:.2%} ±{error(false, series // 2):.2%} give any false alarm")
    for rho in (0.7, 0.9):
        false = false_alarms(Design("Gaussian", rho), series, rng)
        print(f"beyond what is promised, autocorrelation {rho:g}: {false:.1%} ±{error(false, series):.1%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unseen", action="store_true", help="only UNSEEN")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    broken = table(UNSEEN if args.unseen else DESIGNS, args.series, rng)
    if not args.unseen:
        ends_and_long_histories(args.series, rng)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())

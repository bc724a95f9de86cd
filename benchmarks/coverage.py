"""`make coverage`: how often our 95% intervals hold the truth, and how wide they are (formula book F1.8, F12.8, F17).

Inequality of 12 to 20,000 units, and every audit on small and boundary designs, all with a known truth; with `--apart` designs
that nothing was tuned on. Width: the median, over that of the ideal interval (2 x 1.96 standard deviations of the estimate). A
cell that falls short of 92% by more than two Monte Carlo errors is marked, as is a light or moderate law from 50 units on that
is more than 1.5 times too wide; exit 1 where one falls short and fewer than half of its rows carry a caution.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np
import polars as pl

import evenhand as eh
from benchmarks.coverage_audits import DESIGNS, DESIGNS_APART, FEW_LABELS, Design, hits
from benchmarks.harness import OUT
from evenhand import metrics
from evenhand.cards import needing, parse_metrics
from evenhand.tallies.spectrum import Spectrum

METRICS = ("gini", "atkinson(epsilon=0.5)", "top_share(p=0.1)", "top_share(p=0.05)", "equal_share", "equivalent_to_top")
SIZES = (12, 50, 200, 2_000, 20_000)
PROMISED = 0.92
WIDEST = 1.5
"""Width that light and moderate laws are promised from 50 units on, over that of the ideal interval."""
INTERVAL = "bootstrap(999)"
OFTEN = 0.5
"""Share of rows with a caution from which on a cell that falls short is one that the reader is told of."""


Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class World:
    """A population to draw from, its true values, and whether its tail is light or moderate."""

    name: str
    draw: Draw
    truth: Callable[[], list[float]]
    light: bool = False

    def deviations(self, units: int, seed: int) -> list[float]:
        """Standard deviation of each metric of so many units."""
        runs = int(np.clip(1_000_000 // units, 400, 4_000))
        rng = np.random.default_rng([seed, units, 1, *self.name.encode()])
        samples = np.sort(self.draw(rng, runs * units).reshape(runs, units).astype(np.float64), axis=-1)
        tally = Spectrum(samples, np.ones_like(samples))
        return [float(np.nanstd(a.on(tally))) for a in parse_metrics(METRICS, needing(Spectrum))]


def lognormal(sigma: float) -> World:
    normal = NormalDist()
    tops = [1 - normal.cdf(normal.inv_cdf(1 - p) - sigma) for p in (0.1, 0.05)]
    equivalent = normal.cdf(normal.inv_cdf(tops[0]) + sigma)
    truth = [math.erf(sigma / 2), 1 - math.exp(-(sigma**2) / 4), *tops, normal.cdf(sigma), equivalent]
    return World(f"lognormal {sigma:g}", lambda rng, n: rng.lognormal(0, sigma, n), lambda: truth, sigma <= 1)


def pareto(a: float) -> World:
    gini, tops = 1 / (2 * a - 1), [p ** (1 - 1 / a) for p in (0.1, 0.05)]
    atkinson, held = 1 - (a / (a - 0.5)) ** 2 * (a - 1) / a, a / (a - 1)
    truth = [gini, atkinson, *tops, 1 - 0.5**held, 1 - (1 - tops[0]) ** held]
    return World(f"Pareto {a:g}", lambda rng, n: rng.pareto(a, n) + 1, lambda: truth)


def gamma() -> World:
    """Exponential amounts: a tail that ends."""

    def truth() -> list[float]:
        from scipy.optimize import brentq

        def lorenz(p: float) -> float:
            return p + (1 - p) * math.log(1 - p)

        top = 1 - lorenz(0.9)
        points = [brentq(lambda p, at=at: lorenz(p) - at, 1e-9, 1 - 1e-9) for at in (0.5, top)]
        return [0.5, 1 - math.pi / 4, top, 1 - lorenz(0.95), *points]

    return World("gamma 1", lambda rng, n: rng.exponential(1, n), truth, light=True)


def whales() -> World:
    """Half receive nothing, one in a hundred is a whale."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        tall = np.where(rng.random(n) < 0.02, rng.lognormal(5, 1, n), rng.lognormal(1, 1, n))
        return np.where(rng.random(n) < 0.5, 0.0, tall)

    return sampled("whales", draw)


def sampled(name: str, draw: Draw, *, light: bool = False) -> World:
    """A world whose truth is that of four million of its units."""

    def truth() -> list[float]:
        tally = Spectrum.from_arrays(draw(np.random.default_rng(99), 4_000_000))
        return [float(a.on(tally)) for a in parse_metrics(METRICS, needing(Spectrum))]

    return World(name, draw, functools.cache(truth), light)


ZEROS, MU, SIGMA = 0.6, 2.0, 1.5


def counts() -> World:
    """Counts: 60% structural zeros, the others Poisson with a lognormal rate."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.where(rng.random(n) < ZEROS, 0, rng.poisson(rng.lognormal(MU, SIGMA, n)))

    return World("zero-heavy counts", draw, _truth_of_counts)


def _truth_of_counts() -> list[float]:
    """The metrics on the exact probabilities of every count that matters."""
    from scipy.special import gammaln

    def density(rate: np.ndarray) -> np.ndarray:
        return np.exp(-((np.log(rate) - MU) ** 2) / (2 * SIGMA**2)) / (rate * SIGMA * math.sqrt(2 * math.pi))

    few = np.arange(2_000)
    z = np.linspace(-9, 9, 2_001)
    rates, mass = np.exp(MU + SIGMA * z), np.exp(-(z**2) / 2)
    chance = np.exp(-rates + few[:, None] * np.log(rates) - gammaln(few + 1)[:, None]) @ (mass / mass.sum())
    # Further out the rate behind a count k is known to within its root: average the density over five points there.
    many = np.arange(2_000, 4_000_000, dtype=np.float64)
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    tail = (
        sum(w * density(many + 1 + x * np.sqrt(many + 1)) for x, w in zip(nodes, weights, strict=True)) / weights.sum()
    )
    probability = (1 - ZEROS) * np.concatenate([chance, tail])
    probability[0] += ZEROS
    tally = Spectrum(np.concatenate([few, many]).astype(np.float64), probability)
    return [float(a.on(tally)) for a in parse_metrics(METRICS, needing(Spectrum))]


def shaped(
    name: str, zeros: float, draw: Callable[[np.random.Generator, int], np.ndarray], *, light: bool = False
) -> World:
    """A world in which a share of units receives nothing, and the others as drawn."""
    return sampled(name, lambda rng, n: np.where(rng.random(n) < zeros, 0.0, draw(rng, n)), light=light)


def mixture(shares: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> Draw:
    """Uniform amounts between bounds, of one kind or another."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        kind = rng.choice(len(shares), n, p=shares)
        return rng.uniform(np.take(lows, kind), np.take(highs, kind))

    return draw


def stars(rng: np.random.Generator, n: int) -> np.ndarray:
    """A crowd, and one in ten a star."""
    return np.where(rng.random(n) < 0.9, rng.gamma(2, 1, n), rng.lognormal(3, 1, n))


WORLDS = (
    gamma(),
    shaped("gamma 3", 0.0, lambda rng, n: rng.gamma(3, 1, n), light=True),
    shaped("gamma 0.5", 0.0, lambda rng, n: rng.gamma(0.5, 1, n), light=True),
    shaped("uniform", 0.0, lambda rng, n: rng.random(n), light=True),
    shaped("beta 0.5, 2", 0.0, lambda rng, n: rng.beta(0.5, 2, n), light=True),
    shaped("Poisson 3", 0.0, lambda rng, n: rng.poisson(3, n), light=True),
    shaped("one in ten about tenfold", 0.0, mixture([0.9, 0.1], [0.5, 9], [1.5, 11]), light=True),
    shaped("gamma 2, 60% zeros", 0.6, lambda rng, n: rng.gamma(2, 1, n), light=True),
    lognormal(0.5),
    lognormal(1),
    lognormal(1.5),
    lognormal(2),
    pareto(2.5),
    pareto(1.5),
    counts(),
    whales(),
    shaped("Weibull 0.5", 0.0, lambda rng, n: rng.weibull(0.5, n)),
    shaped("log-logistic 2", 0.0, lambda rng, n: (1 / rng.random(n) - 1) ** -0.5),
    shaped("crowd and stars", 0.0, stars),
)
"""Worlds on which the rules were set, with 50 and 200 units."""

SIZES_APART = (35, 80, 150, 500)
APART = (
    shaped("negative binomial 0.5", 0.0, lambda rng, n: rng.negative_binomial(0.5, 0.02, n), light=True),
    shaped("negative binomial 0.7, 70% zeros", 0.7, lambda rng, n: rng.negative_binomial(0.7, 0.03, n), light=True),
    shaped("beta 2, 5", 0.0, lambda rng, n: rng.beta(2, 5, n), light=True),
    shaped("Poisson 1", 0.0, lambda rng, n: rng.poisson(1, n), light=True),
    shaped("Poisson 20", 0.0, lambda rng, n: rng.poisson(20, n), light=True),
    shaped("three levels", 0.0, mixture([0.5, 0.3, 0.2], [0, 3, 8], [1, 4, 10]), light=True),
    shaped("Weibull 1.5, half zeros", 0.5, lambda rng, n: rng.weibull(1.5, n), light=True),
    lognormal(0.8),
    lognormal(1.2),
    shaped("lognormal 1.3, 40% zeros", 0.4, lambda rng, n: rng.lognormal(0, 1.3, n)),
    shaped("one in thirty a whale", 0.2, lambda rng, n: rng.lognormal(np.where(rng.random(n) < 1 / 30, 4, 0), 0.8)),
    pareto(3),
    shaped("Lomax 1.7, half zeros", 0.5, lambda rng, n: rng.pareto(1.7, n)),
)
"""Worlds that were first looked at after the rules were set."""


def narrow_and_wide(rng: np.random.Generator, n: int) -> np.ndarray:
    """Three in ten lognormal 0.9, the others lognormal 0.3."""
    return np.where(rng.random(n) < 0.3, rng.lognormal(0.5, 0.9, n), rng.lognormal(0, 0.3, n))


SIZES_FRESH = (60, 120)
FRESH = (
    shaped("half-normal", 0.0, lambda rng, n: np.abs(rng.normal(size=n)), light=True),
    shaped("triangular 0, 1, 3", 0.0, lambda rng, n: rng.triangular(0, 1, 3, n), light=True),
    shaped("geometric 0.3", 0.0, lambda rng, n: rng.geometric(0.3, n), light=True),
    shaped("gamma 0.8, 30% zeros", 0.3, lambda rng, n: rng.gamma(0.8, 1, n), light=True),
    shaped("Poisson of gamma 2", 0.0, lambda rng, n: rng.poisson(3 * rng.gamma(2, 1, n)), light=True),
    lognormal(0.7),
    shaped("lognormal 0.9 and 0.3 mixed", 0.0, narrow_and_wide, light=True),
    lognormal(1.4),
    shaped("Singh-Maddala 2, 1.5", 0.0, lambda rng, n: np.sqrt((1 - rng.random(n)) ** (-1 / 1.5) - 1)),
    shaped("size of Student's t, 3 degrees", 0.0, lambda rng, n: np.abs(rng.standard_t(3, n))),
    pareto(2),
    shaped("Zipf 2.5 (tail of Pareto 1.5)", 0.0, lambda rng, n: rng.zipf(2.5, n)),
)
"""Worlds that were looked at once, after everything; no rule was changed afterwards."""


@dataclass(frozen=True)
class Coverage:
    """How one metric fared in one design.

    Of the intervals made, how many hold the truth; how often a note cautions; the median width over the ideal one.
    """

    design: str
    metric: str
    runs: int
    covered: float
    made: float
    cautioned: float
    promised: float
    width: float = math.nan
    widest: float = math.inf

    @property
    def wide(self) -> bool:
        return self.width > self.widest

    @property
    def error(self) -> float:
        """One Monte Carlo error."""
        return math.sqrt(max(self.covered * (1 - self.covered), 0.01) / max(1, self.runs * self.made))

    @property
    def short(self) -> bool:
        return self.covered < self.promised - 2 * self.error


def of_units(world: World, units: int, runs: int, seed: int) -> Iterator[Coverage]:
    """Coverage of every metric for so many units of a world, each run a slice of one audit; what notes caution is counted."""
    rng = np.random.default_rng([seed, units, *world.name.encode()])
    amounts = np.concatenate([world.draw(rng, units) for _ in range(runs)])
    table = pl.DataFrame({"run": np.repeat(np.arange(runs), units), "n": amounts})
    call = {"unit": None, "amount": "n", "population": None, "by": "run", "interval": INTERVAL, "rng": seed}
    found = eh.inequality(table, metrics=list(METRICS), **call).frame
    for metric, truth, deviation in zip(METRICS, world.truth(), world.deviations(units, seed), strict=True):
        rows = found.filter(pl.col("metric") == metric)
        made = rows.filter(pl.col("low").is_not_nan())
        held = (
            made.select(((pl.col("low") <= truth) & (pl.col("high") >= truth)).mean()).item()
            if made.height
            else math.nan
        )
        told = rows.select(
            pl.col("note").fill_null("").str.replace("overlap", "").str.strip_chars("; ").ne("").mean()
        ).item()
        share = made.height / max(1, rows.height)
        width = np.median(made["high"] - made["low"]) / (2 * 1.96 * deviation) if made.height else math.nan
        widest = WIDEST if world.light and units >= 50 else math.inf
        name = f"{world.name}, {units:,} units"
        yield Coverage(name, metric, runs, float(held), share, float(told), PROMISED, float(width), widest)


def of_audits(design: Design, runs: int, seed: int) -> Iterator[Coverage]:
    for metric, h in hits(design, runs, seed).items():
        yield Coverage(design.name, metric, runs, h.covered, h.made, h.cautioned, design.promised, h.width)


HEAD = (
    "| units | Gini | Atkinson 0.5 | top 10% | top 5% | equal share | equivalent to top | cautioned | runs |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def wide(cells: Sequence[Coverage]) -> str:
    """A row of the table of units in docs/intervals.md: coverage / width of each metric; cautions of the Gini index."""
    held = [f"**{c.covered:.2f}**" if c.short else f"{c.covered:.2f}" for c in cells]
    widths = [f"**{c.width:.2f}**" if c.wide else f"{c.width:.2f}" for c in cells]
    pairs = " | ".join(f"{share} / {width}" for share, width in zip(held, widths, strict=True))
    return f"| {cells[0].design} | {pairs} | {cells[0].cautioned:.0%} | {cells[0].runs} |"


def line(c: Coverage) -> str:
    """A row of the table in docs/intervals.md."""
    mark = " **falls short**" if c.short else ""
    return f"| {c.design} | {c.metric} | {c.covered:.3f} ± {2 * c.error:.3f}{mark} | {c.width:.2f} | {c.cautioned:.0%} | {c.runs} |"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="60 runs a design instead of 400")
    parser.add_argument("--runs", type=int, default=None, help="runs a design")
    parser.add_argument("--only", default="", help="designs whose name holds this")
    parser.add_argument("--apart", action="store_true", help="the designs that nothing was tuned on")
    parser.add_argument("--labels", action="store_true", help="exposure with few labels")
    parser.add_argument(
        "--fresh", action="store_true", help="units of laws that were measured once, after all rules were set"
    )
    parser.add_argument("--seed", type=int, default=2022)
    args = parser.parse_args(words)
    runs = args.runs or (60 if args.quick else 400)
    print(f"95% intervals, {INTERVAL}, {runs} runs, seed {args.seed}; ± is two Monte Carlo errors")
    worlds, sizes, designs = (APART, SIZES_APART, DESIGNS_APART) if args.apart else (WORLDS, SIZES, DESIGNS)
    if args.labels:
        worlds, designs = (), tuple(make() for make in FEW_LABELS)
    if args.fresh:
        worlds, sizes, designs = FRESH, SIZES_FRESH, ()
    rows: list[Coverage] = []
    print(HEAD)
    for n in sizes:
        for world in (w for w in worlds if args.only in f"{w.name}, {n:,} units"):
            here = list(of_units(world, n, runs, args.seed))
            rows += here
            print(wide(here), flush=True)
    print("\n| design | metric | holds the truth | width | rows with a caution | runs |\n|---|---|---|---|---|---|")
    for design in (d for d in designs if args.only in d.name):
        for found in of_audits(design, runs, args.seed):
            rows.append(found)
            print(line(found), flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "coverage.json").write_text(json.dumps([asdict(c) for c in rows], indent=1))
    silent = [c for c in rows if c.short and c.cautioned < OFTEN]
    for c in silent:
        print(f"SHORT WITHOUT A CAUTION  {c.design}, {c.metric}: {c.covered:.3f}", file=sys.stderr)
    return 1 if silent else 0


if __name__ == "__main__":
    assert metrics.cards  # the registry is filled
    sys.exit(main())

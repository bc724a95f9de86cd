"""`make coverage`: how often our 95% intervals hold the truth, on designs whose truth is known (formula book F1.8, F12.8).

Inequality of 12 to 2,000 units, and every audit on small and boundary designs. A cell that falls short of 92% by more than
two Monte Carlo errors is marked; exit 1 where one does and fewer than half of its rows carry a caution.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import NormalDist

import numpy as np

from benchmarks.coverage_audits import DESIGNS, Design, hits
from benchmarks.harness import OUT
from evenhand import metrics
from evenhand.cards import asks, needing
from evenhand.tallies.spectrum import Spectra, Spectrum
from evenhand.uncertainty.intervals import Interval
from evenhand.uncertainty.rules import FEW
from evenhand.uncertainty.spectra import estimates
from evenhand.uncertainty.tails import heavy_tails

METRICS = ("gini", "atkinson(epsilon=0.5)", "top_share(p=0.1)", "top_share(p=0.01)", "equal_share", "equivalent_to_top")
SIZES = (12, 50, 200, 2_000)
FIRST = 3
"""Metrics whose coverage is promised: the first so many."""
CHUNK = 50
INTERVAL = "bootstrap(199)"
OFTEN = 0.5
"""Share of rows with a caution from which on a cell that falls short is one that the reader is told of."""


@dataclass(frozen=True)
class World:
    """A population to draw from, its true values, and the coverage that is promised for the first three metrics."""

    name: str
    draw: Callable[[np.random.Generator, int], np.ndarray]
    truth: Callable[[], list[float]]
    promised: tuple[float, float] | None = None


def lognormal(sigma: float, promised: tuple[float, float] | None = None) -> World:
    normal = NormalDist()
    tops = [1 - normal.cdf(normal.inv_cdf(1 - p) - sigma) for p in (0.1, 0.01)]
    equivalent = normal.cdf(normal.inv_cdf(tops[0]) + sigma)
    truth = [math.erf(sigma / 2), 1 - math.exp(-(sigma**2) / 4), *tops, normal.cdf(sigma), equivalent]
    return World(f"lognormal {sigma:g}", lambda rng, n: rng.lognormal(0, sigma, n), lambda: truth, promised)


def pareto(a: float) -> World:
    gini, tops = 1 / (2 * a - 1), [p ** (1 - 1 / a) for p in (0.1, 0.01)]
    atkinson, held = 1 - (a / (a - 0.5)) ** 2 * (a - 1) / a, a / (a - 1)
    truth = [gini, atkinson, *tops, 1 - 0.5**held, 1 - (1 - tops[0]) ** held]
    return World(f"Pareto {a:g}", lambda rng, n: rng.pareto(a, n) + 1, lambda: truth)


def gamma(promised: tuple[float, float]) -> World:
    """Exponential amounts: a tail that ends."""

    def truth() -> list[float]:
        from scipy.optimize import brentq

        def lorenz(p: float) -> float:
            return p + (1 - p) * math.log(1 - p)

        top = 1 - lorenz(0.9)
        points = [brentq(lambda p, at=at: lorenz(p) - at, 1e-9, 1 - 1e-9) for at in (0.5, top)]
        return [0.5, 1 - math.pi / 4, top, 1 - lorenz(0.99), *points]

    return World("gamma 1", lambda rng, n: rng.exponential(1, n), truth, promised)


def whales() -> World:
    """Half receive nothing, one in a hundred is a whale; the truth is that of four million units."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        tall = np.where(rng.random(n) < 0.02, rng.lognormal(5, 1, n), rng.lognormal(1, 1, n))
        return np.where(rng.random(n) < 0.5, 0.0, tall)

    def truth() -> list[float]:
        tally = Spectrum.of(draw(np.random.default_rng(99), 4_000_000))
        return [float(a.on(tally)) for a in asks(METRICS, needing(Spectrum))]

    return World("whales", draw, truth)


ZEROS, MU, SIGMA = 0.6, 2.0, 1.5


def counts(promised: tuple[float, float]) -> World:
    """Counts: 60% structural zeros, the others Poisson with a lognormal rate."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.where(rng.random(n) < ZEROS, 0, rng.poisson(rng.lognormal(MU, SIGMA, n)))

    return World("zero-heavy counts", draw, _truth_of_counts, promised)


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
    return [float(a.on(tally)) for a in asks(METRICS, needing(Spectrum))]


WORLDS = (
    gamma((0.92, 0.98)),
    lognormal(0.7, (0.92, 0.98)),
    lognormal(1, (0.92, 0.98)),
    counts((0.90, 0.98)),
    whales(),
    lognormal(1.2),
    lognormal(1.5),
    lognormal(2),
    pareto(1.5),
)


@dataclass(frozen=True)
class Coverage:
    """How one metric fared in one design: of the intervals made, how many hold the truth, and how often a note cautions."""

    design: str
    metric: str
    runs: int
    covered: float
    made: float
    cautioned: float
    promised: float

    @property
    def error(self) -> float:
        """One Monte Carlo error."""
        return math.sqrt(max(self.covered * (1 - self.covered), 0.01) / max(1, self.runs * self.made))

    @property
    def short(self) -> bool:
        return self.covered < self.promised - 2 * self.error


def chunk(world: int, units: int, runs: int, seed: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Low and high ends, (metrics, runs), and which runs had the note."""
    rng = np.random.default_rng(list(seed))
    worlds = Spectra.of([Spectrum.of(WORLDS[world].draw(rng, units)) for _ in range(runs)])
    labels = [(*seed, i) for i in range(runs)]
    found = estimates(worlds, asks(METRICS, needing(Spectrum)), Interval.parse(INTERVAL), seed[0], labels)
    return np.stack([e.low for e in found]), np.stack([e.high for e in found]), heavy_tails(worlds)


def of_units(world: int, units: int, runs: int, seed: int) -> Iterator[Coverage]:
    """Coverage of every metric for so many units of a world; a caution is `heavy_tail`, or few units."""
    one = WORLDS[world]
    sizes = [min(CHUNK, runs - start) for start in range(0, runs, CHUNK)]
    parts = [chunk(world, units, size, (seed, world, units, i)) for i, size in enumerate(sizes)]
    lows, highs, heavy = (np.concatenate(p, axis=-1) for p in zip(*parts, strict=True))
    for i, (a, truth) in enumerate(zip(asks(METRICS, needing(Spectrum)), one.truth(), strict=True)):
        there = ~np.isnan(lows[i])
        held = (lows[i] <= truth) & (truth <= highs[i])
        few = units < max(FEW, a.fewest)
        promised = one.promised[0] if one.promised and i < FIRST and not few else 0.92
        yield Coverage(
            f"{one.name}, {units:,} units", a.text, runs, float(held[there].mean()), float(there.mean()),
            1.0 if few else float(heavy.mean()), promised,
        )  # fmt: skip


def of_audits(design: Design, runs: int, seed: int) -> Iterator[Coverage]:
    for metric, (covered, made, cautioned) in hits(design, runs, seed).items():
        if made:
            yield Coverage(design.name, metric, runs, covered, made, cautioned, 0.92)


def line(c: Coverage) -> str:
    """A row of the table in docs/intervals.md."""
    mark = " **short**" if c.short else ""
    return f"| {c.design} | {c.metric} | {c.covered:.3f} ± {2 * c.error:.3f}{mark} | {c.cautioned:.0%} | {c.runs} |"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="60 runs a design instead of 400")
    parser.add_argument("--runs", type=int, default=None, help="runs a design")
    parser.add_argument("--only", default="", help="designs whose name holds this")
    parser.add_argument("--seed", type=int, default=2022)
    args = parser.parse_args(words)
    runs = args.runs or (60 if args.quick else 400)
    print(f"95% intervals, {INTERVAL}, {runs} runs, seed {args.seed}; ± is two Monte Carlo errors")
    print("| design | metric | holds the truth | rows with a caution | runs |\n|---|---|---|---|---|")
    rows: list[Coverage] = []
    designs = [(f"{w.name}, {n:,} units", partial(of_units, i, n)) for i, w in enumerate(WORLDS) for n in SIZES]
    designs += [(d.name, partial(of_audits, d)) for d in DESIGNS]
    for name, measure in designs:
        if args.only in name:
            for found in measure(runs, args.seed):
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

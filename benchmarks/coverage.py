"""`make coverage`: how often our 95% intervals hold the truth, on populations whose truth is known (formula book F1.8).

Many worlds of 2,000 units each go through the same code as the slices of an audit. Exit 1 where a row that must hold does
not. Heavier tails are printed as they come out: there the intervals are known to be too short, and the `heavy_tail` note
is what the reader gets.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np

from benchmarks.harness import OUT
from evenhand import metrics
from evenhand.cards import asks, needing
from evenhand.tallies.spectrum import Spectra, Spectrum
from evenhand.uncertainty.intervals import Interval
from evenhand.uncertainty.spectra import estimates
from evenhand.uncertainty.tails import heavy_tails

METRICS = ("gini", "atkinson(epsilon=0.5)", "top_share(p=0.1)", "top_share(p=0.01)")
UNITS = 2_000
CHUNK = 50


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
    truth = [math.erf(sigma / 2), 1 - math.exp(-(sigma**2) / 4), *tops]
    return World(f"lognormal {sigma:g}", lambda rng, n: rng.lognormal(0, sigma, n), lambda: truth, promised)


def pareto(a: float) -> World:
    gini, tops = 1 / (2 * a - 1), [p ** (1 - 1 / a) for p in (0.1, 0.01)]
    atkinson = 1 - (a / (a - 0.5)) ** 2 * (a - 1) / a
    return World(f"Pareto {a:g}", lambda rng, n: rng.pareto(a, n) + 1, lambda: [gini, atkinson, *tops])


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
    lognormal(0.5, (0.925, 0.97)),
    lognormal(1, (0.925, 0.97)),
    counts((0.91, 0.97)),
    lognormal(1.5),
    lognormal(2),
    pareto(1.5),
)


@dataclass(frozen=True)
class Coverage:
    """How one metric fared in one world."""

    world: str
    metric: str
    truth: float
    runs: int
    covered: float
    truth_above: float
    truth_below: float
    width: float
    heavy_tail: float
    promised: tuple[float, float] | None

    def kept(self, slack: float) -> bool:
        return self.promised is None or self.promised[0] - slack <= self.covered <= self.promised[1] + slack


def chunk(world: int, runs: int, interval: str, seed: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Low and high ends, (metrics, runs), and which runs had the note."""
    rng = np.random.default_rng(list(seed))
    worlds = Spectra.of([Spectrum.of(WORLDS[world].draw(rng, UNITS)) for _ in range(runs)])
    labels = [(*seed, i) for i in range(runs)]
    found = estimates(worlds, asks(METRICS, needing(Spectrum)), Interval.parse(interval), seed[0], labels)
    return np.stack([e.low for e in found]), np.stack([e.high for e in found]), heavy_tails(worlds)


def measure(world: int, runs: int, interval: str, seed: int, pool: ProcessPoolExecutor) -> Iterator[Coverage]:
    sizes = [CHUNK] * (runs // CHUNK) + ([runs % CHUNK] if runs % CHUNK else [])
    parts = [pool.submit(chunk, world, size, interval, (seed, world, i)) for i, size in enumerate(sizes)]
    lows, highs, heavy = (np.concatenate(p, axis=-1) for p in zip(*(part.result() for part in parts), strict=True))
    for metric, truth, low, high in zip(METRICS, WORLDS[world].truth(), lows, highs, strict=True):
        above, below = float((truth > high).mean()), float((truth < low).mean())
        promised = WORLDS[world].promised if metric != METRICS[-1] else None
        yield Coverage(
            WORLDS[world].name, metric, truth, runs, 1 - above - below, above, below, float((high - low).mean()),
            float(heavy.mean()), promised,
        )  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="200 runs instead of 2,000; promises get their sampling error"
    )
    parser.add_argument("--runs", type=int, default=None, help="worlds per row")
    parser.add_argument(
        "--interval", default="bootstrap(199)", help="default: %(default)s; the audits' own is bootstrap(999)"
    )
    parser.add_argument("--seed", type=int, default=2022)
    args = parser.parse_args(words)
    runs = args.runs or (200 if args.quick else 2_000)
    slack = 0.0 if runs >= 2_000 else 3 * math.sqrt(0.95 * 0.05 / runs)
    print(
        f"95% intervals, {args.interval}, {UNITS:,} units, {runs:,} runs, seed {args.seed}: share that holds the truth"
    )
    print(f"{'':20}" + "".join(f"{m:>24}" for m in METRICS) + f"{'heavy_tail':>12}")
    rows: list[Coverage] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for world in range(len(WORLDS)):
            found = list(measure(world, runs, args.interval, args.seed, pool))
            rows += found
            cells = (f"{c.covered:.3f}{'' if c.kept(slack) else ' !'}" for c in found)
            print(
                f"{WORLDS[world].name:20}" + "".join(f"{c:>24}" for c in cells) + f"{found[0].heavy_tail:12.2f}",
                flush=True,
            )
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "coverage.json").write_text(json.dumps([asdict(c) for c in rows], indent=1))
    broken = [c for c in rows if not c.kept(slack)]
    for c in broken:
        print(f"NOT KEPT  {c.world}, {c.metric}: {c.covered:.3f} is outside {c.promised}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    assert metrics.cards  # the registry is filled
    sys.exit(main())

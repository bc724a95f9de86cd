"""False alarms and power of naive and correct analyses of experiments with a known effect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import evenhand as eh

# eh.experiment makes its own random streams, so the rates of this study would change.
from evenhand.cards import parse_metrics
from evenhand.intervals.experiments import contrast, paired_contrast, units_contrast
from evenhand.labels import stream
from evenhand.studies.study import (
    ALPHA,
    Claim,
    Evidence,
    Figure,
    Study,
    Table,
    above_zero,
    decide,
    draw_rates,
    rate_above,
)
from evenhand.synthetic.platform import Habit, trial
from evenhand.tallies.buckets import Buckets
from evenhand.tallies.paired_amounts import PairedAmounts

DRAWS = 199  # permutations or bootstrap draws of each analysis
GINI = parse_metrics("gini", {"gini": eh.metrics.gini})
TITLE = "Did the change make it more even? False alarms and power, by design and analysis"
NAIVE, RIGHT = "as two independent results", "by what was randomised"


@dataclass(frozen=True)
class Design:
    """A design: `run(effect, rng)` returns p of the naive and of the correct analysis."""

    name: str
    randomized: str
    effect: float
    run: Callable[[float, np.random.Generator], tuple[float, float]]


@dataclass(frozen=True)
class Rates:
    """Whether each analysis called a difference (runs x analyses), without an effect and with one."""

    without_effect: np.ndarray[Any, Any]
    with_effect: np.ndarray[Any, Any]

    @property
    def false(self) -> dict[str, float]:
        return dict(zip((NAIVE, RIGHT), self.without_effect.mean(0).tolist(), strict=True))

    @property
    def power(self) -> dict[str, float]:
        return dict(zip((NAIVE, RIGHT), self.with_effect.mean(0).tolist(), strict=True))

    def power_above(self, multiple: float) -> Evidence:
        """Whether the correct analysis finds the effect more than so many times as often, in the same experiments."""
        naive, right = self.with_effect.T.astype(np.float64)
        excess = right - multiple * naive
        error = float(excess.std(ddof=1)) / math.sqrt(len(excess)) if len(excess) > 1 else math.inf
        return above_zero(float(excess.mean()), error)


def viewers(effect: float, rng: np.random.Generator, *, share: float, habit: Habit) -> tuple[float, float]:
    """Viewers randomised: the same authors in both arms."""
    frame = trial(1_000, 1_000, share=share, effect=effect, habit=habit, views=8, rng=rng)
    author, viewer = frame["author"].to_numpy(), frame["viewer"].to_numpy()
    treated = np.zeros(1_000, dtype=np.int64)
    treated[viewer] = frame["arm"].to_numpy() == "new"
    everyone, unit = np.unique(author, return_inverse=True)
    seen, bucket = np.unique(viewer, return_inverse=True)
    tally = Buckets.from_arrays(
        unit, bucket, np.ones(len(unit), dtype=np.int64), sizes=np.ones(len(seen)), arms=treated[seen]
    )
    arms = [np.bincount(unit[treated[viewer] == k], minlength=len(everyone)) for k in (1, 0)]
    right = contrast(tally, GINI, arm=1, control=0, draws=DRAWS, level=None, rng=rng)
    return independent_p(arms[0], arms[1]), float(right.p[0])


def units(effect: float, rng: np.random.Generator, *, few: int, many: int) -> tuple[float, float]:
    """Authors randomised: different authors in either arm."""
    amounts = [np.round(rng.lognormal(3, 1 - effect * arm, n)) for arm, n in ((1, few), (0, many))]
    right = units_contrast(
        PairedAmounts.from_arrays(amounts[0]),
        PairedAmounts.from_arrays(amounts[1]),
        GINI,
        draws=DRAWS,
        level=None,
        rng=rng,
    )
    return independent_p(amounts[0], amounts[1]), float(right.p[0])


def periods(effect: float, rng: np.random.Generator, *, authors: int) -> tuple[float, float]:
    """Nothing randomised: the same authors in two months."""
    usual = rng.lognormal(3, 1, authors)
    later, first = (
        np.round(usual ** (1 - effect * on) * rng.lognormal(0, 0.3, authors)) for on in (1, 0)
    )  # fmt: skip
    right = paired_contrast(PairedAmounts.from_arrays(later, first), GINI, draws=DRAWS, level=0.95, rng=rng)
    return independent_p(later, first), float(right.p[0])


def independent_p(a: Any, b: Any) -> float:
    """The p-value for equal inequality in two audits, if their errors were independent."""
    error = math.hypot(eh.metrics.gini_se(a), eh.metrics.gini_se(b))
    return math.erfc(abs(eh.metrics.gini(a) - eh.metrics.gini(b)) / error / math.sqrt(2))


DESIGNS = (
    Design("viewers 50/50", "viewers", 0.06, partial(viewers, share=0.5, habit="skewed")),
    Design("viewers 10/90", "viewers", 0.15, partial(viewers, share=0.1, habit="skewed")),
    Design("viewers 2/98", "viewers", 0.4, partial(viewers, share=0.02, habit="skewed")),
    Design("bingeing viewers 50/50", "viewers", 0.1, partial(viewers, share=0.5, habit="bingeing")),
    Design("60 against 600 authors", "authors", 0.2, partial(units, few=60, many=600)),
    Design("300 authors, two months", "nothing", 0.1, partial(periods, authors=300)),
)


RARE = "alarms without an effect are as rare as promised"


def study(*, size: int | None = None, seed: int = 1) -> Study:
    """Run `size` experiments without an effect and as many with one, in every design."""
    runs = 200 if size is None else size
    rates_by_design = {}
    for design in DESIGNS:
        rates_by_design[design.name] = rates(design, runs, seed)
    return Study(
        name="experiment",
        title=TITLE,
        setting=f"{runs:,} experiments without an effect and {runs:,} with one in each design (seed {seed}), Gini index, p at most "
        f"{ALPHA:g} counts as an alarm; one standard error of a rate of 5% is {100 * math.sqrt(ALPHA * (1 - ALPHA) / runs):.1f} points.",
        claims=decide(claims(rates_by_design, runs)),
        tables=(_table(rates_by_design),),
        figures=(Figure("rates", "Alarms without an effect and with one, by analysis.", partial(_chart, rates_by_design)),),
    )  # fmt: skip


def rates(design: Design, runs: int, seed: int) -> Rates:
    alarms = []
    for effect in (0.0, design.effect):
        p = np.array([design.run(effect, stream(seed, design.name, effect, k)) for k in range(runs)])
        alarms.append(p <= ALPHA)
    return Rates(alarms[0], alarms[1])


def claims(rates_by_design: Mapping[str, Rates], runs: int) -> list[Claim]:
    half, tenth, months = (rates_by_design[n] for n in ("viewers 50/50", "viewers 10/90", "300 authors, two months"))
    return [
        *(_rare(name, int(rates.without_effect[:, 1].sum()), runs) for name, rates in rates_by_design.items()),
        Claim(
            "Taken as independent, equal arms of viewers hide real effects", "viewers 50/50", "found in 15 to 19%",
            f"found in {half.power[NAIVE]:.0%}; by re-assigning viewers in {half.power[RIGHT]:.0%}",
            half.power_above(2.0), counts="less than half as often", is_ours=True,
        ),
        Claim(
            "Taken as independent, a small arm raises false alarms", "viewers 10/90", "85 to 100%",
            f"{tenth.false[NAIVE]:.0%}", rate_above(int(tenth.without_effect[:, 0].sum()), runs, 0.5), counts="more than half",
            is_ours=True,
        ),
        Claim(
            "Pairing finds what two samples miss", "two months", "paired far narrower",
            f"found in {months.power[RIGHT]:.0%} against {months.power[NAIVE]:.0%}", months.power_above(1.0), is_ours=True,
        ),
    ]  # fmt: skip


def _rare(name: str, alarms: int, runs: int) -> Claim:
    """Whether false alarms of the correct analysis are surely below twice the promise, or surely above the promise."""
    is_rare = Evidence(rate_above(alarms, runs, 2 * ALPHA).no, rate_above(alarms, runs, ALPHA).yes)
    return Claim(
        f"{name}: {RARE}", name, f"{ALPHA:.0%}", f"{alarms / runs:.1%}", is_rare,
        counts=f"surely below {2 * ALPHA:.0%}; no if surely above {ALPHA:.0%}", is_ours=True,
    )  # fmt: skip


def _table(rates_by_design: Mapping[str, Rates]) -> Table:
    rows = [
        (d.name, d.randomized, how, f"{rates.false[how]:.0%}", f"{rates.power[how]:.0%}")
        for d, rates in zip(DESIGNS, rates_by_design.values(), strict=True)
        for how in (NAIVE, RIGHT)
    ]
    return Table("False alarms and power", ("design", "randomised", "analysis", "false alarms", "power"), tuple(rows))


def _chart(rates_by_design: Mapping[str, Rates]) -> Any:
    rows = [
        {"design": name, "analysis": how, "metric": metric, "hits": int(calls.sum()), "trials": len(calls)}
        for name, rates in rates_by_design.items()
        for i, how in enumerate((NAIVE, RIGHT))
        for metric, calls in (("false alarms", rates.without_effect[:, i]), ("power", rates.with_effect[:, i]))
    ]
    return draw_rates("experiment", TITLE, rows)

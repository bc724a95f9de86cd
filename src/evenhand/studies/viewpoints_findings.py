"""What Draws et al. (2020) state about their simulation, compared with ours; and their two figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import evenhand as eh
from evenhand.studies.study import Claim, Figure, result_from_rows, select

SETS = ("S1", "S2", "S3")
NAMES = {"ndd": "nDD", "ndr": "nDR", "ndkl": "nDKL", "ndjs": "nDJS"}
BINARY = ("ndd", "ndr", "ndkl")
Degree = Literal["low", "medium", "high"]
BALANCED: Mapping[Degree, str] = {"low": "S3", "medium": "S2", "high": "S1"}
RANGES: Mapping[Degree, tuple[float, float]] = {"low": (0.0, 0.3), "medium": (0.3, 0.7), "high": (0.7, 1.0)}
"""Our reading of Table 5, which names no numbers: the sets by their balance, and degrees of bias in thirds."""
STATED: tuple[tuple[str, float, float, float, str], ...] = (
    ("ndd", -1.0, 0.995, 1.005, "1 for each set"),
    ("ndd", 0.0, 0.07, 0.095, "approximately 0.08"),
    ("ndd", 1.0, 0.55, 0.855, "between 0.55 and 0.85"),
    ("ndr", -1.0, 1.0, 30.0, "above 1"),
    ("ndr", 0.0, 0.03, 0.045, "approximate 0.04"),
    ("ndr", 1.0, 0.19, 0.245, "from approximately 0.19 to 0.24"),
    ("ndkl", -1.0, 0.995, 1.005, "1"),
    ("ndkl", 0.0, 0.02, 0.035, "approximated 0.03"),
    ("ndkl", 1.0, 0.40, 0.785, "between 0.40 and 0.78"),
    ("ndjs", -1.0, 0.175, 0.215, "between approximately 0.18 and 0.21"),
    ("ndjs", 0.0, 0.025, 0.035, "approximate 0.03 on all three"),
    ("ndjs", 1.0, 0.06, 0.095, "between approximately 0.07 and 0.09"),
)
"""Metric, bias, the range that the printed digits allow, and the words of section 4.2."""


@dataclass(frozen=True)
class Curves:
    """Mean value of every metric on every set along the bias."""

    alphas: list[float]
    means: Mapping[tuple[str, str], np.ndarray[Any, Any]]

    @property
    def unbiased(self) -> int:
        return self.alphas.index(0.0)

    def last(self, metric: str, name: str) -> float:
        """The mean at bias +1."""
        return float(self.means[metric, name][-1])

    def slope(
        self, metric: str, low: float, high: float, sets: Sequence[str] = SETS, signs: Sequence[int] = (-1, 1)
    ) -> float:
        """Mean rise of a metric per unit of bias between two sizes of it, cut at 1 as in the paper's figures."""
        rises = []
        for name in sets:
            for sign in signs:
                first, last = (self.means[metric, name][self.alphas.index(round(sign * a, 1))] for a in (low, high))
                rises.append((min(last, 1.0) - min(first, 1.0)) / (high - low))
        return float(np.mean(rises))

    def slopes(self, low: float, high: float, **where: Any) -> dict[str, float]:
        return {NAMES[m]: self.slope(m, low, high, **where) for m in BINARY}


def claims(points: Mapping[tuple[str, str, float], Any]) -> tuple[Claim, ...]:
    """Every statement of sections 4.2 and 5 that a number can answer."""
    alphas = sorted({a for _, _, a in points})
    curves = Curves(alphas, {(m, s): np.array([points[m, s, a].mean for a in alphas]) for m in NAMES for s in SETS})
    stated = []
    for metric, alpha, low, high, words in STATED:
        means = [points[metric, s, alpha].mean for s in SETS]
        stated.append(
            Claim(
                f"Mean {NAMES[metric]} at bias {alpha:+.0f}", "4.2.2" if metric == "ndjs" else "4.2.1", words,
                ", ".join(f"{s} {m:.3f}" for s, m in zip(SETS, means, strict=True)), all(low <= m <= high for m in means),
                counts=f"{low:g} to {high:g} on every set",
            )
        )  # fmt: skip
    table_5 = [_recommended(curves, balance, bias) for balance in BALANCED for bias in RANGES]
    detected = [_detected(points, alpha) for alpha in (0.2, 0.5, 0.8)]
    shapes = [*_on_bias(curves), *_on_balance(curves), *_on_slopes(curves), *_on_ndr(curves)]
    return (*stated, *shapes, *_on_disadvantage(points, curves), *table_5, _wording(curves), *detected)


def _listed(values: Mapping[str, float], form: str = ".2f") -> str:
    return ", ".join(f"{m} {v:{form}}" for m, v in values.items())


def _largest(values: Mapping[str, float]) -> str:
    return max(values, key=lambda m: values[m])


def _on_bias(curves: Curves) -> tuple[Claim, Claim]:
    """Whether metrics are lowest without bias, and rise on both sides of it."""
    alphas, middle = curves.alphas, curves.unbiased
    at = {NAMES[m]: sorted({alphas[int(curves.means[m, s].argmin())] for s in SETS}) for m in NAMES}
    lowest = "; ".join(f"{m} lowest at {', '.join(f'{a:+.1f}' for a in where)}" for m, where in at.items())
    falls = [
        f"{NAMES[m]} on {s}"
        for (m, s), values in curves.means.items()
        if (np.diff(values[middle:]) < -0.01).any() or (np.diff(values[: middle + 1]) > 0.01).any()
    ]
    turn = ", ".join(f"{a:+.1f} {v:.2f}" for a, v in zip(alphas[:3], curves.means["ndr", "S1"][:3], strict=True))
    return (
        Claim(
            "Each metric is lowest where there is no bias", "4.2.1", "lowest for low bias (0)", lowest,
            all(abs(a) <= 0.1 for where in at.values() for a in where),
        ),
        Claim(
            "Values rise with the size of the bias", "4.2.1", "increases as |bias| increases",
            f"not so for {', '.join(falls)}; nDR on S1: {turn}" if falls else "all rise on both sides", not falls,
        ),
    )  # fmt: skip


def _on_balance(curves: Curves) -> tuple[Claim, ...]:
    """What differs between a favoured and a disadvantaged minority, and between sets of more and less balance."""
    ratio = ", ".join(f"{NAMES[m]} {curves.means[m, 'S3'][0] / curves.last(m, 'S3'):.1f} times" for m in NAMES)
    ends = ", ".join(f"{NAMES[m]} {' > '.join(f'{curves.last(m, s):.3f}' for s in SETS)}" for m in NAMES)
    rises = {s: curves.last("ndd", s) - curves.means["ndd", s][curves.unbiased] for s in SETS}
    return (
        Claim(
            "A favoured minority is seen better than a disadvantaged one", "4.2.1", "higher for -1 than for +1",
            f"on S3 {ratio} as high", all(values[0] > values[-1] for values in curves.means.values()),
        ),
        Claim(
            "At bias +1 a more balanced set gives higher values", "4.2.1", "S1 > S2 > S3", ends,
            all(curves.last(m, "S1") > curves.last(m, "S2") > curves.last(m, "S3") for m in NAMES),
        ),
        Claim(
            "Curves are steeper with fewer minority items", "4.2.1", "steeper as the data sets contained fewer",
            f"rise of nDD from 0 to +1: {_listed(rises)}: steeper with more, as the paper's own S1 > S2 > S3 says",
            rises["S3"] > rises["S1"],
        ),
    )  # fmt: skip


def _on_slopes(curves: Curves) -> tuple[Claim, Claim]:
    """Which metric rises most with mild and with severe bias."""
    mild = curves.slopes(0.0, 0.3)
    severe = {m: v for m, v in curves.slopes(0.7, 1.0).items() if m != "nDR"}
    return (
        Claim(
            "nDD gives the most divergent values for mild bias", "5.1", "nDD most divergent for mild cases",
            f"rise per unit of bias up to 0.3: {_listed(mild)}", _largest(mild) == "nDD",
        ),
        Claim(
            "nDKL distinguishes severe bias better than nDD", "5.1", "nDKL better for more severe cases",
            f"rise per unit of bias from 0.7 to 1: {_listed(severe)}", severe["nDKL"] > severe["nDD"],
        ),
    )  # fmt: skip


def _on_ndr(curves: Curves) -> tuple[Claim, ...]:
    last = {m: {s: curves.last(m, s) for s in SETS} for m in BINARY}
    mild, medium = curves.slopes(0.0, 0.3), curves.slopes(0.3, 0.7, signs=(-1,))
    against = curves.slopes(0.0, 1.0, signs=(1,))
    ratios = {NAMES[m]: last[m]["S3"] / last[m]["S1"] for m in BINARY}
    ends = "; ".join(f"{NAMES[m]} {', '.join(f'{v:.2f}' for v in last[m].values())}" for m in ("ndd", "ndr"))
    return (
        Claim(
            "Even more than nDD, nDR stays far below 1 for a disadvantaged viewpoint", "4.2.1", "far below 1",
            f"at +1 on S1 to S3: {ends}", all(last["ndr"][s] < last["ndd"][s] for s in SETS),
        ),
        Claim(
            "nDR is less steep than nDD but steeper than nDKL", "4.2.1", "between them",
            f"rise per unit of bias up to 0.3: {_listed(mild)}", mild["nDD"] > mild["nDR"] > mild["nDKL"],
        ),
        Claim(
            "nDR is slightly better at medium levels of negative bias", "5.1", "slightly better",
            f"rise per unit of bias from -0.3 to -0.7: {_listed(medium)}", _largest(medium) == "nDR",
        ),
        Claim(
            "nDR does not distinguish levels of bias against the minority well", "4.2.1", "weak when bias is positive",
            f"rise from 0 to +1: {_listed(against)}", min(against, key=lambda m: against[m]) == "nDR", counts="the least of three",
        ),
        Claim(
            "nDR is the least vulnerable where few protected items are disadvantaged", "5.1", "most suitable metric",
            f"value at +1 on S3, of that on S1: {_listed(ratios, '.0%')}", _largest(ratios) == "nDR", counts="S3 keeps most of S1's value",
        ),
    )  # fmt: skip


def _on_disadvantage(points: Any, curves: Curves) -> tuple[Claim, Claim]:
    seen = {NAMES[m]: min(points[m, s, -0.5].detected for s in SETS) for m in BINARY}
    sides = {NAMES[m]: [curves.slope(m, 0.0, 1.0, signs=(sign,)) for sign in (-1, 1)] for m in BINARY}
    listed = ", ".join(f"{m} {a:.2f} and {b:.2f}" for m, (a, b) in sides.items())
    return (
        Claim(
            "A preferred minority is well detected by all three metrics", "5.1", "well detected",
            f"lists told from a random order at -0.5, least of the sets: {_listed(seen, '.0%')}",
            min(seen.values()) >= 0.9, counts="90% of lists or more",
        ),
        Claim(
            "All metrics lose where the minority is disadvantaged", "5.1", "decrease in performance",
            f"rise from 0 to -1, and to +1: {listed}", all(a > b for a, b in sides.values()),
        ),
    )  # fmt: skip


def _recommended(curves: Curves, balance: Degree, bias: Degree) -> Claim:
    """One cell of Table 5: whether the metric it names rises most over the degrees of bias it is named for."""
    recommended = select(eh.advise(balance=balance, bias=bias))[0]["metric"]
    (low, high), metric = RANGES[bias], NAMES[recommended]
    slopes = curves.slopes(low, high, sets=(BALANCED[balance],))
    best = _largest({m: v for m, v in slopes.items() if m != "nDR"})
    return Claim(
        f"For {balance} balance and {bias} bias the metric to use is {metric}", "Table 5", metric,
        f"rise per unit of bias from {low:g} to {high:g} on {BALANCED[balance]}: {_listed(slopes)}", best == metric,
        counts="it rises most of nDD and nDKL",
    )  # fmt: skip


def _detected(points: Any, alpha: float) -> Claim:
    shares = {
        NAMES[m]: float(np.mean([points[m, s, a].detected for s in SETS for a in (-alpha, alpha)])) for m in NAMES
    }
    named = "nDD" if alpha < 0.5 else "nDKL"
    return Claim(
        f"At a bias of {alpha:g}, no metric tells more single lists from a random order than {named}", "Table 5", "(not tested there)",
        f"lists told: {_listed(shares, '.0%')}", shares[named] == max(shares.values()), is_ours=True,
    )  # fmt: skip


def _wording(curves: Curves) -> Claim:
    chosen, others = eh.synthetic.viewpoint_weights(-1.0)
    return Claim(
        "At bias -1 one viewpoint is disadvantaged", "4.2.2", "-1: one viewpoint is disadvantaged; +1: advantaged",
        f"at -1 the chosen viewpoint has the weight {chosen:g} and the others {others:g} (nDJS {curves.means['ndjs', 'S1'][0]:.3f})",
        chosen < others,
    )  # fmt: skip


def figures(points: Mapping[tuple[str, str, float], Any]) -> tuple[Figure, ...]:
    """Figures 1 and 2 of the paper."""

    def draw(*metrics: str) -> Any:
        places = {(metrics.index(m), s, alpha): point for (m, s, alpha), point in points.items() if m in metrics}
        drawn = sorted(places.items(), key=lambda pair: pair[0])
        curve: dict[str, list[Any]] = {
            "metric": [metrics[m] for (m, _, _), _ in drawn],
            "set": [s for (_, s, _), _ in drawn],
            "alpha": [alpha for (_, _, alpha), _ in drawn],
            "mean": [point.mean for _, point in drawn],
            "chance": [point.chance for _, point in drawn],
        }
        question = "How do the metrics answer to bias?"
        return result_from_rows("viewpoints", question, (), [], curves={"bias": curve}).plot("bias")

    dashed = "by ranking bias; dashed, what random order gives."
    return (
        Figure("figure-1", f"Figure 1: nDD, nDR and nDKL {dashed}", lambda: draw(*BINARY)),
        Figure("figure-2", f"Figure 2: nDJS {dashed}", lambda: draw("ndjs")),
    )

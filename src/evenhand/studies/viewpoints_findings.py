"""What Draws et al. (2020) state about their simulation, compared with ours; and their two figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def claims(points: Mapping[tuple[str, str, float], Any]) -> tuple[Claim, ...]:
    """Every statement of sections 4.2 and 5 that a number can answer."""
    alphas = sorted({a for _, _, a in points})
    curve = {(m, s): np.array([points[m, s, a].mean for a in alphas]) for m in NAMES for s in SETS}
    return (
        *(_stated(points, *statement) for statement in STATED),
        _lowest(curve, alphas),
        _rising(curve, alphas),
        _favouring_is_seen_best(curve),
        _balance(curve),
        _steeper_with_fewer(curve, alphas),
        _mild(curve, alphas),
        _severe(curve, alphas),
        *_about_ndr(curve, alphas),
        *_when_disadvantaged(points, curve, alphas),
        *(_cell(curve, alphas, balance, bias) for balance in BALANCED for bias in RANGES),
        _wording(curve),
        *(_detected(points, alpha) for alpha in (0.2, 0.5, 0.8)),
    )


def _stated(points: Any, metric: str, alpha: float, low: float, high: float, words: str) -> Claim:
    means = [points[metric, s, alpha].mean for s in SETS]
    measured = ", ".join(f"{s} {m:.3f}" for s, m in zip(SETS, means, strict=True))
    where = "4.2.2" if metric == "ndjs" else "4.2.1"
    return Claim(
        f"Mean {NAMES[metric]} at bias {alpha:+.0f}", where, words, measured, all(low <= m <= high for m in means),
        counts=f"{low:g} to {high:g} on every set",
    )  # fmt: skip


def _lowest(curve: Any, alphas: list[float]) -> Claim:
    at = {NAMES[m]: sorted({alphas[int(curve[m, s].argmin())] for s in SETS}) for m in NAMES}
    measured = "; ".join(f"{m} lowest at {', '.join(f'{a:+.1f}' for a in where)}" for m, where in at.items())
    close = all(abs(a) <= 0.1 for where in at.values() for a in where)
    return Claim("Each metric is lowest where there is no bias", "4.2.1", "lowest for low bias (0)", measured, close)


def _rising(curve: Any, alphas: list[float]) -> Claim:
    middle = alphas.index(0.0)
    falls = [
        f"{NAMES[m]} on {s}"
        for (m, s), values in curve.items()
        if (np.diff(values[middle:]) < -0.01).any() or (np.diff(values[: middle + 1]) > 0.01).any()
    ]
    turn = "; nDR on S1: " + ", ".join(
        f"{a:+.1f} {v:.2f}" for a, v in zip(alphas[:3], curve["ndr", "S1"][:3], strict=True)
    )
    measured = "all rise on both sides" if not falls else f"not so for {', '.join(falls)}{turn}"
    return Claim("Values rise with the size of the bias", "4.2.1", "increases as |bias| increases", measured, not falls)


def _favouring_is_seen_best(curve: Any) -> Claim:
    higher = all(values[0] > values[-1] for values in curve.values())
    ratio = ", ".join(f"{NAMES[m]} {curve[m, 'S3'][0] / curve[m, 'S3'][-1]:.1f} times" for m in NAMES)
    return Claim(
        "A favoured minority is seen better than a disadvantaged one", "4.2.1", "higher for -1 than for +1",
        f"on S3 {ratio} as high", higher,
    )  # fmt: skip


def _balance(curve: Any) -> Claim:
    ordered = all(curve[m, "S1"][-1] > curve[m, "S2"][-1] > curve[m, "S3"][-1] for m in NAMES)
    measured = ", ".join(f"{NAMES[m]} {' > '.join(f'{curve[m, s][-1]:.3f}' for s in SETS)}" for m in NAMES)
    return Claim("At bias +1 a more balanced set gives higher values", "4.2.1", "S1 > S2 > S3", measured, ordered)


def _steeper_with_fewer(curve: Any, alphas: list[float]) -> Claim:
    middle = alphas.index(0.0)
    slopes = {s: curve["ndd", s][-1] - curve["ndd", s][middle] for s in SETS}
    measured = "rise of nDD from 0 to +1: " + ", ".join(f"{s} {v:.2f}" for s, v in slopes.items())
    return Claim(
        "Curves are steeper with fewer minority items", "4.2.1", "steeper as the data sets contained fewer",
        f"{measured}: steeper with more, as the paper's own S1 > S2 > S3 says", slopes["S3"] > slopes["S1"],
    )  # fmt: skip


def _slope(
    curve: Any, alphas: list[float], metric: str, low: float, high: float, *, sets: Sequence[str] = SETS,
    signs: Sequence[int] = (-1, 1),
) -> float:  # fmt: skip
    """Mean rise of a metric per unit of bias between two sizes of it; what is above 1 is not displayed in the paper."""
    rises = []
    for s in sets:
        for sign in signs:
            values = [curve[metric, s][alphas.index(round(sign * a, 1))] for a in (low, high)]
            rises.append((min(values[1], 1.0) - min(values[0], 1.0)) / (high - low))
    return float(np.mean(rises))


def _slopes(curve: Any, alphas: list[float], low: float, high: float, **where: Any) -> dict[str, float]:
    return {NAMES[m]: _slope(curve, alphas, m, low, high, **where) for m in BINARY}


def _listed(values: Mapping[str, float], form: str = ".2f") -> str:
    return ", ".join(f"{m} {v:{form}}" for m, v in values.items())


def _first(values: Mapping[str, float]) -> str:
    return max(values, key=lambda m: values[m])


def _mild(curve: Any, alphas: list[float]) -> Claim:
    slopes = _slopes(curve, alphas, 0.0, 0.3)
    return Claim(
        "nDD gives the most divergent values for mild bias", "5.1", "nDD most divergent for mild cases",
        f"rise per unit of bias up to 0.3: {_listed(slopes)}", _first(slopes) == "nDD",
    )  # fmt: skip


def _severe(curve: Any, alphas: list[float]) -> Claim:
    slopes = {m: v for m, v in _slopes(curve, alphas, 0.7, 1.0).items() if m != "nDR"}
    return Claim(
        "nDKL distinguishes severe bias better than nDD", "5.1", "nDKL better for more severe cases",
        f"rise per unit of bias from 0.7 to 1: {_listed(slopes)}", slopes["nDKL"] > slopes["nDD"],
    )  # fmt: skip


def _about_ndr(curve: Any, alphas: list[float]) -> tuple[Claim, ...]:
    last = {m: {s: float(curve[m, s][-1]) for s in SETS} for m in BINARY}
    mild, medium = _slopes(curve, alphas, 0.0, 0.3), _slopes(curve, alphas, 0.3, 0.7, signs=(-1,))
    against = _slopes(curve, alphas, 0.0, 1.0, signs=(1,))
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
            f"rise per unit of bias from -0.3 to -0.7: {_listed(medium)}", _first(medium) == "nDR",
        ),
        Claim(
            "nDR does not distinguish levels of bias against the minority well", "4.2.1", "weak when bias is positive",
            f"rise from 0 to +1: {_listed(against)}", min(against, key=lambda m: against[m]) == "nDR", counts="the least of three",
        ),
        Claim(
            "nDR is the least vulnerable where few protected items are disadvantaged", "5.1", "most suitable metric",
            f"value at +1 on S3, of that on S1: {_listed(ratios, '.0%')}", _first(ratios) == "nDR", counts="S3 keeps most of S1's value",
        ),
    )  # fmt: skip


def _when_disadvantaged(points: Any, curve: Any, alphas: list[float]) -> tuple[Claim, Claim]:
    seen = {NAMES[m]: min(points[m, s, -0.5].detected for s in SETS) for m in BINARY}
    sides = {NAMES[m]: [_slope(curve, alphas, m, 0.0, 1.0, signs=(sign,)) for sign in (-1, 1)] for m in BINARY}
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


def _cell(curve: Any, alphas: list[float], balance: Degree, bias: Degree) -> Claim:
    """One cell of Table 5: whether the metric it names rises most over the degrees of bias it is named for."""
    recommended = select(eh.advise(balance=balance, bias=bias))[0]["metric"]
    (low, high), metric = RANGES[bias], NAMES[recommended]
    slopes = _slopes(curve, alphas, low, high, sets=(BALANCED[balance],))
    best = _first({m: v for m, v in slopes.items() if m != "nDR"})
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


def _wording(curve: Any) -> Claim:
    chosen, others = eh.synthetic.viewpoint_weights(-1.0)
    return Claim(
        "At bias -1 one viewpoint is disadvantaged", "4.2.2", "-1: one viewpoint is disadvantaged; +1: advantaged",
        f"at -1 the chosen viewpoint has the weight {chosen:g} and the others {others:g} (nDJS {curve['ndjs', 'S1'][0]:.3f})",
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

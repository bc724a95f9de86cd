"""Section 4 of Draws et al. (2020), rerun: how four prefix metrics answer to a known ranking bias.

Beyond the paper: how often each metric tells a biased list from a random order, other numbers of viewpoints, and several
favoured at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.audits.declare import Labels
from evenhand.audits.declare import Table as Data
from evenhand.errors import EvenhandError

# A placement holds a thousand lists at once; eh.prefix would read 88 million rows, and draw other random orders.
from evenhand.intervals.orders import random_order_of
from evenhand.labels import matches, stream
from evenhand.metrics.prefix import TEMPLATES
from evenhand.studies.study import (
    Claim,
    Evidence,
    Figure,
    Replicates,
    Study,
    Table,
    certain,
    decide,
    every,
    on_own_data,
    read_table,
    result_from_rows,
    select,
)
from evenhand.synthetic.viewpoints import OPPOSING, SETS, viewpoint_codes
from evenhand.tallies.placement import Placement

ALPHAS = tuple(round(-1 + 0.1 * i, 1) for i in range(21))
SIDED: Mapping[str, Mapping[str, Any]] = {m: {"normalizer": "published"} for m in ("ndd", "ndr", "ndkl")}
METRICS = (*SIDED, "ndjs")
TITLE = "Viewpoint diversity in search results: four metrics against a known bias"
BATCHES = 20  # of the lists of a setting
OWN_LISTS = 500  # orders of each of the user's rankings
Sets = Mapping[str, Mapping[Any, int]]


@dataclass(frozen=True, slots=True)
class Point:
    """One metric on the lists of one setting: mean, chance level, and how many lists stand out.

    `detected` is the share of lists further from the whole than 95% of random orders of the same items. `without` has both
    without a batch of the lists, for standard errors; metrics of the same lists leave out the same ones.
    """

    mean: float
    chance: float
    detected: float
    without: tuple[Point, ...] = ()


Key = tuple[str, str, float]
Points = Mapping[Key, Point]


def study(
    *, size: int | None = None, seed: int = 1, data: Data = None, request: str | None = None, group: str | None = None,
    protected: Labels = None,
) -> Study:  # fmt: skip
    """Rerun the simulation with `size` lists per setting (the paper: 1000), 3 sets, 21 degrees of bias, 4 metrics.

    Parameters
    ----------
    data : table of ranked items with their viewpoints: three of its rankings take the place of the paper's sets.
    request : column with the query.
    group : column with the viewpoint of the item.
    protected : viewpoints that the bias is about (default: the rarest).
    """
    if on_own_data(data, {"request": request, "group": group}, {"protected": protected}, size):
        sets, side, where = _own_sets(data, str(request), str(group), protected)
        points = simulate(OWN_LISTS, seed, sets, side)
        return Study("viewpoints", TITLE, where, claims(points, stated=False), _paper_tables(points), figures(points))
    lists = 1_000 if size is None else size
    points = simulate(lists, seed)
    fewer = max(100, lists // 4)
    tables = (*_paper_tables(points), _categories_table(fewer, seed), _several_table(fewer, seed))
    total = 2 * lists * len(SETS) * len(ALPHAS)
    setting = f"{total:,} lists of 700 labels: {lists:,} for each of {len(ALPHAS)} degrees of bias and {len(SETS)} sets, twice."
    return Study("viewpoints", TITLE, setting, claims(points), tables, figures(points))


def _own_sets(data: Any, request: str, group: str, protected: Any) -> tuple[Sets, tuple[Any, ...], str]:
    """Viewpoints of three of the user's rankings, the most balanced first; the protected ones; and both in words."""
    rows, origin = read_table(data, [("request", request), ("group", group)])
    counts = rows.drop_nulls().group_by(request, group).len("many").sort(request, group)
    labels = counts.group_by(group).agg(pl.col("many").sum()).sort("many", group)[group].to_list()  # the rarest first
    side = tuple(labels[:1] if protected is None else matches("protected", protected, labels))
    many, is_protected = pl.col("many"), pl.col(group).is_in(list(side))
    shares = counts.group_by(request).agg(share=many.filter(is_protected).sum() / many.sum())
    usable = shares.filter(pl.col("share") > 0, pl.col("share") <= 0.5).sort(-pl.col("share"), request)
    if usable.height < 3:
        raise EvenhandError(
            f"{usable.height} rankings have protected viewpoints that are a minority, and the study needs three. Name other "
            "viewpoints as protected, or pass more rankings."
        )
    sets, described = {}, []
    for name, place in (("S1", 0), ("S2", usable.height // 2), ("S3", -1)):
        ranking, share = usable.row(place)
        by_label = dict(counts.filter(pl.col(request) == ranking).select(group, "many").iter_rows())
        sets[name] = {label: by_label.get(label, 0) for label in labels if label in by_label or label in side}
        described.append(f"{name} is {ranking} ({share:.0%} protected)")
    orders = f"{OWN_LISTS:,} orders of each for each of {len(ALPHAS)} degrees of bias, twice."
    return sets, side, f"{origin}: {', '.join(described)}; {orders}"


def simulate(lists: int, seed: int, sets: Sets = SETS, side: tuple[Any, ...] = OPPOSING) -> dict[Key, Point]:
    """Every metric on every set at every degree of bias; the three of two sides share their lists."""
    points: dict[Key, Point] = {}
    kinds: tuple[tuple[Literal["binomial", "multinomial"], Sequence[str]], ...] = (
        ("binomial", tuple(SIDED)), ("multinomial", ("ndjs",)),
    )  # fmt: skip
    for name, counts in sets.items():
        for kind, metrics in kinds:
            protected = side if kind == "binomial" else None
            how: dict[str, Any] = {"kind": kind, "favoured": _favoured(kind, side), "lists": lists}
            by_bias = _along_bias(metrics, counts, ALPHAS, seed, protected, name, **how)
            points |= {(metric, name, alpha): point for (metric, alpha), point in by_bias.items()}
    return points


def _favoured(kind: str, side: tuple[Any, ...]) -> Any:
    """Whom the bias is about: the paper's opposing side, or the user's, or one viewpoint of the user's at random."""
    return None if side == OPPOSING else side if kind == "binomial" else 1


def _along_bias(
    metrics: Sequence[str], counts: Mapping[Any, int], alphas: Sequence[float], seed: int, protected: Sequence[Any] | None,
    *names: str, kind: Literal["binomial", "multinomial"], **how: Any,
) -> dict[tuple[str, float], Point]:  # fmt: skip
    """Some metrics on the same lists, at several degrees of bias; `names` tell the random stream from others."""
    points: dict[tuple[str, float], Point] = {}
    random_orders: dict[str, tuple[float, float]] = {}
    for alpha in alphas:
        rng = stream(seed, "viewpoints", kind, alpha, *names)
        p = placement(viewpoint_codes(counts, alpha=alpha, kind=kind, rng=rng, **how), tuple(counts), protected)
        for metric in metrics:
            points[metric, alpha] = _point(metric, p, random_orders, seed, **SIDED.get(metric, {}))
    return points


def placement(codes: Any, labels: tuple[Any, ...], protected: Sequence[Any] | None) -> Placement:
    lists, depth = codes.shape
    ranked = Placement(codes.ravel(), np.arange(lists + 1) * depth, labels)
    return ranked.protecting(None if protected is None else list(protected))


def _point(metric: str, p: Placement, random_orders: dict[str, tuple[float, float]], seed: int, **params: Any) -> Point:
    """A metric on lists of the same items, whose random orders are drawn once and kept in `random_orders`."""
    template = TEMPLATES[metric](p, **params)
    if metric not in random_orders:
        random_orders[metric] = random_order_of(template, p, 999, seed)
    values, (chance, cut) = template.values(p), random_orders[metric]
    hits, batch = values > cut, np.arange(len(values)) % min(BATCHES, len(values))
    rest = [batch != k for k in range(batch.max() + 1)] if len(values) > 1 else []
    without = (Point(float(values[mask].mean()), chance, float(hits[mask].mean())) for mask in rest)
    return Point(float(values.mean()), chance, float(hits.mean()), tuple(without))


def _paper_tables(points: Points) -> tuple[Table, Table]:
    shown, mild = (-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0), (-0.8, -0.5, -0.3, -0.2, -0.1, 0.1, 0.2, 0.3, 0.5, 0.8)
    means, power = [], []
    for metric in METRICS:
        for name in SETS:
            by_bias = {alpha: points[metric, name, alpha] for alpha in ALPHAS}
            means.append((metric, name, *(f"{by_bias[a].mean:.3f}" for a in shown), f"{by_bias[0.0].chance:.3f}"))
            power.append((metric, name, *(f"{100 * by_bias[a].detected:.0f}%" for a in mild)))
    signed = [f"{a:+.1f}" if a else "0" for a in shown]
    title = "Mean values by ranking bias, and what random order gives exactly"
    return (
        Table(title, ("metric", "set", *signed, "chance"), tuple(means)),
        Table(
            "Lists of 700 told from a random order at the 5% level",
            ("metric", "set", *(f"{a:+.1f}" for a in mild)),
            tuple(power),
        ),
    )


BIASES = (-1.0, -0.2, 0.0, 0.2, 1.0)
HEAD = ("-1", "-0.2", "0", "+0.2", "+1", "found at -0.2", "found at +0.2")


def _ndjs_cells(counts: Mapping[Any, int], lists: int, seed: int, favoured: int) -> list[str]:
    """Means of NDJS along the bias, and how often the mild ones are found, as in `HEAD`."""
    names = ("ndjs", str(counts), str(favoured))
    how: dict[str, Any] = {"kind": "binomial", "favoured": favoured, "lists": lists}
    points = _along_bias(("ndjs",), counts, BIASES, seed, None, *names, **how)
    shares = (f"{100 * points['ndjs', alpha].detected:.0f}%" for alpha in (-0.2, 0.2))
    return [*(f"{p.mean:.3f}" for p in points.values()), *shares]


def _categories_table(lists: int, seed: int) -> Table:
    rows = []
    for many in (2, 3, 5, 7, 10, 14):
        counts = {f"v{i}": 700 // many for i in range(many)}
        # No order scores higher than blocks of ascending size.
        worst = Placement.from_arrays([g for g in sorted(counts, key=lambda g: counts[g]) for _ in range(counts[g])])
        rows.append(
            (str(many), *_ndjs_cells(counts, lists, seed, 1), f"{float(TEMPLATES['ndjs'](worst).values(worst)[0]):.3f}")
        )
    title = "nDJS with other numbers of viewpoints, one of them favoured (left) or held back (right)"
    return Table(title, ("viewpoints", *HEAD, "worst order"), tuple(rows))


def _several_table(lists: int, seed: int) -> Table:
    rows = tuple((f"{many} of 7", *_ndjs_cells(SETS["S1"], lists, seed, many)) for many in (1, 2, 3, 4, 5, 6))
    return Table("nDJS on S1 with several viewpoints favoured at once", ("favoured", *HEAD), rows)


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
    """Mean value of every metric on every set along the bias, and the share of single lists told from a random order."""

    alphas: list[float]
    means: Mapping[tuple[str, str], np.ndarray[Any, Any]]
    detected: Mapping[tuple[str, str], np.ndarray[Any, Any]]

    @property
    def unbiased(self) -> int:
        return self.alphas.index(0.0)

    def at(self, metric: str, name: str, alpha: float) -> float:
        return float(self.means[metric, name][self.alphas.index(alpha)])

    def slope(
        self, metric: str, low: float, high: float, sets: Iterable[str] = SETS, signs: Sequence[int] = (-1, 1)
    ) -> float:
        """Mean rise of a metric per unit of bias between two sizes of it, cut at 1 as in the paper's figures."""
        rises = []
        for name in sets:
            for sign in signs:
                first, last = (self.at(metric, name, round(sign * a, 1)) for a in (low, high))
                rises.append((min(last, 1.0) - min(first, 1.0)) / (high - low))
        return float(np.mean(rises))

    def slopes(self, low: float, high: float, **where: Any) -> dict[str, float]:
        return {NAMES[m]: self.slope(m, low, high, **where) for m in BINARY}

    def told(self, metric: str, alpha: float) -> float:
        """Share of lists told from a random order at a bias of either sign, over the sets."""
        places = [self.alphas.index(sign * alpha) for sign in (-1, 1)]
        return float(np.mean([self.detected[metric, s][places] for s in SETS]))


Runs = Replicates[Curves]


def curves(points: Points) -> Runs:
    """The curves of all lists, and without a batch of the lists of every setting."""
    alphas = sorted({a for _, _, a in points})
    keys = [(m, s) for m in NAMES for s in SETS]

    def build(points: Points) -> Curves:
        rows = {key: [points[(*key, a)] for a in alphas] for key in keys}
        means = {key: np.array([p.mean for p in row]) for key, row in rows.items()}
        return Curves(alphas, means, {key: np.array([p.detected for p in row]) for key, row in rows.items()})

    batches = min(len(p.without) for p in points.values())
    return Replicates(build(points), [build({key: p.without[k] for key, p in points.items()}) for k in range(batches)])


def claims(points: Points, *, stated: bool = True) -> tuple[Claim, ...]:
    """Every statement of sections 4.2 and 5 that a number can answer; without `stated`, none about the paper's own sets."""
    runs = curves(points)
    table_5 = [_recommended(runs, balance, bias) for balance in BALANCED for bias in RANGES]
    detected = [_detected(runs, alpha) for alpha in (0.2, 0.5, 0.8)]
    shapes = [*_on_bias(runs), *_on_balance(runs), *_on_slopes(runs), *_on_ndr(runs), *_on_disadvantage(runs)]
    if not stated:
        return decide((*shapes, *table_5, *detected))
    stated_means = (_stated(runs, *row) for row in STATED)
    return decide((*stated_means, *shapes, *table_5, _wording(runs.whole), *detected))


def _stated(runs: Runs, metric: str, alpha: float, low: float, high: float, words: str) -> Claim:
    is_within = runs.all_above(
        lambda c: [room for s in SETS for room in (c.at(metric, s, alpha) - low, high - c.at(metric, s, alpha))]
    )
    return Claim(
        f"Mean {NAMES[metric]} at bias {alpha:+.0f}", "4.2.2" if metric == "ndjs" else "4.2.1", words,
        ", ".join(f"{s} {runs.whole.at(metric, s, alpha):.3f}" for s in SETS), is_within, counts=f"{low:g} to {high:g} on every set",
    )  # fmt: skip


def _listed(values: Mapping[str, float], form: str = ".2f") -> str:
    return ", ".join(f"{m} {v:{form}}" for m, v in values.items())


def _on_bias(runs: Runs) -> tuple[Claim, Claim]:
    """Whether metrics are lowest without bias, and rise on both sides of it."""
    whole, keys = runs.whole, list(runs.whole.means)
    alphas, middle = whole.alphas, whole.unbiased
    at = {NAMES[m]: sorted({alphas[int(whole.means[m, s].argmin())] for s in SETS}) for m in NAMES}
    lowest = "; ".join(f"{m} lowest at {', '.join(f'{a:+.1f}' for a in where)}" for m, where in at.items())
    far = [i for i, a in enumerate(alphas) if abs(a) > 0.1]

    def is_lowest(key: tuple[str, str]) -> Evidence:
        near = min(range(middle - 1, middle + 2), key=lambda i: whole.means[key][i])
        return runs.all_above(lambda c: [c.means[key][i] - c.means[key][near] for i in far])

    # A step of the bias, away from 0: from index i to index j.
    steps = [(i, i + 1) if i >= middle else (i + 1, i) for i in range(len(alphas) - 1)]

    def rises(key: tuple[str, str]) -> Evidence:
        return runs.all_above(lambda c: [c.means[key][j] - c.means[key][i] + 0.01 for i, j in steps])

    rising = {key: rises(key) for key in keys}
    falls = [f"{NAMES[m]} on {s}" for (m, s), verdict in rising.items() if verdict.verdict(of=len(keys)) is False]
    turn = ", ".join(f"{a:+.1f} {v:.2f}" for a, v in zip(alphas[:3], whole.means["ndr", "S1"][:3], strict=True))
    return (
        Claim(
            "Each metric is lowest where there is no bias", "4.2.1", "lowest for low bias (0)", lowest, every(map(is_lowest, keys)),
            counts="lower within 0.1 of no bias than anywhere else",
        ),
        Claim(
            "Values rise with the size of the bias", "4.2.1", "increases as |bias| increases",
            f"not so for {', '.join(falls)}; nDR on S1: {turn}" if falls else "none falls on either side", every(rising.values()),
            counts="no step of 0.1 lowers a mean by 0.01",
        ),
    )  # fmt: skip


def _on_balance(runs: Runs) -> tuple[Claim, ...]:
    """What differs between a favoured and a disadvantaged minority, and between sets of more and less balance."""
    whole = runs.whole
    ratio = ", ".join(f"{NAMES[m]} {whole.at(m, 'S3', -1.0) / whole.at(m, 'S3', 1.0):.1f} times" for m in NAMES)
    ends = ", ".join(f"{NAMES[m]} {' > '.join(f'{whole.at(m, s, 1.0):.3f}' for s in SETS)}" for m in NAMES)
    rises = {s: whole.at("ndd", s, 1.0) - whole.at("ndd", s, 0.0) for s in SETS}
    keys, pairs = list(whole.means), [(m, a, b) for m in NAMES for a, b in (("S1", "S2"), ("S2", "S3"))]
    return (
        Claim(
            "A favoured minority is seen better than a disadvantaged one", "4.2.1", "higher for -1 than for +1",
            f"on S3 {ratio} as high", runs.all_above(lambda c: [c.means[k][0] - c.means[k][-1] for k in keys]),
        ),
        Claim(
            "At bias +1 a more balanced set gives higher values", "4.2.1", "S1 > S2 > S3", ends,
            runs.all_above(lambda c: [c.at(m, a, 1.0) - c.at(m, b, 1.0) for m, a, b in pairs]),
        ),
        Claim(
            "Curves are steeper with fewer minority items", "4.2.1", "steeper as the data sets contained fewer",
            f"rise of nDD from 0 to +1: {_listed(rises)}",
            runs.above(lambda c: (c.at("ndd", "S3", 1.0) - c.at("ndd", "S3", 0.0)) - (c.at("ndd", "S1", 1.0) - c.at("ndd", "S1", 0.0))),
        ),
    )  # fmt: skip


def _on_slopes(runs: Runs) -> tuple[Claim, Claim]:
    severe = {m: v for m, v in runs.whole.slopes(0.7, 1.0).items() if m != "nDR"}
    return (
        Claim(
            "nDD gives the most divergent values for mild bias", "5.1", "nDD most divergent for mild cases",
            f"rise per unit of bias up to 0.3: {_listed(runs.whole.slopes(0.0, 0.3))}",
            runs.largest(lambda c: c.slopes(0.0, 0.3), "nDD"),
        ),
        Claim(
            "nDKL distinguishes severe bias better than nDD", "5.1", "nDKL better for more severe cases",
            f"rise per unit of bias from 0.7 to 1: {_listed(severe)}",
            runs.above(lambda c: c.slope("ndkl", 0.7, 1.0) - c.slope("ndd", 0.7, 1.0)),
        ),
    )  # fmt: skip


def _on_ndr(runs: Runs) -> tuple[Claim, ...]:
    whole = runs.whole
    last = {m: {s: whole.at(m, s, 1.0) for s in SETS} for m in BINARY}
    mild, medium = whole.slopes(0.0, 0.3), whole.slopes(0.3, 0.7, signs=(-1,))
    against = whole.slopes(0.0, 1.0, signs=(1,))
    ratios = {NAMES[m]: last[m]["S3"] / last[m]["S1"] for m in BINARY}
    ends = "; ".join(f"{NAMES[m]} {', '.join(f'{v:.2f}' for v in last[m].values())}" for m in ("ndd", "ndr"))

    def steps(c: Curves) -> list[float]:
        ndd, ndr, ndkl = (c.slope(m, 0.0, 0.3) for m in ("ndd", "ndr", "ndkl"))
        return [ndd - ndr, ndr - ndkl]

    return (
        Claim(
            "Even more than nDD, nDR stays far below 1 for a disadvantaged viewpoint", "4.2.1", "far below 1",
            f"at +1 on S1 to S3: {ends}",
            runs.all_above(lambda c: [c.at("ndd", s, 1.0) - c.at("ndr", s, 1.0) for s in SETS]),
        ),
        Claim(
            "nDR is less steep than nDD but steeper than nDKL", "4.2.1", "between them",
            f"rise per unit of bias up to 0.3: {_listed(mild)}", runs.all_above(steps),
        ),
        Claim(
            "nDR is slightly better at medium levels of negative bias", "5.1", "slightly better",
            f"rise per unit of bias from -0.3 to -0.7: {_listed(medium)}",
            runs.largest(lambda c: c.slopes(0.3, 0.7, signs=(-1,)), "nDR"),
        ),
        Claim(
            "nDR does not distinguish levels of bias against the minority well", "4.2.1", "weak when bias is positive",
            f"rise from 0 to +1: {_listed(against)}",
            runs.largest(lambda c: {m: -v for m, v in c.slopes(0.0, 1.0, signs=(1,)).items()}, "nDR"), counts="the least of three",
        ),
        Claim(
            "nDR is the least vulnerable where few protected items are disadvantaged", "5.1", "most suitable metric",
            f"value at +1 on S3, of that on S1: {_listed(ratios, '.0%')}",
            runs.largest(lambda c: {NAMES[m]: c.at(m, "S3", 1.0) / c.at(m, "S1", 1.0) for m in BINARY}, "nDR"),
            counts="S3 keeps most of S1's value",
        ),
    )  # fmt: skip


def _on_disadvantage(runs: Runs) -> tuple[Claim, Claim]:
    whole, keys = runs.whole, [(m, s) for m in BINARY for s in SETS]
    place = whole.alphas.index(-0.5)
    seen = {NAMES[m]: min(float(whole.detected[m, s][place]) for s in SETS) for m in BINARY}
    sides = {NAMES[m]: [whole.slope(m, 0.0, 1.0, signs=(sign,)) for sign in (-1, 1)] for m in BINARY}
    listed = ", ".join(f"{m} {a:.2f} and {b:.2f}" for m, (a, b) in sides.items())
    return (
        Claim(
            "A preferred minority is well detected by all three metrics", "5.1", "well detected",
            f"lists told from a random order at -0.5, least of the sets: {_listed(seen, '.0%')}",
            runs.all_above(lambda c: [c.detected[k][place] for k in keys], 0.9), counts="90% of lists or more",
        ),
        Claim(
            "All metrics lose where the minority is disadvantaged", "5.1", "decrease in performance",
            f"rise from 0 to -1, and to +1: {listed}",
            runs.all_above(
                lambda c: [c.slope(m, 0.0, 1.0, signs=(-1,)) - c.slope(m, 0.0, 1.0, signs=(1,)) for m in BINARY]
            ),
        ),
    )  # fmt: skip


def _recommended(runs: Runs, balance: Degree, bias: Degree) -> Claim:
    """One cell of Table 5: whether the metric it names rises most over the degrees of bias it is named for."""
    recommended = select(eh.advise(balance=balance, bias=bias))[0]["metric"]
    (low, high), metric, sets = RANGES[bias], NAMES[recommended], (BALANCED[balance],)
    other = "ndkl" if recommended == "ndd" else "ndd"
    return Claim(
        f"For {balance} balance and {bias} bias the metric to use is {metric}", "Table 5", metric,
        f"rise per unit of bias from {low:g} to {high:g} on {BALANCED[balance]}: {_listed(runs.whole.slopes(low, high, sets=sets))}",
        runs.above(lambda c: c.slope(recommended, low, high, sets) - c.slope(other, low, high, sets)),
        counts="it rises most of nDD and nDKL",
    )  # fmt: skip


def _detected(runs: Runs, alpha: float) -> Claim:
    shares = {m: runs.whole.told(m, alpha) for m in NAMES}
    named = "ndd" if alpha < 0.5 else "ndkl"
    others = [m for m in NAMES if m != named]

    def is_not_above(m: str) -> Evidence:
        has_tie = shares[m] == shares[named]  # such as all lists told by both
        return certain(True) if has_tie else ~runs.above(lambda c: c.told(m, alpha) - c.told(named, alpha))

    return Claim(
        f"At a bias of {alpha:g}, no metric tells more single lists from a random order than {NAMES[named]}", "Table 5",
        "(not tested there)", f"lists told: {_listed({NAMES[m]: v for m, v in shares.items()}, '.0%')}",
        every(map(is_not_above, others)), is_ours=True,
    )  # fmt: skip


def _wording(whole: Curves) -> Claim:
    chosen, others = eh.synthetic.viewpoint_weights(-1.0)
    return Claim(
        "At bias -1 one viewpoint is disadvantaged", "4.2.2", "-1: one viewpoint is disadvantaged; +1: advantaged",
        f"at -1 the chosen viewpoint has the weight {chosen:g} and the others {others:g} (nDJS {whole.at('ndjs', 'S1', -1.0):.3f})",
        certain(chosen < others),
    )  # fmt: skip


def figures(points: Mapping[tuple[str, str, float], Any]) -> tuple[Figure, ...]:
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

"""Section 4 of Draws et al. (2020), rerun: how four prefix metrics answer to a known ranking bias.

Beyond the paper: how often each metric tells a biased list from a random order, other numbers of viewpoints, and several
favoured at once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from evenhand.audits.parameters import Labels
from evenhand.audits.parameters import Table as Data
from evenhand.errors import EvenhandError

# A placement holds a thousand lists at once; eh.prefix would read 88 million rows, and draw other random orders.
from evenhand.intervals.orders import Random, random_order_of
from evenhand.labels import matches, stream
from evenhand.metrics.prefix import TEMPLATES
from evenhand.studies.study import Study, Table
from evenhand.studies.user_tables import on_own_data, read_table
from evenhand.studies.viewpoints_findings import claims, figures
from evenhand.synthetic.viewpoints import OPPOSING, SETS, viewpoint_codes
from evenhand.tallies.placement import Placement

ALPHAS = tuple(round(-1 + 0.1 * i, 1) for i in range(21))
SIDED: Mapping[str, Mapping[str, Any]] = {m: {"normalizer": "published"} for m in ("ndd", "ndr", "ndkl")}
METRICS = (*SIDED, "ndjs")
TITLE = "Viewpoint diversity in search results: four metrics against a known bias"
BATCHES = 20  # of the lists of a setting
OWN_LISTS = 500  # orders of each of the user's rankings
Sets = Mapping[str, Mapping[Any, int]]
log = logging.getLogger("evenhand")
SENTENCES = (
    "Negative bias puts the protected viewpoints on top, positive bias at the bottom: section 4.2.2 of the paper has it the "
    "wrong way round, its Table 3 is right.",
    "What the paper calls telling low levels of bias apart is the slope of a mean. Whether a single list differs significantly "
    "from a random order is another question, and the second table answers it.",
)
"""What the definitions say, whatever comes out."""


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
        return Study(
            "viewpoints", TITLE, where, claims(points, stated=False), _paper_tables(points), figures(points), SENTENCES
        )
    lists = 1_000 if size is None else size
    points = simulate(lists, seed)
    fewer = max(100, lists // 4)
    tables = (*_paper_tables(points), _categories_table(fewer, seed), _several_table(fewer, seed))
    total = 2 * lists * len(SETS) * len(ALPHAS)
    setting = f"{total:,} lists of 700 labels: {lists:,} for each of {len(ALPHAS)} degrees of bias and {len(SETS)} sets, twice."
    return Study("viewpoints", TITLE, setting, claims(points), tables, figures(points), SENTENCES)


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
        log.info("set %s, %s lists for each of %s degrees of bias", name, f"{lists:,}", len(ALPHAS))
        for kind, metrics in kinds:
            random_orders: dict[str, Random] = {}
            for alpha in ALPHAS:
                rng = stream(seed, "viewpoints", kind, alpha, name)
                codes = viewpoint_codes(
                    counts, alpha=alpha, lists=lists, kind=kind, favoured=_favoured(kind, side), rng=rng
                )
                p = placement(codes, tuple(counts), side if kind == "binomial" else None)
                for metric in metrics:
                    points[metric, name, alpha] = _point(metric, p, random_orders, seed, **SIDED.get(metric, {}))
    return points


def _favoured(kind: str, side: tuple[Any, ...]) -> Any:
    """Whom the bias is about: the paper's opposing side, or the user's, or one viewpoint of the user's at random."""
    return None if side == OPPOSING else side if kind == "binomial" else 1


def _simulate_one(
    metric: str,
    counts: Mapping[Any, int],
    alphas: Sequence[float],
    lists: int,
    seed: int,
    favoured: int | Sequence[Any],
) -> dict[float, Point]:
    """One metric at several degrees of bias, with some viewpoints favoured."""
    points: dict[float, Point] = {}
    random_orders: dict[str, Random] = {}
    for alpha in alphas:
        rng = stream(seed, "viewpoints", "binomial", alpha, metric, str(counts), str(favoured))
        codes = viewpoint_codes(counts, alpha=alpha, lists=lists, kind="binomial", favoured=favoured, rng=rng)
        p = placement(codes, tuple(counts), None if isinstance(favoured, int) else favoured)
        points[alpha] = _point(metric, p, random_orders, seed)
    return points


def placement(codes: Any, labels: tuple[Any, ...], protected: Sequence[Any] | None) -> Placement:
    """Lists of one length as a placement."""
    lists, depth = codes.shape
    ranked = Placement(codes.ravel(), np.arange(lists + 1) * depth, labels)
    return ranked.protecting(None if protected is None else list(protected))


def _point(metric: str, p: Placement, random_orders: dict[str, Random], seed: int, **params: Any) -> Point:
    """A metric on lists of the same items, whose random orders are drawn once and kept in `random_orders`."""
    template = TEMPLATES[metric](p, **params)
    if metric not in random_orders:
        random_orders[metric] = random_order_of(template, p, 999, seed)
    values, chance = template.values(p), random_orders[metric]
    hits, batch = values > chance.cut, np.arange(len(values)) % min(BATCHES, len(values))
    rest = [batch != k for k in range(batch.max() + 1)] if len(values) > 1 else []
    without = (Point(float(values[mask].mean()), chance.mean, float(hits[mask].mean())) for mask in rest)
    return Point(float(values.mean()), chance.mean, float(hits.mean()), tuple(without))


def _paper_tables(points: Points) -> tuple[Table, Table]:
    """Mean values along the bias; and how many lists differ significantly from a random order."""
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


def _cells(points: Mapping[float, Point]) -> list[str]:
    """Means along the bias, and how often the mild ones are found, as in `HEAD`."""
    return [*(f"{p.mean:.3f}" for p in points.values()), *(f"{100 * points[a].detected:.0f}%" for a in (-0.2, 0.2))]


def _categories_table(lists: int, seed: int) -> Table:
    """NDJS for other numbers of viewpoints, one of them favoured or held back."""
    log.info("other numbers of viewpoints")
    rows = []
    for many in (2, 3, 5, 7, 10, 14):
        counts = {f"v{i}": 700 // many for i in range(many)}
        points = _simulate_one("ndjs", counts, BIASES, lists, seed, favoured=1)
        # No order scores higher than blocks of ascending size.
        worst = Placement.from_arrays([g for g in sorted(counts, key=lambda g: counts[g]) for _ in range(counts[g])])
        rows.append((str(many), *_cells(points), f"{float(TEMPLATES['ndjs'](worst).values(worst)[0]):.3f}"))
    title = "nDJS with other numbers of viewpoints, one of them favoured (left) or held back (right)"
    return Table(title, ("viewpoints", *HEAD, "worst order"), tuple(rows))


def _several_table(lists: int, seed: int) -> Table:
    """NDJS when several of seven viewpoints are favoured at once."""
    log.info("several viewpoints favoured at once")
    rows = tuple(
        (f"{many} of 7", *_cells(_simulate_one("ndjs", SETS["S1"], BIASES, lists, seed, favoured=many)))
        for many in (1, 2, 3, 4, 5, 6)
    )
    return Table("nDJS on S1 with several viewpoints favoured at once", ("favoured", *HEAD), rows)

"""The findings of the inequality paper, checked against a generated month or a user's log.

Every finding is a function of `Measures`, so that it can be asked again of a platform with a mechanism switched off.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import evenhand as eh
from evenhand.report.charts.inequality import middle
from evenhand.studies.inequality_log import INSIDE, NETWORK, POOLED, USUAL, ByUnit, Log
from evenhand.studies.study import (
    UNKNOWN,
    Claim,
    Evidence,
    Replicates,
    above_zero,
    certain,
    decide,
    every,
    rate_above,
    select,
)

GINI, ATKINSON, TOP_1, TOP_10 = "gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "top_share(p=0.1)"
EQUAL, EQUIVALENT = "equal_share", "equivalent_to_top(p=0.1)"
RATIOS = ("percentile_ratio", "share_ratio")
FAMILIES = (GINI, ATKINSON, TOP_1, TOP_10, EQUAL, EQUIVALENT)
REACH = "reach"

MIN_UNITS = 30  # below, nothing is read off the units of a log or of a bin
MIN_BINS = 6  # of that many units each; below, small and large accounts cannot be compared
MUCH_HIGHER = 0.1  # difference of two Gini indices
LINEAR = 0.2  # of a power: "roughly linearly"
VISIBLE = 0.01  # half an interval that is seen on an axis from 0 to 1
CORRELATED = 0.9  # correlation that counts as high
AGREEMENT = 0.8  # share of pairs in the same order: of ten pairs two may differ

NEEDS = {
    "types": "two kinds of amounts or more (amount)",
    "ratios": "an amount of which the bottom 20% have some",
    "quotes": "an amount called quotes (amount)",
    "retweets": "an amount called retweets (amount)",
    "later": "the first amount counted until a later day (later)",
    "profile_clicks": "an amount called profile_clicks (amount)",
    "sources": "two sources or more (source)",
    "networks": "which sources are in network and which are not (in_network, out_of_network)",
    "misc": "a source called misc (source)",
    "followers": "the followers of those whom a source reached (source, followers)",
    "bins": "sources in and out of network, and the followers of everyone who counts: in the log, or with a population in its "
    "table (in_network, followers, population)",
}
"""What a finding or a figure may need beside one kind of amount, and how a log is given it."""


Key = tuple[str, str]
Numbers = Mapping[Key, float]
"""A number by metric and label: of a kind of amount, or of a source."""
BATCHES = 20  # of units, left out one at a time
TOPS = {TOP_1: 0.01, TOP_10: 0.1, "top 0.1%": 0.001, "top half": 0.5}


def replicates(by_unit: ByUnit, seed: int) -> Replicates[Numbers]:
    """The numbers that verdicts compare, of all units and without a batch of them each."""
    columns = {("kind", name): x for name, x in by_unit.kinds.items()}
    columns |= {("source", name): x for name, x in by_unit.sources.items()}
    units = len(next(iter(columns.values())))
    batch = np.random.default_rng(seed).permutation(np.arange(units) % BATCHES)
    orders = {key: np.argsort(x, kind="stable") for key, x in columns.items()}
    followers = by_unit.followers
    runs: list[dict[Key, float]] = []
    for left_out in range(-1, BATCHES if units >= MIN_UNITS else 0):
        numbers: dict[Key, float] = {}
        for (role, name), x in columns.items():
            order = orders[role, name]
            units = order[batch[order] != left_out]
            numbers |= {(metric, f"{role} {name}"): value for metric, value in _numbers(x[units]).items()}
            if role == "source" and followers is not None:
                size = followers[units][x[units] > 0]
                numbers["mean followers", f"source {name}"] = float(size.mean()) if len(size) else math.nan
                is_spread = len(size) > 0 and size.sum() > 0
                numbers["gini of followers", f"source {name}"] = eh.metrics.gini(size) if is_spread else math.nan
        runs.append(numbers)
    return Replicates(runs[0], runs[1:])


def _numbers(x: Any) -> dict[str, float]:
    """Metrics of amounts in ascending order."""
    total, n = float(x.sum()), len(x)
    numbers = {REACH: float((x > 0).mean()), "mean": total / n}
    if total <= 0:
        return {**numbers, **dict.fromkeys((GINI, ATKINSON, *TOPS), math.nan)}
    tails = {name: float(x[n - max(1, round(p * n)) :].sum()) / total for name, p in TOPS.items()}
    gini = float((2 * np.arange(1, n + 1) - n - 1) @ x) / (n * total)
    return {**numbers, **tails, GINI: gini, ATKINSON: 1 - float(np.sqrt(x).mean()) ** 2 / (total / n)}


@dataclass(frozen=True, slots=True)
class Measures:
    """Measurements on one log.

    Attributes
    ----------
    log : the columns by role, and which sources are in network.
    types : inequality of each engagement type, every metric.
    crossings : pairs of engagement types whose Lorenz curves cross.
    parts : the rest, as far as the log allows. `sources`: inequality of the first amount by source; `followers`: Gini index and
        mean of followers among the units that a source reached; `bins`: mean and Gini index in and out of network by bin of
        followers; `split`: what each source adds to the Gini index.
    """

    log: Log
    types: eh.Result
    crossings: Sequence[tuple[str, str]]
    parts: Mapping[str, eh.Result]
    numbers: Replicates[Numbers]

    def above(self, first: Key, other: Key | None = None, bound: float = 0.0) -> Evidence:
        """Whether one number, or its difference to another over the same units, is above a bound."""
        return self.numbers.above(lambda n: n[first] - (n[other] if other is not None else 0.0), bound)

    @property
    def has(self) -> set[str]:
        amounts, sources = self.log.amounts, self.log.sources
        is_met = {
            "types": len(amounts) > 1, "ratios": _ratios(self.types), "later": self.log.later, "networks": self.log.networks,
            "misc": "sources" in self.parts and USUAL in sources,
        }  # fmt: skip
        return {*self.parts, *amounts, *(need for need, met in is_met.items() if met)}

    @property
    def units(self) -> int:
        return int(select(self.types)[0]["units"])

    @property
    def sources(self) -> eh.Result:
        return self.parts["sources"]

    def by_source(self, metric: str) -> dict[str, float]:
        return values(self.sources, metric, str(self.log.source))


@dataclass(frozen=True, slots=True)
class Finding:
    statement: str
    where: str
    stated: str
    needs: tuple[str, ...]
    counts: str
    read: Callable[[Measures], tuple[str, Evidence]]

    def __call__(self, m: Measures) -> Claim:
        lost = next((need for need in self.needs if need not in m.has), None)
        if lost is not None:
            measured, evidence = f"needs {NEEDS[lost]}", UNKNOWN
        elif m.units < MIN_UNITS:
            measured, evidence = f"fewer than {MIN_UNITS} units", UNKNOWN
        else:
            measured, evidence = self.read(m)
        return Claim(self.statement, self.where, self.stated, measured, evidence, self.counts)


FINDINGS: list[Finding] = []

SEPARATE = "significantly, over the same authors"


def finding(statement: str, where: str, stated: str, *needs: str, counts: str = "") -> Callable[..., Finding]:
    def declared(read: Callable[[Measures], tuple[str, Evidence]]) -> Finding:
        declaration = Finding(statement, where, stated, needs, counts, read)
        FINDINGS.append(declaration)
        return declaration

    return declared


def values(result: eh.Result, metric: str, key: str) -> dict[str, float]:
    return {str(r[key]): float(r["estimate"]) for r in select(result, metric)}


def _defined(estimates: Mapping[str, float]) -> dict[str, float]:
    return {name: x for name, x in estimates.items() if not math.isnan(x)}


def alike(first: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Share of pairs of labels that both put in the same order."""
    pairs = list(itertools.combinations(first, 2))
    same = [(first[a] - first[b]) * (other[a] - other[b]) > 0 for a, b in pairs]
    return sum(same) / len(pairs) if pairs else math.nan


def _ratios(types: eh.Result) -> set[str]:
    return {r["amount"] for r in select(types, *RATIOS) if not math.isnan(r["estimate"])}


def words(label: Any) -> str:
    return str(label).replace("_", " ")


def _listed(estimates: Mapping[str, float], digits: int = 3) -> str:
    return ", ".join(f"{words(name)} {x:,.{digits}f}" for name, x in sorted(estimates.items(), key=lambda p: p[1]))


@finding("All engagement types have a Gini index above 0.95", "figure 2a", "> 0.95")
def every_gini_is_high(m: Measures) -> tuple[str, Evidence]:
    return _ends(m, GINI, 0.95, ".3f")


@finding("The top 1% hold more than 70% of every type", "figure 2c", "> 70%")
def every_top_share_is_high(m: Measures) -> tuple[str, Evidence]:
    return _ends(m, TOP_1, 0.7, ".1%")


def _ends(m: Measures, metric: str, bound: float, form: str) -> tuple[str, Evidence]:
    estimates = values(m.types, metric, "amount")
    defined = _defined(estimates)
    if not defined:
        return "nobody received anything", UNKNOWN
    least = min(defined, key=lambda k: defined[k])
    measured = f"smallest {defined[least]:{form}} ({words(least)}), largest {max(defined.values()):{form}}"
    is_above = every(m.above((metric, f"kind {name}"), bound=bound) for name in defined)
    return measured if len(estimates) > 1 else f"{defined[least]:{form}} ({words(least)})", is_above


@finding(
    "Impressions reach furthest: their curve leaves zero first", "figure 1b", "impressions", "types", counts=SEPARATE
)
def impressions_reach_furthest(m: Measures) -> tuple[str, Evidence]:
    reach = values(m.types, REACH, "amount")
    # As many digits as tell the shares apart, up to two.
    digits = next((d for d in (0, 1) if len({round(x, d + 2) for x in reach.values()}) == len(reach)), 2)
    measured = "with any: " + ", ".join(f"{words(n)} {x:.{digits}%}" for n, x in reach.items())
    return measured, _beyond_all(m, REACH, "kind", [m.log.first], [n for n in reach if n != m.log.first])


@finding(
    "Some of the Lorenz curves cross", "figure 1", "some", "types",
    counts="significantly larger and significantly smaller top shares; no if none cross",
)  # fmt: skip
def curves_cross(m: Measures) -> tuple[str, Evidence]:
    named = ", ".join(words(f"{a} and {b}") for a, b in m.crossings[:3])
    pairs = math.comb(len(m.log.amounts), 2)
    text = f"{len(m.crossings)} of {pairs} pairs cross" + (f" ({named})" if named else "")
    if not m.crossings:
        return text, certain(False)

    def crossing(a: str, b: str) -> float:
        """The p with which some top share of one is larger, and another one smaller."""
        tops = [m.above((top, f"kind {a}"), (top, f"kind {b}")) for top in TOPS]
        return len(TOPS) * max(min(t.yes for t in tops), min(t.no for t in tops))

    return text, Evidence(yes=len(m.crossings) * min(crossing(a, b) for a, b in m.crossings))


@finding("Quotes are the most skewed type", "figure 2", "quotes", "types", "quotes", counts=SEPARATE)
def quotes_are_most_skewed(m: Measures) -> tuple[str, Evidence]:
    return _at_the_end(m, m.types, "amount", ["quotes"], most=True)


@finding(
    "Sharing to one's own followers (retweets, quotes) is more skewed than every other type", "use case 1", "the most skewed",
    "types", "quotes", "retweets", counts=SEPARATE,
)  # fmt: skip
def sharing_is_most_skewed(m: Measures) -> tuple[str, Evidence]:
    return _at_the_end(m, m.types, "amount", ["quotes", "retweets"], most=True)


@finding(
    "Profile clicks are the least skewed type", "figure 2", "profile clicks", "types", "profile_clicks", counts=SEPARATE
)
def profile_clicks_are_least_skewed(m: Measures) -> tuple[str, Evidence]:
    return _at_the_end(m, m.types, "amount", ["profile_clicks"], most=False)


def _beyond_all(m: Measures, metric: str, role: str, names: Sequence[str], others: Sequence[str]) -> Evidence:
    pairs = [((metric, f"{role} {a}"), (metric, f"{role} {b}")) for a in names for b in others]
    return m.numbers.all_above(lambda n: [n[a] - n[b] for a, b in pairs])


def _at_the_end(m: Measures, result: eh.Result, key: str, names: Sequence[str], *, most: bool) -> tuple[str, Evidence]:
    estimates, role = _defined(values(result, GINI, key)), "kind" if key == "amount" else "source"
    others = [other for other in estimates if other not in names]
    if lost := [name for name in names if name not in estimates]:
        return f"nobody received any {words(lost[0])}", UNKNOWN
    if not others:
        return "nobody received anything else", UNKNOWN
    nearest = (max if most else min)(others, key=lambda k: estimates[k])
    named = ", ".join(f"{words(name)} {estimates[name]:.3f}" for name in names)
    text = f"{named}; of the others {'most' if most else 'least'}: {words(nearest)} {estimates[nearest]:.3f}"
    sides = (names, others) if most else (others, names)
    return text, _beyond_all(m, GINI, role, *sides)


@finding(
    "80/20 ratios are defined for impressions only", "figure 2b", "impressions", "types",
    counts="impressions reach significantly more than 80% of authors, the others fewer",
)  # fmt: skip
def ratios_need_impressions(m: Measures) -> tuple[str, Evidence]:
    defined = _ratios(m.types)
    reached = {name: m.above((REACH, f"kind {name}"), bound=0.8) for name in m.log.amounts}
    verdict = every(is_above if name == m.log.first else ~is_above for name, is_above in reached.items())
    return "defined for " + (", ".join(sorted(map(words, defined))) or "none"), verdict


@finding(
    "All metric families generally agree on the order of the types", "figure 2", "agree", "types",
    counts=f"{AGREEMENT:.0%} of pairs or more, of those that the Gini index tells apart, by every family",
)  # fmt: skip
def metrics_agree(m: Measures) -> tuple[str, Evidence]:
    order = _defined(values(m.types, GINI, "amount"))
    pairs = list(itertools.combinations(order, 2))
    separated = [
        (a, b) for a, b in pairs if m.above((GINI, f"kind {a}"), (GINI, f"kind {b}")).verdict(len(pairs)) is not None
    ]
    if not separated:
        return "the Gini index tells no two types apart", UNKNOWN
    others = {}
    for metric in FAMILIES[1:]:
        by_type = values(m.types, metric, "amount")
        others[metric] = sum((order[a] - order[b]) * (by_type[a] - by_type[b]) > 0 for a, b in separated) / len(
            separated
        )
    worst = min(others, key=lambda k: others[k])
    agreement = f"{others[worst]:.0%} ({worst}) to {max(others.values()):.0%}"
    measured = f"{len(separated)} of {len(pairs)} pairs told apart; as by the Gini index: {agreement}"
    return measured, certain(others[worst] >= AGREEMENT)


@finding(
    "Counting until later changes next to nothing", "note 1", "negligible", "later",
    counts=f"significantly less than {VISIBLE} in every metric",
)  # fmt: skip
def later_counts_change_nothing(m: Measures) -> tuple[str, Evidence]:
    first, later = f"kind {m.log.first}", f"kind {m.log.later}"

    def changes(n: Numbers) -> dict[str, float]:
        return {metric: n[metric, later] - n[metric, first] for metric in (GINI, ATKINSON, TOP_1, TOP_10)}

    text = ", ".join(f"{metric} {change:+.4f}" for metric, change in changes(m.numbers.whole).items())
    are_small = m.numbers.all_above(lambda n: [VISIBLE + sign * x for x in changes(n).values() for sign in (1, -1)])
    return f"later less at once: {text}", are_small


@finding(
    "Out-of-network suggestions are more skewed than in-network ranking", "figure 3", "in network lowest", "sources", "networks",
    counts=SEPARATE,
)  # fmt: skip
def out_of_network_is_more_skewed(m: Measures) -> tuple[str, Evidence]:
    estimates = _defined(m.by_source(GINI))
    inside, outside = ([str(s) for s in side if str(s) in estimates] for side in (m.log.inside, m.log.outside))
    if not inside or not outside:
        return _listed(estimates), UNKNOWN
    return _listed(estimates), _beyond_all(m, GINI, "source", outside, inside)


@finding("Miscellaneous suggestions are the most skewed source", "figure 3", "misc", "sources", "misc", counts=SEPARATE)
def misc_is_most_skewed(m: Measures) -> tuple[str, Evidence]:
    return _at_the_end(m, m.sources, str(m.log.source), [USUAL], most=True)


@finding(
    "Gini index, Atkinson index and top 1% share are highly correlated", "note 2", "highly", "sources",
    counts=f"a correlation of {CORRELATED} or more between any two, over the sources",
)  # fmt: skip
def metrics_are_correlated(m: Measures) -> tuple[str, Evidence]:
    by_metric = [_defined(m.by_source(metric)) for metric in (GINI, ATKINSON, TOP_1)]
    shared = [name for name in by_metric[0] if all(name in estimates for estimates in by_metric)]
    spread = all(len({estimates[name] for name in shared}) > 1 for estimates in by_metric)
    if len(shared) < 3 or not spread:
        return "fewer than three sources that differ", UNKNOWN
    of = np.corrcoef([[estimates[name] for name in shared] for estimates in by_metric])
    text = f"Gini and Atkinson {of[0, 1]:.2f}, Gini and top 1% {of[0, 2]:.2f}, Atkinson and top 1% {of[1, 2]:.2f}"

    def least(n: Numbers) -> float:
        rows = [[n[metric, f"source {name}"] for name in shared] for metric in (GINI, ATKINSON, TOP_1)]
        return float(np.corrcoef(rows).min()) if min(map(np.ptp, rows)) > 0 else math.nan

    return text, m.numbers.above(least, CORRELATED)


@finding(
    "Sources with a larger Gini index reach authors with more followers", "figure 4", "rises", "sources", "followers",
    counts=f"{AGREEMENT:.0%} of pairs or more",
)  # fmt: skip
def skewed_sources_reach_the_followed(m: Measures) -> tuple[str, Evidence]:
    return _with_followers(m, "mean", 0)


@finding(
    "Sources with a larger Gini index reach authors with more unequal followers", "figure 4", "rises", "sources", "followers",
    counts=f"{AGREEMENT:.0%} of pairs or more",
)  # fmt: skip
def skewed_sources_reach_unequal_followers(m: Measures) -> tuple[str, Evidence]:
    return _with_followers(m, GINI, 3)


def _with_followers(m: Measures, metric: str, digits: int) -> tuple[str, Evidence]:
    skew, estimates = m.by_source(GINI), _defined(values(m.parts["followers"], metric, str(m.log.source)))
    if len(estimates) < 2:
        return f"fewer than two sources: {_listed(estimates, digits)}", UNKNOWN
    if max(estimates.values()) - min(estimates.values()) <= 0.01 * max(estimates.values()):
        return f"the same for all: {_listed(estimates, digits)}", certain(False)
    same = alike({name: skew[name] for name in estimates}, estimates)
    number = "mean followers" if metric == "mean" else "gini of followers"

    def share(n: Numbers) -> float:
        skews, sizes = ({name: n[k, f"source {name}"] for name in estimates} for k in (GINI, number))
        return alike(skews, sizes)

    # A share of few pairs: below the bound and not on it is a no.
    verdict = (
        m.numbers.above(share, AGREEMENT - 0.01)
        if (number, f"source {next(iter(estimates))}") in m.numbers.whole
        else UNKNOWN
    )
    return f"{same:.0%} of pairs rise together; {_listed(estimates, digits)}", verdict


TOO_FEW_BINS = f"fewer than {MIN_BINS} bins with {MIN_UNITS} authors"


def _by_bin(m: Measures, metric: str, fewest: int = MIN_UNITS) -> list[tuple[float, float, float, int]]:
    """Per large enough bin of followers: its middle, both networks' values, and its authors."""
    low, high = (f"{m.log.followers}_{end}" for end in ("low", "high"))
    by_network: dict[str, dict[float, tuple[float, int]]] = {INSIDE: {}, m.log.other: {}}
    for r in select(m.parts["bins"], metric):
        if r[low] is not None and r["units"] >= fewest and not math.isnan(r["estimate"]):
            by_network[r[NETWORK]][middle(r[low], r[high])] = (float(r["estimate"]), int(r["units"]))
    inside, outside = by_network.values()
    return [(x, inside[x][0], outside[x][0], inside[x][1]) for x in sorted(set(inside) & set(outside))]


Bin = tuple[float, float, float, int]


def _without_a_bin(rows: Sequence[Bin]) -> Replicates[Sequence[Bin]]:
    return Replicates(rows, [[*rows[:i], *rows[i + 1 :]] for i in range(len(rows))])


def _power(rows: Sequence[Bin], side: int) -> float:
    """The power of followers with which the mean grows: the slope of logarithms."""
    return float(np.polyfit(np.log([r[0] for r in rows]), np.log([r[side] for r in rows]), 1)[0])


def _powers(m: Measures) -> tuple[str, Replicates[Sequence[Bin]] | None]:
    rows = [r for r in _by_bin(m, "mean") if min(r[:3]) > 0]
    if len(rows) < MIN_BINS:
        return TOO_FEW_BINS, None
    text = f"powers of followers: in network {_power(rows, 1):.2f}, {words(m.log.other)} {_power(rows, 2):.2f}"
    return text, _without_a_bin(rows)


@finding(
    "In network, impressions grow roughly linearly with followers", "use case 2", "roughly linearly", "bins",
    counts=f"a power significantly within {LINEAR} of 1",
)  # fmt: skip
def in_network_grows_linearly(m: Measures) -> tuple[str, Evidence]:
    text, bins = _powers(m)
    return text, UNKNOWN if bins is None else bins.within(lambda r: _power(r, 1), 1 - LINEAR, 1 + LINEAR)


@finding(
    "Out of network, impressions grow faster than linearly with followers", "use case 2", "likely faster", "bins",
    counts="a power significantly above 1",
)  # fmt: skip
def out_of_network_grows_faster(m: Measures) -> tuple[str, Evidence]:
    text, bins = _powers(m)
    return text, UNKNOWN if bins is None else bins.above(lambda r: _power(r, 2), 1.0)


@finding(
    "Impressions grow with followers at a similar rate in and out of network", "figure 5a", "similar", "bins",
    counts="powers significantly within a quarter",
)  # fmt: skip
def reach_grows_alike(m: Measures) -> tuple[str, Evidence]:
    text, bins = _powers(m)

    def rooms(rows: Sequence[Bin]) -> list[float]:
        inside, outside = _power(rows, 1), _power(rows, 2)
        return [0.25 * inside - abs(inside - outside), inside, outside]

    return text, UNKNOWN if bins is None else bins.all_above(rooms)


@finding(
    "Authors in general get more impressions from in-network ranking than from suggestions", "figure 5a", "more", "bins",
    counts="a significantly larger mean, and in significantly more than half of the bins",
)  # fmt: skip
def in_network_shows_more(m: Measures) -> tuple[str, Evidence]:
    rows, whole = _by_bin(m, "mean"), _by_bin(m, "mean", fewest=1)
    more, units = sum(inside > outside for _, inside, outside, _ in rows), sum(r[3] for r in whole)
    inside, outside = (sum(r[k] * r[3] for r in whole) / units for k in (1, 2))
    form = ",.0f" if min(inside, outside) >= 10 else ",.2f"
    measured = f"mean {inside:{form}} against {outside:{form}} ({words(m.log.other)}); more in {more} of {len(rows)} bins of followers"
    compared = m.log.outside if m.log.figure_5 == POOLED else (m.log.figure_5,)

    def difference(n: Numbers) -> float:
        inner, outer = (sum(n["mean", f"source {s}"] for s in side) for side in (m.log.inside, compared))
        return inner - outer

    return measured, every((m.numbers.above(difference), rate_above(more, len(rows), 0.5)))


@finding(
    "Out of network, a smaller fraction of authors with few followers is reached", "figure 5b", "a smaller fraction", "bins",
    counts="significantly smaller than of authors with more followers, and than in network",
)  # fmt: skip
def few_small_accounts_are_reached(m: Measures) -> tuple[str, Evidence]:
    rows = _by_bin(m, REACH)
    if len(rows) < MIN_BINS:
        return TOO_FEW_BINS, UNKNOWN
    half = len(rows) // 2

    def share(part: Sequence[Bin], side: int) -> tuple[float, float]:
        """The share of authors reached, and its variance."""
        units = sum(r[3] for r in part)
        reached = sum(r[side] * r[3] for r in part) / units
        return reached, reached * (1 - reached) / units

    low, high, inside = share(rows[:half], 2), share(rows[half:], 2), share(rows[:half], 1)
    text = (
        f"{words(m.log.other)} reaches {low[0]:.0%} of the lower half of the bins and {high[0]:.0%} of the upper; in network "
        f"{inside[0]:.0%} of the lower"
    )

    def larger(a: tuple[float, float], b: tuple[float, float]) -> Evidence:
        return above_zero(a[0] - b[0], math.sqrt(a[1] + b[1]))

    return text, every((larger(high, low), larger(inside, low)))


def _gaps(rows: Sequence[Bin]) -> list[float]:
    return [outside - inside for _, inside, outside, _ in rows]


@finding(
    "Within bins, out-of-network is much more skewed for authors with few followers", "figure 5b", "much more", "bins",
    counts=f"higher in every lower bin, and significantly by {MUCH_HIGHER} on average",
)  # fmt: skip
def small_accounts_are_skewed_out_of_network(m: Measures) -> tuple[str, Evidence]:
    rows = _by_bin(m, GINI)
    if len(rows) < MIN_BINS:
        return TOO_FEW_BINS, UNKNOWN
    lower = rows[: len(rows) // 2]
    gaps = _gaps(lower)
    text = (
        f"{words(m.log.other)}: Gini index higher by {min(gaps):.2f} to {max(gaps):.2f} in the {len(gaps)} lower bins"
    )
    return text, every(
        (_without_a_bin(lower).above(lambda r: float(np.mean(_gaps(r))), MUCH_HIGHER), certain(min(gaps) > 0 or None))
    )


@finding(
    "Within bins, both are close for the authors with most followers", "figure 5b", "close", "bins",
    counts="the size of the gap in the largest third of bins is significantly less than half of that in the smallest",
)  # fmt: skip
def large_accounts_are_alike(m: Measures) -> tuple[str, Evidence]:
    rows = _by_bin(m, GINI)
    if len(rows) < MIN_BINS:
        return TOO_FEW_BINS, UNKNOWN
    side = len(rows) // 3
    small, large = (np.abs(_gaps(part)) for part in (rows[:side], rows[-side:]))
    x, inside, outside, units = rows[-1]
    measured = (
        f"gap of {large.mean():.2f} in the {side} largest bins, {small.mean():.2f} in the {side} smallest; in the last bin "
        f"({units:,} authors around {x:,.0f} followers) {outside:.2f} against {inside:.2f}"
    )
    difference = float(small.mean() / 2 - large.mean())
    error = math.sqrt((float(small.var(ddof=1)) / 4 + float(large.var(ddof=1))) / side)
    return measured, above_zero(difference, error, 2 * side - 2)


@finding("The top share has the widest range over engagement types", "figure 2, Table 2", "top share", "types")
def top_share_spreads_types(m: Measures) -> tuple[str, Evidence]:
    return _spread(m, m.types, "amount", FAMILIES)


@finding("The top share has the widest range over sources", "figure 3, Table 2", "top share", "sources")
def top_share_spreads_sources(m: Measures) -> tuple[str, Evidence]:
    return _spread(m, m.sources, str(m.log.source), (GINI, ATKINSON, TOP_1, TOP_10))


def _spread(m: Measures, result: eh.Result, key: str, metrics: Sequence[str]) -> tuple[str, Evidence]:
    """Effect size as in the paper's figures: the range of each metric over slices."""
    ranges = {}
    for metric in metrics:
        estimates = _defined(values(result, metric, key)).values()
        ranges[metric] = max(estimates, default=math.nan) - min(estimates, default=math.nan)
    if any(map(math.isnan, ranges.values())):
        return "nobody received anything", UNKNOWN
    widest, role = max(ranges, key=lambda k: ranges[k]), "kind" if key == "amount" else "source"
    names = list(_defined(values(result, GINI, key)))

    def lead(n: Numbers) -> float:
        """How much wider the range of a top share is than that of the other metrics."""
        spans = {k: np.ptp([n[k, f"{role} {name}"] for name in names]) for k in (GINI, ATKINSON, TOP_1, TOP_10)}
        return float(max(spans[TOP_1], spans[TOP_10]) - max(spans[GINI], spans[ATKINSON]))

    is_wider = m.numbers.above(lead)
    return _listed(ranges), is_wider if widest in (GINI, ATKINSON, TOP_1, TOP_10) else Evidence(no=is_wider.no)


@finding("Bootstrap errors are too small to be seen", "figures 2, 3", "invisible", counts=f"at most {VISIBLE}")
def errors_are_small(m: Measures) -> tuple[str, Evidence]:
    parts = {"amount": m.types} | ({str(m.log.source): m.sources} if "sources" in m.parts else {})
    halves = {
        f"{r['metric']} of {r[key]}": (r["high"] - r["low"]) / 2
        for key, part in parts.items()
        for r in select(part, *FAMILIES)
        if not math.isnan(r["high"] - r["low"])
    }
    if not halves:
        return "no intervals were drawn", UNKNOWN
    widest = max(halves, key=lambda k: halves[k])
    gini = max((half for name, half in halves.items() if name.startswith(GINI)), default=math.nan)
    wide, gini_half = (f"{half:.3f}" if not half < 0.001 else "below 0.001" for half in (halves[widest], gini))
    measured = f"widest half interval {wide} ({words(widest)}); of a Gini index {gini_half}"
    return measured, certain(halves[widest] <= VISIBLE)


def claims(m: Measures) -> tuple[Claim, ...]:
    """Every stated finding beside what was measured."""
    return decide(finding(m) for finding in FINDINGS)

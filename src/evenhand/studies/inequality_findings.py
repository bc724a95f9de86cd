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
from evenhand.errors import listing
from evenhand.report.charts.parts import middle
from evenhand.studies.inequality_log import INSIDE, NETWORK, USUAL, Log
from evenhand.studies.study import Claim, select

GINI, ATKINSON, TOP_1, TOP_10 = "gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "top_share(p=0.1)"
EQUAL, EQUIVALENT = "equal_share", "equivalent_to_top(p=0.1)"
RATIOS = ("percentile_ratio", "share_ratio")
FAMILIES = (GINI, ATKINSON, TOP_1, TOP_10, EQUAL, EQUIVALENT)
REACH = "reach"

MIN_UNITS = 30  # below, nothing is read off the units of a log or of a bin
MIN_BINS = 6  # of that many units each; below, small and large accounts cannot be compared
MUCH_HIGHER = 0.1  # difference of two Gini indices
VISIBLE = 0.01  # half an interval that is seen on an axis from 0 to 1
CORRELATED = 0.9  # correlation that counts as high
AGREEMENT = 0.8  # share of pairs in the same order: of ten pairs two may differ

NEEDS = {
    "types": "two kinds of amounts or more (amount)",
    "ratios": "an amount of which the bottom 20% have some",
    "quotes": "an amount called quotes (amount)",
    "profile_clicks": "an amount called profile_clicks (amount)",
    "sources": "two sources or more (source)",
    "networks": "which sources are in network and which are not (in_network, out_of_network)",
    "misc": "a source called misc (source)",
    "followers": "the followers of those whom a source reached (source, followers)",
    "bins": "sources in and out of network, and the followers of everyone who counts: in the log, or with a population in its "
    "table (in_network, followers, population)",
}
"""What a finding or a figure may need beside one kind of amount, and how a log is given it."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Measurements on one log.

    Attributes
    ----------
    log : the columns by role, and which sources are in network.
    types : inequality of each engagement type, every metric.
    crossings : pairs of engagement types whose Lorenz curves cross.
    parts : the rest, as far as the log allows. `sources`: inequality of the first amount by source; `networks`: the same with
        out-of-network sources merged; `followers`: Gini index and mean of followers among the units that a source
        reached; `bins`: mean and Gini index in and out of network by bin of followers; `split`: what each source adds to the
        Gini index.
    """

    log: Log
    types: eh.Result
    crossings: Sequence[tuple[str, str]]
    parts: Mapping[str, eh.Result]

    @property
    def has(self) -> set[str]:
        """The needs that are met."""
        amounts, sources = self.log.amounts, self.log.sources
        return {
            *self.parts, *({"types"} if len(amounts) > 1 else ()), *({"quotes", "profile_clicks"} & set(amounts)),
            *({"ratios"} if _ratios(self.types) else ()), *({"misc"} if "sources" in self.parts and USUAL in sources else ()),
        }  # fmt: skip

    @property
    def units(self) -> int:
        return int(select(self.types)[0]["units"])

    @property
    def sources(self) -> eh.Result:
        return self.parts["sources"]

    def by_source(self, metric: str) -> dict[str, float]:
        """A metric of the first amount by source."""
        return values(self.sources, metric, str(self.log.source))


@dataclass(frozen=True, slots=True)
class Finding:
    """A published finding, and the function that reads it off the measurements."""

    statement: str
    where: str
    stated: str
    needs: tuple[str, ...]
    counts: str
    read: Callable[[Measures], tuple[str, bool | None]]

    def lacks(self, m: Measures) -> str | None:
        """The first need that the log does not meet."""
        return next((need for need in self.needs if need not in m.has), None)

    def __call__(self, m: Measures) -> Claim:
        lost = self.lacks(m)
        if lost is not None:
            measured, holds = f"needs {NEEDS[lost]}", None
        elif m.units < MIN_UNITS:
            measured, holds = f"fewer than {MIN_UNITS} units", None
        else:
            measured, holds = self.read(m)
        return Claim(self.statement, self.where, self.stated, measured, holds, self.counts)


FINDINGS: list[Finding] = []

SEPARATE, OVERLAPPING = "the intervals do not overlap", "whose intervals overlap"


def finding(statement: str, where: str, stated: str, *needs: str, counts: str = "") -> Callable[..., Finding]:
    """Declare a finding of the paper with what it needs and what is taken for coming out."""

    def declared(read: Callable[[Measures], tuple[str, bool | None]]) -> Finding:
        declaration = Finding(statement, where, stated, needs, counts, read)
        FINDINGS.append(declaration)
        return declaration

    return declared


def values(result: eh.Result, metric: str, key: str) -> dict[str, float]:
    """The estimates of one metric by the labels of one slice column."""
    return {str(r[key]): float(r["estimate"]) for r in select(result, metric)}


def above(result: eh.Result, key: str, first: str, other: str) -> bool | None:
    """Whether the Gini index of one slice is above another's; None if intervals overlap.

    Without intervals the estimates decide.
    """
    rows = {str(r[key]): r for r in select(result, GINI)}
    (low, high), (other_low, other_high) = (
        (r["estimate"], r["estimate"]) if math.isnan(r["low"] + r["high"]) else (r["low"], r["high"])
        for r in (rows[first], rows[other])
    )
    return True if low > other_high else False if high <= other_low else None


def _defined(estimates: Mapping[str, float]) -> dict[str, float]:
    return {name: x for name, x in estimates.items() if not math.isnan(x)}


def alike(first: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Share of pairs of labels that both put in the same order."""
    pairs = list(itertools.combinations(first, 2))
    same = [(first[a] - first[b]) * (other[a] - other[b]) > 0 for a, b in pairs]
    return sum(same) / len(pairs) if pairs else math.nan


def _ratios(types: eh.Result) -> set[str]:
    """The types of which a ratio is defined."""
    return {r["amount"] for r in select(types, *RATIOS) if not math.isnan(r["estimate"])}


def words(label: Any) -> str:
    return str(label).replace("_", " ")


def _listed(estimates: Mapping[str, float], digits: int = 3) -> str:
    return ", ".join(f"{words(name)} {x:,.{digits}f}" for name, x in sorted(estimates.items(), key=lambda p: p[1]))


@finding("All engagement types have a Gini index above 0.95", "figure 2a", "> 0.95")
def every_gini_is_high(m: Measures) -> tuple[str, bool | None]:
    return _ends(values(m.types, GINI, "amount"), 0.95, ".3f")


@finding("The top 1% hold more than 70% of every type", "figure 2c", "> 70%")
def every_top_share_is_high(m: Measures) -> tuple[str, bool | None]:
    return _ends(values(m.types, TOP_1, "amount"), 0.7, ".1%")


def _ends(estimates: Mapping[str, float], bound: float, form: str) -> tuple[str, bool | None]:
    defined = _defined(estimates)
    if not defined:
        return "nobody received anything", None
    least = min(defined, key=lambda k: defined[k])
    measured = f"smallest {defined[least]:{form}} ({words(least)}), largest {max(defined.values()):{form}}"
    return measured if len(estimates) > 1 else f"{defined[least]:{form}} ({words(least)})", defined[least] > bound


@finding("Impressions reach furthest: their curve leaves zero first", "figure 1b", "impressions", "types")
def impressions_reach_furthest(m: Measures) -> tuple[str, bool | None]:
    reach = values(m.types, REACH, "amount")
    # As many digits as tell the shares apart, up to two.
    digits = next((d for d in (0, 1) if len({round(x, d + 2) for x in reach.values()}) == len(reach)), 2)
    measured = "with any: " + ", ".join(f"{words(n)} {x:.{digits}%}" for n, x in reach.items())
    return measured, all(reach[m.log.first] > x for name, x in reach.items() if name != m.log.first)


@finding("Some of the Lorenz curves cross", "figure 1", "some", "types")
def curves_cross(m: Measures) -> tuple[str, bool | None]:
    named = ", ".join(words(f"{a} and {b}") for a, b in m.crossings[:3])
    pairs = math.comb(len(m.log.amounts), 2)
    return f"{len(m.crossings)} of {pairs} pairs cross" + (f" ({named})" if named else ""), bool(m.crossings)


@finding("Quotes are the most skewed type", "figure 2", "quotes", "types", "quotes", counts=SEPARATE)
def quotes_are_most_skewed(m: Measures) -> tuple[str, bool | None]:
    return _at_the_end(m.types, "amount", "quotes", most=True)


@finding(
    "Profile clicks are the least skewed type", "figure 2", "profile clicks", "types", "profile_clicks", counts=SEPARATE
)
def profile_clicks_are_least_skewed(m: Measures) -> tuple[str, bool | None]:
    return _at_the_end(m.types, "amount", "profile_clicks", most=False)


def _at_the_end(result: eh.Result, key: str, name: str, *, most: bool) -> tuple[str, bool | None]:
    """Whether a slice is more, or less, skewed than all others."""
    estimates = _defined(values(result, GINI, key))
    others = [other for other in estimates if other != name]
    if name not in estimates:
        return f"nobody received any {words(name)}", None
    if not others:
        return "nobody received anything else", None
    first = (max if most else min)(others, key=lambda k: estimates[k])
    text = f"{words(name)} {estimates[name]:.3f}; of the others {'most' if most else 'least'}: {words(first)} {estimates[first]:.3f}"
    ends = above(result, key, *((name, first) if most else (first, name)))
    return text if ends is not None else f"{text}, {OVERLAPPING}", ends


@finding("80/20 ratios are defined for impressions only", "figure 2b", "impressions", "types")
def ratios_need_impressions(m: Measures) -> tuple[str, bool | None]:
    defined = _ratios(m.types)
    return "defined for " + (", ".join(sorted(map(words, defined))) or "none"), defined == {m.log.first}


@finding(
    "All metric families generally agree on the order of the types", "figure 2", "agree", "types",
    counts=f"{AGREEMENT:.0%} of pairs or more in the order of the Gini index, by every family",
)  # fmt: skip
def metrics_agree(m: Measures) -> tuple[str, bool | None]:
    order = _defined(values(m.types, GINI, "amount"))
    if len(order) < 2:
        return "fewer than two types that anybody received", None
    others = {metric: alike(order, values(m.types, metric, "amount")) for metric in FAMILIES[1:]}
    worst = min(others, key=lambda k: others[k])
    measured = (
        f"pairs of types ordered as by the Gini index: {others[worst]:.0%} ({worst}) to {max(others.values()):.0%}"
    )
    return measured, others[worst] >= AGREEMENT


@finding(
    "Out-of-network suggestions are more skewed than in-network ranking", "figure 3", "in network lowest", "sources", "networks",
    counts=SEPARATE,
)  # fmt: skip
def out_of_network_is_more_skewed(m: Measures) -> tuple[str, bool | None]:
    estimates = _defined(m.by_source(GINI))
    inside, outside = ([str(s) for s in side if str(s) in estimates] for side in (m.log.inside, m.log.outside))
    if not inside or not outside:
        return _listed(estimates), None
    nearest = min(outside, key=lambda k: estimates[k]), max(inside, key=lambda k: estimates[k])
    ends = above(m.sources, str(m.log.source), *nearest)
    return _listed(estimates) + ("" if ends is not None else f"; {listing(nearest)}, {OVERLAPPING}"), ends


@finding("Miscellaneous suggestions are the most skewed source", "figure 3", "misc", "sources", "misc", counts=SEPARATE)
def misc_is_most_skewed(m: Measures) -> tuple[str, bool | None]:
    return _at_the_end(m.sources, str(m.log.source), USUAL, most=True)


@finding(
    "Gini index, Atkinson index and top 1% share are highly correlated", "note 2", "highly", "sources",
    counts=f"a correlation of {CORRELATED} or more between any two, over the sources",
)  # fmt: skip
def metrics_are_correlated(m: Measures) -> tuple[str, bool | None]:
    by_metric = [_defined(m.by_source(metric)) for metric in (GINI, ATKINSON, TOP_1)]
    shared = [name for name in by_metric[0] if all(name in estimates for estimates in by_metric)]
    spread = all(len({estimates[name] for name in shared}) > 1 for estimates in by_metric)
    if len(shared) < 3 or not spread:
        return "fewer than three sources that differ", None
    of = np.corrcoef([[estimates[name] for name in shared] for estimates in by_metric])
    text = f"Gini and Atkinson {of[0, 1]:.2f}, Gini and top 1% {of[0, 2]:.2f}, Atkinson and top 1% {of[1, 2]:.2f}"
    return text, float(of.min()) >= CORRELATED


@finding(
    "Sources with a larger Gini index reach authors with more followers", "figure 4", "rises", "sources", "followers",
    counts=f"{AGREEMENT:.0%} of pairs or more",
)  # fmt: skip
def skewed_sources_reach_the_followed(m: Measures) -> tuple[str, bool | None]:
    return _with_followers(m, "mean", 0)


@finding(
    "Sources with a larger Gini index reach authors with more unequal followers", "figure 4", "rises", "sources", "followers",
    counts=f"{AGREEMENT:.0%} of pairs or more",
)  # fmt: skip
def skewed_sources_reach_unequal_followers(m: Measures) -> tuple[str, bool | None]:
    return _with_followers(m, GINI, 3)


def _with_followers(m: Measures, metric: str, digits: int) -> tuple[str, bool | None]:
    skew, estimates = m.by_source(GINI), _defined(values(m.parts["followers"], metric, str(m.log.source)))
    if len(estimates) < 2:
        return f"fewer than two sources: {_listed(estimates, digits)}", None
    if max(estimates.values()) - min(estimates.values()) <= 0.01 * max(estimates.values()):
        return f"the same for all: {_listed(estimates, digits)}", False
    same = alike({name: skew[name] for name in estimates}, estimates)
    return f"{same:.0%} of pairs rise together; {_listed(estimates, digits)}", same >= AGREEMENT


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


@finding(
    "Impressions grow with followers at a similar rate in and out of network", "figure 5a", "similar", "bins",
    counts="within a quarter",
)  # fmt: skip
def reach_grows_alike(m: Measures) -> tuple[str, bool | None]:
    rows = [r for r in _by_bin(m, "mean") if min(r[:3]) > 0]
    if len(rows) < MIN_BINS:
        return TOO_FEW_BINS, None
    x = np.log([r[0] for r in rows])
    inside, outside = (float(np.polyfit(x, np.log([r[k] for r in rows]), 1)[0]) for k in (1, 2))
    measured = f"powers of followers: in network {inside:.2f}, {words(m.log.other)} {outside:.2f}"
    return measured, min(inside, outside) > 0 and abs(inside - outside) < 0.25 * inside


@finding(
    "Authors in general get more impressions from in-network ranking than from suggestions", "figure 5a", "more", "bins",
    counts="a larger mean, and in most bins",
)  # fmt: skip
def in_network_shows_more(m: Measures) -> tuple[str, bool | None]:
    rows, whole = _by_bin(m, "mean"), _by_bin(m, "mean", fewest=1)
    more, units = sum(inside > outside for _, inside, outside, _ in rows), sum(r[3] for r in whole)
    inside, outside = (sum(r[k] * r[3] for r in whole) / units for k in (1, 2))
    form = ",.0f" if min(inside, outside) >= 10 else ",.2f"
    measured = f"mean {inside:{form}} against {outside:{form}} ({words(m.log.other)}); more in {more} of {len(rows)} bins of followers"
    return measured, inside > outside and 2 * more > len(rows)


def _gaps(rows: Sequence[tuple[float, float, float, int]]) -> list[float]:
    return [outside - inside for _, inside, outside, _ in rows]


@finding(
    "Within bins, out-of-network is much more skewed for authors with few followers", "figure 5b", "much more", "bins",
    counts=f"higher in every lower bin, by {MUCH_HIGHER} on average",
)  # fmt: skip
def small_accounts_are_skewed_out_of_network(m: Measures) -> tuple[str, bool | None]:
    rows = _by_bin(m, GINI)
    if len(rows) < MIN_BINS:
        return TOO_FEW_BINS, None
    gaps = _gaps(rows[: len(rows) // 2])
    text = (
        f"{words(m.log.other)}: Gini index higher by {min(gaps):.2f} to {max(gaps):.2f} in the {len(gaps)} lower bins"
    )
    return text, min(gaps) > 0 and float(np.mean(gaps)) > MUCH_HIGHER


@finding(
    "Within bins, both are close for the authors with most followers", "figure 5b", "close", "bins",
    counts="less than half the gap of the three smallest bins",
)  # fmt: skip
def large_accounts_are_alike(m: Measures) -> tuple[str, bool | None]:
    rows = _by_bin(m, GINI)
    if len(rows) < MIN_BINS:
        return TOO_FEW_BINS, None
    small, large = (float(np.mean(_gaps(part))) for part in (rows[:3], rows[-3:]))
    x, inside, outside, units = rows[-1]
    measured = (
        f"gap {large:+.2f} in the three largest bins, {small:+.2f} in the three smallest; in the last bin "
        f"({units:,} authors around {x:,.0f} followers) {outside:.2f} against {inside:.2f}"
    )
    return measured, abs(large) < abs(small) / 2


@finding("The top share has the widest range over engagement types", "figure 2, Table 2", "top share", "types")
def top_share_spreads_types(m: Measures) -> tuple[str, bool | None]:
    return _spread(m.types, "amount", FAMILIES)


@finding("The top share has the widest range over sources", "figure 3, Table 2", "top share", "sources")
def top_share_spreads_sources(m: Measures) -> tuple[str, bool | None]:
    return _spread(m.sources, str(m.log.source), (GINI, ATKINSON, TOP_1, TOP_10))


def _spread(result: eh.Result, key: str, metrics: Sequence[str]) -> tuple[str, bool | None]:
    """Effect size as in the paper's figures: the range of each metric over slices."""
    ranges = {}
    for metric in metrics:
        estimates = _defined(values(result, metric, key)).values()
        ranges[metric] = max(estimates, default=math.nan) - min(estimates, default=math.nan)
    if any(map(math.isnan, ranges.values())):
        return "nobody received anything", None
    widest = max(ranges, key=lambda k: ranges[k])
    return _listed(ranges), widest.startswith("top_share")


@finding("Bootstrap errors are too small to be seen", "figures 2, 3", "invisible", counts=f"at most {VISIBLE}")
def errors_are_small(m: Measures) -> tuple[str, bool | None]:
    parts = {"amount": m.types} | ({str(m.log.source): m.sources} if "sources" in m.parts else {})
    halves = {
        f"{r['metric']} of {r[key]}": (r["high"] - r["low"]) / 2
        for key, part in parts.items()
        for r in select(part, *FAMILIES)
        if not math.isnan(r["high"] - r["low"])
    }
    if not halves:
        return "no intervals were drawn", None
    widest = max(halves, key=lambda k: halves[k])
    gini = max((half for name, half in halves.items() if name.startswith(GINI)), default=math.nan)
    wide, gini_half = (f"{half:.3f}" if not half < 0.001 else "below 0.001" for half in (halves[widest], gini))
    measured = f"widest half interval {wide} ({words(widest)}); of a Gini index {gini_half}"
    return measured, halves[widest] <= VISIBLE


def claims(m: Measures, *, all: bool = True) -> tuple[Claim, ...]:
    """Every stated finding beside what was measured; or those alone that the log can be asked."""
    return tuple(finding(m) for finding in FINDINGS if all or finding.lacks(m) is None)

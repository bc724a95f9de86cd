"""What the inequality paper states, held against one month on a platform.

Every finding is a function of `Measures`, so that it can be asked again of a platform with a mechanism switched off.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.present.charts_parts import middle
from evenhand.results import Result
from evenhand.studies.study import Claim

GINI, ATKINSON, TOP_1, TOP_10 = "gini", "atkinson(epsilon=0.5)", "top_share(p=0.01)", "top_share(p=0.1)"
EQUAL, EQUIVALENT = "equal_share", "equivalent_to_top(p=0.1)"
RATIOS = ("percentile_ratio", "share_ratio")
FAMILIES = (GINI, ATKINSON, TOP_1, TOP_10, EQUAL, EQUIVALENT)
OUT_OF_NETWORK = ("likes", "graph", "misc")

FEWEST = 30
"""Authors in a bin that is read on its own."""

FEWEST_BINS = 6
"""Bins of that size below which small and large accounts cannot be told apart."""

CLEAR = 0.1
"""A Gini index higher by more than this is much higher."""

VISIBLE = 0.01
"""Half an interval wider than this is seen on an axis from 0 to 1."""

ALIKE = 0.8
"""Share of pairs in the same order that counts as agreement: of ten pairs two may differ."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What was measured on one platform.

    Attributes
    ----------
    everyone : Gini index of impressions over all authors, also those of whom nothing was displayed.
    types : inequality of each engagement type, every metric.
    reach : share of authors with any engagement of a type.
    crossings : pairs of engagement types whose Lorenz curves cross.
    sources : inequality of impressions by source; `networks` the same with out-of-network sources taken together.
    followers : Gini index and mean of followers among the authors whom a source reached.
    bins : mean and Gini index of impressions by network and bin of followers.
    """

    everyone: float
    types: Result
    reach: Mapping[str, float]
    crossings: Sequence[tuple[str, str]]
    sources: Result
    networks: Result
    followers: Result
    bins: Result


def values(result: Result, metric: str, key: str) -> dict[str, float]:
    """The estimates of one metric by the labels of one slice column."""
    return {str(r[key]): float(r["estimate"]) for r in result.findings.rows() if r["metric"] == metric}


def alike(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Share of pairs of labels that both put in the same order."""
    pairs = list(itertools.combinations(one, 2))
    same = [(one[a] - one[b]) * (other[a] - other[b]) > 0 for a, b in pairs]
    return sum(same) / len(pairs) if pairs else math.nan


def _listed(found: Mapping[str, float], digits: int = 3) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {x:,.{digits}f}" for name, x in sorted(found.items(), key=lambda p: p[1])
    )


def every_gini_is_high(m: Measures) -> Claim:
    found = values(m.types, GINI, "amount")
    least = min(found, key=lambda k: found[k])
    measured = f"smallest {found[least]:.3f} ({least.replace('_', ' ')}), largest {max(found.values()):.3f}"
    return Claim(
        "All engagement types have a Gini index above 0.95", "figure 2a", "> 0.95", measured, found[least] > 0.95
    )


def every_top_share_is_high(m: Measures) -> Claim:
    found = values(m.types, TOP_1, "amount")
    least = min(found, key=lambda k: found[k])
    measured = f"smallest {found[least]:.1%} ({least.replace('_', ' ')}), largest {max(found.values()):.1%}"
    return Claim("The top 1% hold more than 70% of every type", "figure 2c", "> 70%", measured, found[least] > 0.7)


def impressions_reach_furthest(m: Measures) -> Claim:
    measured = "authors with any: " + ", ".join(f"{n.replace('_', ' ')} {x:.0%}" for n, x in m.reach.items())
    first = max(m.reach, key=lambda k: m.reach[k]) == "impressions"
    return Claim(
        "Impressions reach furthest: their curve leaves zero first", "figure 1b", "impressions", measured, first
    )


def curves_cross(m: Measures) -> Claim:
    named = ", ".join(f"{a} and {b}".replace("_", " ") for a, b in m.crossings[:3])
    measured = f"{len(m.crossings)} of 15 pairs cross" + (f" ({named})" if named else "")
    return Claim("Some of the Lorenz curves cross", "figure 1", "some", measured, bool(m.crossings))


def quotes_are_most_skewed(m: Measures) -> Claim:
    found = values(m.types, GINI, "amount")
    most = max(found, key=lambda k: found[k])
    return Claim("Quotes are the most skewed type", "figure 2", "quotes", _listed(found), most == "quotes")


def profile_clicks_are_least_skewed(m: Measures) -> Claim:
    found = values(m.types, GINI, "amount")
    least = min(found, key=lambda k: found[k])
    measured = f"least: {least.replace('_', ' ')} {found[least]:.3f}; profile clicks {found['profile_clicks']:.3f}"
    return Claim(
        "Profile clicks are the least skewed type", "figure 2", "profile clicks", measured, least == "profile_clicks"
    )


def ratios_need_impressions(m: Measures) -> Claim:
    defined = {r["amount"] for r in m.types.findings.rows() if r["metric"] in RATIOS and not math.isnan(r["estimate"])}
    measured = "defined for " + (", ".join(sorted(x.replace("_", " ") for x in defined)) or "none")
    return Claim(
        "80/20 ratios are defined for impressions only",
        "figure 2b",
        "impressions",
        measured,
        defined == {"impressions"},
    )


def metrics_agree(m: Measures) -> Claim:
    order = values(m.types, GINI, "amount")
    others = {metric: alike(order, values(m.types, metric, "amount")) for metric in FAMILIES[1:]}
    worst = min(others, key=lambda k: others[k])
    measured = f"pairs of types ordered as by the Gini index: {min(others.values()):.0%} ({worst}) to {max(others.values()):.0%}"
    return Claim(
        "All metric families generally agree on the order of the types",
        "figure 2",
        "agree",
        measured,
        others[worst] >= ALIKE,
        counts=f"{ALIKE:.0%} of pairs or more in the order of the Gini index, by every family",
    )


def out_of_network_is_more_skewed(m: Measures) -> Claim:
    found = values(m.sources, GINI, "source")
    if not set(OUT_OF_NETWORK) <= set(found):
        return Claim(_MORE_SKEWED, "figure 3", "in network lowest", "no out-of-network source", None)
    lower = all(found["in_network"] < found[s] for s in OUT_OF_NETWORK)
    return Claim(_MORE_SKEWED, "figure 3", "in network lowest", _listed(found), lower)


_MORE_SKEWED = "Out-of-network suggestions are more skewed than in-network ranking"


def misc_is_most_skewed(m: Measures) -> Claim:
    found = values(m.sources, GINI, "source")
    most = max(found, key=lambda k: found[k])
    measured = f"most: {most} {found[most]:.3f}; misc {found.get('misc', math.nan):.3f}"
    return Claim("Miscellaneous suggestions are the most skewed source", "figure 3", "misc", measured, most == "misc")


def skewed_sources_reach_the_followed(m: Measures) -> Claim:
    return _with_followers(m, "mean", "Sources with a larger Gini index reach authors with more followers", 0)


def skewed_sources_reach_unequal_followers(m: Measures) -> Claim:
    return _with_followers(m, GINI, "Sources with a larger Gini index reach authors with more unequal followers", 3)


def _with_followers(m: Measures, metric: str, says: str, digits: int) -> Claim:
    skew, found = values(m.sources, GINI, "source"), values(m.followers, metric, "source")
    if max(found.values()) - min(found.values()) <= 0.01 * max(found.values()):
        return Claim(says, "figure 4", "rises", f"the same for all: {_listed(found, digits)}", False)
    same = alike(skew, found)
    return Claim(
        says, "figure 4", "rises", f"{same:.0%} of pairs rise together; {_listed(found, digits)}", same >= ALIKE,
        counts=f"{ALIKE:.0%} of pairs or more",
    )  # fmt: skip


def _by_bin(m: Measures, metric: str) -> list[tuple[float, float, float, int]]:
    """Middle of each bin of followers, in-network and out-of-network value, and authors in it; large enough bins only."""
    found: dict[str, dict[float, tuple[float, int]]] = {"in_network": {}, "out_of_network": {}}
    for r in m.bins.findings.rows():
        if r["metric"] == metric and r["network"] in found and r["units"] >= FEWEST:
            found[r["network"]][middle(r["followers_low"], r["followers_high"])] = (
                float(r["estimate"]),
                int(r["units"]),
            )
    inside, outside = found.values()
    return [(x, *_pair(inside[x], outside[x])) for x in sorted(set(inside) & set(outside))]


def _pair(inside: tuple[float, int], outside: tuple[float, int]) -> tuple[float, float, int]:
    return inside[0], outside[0], inside[1]


def reach_grows_alike(m: Measures) -> Claim:
    says = "Impressions grow with followers at a similar rate in and out of network"
    rows = [r for r in _by_bin(m, "mean") if r[1] > 0 and r[2] > 0]
    if len(rows) < FEWEST_BINS:
        return Claim(says, "figure 5a", "similar", _ONE_BIN, None)
    x = np.log([r[0] for r in rows])
    inside, outside = (float(np.polyfit(x, np.log([r[k] for r in rows]), 1)[0]) for k in (1, 2))
    measured = f"powers of followers: in network {inside:.2f}, out of network {outside:.2f}"
    return Claim(says, "figure 5a", "similar", measured, abs(inside - outside) < 0.25 * inside, "within a quarter")


def in_network_shows_more(m: Measures) -> Claim:
    says = "Authors in general get more impressions from in-network ranking than from suggestions"
    rows, total = _by_bin(m, "mean"), values(m.networks, "mean", "network")
    more = sum(inside > outside for _, inside, outside, _ in rows)
    inside, outside = total["in_network"], total.get("out_of_network", 0.0)
    measured = f"mean {inside:,.0f} against {outside:,.0f}; more in {more} of {len(rows)} bins of followers"
    rule = "a larger mean, and in most bins"
    return Claim(says, "figure 5a", "more", measured, inside > outside and 2 * more > len(rows), rule)


_ONE_BIN = f"fewer than {FEWEST_BINS} bins with {FEWEST} authors"


def _gaps(rows: Sequence[tuple[float, float, float, int]]) -> list[float]:
    return [outside - inside for _, inside, outside, _ in rows]


def small_accounts_are_skewed_out_of_network(m: Measures) -> Claim:
    says = "Within bins, out-of-network is much more skewed for authors with few followers"
    rows = _by_bin(m, GINI)
    if len(rows) < FEWEST_BINS:
        return Claim(says, "figure 5b", "much more", _ONE_BIN, None)
    gaps = _gaps(rows[: len(rows) // 2])
    measured = f"Gini index higher by {min(gaps):.2f} to {max(gaps):.2f} in the {len(gaps)} lower bins"
    rule = f"higher in every lower bin, by {CLEAR} on average"
    return Claim(says, "figure 5b", "much more", measured, min(gaps) > 0 and float(np.mean(gaps)) > CLEAR, rule)


def large_accounts_are_alike(m: Measures) -> Claim:
    says = "Within bins, both are close for the authors with most followers"
    rows = _by_bin(m, GINI)
    if len(rows) < FEWEST_BINS:
        return Claim(says, "figure 5b", "close", _ONE_BIN, None)
    small, large = (float(np.mean(_gaps(part))) for part in (rows[:3], rows[-3:]))
    x, inside, outside, units = rows[-1]
    measured = (
        f"gap {large:+.2f} in the three largest bins, {small:+.2f} in the three smallest; in the last bin "
        f"({units} authors around {x:,.0f} followers) {outside:.2f} against {inside:.2f}"
    )
    rule = "less than half the gap of the three smallest bins"
    return Claim(says, "figure 5b", "close", measured, abs(large) < abs(small) / 2, rule)


def top_share_spreads_types(m: Measures) -> Claim:
    return _spread(m.types, "amount", FAMILIES, "engagement types", "figure 2, Table 2")


def top_share_spreads_sources(m: Measures) -> Claim:
    return _spread(m.sources, "source", (GINI, ATKINSON, TOP_1, TOP_10), "sources", "figure 3, Table 2")


def _spread(result: Result, key: str, metrics: Sequence[str], what: str, where: str) -> Claim:
    """Effect size as the paper reads it off its figures: how far the largest and smallest value lie apart."""
    ranges = {}
    for metric in metrics:
        found = [v for v in values(result, metric, key).values() if not math.isnan(v)]
        ranges[metric] = max(found) - min(found)
    widest = max(ranges, key=lambda k: ranges[k])
    says = f"The top share has the widest range over {what}"
    return Claim(says, where, "top share", _listed(ranges), widest.startswith("top_share"))


def errors_are_small(m: Measures) -> Claim:
    says = "Bootstrap errors are too small to be seen"
    rows = [r for part in (m.types, m.sources) for r in part.findings.rows() if r["metric"] in FAMILIES]
    halves = {f"{r['metric']} of {r.get('amount') or r.get('source')}": (r["high"] - r["low"]) / 2 for r in rows}
    halves = {name: half for name, half in halves.items() if not math.isnan(half)}
    if not halves:
        return Claim(says, "figures 2, 3", "invisible", "no intervals were drawn", None)
    widest = max(halves, key=lambda k: halves[k])
    gini = max(half for name, half in halves.items() if name.startswith(GINI))
    measured = f"widest half interval {halves[widest]:.3f} ({widest.replace('_', ' ')}); of a Gini index {gini:.3f}"
    return Claim(says, "figures 2, 3", "invisible", measured, halves[widest] <= VISIBLE, f"at most {VISIBLE}")


FINDINGS: tuple[Callable[[Measures], Claim], ...] = (
    every_gini_is_high,
    every_top_share_is_high,
    impressions_reach_furthest,
    curves_cross,
    quotes_are_most_skewed,
    profile_clicks_are_least_skewed,
    ratios_need_impressions,
    metrics_agree,
    out_of_network_is_more_skewed,
    misc_is_most_skewed,
    skewed_sources_reach_the_followed,
    skewed_sources_reach_unequal_followers,
    reach_grows_alike,
    in_network_shows_more,
    small_accounts_are_skewed_out_of_network,
    large_accounts_are_alike,
    top_share_spreads_types,
    top_share_spreads_sources,
    errors_are_small,
)


def claims(m: Measures) -> tuple[Claim, ...]:
    """Every stated finding beside what was measured."""
    return tuple(finding(m) for finding in FINDINGS)

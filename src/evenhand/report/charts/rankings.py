"""Pictures of rankings and of what they give: shares by rank, requests one by one, exposure by group, items, places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evenhand.findings import Findings, label
from evenhand.findings import number as read_number
from evenhand.report.charts.drawing import Panel, Picture, chart, columns_of, distinct, points, without_curve, word
from evenhand.report.charts.shapes import MOST_ROWS, SHARE, Axis, ends, in_rows, joined, lines, shares
from evenhand.report.charts.theme import MOST_SERIES
from evenhand.report.words.phrases import card_of, metric_title, value_text
from evenhand.report.words.text import number, percent, plural, short_percent

MOST_PANELS = 4
MOST_SLICES = 6
MOST_ITEMS = 20
NEAR = 0.01
"""Shares closer than this are called about the same."""
READ_AT = (1, 3, 5, 10, 20, 50, 100)
"""Ranks that the table of a prefix curve reads out."""
TICKS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000)

Point = dict[str, Any]


def _known(value: Any) -> bool:
    return math.isfinite(read_number(value))


@chart(
    "prefix",
    title="Who stands near the top: shares by rank, and where random orders would keep them",
    unless=without_curve("prefix"),
)
def prefix(findings: Findings) -> Picture:
    """Share of each label among the first i, its share of the whole (dashed), and the band of random orders."""
    curve = points(findings, "prefix")
    slices, groups = distinct(p["where"] for p in curve), distinct(p["group"] for p in curve)
    drawn = groups[:1] if len(groups) == 2 else groups[:MOST_SERIES]
    parts = [(where, [g]) for where in slices for g in drawn]
    if len(parts) > MOST_PANELS:  # no room for a panel each: a line for each label, without bands
        parts = [(where, drawn) for where in slices]
    panels = [_share_panel(curve, where, part, drawn, findings) for where, part in parts[:MOST_PANELS]]
    level = short_percent(float(findings.provenance.get("level", 0.95)))
    notes = [f"Band: where the line stays in {level} of random orders of the same items, rank by rank."]
    notes = notes if len(parts[0][1]) == 1 else []
    notes += ["Dashed: share of the whole."]
    if len(parts) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(parts)} slices are drawn.")
    return Picture(tuple(panels), _share_table(curve), _shares_in_words(curve, drawn), " ".join(notes))


def _share_panel(
    curve: Sequence[Point], where: str, groups: Sequence[str], drawn: Sequence[str], findings: Findings
) -> Panel:
    is_single = len(groups) == 1
    rows = [
        {
            "series": p["group"], "x": p["rank"], "y": p["share"], "level": p["overall"],
            "share_text": percent(p["share"]), "overall_text": percent(p["overall"]),
            **({"low": p["low"], "high": p["high"]} if is_single else {}),
        }
        for p in curve
        if p["where"] == where and p["group"] in groups
    ]  # fmt: skip
    deepest = max((row["x"] for row in rows), default=1)
    scale = {"type": "log", "base": 2, "nice": False}
    return lines(
        rows, shaded=True, small=True, series=drawn, legend=False if is_single else word(findings, "group"),
        x=Axis("top i ranks, log scale", "d", (1, max(2, deepest)), [t for t in TICKS if t <= deepest], scale=scale),
        y=shares("share among the top i"),
        tips={"series": "label", "x": "top", "share_text": "share", "overall_text": "share of the whole"},
        title=", ".join(filter(None, [where, groups[0] if is_single else ""])),
    )  # fmt: skip


def _share_table(curve: Sequence[Point]) -> dict[str, list[Any]]:
    shown = [p for p in curve if p["rank"] in READ_AT]
    table: dict[str, list[Any]] = {"slice": [p["where"] for p in shown]} if any(p["where"] for p in shown) else {}
    table |= {"label": [p["group"] for p in shown], "top": [p["rank"] for p in shown]}
    named = (("share", "share"), ("overall", "share of the whole"), ("low", "random from"), ("high", "random to"))
    return table | {title: [percent(p[name]) for p in shown] for name, title in named}


def _shares_in_words(curve: Sequence[Point], groups: Sequence[str]) -> str:
    """The top 10 of the slice in which the first label is furthest from its share of the whole."""

    def at(where: str, group: str) -> Point:
        of_group = [p for p in curve if p["group"] == group and p["where"] == where]
        return next((p for p in of_group if p["rank"] == 10), of_group[-1])

    slices = distinct(p["where"] for p in curve if p["group"] == groups[0])
    where = max(slices, key=lambda w: abs(at(w, groups[0])["share"] - at(w, groups[0])["overall"]))
    shown = [at(where, g) for g in groups[:3] if any(p["group"] == g and p["where"] == where for p in curve)]
    parts = [
        f"{percent(p['share'])} of the top {p['rank']} are {p['group']}, of the whole {percent(p['overall'])}: {_against_chance(p)}"
        for p in shown
    ]
    return (f"{where}: " if where else "") + "; ".join(parts) + "."


def _against_chance(point: Point) -> str:
    if point["share"] < point["low"] - 1e-12:
        return "fewer than random orders give"
    return "more than random orders give" if point["share"] > point["high"] + 1e-12 else "as random orders give"


@chart("requests", title="Request by request, against chance", unless=without_curve("requests"))
def requests(findings: Findings) -> Picture:
    """The value of each request, highest first, beside what a random order of the same items would give."""
    curve = points(findings, "requests")
    metrics = distinct(p["metric"] for p in curve)
    by_metric = {m: [p for p in curve if p["metric"] == m] for m in metrics}
    panels = [_request_panel(by_metric[m], m) for m in metrics[:MOST_PANELS]]
    table = {
        "request": [_request_name(p) for p in curve],
        "metric": [p["metric"] for p in curve],
        "value": [value_text(p["estimate"]) for p in curve],
        "chance": [value_text(p["chance"]) if _known(p["chance"]) else "" for p in curve],
        "labelled items": [p["items"] for p in curve],
    }
    note = "The diamond is what a random order of the same items gives on average."
    if any(len(of_metric) > MOST_ROWS for of_metric in by_metric.values()):
        note += f" Where there are more than {MOST_ROWS} requests, the highest and the lowest are drawn."
    sentence = _requests_in_words(findings, by_metric)
    return Picture(tuple(panels), table, sentence, f"{sentence} {note}", lead=False)


def _request_name(point: Point) -> str:
    return f"{point['request']} ({point['where']})" if point["where"] else str(point["request"])


def _request_panel(curve: Sequence[Point], metric: str) -> Panel:
    ordered = sorted(curve, key=lambda p: -p["estimate"])
    shown = ends([_request_name(p) for p in ordered])
    rows = [
        {
            "label": _request_name(p), "x": p["estimate"], "chance": p["chance"], "tie": p["chance"], "items": p["items"],
            "value_text": value_text(p["estimate"]),
        }
        for p in ordered
        if _request_name(p) in shown
    ]  # fmt: skip
    largest = max(v for row in rows for v in (row["x"], row["chance"], 0.0) if _known(v))
    top = 1.0 if 0.4 < largest <= 1 else 1.15 * largest or 1.0
    tips = {"label": "request", "value_text": "value", "chance": "chance alone", "items": "labelled items"}
    title = metric_title(metric)
    return in_rows(rows, "dot", x=Axis(domain=(0, top)), tips=tips, order=shown, title=title, each=17)


def _requests_in_words(findings: Findings, by_metric: dict[str, list[Point]]) -> str:
    """Which request is the furthest from even, by which metric, and how many are worse than chance."""
    unit = word(findings, "unit")
    furthest: dict[str, list[str]] = {}
    counts = []
    for metric, of_metric in list(by_metric.items())[:3]:
        above = sum(p["estimate"] > p["chance"] for p in of_metric if _known(p["chance"]))
        worst = max(of_metric, key=lambda p: p["estimate"])
        card = card_of(metric)
        symbol = card.symbol if card is not None and card.symbol else metric
        largest = " (the largest possible)" if math.isclose(worst["estimate"], 1.0) else ""
        furthest.setdefault(_called(worst, unit), []).append(f"{symbol} {number(worst['estimate'])}{largest}")
        every = len(of_metric) == _measured(findings, metric)
        part = f"{above:,} of {len(of_metric):,}" if every else f"about {above / len(of_metric):.0%} of all"
        counts.append(f"{part} {plural(unit)} by {symbol}")
    listed = [
        f"{name}{'' if i else ' is the furthest from even'}: {' and '.join(v)}"
        for i, (name, v) in enumerate(furthest.items())
    ]
    return (
        f"{'; '.join(listed)}. Less even than a random order of their items would be on average: {', '.join(counts)}."
    )


def _measured(findings: Findings, metric: str) -> int:
    """Requests with a value; of many, the points of the curve are an even selection."""
    rows = [r for r in findings.rows() if r["metric"] == metric and r["undefined"] is not None]
    return sum(int(r["units"] - r["undefined"]) for r in rows)


def _called(point: Point, unit: str) -> str:
    """A request as a sentence can begin with it: a bare number needs to be told what it is the number of."""
    name = str(point["request"])
    bare = name.replace(".", "", 1).replace("-", "", 1).isdigit()
    named = f"{unit.replace('_', ' ')} {name}" if bare else name
    return f"{named} ({point['where']})" if point["where"] else named


@chart("strip", title="The rankings themselves", unless=without_curve("strip"))
def strip(findings: Findings) -> Picture:
    """Every ranking as a row of cells, one per rank, coloured by label; unknown labels are left blank."""
    cells = points(findings, "strip")
    names = distinct(_request_name(p) for p in cells)
    common, named = _named(findings, cells)
    rows = [
        {
            "label": _request_name(p), "series": p["group"] if p["group"] in named else "other", "low": p["rank"],
            "high": p["rank"] + 0.94, "group_text": p["group"],
        }
        for p in cells
        if p["group"] is not None
    ]  # fmt: skip
    deepest = max(p["rank"] for p in cells)
    ticks = [t for t in (1, 5, *range(10, 101, 10)) if t <= deepest]
    axis = Axis("rank", "d", (1, deepest + 1), ticks, scale={"nice": False}, more={"grid": False})
    tips = {"label": "request", "low": "rank", "group_text": "label"}
    series = [*named, *(["other"] if len(common) > len(named) else [])]
    panel = in_rows(
        rows, "span", x=axis, tips=tips, order=names, series=series, legend=word(findings, "group"), each=16
    )
    ranked = [" ".join(str(p["group"] or "–") for p in cells if _request_name(p) == name)[:300] for name in names]
    sentence = f"{len(names):,} rankings with their labels rank by rank, down to rank {deepest}."
    note = "Furthest from the whole first, closest last." if len(names) > 1 else ""
    return Picture((panel,), {"request": names, "labels from the top": ranked}, sentence, note, lead=False)


def _named(findings: Findings, cells: Sequence[Point]) -> tuple[list[str], list[str]]:
    """All labels, the most common first, and those that have a colour of their own: the same as in the curve."""
    groups = [str(p["group"]) for p in cells if p["group"] is not None]
    common = sorted(distinct(groups), key=lambda g: -groups.count(g))
    curve = distinct((findings.curves.get("prefix") or {}).get("group", []))
    named = sorted(common[: MOST_SERIES - 1] if len(common) > MOST_SERIES else common)
    return common, sorted(named, key=lambda g: curve.index(g) if g in curve else len(curve))


@chart("bias", title="Mean metric value by ranking bias", unless=without_curve("bias"))
def bias(findings: Findings) -> Picture:
    """Mean value of each metric along the ranking bias, a line per set: figures 1 and 2 of Draws et al."""
    curve = points(findings, "bias")
    metrics, sets = distinct(p["metric"] for p in curve), distinct(p["set"] for p in curve)
    panels = [_bias_panel([p for p in curve if p["metric"] == m], m, sets) for m in metrics]
    table = columns_of(curve, "metric", "set", "alpha") | {"mean": [number(p["mean"]) for p in curve]}
    settings = len({p["alpha"] for p in curve})
    sentence = f"Means of {', '.join(map(metric_title, metrics))} for {len(sets)} sets over {settings} settings."
    note = "Left of 0 the first side is favoured, right of 0 the other. Values above 1 are cut off, as in the paper."
    return Picture(tuple(panels), table, sentence, note)


def _bias_panel(curve: Sequence[Point], metric: str, sets: Sequence[str]) -> Panel:
    rows = [
        {"series": p["set"], "x": p["alpha"], "y": p["mean"], "level": p["chance"], "value_text": number(p["mean"])}
        for p in curve
    ]
    top = 1.0 if max((p["mean"] for p in curve), default=1.0) > 0.5 else 0.25
    return lines(
        rows, x=Axis("ranking bias", ticks=[-1, -0.5, 0, 0.5, 1]), y=Axis("mean value", domain=(0, top), cut=True),
        tips={"series": "set", "x": "ranking bias", "value_text": "mean"}, series=sets, legend="set", small=True,
        title=metric_title(metric), height=280,
    )  # fmt: skip


@chart("exposure", title="Who gets the exposure, and the target", unless=without_curve("exposure"))
def exposure(findings: Findings) -> Picture:
    """Share of exposure of each group with its interval, and a tick at the target; one panel per slice, or per group."""
    curve = points(findings, "exposure")
    slices, groups = distinct(p["where"] for p in curve), distinct(p["group"] for p in curve)
    by, of, parts = (
        ("where", "group", slices) if len(slices) <= MOST_SLICES else ("group", "where", groups[:MOST_SLICES])
    )
    panels = tuple(_exposure_panel([p for p in curve if p[by] == part], of, part) for part in parts)
    table = {"slice": [p["where"] for p in curve]} if slices != [""] else {}
    table |= columns_of(curve, "group", "exposure", "low", "high", "target", "items")
    return Picture(panels, table, _exposure_in_words(curve), "Tick: the target. Line: the interval over requests.")


def _exposure_panel(curve: Sequence[Point], of: str, title: str) -> Panel:
    shown = sorted(curve, key=lambda p: -p["exposure"] if _known(p["exposure"]) else 0.0)[:MOST_ROWS]
    rows = [
        {
            "label": p[of], "x": p["exposure"], "low": p["low"], "high": p["high"], "aim": p["target"],
            "text": percent(p["exposure"]), "aim_text": percent(p["target"]),
        }
        for p in shown
    ]  # fmt: skip
    tips = {"label": " ", "text": "share of exposure", "aim_text": "target"}
    return in_rows(rows, "bar", x=shares("share of exposure"), tips=tips, title=title, each=26, least=64)


def _exposure_in_words(curve: Sequence[Point]) -> str:
    gaps = [(p["exposure"] - p["target"], p) for p in curve if _known(p["exposure"]) and _known(p["target"])]
    if not gaps:
        return "No labelled item was exposed."
    gap, most = max(gaps, key=lambda pair: abs(pair[0]))
    where = f"{most['where']}: " if most["where"] else ""
    side = "above" if gap >= 0 else "below"
    gets, due = percent(most["exposure"]), percent(most["target"])
    sentence = f"{where}{most['group']} gets {gets} of the exposure, {side} its target of {due}"
    if _known(most["low"]) and _known(most["high"]) and most["low"] <= most["target"] <= most["high"]:
        return f"{sentence}; other requests like these could well close that gap, the largest there is."
    return f"{sentence}: the largest gap there is."


def _no_relevance(findings: Findings) -> str:
    curve = findings.curves.get("exposure") or {}
    return "" if any(_known(y) for y in curve.get("relevance", [])) else "it holds no relevance"


@chart("relevance", title="Exposure against relevance", unless=_no_relevance)
def relevance(findings: Findings) -> Picture:
    """Each group's share of all relevance joined to its share of exposure: in proportion, the two coincide."""
    curve = [p for p in points(findings, "exposure") if _known(p["relevance"]) and _known(p["exposure"])]
    slices = distinct(p["where"] for p in curve)
    panels = tuple(_relevance_panel([p for p in curve if p["where"] == w], w) for w in slices[:MOST_SLICES])
    table = {"slice": [p["where"] for p in curve], **columns_of(curve, "group", "relevance", "exposure")}
    rest = f"{MOST_SLICES} of {len(slices)} slices are drawn; the table has all." if len(slices) > MOST_SLICES else ""
    gap, most = max(((p["exposure"] - p["relevance"], p) for p in curve), key=lambda pair: abs(pair[0]))
    lead = f"{most['where']}: " if most["where"] else ""
    part = "about its part" if abs(gap) < NEAR else f"{'more' if gap > 0 else 'less'} than its part"
    sentence = (
        f"{lead}{most['group']} has {percent(most['relevance'])} of the relevance and gets {percent(most['exposure'])} of "
        f"the exposure, {part}."
    )
    return Picture(panels, table, sentence, rest)


def _relevance_panel(curve: Sequence[Point], title: str) -> Panel:
    shown = sorted(curve, key=lambda p: p["exposure"] - p["relevance"])[:MOST_ROWS]
    has, gets = [p["relevance"] for p in shown], [p["exposure"] for p in shown]
    return joined(
        [p["group"] for p in shown], has, gets, ("of relevance", "of exposure"), [percent(v) for v in (*has, *gets)],
        x=shares("share"), tips={"label": "group", "series": "share", "value_text": " "}, title=title,
    )  # fmt: skip


def _no_differences(findings: Findings) -> str:
    curve = findings.curves.get("differences") or {}
    return "" if curve.get("item") else "no two groups are shown different items"


@chart("differences", title="Which items the two groups are shown differently", unless=_no_differences)
def differences(findings: Findings) -> Picture:
    """The items whose share of slots differs most between two groups of users, widest gap first."""
    by_slice: dict[str, list[Point]] = {}
    for p in points(findings, "differences"):
        by_slice.setdefault(p["where"], []).append(p)
    drawn = [(where, items[:MOST_ITEMS]) for where, items in list(by_slice.items())[:MOST_SLICES]]
    rows = [p for _, items in drawn for p in items]
    versus, protected = str(rows[0]["versus"]), str(rows[0]["protected"])
    table = {
        **columns_of(rows, *findings.slices),
        "item": [str(p["item"]) for p in rows],
        f"share shown to {versus}": [percent(p["versus_share"]) for p in rows],
        f"share shown to {protected}": [percent(p["protected_share"]) for p in rows],
    }
    most = max(rows, key=lambda p: abs(p["versus_share"] - p["protected_share"]))
    shares = f"{percent(most['versus_share'])} of the slots of {versus} and {percent(most['protected_share'])} of those of {protected}"
    lead = f"{most['where']}: item" if most["where"] else "Item"
    note = "Only the widest gaps are drawn; some gap is expected by chance, see the chance column."
    note += f" {MOST_SLICES} of {len(by_slice)} slices are drawn." if len(by_slice) > MOST_SLICES else ""
    panels = tuple(_differences_panel(items, (versus, protected), where) for where, items in drawn)
    return Picture(panels, table, f"{lead} {most['item']} differs most: {shares}.", note, lead=False)


def _differences_panel(items: Sequence[Point], sides: tuple[str, str], where: str) -> Panel:
    a, b = [p["versus_share"] for p in items], [p["protected_share"] for p in items]
    return joined(
        [str(p["item"]) for p in items], a, b, sides, [percent(v) for v in (*a, *b)],
        x=Axis("share of the group's slots", SHARE), heading="item", tips={"label": "item", "series": "group", "value_text": "share"},
        title=where,
    )  # fmt: skip


@chart("stability", title="Where each system stands under other choices", unless=without_curve("stability"))
def stability(findings: Findings) -> Picture:
    """Best, mean and worst place of every system over all combinations of choices; 1 is the fairest."""
    curve = findings.curves["stability"]
    columns = ("metric", "system", "best", "worst", "mean", "first", "settings")
    others = [name for name in curve if name not in columns]
    by_title: dict[str, list[Point]] = {}
    for p in points(findings, "stability"):
        by_title.setdefault(", ".join([*(label(p[o]) for o in others), metric_title(p["metric"])]), []).append(p)
    panels = tuple(_places_panel(places, title) for title, places in list(by_title.items())[:MOST_SLICES])
    rows = [p for places in by_title.values() for p in places]
    moved = sum(p["best"] != p["worst"] for p in rows if _known(p["best"]))
    sentence = (
        f"{moved} of {len(rows)} places of a system change with the choices; {len(rows) - moved} stay what they are."
    )
    table = columns_of(points(findings, "stability"), *curve)
    return Picture(panels, table, sentence, "A line from the best to the worst place, a dot at the mean.")


def _places_panel(places: Sequence[Point], title: str) -> Panel:
    ordered = sorted(places, key=lambda p: (read_number(p["mean"]), str(p["system"])))
    shown = ends([str(p["system"]) for p in ordered])
    rows = [
        {
            "label": str(p["system"]), "x": p["mean"], "low": p["best"], "high": p["worst"],
            "came_text": f"first in {p['first']} of {p['settings']}",
        }
        for p in ordered
        if str(p["system"]) in shown
    ]  # fmt: skip
    tips = {"label": "system", "x": "mean place", "low": "best", "high": "worst", "came_text": "came"}
    ticks = list(range(1, len(places) + 1, max(1, len(places) // 12)))
    x = Axis("place, 1 is the fairest", "d", (0.5, len(places) + 0.5), ticks, scale={"nice": False})
    return in_rows(rows, "dot", x=x, tips=tips, order=shown, heading="system", title=title, least=90)

"""What every chart is made of: the registry of kinds, fixed field names, one theme, numbers as people read them.

A kind of chart is a function from Findings to a Picture, declared with `@chart`:

    @chart("calibration", audits=("outcome_test",), title="Does the same score mean the same outcome?")
    def calibration(findings: Findings) -> Picture:
        data = records(label=..., x=..., y=..., low=..., high=...)
        ...
        return Picture((Panel(layers),), table={"bin": ..., "outcome": ...}, says="One sentence for the blind.")

`charts.py` imports every module of this folder called `charts_*`; a report shows every kind that fits its audit.

Words of the user's data (column names, labels) go into values and titles, never into field names or expressions: Vega
reads `a.b` and `a[0]` as paths. Colours are never written out either: marks name a style (`style="reference"`) or a
position in the palette, so that one chart is right on white paper, on a dark screen and in print.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from evenhand.cards import REGISTRY, Card, parse_call
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Findings, label
from evenhand.present.text import REASONS, number, percent, short_percent
from evenhand.present.theme import MOST_SERIES

MOST_POINTS = 4000
"""Points in one picture, however large the data."""

MOST_ROWS = 40
"""Labelled rows in one panel; the table has them all."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes. `chart` has no width: the page or the file decides; `height` is in pixels."""

    chart: Any
    title: str = ""
    height: int = 320
    square: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """What a chart function returns.

    Attributes
    ----------
    panels : one or more sets of axes, drawn side by side where there is room.
    table : the same numbers as columns; every chart in a report is followed by it.
    says : the picture in one sentence, for those who cannot see it.
    note : what the reader must know to read it, if anything (rows left out, a log axis).
    """

    panels: tuple[Panel, ...]
    table: Mapping[str, Sequence[Any]]
    says: str
    note: str = ""


Drawer = Callable[[Findings], Picture]
Unless = Callable[[Findings], str]


def always(_: Findings) -> str:
    """For `unless`: nothing stands in the way."""
    return ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of chart: its name, the audits it fits (empty: all), its title, and what it needs of the findings.

    `unless` says why findings cannot be drawn this way, or nothing when they can. `reported` is False for kinds that
    are made on request only.
    """

    name: str
    draw: Drawer
    title: str
    audits: tuple[str, ...] = ()
    unless: Unless = field(default=always)
    reported: bool = True

    def problem(self, findings: Findings) -> str:
        """Why these findings cannot be drawn this way, in words, or nothing."""
        if self.audits and findings.audit not in self.audits:
            return f"it draws {listing(self.audits)}, and this is {findings.audit}"
        return self.unless(findings)


KINDS: dict[str, Kind] = {}


def chart(
    kind: str, *, title: str, audits: tuple[str, ...] = (), unless: Unless = always, reported: bool = True
) -> Callable[[Drawer], Drawer]:
    """Declare a kind of chart; the first one declared that fits an audit is what `.plot()` draws."""

    def declare(draw: Drawer) -> Drawer:
        if kind in KINDS:
            raise EvenhandError(f"The chart {kind!r} is declared twice. Give one of them another name.")
        KINDS[kind] = Kind(kind, draw, title, audits, unless, reported)
        return draw

    return declare


def without_curve(name: str) -> Unless:
    """For `unless`: the findings must hold points of this curve."""
    return lambda findings: "" if findings.curves.get(name) else f"the result holds no {name} points"


def drawable(value: Any) -> Any:
    """A value that a chart can hold: NaN and infinities become nothing."""
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records(**columns: Sequence[Any]) -> Any:
    """Chart data from columns with fixed internal names (`label`, `x`, `y`, `low`, `high`, ...)."""
    rows = zip(*columns.values(), strict=True)
    return alt.Data(values=[dict(zip(columns, map(drawable, row), strict=True)) for row in rows])


def slice_labels(findings: Findings, columns: Mapping[str, Sequence[Any]] | None = None) -> list[str]:
    """One short label per row: the values of the slice columns; empty text for an unsliced audit.

    >>> slice_labels(Findings("a", "?", ("by", "day"), {"by": ["x"], "day": [2], "metric": ["m"]}))
    ['x, 2']
    """
    source = findings.columns if columns is None else columns
    size = len(next(iter(source.values()), []))
    named = [source[name] for name in findings.slices if name in source]
    return [", ".join(label(column[i]) for column in named) for i in range(size)]


def row_labels(findings: Findings) -> list[str]:
    """Slice and group of every row, as one label."""
    groups = findings.columns.get("group", [None] * len(findings))
    pairs = zip(slice_labels(findings), groups, strict=True)
    return [", ".join(part for part in (where, "" if group is None else str(group)) if part) for where, group in pairs]


def long_table(findings: Findings, *metrics: str) -> dict[str, list[Any]]:
    """The rows behind a chart (of these metrics, or all): columns without any content are left out."""
    rows = [row for row in findings.rows() if not metrics or row["metric"] in metrics]
    names = [*findings.slices, "metric", "group", "estimate", "low", "high", "chance", "ideal"]
    columns = {name: [drawable(row[name]) for row in rows] for name in names}
    return {n: c for n, c in columns.items() if n in ("metric", "estimate") or any(v is not None for v in c)}


def slices_in_words(findings: Findings) -> str:
    """What the slices are called, for axis titles and legends."""
    return ", ".join(findings.slices)


def word(findings: Findings, role: str, otherwise: str = "") -> str:
    """What a role is called in the user's data."""
    return str(findings.words.get(role) or otherwise or role)


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of first appearance."""
    return list(dict.fromkeys(values))


def ends(ordered: Sequence[str], most: int = MOST_ROWS) -> list[str]:
    """The first and the last of many labels: where a chart has no room, the extremes are the story."""
    if len(ordered) <= most:
        return list(ordered)
    half = most // 2
    return [*ordered[:half], *ordered[-(most - half) :]]


def card_of(metric: str) -> Card | None:
    """The card behind a metric string, or nothing for a quantity that has none (`outcome_gap`)."""
    try:
        name, _, _ = parse_call(metric.partition("@")[0], role="metrics")
    except EvenhandError:
        return None
    return REGISTRY[name].card if name in REGISTRY else None


def metric_title(metric: str) -> str:
    """A metric string as a heading: parameters as people say them.

    >>> metric_title("top_share(p=0.01)"), metric_title("atkinson(epsilon=0.5)"), metric_title("pooled_gap")
    ('Share of the top 1%', 'Atkinson index (epsilon 0.5)', 'Pooled gap')
    """
    card = card_of(metric)
    if card is None:
        return metric.replace("_", " ").strip().capitalize()
    called, _, cutoff = metric.partition("@")
    _, args, named = parse_call(called, role="metrics")
    params = dict(zip(REGISTRY[card.name].parameters, args, strict=False)) | named
    point = params.pop("p", None)
    title = f"{card.title} {short_percent(point)}" if isinstance(point, float) else card.title
    said = [f"{name} {value}" for name, value in params.items()]
    return " ".join([title, *([f"({', '.join(said)})"] if said else []), *([f"at {cutoff}"] if cutoff else [])])


def is_share(metric: str) -> bool:
    """Whether people read this metric in percent; its card's sentence says so."""
    card = card_of(metric)
    return card is not None and "{estimate:percent}" in card.says


def value_text(value: float | None, metric: str = "") -> str:
    """An estimate as a label in a chart: in percent where people say percent.

    >>> value_text(0.8123), value_text(0.8123, "top_share(p=0.01)")
    ('0.8123', '81.2%')
    """
    found = math.nan if value is None else value
    return percent(found) if is_share(metric) else number(found)


def reason_text(note: str | None) -> str:
    """Why there is no number, in words."""
    code = (note or "").split(";")[0].strip()
    return f"undefined: {REASONS.get(code, code)}" if code else "undefined"


SHARE = ".3~p"
"""d3 format of axes in percent, down to millionths."""

PLAIN = "~g"
"""d3 format of axes with plain numbers."""

AMOUNT = "~s"
"""d3 format of axes with amounts that may be large: 10k, 2M."""


def share_x(name: str, title: str, **more: Any) -> Any:
    """A horizontal axis from 0 to 100%."""
    return alt.X(
        f"{name}:Q", title=title, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=SHARE, tickCount=5), **more
    )


def share_y(name: str, title: str, **more: Any) -> Any:
    """A vertical axis from 0 to 100%."""
    return alt.Y(
        f"{name}:Q", title=title, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=SHARE, tickCount=5), **more
    )


def series_colour(names: Sequence[str], title: str | None = None, *, legend: bool = True) -> Any:
    """One colour of the palette per series, in this order, by the field `series`."""
    shown = alt.Legend(title=title, orient="top", symbolLimit=MOST_SERIES, labelLimit=220) if legend else None
    return alt.Color("series:N", scale=alt.Scale(domain=list(names)), sort=list(names), legend=shown)


def tooltip(**titles: str) -> list[Any]:
    """Tooltips from internal fields to titles; a field that ends in `_text` is shown as it stands."""
    return [
        alt.Tooltip(f"{name}:{'N' if name.endswith('_text') or name in ('label', 'series') else 'Q'}", title=title)
        for name, title in titles.items()
    ]

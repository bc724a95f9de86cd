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

import functools
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt

from evenhand.cards import REGISTRY, Card, parse_call
from evenhand.errors import EvenhandError, listing
from evenhand.findings import Findings
from evenhand.present.phrases import PHRASES
from evenhand.present.text import REASONS, number, percent, plural, short_percent, slice_names
from evenhand.present.theme import MOST_SERIES

MOST_POINTS = 4000
"""Points in one picture, however large the data."""

LEGEND = 460
"""Pixels that one line of a legend may take."""

MOST_ROWS = 24
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
    lead : whether what it says is a finding, to be told at the top of the page.
    """

    panels: tuple[Panel, ...]
    table: Mapping[str, Sequence[Any]]
    says: str
    note: str = ""
    lead: bool = True


Drawer = Callable[[Findings], Picture]
Unless = Callable[[Findings], str]


def always(_: Findings) -> str:
    """For `unless`: nothing stands in the way."""
    return ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of chart: its name, the audits it fits (empty: all), its title, and what it needs of the findings.

    `unless` says why findings cannot be drawn this way, or nothing when they can. `place` orders the charts of a report
    (0 first); `reported` is False for kinds that are made on request only.
    """

    name: str
    draw: Drawer
    title: str
    audits: tuple[str, ...] = ()
    unless: Unless = field(default=always)
    place: int = 0
    reported: bool = True

    def problem(self, findings: Findings) -> str:
        """Why these findings cannot be drawn this way, in words, or nothing."""
        if not self.audits and "estimate" not in findings.columns:
            return f"a {findings.audit} result holds no estimates"
        if self.audits and findings.audit not in self.audits:
            return f"it draws {listing(self.audits)}, and this is {findings.audit}"
        return self.unless(findings)


KINDS: dict[str, Kind] = {}


def chart(
    kind: str,
    *,
    title: str,
    audits: tuple[str, ...] = (),
    unless: Unless = always,
    place: int = 0,
    reported: bool = True,
) -> Callable[[Drawer], Drawer]:
    """Declare a kind of chart; the first that fits, by place and then as declared, is what `.plot()` draws."""

    def declare(draw: Drawer) -> Drawer:
        if kind in KINDS:
            raise EvenhandError(f"The chart {kind!r} is declared twice. Give one of them another name.")
        KINDS[kind] = Kind(kind, draw, title, audits, unless, place, reported)
        return draw

    return declare


def without_curve(name: str) -> Unless:
    """For `unless`: the findings must hold points of this curve."""
    return lambda findings: "" if findings.curves.get(name) else f"the result holds no {name} points"


_UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


def speakable(findings: Findings) -> Findings:
    """The same findings with labels that a chart can hold.

    Inside an expression of Vega a Unicode line separator ends the string, and what XML does not allow (control characters)
    aborts the process that writes a picture.
    """

    def plain(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
        return {
            _spoken(name): [_spoken(v) for v in column] if any(isinstance(v, str) for v in column) else column
            for name, column in columns.items()
        }

    return replace(
        findings, slices=tuple(map(_spoken, findings.slices)), columns=plain(findings.columns),
        curves={name: plain(points) for name, points in findings.curves.items()},
        words={role: _spoken(said) for role, said in findings.words.items()},
    )  # fmt: skip


def _spoken(value: Any) -> Any:
    return _UNSPEAKABLE.sub(" ", value) if isinstance(value, str) else value


def drawable(value: Any) -> Any:
    """A value that a chart can hold: NaN and infinities become nothing."""
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records(**columns: Sequence[Any]) -> Any:
    """Chart data from columns with fixed internal names (`label`, `x`, `y`, `low`, `high`, ...).

    Numbers keep seven digits: no screen shows more, and a page with many curves stays small.
    """
    rows = zip(*columns.values(), strict=True)
    return alt.Data(values=[dict(zip(columns, map(_point, row), strict=True)) for row in rows])


def _point(value: Any) -> Any:
    found = drawable(value)
    return float(f"{found:.7g}") if isinstance(found, float) else found


def slice_labels(findings: Findings, columns: Mapping[str, Sequence[Any]] | None = None) -> list[str]:
    """One short label per row of the frame (or of a curve); empty text for an unsliced audit."""
    return slice_names(findings.slices, findings.columns if columns is None else columns)


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


def holders(findings: Findings) -> str:
    """Those a Lorenz curve runs over: the units, but for a recommender the items and not its users."""
    return plural(word(findings, "holder", word(findings, "unit")))


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of first appearance."""
    return list(dict.fromkeys(values))


def wrapped(text: str, width: int = 26) -> str:
    r"""A label for `label_axis`: what does not fit on the first line stands, all of it, on the second.

    >>> wrapped("Normalised discounted difference")
    'Normalised discounted\ndifference'
    """
    first = next(iter(textwrap.wrap(text, width, break_long_words=False)), text)
    rest = text.strip()[len(first) :].strip()
    return f"{first}\n{rest}" if rest and text.strip().startswith(first) else text


def label_axis(**more: Any) -> Any:
    """An axis of labels made by `wrapped`; each line is cut where it would take the chart's room."""
    return alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=170, **more)


def ends(ordered: Sequence[str], most: int = MOST_ROWS) -> list[str]:
    """The first and the last of many labels: where a chart has no room, the extremes are the story."""
    if len(ordered) <= most:
        return list(ordered)
    half = most // 2
    return [*ordered[:half], *ordered[-(most - half) :]]


@functools.lru_cache(maxsize=1024)
def card_of(metric: str) -> Card | None:
    """The card behind a metric string, or nothing for a quantity that has none (`outcome_gap`)."""
    try:
        name, _, _ = parse_call(metric.partition("@")[0], role="metrics")
    except EvenhandError:
        return None
    return REGISTRY[name].card if name in REGISTRY else None


@functools.lru_cache(maxsize=1024)
def metric_title(metric: str) -> str:
    """A metric string as a heading: parameters as people say them.

    >>> metric_title("top_share(p=0.01)"), metric_title("atkinson(epsilon=0.5)"), metric_title("some_gap")
    ('Share of the top 1%', 'Atkinson index (epsilon 0.5)', 'Some gap')
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


_PERCENT_PARTS = frozenset(name for (_, name), phrase in PHRASES.items() if "{estimate:percent}" in phrase)


def is_share(metric: str) -> bool:
    """Whether people read this metric in percent; its sentence says so."""
    card = card_of(metric)
    return metric in _PERCENT_PARTS if card is None else "{estimate:percent}" in card.says


def value_text(value: float | None, metric: str = "", beside: float | None = None) -> str:
    """An estimate as a label in a chart: in percent where people say percent.

    >>> value_text(0.8123), value_text(0.8123, "top_share(p=0.01)")
    ('0.8123', '81.2%')
    """
    found = math.nan if value is None else value
    return percent(found, beside) if is_share(metric) else number(found)


def reason_text(note: str | None) -> str:
    """Why there is no number, in words."""
    code = (note or "").split(";")[0].strip()
    return f"undefined: {REASONS.get(code, code)}" if code else "undefined"


SHARE = ".3~p"
"""d3 format of axes in percent, down to millionths."""


def axis_format(values: Iterable[float], metric: str = "") -> str:
    """The d3 format that suits these values: percent, plain numbers, or 10k and 2M.

    >>> axis_format([0.2, 0.9]), axis_format([3, 20_000]), axis_format([0.1], "top_share(p=0.01)")
    ('.6~g', '.3~s', '.3~p')
    """
    if is_share(metric):
        return SHARE
    sizes = [abs(v) for v in values if math.isfinite(v) and v != 0]
    if not sizes or max(sizes) < 10_000:
        return ".6~g"
    return ".3~s" if min(sizes) >= 1 else ",.6~g"


def decades(values: Iterable[float]) -> list[float]:
    """Ticks of a log axis: powers of ten around the values, with 2 and 5 times them where there are few.

    >>> decades([0.02, 0.3]), decades([1, 5000])
    ([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0], [1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    known = [v for v in values if v > 0]
    if not known:
        return [1.0]
    first, last = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    steps = (1, 2, 5) if last - first < 3 else (1,)
    ticks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [t for t in ticks if t <= float(f"1e{last}")]


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
    across = max(
        1, LEGEND // (34 + 7 * min(30, max(map(len, names), default=1)))
    )  # else a long legend widens the chart
    shown = (
        alt.Legend(title=title, orient="top", symbolLimit=MOST_SERIES, labelLimit=220, columns=across)
        if legend
        else None
    )
    return alt.Color("series:N", scale=alt.Scale(domain=list(names)), sort=list(names), legend=shown)


def tooltip(**titles: str) -> list[Any]:
    """Tooltips from internal fields to titles; a field that ends in `_text` is shown as it stands."""
    return [
        alt.Tooltip(f"{name}:{'N' if name.endswith('_text') or name in ('label', 'series') else 'Q'}", title=title)
        for name, title in titles.items()
    ]

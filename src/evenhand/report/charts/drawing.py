"""How a kind of chart is declared, and what chart functions share: panels, pictures, data.

A kind of chart is a function from Findings to a Picture, declared with `@chart`:

    @chart("slots", title="Who would gain and who would lose slots?", unless=without_metric("slots_gained"))
    def slots(findings: Findings) -> Picture:
        rows = [{"label": r["group"], "x": r["estimate"]} for r in findings.rows() if r["metric"] == "slots_gained"]
        panel = in_rows(rows, "dot", x=Axis("slots gained"), tips={"label": "group", "x": "slots gained"})
        return Picture((panel,), columns_of(rows, "label", "x"), "Dots: estimates.")

CONTRIBUTING.md has a whole example.

`registry.py` imports every module of this folder. The kinds of an audit are listed where it is declared
(`@audit(..., charts=("slots",))`) and come with the findings; a report shows them in that order.

Words of the user's data (column names, labels) go into values and titles, never into field names or expressions: Vega
reads `a.b` and `a[0]` as paths. Colours are never written out either: marks name a style (`style="reference"`) or a
position in the palette, so that one chart is right on white paper, on a dark screen and in print.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import altair as alt

from evenhand.errors import EvenhandError, on_one_line, printable
from evenhand.findings import Findings
from evenhand.report.charts.theme import SIZES
from evenhand.report.words.text import Row


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes. `chart` has no width: the page or the file decides; `height` is in pixels."""

    chart: Any
    title: str = ""
    height: int = SIZES.tall
    square: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as its function returns it: panels side by side, below them the same numbers as columns, and how to read it."""

    panels: tuple[Panel, ...]
    table: Mapping[str, Sequence[Any]]
    note: str = ""


Drawer = Callable[[Findings], Picture]
Unless = Callable[[Findings], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of chart: its name, its title, and what it needs of the findings.

    `unless` says why findings cannot be drawn this way, or nothing when they can. `general` kinds fit any result that holds
    estimates, whether its audit names them or not; `reported` is False for kinds that are made on request only.
    """

    name: str
    draw: Drawer
    title: str
    unless: Unless
    general: bool
    reported: bool

    def problem(self, findings: Findings) -> str:
        if self.general and "estimate" not in findings.columns:
            return f"a {findings.audit} result has no estimates"
        if findings.charts and not self.general and self.name not in findings.charts:
            return f"it is not a chart of {findings.audit} results"
        return self.unless(findings)


KINDS: dict[str, Kind] = {}


def chart(
    kind: str, *, title: str, unless: Unless = lambda _: "", general: bool = False, reported: bool = True
) -> Callable[[Drawer], Drawer]:
    def declare(draw: Drawer) -> Drawer:
        if kind in KINDS:
            raise EvenhandError(f"The chart {kind!r} is declared twice. Give one of them another name.")
        KINDS[kind] = Kind(kind, draw, title, unless, general, reported)
        return draw

    return declare


def without_curve(name: str) -> Unless:
    return lambda findings: (
        "" if any(map(len, findings.curves.get(name, {}).values())) else f"the result has no {name} points"
    )


def without_metric(name: str) -> Unless:
    return lambda findings: "" if name in findings.metrics() else f"it has no {name}"


_NOT_DRAWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


_INHERITED = frozenset(
    {
        "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
        "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__",
    }
)  # fmt: skip
"""Properties that every JavaScript object has."""


def drawable_labels(findings: Findings) -> Findings:
    """Findings whose labels a chart can hold.

    Inside an expression of Vega a Unicode line separator ends the string, and what XML does not allow (control characters)
    aborts the process that writes a picture. A label that is the name of a property of every JavaScript object is looked up
    there: a zero-width space makes it another name that reads the same.
    """

    def label(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        parts = value.split(">")  # a pair of groups is taken apart by who draws it
        escaped = [f"{part}\u200b" if part in _INHERITED else part for part in parts]
        return _NOT_DRAWABLE.sub(" ", printable(">".join(escaped)))

    def title(name: str) -> str:
        return label(on_one_line(name))  # type: ignore[no-any-return]  # Vega puts titles into expressions as they are

    def columns_with(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
        return {
            title(name): [label(v) for v in column] if any(isinstance(v, str) for v in column) else column
            for name, column in columns.items()
        }

    return replace(
        findings,
        slices=tuple(map(title, findings.slices)),
        columns=columns_with(findings.columns),
        curves={name: columns_with(points) for name, points in findings.curves.items()},
        claims=tuple(
            replace(c, group=label(c.group), where={title(k): label(v) for k, v in c.where.items()})
            for c in findings.claims
        ),
        words={role: title(text) for role, text in findings.words.items()},
    )


def drawable(value: Any) -> Any:
    """A value that a chart can hold: None for NaN and infinities."""
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records(rows: Iterable[Row]) -> Any:
    """Chart data from rows with fixed field names (`label`, `x`, `y`, `low`, `high`, ...).

    Numbers keep seven digits: no screen shows more, and a page with many curves stays small.
    """

    def rounded(value: Any) -> Any:
        finite = drawable(value)
        return float(f"{finite:.7g}") if isinstance(finite, float) else finite

    listed = list(rows)
    names = distinct(name for row in listed for name in row)
    return alt.Data(values=[{name: rounded(row.get(name)) for name in names} for row in listed])


def columns_of(rows: Sequence[Row], *names: str, **titles: str) -> dict[str, list[Any]]:
    """Fields of rows as columns of the table behind a chart, by their own names or by titles."""
    return {
        title: [drawable(row[name]) for row in rows]
        for name, title in {**dict(zip(names, names, strict=True)), **titles}.items()
    }


def long_table(findings: Findings) -> dict[str, list[Any]]:
    """The estimates behind a chart: columns without any content are left out."""
    names = [*findings.slices, "metric", "group", "estimate", "low", "high", "chance", "ideal"]
    columns = columns_of(list(findings.rows()), *names)
    return {n: c for n, c in columns.items() if n in ("metric", "estimate") or any(v is not None for v in c)}


T = TypeVar("T")


def distinct(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


def split(rows: Iterable[T], key: Callable[[T], Any]) -> dict[Any, list[T]]:
    """Rows by a key, in order of first appearance."""
    parts: dict[Any, list[T]] = {}
    for row in rows:
        parts.setdefault(key(row), []).append(row)
    return parts


def drawn_note(drawn: int, total: int, noun: str) -> str:
    """A note that some of many are drawn; empty where all are."""
    return f"{drawn:,} of {total:,} {noun} are drawn; the table has all." if total > drawn else ""

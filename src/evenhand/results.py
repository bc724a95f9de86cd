"""The object users hold: a tidy frame first, every picture drawn from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError
from evenhand.findings import Findings
from evenhand.present import tables, text
from evenhand.present.files import write_whole


@dataclass(frozen=True, repr=False)
class Result:
    """The answer to one question.

    Immutable, and never a dataframe in disguise: no attribute is forwarded to the frame, so what a Result can do is
    exactly what is written here. `backend` names the dataframe library that the caller uses.
    """

    findings: Findings
    backend: Any = "polars"

    @property
    def frame(self) -> Any:
        """One row per metric, slice and group, in your dataframe library (PyArrow where that is lazy only)."""
        return as_frame(self.findings.columns, self.backend)

    @property
    def provenance(self) -> dict[str, Any]:
        """Rows read and dropped and why, population, seed, versions, plan."""
        return dict(self.findings.provenance)

    def only(self, *metrics: str) -> Any:
        """The same result with these metrics only, named as in the `metric` column."""
        return replace(self, findings=self.findings.only(*metrics))

    def sentences(self) -> list[str]:
        """The findings in plain words."""
        return text.sentences(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the tallies, ready for JSON."""
        return self.findings.to_dict()

    def to_json(self, path: str | Path | None = None) -> str:
        """The result as JSON text, written to `path` if one is given; `eh.read.result` reads it back."""
        written = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=1)
        if path is not None:
            write_whole(path, written)
        return written

    def to_text(self, format: str = "table") -> str:
        """The frame as text: table, csv, tsv, jsonl, json, markdown or latex."""
        return tables.render(self.findings, format)

    def to_markdown(self) -> str:
        return tables.render(self.findings, "markdown")

    def to_latex(self) -> str:
        return tables.render(self.findings, "latex")

    def check(self, *rules: str) -> tables.Checks:
        """Hold the estimates against rules such as `"gini <= 0.9"`; people set the thresholds, not the library."""
        return tables.check(self.findings, rules)

    def plot(self, kind: str | None = None) -> Any:
        """An Altair chart; an unknown kind is an error that names the known ones."""
        from evenhand.present import charts

        return charts.draw(self.findings, kind)

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML file that a product manager can be sent."""
        from evenhand.present import report

        return write_whole(path, report.html(self.findings))

    def __repr__(self) -> str:
        return tables.render(self.findings, "table")

    def _repr_html_(self) -> str:
        return tables.html_table(self.findings)


def load(path: str | Path) -> Result:
    """A result that `to_json` wrote."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise EvenhandError(
            f"{str(path)!r} cannot be read ({error.strerror}). Pass the path of a saved result."
        ) from error
    except ValueError as error:
        raise EvenhandError(f"{str(path)!r} is not JSON. Pass a file that result.to_json(path) wrote.") from error
    if not isinstance(data, Mapping):
        raise EvenhandError(f"{str(path)!r} is not a saved result. Pass a file that result.to_json(path) wrote.")
    return Result(Findings.from_dict(data))


INTEGERS = frozenset({"units", "undefined_draws", "bin"})


def as_frame(columns: Mapping[str, Sequence[Any]], backend: Any) -> Any:
    """Tidy columns in the caller's dataframe library, with the same types whatever the rows hold."""
    import narwhals as nw

    schema = {name: _dtype(name, column) for name, column in columns.items()}
    data = {name: _cast(column, schema[name]) for name, column in columns.items()}
    try:
        return nw.from_dict(data, schema=schema, backend=backend).to_native()
    except ModuleNotFoundError as error:
        raise EvenhandError(f"{backend} is not installed. Install it, or read result.to_dict().") from error


def _dtype(name: str, column: Sequence[Any]) -> Any:
    import narwhals as nw

    from evenhand.findings import COLUMNS

    if name in INTEGERS:
        return nw.Float64 if any(v is None for v in column) else nw.Int64
    if name in COLUMNS:
        return nw.String if name in ("metric", "group", "better", "note") else nw.Float64
    kinds = {bool if isinstance(v, bool) else type(v) for v in column if v is not None}
    if kinds == {bool}:
        return nw.Boolean
    if kinds == {int} and None not in column:
        return nw.Int64
    if kinds and kinds <= {int, float}:
        return nw.Float64
    if kinds == {datetime}:
        return nw.Datetime
    return nw.Date if kinds == {date} else nw.String


def _cast(column: Sequence[Any], dtype: Any) -> list[Any]:
    import narwhals as nw

    if dtype is nw.String:
        return [None if v is None else str(v) for v in column]
    if dtype is nw.Float64:
        return [float("nan") if v is None else float(v) for v in column]
    return list(column)

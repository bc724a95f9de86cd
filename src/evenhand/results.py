"""The object users hold: a tidy frame first, every picture drawn from it."""

from __future__ import annotations

import importlib.util
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.claims import Candidate, Claim, decide, direction_of
from evenhand.errors import (
    DataWarning,
    EvenhandError,
    MissingExtraError,
    listing,
    printable,
    suggestion,
    unprintable_escaped,
)
from evenhand.findings import COLUMNS, NUMBERS, Findings, Row, in_bins, row, tidy
from evenhand.gates import Adjust, Checks, Inconclusive, check
from evenhand.intervals.kinds import difference, holm
from evenhand.report import table as tables
from evenhand.report.files import write_whole
from evenhand.report.table import tracked
from evenhand.report.words.phrases import metric_title
from evenhand.report.words.sentences import sentences


@dataclass(frozen=True, repr=False)
class Result:
    """The answer to one question.

    Immutable, and never a dataframe in disguise: no attribute is forwarded to the frame, so what a Result can do is
    exactly what is written here. `backend` names the dataframe library that the caller uses.
    """

    findings: Findings
    backend: Any = "polars"
    _whole: Callable[[], Any] | None = field(default=None, kw_only=True, compare=False)
    """Makes the result without slices, where it has some; a report needs it."""

    def __getstate__(self) -> dict[str, Any]:
        """A pickled result holds no table of the caller's."""
        return {**self.__dict__, "_whole": None}

    @property
    def frame(self) -> Any:
        """One row per metric, slice and group, in your dataframe library.

        PyArrow where that is lazy only.
        """
        return as_frame(self.findings.columns, self.backend, self.findings.slices)

    @property
    def provenance(self) -> dict[str, Any]:
        """Rows read and dropped and why, population, seed, versions, plan."""
        return dict(self.findings.provenance)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Everything this result asserts, each with its test and its adjusted p, made or not."""
        return self.findings.claims

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        from evenhand.report.words.sentences import headline_for
        from evenhand.report.words.summary import key_sentences

        headline = headline_for(self.findings)
        text = headline.text if headline else next(iter(key_sentences(self.findings)), "")
        return printable(text).replace("\n", " ")

    def only(self, *metrics: str) -> Any:
        """This result with these metrics only, named as in the `metric` column."""
        return replace(self, findings=self.findings.only(*metrics))

    def sentences(self) -> list[str]:
        """The findings in plain words."""
        return [printable(sentence).replace("\n", " ") for sentence in sentences(self.findings)]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the tallies, ready for JSON."""
        return self.findings.to_dict()

    def to_json(self, path: str | Path | None = None) -> str:
        """Result as JSON text, written to `path` if given; `eh.read.result` reads it back."""
        written = unprintable_escaped(json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=1))
        if path is not None:
            write_whole(path, written)
        return written

    def to_text(self, format: str = "table", *, raw: bool = False) -> str:
        """The frame as text in one of the formats.

        table, csv, tsv, jsonl, json, markdown, latex, openmetrics, or a grafana dashboard that reads those.

        Escape sequences in labels are left out. In csv and tsv, text that a spreadsheet would run as a formula (`=...`, `+`,
        `-`, `@`) has a quote before it; `raw=True` leaves such cells as they are, for other programs.
        """
        return tables.render(self.findings, format, raw=raw)

    def to_markdown(self) -> str:
        """The frame as a Markdown table."""
        return tables.render(self.findings, "markdown")

    def to_latex(self, *, caption: str = "", label: str = "") -> str:
        """The frame as a LaTeX table (booktabs, siunitx), the best value of each metric in bold.

        A `caption` or a `label` (`"tab:gini"`) makes a float of it.
        """
        return tables.latex_float(tables.render(self.findings, "latex"), caption, label)

    def check(
        self,
        *rules: str | Sequence[str],
        baseline: Result | str | Path | None = None,
        inconclusive: Inconclusive = "estimate",
        adjust: Adjust | None = "holm",
    ) -> Checks:
        """Check the estimates against rules such as `"gini <= 0.9"`, one row per rule and slice.

        People set the thresholds, not the library.

        With `baseline`, a result or the path of a saved one, also against `"gini <= baseline + 0.01"`: the difference is tested with
        the errors of both. A check whose interval reaches the other side is inconclusive: the estimate decides, with a warning,
        or `inconclusive="pass"` or `"fail"`. With `"pass"`, failures are adjusted over all checks (Holm), unless `adjust=None`.
        """
        earlier = baseline if isinstance(baseline, Result) or baseline is None else load(baseline)
        checks = check(
            self.findings,
            [rule for words in rules for rule in ([words] if isinstance(words, str) else words)],
            baseline=() if earlier is None else (earlier.findings,),
            inconclusive=inconclusive,
            adjust=adjust,
        )
        if doubt := checks.doubt(inconclusive):
            warnings.warn(doubt, DataWarning, stacklevel=2)
        return checks

    def compare(self, other: Result, *, independent: bool = False) -> Result:
        """Another result of the same question minus this one, row by row.

        A result holds no units and a saved one no requests, so whether the two share any is not known: interval and
        Holm-adjusted p are given where the caller vouches that they share none (`independent=True`). `eh.experiment` compares
        arms and periods from the log itself.
        """
        compared = difference_of(self.findings, other.findings, independent=independent)
        claims = decide(difference_claims(list(compared.rows()), compared.slices), compared.provenance["level"])
        return Result(replace(compared, claims=claims), self.backend)

    @property
    def kinds(self) -> list[str]:
        """Names of the charts that `.plot(kind)` can draw; `.plot()` draws the first."""
        from evenhand.report.charts import registry as charts

        return [kind.name for kind in charts.kinds_for(self.findings)]

    def plot(self, kind: str | None = None, *, width: float | None = None, height: float | None = None) -> Any:
        """An Altair chart of one of `.kinds`; `width` and `height` of each panel are in pixels.

        A notebook shows it without a network, with tooltips where it can draw Vega-Lite itself; `.save("chart.svg")` (or .png,
        .html) writes it.
        """
        from evenhand.report.charts import registry as charts

        return charts.draw(self.findings, kind, width=width, height=height)

    def figure(
        self,
        path: str | Path,
        kind: str | None = None,
        *,
        width_mm: float = 84,
        height_mm: float | None = None,
        dpi: float = 300,
    ) -> Path:
        """Write one of `.kinds` as a figure of a paper (.pdf, .svg or .png), in letters of 8 points and without a title.

        84 mm are one of two columns; `dpi` is for .png.
        """
        from evenhand.report.charts import registry as charts

        return charts.save_figure(self.findings, path, kind, width_mm, height_mm, dpi)

    def report(self, path: str | Path, *, profile: str | Path | None = None) -> Path:
        """One self-contained HTML file that a product manager can be sent.

        `profile` makes a page for the file instead: question, answer, scope, method, limits, hashes and sign-off in the order of
        a template (`record`, `dsa`, `ll144`, `ai-act`, or the path of your own TOML file).
        """
        from evenhand.report import page
        from evenhand.report import profile as profiles

        if profile is not None:
            return write_whole(path, profiles.html(self.findings, profile))
        return write_whole(path, page.html(self.findings, self._overall()))

    def _overall(self) -> Findings | None:
        """The findings without slices; None where there are none, or the data are not as they were."""
        if self._whole is None:
            return None
        try:
            overall: Findings = self._whole().findings
        except EvenhandError:  # a reader that was read, sizes by slice
            return None
        same_rows = overall.provenance.get("rows") == self.findings.provenance.get("rows")
        metrics = [name for name in overall.metrics() if name in self.findings.metrics()]
        return overall.only(*metrics) if same_rows and metrics else None

    def pivot(self, by: str = "group", *, values: str = "estimate") -> Any:
        """One row per group (or label of a slice column), one column per metric.

        What fairlearn calls `by_group`. Slice columns that are not named follow as further columns of labels; rows that
        have no group are left out of a pivot by group. `values` may also be another column of numbers, such as `"low"`.
        """
        return as_frame(pivoted(self.findings, by, values), self.backend, self.findings.slices)

    def log_mlflow(self, *, prefix: str = "", folder: str = "evenhand") -> dict[str, float]:
        """Log numbers, table, report and the result itself into the active MLflow run.

        Returns what was logged as metrics, by name: names are made legal, `top_share(p=0.01)` is `top_share_p_0.01`.
        `prefix` keeps two results of one run apart. Infinite numbers stand in the table only: MLflow cannot hold them.
        """
        try:
            import mlflow
        except ModuleNotFoundError as error:
            raise MissingExtraError("mlflow", "mlflow") from error
        from evenhand.report import page as report

        numbers = tracked(self.findings, prefix)
        name = f"{folder}/{prefix}{self.findings.audit}"
        mlflow.log_metrics(numbers)
        mlflow.log_text(self.to_text("csv"), f"{name}.csv")
        mlflow.log_text(report.html(self.findings), f"{name}.html")
        mlflow.log_text(self.to_json(), f"{name}.json")
        mlflow.set_tag(f"evenhand.{prefix}{self.findings.audit}", self.findings.question)
        return numbers

    def __repr__(self) -> str:
        return tables.render(self.findings, "table")

    def _repr_html_(self) -> str:
        from evenhand.report.page import notebook_html

        return notebook_html(self.findings)


def load(path: str | Path) -> Result:
    """A result that `to_json` wrote."""
    if not isinstance(path, (str, Path)):
        raise EvenhandError(f"{path!r} is not a path. Pass the path of a saved result.")
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise EvenhandError(
            f"{str(path)!r} cannot be read ({error.strerror}). Pass the path of a saved result."
        ) from error
    except (ValueError, RecursionError) as error:
        raise EvenhandError(f"{str(path)!r} is not JSON. Pass a file that result.to_json(path) wrote.") from error
    if not isinstance(data, Mapping):
        raise EvenhandError(f"{str(path)!r} is not a saved result. Pass a file that result.to_json(path) wrote.")
    try:
        return Result(Findings.from_dict(data))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        fault = str(error) if isinstance(error, EvenhandError) else "its columns cannot be read"
        raise EvenhandError(
            f"{str(path)!r} is not a saved result: {fault.rstrip('.')}. Pass a file that result.to_json(path) wrote."
        ) from error


COMPARED = ("a", "b", "p", "p_adjusted")
"""Columns that a comparison adds."""


def difference_of(a: Findings, b: Findings, *, independent: bool) -> Findings:
    """The rows of b minus those of a; a row that only one of them has is kept, with a note.

    `independent` : the two are known to share no unit and no request. Otherwise a difference has no interval and no p.
    """
    if a.audit != b.audit or a.slices != b.slices:
        raise EvenhandError(
            f"The results answer different questions: {a.audit} by {list(a.slices)} and {b.audit} by {list(b.slices)}. "
            "Compare two results of the same call."
        )
    if not {"metric", "group", "estimate"} <= a.columns.keys() & b.columns.keys():
        raise EvenhandError(f"Results of {a.audit} hold no estimates to compare. Compare those of another audit.")
    taken = [s for s in a.slices if s in COMPARED]
    if taken:
        raise EvenhandError(
            f"{taken[0]!r} is also a column of every comparison. Rename that column of the table first."
        )
    bins = ("bin",) if in_bins(a) else ()  # bins of a score are slices in all but name
    slices = (*a.slices, *bins)

    def keyed(findings: Findings) -> dict[tuple[Any, ...], Row]:
        return {(*(str(r[s]) for s in slices), r["metric"], r["group"]): r for r in findings.rows()}

    rows_a, rows_b = keyed(a), keyed(b)
    if not rows_a.keys() & rows_b.keys():
        raise EvenhandError("The results share no row. Compare results with the same metrics and slices.")
    level = float(a.provenance.get("level", 0.95))
    is_ranked = a.audit in ("exposure", "pairwise", "prefix")  # units are requests
    why = "" if independent else "unpaired" if is_ranked else "may_share_units"
    if not why and float(b.provenance.get("level", 0.95)) != level:
        why = "other_level"
    rows = [
        _difference_row(slices, rows_a.get(key), rows_b.get(key), level, why)
        for key in dict.fromkeys([*rows_a, *rows_b])
    ]
    adjusted = holm([r["p"] for r in rows])
    rows = [{**r, "p_adjusted": float(p)} for r, p in zip(rows, adjusted, strict=True)]
    facts = {"level": level, "p_adjusted": "Holm over all rows", "a": dict(a.provenance), "b": dict(b.provenance)}
    if not why:
        facts["interval_for"] = "The interval is for two independent samples, each drawn like one of these two."
    columns = tidy(rows, slices, COMPARED)
    return Findings("compare", "Did it change, and by more than chance?", slices, columns, {}, a.words, facts)


def _difference_row(slices: tuple[str, ...], a: Row | None, b: Row | None, level: float, why: str) -> Row:
    """The difference of two rows, at least one of them present; `why` says why its standard error is unknown, or nothing."""
    present: Row = a or b or {}
    labels = {s: present[s] for s in slices}
    sides = {"a": math.nan if a is None else float(a["estimate"]), "b": math.nan if b is None else float(b["estimate"])}
    if a is None or b is None:
        absent = "absent from b" if b is None else "absent from a"
        return row(labels, present["metric"], group=present["group"], **sides, p=math.nan, note=absent)
    ends = [tuple(np.asarray(r[k], dtype=np.float64) for k in ("estimate", "low", "high")) for r in (a, b)]
    gap, low, high, p = (float(x) for x in difference(ends[0], ends[1], level))  # type: ignore[arg-type]
    # the interval of one unit, or one with equal ends, does not measure sampling error
    if why or not all(r["high"] > r["low"] and r["units"] != 1 for r in (a, b)):
        low = high = p = math.nan
    notes = [*sorted({n for r in (a, b) for n in (r["note"] or "").split("; ") if n}), *([why] if why else [])]
    return row(
        labels, present["metric"], group=present["group"], estimate=gap, low=low, high=high, ideal=0.0, better=present["better"],
        **sides, p=p, note="; ".join(notes) or None,
    )  # fmt: skip


def difference_claims(
    rows: Sequence[Row], slices: Sequence[str], names: Callable[[Row], tuple[str, str]] = lambda _: ("a", "b")
) -> list[Candidate]:
    """For every difference that was tested, which of the two `names` of its row is higher: the second minus the first."""
    candidates = []
    for r in rows:
        if not math.isnan(r["p"]):
            (first, second), title, side = names(r), metric_title(r["metric"]), direction_of(r["estimate"])
            text = f"{title} is {side} in {second} than in {first}"
            otherwise = f"{title} does not differ significantly between {first} and {second}"
            where = {s: r[s] for s in slices}
            candidates.append(Candidate(r["p"], side, text, otherwise, r["metric"], r["group"], where))
    return candidates


def pivoted(findings: Findings, by: str, values: str) -> dict[str, list[Any]]:
    """Columns of labels, the one named first, then one column of values per metric."""
    if "group" not in findings.columns:
        return _pivoted_list(findings)
    label_columns = [*findings.slices, "group"]
    if by not in label_columns:
        raise EvenhandError(
            f"by={by!r} is not a column of labels of this result. {suggestion(str(by), label_columns)}Known: {listing(label_columns)}."
        )
    if values not in NUMBERS:
        raise EvenhandError(f"values={values!r} is not a column of numbers. Use one of: {listing(sorted(NUMBERS))}.")
    rows = [r for r in findings.rows() if by != "group" or r["group"] is not None]
    if not rows:
        raise EvenhandError(
            f"No row of this result has a group. Pivot by one of: {listing(findings.slices) or 'none'}."
        )
    keys = [by, *(k for k in label_columns if k != by and any(r[k] is not None for r in rows))]
    metrics = list(dict.fromkeys(r["metric"] for r in rows))
    if both := set(keys) & set(metrics):
        raise EvenhandError(f"{listing(sorted(both))} names a slice and a metric. Rename the column of the table.")
    cells: dict[tuple[Any, ...], dict[str, float]] = {}
    for r in rows:
        cells.setdefault(tuple(r[k] for k in keys), {})[r["metric"]] = float(r[values])
    labels = {key: [label[i] for label in cells] for i, key in enumerate(keys)}
    return labels | {m: [cell.get(m, math.nan) for cell in cells.values()] for m in metrics}


def _pivoted_list(findings: Findings) -> dict[str, list[Any]]:
    """An answer that lists metrics (advice, criteria, agreement), one column per metric.

    A row per label of the column behind `metric`, with what the next column says; per column where a metric has one row.
    """
    rows = list(findings.rows())
    metrics = list(dict.fromkeys(r["metric"] for r in rows))
    others = [name for name in findings.columns if name != "metric"]
    if len(metrics) == len(rows):
        return {"column": others} | {r["metric"]: [None if r[k] is None else str(r[k]) for k in others] for r in rows}
    key, value = others[:2]
    cells = {(r[key], r["metric"]): r[value] for r in rows}
    labels = list(dict.fromkeys(r[key] for r in rows))
    return {key: labels} | {m: [cells.get((name, m)) for name in labels] for m in metrics}


FIGURES = frozenset({
    "a", "b", "bin_high", "bin_low", "detectable", "effect", "floor", "found", "intercept", "least", "most", "p", "p_adjusted",
    "p_favoured", "pairs", "rank", "se", "slope", "stability", "tau_c", "undefined", "value",
})  # fmt: skip
"""Columns of single audits that hold numbers, also where no row has one."""


def as_frame(columns: Mapping[str, Sequence[Any]], backend: Any, slices: Sequence[str] = ()) -> Any:
    """Tidy columns in the caller's dataframe library, with types that do not depend on the rows.

    Columns of labels (`slices`) are of the type of their labels, whatever they are called.
    """
    import narwhals as nw

    if backend == "pyarrow" and importlib.util.find_spec("pyarrow") is None:
        backend = "polars"  # frames of lazy libraries are handed out in one of the two
    schema = {name: _label_dtype(c) if name in slices else _dtype(name, c) for name, c in columns.items()}
    data = {name: _cast(column, schema[name]) for name, column in columns.items()}
    try:
        return nw.from_dict(data, schema=schema, backend=backend).to_native()
    except ModuleNotFoundError as error:
        raise EvenhandError(f"{backend} is not installed. Install it, or read result.to_dict().") from error


def _dtype(name: str, column: Sequence[Any]) -> Any:
    import narwhals as nw

    if name in ("units", "undefined_draws", "bin"):
        return nw.Float64 if any(v is None for v in column) else nw.Int64
    if name in COLUMNS:
        return nw.String if name in ("metric", "group", "better", "note") else nw.Float64
    if name in FIGURES and all(v is None for v in column):
        return nw.Float64
    if name == "until" and all(v is None for v in column):  # every alarm stands
        return nw.Date
    return _label_dtype(column)


def _label_dtype(column: Sequence[Any]) -> Any:
    """Type that holds every label; None leaves it to the library.

    pandas has no missing boolean of a boolean type.
    """
    import narwhals as nw

    values = [v for v in column if v is not None]
    gaps = len(values) < len(column)
    kinds = {type(v.item() if isinstance(v, np.generic) else v) for v in values}
    if kinds == {bool}:
        return None if gaps else nw.Boolean
    if kinds == {int}:
        low, high = min(values), max(values)
        if gaps:  # floats, text where they would not be exact
            return nw.Float64 if max(-low, high) <= 2**53 else nw.String
        if low >= -(2**63) and high < 2**63:
            return nw.Int64
        return nw.UInt64 if low >= 0 and high < 2**64 else nw.String
    if kinds and kinds <= {int, float}:
        return nw.Float64
    if kinds == {datetime}:
        zones = {getattr(v.tzinfo, "key", v.tzinfo) for v in values}
        zone = zones.pop() if len(zones) == 1 else ""
        return nw.Datetime("us", zone) if zone is None or (zone and isinstance(zone, str)) else nw.String
    return nw.Date if kinds == {date} else nw.String


def _cast(column: Sequence[Any], dtype: Any) -> list[Any]:
    import narwhals as nw

    if dtype is nw.String:
        return [None if v is None else str(v) for v in column]
    if dtype is nw.Float64:
        return [float("nan") if v is None else float(v) for v in column]
    return list(column)

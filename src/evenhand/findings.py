"""All that pictures, tables and reports may see: tidy rows with their notes and intervals, curves, and where the numbers come from."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from evenhand.cards import REGISTRY, MetricSpec, lowercase_name, parse_metric
from evenhand.claims import DIRECTIONS, Claim
from evenhand.errors import EvenhandError, listing, suggestion, unknown_name
from evenhand.intervals.kinds import ANYTHING, FEW_UNITS, MIN_UNITS, holm_by_family, reported_ends

COLUMNS = (
    "metric", "group", "estimate", "low", "high", "chance", "ideal", "better", "units", "undefined_draws", "note"
)  # fmt: skip
"""Every frame has these, in this order, after its slice columns; an audit may add more behind them."""

RANGE = ("floor", "least", "most")
"""What the volume of the data allows, where it binds a metric: the value of an ideal policy on as few requests (EEL), and the
range of a metric of few rows over many units."""
NUMBERS = frozenset({"estimate", "low", "high", "chance", "ideal"})


Row = dict[str, Any]


def row(labels: Mapping[str, Any], metric: str, **values: Any) -> Row:
    """One row of the frame; what is not given is absent."""
    blank: Row = {
        "group": None, "estimate": math.nan, "low": math.nan, "high": math.nan, "chance": math.nan, "ideal": math.nan,
        "better": "", "units": None, "undefined_draws": 0, "note": None,
    }  # fmt: skip
    return {**labels, "metric": metric, **blank, **values}


def tidy(rows: Sequence[Row], slices: Sequence[str], extra: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Rows as columns: slices, standard columns, range where volume binds, an audit's extras."""
    bound = [name for name in RANGE if name not in extra and any(name in r for r in rows)]
    names = [*slices, *COLUMNS, *bound, *extra]
    return {name: [r.get(name) for r in rows] for name in names}


@dataclass(frozen=True)
class Findings:
    """The answer as plain data.

    Attributes
    ----------
    audit : which question was asked (`"inequality"`); `question` is the same in words.
    slices : names of the slice columns.
    columns : the tidy frame, by column, in order; all of one length.
    curves : named sets of tidy points (`"lorenz"`: slice columns, population, share), for pictures.
    words : what the roles are called in the user's data (`unit`, `amount`), for sentences and axes.
    provenance : rows read and dropped, population, seed, versions, plan; JSON-ready.
    charts : kinds of pictures that suit the question, the first by default.
    claims : everything the result asserts, each with its test.
    """

    audit: str
    question: str
    slices: tuple[str, ...]
    columns: Mapping[str, Sequence[Any]]
    curves: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    charts: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise EvenhandError(f"Columns of a frame differ in length: {lengths}. This is a fault in evenhand.")

    def __len__(self) -> int:
        return len(self.columns["metric"])

    def rows(self) -> Iterator[dict[str, Any]]:
        names = list(self.columns)
        return (dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True))

    def metrics(self) -> list[str]:
        return list(dict.fromkeys(self.columns["metric"]))

    def only(self, *metrics: str) -> Findings:
        present = self.metrics()
        metrics = tuple(name if name in present else lowercase_name(name) for name in metrics)
        for name in metrics:
            if name not in present:
                raise EvenhandError(
                    f"{name!r} is not in this result. {suggestion(name, present)}It holds: {listing(present)}."
                )
        keep = [i for i, name in enumerate(self.columns["metric"]) if name in metrics]
        columns = {name: [column[i] for i in keep] for name, column in self.columns.items()}
        return replace(self, columns=columns, claims=tuple(c for c in self.claims if c.metric in metrics))

    def claim(self, row: Mapping[str, Any]) -> Claim | None:
        """The claim about this row of the frame, made or not; None where nothing is asserted about it."""
        for names, claims in self._claims_by_columns.items():
            key = (row["metric"], row.get("group"), *(str(row.get(name)) for name in names))
            if key in claims:
                return claims[key]
        return None

    @cached_property
    def _claims_by_columns(self) -> dict[tuple[str, ...], dict[tuple[Any, ...], Claim]]:
        """Claims by the columns that say where they hold, and then by metric, group and the values of these columns."""
        index: dict[tuple[str, ...], dict[tuple[Any, ...], Claim]] = {}
        for claim in self.claims:
            key = (claim.metric, claim.group, *map(str, claim.where.values()))
            index.setdefault(tuple(claim.where), {}).setdefault(key, claim)
        return index

    def slice_label(self, row: Mapping[str, Any]) -> str:
        """The slice of a row in words: `"source=likes"`, or nothing for an unsliced audit."""
        return slice_words(self.slices, [row[name] for name in self.slices], whole="")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: NaN is None, infinities are the text "Infinity" and "-Infinity"."""
        return {
            "audit": self.audit,
            "question": self.question,
            "slices": list(self.slices),
            "columns": {name: [plain(v) for v in column] for name, column in self.columns.items()},
            "curves": {k: {n: [plain(v) for v in c] for n, c in points.items()} for k, points in self.curves.items()},
            "words": dict(self.words),
            "provenance": plain(self.provenance),
            "charts": list(self.charts),
            "claims": [plain(asdict(claim)) for claim in self.claims],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Findings:
        missing = [k for k in ("audit", "question", "slices", "columns", "curves", "provenance") if k not in data]
        if missing:
            raise EvenhandError(
                f"This is not a saved result: it lacks {listing(missing)}. Save one with result.to_json(path)."
            )
        if fault := _fault(data):
            raise EvenhandError(f"This is not a saved result: {fault}. Save one with result.to_json(path).")
        columns = {
            name: [read_number(v) for v in column] if name in NUMBERS else list(column)
            for name, column in data["columns"].items()
        }
        infinite = {"Infinity": math.inf, "-Infinity": -math.inf}
        curves = {
            k: {n: [infinite.get(v, v) if isinstance(v, str) else v for v in c] for n, c in points.items()}
            for k, points in data["curves"].items()
        }
        texts = data["audit"], data["question"], tuple(data["slices"])
        charts, claims = tuple(data.get("charts", ())), tuple(map(_claim, data.get("claims", ())))
        return cls(*texts, columns, curves, data.get("words", {}), data["provenance"], charts, claims)


def _claim(data: Mapping[str, Any]) -> Claim:
    claim = Claim(**{**data, "p": read_number(data["p"]), "p_adjusted": read_number(data["p_adjusted"])})
    if claim.direction not in DIRECTIONS or not isinstance(claim.made, bool) or not isinstance(claim.where, Mapping):
        raise EvenhandError(
            "This is not a saved result: its claims cannot be read. Save one with result.to_json(path)."
        )
    return claim


def _fault(data: Mapping[str, Any]) -> str:
    """Why plain data are not findings, in words; empty where they are."""
    columns, curves, slices = data["columns"], data["curves"], data["slices"]
    if not all(map(_are_texts, ([data["audit"], data["question"]], slices, data.get("charts", [])))):
        return "its audit, question, slices or charts are not text"
    if not _is_table(columns) or not {"metric", *slices} <= set(columns) or not _are_texts(columns["metric"]):
        return "its columns cannot be read"
    measured = set(COLUMNS) - {"metric", "group", "units", "note", "chance"}  # which other answers have as well
    if measured & set(columns) and not set(COLUMNS) <= set(columns):
        return f"it lacks the column {listing(sorted(set(COLUMNS) - set(columns)))}"
    if not isinstance(curves, Mapping) or not all(_is_table(points) for points in curves.values()):
        return "its curves cannot be read"
    words, facts = data.get("words", {}), data["provenance"]
    if not isinstance(words, Mapping) or not _are_texts(list(words.values())) or not isinstance(facts, Mapping):
        return "its words or its provenance cannot be read"
    if not all(isinstance(facts.get(name, {}), Mapping) for name in ("dropped", "versions", "needed_again", "a", "b")):
        return "its provenance cannot be read"
    counts = [*facts.get("dropped", {}).values(), *(facts[name] for name in ("rows", "requests") if name in facts)]
    if not all(v is None or _is_number(v) for v in counts):
        return "the counts of its provenance are not numbers"
    if not isinstance(facts.get("plan", {}), Mapping) or not (
        _is_number(level := facts.get("level", 0.95)) and 0 < level < 1
    ):
        return "its plan or its level cannot be read"
    texts = [columns[name] for name in ("group", "better", "note") if name in columns]
    if not all(v is None or isinstance(v, str) for column in texts for v in column):
        return "its groups or notes are not text"
    counts = [v for name in ("units", "undefined_draws") for v in columns.get(name, [])]
    numbers = [v for name in NUMBERS & set(columns) for v in columns[name]]
    if not all(v is None or _is_number(v) or v in ("Infinity", "-Infinity") for v in (*counts, *numbers)):
        return "its numbers are not numbers"
    return ""


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(v, str) for v in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def _is_table(columns: Any) -> bool:
    if not isinstance(columns, Mapping) or not all(isinstance(column, list) for column in columns.values()):
        return False
    plain_values = all(not isinstance(v, (list, dict)) for column in columns.values() for v in column)
    return plain_values and len({len(column) for column in columns.values()}) <= 1


def key_columns(findings: Findings, within: Sequence[str] = ()) -> list[str]:
    """Columns that identify a row of a metric: slices, group, and as few others as it takes.

    Bins of a score, arms and strengths are such. `within` are columns within which rows are told apart.

    >>> rows = [row({}, "gap", bin=1), row({}, "gap", bin=2)]
    >>> key_columns(Findings("outcome_test", "?", (), tidy(rows, (), ["bin"])))
    ['group', 'bin']
    """
    names = [*findings.slices, "group"]
    columns = [findings.columns[name] for name in dict.fromkeys([*within, *names, "metric"])]
    keys: list[tuple[Any, ...]] = list(zip(*columns, strict=True))
    distinct = len(set(keys))
    for name, column in findings.columns.items():
        if distinct == len(keys):
            break
        if name in COLUMNS or name in names or name in within:
            continue
        finer = [(*key, value) for key, value in zip(keys, column, strict=True)]
        if len(set(finer)) > distinct:
            keys, distinct, names = finer, len(set(finer)), [*names, name]
    return names


def in_bins(findings: Findings) -> bool:
    """Whether rows stand for bins of a score; a slice may be called `bin` as well."""
    return "bin" in findings.columns and "bin" not in findings.slices


def label(value: Any) -> str:
    return "(missing)" if value is None else str(value)


def slice_words(names: Sequence[str], where: Sequence[Any], whole: str = "all") -> str:
    """A slice in words: `"source=likes"`, or what an unsliced audit is called."""
    return ", ".join(f"{name}={label(value)}" for name, value in zip(names, where, strict=True)) or whole


def plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def read_number(value: Any) -> float:
    """A number that `plain` wrote, as a float."""
    return math.nan if value is None else float(value)


_DATES = re.compile(
    r"(?<!\d)\d{4}-?\d\d-?\d\d(?!\d)|(?<!\d)\d{4}/\d\d/\d\d(?!\d)|(?<=year=)\d+|(?<=month=)\d+|(?<=day=)\d+"
)


def plan_hash(plan: Mapping[str, Any]) -> str:
    """Hash of a plan (12 letters), the same for every seed and for files of another day.

    >>> plan_hash({"table": "log/2026-11-16.csv", "rng": 1}) == plan_hash({"table": "log/${DATE}.csv"})
    True
    """
    hashed = {name: _undated(plain(value)) for name, value in plan.items() if name != "rng"}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:12]


def hash_of(findings: Findings) -> str:
    recorded = findings.provenance.get("plan_hash")
    return str(recorded) if recorded else plan_hash(findings.provenance.get("plan") or {"audit": findings.audit})


def _undated(value: Any) -> Any:
    """A value without its dates; a list of one thing is that thing."""
    if isinstance(value, str):
        return _DATES.sub("${DATE}", value)
    if isinstance(value, Mapping):
        return {name: _undated(v) for name, v in value.items()}
    if isinstance(value, list):
        return _undated(value[0]) if len(value) == 1 else [_undated(v) for v in value]
    return value


def notes(*codes: str) -> str | None:
    return "; ".join(code for code in codes if code) or None


Points = dict[str, list[Any]]
"""Columns of a curve or table by name, all of one length."""

FEW_OF = {"units": "few_units", "requests": "few_requests"}
"""The note of an interval that rests on few of them."""


def bounded(rows: Sequence[Row], over: str) -> list[Row]:
    """Rows with intervals cut to their span, and a note where there is none or it rests on few.

    A row may carry what its metric's card does not know: `span`, `certain` (a value that no sample could change) and
    `rests_on`, the units behind the interval where they are others than `units` (`few` is then their note).
    """
    specs = {text: card_of(text) for text in dict.fromkeys(r["metric"] for r in rows)}
    return [_bounded(r, specs[r["metric"]], over) for r in rows]


def _bounded(r: Row, spec: MetricSpec | None, over: str) -> Row:
    if r["note"] == "suppressed" or math.isnan(r["estimate"]):
        return {**r, "low": math.nan, "high": math.nan}
    fewest = FEW_UNITS if spec is None or "few" in r else max(FEW_UNITS, spec.interval_units)
    units = r.get("rests_on", r["units"]) if over in FEW_OF else None
    is_too_few, is_few = (False, False) if units is None else (units < MIN_UNITS, units < fewest)
    low, high = (math.nan, math.nan) if is_too_few else (r["low"], r["high"])
    span = r.get("span") or (ANYTHING if spec is None else spec.span)
    certain = bool(r.get("certain", spec is not None and spec.certain))
    low, high, why = reported_ends(r["estimate"], low, high, span, certain=certain)
    codes = [c for c in (r["note"] or "").split("; ") if c]
    has_reason = is_too_few or (why == "no_interval" and codes)
    codes += [r.get("few") or FEW_OF.get(over, "")] if is_few and not certain else []
    return {**r, "low": low, "high": high, "note": notes(*dict.fromkeys([*codes, "" if has_reason else why]))}


def card_of(text: str) -> MetricSpec | None:
    """The metric of a row, where it is one with a card."""
    name = re.split(r"[(@]", text, maxsplit=1)[0].strip()
    try:
        return parse_metric(text) if name in REGISTRY else None
    except EvenhandError:
        return None


def adjusted(rows: Sequence[Row], extra: Sequence[str]) -> list[Row]:
    """Rows with Holm-adjusted p, over all rows that have a p and no adjusted one yet.

    Where an audit adjusted some rows itself, it has families of questions: others are then adjusted within their metric.
    """
    if "p_adjusted" not in extra:
        return list(rows)
    open_ones = [i for i, r in enumerate(rows) if "p_adjusted" not in r]
    has_families = len(open_ones) < len(rows)
    families = [str(rows[i]["metric"]).partition("(")[0] if has_families else "" for i in open_ones]
    by_row = dict(zip(open_ones, holm_by_family([rows[i].get("p") for i in open_ones], families).tolist(), strict=True))
    return [{**r, "p_adjusted": by_row[i]} if i in by_row else r for i, r in enumerate(rows)]


def nan_in_data(r: Row) -> Row:
    """A row of a slice with missing amounts that are propagated: no number is known."""
    return {**r, **dict.fromkeys(("estimate", "low", "high", "chance"), math.nan), "note": "nan_in_data"}


def chosen_figures(metrics: Any, possible: Sequence[str], what: str = "a figure of this audit") -> tuple[str, ...]:
    """The figures named, each once, out of those that an audit has."""
    listed = tuple(lowercase_name(name) if isinstance(name, str) else name for name in names_of(metrics))
    for name in listed:
        if name not in possible:
            raise unknown_name("metrics", str(name), possible, what=what)
    if not listed or len(set(listed)) < len(listed):
        raise EvenhandError(f"metrics={metrics!r} is empty or names one twice. Name some of {', '.join(possible)}.")
    return listed


def as_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Points:
    listed = list(rows)
    return {name: [r[i] for r in listed] for i, name in enumerate(names)}


def join_points(parts: Iterable[tuple[Mapping[str, Any], Mapping[str, Sequence[Any]]]]) -> Points:
    """Points of several slices as one table, each with the labels of its slice.

    >>> join_points([({"by": "x"}, {"rank": [1, 2]}), ({"by": "y"}, {"rank": [1]})])
    {'by': ['x', 'x', 'y'], 'rank': [1, 2, 1]}
    """
    joined: Points = {}
    for labels, points in parts:
        size = len(next(iter(points.values()), ()))
        for name, column in {**{name: [value] * size for name, value in labels.items()}, **points}.items():
            joined.setdefault(name, []).extend(column)
    return joined


def names_of(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)

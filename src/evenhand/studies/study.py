"""A rerun study: every published finding next to what was measured, with tables and figures; and its verdicts over seeds."""

from __future__ import annotations

import json
import logging
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import polars as pl

import evenhand as eh
from evenhand.audits.declare import Takes
from evenhand.errors import EvenhandError, all_problems, listing, unknown_name
from evenhand.intervals.kinds import holm
from evenhand.labels import matches
from evenhand.report.table import aligned, readable
from evenhand.report.words.text import interval_text

Row = Mapping[str, Any]
T = TypeVar("T")
ALPHA = 0.05
"""Chance that a study in whose world nothing is there says yes or no to any of its findings (Holm over all of them)."""
Z = 1.959964  # normal quantile of a two-sided 95% interval


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a test says of a statement: the two-sided p with which it is so, and with which it is not; NaN where untested."""

    yes: float = math.nan
    no: float = math.nan

    def verdict(self, of: int = 1) -> bool | None:
        """Comes out, does not, or (None) cannot be told; at 5% over `of` such questions (Bonferroni)."""
        return False if self.no * of <= ALPHA else True if self.yes * of <= ALPHA else None

    def __invert__(self) -> Evidence:
        return Evidence(self.no, self.yes)


UNKNOWN = Evidence()


def certain(holds: bool | None) -> Evidence:  # noqa: FBT001
    """Evidence of what is counted and not drawn; None where it cannot be told."""
    return UNKNOWN if holds is None else Evidence(0.0, 1.0) if holds else Evidence(1.0, 0.0)


def above_zero(difference: float, error: float, freedom: float = math.inf) -> Evidence:
    """Whether a difference with this standard error is above zero, by Student's t.

    >>> above_zero(2.5, 1.0).verdict(), above_zero(-2.5, 1.0).verdict(), above_zero(2.5, 1.0, 2).verdict()
    (True, False, None)
    """
    from scipy.special import stdtr

    if not math.isfinite(difference) or not math.isfinite(error):
        return UNKNOWN
    if error == 0:
        return UNKNOWN if difference == 0 else certain(difference > 0)
    below = float(stdtr(min(freedom, 1e9), difference / error))
    return Evidence(min(1.0, 2 * (1 - below)), min(1.0, 2 * below))


def is_number(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def with_sign(row: Row) -> Evidence:
    """Whether the estimate of a row is above zero, by the p of its test."""
    p = row["p"]
    return UNKNOWN if not is_number(p) else Evidence(p, 1.0) if row["estimate"] > 0 else Evidence(1.0, p)


def error_of(row: Row) -> float:
    """The standard error behind a 95% interval, or behind a band of chance."""
    return float(row["high"] - row["low"]) / (2 * Z)


def rate_above(hits: int, trials: int, bound: float) -> Evidence:
    """Whether a rate is above a bound, by the exact binomial test.

    >>> [rate_above(hits, 10, 0.5).verdict() for hits in (9, 0, 6)]
    [True, False, None]
    """
    from scipy.stats import binom

    if trials == 0:
        return UNKNOWN
    tails = float(binom.sf(hits - 1, trials, bound)), float(binom.cdf(hits, trials, bound))
    return Evidence(*(min(1.0, 2 * p) for p in tails))


def every(parts: Iterable[Evidence]) -> Evidence:
    """Whether all are so: by the weakest of them; not so if one is not, among as many as were asked.

    >>> parts = [Evidence(0.01, 1), Evidence(0.03, 1), Evidence(0.02, 1)]
    >>> every(parts), every([*parts, Evidence(1, 0.01)]).no, every([*parts, UNKNOWN]).verdict(), every([]).verdict()
    (Evidence(yes=0.03, no=1.0), 0.04, None, None)
    """
    listed = list(parts)
    tested = [part.no for part in listed if not math.isnan(part.no)]
    yes = math.nan if len(tested) < len(listed) or not listed else max(part.yes for part in listed)
    return Evidence(yes, min(1.0, len(tested) * min(tested)) if tested else math.nan)


@dataclass(frozen=True)
class Replicates(Generic[T]):
    """Measurements, and the same ones on a part of their units at a time (jackknife).

    A difference of two numbers that rest on the same units is paired by itself: both are read off the same replicate. Parts are
    all units without each batch in turn or, with `is_halved`, random halves: these are for numbers that jump, such as rank
    correlations, which may never move with a small batch left out.
    """

    whole: T
    without: Sequence[T]
    is_halved: bool = False

    def above(self, number: Callable[[T], float], bound: float = 0.0) -> Evidence:
        """Whether a number is above a bound.

        >>> batches = [[1, 2, 3], [2, 3, 4], [1, 3, 2]]
        >>> whole, without = sum(batches, []), [sum(batches[:i] + batches[i + 1 :], []) for i in range(3)]
        >>> mean = lambda values: sum(values) / len(values)
        >>> [Replicates(whole, without).above(mean, bound).verdict() for bound in (0, 2, 9)]
        [True, None, False]
        """
        return self.all_above(lambda measured: [number(measured)], bound)

    def all_above(self, numbers: Callable[[T], Sequence[float]], bound: float = 0.0) -> Evidence:
        estimates, by_part = numbers(self.whole), [numbers(other) for other in self.without]
        return every(
            self._above(estimate, np.array([part[i] for part in by_part]), bound)
            for i, estimate in enumerate(estimates)
        )

    def _above(self, estimate: float, values: np.ndarray[Any, Any], bound: float) -> Evidence:
        n = len(values)
        if n < 2 or not np.isfinite(values).all() or not math.isfinite(estimate):
            return UNKNOWN
        # A number that jumps is biased on halves, and the bias counts as error; sums over units shrink with each batch left out.
        spread = float(((values - (estimate if self.is_halved else values.mean())) ** 2).mean())
        error = math.sqrt(spread if self.is_halved else (n - 1) * spread)
        return above_zero(estimate - bound, error, n - 1)

    def within(self, number: Callable[[T], float], low: float, high: float) -> Evidence:
        return self.all_above(lambda measured: [number(measured) - low, high - number(measured)])

    def largest(self, numbers: Callable[[T], Mapping[str, float]], name: str) -> Evidence:
        def leads(measured: T) -> list[float]:
            values = numbers(measured)
            return [values[name] - values[other] for other in values if other != name]

        return self.all_above(leads)


log = logging.getLogger("evenhand")
HEAD = ("finding", "where", "stated", "measured", "comes out", "counts if", "in seeds", "whose", "sample")
"""Columns of the findings for other programs; people read the first five, with the rule next to what is stated."""
WIDTHS = (44, 12, 30, 46, 16)  # characters of the columns of findings on a terminal
FORMATS = ("table", "csv", "json")
STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2733; background: #fff; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 } .scroll { overflow: auto; max-height: 40rem } .scripted { display: none }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem; border-bottom: 1px solid #e3e8ee }
.n { text-align: right } .note, figcaption { color: #5d6b7a }
figure { margin: 2rem 0 } figure svg { max-width: 100%; height: auto }"""


def select(result: eh.Result, *metrics: str, **where: Any) -> list[dict[str, Any]]:
    """The rows of some metrics (default: of all) whose columns have the given values."""
    return [
        r
        for r in result.findings.rows()
        if (not metrics or r["metric"] in metrics) and all(r[column] == value for column, value in where.items())
    ]


def result_from_rows(
    audit: str, question: str, slices: Sequence[str], cells: Sequence[Row], *, charts: Sequence[str] = (), **facts: Any
) -> eh.Result:
    """Numbers of a study as a result, which can be drawn: a mapping per row, with its metric and slice labels.

    `facts` are fields of the findings: curves, words, provenance.
    """
    # No audit measured these rows, so no public function makes a result of them.
    from evenhand.findings import Findings, row, tidy

    blank = [row({name: r[name] for name in slices}, **{k: v for k, v in r.items() if k not in slices}) for r in cells]
    return eh.Result(Findings(audit, question, tuple(slices), tidy(blank, slices), charts=tuple(charts), **facts))


def draw_rates(study: str, question: str, rows: Sequence[Row]) -> Any:
    """Rates with their exact 95% intervals: rows have `hits` of `trials`, a metric, and labels in other columns."""
    from scipy.stats import binomtest

    cells = []
    for r in rows:
        ends = binomtest(r["hits"], r["trials"]).proportion_ci(method="exact")
        rate = {"estimate": r["hits"] / r["trials"], "low": ends.low, "high": ends.high, "units": r["trials"]}
        cells.append({**{k: v for k, v in r.items() if k not in ("hits", "trials")}, **rate})
    labels = [name for name in rows[0] if name not in ("hits", "trials", "metric")]
    return result_from_rows(study, question, labels, cells, charts=("intervals",)).plot("intervals")


def result_table(title: str, result: eh.Result, *metrics: str) -> Table:
    """The rows of some metrics (default: of all) as the audit itself prints them."""
    head, rows = readable((result.only(*metrics) if metrics else result).findings)
    return Table(title, tuple(head), tuple(map(tuple, rows)))


def ends(row: Row, form: str) -> str:
    """Both ends of the interval of a row, each in a format such as `+.2%`."""
    return interval_text(row["low"], row["high"], lambda value: format(value, form))


def with_interval(row: Row, form: str = ".4f") -> str:
    """The estimate of a row, with its interval in brackets if it has one.

    >>> with_interval({"estimate": 0.5, "low": 0.25, "high": 0.75}, ".2f")
    '0.50 (0.25 to 0.75)'
    """
    text = ends(row, form)
    return f"{row['estimate']:{form}} ({text})" if text else f"{row['estimate']:{form}}"


CANNOT_TELL, IN_SOME = "cannot be told", "in some seeds"


@dataclass(frozen=True, slots=True)
class Claim:
    """One finding: what the paper states, and what was measured."""

    statement: str
    where: str
    stated: str
    measured: str
    evidence: Evidence  # `decide` adjusts it over all findings of a study
    counts: str = ""  # what counts as coming out, where the statement leaves it open ("0.07 to 0.095")
    is_ours: bool = False  # our own checks never count among the paper's findings
    runs: tuple[bool | None, ...] = ()  # `holds` of every seed, that of `measured` first; empty for a single run
    sample: str = ""  # what the verdict rests on ("15,000 requests"); empty where nothing is drawn

    @property
    def holds(self) -> bool | None:
        return self.evidence.verdict()

    @property
    def verdict(self) -> str:
        """Over several seeds: yes in all of them, in some, in none (no), or in none since none can tell."""
        verdicts = self.runs or (self.holds,)
        if all(verdicts):
            return "yes"
        return IN_SOME if any(verdicts) else "no" if False in verdicts else CANNOT_TELL

    @property
    def in_seeds(self) -> str:
        """In how many of the seeds it comes out, and how many cannot tell; nothing for a single run."""
        unclear = self.runs.count(None)
        seeds = f"{self.runs.count(True)} of {len(self.runs)}" if self.runs else ""
        return f"{seeds}, {unclear} cannot tell" if unclear else seeds

    def record(self) -> dict[str, str]:
        whose = "ours" if self.is_ours else "paper"
        columns = self.statement, self.where, self.stated, self.measured, self.verdict, self.counts, self.in_seeds
        return dict(zip(HEAD, (*columns, whose, self.sample), strict=True))

    def shown(self) -> tuple[str, ...]:
        stated = f"{self.stated} (counts if {self.counts})" if self.counts else self.stated
        verdict = (
            {IN_SOME: "in"}.get(self.verdict, f"{self.verdict},") + f" {self.in_seeds}" if self.runs else self.verdict
        )
        verdict = f"{verdict} ({self.sample})" if self.sample else verdict
        return self.statement, self.where, stated, self.measured, verdict


def decide(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The findings of a study with their evidence adjusted, so that 95% holds over all of them (Holm)."""
    listed = list(claims)
    p = [min((x for x in (c.evidence.yes, c.evidence.no) if x == x), default=math.nan) for c in listed]
    factors = [adjusted / raw if raw else 1.0 for raw, adjusted in zip(p, holm(p).tolist(), strict=True)]
    return tuple(
        replace(c, evidence=Evidence(min(1.0, c.evidence.yes * by), min(1.0, c.evidence.no * by)))
        for c, by in zip(listed, factors, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper, drawn from our numbers; `draw` makes an Altair chart when it is needed."""

    name: str
    caption: str
    draw: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Study:
    """A rerun study."""

    name: str
    title: str
    setting: str  # what it was run on
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    sentences: tuple[str, ...] = ()  # what the tables show
    caveats: tuple[str, ...] = ()  # what its verdicts can and cannot show, said wherever they are
    seeds: tuple[int, ...] = ()  # where there are several

    @property
    def frame(self) -> Any:
        return pl.DataFrame([c.record() for c in self.claims], schema=dict.fromkeys(HEAD, pl.String))

    def to_text(self, format: str = "table") -> str:
        """The findings as text; `table` and `json` also hold the tables and sentences behind them."""
        if format == "csv":
            return str(self.frame.write_csv())
        if format == "json":
            return json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"
        if format == "table":
            return self._page()
        raise unknown_name("format", format, FORMATS, what="a known format of a study")

    def to_dict(self) -> dict[str, Any]:
        return {
            "study": self.name,
            "title": self.title,
            "setting": self.setting,
            "seeds": list(self.seeds),
            "caveats": list(self.caveats),
            "findings": [c.record() for c in self.claims],
            "tables": {t.title: [dict(zip(t.head, row, strict=True)) for row in t.rows] for t in self.tables},
            "sentences": list(self.sentences),
        }

    def _page(self) -> str:
        def paragraph(text: str) -> str:
            return textwrap.fill(text, sum(WIDTHS))

        parts = [self.title, *map(paragraph, (self.setting, *self.caveats))]
        for section in (*self._findings(), *self.tables):
            parts += [section.title, _text_table(section)]
        return "\n\n".join([*(p.rstrip() for p in parts), *map(paragraph, self.sentences)]) + "\n"

    def _findings(self) -> list[Table]:
        measured = f"measured (seed {self.seeds[0]})" if self.seeds else "measured"
        head = ("finding", "where", "stated", measured, "comes out")
        parts = [tuple(c for c in self.claims if c.is_ours is is_ours) for is_ours in (False, True)]
        return [Table(count(part), head, tuple(c.shown() for c in part)) for part in parts if part]

    def to_html(self) -> str:
        """One page with findings, figures and tables."""
        from evenhand.report.charts import registry as charts
        from evenhand.report.pages import document

        body = [f"<h1>{escape(self.title)}</h1>"]
        body += [f"<p>{escape(line)}</p>" for line in (self.setting, *self.caveats)]
        body += [_html_table(table) for table in self._findings()]
        body += [f"<p>{escape(line)}</p>" for line in self.sentences]
        body += [
            f"<figure>{charts.as_svg(figure.draw())}<figcaption>{escape(figure.caption)}</figcaption></figure>"
            for figure in self.figures
        ]
        body += [_html_table(table) for table in self.tables]
        return document(f"{self.title} · evenhand", STYLE, body, [])


def count(claims: Sequence[Claim]) -> str:
    """How many of these findings come out.

    >>> count([Claim("a", "", "", "", UNKNOWN, runs=(True, True)), Claim("b", "", "", "", UNKNOWN, runs=(False, True))])
    'Findings that the source states: 1 yes, 1 in some seeds, 0 no, 0 cannot be told.'
    """
    what = "Checks of our own" if claims[0].is_ours else "Findings that the source states"
    counts = [f"{sum(c.verdict == word for c in claims)} {word}" for word in ("yes", IN_SOME, "no", CANNOT_TELL)]
    return f"{what}: {', '.join(counts if claims[0].runs else [counts[0], *counts[2:]])}."


def _text_table(table: Table) -> str:
    widest = WIDTHS if table.head[-1] == "comes out" else [28] * len(table.head)
    return "\n".join(aligned(table.head, table.rows, widest=widest))


def _html_table(table: Table) -> str:
    from evenhand.report import page

    return f"<h2>{escape(table.title)}</h2>{page.table(table.head, table.rows, table.title)}"


def over_seeds(run: Callable[[int], Study], seeds: Sequence[int]) -> Study:
    """A study run with every seed: tables and figures of the first, verdicts of all of them.

    >>> from evenhand.studies.recommender import study
    >>> repeated = over_seeds(lambda seed: study(size=100, seed=seed), [1, 2])
    >>> {claim.in_seeds.partition(",")[0] for claim in repeated.claims} <= {"0 of 2", "1 of 2", "2 of 2"}
    True
    """
    log.info("seed %s", seeds[0])
    first = run(seeds[0])
    if len(seeds) == 1:
        return first
    others: list[dict[tuple[str, str], Claim]] = []
    for seed in seeds[1:]:
        log.info("seed %s", seed)
        others.append({(c.statement, c.where): c for c in run(seed).claims})  # the rest of a study is large
    by_claim = [[c, *(other[c.statement, c.where] for other in others)] for c in first.claims]
    return replace(
        first,
        claims=tuple(replace(by_seed[0], runs=tuple(c.holds for c in by_seed)) for by_seed in by_claim),
        setting=f"{first.setting} Verdicts of the seeds {', '.join(map(str, seeds))}; tables and figures are those of seed {seeds[0]}.",
        seeds=tuple(seeds),
    )


File = Annotated[str | Path | None, Takes("FILE")]
Paths = Annotated[str | Path | Sequence[str | Path] | None, Takes("PATH", many=True)]
"""Files that a study reads instead of generating data; the command line takes its options from a study's signature."""


def on_own_data(data: Any, needed: Mapping[str, Any], more: Mapping[str, Any], size: int | None = None) -> bool:
    """Whether a study reads the user's table; refuses columns without a table and a table without its columns.

    >>> on_own_data("log.csv", {"unit": "author"}, {"by": None}), on_own_data(None, {"unit": None}, {"by": None})
    (True, False)
    """
    if data is None:
        if named := [f"{name}=" for name, value in {**needed, **more}.items() if value is not None]:
            raise EvenhandError(
                f"{listing(named)} says how to read a table, and there is none. Pass data= as well, or leave it out."
            )
        return False
    if lacking := [f"{name}=" for name, value in needed.items() if value is None]:
        raise EvenhandError(f"data= needs {listing(lacking)} as well: which columns to read. Name them.")
    if size is not None:
        raise EvenhandError("size= is how much is generated, and data= is read whole. Leave one of them out.")
    return True


def two_sides(sizes: Mapping[Any, float], protected: Any, versus: Any) -> tuple[Any, Any]:
    """The protected group and the one it is compared with: the smallest and the largest, unless others are named.

    >>> two_sides({"a": 5, "b": 2, "c": 9}, None, None), two_sides({"a": 5, "b": 2}, "a", None)
    (('b', 'c'), ('a', 'b'))
    """
    labels = sorted(sizes, key=lambda label: (sizes[label], str(label)))
    if len(labels) < 2:
        raise EvenhandError(
            "Fewer than two groups have rows in the data. Pass two groups or more, of the same ids as the data."
        )
    named = {"protected": protected, "versus": versus}
    first, second = (None if x is None else matches(role, x, labels)[0] for role, x in named.items())
    first = next(label for label in labels if label != second) if protected is None else first
    second = next(label for label in reversed(labels) if label != first) if versus is None else second
    if first == second:
        raise EvenhandError(f"protected={first!r} is also versus. Name two different groups.")
    return first, second


def read_table(
    data: Any, required: Sequence[tuple[str, str]], optional: Sequence[str] | None = (), numbers: Sequence[str] = (), *,
    role: str = "table",
) -> tuple[pl.DataFrame, str]:  # fmt: skip
    """The named columns of any table that an audit reads, as a Polars frame, and what the table is called.

    `required` has roles and their columns; `optional` columns are read where they exist (None: all columns); text in
    `numbers` becomes numbers.
    """
    # The one door that studies share with the audits: no public function returns the rows of a table.
    from evenhand.sources.opening import fetch, open_table
    from evenhand.sources.relation import missing_columns

    opened = open_table(data, role=role)
    if problems := missing_columns(opened, required):
        table = "the population table" if role == "population" else "the table"
        raise all_problems([problem.replace("the table", table) for problem in problems])
    named = [*(name for _, name in required), *(opened.schema if optional is None else optional)]
    present = [name for name in dict.fromkeys(named) if name in opened.schema]
    typed = opened.with_numbers(*(name for name in numbers if name in present))
    return fetch(typed, {name: typed.label(name) for name in present}).frame, opened.origin

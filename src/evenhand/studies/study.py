"""What a rerun study hands back: each stated finding beside what came out, tables behind it, and figures."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Annotated, Any

from evenhand.audits.parameters import Takes
from evenhand.errors import EvenhandError, listing, unknown_name
from evenhand.report.files import write_whole
from evenhand.report.table import aligned
from evenhand.results import Result

HEAD = ("finding", "where", "stated", "measured", "comes out", "counts if", "in seeds", "whose", "sample")
"""Columns of the findings for other programs; people read the first ones, with the rule beside what is stated."""
WIDTHS = (44, 12, 30, 46, 16)
FORMATS = ("table", "csv", "tsv", "jsonl", "json", "markdown")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2733; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem; border-bottom: 1px solid #e3e8ee }
figure { margin: 2rem 0 } figure svg { max-width: 100%; height: auto } figcaption { color: #5d6b7a }
.no { font-weight: 600 } .short { white-space: nowrap }"""
File = Annotated[str | Path | None, Takes("FILE")]
Paths = Annotated[str | Path | Sequence[str | Path] | None, Takes("PATH", many=True)]
"""Files that a study reads instead of drawing; the command line takes its options from a study's signature."""
SHORT = 16
"""Letters of a cell of a page that is never broken over two lines: a number with its letters, a name."""


def on_own_data(data: Any, needed: Mapping[str, Any], more: Mapping[str, Any], size: int | None = None) -> bool:
    """Whether a study reads a table of one's own: then what it needs has to be named, else nothing of it may be.

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


@dataclass(frozen=True, slots=True)
class Claim:
    """One finding: what the paper states, and what was measured.

    Attributes
    ----------
    holds : whether it comes out; None where the question cannot be put: there is nothing to measure it on.
    counts : what is taken for coming out, where the words leave it open ("0.07 to 0.095").
    is_ours : whether it is a check of ours, which the paper does not state: it never counts among the paper's findings.
    runs : `holds` of every seed, the first being the one that `measured` speaks of; empty for a single run.
    sample : what the verdict rests on ("15,000 requests"); empty where nothing is drawn.
    """

    statement: str
    where: str
    stated: str
    measured: str
    holds: bool | None
    counts: str = ""
    is_ours: bool = False
    runs: tuple[bool | None, ...] = ()
    sample: str = ""

    @property
    def verdicts(self) -> list[bool]:
        """The verdicts of the seeds in which the question can be put."""
        return [verdict for verdict in self.runs or (self.holds,) if verdict is not None]

    @property
    def verdict(self) -> str:
        if not self.verdicts:
            return "cannot be measured"
        return "yes" if all(self.verdicts) else "in some" if any(self.verdicts) else "no"

    @property
    def in_seeds(self) -> str:
        """In how many of the seeds it comes out; nothing for a single run."""
        return f"{sum(self.verdicts)} of {len(self.verdicts)}" if self.runs and self.verdicts else ""

    def cells(self) -> tuple[str, ...]:
        """What other programs read."""
        whose = "ours" if self.is_ours else "paper"
        columns = self.statement, self.where, self.stated, self.measured, self.verdict, self.counts, self.in_seeds
        return *columns, whose, self.sample

    def shown(self) -> tuple[str, ...]:
        """What people read."""
        stated = f"{self.stated} (counts if {self.counts})" if self.counts else self.stated
        seeds = {"in some": "in "}.get(self.verdict, f"{self.verdict}, ") + f"{self.in_seeds} seeds"
        verdict = seeds if self.in_seeds else self.verdict
        return (
            self.statement,
            self.where,
            stated,
            self.measured,
            f"{verdict} ({self.sample})" if self.sample else verdict,
        )


@dataclass(frozen=True, slots=True)
class Table:
    """A table behind the findings, as text cells."""

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
    """A rerun study.

    Attributes
    ----------
    setting : what it was run on.
    sentences : what the tables show.
    caveats : what its verdicts can and cannot show; said wherever they are.
    seeds : the seeds it was run with, where there are several.
    results : answers of the audits behind it, with all their digits, by what they are of; JSON holds them.
    """

    name: str
    title: str
    setting: str
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    sentences: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    results: Mapping[str, Result] = field(default_factory=dict)

    @property
    def frame(self) -> Any:
        """One row per finding, as a Polars frame."""
        import polars as pl

        return pl.DataFrame([c.cells() for c in self.claims], schema=list(HEAD), orient="row")

    def to_text(self, format: str = "table") -> str:
        """The findings as text; `table` and `markdown` also hold the tables and sentences behind them."""
        if format not in FORMATS:
            raise unknown_name("format", format, FORMATS, what="a known format of a study")
        if format in ("csv", "tsv"):
            return _separated(self.claims, "," if format == "csv" else "\t")
        if format == "jsonl":
            return "".join(json.dumps(_record(c), ensure_ascii=False) + "\n" for c in self.claims)
        if format == "json":
            return json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"
        return self._page(_text_table, _wrapped) if format == "table" else self._page(_markdown_table, str)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the figures, ready for JSON."""
        return {
            "study": self.name,
            "title": self.title,
            "setting": self.setting,
            "seeds": list(self.seeds),
            "caveats": list(self.caveats),
            "findings": [_record(c) for c in self.claims],
            "tables": {t.title: [dict(zip(t.head, row, strict=True)) for row in t.rows] for t in self.tables},
            "sentences": list(self.sentences),
            **({"results": {name: result.to_dict() for name, result in self.results.items()}} if self.results else {}),
        }

    def _page(
        self, table: Callable[[Sequence[str], Sequence[Sequence[str]]], str], paragraph: Callable[[str], str]
    ) -> str:
        parts = [self.title, paragraph(self.setting), *map(paragraph, self.caveats)]
        for section in (*self._findings(), *self.tables):
            parts += [section.title, table(section.head, section.rows)]
        return "\n\n".join([*(p.rstrip() for p in parts), *map(paragraph, self.sentences)]) + "\n"

    def _findings(self) -> list[Table]:
        """The paper's findings, and apart from them the checks of ours, each under its count."""
        measured = f"measured (seed {self.seeds[0]})" if self.seeds else "measured"
        head = ("finding", "where", "stated", measured, "comes out")
        parts = [tuple(c for c in self.claims if c.is_ours is is_ours) for is_ours in (False, True)]
        return [Table(count(part), head, tuple(c.shown() for c in part)) for part in parts if part]

    def write(self, folder: str | Path) -> list[Path]:
        """The findings, every figure as .svg, and `index.html` with all of it; each file whole or not at all."""
        from evenhand.report.charts import registry as charts

        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EvenhandError(f"{str(folder)!r} cannot be made ({error.strerror}). Pass another folder.") from error
        pictures = {f.name: charts.save(f.draw(), target / f"{f.name}.svg") for f in self.figures}
        written = [
            write_whole(target / "findings.csv", self.to_text("csv")),
            write_whole(target / "study.json", self.to_text("json")),
        ]
        page = self._html({name: path.read_text(encoding="utf-8") for name, path in pictures.items()})
        return [*pictures.values(), *written, write_whole(target / "index.html", page)]

    def to_html(self) -> str:
        """All of it on one page, figures included, which needs no other file."""
        from evenhand.report.charts import registry as charts

        return self._html({f.name: charts.as_svg(f.draw()) for f in self.figures})

    def _html(self, pictures: Mapping[str, str]) -> str:
        body = [f"<h1>{escape(self.title)}</h1>"]
        body += [f"<p>{escape(line)}</p>" for line in (self.setting, *self.caveats)]
        body += [f"<h2>{escape(t.title)}</h2>{_html_table(t.head, t.rows)}" for t in self._findings()]
        body += [f"<p>{escape(line)}</p>" for line in self.sentences]
        body += [
            f"<figure>{pictures[f.name]}<figcaption>{escape(f.caption)}</figcaption></figure>" for f in self.figures
        ]
        body += [f"<h2>{escape(t.title)}</h2>{_html_table(t.head, t.rows)}" for t in self.tables]
        return "\n".join(
            [
                '<!doctype html><html lang="en"><head><meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><link rel="icon" href="data:,">',
                f"<title>{escape(self.title)} · evenhand</title><style>{STYLE}</style></head><body>",
                *body,
                "</body></html>\n",
            ]
        )


def count(claims: Sequence[Claim]) -> str:
    """How many of these findings come out, in how many of the seeds.

    >>> count([Claim("a", "", "", "", True, runs=(True, True)), Claim("b", "", "", "", False, runs=(False, True))])
    'Of 2 findings that the source states, 1 comes out in all 2 seeds, 1 in some, 0 in none.'
    """
    counts = {word: sum(c.verdict == word for c in claims) for word in ("yes", "in some", "no", "cannot be measured")}
    noun, whose = ("check", "of our own") if claims and claims[0].is_ours else ("finding", "that the source states")
    what = f"{noun}{'s' * (len(claims) != 1)} {whose}"
    seeds = max((len(c.runs) for c in claims), default=0)
    come = "comes" if counts["yes"] == 1 else "come"
    text = f"Of {len(claims)} {what}, {counts['yes']} {come} out"
    if seeds:
        text += f" in all {seeds} seeds, {counts['in some']} in some, {counts['no']} in none"
    else:
        text += f", {counts['no']} {'does' if counts['no'] == 1 else 'do'} not"
    unclear = counts["cannot be measured"]
    return f"{text}, {unclear} cannot be measured." if unclear else f"{text}."


def _record(claim: Claim) -> dict[str, str]:
    return dict(zip(HEAD, claim.cells(), strict=True))


def _separated(claims: Sequence[Claim], delimiter: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerows([HEAD, *(c.cells() for c in claims)])
    return out.getvalue()


def _wrapped(text: str) -> str:
    return textwrap.fill(text, sum(WIDTHS))


def _text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, long cells wrapped."""
    return "\n".join(aligned(head, rows, widest=WIDTHS if head[-1] == "comes out" else [28] * len(head)))


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[c.replace("|", "\\|") for c in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *cells])


def _width(cell: str) -> str:
    if cell == "no" or cell.startswith(("no, ", "no (")):
        return "no"
    return "short" if len(cell) <= SHORT else ""


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f'<td class="{_width(c)}">{escape(c)}</td>' for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"

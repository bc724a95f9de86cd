"""What a rerun study hands back: each stated finding beside what came out, tables behind it, and figures."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, unknown_name
from evenhand.present.files import write_whole
from evenhand.present.tables import aligned

HEAD = ("finding", "where", "stated", "measured", "comes out")
WIDTHS = (44, 12, 26, 50, 9)
FORMATS = ("table", "csv", "tsv", "jsonl", "json", "markdown")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2733; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem; border-bottom: 1px solid #e3e8ee }
figure { margin: 2rem 0 } figure svg { max-width: 100%; height: auto } figcaption { color: #5d6b7a }
.no { font-weight: 600 } .short { white-space: nowrap }"""
SHORT = 16
"""Letters of a cell of a page that is never broken over two lines: a number with its letters, a name."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One finding: what the paper states, and what was measured.

    `holds` is None where the question cannot be put: there is nothing to measure it on.
    """

    says: str
    where: str
    stated: str
    measured: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        return "cannot be measured" if self.holds is None else "yes" if self.holds else "no"

    def cells(self) -> tuple[str, ...]:
        return (self.says, self.where, self.stated, self.measured, self.verdict)


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
    """A rerun study. `sentences` say what the tables show; `setting` says what it was run on."""

    name: str
    title: str
    setting: str
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    sentences: tuple[str, ...] = ()

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
            "findings": [_record(c) for c in self.claims],
            "tables": {t.title: [dict(zip(t.head, row, strict=True)) for row in t.rows] for t in self.tables},
            "sentences": list(self.sentences),
        }

    def _page(self, table: Callable[[Sequence[str], Sequence[Sequence[str]]], str], said: Callable[[str], str]) -> str:
        parts = [self.title, said(self.setting), table(HEAD, [c.cells() for c in self.claims]), _count(self.claims)]
        for one in self.tables:
            parts += [one.title, table(one.head, one.rows)]
        return "\n\n".join([*(p.rstrip() for p in parts), *map(said, self.sentences)]) + "\n"

    def write(self, folder: str | Path) -> list[Path]:
        """The findings, every figure as .svg, and `index.html` with all of it; each file whole or not at all."""
        from evenhand.present import charts

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

    def _html(self, pictures: Mapping[str, str]) -> str:
        body = [
            f"<h1>{escape(self.title)}</h1><p>{escape(self.setting)}</p>",
            _html_table(HEAD, [c.cells() for c in self.claims]),
        ]
        body += [f"<p>{escape(line)}</p>" for line in (_count(self.claims), *self.sentences)]
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


def _count(claims: Sequence[Claim]) -> str:
    counted = {verdict: sum(c.verdict == verdict for c in claims) for verdict in ("yes", "no", "cannot be measured")}
    unclear = f", {counted['cannot be measured']} cannot be measured" if counted["cannot be measured"] else ""
    return f"{counted['yes']} of {len(claims)} findings come out, {counted['no']} do not{unclear}."


def _record(claim: Claim) -> dict[str, str]:
    return dict(zip(HEAD, claim.cells(), strict=True))


def _separated(claims: Sequence[Claim], delimiter: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerows([HEAD, *(c.cells() for c in claims)])
    return out.getvalue()


def _wrapped(said: str) -> str:
    return textwrap.fill(said, sum(WIDTHS))


def _text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, long cells wrapped."""
    return "\n".join(aligned(head, rows, widest=WIDTHS if head == HEAD else [28] * len(head)))


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[c.replace("|", "\\|") for c in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *cells])


def _width(cell: str) -> str:
    return "short" if len(cell) <= SHORT else ""


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f'<td class="{"no" if c == "no" else _width(c)}">{escape(c)}</td>' for c in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"

"""Rows that a query of `evenhand sql` gave, in place of the table that it was run on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.sources.outcomes import UNKNOWN
from evenhand.views.columns import slice_problems
from evenhand.views.tables import Files, Table, each_once, open_table, to_polars

TALLY = "tally:"
"""Before a path: the rows of a query, and not the table that it was run on."""

FORMAT = "evenhand-tally-3"
"""What the first column of every row begins with. Another meaning of the columns needs another number."""

CHECKS = ("row_check", "rows_told", "check_told")
"""A sum over the columns of a row, how many rows the query gave, and the sum over all of them."""

OFFSET, NOTHING = 1e-9, -99.0
"""What is added to a number before its logarithm is taken, and what stands for one that is missing."""

TOLERANCE = 1e-8
"""By how much the sums over a row may differ between here and the database, whose logarithms end in other digits."""

AGAIN = "Print the query again with evenhand sql, and run that one."


@dataclass(frozen=True)
class Tally:
    """The rows of a query: a dataframe, or the path of one."""

    rows: Any


@dataclass(frozen=True)
class TallyFile(Tally):
    """Rows in a file, which a plan can name."""

    def as_word(self) -> str:
        return f"{TALLY}{os.fspath(self.rows)}"


def tally(rows: Any) -> Tally:
    """The rows of a query that `evenhand sql` printed, to be passed as the table of the audit it was printed for.

    `rows` is a path (CSV, Parquet, JSON lines) or a dataframe: `eh.inequality(eh.read.tally("rows.csv"), unit=..., ...)`.
    """
    return TallyFile(rows) if isinstance(rows, (str, Path)) else Tally(rows)


def tally_of(table: Any) -> Tally | None:
    """What was passed as a tally, as an object or as `"tally:rows.csv"`; None for a table."""
    if isinstance(table, Tally):
        return table
    words = table.paths if isinstance(table, Files) else [table] if isinstance(table, str) else table
    if not isinstance(words, (list, tuple)) or not any(isinstance(w, str) and w.startswith(TALLY) for w in words):
        return None
    if len(words) > 1:
        raise EvenhandError("A tally is one file, and several were named. Pass the rows of one query.")
    return tally(words[0].removeprefix(TALLY))


def part_of(verb: str, roles: Mapping[str, Any]) -> str:
    """What a row of a tally is about: the question and the columns by role, in letters that mean nothing to any database.

    >>> part_of("inequality", {"unit": "author", "amount": None, "by": ["a", "b's"]})
    'evenhand-tally-3 verb=inequality unit=author by=a by=b~27~s'
    """
    words = [FORMAT, f"verb={verb}"]
    for role, given in roles.items():
        columns = [] if given is None else [given] if isinstance(given, str) else given
        words += [f"{role}={re.sub(r'[^a-zA-Z0-9_.-]', _coded, str(column))}" for column in columns]
    return " ".join(words)


def _coded(found: re.Match[str]) -> str:
    return f"~{ord(found[0]):x}~"


def in_roles(part: str) -> dict[str, list[str]]:
    """What `part_of` wrote, by role.

    >>> in_roles("evenhand-tally-3 verb=inequality by=a by=b~27~s")
    {'verb': ['inequality'], 'by': ['a', "b's"]}
    """
    found: dict[str, list[str]] = {}
    for word in part.split(" ")[1:]:
        role, _, column = word.partition("=")
        found.setdefault(role, []).append(re.sub(r"~([0-9a-f]+)~", lambda m: chr(int(m[1], 16)), column))
    return found


def told(held: Tally, role: str) -> list[str]:
    """What the query of a tally was told in one role, which its reader need not say again."""
    opened, _ = _opened(held)
    parts = _parts(opened)
    return next((in_roles(str(part)).get(role, []) for part in parts), [])


def _opened(held: Tally) -> tuple[Table, list[str]]:
    """The rows, columns in small letters: some databases hand them out in capitals."""
    opened = open_table(held.rows, role="tally")
    names = opened.lazy.collect_schema().names()
    small = {name: name.lower() for name in names if name.lower() not in names}
    opened = Table(opened.lazy.rename(small), opened.backend, opened.origin, {}, opened.text, opened.lacking)
    columns = opened.schema.names()
    if "part" not in columns:
        raise EvenhandError(f"{opened.origin} is no tally: it has no column 'part'. {AGAIN}")
    return opened, columns


def _parts(opened: Table) -> list[Any]:
    return list(to_polars(each_once(opened.lazy.select("part")))["part"])


def open_tally(
    held: Tally, parts: Sequence[str], numbers: Sequence[str], labels: Sequence[str], counts: Collection[str]
) -> tuple[Any, Table]:
    """The rows, as a Polars frame whose `numbers` are float64, and the table that they came as; `counts` are whole numbers.

    They are refused where they hold no row of one of `parts`, lack a column, or are not those that the query gave. Labels have
    the type that they have in the table of the database.
    """
    import polars as pl

    if problems := slice_problems(in_roles(parts[0]).get("by", [])):
        raise all_problems(problems, where="The call")
    opened, columns = _opened(held)
    _refuse_others(_parts(opened), parts, opened.origin)
    every = [*numbers, *CHECKS]
    words = [*labels, *(c for c in columns if c.startswith("kind_"))]
    if lost := [c for c in (*every, *labels, *(f"kind_{name}" for name in labels)) if c not in columns]:
        raise EvenhandError(f"{opened.origin} lacks the columns {listing(lost)} of its query. Save all columns.")
    frame = _numbers(to_polars(opened.numbers(*every).lazy.select("part", *words, *every)), every)
    if wrong := [c for c in every if not (frame.schema[c].is_numeric() or frame.schema[c] in (pl.Boolean, pl.Null))]:
        raise EvenhandError(
            f"{opened.origin} holds no numbers in {listing(wrong)}. Save the rows as the query gave them."
        )
    frame = frame.with_columns(
        pl.col(*every).cast(pl.Float64).fill_nan(None), *(pl.col(c).cast(pl.String) for c in words)
    )
    frame = _as_sent(frame, labels, numbers)
    _refuse_changed(frame, labels, numbers, counts, opened.origin)
    return frame.with_columns(typed(frame[name], kind_in(frame, name)) for name in labels).drop(CHECKS), opened


NULLS = ("", "NULL", "null", "Null", r"\N", "None", "nan", "NaN", "NA", "<NA>", "<null>")
"""How programs write what is missing into a file of text, where a word of the same letters would not look different."""


def _numbers(frame: Any, columns: Sequence[str]) -> Any:
    """The rows, these columns as numbers where they hold nothing else beside words for what is missing."""
    import polars as pl

    made = []
    for name in (c for c in columns if frame.schema[c] == pl.String):
        bare = frame[name].set(frame[name].is_in(NULLS).fill_null(False), None)
        number = bare.cast(pl.Float64, strict=False)
        made += [number] if number.null_count() == bare.null_count() else []
    return frame.with_columns(made)


def _as_sent(frame: Any, labels: Sequence[str], numbers: Sequence[str]) -> Any:
    """The rows with the labels that the database sent.

    Text knows no difference between a label that is missing and one that is empty or reads NULL, but the check of its row does.
    """
    import polars as pl

    words = [c for c in frame.columns if c.startswith("kind_")]
    frame = frame.with_columns(pl.when(~pl.col(c).is_in(NULLS)).then(pl.col(c)).alias(c) for c in words)
    for read in (
        (pl.col(*labels).fill_null(""), *(pl.col(*labels).replace(word, None) for word in NULLS)) if labels else ()
    ):
        wrong = _changed(frame, labels, numbers)
        if not wrong.any():
            break
        other = frame.with_columns(read)
        better = pl.Series(wrong & ~_changed(other, labels, numbers))
        frame = frame.with_columns(pl.when(better).then(other[c]).otherwise(frame[c]).alias(c) for c in labels)
    return frame


def _changed(frame: Any, labels: Sequence[str], numbers: Sequence[str]) -> Any:
    """(rows,) where the sum over a row is not the one that the database sent."""
    checks = np.zeros(frame.height)
    with np.errstate(all="ignore"):
        terms = [(frame[c].str.len_chars() + 1).fill_null(0).to_numpy() for c in labels]  # none is not an empty one
        values = [frame[c].to_numpy() for c in numbers]
        terms += [np.where(np.isnan(v), NOTHING, np.log(OFFSET + np.abs(v)) + np.sign(v)) for v in values]
        for k, term in enumerate(terms, 1):
            checks += k * term
        return ~np.isclose(checks, frame["row_check"].to_numpy(), rtol=0, atol=TOLERANCE, equal_nan=True)


def _refuse_changed(
    frame: Any, labels: Sequence[str], numbers: Sequence[str], counts: Collection[str], origin: str
) -> None:
    """Rows that are not those of the query: some are lost or there twice, or something in them is another."""
    again = "Save the rows as the query gave them."
    odd = [c for c in counts if not ((frame[c] >= 0) & (frame[c] % 1 == 0)).fill_null(True).all()]
    if odd:
        raise EvenhandError(f"{origin} holds counts that are no whole numbers in {listing(odd)}. {again}")
    wanted, found = frame["rows_told"][0], frame.height
    if frame["rows_told"].n_unique() > 1 or wanted is None:
        raise EvenhandError(f"{origin} holds rows of several runs of its query. Save those of one.")
    if wanted != found:
        raise EvenhandError(f"{origin} has {found:,} rows, and its query gave {int(wanted):,}. Save each of them once.")
    if changed := int(_changed(frame, labels, numbers).sum()):
        raise EvenhandError(f"{origin} has {changed:,} rows in which something was changed. {again}")
    if not np.isclose(frame["row_check"].sum(), frame["check_told"][0], rtol=1e-12, atol=1e-6, equal_nan=True):
        raise EvenhandError(f"{origin} lacks rows of its query and has others twice. {again}")


KINDS = {
    "truth": r"bool",
    "decimal": r"(decimal|numeric)\b",
    "number": r"(u?(tiny|small|medium|big|huge)?int\d*|integer|long|short|byte|number|float\d*|double|real)\b",
    "date": r"date(32)?\b",
    "moment": r"timestamp|datetime",
}
"""How databases call types of labels; what else they have is text."""


def kind_in(frame: Any, name: str) -> str:
    """Of which kind the labels of a tally were where it was made."""
    found = frame[f"kind_{name}"].drop_nulls()
    word = re.sub(r"^((nullable|lowcardinality)\()+", "", found[0].lower()) if len(found) else ""
    return next((kind for kind, pattern in KINDS.items() if re.match(pattern, word)), "text")


def typed(words: Any, kind: str) -> Any:
    """Labels as the type that they had before they became text; what cannot be read so stays text."""
    import polars as pl

    if kind == "text":
        return words
    bare = words.replace(UNKNOWN, None)
    read: dict[str, Callable[[str], Any]] = {
        "truth": lambda word: {"true": True, "false": False}[word.lower()],
        "decimal": Decimal,
        "number": lambda word: int(word) if re.fullmatch(r"[+-]?\d+", word) else float(word),
        "date": date.fromisoformat,
        "moment": datetime.fromisoformat,
    }
    try:
        labels = {word: read[kind](word) for word in bare.drop_nulls().unique()}
        if kind == "number" and not all(isinstance(label, int) for label in labels.values()):
            labels = {word: float(word) for word in labels}
        made = pl.DataFrame({words.name: list(labels), "read": list(labels.values())}, strict=True)
    except (ValueError, KeyError, ArithmeticError, OverflowError, TypeError):
        return words
    if not labels:
        return bare
    return bare.to_frame().join(made, on=words.name, how="left", maintain_order="left")["read"].alias(words.name)


def _refuse_others(found: Sequence[Any], parts: Sequence[str], origin: str) -> None:
    """Rows that answer another question, or the same of other columns."""
    if not found:
        raise EvenhandError(f"{origin} has no rows: the table that the query was run on had none. Check its name.")
    strange = [p for p in found if not isinstance(p, str) or not p.startswith(FORMAT + " ")]
    if strange:
        kind = str(strange[0]).partition(" ")[0]
        other = isinstance(strange[0], str) and kind.startswith(FORMAT.rpartition("-")[0])
        what = f"a tally of another version ({kind}, and this one reads {FORMAT})" if other else "no tally"
        raise EvenhandError(f"{origin} is {what}. {AGAIN}")
    if all(part in found for part in parts):
        return
    asked = next(in_roles(part) for part in parts if part not in found)
    made = max((in_roles(p) for p in found), key=lambda one: sum(one.get(k) == v for k, v in asked.items()))
    differ = [role for role in {**made, **asked} if made.get(role) != asked.get(role)]
    if "verb" in differ:
        raise EvenhandError(f"{origin} was made for evenhand {made['verb'][0]}. Ask that, or print another query.")
    words = [f"{_said(role, made)}, not {_said(role, asked)}" for role in differ]
    raise EvenhandError(f"{origin} was made for {'; '.join(words)}. Ask what it was made for, or print another query.")


def _said(role: str, roles: Mapping[str, list[str]]) -> str:
    return f"{role}={listing(roles[role])!r}" if role in roles else f"no {role}"

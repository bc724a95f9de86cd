"""Rows that a query of `evenhand sql` gave, in place of the table that it was run on."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.views.columns import slice_problems
from evenhand.views.tables import Files, Table, open_table, to_polars

TALLY = "tally:"
"""Before a path: the rows of a query, and not the table that it was run on."""

FORMAT = "evenhand-tally-1"
"""What the first column of every row begins with. Another meaning of the columns needs another number."""

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
    'evenhand-tally-1 verb=inequality unit=author by=a by=b~27~s'
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

    >>> in_roles("evenhand-tally-1 verb=inequality by=a by=b~27~s")
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
    parts = to_polars(opened.lazy.select("part").unique())["part"].to_list()
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


def open_tally(held: Tally, parts: Sequence[str], numbers: Sequence[str], labels: Sequence[str]) -> tuple[Any, Table]:
    """The rows, as a Polars frame whose `numbers` are float64, and the table that they came as.

    They are refused where they hold no row of one of `parts`, or lack a column.
    """
    import polars as pl

    if problems := slice_problems(in_roles(parts[0]).get("by", [])):
        raise all_problems(problems, where="The call")
    opened, columns = _opened(held)
    _refuse_others(to_polars(opened.lazy.select("part").unique())["part"].to_list(), parts, opened.origin)
    if lost := [c for c in (*numbers, *labels) if c not in columns]:
        raise EvenhandError(f"{opened.origin} lacks the columns {listing(lost)} of its query. Save all columns.")
    frame = to_polars(opened.numbers(*numbers).lazy.select("part", *labels, *numbers))
    if wrong := [c for c in numbers if not (frame.schema[c].is_numeric() or frame.schema[c] == pl.Boolean)]:
        raise EvenhandError(
            f"{opened.origin} holds no numbers in {listing(wrong)}. Save the rows as the query gave them."
        )
    frame = frame.with_columns(pl.col(*numbers).cast(pl.Float64))
    counts = [c for c in ("units_held", "rows_read") if "units_held" in numbers]
    if odd := [
        c for c in counts if not (frame[c].is_finite() & (frame[c] >= 0) & (frame[c] % 1 == 0)).fill_null(False).all()
    ]:
        raise EvenhandError(
            f"{opened.origin} holds no whole numbers in {listing(odd)}. Save the rows as the query gave them."
        )
    return frame, opened


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

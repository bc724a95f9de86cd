"""How databases write the few things in which their SQL differs: names, texts, types, NaN."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenhand.errors import EvenhandError, unknown_name


@dataclass(frozen=True)
class Dialect:
    """One database.

    Attributes
    ----------
    quote : what stands around a name. double, text : types, as a cast writes them.
    nan : whether `{0}`, a double, is NaN. escapes : whether a backslash in a text means something.
    kind : what the type of `{0}` is called. odd : whether `{0}`, of whatever type, is NaN. long : how many characters `{0}` has.
    """

    name: str
    quote: str = '"'
    double: str = "DOUBLE"
    text: str = "VARCHAR"
    nan: str = "isnan({0})"
    escapes: bool = False
    kind: str = "typeof({0})"
    odd: str = "{0} <> {0}"
    long: str = "LENGTH({0})"

    def column(self, name: str) -> str:
        """A column of the table `t`, whatever characters its name has."""
        unsafe = rf"[\\{self.quote}]" if self.name in ("bigquery", "clickhouse") else r"[^\s\S]"  # read as texts are
        if not name or re.search(r"[\x00-\x1f\x7f]", name) or re.search(unsafe, name):
            raise EvenhandError(f"The column {name!r} has a name that {self.name} cannot be told. Rename it in a view.")
        return f"t.{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}"

    def word(self, text: str) -> str:
        """A text in quotes."""
        if re.search(r"[\x00-\x1f\x7f]", text):
            raise EvenhandError(
                f"The label {text!r} holds characters that {self.name} cannot be told. Rename it in a view."
            )
        return "'" + (text.replace("\\", "\\\\").replace("'", "\\'") if self.escapes else text.replace("'", "''")) + "'"

    def as_double(self, expression: str) -> str:
        return f"CAST({expression} AS {self.double})"

    def as_text(self, expression: str) -> str:
        return f"CAST({expression} AS {self.text})"

    def number(self, column: str, *, truth: bool = False) -> str:
        """A column as a double; NaN, which databases compare in their own ways, as NULL. `truth` : it holds true and false."""
        c = self.column(column)
        if truth:
            return self.as_double(f"CASE WHEN {c} THEN 1 WHEN NOT {c} THEN 0 END")
        value = self.as_double(c)
        return f"CASE WHEN {self.nan.format(value)} THEN NULL ELSE {value} END"

    def label(self, column: str) -> str:
        """A column of labels as it is; NaN, which is nobody's name, as NULL."""
        c = self.column(column)
        return f"CASE WHEN {self.odd.format(c)} THEN NULL ELSE {c} END"

    def kind_of(self, expression: str) -> str:
        """The type of labels in the words of the database; nothing for those that are missing."""
        return f"CASE WHEN {expression} IS NOT NULL THEN {self.kind.format(expression)} END"

    def table(self, name: str, role: str = "table") -> str:
        """A table by its name with dots, quoted or not, or by a Jinja expression, as they are; anything else is refused."""
        twice = "" if self.name in ("bigquery", "clickhouse") else f"|{self.quote}{self.quote}"
        quoted = f"{self.quote}(?:[^{self.quote}\\\\\\x00-\\x1f]{twice})+{self.quote}"
        plain = r"\w+(?:-\w+)*" if self.name == "bigquery" else r"\w[\w$]*"
        part = f"(?:{plain}|{quoted})"
        if re.fullmatch(rf"{part}(?:\.{part}){{0,3}}|\{{\{{[^{{}}\x00-\x1f]+\}}\}}", name):
            return name
        raise EvenhandError(
            f"{role}={name!r} is not the name of a table. Write schema.table, its parts in {self.quote} where they hold "
            "other characters, or \"{{ ref('model') }}\"."
        )


def _guarded(kind: str, floats: str, nan: str, text: str = "VARCHAR") -> str:
    """Whether a value is NaN where NaN equals itself: told by its type and its text, which every type has."""
    return f"{kind} IN ({floats}) AND CAST({{0}} AS {text}) = '{nan}'"


DIALECTS = {
    d.name: d
    for d in (
        Dialect("duckdb", odd=_guarded("typeof({0})", "'DOUBLE', 'FLOAT'", "nan")),
        Dialect(
            "postgres", double="DOUBLE PRECISION", text="TEXT", nan="{0} = CAST('NaN' AS DOUBLE PRECISION)",
            kind="CAST(pg_typeof({0}) AS TEXT)",
            odd=_guarded("CAST(pg_typeof({0}) AS TEXT)", "'double precision', 'real', 'numeric'", "NaN", "TEXT"),
        ),
        Dialect("bigquery", "`", "FLOAT64", "STRING", "IS_NAN({0})", escapes=True, kind="JSON_TYPE(TO_JSON({0}))"),
        Dialect(
            "snowflake", nan="{0} = CAST('NaN' AS DOUBLE)", escapes=True, kind="TYPEOF(TO_VARIANT({0}))",
            odd=_guarded("TYPEOF(TO_VARIANT({0}))", "'DOUBLE'", "NaN"),
        ),
        Dialect(
            "databricks", "`", text="STRING", escapes=True, odd=_guarded("typeof({0})", "'double', 'float'", "NaN", "STRING")
        ),
        Dialect("trino", nan="is_nan({0})"),
        Dialect(
            "clickhouse", '"', "Nullable(Float64)", "Nullable(String)", "isNaN({0})", escapes=True,
            kind="toTypeName({0})", long="CHAR_LENGTH({0})",
        ),
    )
}  # fmt: skip


def dialect(name: str) -> Dialect:
    """The dialect of this name."""
    if name not in DIALECTS:
        raise unknown_name("dialect", name, list(DIALECTS), what="a dialect")
    return DIALECTS[name]

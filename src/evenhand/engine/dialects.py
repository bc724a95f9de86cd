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
    quote : what stands around a name. double, bigint, text : types, as a cast writes them.
    nan : whether `{0}`, a double, is NaN. escapes : whether a backslash in a text means something.
    """

    name: str
    quote: str = '"'
    double: str = "DOUBLE"
    bigint: str = "BIGINT"
    text: str = "VARCHAR"
    nan: str = "isnan({0})"
    escapes: bool = False

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

    def table(self, name: str) -> str:
        """A table by its name with dots, quoted or not, or by a Jinja expression, as they are; anything else is refused."""
        quoted = f"{self.quote}[^{self.quote}\\\\\\x00-\\x1f]+{self.quote}"
        plain = r"\w+(?:-\w+)*" if self.name == "bigquery" else r"\w[\w$]*"
        part = f"(?:{plain}|{quoted})"
        if re.fullmatch(rf"{part}(?:\.{part}){{0,3}}|\{{\{{[^{{}}\x00-\x1f]+\}}\}}", name):
            return name
        raise EvenhandError(
            f"table={name!r} is not the name of a table. Write schema.table, its parts in {self.quote} where they hold "
            "other characters, or \"{{ ref('model') }}\"."
        )


DIALECTS = {
    d.name: d
    for d in (
        Dialect("duckdb"),
        Dialect("postgres", double="DOUBLE PRECISION", text="TEXT", nan="{0} = CAST('NaN' AS DOUBLE PRECISION)"),
        Dialect("bigquery", "`", "FLOAT64", "INT64", "STRING", "IS_NAN({0})", escapes=True),
        Dialect("snowflake", nan="{0} = CAST('NaN' AS DOUBLE)", escapes=True),
        Dialect("databricks", "`", text="STRING", escapes=True),
        Dialect("trino", nan="is_nan({0})"),
        Dialect(
            "clickhouse", '"', "Nullable(Float64)", "Nullable(Int64)", "Nullable(String)", "isNaN({0})", escapes=True
        ),
    )
}


def dialect(name: str) -> Dialect:
    """The dialect of this name."""
    if name not in DIALECTS:
        raise unknown_name("dialect", name, list(DIALECTS), what="a dialect")
    return DIALECTS[name]

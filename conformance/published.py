"""Numbers that other packages print in their own manuals, beside what the definitions give: `python -m conformance.published`.

Some were computed from data that comes with a package, is not ours to copy and too large for fractions: for these published.json keeps the
value that evenhand gives, which the kit holds to the definitions.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from decimal import Decimal, localcontext
from pathlib import Path

from conformance import definitions
from conformance.definitions import DEFINITIONS
from conformance.exact import DIGITS, dec

for _module in pkgutil.iter_modules(definitions.__path__):
    importlib.import_module(f"{definitions.__name__}.{_module.name}")

PRINTED = Path(__file__).parent / "published.json"
PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"
MARKS = "<!-- published: made by python -m conformance.published -->", "<!-- end of published -->"
SHOWN = 10
"""Digits of the definition's value on the page: three more than R prints."""


def value_of(entry):
    """The definition's value of an entry, to sixty digits where its input is at hand."""
    if "input" not in entry:
        return Decimal(entry["value"])
    with localcontext(prec=DIGITS):
        return dec(DEFINITIONS[entry["metric"]](entry["input"], **entry["parameters"]))


def agrees(entry):
    """Whether the printed number is the definition's, rounded to as many digits or to the nearest float."""
    printed, value = Decimal(entry["printed"]), value_of(entry) * entry.get("scale", 1)
    last_digit = Decimal(1).scaleb(printed.as_tuple().exponent)
    return abs(value - printed) <= last_digit / 2 or float(value) == float(printed)


def page(entries):
    """The part of docs/conformance.md that the printed numbers make."""
    lines = ["| package | call | printed | definition | |", "|---|---|---|---|---|"]
    for entry in entries:
        value = float(value_of(entry) * entry.get("scale", 1))
        verdict = "agrees" if agrees(entry) else f"differs: {entry['why']}"
        call = entry["call"].replace("|", "\\|")
        lines.append(
            f"| [{entry['tool']}]({entry['source']}) | `{call}` | {entry['printed']} | {value:.{SHOWN}g} | {verdict} |"
        )
    return "\n".join(lines)


def main():
    entries = json.loads(PRINTED.read_text(encoding="utf-8"))
    head, tail = MARKS
    text = PAGE.read_text(encoding="utf-8")
    inside = re.compile(f"{head}.*?{tail}", re.DOTALL)
    PAGE.write_text(inside.sub(lambda _: f"{head}\n{page(entries)}\n{tail}", text), encoding="utf-8")
    print(f"{sum(map(agrees, entries))} of {len(entries)} printed numbers agree")


if __name__ == "__main__":
    main()

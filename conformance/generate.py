"""Writes the vectors: `python -m conformance.generate`, or `--check` to see whether the file is up to date.

Nothing here imports evenhand: every value comes from a definition in `conformance/definitions`.
"""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import re
import sys
from collections import Counter
from decimal import localcontext
from pathlib import Path

from conformance import cases, definitions
from conformance.cases import CASES, LAWS, RELATIONS
from conformance.definitions import DEFINITIONS
from conformance.exact import DIGITS, Undefined, dec, written

for _package in (definitions, cases):  # each module fills DEFINITIONS, or CASES and LAWS
    for _module in sorted(module.name for module in pkgutil.iter_modules(_package.__path__)):
        importlib.import_module(f"{_package.__name__}.{_module}")

VERSION = "1.1.0"
WHERE = Path(__file__).parent / "src" / "evenhand_conformance" / "vectors.json"
PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"
HEAD = {
    "name": "evenhand conformance vectors",
    "version": VERSION,
    "license": "CC0-1.0",
    "license_note": "To the extent possible under law, the authors waive all rights to this file. Use it anywhere.",
    "about": "Exact values of inequality, ranking-fairness and recommender metrics on tiny inputs, from their definitions.",
    "reading": {
        "value": "the nearest binary float; null where undefined; 'inf' and '-inf' for limits",
        "exact": "a fraction, or 40 significant digits of what is none",
        "undefined": "the reason why there is no number",
        "parameters": "those that differ from the metric's default; 'inf' stands for infinity",
        "null in an input": "unknown label, or missing score",
        "laws": RELATIONS,
    },
}


def value_of(case):
    try:
        return DEFINITIONS[case["metric"]](case["input"], **case["parameters"])
    except Undefined as undefined:
        return undefined


def entry(number, case):
    found = value_of(case)
    result = {"value": None, "undefined": found.code} if isinstance(found, Undefined) else written(found)
    return {"id": f"{case['metric']}-{number:02}", **plain(case), **result}


def plain(value):
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return "inf" if value == math.inf else value


def holds(relation, before, after):
    """Whether the definitions themselves obey the law."""
    a, b = dec(before), dec(after)
    near = abs(a - b) < dec(10) ** (10 - DIGITS)
    return {
        "equal": near,
        "falls": b < a,
        "falls_or_stays": b < a or near,
        "rises_or_stays": b > a or near,
        "negates": abs(a + b) < dec(10) ** (10 - DIGITS),
        "inverts": abs(a * b - 1) < dec(10) ** (10 - DIGITS),
    }[relation]


def law_entry(number, law):
    before, after = (value_of({**law, "input": law[side]}) for side in ("before", "after"))
    if isinstance(before, Undefined) or isinstance(after, Undefined) or not holds(law["relation"], before, after):
        raise AssertionError(f"the definition of {law['metric']} breaks the law {law['law']!r}")
    return {"id": f"{law['metric']}-law-{number:02}", **plain(law)}


def numbered(entries, make):
    """Numbers within each metric."""
    seen = Counter()
    out = []
    for one in sorted(entries, key=lambda e: e["metric"]):
        seen[one["metric"]] += 1
        out.append(make(seen[one["metric"]], one))
    return out


def vectors():
    with localcontext(prec=DIGITS):
        return {**HEAD, "vectors": numbered(CASES, entry), "laws": numbered(LAWS, law_entry)}


def text():
    """One vector a line, so that a change shows as one."""
    found = vectors()
    head = json.dumps({k: v for k, v in found.items() if k not in ("vectors", "laws")}, indent=1, ensure_ascii=False)
    parts = [
        f' "{part}": [\n' + ",\n".join("  " + json.dumps(v, ensure_ascii=False) for v in found[part]) + "\n ]"
        for part in ("vectors", "laws")
    ]
    return ",\n".join([head[:-2], *parts]) + "\n}\n"


def main(words):
    made = text()
    if "--check" in words:
        stale = not WHERE.exists() or WHERE.read_text(encoding="utf-8") != made
        print("stale: run python -m conformance.generate" if stale else "up to date")
        return int(stale)
    WHERE.parent.mkdir(parents=True, exist_ok=True)
    WHERE.write_text(made, encoding="utf-8")
    size = f"{len(CASES)} vectors and {len(LAWS)} laws for all {len(DEFINITIONS)} metrics"
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"\d+ vectors and \d+ laws for all \d+ metrics", size, page), encoding="utf-8")
    print(f"{WHERE.name}, {PAGE.name}: {size}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

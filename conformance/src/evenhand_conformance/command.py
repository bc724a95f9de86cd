"""`evenhand-conformance`: list the vectors and laws, and score a tool with them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from evenhand_conformance import kit
from evenhand_conformance.kit import Check, KitError, Score, checked_names, contents, metrics, tools

EXAMPLES = """\
examples:
  evenhand-conformance list                               metrics, the number of vectors and laws of each, and the adapters
  evenhand-conformance list gini                          the vectors of one metric: input, exact value, why
  evenhand-conformance run --tool mypackage.check:adapter       score your own implementation
  evenhand-conformance run --tool lenskit --python .venv-lenskit/bin/python   a tool in its own environment

An adapter is a Python function that takes {"metric": ..., "input": {...}, "parameters": {...}} and returns a number, or NaN or None
if the metric is undefined; it raises NotImplementedError for what the tool does not offer.
Exit codes: 0 the tool agrees wherever it offers a metric, 1 it does not, 2 it cannot be run."""


def main(words: Sequence[str] | None = None, program: str = "evenhand-conformance") -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        program,
        description="Does an implementation compute what the definitions say? Exact vectors, and the score of any tool.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{program} {contents()['version']}")
    _add_arguments(parser)
    try:
        return _run(parser.parse_args(words))
    except KitError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "run"), help="show the vectors and laws, or score a tool with them")
    parser.add_argument("metric", nargs="*", metavar="METRIC", help="names of metrics (default: all)")
    text = "adapter of the tool, or the name of a bundled one (see: list)"
    parser.add_argument("--tool", metavar="MODULE:ADAPTER", help=text)
    parser.add_argument("--python", metavar="FILE", help="Python interpreter of the environment with the tool")
    text = "relative difference up to which numbers agree (default: 1e-9)"
    parser.add_argument("--tolerance", type=float, default=1e-9, help=text)
    text = "format of the answer (default: table)"
    parser.add_argument("--format", choices=("table", "json"), default="table", help=text)
    text = "list every vector and law that does not agree below the table"
    parser.add_argument("--differences", action="store_true", help=text)
    parser.add_argument("--no-progress", action="store_true", help="print no progress on standard error")


def _run(args: argparse.Namespace) -> int:
    if args.action == "list":
        if args.tool or args.python:
            raise KitError("list does not run a tool. Leave --tool and --python out, or use run.")
        return _list(args.metric, args.format)
    if not args.tool:
        raise KitError("run needs a tool. Pass --tool MODULE:ADAPTER, or a name of: evenhand-conformance list.")
    if not 0 < args.tolerance < 1:
        raise KitError(f"--tolerance {args.tolerance:g} is not between 0 and 1. Pass a small number such as 1e-9.")

    def show_step(done: int, total: int) -> None:
        print(f"\rasked {done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    step = None if args.no_progress or not sys.stderr.isatty() else show_step
    sys.path.insert(0, "")  # finds an adapter in the current folder, as `python -m` would
    try:
        score = kit.run(args.tool, python=args.python, only=args.metric, tolerance=args.tolerance, step=step)
    finally:
        sys.path.remove("")
    if not score.offered():
        raise KitError(f"{args.tool} has none of these metrics. See: evenhand-conformance list.")
    if args.format == "json":
        print(json.dumps(summary(score), ensure_ascii=False, indent=1))
    else:
        print(_text(score, differences=args.differences))
    return 0 if score.conforms else 1


def _list(names: list[str], format: str) -> int:
    checked_names("metric", names, metrics())
    vectors = [v for v in contents()["vectors"] if not names or v["metric"] in names]
    laws = [law for law in contents()["laws"] if not names or law["metric"] in names]
    if format == "json":
        print(json.dumps({**contents(), "vectors": vectors, "laws": laws}, ensure_ascii=False, indent=1))
        return 0
    if names:
        head = ["id", "input", "parameters", "exact", "why"]
        cells = []
        for v in vectors:
            exact = f"undefined: {v['undefined']}" if v["value"] is None else str(v["exact"])[:24]
            cells.append([v["id"], _brief(v["input"]), _brief(v["parameters"]), exact, v["why"]])
        print("\n".join(_aligned(head, cells)))
        print("\n".join(f"{law['id']}: {law['law']}, {contents()['reading']['laws'][law['relation']]}" for law in laws))
        return 0
    rows = []
    for name in metrics():
        obeyed = sorted({law["law"] for law in laws if law["metric"] == name})
        rows.append([name, str(sum(v["metric"] == name for v in vectors)), ", ".join(obeyed)])
    print("\n".join(_aligned(["metric", "vectors", "laws"], rows)))
    print(f"\n{len(vectors)} vectors and {len(laws)} laws, version {contents()['version']}, {contents()['license']}.")
    print(f"Bundled adapters: {', '.join(tools())}.")
    return 0


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]], widest: int = 60) -> list[str]:
    """Lines of a table with its columns side by side; numbers at the right, cells longer than `widest` wrapped."""
    widths = [min(widest, max(len(row[i]) for row in [head, *rows])) for i in range(len(head))]
    numeric = [all(row[i].isdigit() for row in rows) for i in range(len(head))]

    def lines(cells: Sequence[str]) -> list[str]:
        parts = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)]
        tall = max(map(len, parts))
        padded = [[*part, *[""] * (tall - len(part))] for part in parts]
        return [
            "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(line, widths, numeric, strict=True)).rstrip()
            for line in zip(*padded, strict=True)
        ]

    return [*lines(head), *lines(["-" * width for width in widths]), *(line for row in rows for line in lines(row))]


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 120 else text[:116] + " ..."


def _text(score: Score, *, differences: bool) -> str:
    """A line per metric that the tool offers, and a summary."""
    head = ["metric", "agrees", "differs", "fails", "not offered", "laws"]
    rows = []
    for name in score.offered():
        counts = [str(score.count(status, name)) for status in ("agrees", "differs", "fails", "absent")]
        obeyed = score.count("agrees", name, laws=True)
        broken = score.count("differs", name, laws=True) + score.count("fails", name, laws=True)
        rows.append([name, *counts, f"{obeyed} of {obeyed + broken}" if obeyed + broken else ""])
    lines = _aligned(head, rows)
    agreed = score.count("agrees")
    offered = len(score.vectors) - score.count("absent")
    reasons = Counter(check.reason for check in score.vectors if check.reason)
    lines += ["", f"{score.version or score.tool}: {agreed} of {offered} vectors agree ({agreed / offered:.1%}), "
              f"{len(score.offered())} of {len({c.metric for c in score.vectors})} metrics offered."]  # fmt: skip
    if offered > agreed:
        lines.append(f"{reasons.total()} of the other {offered - agreed} follow from a stated reason:")
        lines += [f"  {count} x {reason}" for reason, count in reasons.most_common()]
    if differences:
        lines += ["", *(_line(c) for c in (*score.vectors, *score.laws) if c.status in ("differs", "fails"))]
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def _line(check: Check) -> str:
    got = check.raised or check.got
    reason = f" [{check.reason}]" if check.reason else ""
    expected = "undefined" if check.expected is None else check.expected
    return f"{check.id}: expected {expected}, got {'undefined' if got is None else got}; {check.why}{reason}"


def summary(score: Score) -> dict[str, Any]:
    """A score as JSON holds it."""
    return {
        "tool": score.tool, "tool_version": score.version, "kit_version": contents()["version"], "tolerance": score.tolerance,
        "conforms": score.conforms, "metrics_offered": score.offered(),
        "asked": len(score.vectors) - score.count("absent"), "agrees": score.count("agrees"),
        "differs": score.count("differs"), "fails": score.count("fails"), "not_offered": score.count("absent"),
        "laws_agree": score.count("agrees", laws=True),
        "laws_broken": score.count("differs", laws=True) + score.count("fails", laws=True),
        "vectors": [dataclasses.asdict(c) for c in score.vectors], "laws": [dataclasses.asdict(c) for c in score.laws],
    }  # fmt: skip

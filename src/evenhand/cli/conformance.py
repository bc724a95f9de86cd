"""Does an implementation compute what the definitions say? Golden vectors, and the score of any tool.

examples:
  evenhand conformance list                               metrics, how many vectors and laws each has, and the adapters there are
  evenhand conformance list gini                          the vectors of one metric: input, exact value, why
  evenhand conformance run --tool mypackage.check:adapter       score your own implementation
  evenhand conformance run --tool lenskit --python .venv-lenskit/bin/python   a tool in an environment of its own

An adapter is a Python function that takes {"metric": ..., "input": {...}, "parameters": {...}} and returns a number, NaN or None where
there is none; it raises NotImplementedError for what the tool does not offer. docs/conformance.md has one in full.
Exit codes: 0 all that the tool offers agrees, 1 something does not, 2 the tool cannot be asked.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandError, printable, unknown_name

if TYPE_CHECKING:
    from evenhand.conformance.kit import Check, Score


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "run"), help="show the kit, or score a tool with it")
    parser.add_argument("metric", nargs="*", metavar="METRIC", help="names of metrics (default: all)")
    parser.add_argument(
        "--tool", metavar="MODULE:ADAPTER", help="adapter of the tool, or the name of one that comes along (see: list)"
    )
    parser.add_argument("--python", metavar="FILE", help="interpreter of the environment that holds the tool")
    parser.add_argument(
        "--tolerance", type=float, default=1e-9, help="relative distance at which numbers agree (default: 1e-9)"
    )
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="form of the answer (default: table)"
    )
    parser.add_argument(
        "--differences", action="store_true", help="every vector and law that does not agree, below the table"
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def run(args: argparse.Namespace) -> int:
    if args.action == "list":
        if args.tool or args.python:
            raise EvenhandError("list asks no tool. Leave --tool and --python out, or type run.")
        return _list(args.metric, args.format)
    if not args.tool:
        raise EvenhandError("run needs a tool. Pass --tool MODULE:ADAPTER, or a name of: evenhand conformance list.")
    if not 0 < args.tolerance < 1:
        raise EvenhandError(f"--tolerance {args.tolerance:g} is not between 0 and 1. Pass a small number such as 1e-9.")
    from evenhand.conformance.kit import run as scored

    sys.path.insert(0, "")  # an adapter beside the user, as `python -m` would find it
    try:
        score = scored(
            args.tool,
            python=args.python,
            only=args.metric,
            tolerance=args.tolerance,
            step=_steps(quiet=args.no_progress),
        )
    finally:
        sys.path.remove("")
    if not score.offered():
        raise EvenhandError(f"{args.tool} offers none of these metrics. See: evenhand conformance list.")
    print(
        json.dumps(_plain(score), ensure_ascii=False, indent=1)
        if args.format == "json"
        else _text(score, args.differences)
    )
    return 0 if score.conforms else 1


def _steps(*, quiet: bool) -> Callable[[int, int], None] | None:
    """A counter on standard error, where somebody looks."""
    if quiet or not sys.stderr.isatty():
        return None

    def step(done: int, many: int) -> None:
        end = "\n" if done == many else ""
        print(f"\rasked {done} of {many}", end=end, file=sys.stderr, flush=True)

    return step


def _list(names: list[str], format: str) -> int:
    from evenhand.conformance.kit import kit, metrics, tools
    from evenhand.report.table import aligned

    for name in names:
        if name not in metrics():
            raise unknown_name("metric", name, metrics(), what="a metric of the kit")
    vectors = [v for v in kit()["vectors"] if not names or v["metric"] in names]
    laws = [law for law in kit()["laws"] if not names or law["metric"] in names]
    if format == "json":
        print(json.dumps({**kit(), "vectors": vectors, "laws": laws}, ensure_ascii=False, indent=1))
        return 0
    if names:
        head = ["id", "input", "parameters", "exact", "why"]
        cells = [[v["id"], _brief(v["input"]), _brief(v["parameters"]), _exact(v), v["why"]] for v in vectors]
        print("\n".join(aligned(head, cells, widest=[30, 60, 30, 30, 60])))
        print("\n".join(f"{law['id']}: {law['law']}, {kit()['reading']['laws'][law['relation']]}" for law in laws))
        return 0
    rows = []
    for name in metrics():
        obeyed = sorted({law["law"] for law in laws if law["metric"] == name})
        rows.append([name, str(sum(v["metric"] == name for v in vectors)), ", ".join(obeyed)])
    print("\n".join(aligned(["metric", "vectors", "laws"], rows, right=[False, True, False])))
    print(f"\n{len(vectors)} vectors and {len(laws)} laws, version {kit()['version']}, {kit()['license']}.")
    print(f"Adapters that come along: {', '.join(tools())}.")
    return 0


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 120 else text[:116] + " ..."


def _exact(vector: dict[str, Any]) -> str:
    return f"undefined: {vector['undefined']}" if vector["value"] is None else str(vector["exact"])[:24]


def _text(score: Score, differences: bool) -> str:  # noqa: FBT001
    """A line per metric that the tool offers, and what it all comes to."""
    from evenhand.report.table import aligned

    head = ["metric", "agrees", "differs", "fails", "not offered", "laws"]
    rows = []
    for name in score.offered():
        counts = [str(score.count(status, name)) for status in ("agrees", "differs", "fails", "absent")]
        kept, broken = score.count("agrees", name, laws=True), _broken(score, name)
        rows.append([name, *counts, f"{kept} of {kept + broken}" if kept + broken else ""])
    lines = aligned(head, rows, right=[False, True, True, True, True, True])
    agreed = score.count("agrees")
    asked = len(score.vectors) - score.count("absent")
    known = sum(bool(c.reason) for c in score.vectors)
    lines += ["", f"{score.version or score.tool}: {agreed} of {asked} vectors agree ({agreed / asked:.1%}), "
              f"{len(score.offered())} of {len({c.metric for c in score.vectors})} metrics offered."]  # fmt: skip
    if asked > agreed:
        lines.append(f"{known} of the other {asked - agreed} are what a stated reason leads to.")
        lines += [f"  {many} x {text}" for text, many in _reasons(score)]
    if differences:
        lines += ["", *(_line(c) for c in (*score.vectors, *score.laws) if c.status in ("differs", "fails"))]
    return printable("\n".join(lines))


def _broken(score: Score, name: str) -> int:
    return score.count("differs", name, laws=True) + score.count("fails", name, laws=True)


def _reasons(score: Score) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for check in score.vectors:
        if check.reason:
            found[check.reason] = found.get(check.reason, 0) + 1
    return sorted(found.items(), key=lambda pair: -pair[1])


def _line(check: Check) -> str:
    got = check.raised or check.got
    ending = f" [{check.reason}]" if check.reason else ""
    wanted = "undefined" if check.expected is None else check.expected
    return f"{check.id}: expected {wanted}, got {'undefined' if got is None else got}; {check.why}{ending}"


def _plain(score: Score) -> dict[str, Any]:
    import dataclasses

    from evenhand.conformance.kit import kit

    asked = len(score.vectors) - score.count("absent")
    return {
        "tool": score.tool, "tool_version": score.version, "kit_version": kit()["version"], "tolerance": score.tolerance,
        "conforms": score.conforms, "metrics_offered": score.offered(), "asked": asked, "agrees": score.count("agrees"),
        "differs": score.count("differs"), "fails": score.count("fails"), "not_offered": score.count("absent"),
        "laws_agree": score.count("agrees", laws=True),
        "laws_broken": score.count("differs", laws=True) + score.count("fails", laws=True),
        "vectors": [dataclasses.asdict(c) for c in score.vectors], "laws": [dataclasses.asdict(c) for c in score.laws],
    }  # fmt: skip

"""`evenhand conformance`: list the golden vectors, and score a tool with them."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import add_no_progress
from evenhand.errors import EvenhandError, printable, unknown_name

if TYPE_CHECKING:
    from evenhand.conformance.kit import Check, Score


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    add_no_progress(parser)


def run(args: argparse.Namespace) -> int:
    if args.action == "list":
        if args.tool or args.python:
            raise EvenhandError("list does not run a tool. Leave --tool and --python out, or use run.")
        return _list(args.metric, args.format)
    if not args.tool:
        raise EvenhandError("run needs a tool. Pass --tool MODULE:ADAPTER, or a name of: evenhand conformance list.")
    if not 0 < args.tolerance < 1:
        raise EvenhandError(f"--tolerance {args.tolerance:g} is not between 0 and 1. Pass a small number such as 1e-9.")
    from evenhand.conformance import kit

    def show_step(done: int, total: int) -> None:
        print(f"\rasked {done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    step = None if args.no_progress or not sys.stderr.isatty() else show_step
    sys.path.insert(0, "")  # finds an adapter in the current folder, as `python -m` would
    try:
        score = kit.run(args.tool, python=args.python, only=args.metric, tolerance=args.tolerance, step=step)
    finally:
        sys.path.remove("")
    if not score.offered():
        raise EvenhandError(f"{args.tool} has none of these metrics. See: evenhand conformance list.")
    if args.format == "json":
        print(json.dumps(_plain(score), ensure_ascii=False, indent=1))
    else:
        print(_text(score, differences=args.differences))
    return 0 if score.conforms else 1


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
        cells = []
        for v in vectors:
            exact = f"undefined: {v['undefined']}" if v["value"] is None else str(v["exact"])[:24]
            cells.append([v["id"], _brief(v["input"]), _brief(v["parameters"]), exact, v["why"]])
        print("\n".join(aligned(head, cells, widest=[30, 60, 30, 30, 60])))
        print("\n".join(f"{law['id']}: {law['law']}, {kit()['reading']['laws'][law['relation']]}" for law in laws))
        return 0
    rows = []
    for name in metrics():
        obeyed = sorted({law["law"] for law in laws if law["metric"] == name})
        rows.append([name, str(sum(v["metric"] == name for v in vectors)), ", ".join(obeyed)])
    print("\n".join(aligned(["metric", "vectors", "laws"], rows, right=[False, True, False])))
    print(f"\n{len(vectors)} vectors and {len(laws)} laws, version {kit()['version']}, {kit()['license']}.")
    print(f"Bundled adapters: {', '.join(tools())}.")
    return 0


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 120 else text[:116] + " ..."


def _text(score: Score, *, differences: bool) -> str:
    """A line per metric that the tool offers, and a summary."""
    from evenhand.report.table import aligned

    head = ["metric", "agrees", "differs", "fails", "not offered", "laws"]
    rows = []
    for name in score.offered():
        counts = [str(score.count(status, name)) for status in ("agrees", "differs", "fails", "absent")]
        obeyed = score.count("agrees", name, laws=True)
        broken = score.count("differs", name, laws=True) + score.count("fails", name, laws=True)
        rows.append([name, *counts, f"{obeyed} of {obeyed + broken}" if obeyed + broken else ""])
    lines = aligned(head, rows, right=[False, True, True, True, True, True])
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
    return printable("\n".join(lines))


def _line(check: Check) -> str:
    got = check.raised or check.got
    reason = f" [{check.reason}]" if check.reason else ""
    expected = "undefined" if check.expected is None else check.expected
    return f"{check.id}: expected {expected}, got {'undefined' if got is None else got}; {check.why}{reason}"


def _plain(score: Score) -> dict[str, Any]:
    import dataclasses

    from evenhand.conformance.kit import kit

    return {
        "tool": score.tool, "tool_version": score.version, "kit_version": kit()["version"], "tolerance": score.tolerance,
        "conforms": score.conforms, "metrics_offered": score.offered(),
        "asked": len(score.vectors) - score.count("absent"), "agrees": score.count("agrees"),
        "differs": score.count("differs"), "fails": score.count("fails"), "not_offered": score.count("absent"),
        "laws_agree": score.count("agrees", laws=True),
        "laws_broken": score.count("differs", laws=True) + score.count("fails", laws=True),
        "vectors": [dataclasses.asdict(c) for c in score.vectors], "laws": [dataclasses.asdict(c) for c in score.laws],
    }  # fmt: skip

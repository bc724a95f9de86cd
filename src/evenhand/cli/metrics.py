"""`evenhand metrics`: cards, other tools' conventions, and the table of ranking metrics."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import textwrap
from collections.abc import Mapping
from typing import Any

from evenhand.cards import REGISTRY, Metric
from evenhand.errors import EvenhandError, unknown_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="metric, such as gini")
    parser.add_argument("--compare", action="store_true", help="show other tools' numbers next to evenhand's")
    text = "show what each ranking metric needs, takes and cannot handle, side by side"
    parser.add_argument("--table", action="store_true", help=text)
    text = "format of the answer (default: table)"
    parser.add_argument("--format", choices=("table", "json"), default="table", help=text)


def run(args: argparse.Namespace) -> int:
    from evenhand import metrics  # noqa: F401  (fills the registry)

    args.name = args.name and args.name.lower()
    if args.name is not None and args.name not in REGISTRY:
        raise unknown_name("metric", args.name, sorted(REGISTRY), what="a known metric")
    if args.compare:
        return _compare(args.name, args.format)
    if args.table:
        return _table(args.name, args.format)
    chosen = [args.name] if args.name else sorted(REGISTRY)
    if args.format == "json":
        print(json.dumps([_plain(REGISTRY[name]) for name in chosen], ensure_ascii=False, indent=1))
    elif args.name:
        print(_card(REGISTRY[args.name]))
    else:
        print("\n\n".join(_by_verb(REGISTRY)))
        print("\nOne card: evenhand metrics NAME. The same word in other tools: evenhand metrics NAME --compare")
    return 0


def _by_verb(registry: Any) -> list[str]:
    tallies_of = {
        "inequality": ("Spectrum",),
        "prefix": ("Placement",),
        "exposure": ("Exposed", "Exposure", "Amortised", "Represented"),
        "pairwise": ("Pairs",),
        "outcome-test": ("Moments",),
        "recommender": ("Crosstab",),
        "": (),  # metrics of other tallies
    }
    width = max(map(len, registry))
    left = dict(registry)
    parts = []
    for verb, tallies in tallies_of.items():
        names = sorted(n for n, m in left.items() if not verb or m.card.needs.__name__ in tallies)
        head = f"evenhand {verb}" if verb else "plain functions of evenhand.metrics"
        parts.append("\n".join([head, *(f"  {name.ljust(width)}  {left.pop(name).card.asks}" for name in names)]))
    return parts


def _compare(name: str | None, format: str) -> int:
    from evenhand.findings import plain
    from evenhand.metrics.conventions import compare
    from evenhand.report.table import aligned
    from evenhand.report.words.text import number

    if name is None:
        several = ", ".join(sorted(n for n, metric in REGISTRY.items() if metric.conventions))
        raise EvenhandError(f"--compare needs the name of a metric. Other tools compute these differently: {several}.")
    rows = compare(name)
    if format == "json":
        print(json.dumps([plain(dataclasses.asdict(row)) for row in rows], ensure_ascii=False, indent=1))
        return 0
    card = REGISTRY[name].card
    inputs = list(rows[0].values)
    head = ["convention", "tool", *inputs, "what it does"]
    shown = [["nan" if math.isnan(r.values[i]) else number(r.values[i]) for i in inputs] for r in rows]
    cells = [[r.convention, r.tool, *values, r.does] for r, values in zip(rows, shown, strict=True)]
    count = len({tuple(row[2:-1]) for row in cells})
    answers = "one word, and one answer on these inputs." if count == 1 else f"one word, {count} different answers."
    print(f"{card.title}: {answers}\n" if inputs else card.title)
    print("\n".join(aligned(head, cells)))
    print(
        f"\nevenhand gives the first line unless asked: {name}(x, convention={rows[-1].convention!r}) gives the last."
    )
    return 0


def _table(name: str | None, format: str) -> int:
    from evenhand.report.table import aligned

    rows = lookup({name: REGISTRY[name]} if name else None)
    if not rows:
        raise EvenhandError(
            f"{name} is not a ranking metric, so --table has no row for it. See: evenhand metrics {name}"
        )
    if format == "json":
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        widest = [18, 18, 10, 11, 22, 14, 8, 9, 46]
        print("\n".join(aligned(list(rows[0]), [list(row.values()) for row in rows], widest=widest)))
    return 0


def _plain(metric: Any) -> dict[str, Any]:
    from evenhand.findings import plain

    card = metric.card
    defaults = {n: p.default for n, p in metric.parameters.items()}
    return {
        "name": card.name, "symbol": card.symbol, "title": card.title, "asks": card.asks, "formula": card.formula,
        "span": plain(metric.span()), "ideal": plain(metric.ideal()), "better": metric.better(), "undefined": card.undefined,
        "parameters": plain(defaults), "example": card.example, "variants": list(card.variants),
        "references": list(card.references), "laws": sorted(card.laws),
    }  # fmt: skip


def _card(metric: Any) -> str:
    from evenhand.report.words.text import DIRECTION, number

    def range_words(low: float, high: float) -> str:
        if math.isinf(high):
            return "any number" if math.isinf(low) else f"{number(low)} and above"
        return f"{number(low)} to {number(high)}"

    card, span, ideal = metric.card, range_words(*metric.span()), metric.ideal()
    for ends, choices in metric.other_spans().items():
        span += f", {range_words(*ends)} with {' or '.join(choices)}"
    parameters = ", ".join(f"{n}={p.default!r}" for n, p in metric.parameters.items()) or "none"
    lines = [
        f"{card.name}  {f'({card.symbol})  ' if card.symbol else ''}{card.title}", "", f"  {card.asks}", "",
        f"  formula     {card.formula}" if card.formula else "",
        f"  range       {span}; {DIRECTION[metric.better()]}",
        "" if math.isnan(ideal) else f"  ideal       {number(ideal)}",
        f"  parameters  {parameters}",
        f"  example     {card.example}" if card.example else "",
        f"  undefined   when {card.undefined}" if card.undefined else "",
    ]  # fmt: skip
    if card.variants:
        lines += ["", "  Which one is this? What other tools say:"]
        lines += [textwrap.fill(v, 100, initial_indent="  - ", subsequent_indent="    ") for v in card.variants]
    if metric.conventions:
        lines += ["", f"  Other tools' numbers next to ours: evenhand metrics {card.name} --compare"]
    if card.references:
        lines += ["", f"  see {', '.join(card.references)} in docs/references.toml"]
    return "\n".join(line for i, line in enumerate(lines) if line or i in (1, 3) or (i and lines[i - 1]))


RELEVANCE = frozenset({"relevance", "gains", "dues"})
LOOKS = {"ranking": "each ranking", "request": "all rankings together", "population": "all rankings together"}


def lookup(metrics: Mapping[str, Metric] | None = None) -> list[dict[str, str]]:
    """One row per metric of rankings: data it needs, what it compares, where it breaks.

    >>> next(row for row in lookup() if row["metric"] == "log_rur")["relevance"]
    'needed'
    """
    rows = []
    for name, metric in sorted((REGISTRY if metrics is None else metrics).items()):
        tally: Any = metric.card.needs
        if not hasattr(tally, "unlabelled"):  # reads no rankings
            continue
        reads, parameters = metric.reads() | getattr(tally, "always", frozenset()), metric.parameters
        relevance = "predicted scores" if "scores" in reads else "needed" if reads & RELEVANCE else "not needed"
        if "target" in parameters and reads & RELEVANCE:
            relevance += ", or a target"
        soft = "labels" not in reads and not ("sides" in reads and metric.card.per == "ranking")
        rows.append({
            "metric": name,
            "relevance": relevance,
            "groups": "two sides" if "sides" in reads else "any number",
            "soft groups": "yes" if soft else "no",
            "unlabelled items": str(tally.unlabelled),
            "looks at": str(getattr(tally, "looks_at", "") or LOOKS[metric.card.per]),
            "target": "yours" if "target" in parameters or "p" in parameters else "built in",
            "attention": "yours" if "attention" in parameters else "built in",
            "breaks when": metric.card.undefined or "never, for well-formed input",
        })  # fmt: skip
    return rows

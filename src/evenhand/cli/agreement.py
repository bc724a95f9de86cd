"""`evenhand agreement RESULT.json ...`."""

from __future__ import annotations

import argparse

from evenhand.cli.options import add_output, finish

EXAMPLE = """\
example:
  evenhand exposure 'runs/*.gz' --groups docs.csv --relevance 2020.qrels --protected developing --format json --output e.json
  evenhand agreement e.json --plot agreement=heat.svg

Several results of the same systems are put side by side. The systems are those of --system, or the runs themselves."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("results", nargs="+", metavar="RESULT.json", help="saved results with systems")
    parser.add_argument("--draws", type=int, default=9_999, help="permutations for p beyond seven systems")
    parser.add_argument("--seed", type=int, default=None, help="seed of the permutations (default: drawn and recorded)")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.agreement import agreement
    from evenhand.results import load

    found = agreement(*(load(path) for path in args.results), draws=args.draws, rng=args.seed)
    return finish(found, args)

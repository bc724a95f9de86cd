"""`evenhand compare A.json B.json`."""

from __future__ import annotations

import argparse

from evenhand.cli.options import add_output, finish

EXAMPLE = """\
example:
  evenhand inequality monday.parquet --unit author --amount views --population none --format json --output monday.json
  evenhand inequality friday.parquet --unit author --amount views --population none --format json --output friday.json
  evenhand compare friday.json monday.json

The estimate is the first minus the second; the two must rest on different units (two arms, two periods). A saved result
holds no requests: to compare rankers on the same requests, audit them in one table with --system and add --systems."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("a", metavar="A.json", help="a saved result")
    parser.add_argument("b", metavar="B.json", help="what it is compared with")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.compare import compare
    from evenhand.results import load

    return finish(compare(load(args.a), load(args.b)), args)

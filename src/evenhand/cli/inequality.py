"""`evenhand inequality`."""

from __future__ import annotations

import argparse
import re
from typing import Any

from evenhand.cli.options import add_output, add_uncertainty, finish, given, progress, source
from evenhand.errors import EvenhandError, listing

EXAMPLE = """\
example:
  evenhand inequality events.parquet --unit author_id --amount impressions --population 102000000 --by source \\
      -m gini -m 'top_share(p=0.01)' --html reach.html

population is everyone who could have received something; a log holds only those who did:
  a number      every slice has that many units
  a file        a table of units (with the --by columns, each slice gets its own)
  SLICE=N,...   a number per slice
  none          only the units seen"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    add_files(parser)
    add_units(parser, several=True).add_argument("--weight", help="column with the weight of each unit")
    add_uncertainty(parser)
    add_output(parser)


def add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="Parquet, CSV or JSON lines (also .gz), or a glob in quotes"
    )


def add_units(parser: argparse.ArgumentParser, *, several: bool = False) -> Any:
    """The roles of every audit of units; `several` amounts give a slice each."""
    roles = parser.add_argument_group("roles")
    roles.add_argument("--unit", required=True, help="column that says who receives, or 'none' if every row is a unit")
    often = "may be repeated; " if several else ""
    roles.add_argument(
        "--amount", action="append", help=f"column that says how much; {often}none given: rows are counted"
    )
    roles.add_argument(
        "--population", required=True, metavar="N|FILE|SLICE=N,...|none", help="everyone who could have received"
    )
    roles.add_argument(
        "--by", action="append", default=[], help="column to slice by, or 'log_bins(followers, 20)'; may be repeated"
    )
    return roles


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.inequality import inequality

    with progress("reading", quiet=args.no_progress):
        result = inequality(source(args.files, args.engine), weight=args.weight, **units(args), **given(args))
    return finish(result, args)


def units(args: argparse.Namespace) -> dict[str, Any]:
    """The words of the command line as arguments of the audit."""
    amounts = args.amount or None
    return {
        "unit": None if args.unit == "none" else args.unit,
        "amount": amounts[0] if amounts and len(amounts) == 1 else amounts,
        "population": population(args.population),
        "by": args.by or None,
    }


def population(text: str) -> Any:
    """`none`, a number, `slice=number,...`, or a path."""
    if text.lower() == "none":
        return None
    if re.fullmatch(r"-?(\d+(_\d+)*|\d{1,3}(,\d{3})+)", text):
        return int(text.replace(",", ""))
    if re.fullmatch(r"-?[\d,]+", text):
        raise EvenhandError(
            f"--population {text!r} is not one number: a comma stands before every three digits, as in 1,000,000. "
            "Write one number, or slice=number,slice=number."
        )
    if "=" in text and not text.endswith((".parquet", ".csv", ".jsonl", ".gz")):
        pairs = [part.rpartition("=") for part in text.split(",")]
        if not all(name and size.strip().isdecimal() for name, _, size in pairs):
            raise EvenhandError(
                f"--population {text!r} cannot be read. Write a number, a file, none, or slice=number,slice=number."
            )
        names = [name.strip() for name, _, _ in pairs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise EvenhandError(f"--population {text!r} gives {listing(twice)} two sizes. Give each slice one.")
        return {name.strip(): int(size) for name, _, size in pairs}
    return text

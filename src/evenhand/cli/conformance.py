"""`evenhand conformance`: the commands of the conformance kit, which is a package of its own."""

from __future__ import annotations

import argparse

from evenhand.errors import EvenhandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "run"), help="show the vectors and laws, or score a tool with them")
    text = "names of metrics and options of the kit, such as --tool"
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help=text)


def run(args: argparse.Namespace) -> int:
    try:
        from evenhand_conformance.command import main
    except ModuleNotFoundError as error:
        raise EvenhandError(
            "The conformance kit is a package of its own, and it is not installed. "
            "Install it from a copy of the repository: pip install ./conformance."
        ) from error
    return main([args.action, *args.words], "evenhand conformance")

"""`evenhand sensitivity`: an audit repeated under every combination of choices."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand.audits.declare import Audit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.declare import find
    from evenhand.audits.sensitivity import REPEATED
    from evenhand.cli.audit import add_engine, add_option, dest
    from evenhand.cli.options import add_output

    audit = find("sensitivity")
    parser.add_argument(
        dest("of"), choices=REPEATED, metavar="VERB", help="audit to repeat: exposure, prefix or pairwise"
    )
    parser.add_argument(dest("table"), nargs="+", metavar="FILE", help=audit.parameters["table"].takes.files)
    add_option(parser, audit.parameters["vary"], audit)
    added = {"vary"}
    for name in REPEATED:
        group = parser.add_argument_group(f"as in evenhand {name}")
        for parameter in find(name).parameters.values():
            if not parameter.positional and parameter.name not in added:
                add_option(group, parameter, find(name), required=False)
                added.add(parameter.name)
    add_engine(parser)
    add_output(parser, audit.charts)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.declare import find
    from evenhand.audits.sensitivity import sensitivity
    from evenhand.cli.audit import in_flags, read, source
    from evenhand.cli.options import finish, progress
    from evenhand.errors import EvenhandError

    repeated = find(args.of_of)
    try:
        arguments = _arguments(repeated, args)
        vary = read(find("sensitivity").parameters["vary"], args.of_vary)
        for name, choices in vary.items():
            if name in repeated.parameters:
                vary[name] = [read(repeated.parameters[name], [c]) if isinstance(c, str) else c for c in choices]
        for name, parameter in repeated.parameters.items():
            if parameter.required and not parameter.positional and name not in {**arguments, **vary}:
                raise EvenhandError(
                    f"{repeated.name} needs {name}=. Pass {name}=, as in evenhand {repeated.name} --help."
                )
        with progress("reading", quiet=args.no_progress):
            table = source(args.of_table, args.engine, args.master)
            result = sensitivity(repeated.name, table, vary=vary, **arguments)
    except EvenhandError as error:
        raise EvenhandError(in_flags(str(error), repeated)) from error
    return finish(result, args)


def _arguments(repeated: Audit, args: argparse.Namespace) -> dict[str, Any]:
    """The typed options as arguments of the repeated audit; other audits' are refused."""
    from evenhand.cli.audit import flag, read, typed_parameters
    from evenhand.errors import EvenhandError

    arguments = {}
    for name, words in typed_parameters(args).items():
        if name in ("of", "table", "vary"):
            continue
        if name not in repeated.parameters:
            raise EvenhandError(f"{flag(name)} is no option of {repeated.name}. See evenhand {repeated.name} --help.")
        arguments[name] = words if isinstance(words, bool) else read(repeated.parameters[name], words)
    return arguments

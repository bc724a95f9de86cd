"""`evenhand sensitivity`: an audit repeated under every combination of choices."""

from __future__ import annotations

import argparse

from evenhand.audits.declare import find
from evenhand.cli.audit import add_engine, add_option, dest, engine_of, flag, read, reading, source, typed_parameters
from evenhand.cli.options import add_output, finish
from evenhand.errors import EvenhandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.sensitivity import REPEATED

    audit = find("sensitivity")
    text = "audit to repeat: exposure, prefix or pairwise"
    parser.add_argument(dest("of"), choices=REPEATED, metavar="VERB", help=text)
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
    from evenhand.audits.sensitivity import sensitivity

    typed = typed_parameters(args)
    repeated, files, choices_typed = find(typed.pop("of")), typed.pop("table"), typed.pop("vary")
    with reading(repeated, args):
        vary = read(find("sensitivity").parameters["vary"], choices_typed)
        for name, choices in vary.items():
            if name in repeated.parameters:
                vary[name] = [read(repeated.parameters[name], [c]) if isinstance(c, str) else c for c in choices]
        arguments = {}
        for name, words in typed.items():
            if name not in repeated.parameters:
                raise EvenhandError(
                    f"{flag(name)} is not an option of {repeated.name}. See evenhand {repeated.name} --help."
                )
            arguments[name] = words if isinstance(words, bool) else read(repeated.parameters[name], words)
        for name, parameter in repeated.parameters.items():
            if parameter.required and not parameter.positional and name not in {**arguments, **vary}:
                raise EvenhandError(f"{repeated.name} needs {name}=. See evenhand {repeated.name} --help.")
        result = sensitivity(repeated.name, source(files, *engine_of(args)), vary=vary, **arguments)
    return finish(result, args)

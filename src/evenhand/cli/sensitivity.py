"""Does the order of systems survive other choices of attention, target, metric or rule?

examples:
  evenhand sensitivity exposure 'runs/*.gz' --groups docs.csv --protected developing -m awrf -m eed
      --vary attention=log --vary 'attention=rbp(patience=0.8)' --vary target=population --vary target=equal
  evenhand sensitivity prefix lists.csv --group stance --protected con --system engine --vary metrics=ndd --vary metrics=ndkl

VERB is exposure, prefix or pairwise; its options follow. Every --vary adds a choice, and all combinations are tried.
"""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.declare import find
    from evenhand.audits.sensitivity import REPEATED
    from evenhand.cli.audit import add_engine, add_option, dest
    from evenhand.cli.options import add_output

    own = find("sensitivity")
    parser.add_argument(
        dest("of"), choices=REPEATED, metavar="VERB", help="audit to repeat: exposure, prefix or pairwise"
    )
    parser.add_argument(dest("table"), nargs="+", metavar="FILE", help=own.parameters["table"].takes.files)
    add_option(parser, own.parameters["vary"], own)
    groups = {name: parser.add_argument_group(f"as in evenhand {name}") for name in REPEATED}
    known = {"vary"}
    for name, group in groups.items():
        for parameter in find(name).parameters.values():
            if not parameter.positional and parameter.name not in known:
                add_option(group, parameter, find(name), required=False)
                known.add(parameter.name)
    add_engine(parser)
    add_output(parser, own.charts)


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.declare import find
    from evenhand.audits.sensitivity import sensitivity
    from evenhand.cli.audit import in_flags, read, source
    from evenhand.cli.options import finish, progress
    from evenhand.errors import EvenhandError

    repeated = find(args.of_of)
    try:
        given = _given(repeated, args)
        vary = read(find("sensitivity").parameters["vary"], args.of_vary)
        for name, choices in vary.items():
            if name in repeated.parameters:
                vary[name] = [read(repeated.parameters[name], [c]) if isinstance(c, str) else c for c in choices]
        lacking = [
            n for n, p in repeated.parameters.items() if p.required and not p.positional and n not in {**given, **vary}
        ]
        if lacking:
            raise EvenhandError(
                f"{repeated.name} needs {lacking[0]}=. Pass {lacking[0]}=, as in evenhand {repeated.name} --help."
            )
        with progress("reading", quiet=args.no_progress):
            found = sensitivity(repeated.name, source(args.of_table, args.engine, args.master), vary=vary, **given)
    except EvenhandError as error:
        raise EvenhandError(in_flags(str(error), repeated)) from error
    return finish(found, args)


def _given(repeated: Any, args: argparse.Namespace) -> dict[str, Any]:
    """What was typed, as the audit takes it; options of the others are refused."""
    from evenhand.cli.audit import flag, read
    from evenhand.errors import EvenhandError

    typed = {name.removeprefix("of_"): words for name, words in vars(args).items() if name.startswith("of_")}
    own = {name: words for name, words in typed.items() if name not in ("of", "table", "vary")}
    lost = [name for name in own if name not in repeated.parameters]
    if lost:
        raise EvenhandError(f"{flag(lost[0])} is no option of {repeated.name}. See evenhand {repeated.name} --help.")
    return {n: words if isinstance(words, bool) else read(repeated.parameters[n], words) for n, words in own.items()}

"""Shell completion: scripts for bash, zsh and fish, and the candidates they ask for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

SCRIPTS = {
    "bash": """\
_evenhand() {
    local IFS=$'\\n'
    COMPREPLY=($(evenhand completion --candidates "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o bashdefault -F _evenhand evenhand
""",
    "zsh": """\
_evenhand() {
    local -a found
    found=("${(@f)$(evenhand completion --candidates "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _evenhand evenhand
""",
    "fish": "complete -c evenhand -a '(evenhand completion --candidates (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'\n",
}
"""Shell code that asks this verb for candidates, and completes files if there are none."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", choices=sorted(SCRIPTS), help="print the completion script of this shell")
    parser.add_argument("--candidates", nargs=argparse.REMAINDER, metavar="WORD", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.candidates is not None:
        print(*candidates(args.candidates), sep="\n")
    else:
        print(SCRIPTS[args.shell or "bash"], end="")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """Completions of the last word: verbs, options, choices or columns, but no files.

    >>> candidates(["ineq"]), candidates(["inequality", "log.csv", "--engine", "p"])
    (['inequality'], ['polars'])
    """
    from evenhand.cli import VERBS, options_of

    *before, typed = words or [""]
    if not before:
        return [verb for verb in VERBS if verb.startswith(typed)]
    if before[0] not in VERBS:
        return []
    options = options_of(before[0])
    action = options.get(before[-1])
    if action is not None and action.nargs != 0:
        takes_column = "COLUMN" in str(action.metavar)
        choices = columns(before[1:]) if takes_column else map(str, action.choices or ())
        return [word for word in choices if word.startswith(typed)]
    return sorted(o for o in options if o.startswith(typed)) if typed.startswith("-") else []


def columns(words: Sequence[str]) -> list[str]:
    """The columns of the first file among these words; none if it cannot be read."""
    from evenhand.errors import EvenhandError
    from evenhand.sources.opening import open_table

    files = [word for word in words if os.path.isfile(word)]
    try:
        return list(open_table(files[0]).schema) if files else []
    except EvenhandError:
        return []

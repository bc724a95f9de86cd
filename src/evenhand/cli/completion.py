"""Completion for bash, zsh and fish: verbs, options, their choices, and the columns of the files that were typed.

example:
  eval "$(evenhand completion bash)"           # in ~/.bashrc
  eval "$(evenhand completion zsh)"            # in ~/.zshrc
  evenhand completion fish | source            # in ~/.config/fish/config.fish
"""

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
"""What a shell runs: it asks this verb for candidates, and completes files where there are none."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", choices=sorted(SCRIPTS), help="print what this shell has to run")
    parser.add_argument("--candidates", nargs=argparse.REMAINDER, metavar="WORD", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.candidates is not None:
        print(*candidates(args.candidates), sep="\n")
    else:
        print(SCRIPTS[args.shell or "bash"], end="")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """What the last word may become: a verb, an option, a choice or a column; nothing where it may be a file.

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
        known = list(map(str, action.choices)) if action.choices else []
        if "COLUMN" in str(action.metavar):
            known = columns(before[1:])
        return [word for word in known if word.startswith(typed)]
    return sorted(o for o in options if o.startswith(typed)) if typed.startswith("-") else []


def columns(words: Sequence[str]) -> list[str]:
    """Names of the columns of the files among these words; none where they cannot be read."""
    from evenhand.errors import EvenhandError
    from evenhand.sources.opening import open_table

    files = [word for word in words if os.path.isfile(word)]
    try:
        return list(open_table(files[0]).schema) if files else []
    except EvenhandError:
        return []

"""The reference of the API and of the command line, from the same places as `--help`: signatures, docstrings, the register of audits."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import os
import re
import textwrap
from collections.abc import Callable
from types import ModuleType
from typing import Any

import evenhand as eh
from evenhand.audits.declare import described, find, names
from evenhand.cli import VERBS, main

HEAD = """\
# Reference

Every public name, as `import evenhand as eh` has it, made from the docstrings when the site is built: the audits here, then
[functions](reference-functions.md), [classes](reference-classes.md) and [modules](reference-modules.md). What a metric means, its range and
its edge cases are on [its card](metrics.md).
"""
COMMANDS = """\
# Command line

The help of every verb, as `evenhand VERB --help-all` prints it. Answers go to standard output, everything else to standard error.
Exit codes: 0 done, 1 a check failed, 2 bad input or usage.
"""
SECTION = re.compile(r"^(Parameters|Attributes|Examples|Returns|Raises|Notes)\n-+\n", re.MULTILINE)
MODULES = ("attention", "distances", "read", "synthetic", "testing")


def pages() -> dict[str, str]:
    """Audits, then what else is callable, then classes and modules: a page each, by file name."""
    audits = [n for n in sorted(names()) if hasattr(eh, n)]
    others = [n for n in eh.__all__ if n not in {*audits, *MODULES, "metrics", "__version__"}]
    classes = [n for n in others if inspect.isclass(getattr(eh, n))]
    functions = [n for n in others if n not in classes]
    return {
        "reference.md": "\n".join([HEAD, "## Audits\n", *map(_audit, audits)]),
        "reference-functions.md": "\n".join(
            ["# Functions\n", *(_function(f"eh.{n}", getattr(eh, n), "##") for n in functions)]
        ),
        "reference-classes.md": "\n".join(["# Classes\n", *map(_class, classes)]),
        "commands.md": "\n".join([COMMANDS, *map(_command, VERBS)]),
        "reference-modules.md": "\n".join(["# Modules\n", *(part for n in MODULES for part in _module(n))]),
    }


def _command(verb: str) -> str:
    os.environ["COLUMNS"] = "100"
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        main([verb, "--help-all"])
    return f"## `evenhand {verb}`\n\n```text\n{printed.getvalue().rstrip()}\n```\n"


def _audit(name: str) -> str:
    audit = find(name)
    text = [
        f"### `eh.{name}`\n",
        f"**{audit.question}**\n" if audit.question else "",
        _call(f"eh.{name}", audit.signature),
    ]
    text += [
        _words(audit.function),
        _table({n: p.about for n, p in audit.parameters.items()}),
        _examples(audit.function),
    ]
    return "\n".join(text)


def _function(called: str, function: Callable[..., Any], level: str) -> str:
    signature = inspect.signature(function)
    return "\n".join(
        [
            f"{level} `{called}`\n",
            _call(called, signature),
            _words(function),
            _table(described(function)),
            _examples(function),
        ]
    )


def _class(name: str) -> str:
    kind = getattr(eh, name)
    parts = [f"### `eh.{name}`\n", _words(kind), _table(described(kind)), _examples(kind)]
    if issubclass(kind, Exception):
        return "\n".join(parts)
    for member, value in vars(kind).items():
        if member.startswith("_") or not inspect.getdoc(value):
            continue
        if isinstance(value, property):
            parts.append(f"#### `{name}.{member}`\n\n{_words(value)}")
        elif isinstance(value, classmethod | staticmethod) or inspect.isfunction(value):
            parts.append(_function(f"{name}.{member}", getattr(kind, member), "####"))
    return "\n".join(parts)


def _module(name: str) -> list[str]:
    module: ModuleType = getattr(eh, name)
    public = getattr(module, "__all__", None) or [
        n
        for n, v in vars(module).items()
        if not n.startswith("_") and getattr(v, "__module__", "").startswith(module.__name__)
    ]
    members = [(n, getattr(module, n)) for n in sorted(public)]
    parts = [f"## `eh.{name}`\n", _words(module)]
    return parts + [_function(f"eh.{name}.{n}", v, "###") for n, v in members if callable(v) and inspect.getdoc(v)]


def _call(called: str, signature: inspect.Signature) -> str:
    """The signature without hints: the words below say what may be passed."""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values() if p.name != "self"]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    text = re.sub(r"<class '(\w+)'>", r"\1", text)
    lines = textwrap.wrap(text[1:-1], 100, break_long_words=False, break_on_hyphens=False)
    inside = lines[0] if len(lines) == 1 else "\n    " + "\n    ".join(lines) + "\n" if lines else ""
    return f"```py\n{called}({inside})\n```\n"


def _words(thing: Any) -> str:
    """What the docstring says before its first section; its mathematics are on the cards."""
    text = inspect.getdoc(thing) or ""
    plain = SECTION.split(text, 1)[0].split("\n>>> ")[0]
    return plain.split(".. math::")[0].rstrip() + "\n"


def _table(about: dict[str, str]) -> str:
    rows = [f"| `{name}` | {words.replace('|', chr(92) + '|') or ' '} |" for name, words in about.items()]
    return "\n".join(["| | |", "|---|---|", *rows, ""]) if rows else ""


def _examples(thing: Any) -> str:
    found = doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")
    lines: list[str] = []
    for example in found:
        first, *rest = example.source.rstrip("\n").split("\n")
        lines += [f">>> {first}", *(f"... {line}" for line in rest), *example.want.rstrip("\n").split("\n")]
    return "\n".join(["```pycon", *filter(None, lines), "```\n"]) if lines else ""

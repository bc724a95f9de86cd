"""A plan file for evenhand run, from the words of a command.

examples:
  evenhand plan inequality events.parquet --unit author_id --amount impressions --population none > plan.toml
  evenhand run plan.toml
  evenhand plan --schema > plan.schema.json     # for editors that check TOML; also shipped with the package
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from evenhand.errors import EvenhandError

HEAD = "# evenhand run plan.toml\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", action="store_true", help="write the JSON Schema of plans instead")
    parser.add_argument("words", metavar="VERB ...", nargs=argparse.REMAINDER, help="a command as for the verb itself")


def run(args: argparse.Namespace) -> int:
    if args.schema:
        from evenhand.cli.schema import text

        sys.stdout.write(text())
        return 0
    if not args.words:
        raise EvenhandError(
            "evenhand plan was given no command. Write a verb and its words, as in: evenhand plan inequality log.csv ..."
        )
    sys.stdout.write(HEAD + plan_of(args.words))
    return 0


def plan_of(words: list[str]) -> str:
    """The plan file that asks what these words ask."""
    from evenhand import cli
    from evenhand.audits.declare import find
    from evenhand.cli.audit import bind
    from evenhand.report.reproduce import plan_file

    typed = cli.parse(words)
    if not cli.is_audit(typed.verb):
        raise EvenhandError(
            f"{typed.verb!r} is no audit, and a plan asks one. Write one of: {', '.join(cli.audit_verbs())}."
        )
    audit = find(typed.verb.replace("-", "_"))
    by_place, by_name = bind(audit, typed)
    asked, objects = audit.call(*by_place, **by_name).recorded
    if objects:
        raise EvenhandError(f"A plan cannot hold {', '.join(objects)}. Name files instead.")
    if "rng" not in by_name:
        asked.pop("rng", None)
    return plan_file({**asked, **_endings(typed)})


def _endings(typed: argparse.Namespace) -> dict[str, Any]:
    """What the command does with its answer, in the plan's words."""
    files = [path for path in (typed.html, typed.output) if path]
    found = {
        "check": typed.check, "baseline": typed.against, "inconclusive": typed.inconclusive, "outputs": files,
        "plot": typed.plot, "history": typed.history, "junit": typed.junit, "summary": typed.summary,
    }  # fmt: skip
    return {key: value for key, value in found.items() if value}

r"""The query to run in a warehouse that evenhand cannot reach; its few rows are all that the audit needs.

example:
  evenhand sql inequality --table shop.events --dialect bigquery --unit author_id --amount impressions --by source > query.sql
  evenhand inequality --tally rows.csv --unit author_id --amount impressions --by source --population 102000000

Run the query where the table is, save its rows (CSV or Parquet), and pass them to the verb in place of the table: numbers,
intervals and report are those of the table itself. Options after the verb are those of the verb.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

VERBS = ("inequality", "sources", "exposure", "outcome-test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.declare import find
    from evenhand.cli.audit import add_option
    from evenhand.engine.dialects import DIALECTS

    verbs = parser.add_subparsers(dest="asked", required=True, metavar="VERB", title="verbs")
    for verb in VERBS:
        audit = find(verb.replace("-", "_"))
        about = f"the query for evenhand {verb}: {audit.question[0].lower()}{audit.question[1:]}"
        sub = verbs.add_parser(verb, help=about, description=about, allow_abbrev=False)
        where = sub.add_argument_group("where it runs")
        where.add_argument(
            "--table", required=True, metavar="NAME", help="the table: schema.table, or \"{{ ref('model') }}\""
        )
        where.add_argument("--dialect", required=True, choices=tuple(DIALECTS), help="whose SQL to write")
        many: dict[str, Any] = {"action": "append", "default": []}
        where.add_argument(
            "--truth", metavar="COLUMN", help="a column that holds true and false; may be repeated", **many
        )
        if verb == "sources":
            where.add_argument(
                "--name", dest="names", metavar="SOURCE", help="a source; repeat it for each of them", **many
            )
        if "relevance" in audit.parameters:
            where.add_argument(
                "--relevance-in", metavar="NAME", help="the table that holds --relevance, where the rankings do not"
            )
        if "population" in audit.parameters:
            where.add_argument(
                "--population-by",
                metavar="COLUMN",
                help="a slice column that the table of all units holds too; may be repeated",
                **many,
            )
        same = sub.add_argument_group("as for the verb itself")
        for parameter in audit.parameters.values():
            if not parameter.positional:
                add_option(same, parameter, audit, required=parameter.required and parameter.name != "population")


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.declare import find
    from evenhand.audits.queries import sql
    from evenhand.cli.audit import bind, in_flags
    from evenhand.errors import EvenhandError

    audit = find(args.asked.replace("-", "_"))
    args.tally, args.engine = "rows.csv", "polars"
    try:
        _, roles = bind(audit, args)
        more: dict[str, Any] = {name: getattr(args, name, ()) for name in ("names", "truth", "population_by")}
        more["relevance_in"] = getattr(args, "relevance_in", None)
        text = sql(audit.name, table=args.table, dialect=args.dialect, **more, **roles)
    except EvenhandError as error:
        said = (
            in_flags(str(error), audit)
            .replace("names=", "--name")
            .replace("population_by", "--population-by")
            .replace("relevance_in=", "--relevance-in")
            .replace("relevance_in", "--relevance-in")
            .replace("table=", "--table ")
        )
        raise EvenhandError(said) from error
    sys.stdout.write(text)
    return 0

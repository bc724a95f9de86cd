r"""The query to run in a warehouse that evenhand cannot reach; its few rows are all that the audit needs.

example:
  evenhand sql inequality --table shop.events --dialect bigquery --unit author_id --amount impressions --whole impressions > query.sql
  evenhand inequality --tally rows.csv --unit author_id --amount impressions --population 102000000

It is the query that the local engine runs, in the SQL of the warehouse. Run it where the table is, save its rows (CSV or Parquet),
and pass them to the verb in place of the table: numbers, intervals and report are those of the table itself. Where one query
depends on the rows of another, pass these with --tally to print the next. Options after the verb are those of the verb.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

VERBS = ("inequality", "sources", "exposure", "outcome-test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.declare import find
    from evenhand.audits.queries import DIALECTS
    from evenhand.cli.audit import add_option

    verbs = parser.add_subparsers(dest="asked", required=True, metavar="VERB", title="verbs")
    for verb in VERBS:
        audit = find(verb.replace("-", "_"))
        about = f"the query for evenhand {verb}: {audit.question[0].lower()}{audit.question[1:]}"
        sub = verbs.add_parser(verb, help=about, description=about, allow_abbrev=False)
        where = sub.add_argument_group("where it runs")
        where.add_argument(
            "--table", required=True, metavar="NAME", help="the table: schema.table, or \"{{ ref('model') }}\""
        )
        where.add_argument("--dialect", required=True, choices=DIALECTS, help="whose SQL to write")
        many: dict[str, Any] = {"action": "append", "default": []}
        kinds = {"truth": "true and false", "whole": "whole numbers", "number": "other numbers"}
        for kind, words in kinds.items():
            where.add_argument(
                f"--{kind}", metavar="COLUMN", help=f"a column that holds {words}; may be repeated", **many
            )
        where.add_argument(
            "--tally",
            metavar="FILE",
            help="the rows of the query before, where this one depends on them; may be repeated",
            **many,
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
    before, args.tally, args.engine = list(args.tally), ["rows.csv"], "polars"
    try:
        _, roles = bind(audit, args)
        more: dict[str, Any] = {name: getattr(args, name, ()) for name in ("truth", "whole", "number", "population_by")}
        text = sql(audit.name, table=args.table, dialect=args.dialect, tally=before or None, **more, **roles)
    except EvenhandError as error:
        words = in_flags(str(error), audit).replace("population_by", "--population-by").replace("table=", "--table ")
        raise EvenhandError(words) from error
    sys.stdout.write(text)
    return 0

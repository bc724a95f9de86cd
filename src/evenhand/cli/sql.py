"""`evenhand sql`: the queries that the local engine runs, in the SQL of a warehouse."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from evenhand.cli.audit import add_option, audit_of, bind, in_flags
from evenhand.errors import EvenhandError

VERBS = ("inequality", "sources", "exposure", "outcome-test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.queries import DIALECTS

    verbs = parser.add_subparsers(dest="audited", required=True, metavar="VERB", title="verbs")
    repeated: dict[str, Any] = {"action": "append", "default": []}
    for verb in VERBS:
        audit = audit_of(verb)
        summary = f"the query for evenhand {verb}: {audit.question[0].lower()}{audit.question[1:]}"
        sub = verbs.add_parser(verb, help=summary, description=summary, allow_abbrev=False)
        group = sub.add_argument_group("where it runs")
        text = "table in the warehouse: schema.table, or \"{{ ref('model') }}\""
        group.add_argument("--table", required=True, metavar="NAME", help=text)
        group.add_argument("--dialect", required=True, choices=DIALECTS, help="SQL dialect to write")
        for kind, values in {"truth": "booleans", "whole": "integers", "number": "other numbers"}.items():
            group.add_argument(f"--{kind}", metavar="COLUMN", help=f"column with {values}; may be repeated", **repeated)
        text = "rows of an earlier query that this one depends on; may be repeated"
        group.add_argument("--tally", metavar="FILE", help=text, **repeated)
        if "population" in audit.parameters:
            text = "slice column that the table of all units has too; may be repeated"
            group.add_argument("--population-by", metavar="COLUMN", help=text, **repeated)
        group = sub.add_argument_group("as for the verb itself")
        for parameter in audit.parameters.values():
            if not parameter.positional:
                add_option(group, parameter, audit, required=parameter.required and parameter.name != "population")


def run(args: argparse.Namespace) -> int:
    from evenhand.audits.queries import sql

    audit = audit_of(args.audited)
    earlier, args.tally, args.engine = list(args.tally), ["rows.csv"], "polars"
    try:
        _, roles = bind(audit, args)
        kinds: dict[str, Any] = {
            name: getattr(args, name, ()) for name in ("truth", "whole", "number", "population_by")
        }
        text = sql(audit.name, table=args.table, dialect=args.dialect, tally=earlier or None, **kinds, **roles)
    except EvenhandError as error:
        words = in_flags(str(error), audit).replace("population_by", "--population-by").replace("table=", "--table ")
        raise EvenhandError(words) from error
    sys.stdout.write(text)
    return 0

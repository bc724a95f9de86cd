"""Verbs of a few lines, and options that single audit verbs have beside the parameters of their audit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from evenhand.audits.declare import Audit, find
from evenhand.cli.audit import (
    add_audit,
    add_engine,
    add_option,
    audit_of,
    bind,
    call,
    dest,
    engine_of,
    flag,
    in_flags,
    read,
    reading,
    source,
    typed_parameters,
)
from evenhand.cli.options import Delivery, add_no_progress, add_output, deliver, finish, inputs
from evenhand.errors import EvenhandError


def add_power(parser: argparse.ArgumentParser) -> None:
    """Add `--power` to experiment, which is `--arm none`: a power analysis on a log without a change."""
    group = parser.add_mutually_exclusive_group(required=True)
    arm = parser._option_string_actions["--arm"]  # noqa: SLF001  (no public way to find an option)
    arm.required = False
    group._group_actions.append(arm)  # noqa: SLF001
    group.add_argument(
        "--power", dest=dest("arm"), action="store_const", const=["none"], default=argparse.SUPPRESS,
        help="plan a test from a log without a change: the smallest difference detected with 80%% power",
    )  # fmt: skip


def add_counterfactual(parser: argparse.ArgumentParser) -> None:
    text = "then reallocate the slots, as evenhand counterfactual does"
    parser.add_argument("--counterfactual", action="store_true", help=text)
    add_reallocation(parser)


def add_reallocation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reallocation of slots")
    group.add_argument("--folds", type=int, default=2, help="number of cross-fitting folds (default: 2)")
    text = "how far below the threshold a candidate may score: one bin width, or any distance (none) (default: bin)"
    group.add_argument("--window", choices=("bin", "none"), default="bin", help=text)
    text = (
        "compare with predictions that ignore the group (recalibrated), or with the slots as they were (default: none)"
    )
    group.add_argument("--baseline", choices=("recalibrated", "none"), default="none", help=text)
    text = "draws for the range expected by chance (default: 200 for each claim, at most 5,000)"
    group.add_argument("--null-draws", type=int, default=None, help=text)
    group.add_argument("--seed", type=int, default=None, help="seed of folds and draws (default: drawn and recorded)")


def reallocate(result: Any, args: argparse.Namespace) -> Any:
    window, baseline = (None if word == "none" else word for word in (args.window, args.baseline))
    return result.counterfactual(
        folds=args.folds, window=window, baseline=baseline, null_draws=args.null_draws, rng=args.seed
    )


def add_serving_files(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("files for serving")
    group.add_argument("--boosts", metavar="FILE", help="write a boost for each provider, to join in a serving system")
    group.add_argument("--rankings", metavar="FILE", help="write new lists for all requests")
    group.add_argument("--take", type=float, metavar="X", help="strength of these files (default: the highest)")
    text = "make new lists by drawing from the policy, or by adding boosts to scores (default: policy)"
    group.add_argument("--by-means", choices=("policy", "boosts"), default="policy", help=text)
    parser.set_defaults(written=("boosts", "rankings"))


def write_serving_files(result: Any, args: argparse.Namespace) -> Any:
    from evenhand.report.files import write_table

    if args.take is not None and not (args.boosts or args.rankings):
        raise EvenhandError("--take is the strength of the files to write. Add --boosts FILE or --rankings FILE.")
    strength = args.take
    if strength is None:
        strength = max(s for s in result.findings.columns["strength"] if s is not None)
    if args.boosts:
        write_table(args.boosts, result.boosts(strength))
    if args.rankings:
        write_table(args.rankings, result.rankings(strength, by_means=args.by_means))
    return result


def add_movers(parser: argparse.ArgumentParser) -> None:
    text = "write the units that the change goes with most: unit, before, after, effect (their number: --top)"
    parser.add_argument("--movers", metavar="FILE", help=text)
    parser.set_defaults(written=("movers",))


def write_movers(result: Any, args: argparse.Namespace) -> Any:
    from evenhand.report.files import write_table

    if args.movers:
        write_table(args.movers, result.movers)
    return result


def keep(result: Any, _: argparse.Namespace) -> Any:
    return result


def add_counterfactual_verb(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.outcome.remedies import CHARTS

    add_audit(parser, audit_of("outcome-test"))
    add_reallocation(parser)
    add_output(parser, CHARTS)


def run_counterfactual(args: argparse.Namespace) -> int:
    audit = audit_of("outcome-test")
    with reading(audit, args):
        result = reallocate(call(audit, args), args)
    return finish(result, args)


def add_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.parquet", help="history, as --history writes it")
    parser.add_argument(
        "--alarm", metavar="RATE", nargs="?", const=0.05, type=float,
        help="show only the alarms, and exit with code 1 while one stands; RATE is the chance that a stable series raises a false "
        "alarm in a year (default: 0.05)",
    )  # fmt: skip
    add_output(parser, ["trend"], gates=False)


def run_history(args: argparse.Namespace) -> int:
    from evenhand.history.histories import RATE, history
    from evenhand.results import Result

    if args.history or args.check:
        raise EvenhandError("--history and --check only work with an audit. Leave them out.")
    stored = history(args.file)
    rate = RATE if args.alarm is None else args.alarm
    if args.format in ("openmetrics", "grafana") and not args.sentences:
        return deliver([Delivery(latest.audit, Result(latest), []) for latest in stored.latest()], args)
    if args.alarm is None:
        return finish(stored.trend(rate), args)
    alarms = stored.alarms(rate)
    return max(finish(alarms, args), int(alarms.standing > 0))


def _reranker() -> Audit:
    from evenhand.audits import rerank  # noqa: F401  (declares it)
    from evenhand.audits.declare import TOOLS

    return TOOLS["rerank"]


def add_rerank(parser: argparse.ArgumentParser) -> None:
    add_audit(parser, _reranker())
    group = parser.add_argument_group("output")
    text = "write the lists to FILE instead of standard output"
    group.add_argument("--output", dest="lists", metavar="FILE", help=text)
    add_no_progress(group)
    parser.set_defaults(written=("lists",))


def run_rerank(args: argparse.Namespace) -> int:
    from evenhand.cli.outputs import write_table_or_print
    from evenhand.report.files import refuse_unwritable

    tool = _reranker()
    refuse_unwritable(filter(None, [args.lists]), inputs(args))
    with reading(tool, args):
        lists = call(tool, args)
    write_table_or_print(lists, args.lists)
    return 0


def add_sensitivity(parser: argparse.ArgumentParser) -> None:
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


def run_sensitivity(args: argparse.Namespace) -> int:
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


SQL_VERBS = ("inequality", "sources", "exposure", "outcome-test")


def add_sql(parser: argparse.ArgumentParser) -> None:
    from evenhand.audits.queries import DIALECTS

    verbs = parser.add_subparsers(dest="audited", required=True, metavar="VERB", title="verbs")
    repeated: dict[str, Any] = {"action": "append", "default": []}
    for verb in SQL_VERBS:
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


def run_sql(args: argparse.Namespace) -> int:
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


def add_conformance(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "run"), help="show the vectors and laws, or score a tool with them")
    text = "names of metrics and options of the kit, such as --tool"
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help=text)


def run_conformance(args: argparse.Namespace) -> int:
    try:
        from evenhand_conformance.command import main
    except ModuleNotFoundError as error:
        raise EvenhandError(
            "The conformance kit is a package of its own, and it is not installed. "
            "Install it from a copy of the repository: pip install ./conformance."
        ) from error
    return main([args.action, *args.words], "evenhand conformance")


Add = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]
After = Callable[[Any, argparse.Namespace], Any]
EXTRAS: dict[str, tuple[Add, After]] = {
    "experiment": (add_power, keep),
    "explain": (add_movers, write_movers),
    "outcome-test": (
        add_counterfactual,
        lambda result, args: reallocate(result, args) if args.counterfactual else result,
    ),
    "rebalance": (add_serving_files, write_serving_files),
}
"""For each audit verb with more options than its audit: what adds them, and what is done with the result."""
SMALL: dict[str, tuple[Add, Run]] = {
    "conformance": (add_conformance, run_conformance),
    "counterfactual": (add_counterfactual_verb, run_counterfactual),
    "history": (add_history, run_history),
    "rerank": (add_rerank, run_rerank),
    "sensitivity": (add_sensitivity, run_sensitivity),
    "sql": (add_sql, run_sql),
}
"""For each verb that has no module of its own: what adds its options, and what runs it."""

"""Results as history, files, standard output and exit code."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenhand.cli import streams
from evenhand.cli.options import FORMAT_OF_SUFFIX, Delivery, chart_file
from evenhand.errors import EvenhandError, printable
from evenhand.gates import Gate, Subject, check_all, junit, summary
from evenhand.history.histories import day, history
from evenhand.report.files import (
    SPREADSHEET,
    refuse_ending,
    table_bytes,
    workbook_bytes,
    write_table,
    write_whole,
)
from evenhand.results import load

MAX_SENTENCES = 10  # that --sentences prints of an audit that has key sentences, where it could print a hundred


class Outputs:
    """Everything that is made of results; nothing is written before all of it is made."""

    def __init__(self, deliveries: Sequence[Delivery], args: argparse.Namespace) -> None:
        self.args = args
        self.at = None if args.at is None else day(args.at)
        self.deliveries: list[Delivery] = []
        subjects = []
        for delivery in deliveries:
            result, baselines = delivery.result, [load(path).findings for path in delivery.baseline]
            findings = result.findings
            if self.at is not None:
                findings = replace(findings, provenance={**findings.provenance, "at": self.at.isoformat()})
                result = replace(result, findings=findings)
            self.deliveries.append(replace(delivery, result=result))
            subjects.append(Subject(findings, delivery.check, baselines, delivery.inconclusive))
        self.checks = check_all(subjects, adjust=None if any(d.adjust == "none" for d in deliveries) else "holm")

    def append_history(self) -> None:
        if self.args.history is None:
            return
        add_to_history([(delivery.result, self.at or "") for delivery in self.deliveries], self.args)

    def writers(self) -> list[Callable[[], Any]]:
        """One function per file; errors in a result are raised here, before any of them writes."""
        args = self.args
        if (args.html or args.plot) and len(self.deliveries) > 1:
            raise EvenhandError(
                "--html and --plot are for one audit, and the plan has several. Give each its outputs in the plan."
            )
        outputs = [path for delivery in self.deliveries for path in delivery.outputs]
        if args.profile and not (args.html or any(path.endswith(".html") for path in outputs)):
            raise EvenhandError("--profile is the template of a report. Add --html FILE.")
        writers: list[Callable[[], Any]] = []
        if args.plot or any(delivery.plots for delivery in self.deliveries):
            from evenhand.report.charts import (
                registry as charts,
            )  # Altair is slow to load, and most commands draw nothing
        for delivery in self.deliveries:
            for kind, path in map(chart_file, [*args.plot, *delivery.plots]):
                writers.append(functools.partial(charts.save, delivery.result.plot(kind), path))
            paths = [*delivery.outputs, *filter(None, [args.html])]
            writers += [self._writer(delivery.result, path, args.profile) for path in paths]
        return writers

    @staticmethod
    def _writer(result: Any, path: str, profile: str | None) -> Callable[[], Any]:
        suffix = Path(path).suffix.lower()
        if suffix == ".html":
            return functools.partial(result.report, path, profile=profile)
        if suffix == SPREADSHEET:
            refuse_ending(path)
            return functools.partial(write_whole, path, workbook_bytes(_sheets(result, "")))
        if suffix not in FORMAT_OF_SUFFIX:
            suffixes = ", ".join([".html", SPREADSHEET, *FORMAT_OF_SUFFIX])
            raise EvenhandError(f"outputs={path!r} has an unknown file ending. Use one of: {suffixes}.")
        return functools.partial(write_whole, path, result.to_text(FORMAT_OF_SUFFIX[suffix]))

    @property
    def gates(self) -> list[Gate]:
        day = f" {self.at}" if self.at else ""
        pairs = zip(self.deliveries, self.checks, strict=True)
        return [Gate(f"{delivery.name}{day}", delivery.result.findings, checks) for delivery, checks in pairs]

    def answer(self) -> str:
        """The text for standard output, or for --output."""
        args = self.args
        results = [delivery.result for delivery in self.deliveries]
        if len(results) == 1:
            return _render(results[0], args)
        if args.format in ("openmetrics", "grafana") and not args.sentences:
            from evenhand.report.table import dashboard, open_metrics

            export = open_metrics if args.format == "openmetrics" else dashboard
            return export([result.findings for result in results])
        if args.format in ("csv", "tsv", "json") and not args.sentences:
            raise EvenhandError(
                f"--format {args.format} is for one table, and the plan has several audits. Give each its outputs in the plan."
            )
        return "\n".join(_render(result, args) for result in results)

    def workbook(self) -> bytes:
        """The answer as a spreadsheet: for each result a sheet of its table and one of its sentences."""
        is_single = len(self.deliveries) == 1
        sheets = [
            _sheets(delivery.result, "" if is_single else f"{i} {delivery.name} ")
            for i, delivery in enumerate(self.deliveries, 1)
        ]
        return workbook_bytes({name: columns for result in sheets for name, columns in result.items()})

    def print_checks(self) -> int:
        lines = [str(checks) for checks in self.checks if checks.checks]
        if lines:
            print(streams.coloured_checks("\n".join(lines), sys.stderr), file=sys.stderr)
        for delivery, checks in zip(self.deliveries, self.checks, strict=True):
            if doubt := checks.doubt(delivery.inconclusive):
                text = doubt.replace("inconclusive='pass' or 'fail'", "--inconclusive pass or fail")
                print(f"evenhand: {text}", file=sys.stderr)
        return 0 if all(checks.passed for checks in self.checks) else 1


def add_to_history(results: Sequence[tuple[Any, Any]], args: argparse.Namespace) -> None:
    try:
        history(args.history).append_all(results, replace=args.replace, window=args.days)
    except EvenhandError as error:
        raise EvenhandError(str(error).replace("Pass replace=True", "Add --replace")) from error


def write_build_files(gates: Sequence[Gate], args: argparse.Namespace) -> None:
    if args.junit:
        write_whole(args.junit, junit(gates))
    if args.summary:
        # GitHub has one file for all commands of a build step.
        shared = os.environ.get("GITHUB_STEP_SUMMARY") or os.devnull
        appends = os.path.realpath(args.summary) == os.path.realpath(shared) and os.path.isfile(args.summary)
        earlier = Path(args.summary).read_text(encoding="utf-8") if appends else ""
        write_whole(args.summary, earlier + summary(gates))


def in_sentences(result: Any) -> list[str]:
    """The findings as sentences: all of them, or the ten that matter if the audit knows which."""
    from evenhand.report.words.sentences import CAUTION, writer_for

    every = list(dict.fromkeys(result.sentences()))
    first = writer_for(result.findings).key_sentences(result.findings)
    if len(every) <= MAX_SENTENCES or not first:
        return every
    cautions = [sentence for sentence in every if sentence.startswith(CAUTION)]
    shown = [sentence for sentence in dict.fromkeys([*first, *every]) if sentence not in cautions]
    rest = len(shown) - MAX_SENTENCES
    more = [f"{rest:,} more: see the table (without --sentences) or a report (--html)."] if rest > 0 else []
    return [*shown[:MAX_SENTENCES], *more, *cautions]


def _sheets(result: Any, prefix: str) -> dict[str, Mapping[str, Sequence[Any]]]:
    return {f"{prefix}table": result.findings.columns, f"{prefix}sentences": {"sentence": in_sentences(result)}}


def _render(result: Any, args: argparse.Namespace) -> str:
    if getattr(args, "systems", None):
        from evenhand.audits.compare import compare

        compared: Any = compare(result, rng=result.provenance["seed"])
        return str(compared.systems(args.systems))
    if args.sentences:
        return printable("".join(f"{sentence}\n" for sentence in in_sentences(result)))
    return str(result.to_text(args.format, raw=args.raw))


def write_table_or_print(frame: Any, path: str | None) -> None:
    if path:
        write_table(path, frame)
        print(f"wrote {path}", file=sys.stderr)
    else:
        sys.stdout.write(table_bytes(frame, ".csv").decode())

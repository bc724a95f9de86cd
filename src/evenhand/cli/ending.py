"""What becomes of the answers: the history, files, standard output, and the exit code."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenhand.cli import colour
from evenhand.cli.options import ENDINGS, Asked, chart_file
from evenhand.errors import EvenhandError, printable
from evenhand.history.histories import day, history
from evenhand.report.checks import Checks, check
from evenhand.report.files import table_bytes, write_table, write_whole
from evenhand.report.gates import Gate, junit, summary
from evenhand.results import load

WORDS = "inconclusive='pass' or 'fail'"


class Ending:
    """The answers with all that is made of them; nothing is written before everything is made."""

    def __init__(self, asked: Sequence[Asked], args: argparse.Namespace) -> None:
        self.args = args
        self.at = None if args.at is None else day(args.at)
        self.asked = [replace(one, result=self._dated(one.result)) for one in asked]
        self.checks = [self._check(one) for one in self.asked]

    def _dated(self, result: Any) -> Any:
        if self.at is None:
            return result
        facts = {**result.findings.provenance, "at": self.at.isoformat()}
        return replace(result, findings=replace(result.findings, provenance=facts))

    def _check(self, one: Asked) -> Checks:
        if not one.check:
            return Checks(())
        held = [load(path).findings for path in one.baseline]
        return check(one.result.findings, one.check, baseline=held, inconclusive=one.inconclusive)

    def keep(self) -> None:
        """Add the numbers to the history."""
        if self.args.history is None:
            return
        for one in self.asked:
            try:
                history(self.args.history).append(one.result, at=self.at or "", replace=self.args.replace)
            except EvenhandError as error:
                raise EvenhandError(str(error).replace("Pass replace=True", "Add --replace")) from error

    def files(self) -> list[Callable[[], Any]]:
        """Functions that write a file each; what can go wrong has gone wrong before they are called."""
        args = self.args
        if (args.html or args.plot) and len(self.asked) > 1:
            raise EvenhandError(
                "--html and --plot take one audit, and the plan asks several. Give each its outputs in the plan."
            )
        made: list[Callable[[], Any]] = []
        for one in self.asked:
            for kind, path in map(chart_file, [*args.plot, *one.plots]):
                made.append(functools.partial(_save, one.result.plot(kind), path))
            made += [self._file(one, path) for path in [*one.outputs, *filter(None, [args.html])]]
        return made

    @property
    def gates(self) -> list[Gate]:
        """The checks of every answer; a day is part of its name."""
        day = f" {self.at}" if self.at else ""
        both = zip(self.asked, self.checks, strict=True)
        return [Gate(f"{one.name}{day}", one.result.findings, checks) for one, checks in both]

    def _file(self, one: Asked, path: str) -> Callable[[], Any]:
        ending = Path(path).suffix.lower()
        if ending == ".html":
            return functools.partial(one.result.report, path)
        if ending not in ENDINGS:
            known = ", ".join([".html", *ENDINGS])
            raise EvenhandError(f"outputs={path!r} has an ending that is not known. End it in one of: {known}.")
        return functools.partial(write_whole, path, one.result.to_text(ENDINGS[ending]))

    def answer(self) -> str:
        """What goes to standard output, or into --output."""
        args = self.args
        results = [one.result for one in self.asked]
        if len(results) == 1:
            return _told(results[0], args)
        if args.format in ("openmetrics", "grafana") and not args.sentences:
            from evenhand.report import exporters

            export = exporters.open_metrics if args.format == "openmetrics" else exporters.dashboard
            return export([result.findings for result in results])
        if args.format in ("csv", "tsv", "json") and not args.sentences:
            raise EvenhandError(
                f"--format {args.format} holds one table, and the plan asks several audits. Give each its outputs in the plan."
            )
        return "\n".join(_told(result, args) for result in results)

    def verdict(self) -> int:
        """Say how the checks went; 1 where one failed."""
        told = [str(checks) for checks in self.checks if checks.checks]
        if told:
            print(colour.checks("\n".join(told), sys.stderr), file=sys.stderr)
        for one, checks in zip(self.asked, self.checks, strict=True):
            if doubt := checks.doubt(one.inconclusive):
                print(f"evenhand: {doubt.replace(WORDS, '--inconclusive pass or fail')}", file=sys.stderr)
        return 0 if all(checks.passed for checks in self.checks) else 1


def tell_build(gates: Sequence[Gate], args: argparse.Namespace) -> None:
    """Write the checks for those who read them in a build."""
    if args.junit:
        write_whole(args.junit, junit(gates))
    if args.summary:
        write_whole(args.summary, _before(args.summary) + summary(gates))


MOST_SAID = 10
"""Sentences of an audit that has a summary of its own, where it could say a hundred."""


def in_sentences(result: Any) -> list[str]:
    """The findings in words: all of them, or the ten that matter where the audit knows which do."""
    from evenhand.report.words.sentences import teller

    every = list(dict.fromkeys(result.sentences()))
    first = teller(result.findings).headlines(result.findings)
    if len(every) <= MOST_SAID or not first:
        return every
    shown = list(dict.fromkeys([*first, *every]))
    rest = len(shown) - MOST_SAID
    return [*shown[:MOST_SAID], f"{rest:,} more: see the table (without --sentences) or a report (--html)."]


def _told(result: Any, args: argparse.Namespace) -> str:
    if getattr(args, "systems", None):
        from evenhand.audits.compare import compare

        compared: Any = compare(result, rng=result.provenance["seed"])
        return str(compared.systems(args.systems))
    said: str = (
        printable("".join(s + "\n" for s in in_sentences(result)))
        if args.sentences
        else result.to_text(args.format, raw=args.raw)
    )
    return said


def _save(chart: Any, path: str) -> None:
    from evenhand.report.charts import drawn as charts  # Altair is slow to load, and most commands draw nothing

    charts.save(chart, path)


def _before(path: str) -> str:
    """What the step of a build has told already: its summary is one file for all commands of the step."""
    if os.path.realpath(path) != os.path.realpath(
        os.environ.get("GITHUB_STEP_SUMMARY") or os.devnull
    ) or not os.path.isfile(path):
        return ""
    return Path(path).read_text(encoding="utf-8")


def hand_over(frame: Any, path: str | None) -> None:
    """A table that is the answer itself: written to the file, or CSV on standard output."""
    if path:
        write_table(path, frame)
        print(f"wrote {path}", file=sys.stderr)
    else:
        sys.stdout.write(table_bytes(frame, ".csv").decode())

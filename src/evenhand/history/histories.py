"""Results kept day by day in one file: what they were, what changed, and when to look."""

from __future__ import annotations

import math
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.cards import is_whole
from evenhand.errors import EvenhandError
from evenhand.findings import COLUMNS, Findings, hash_of
from evenhand.history import store
from evenhand.intervals.alarms import Alarm, Watch, trend, watch
from evenhand.report.words.history import Line, alarm_claims, lines
from evenhand.results import Result

RATE = 0.05


def history(path: str | Path) -> History:
    """The history in this file; the file comes into being with the first result.

    >>> import evenhand as eh, polars as pl, tempfile, pathlib
    >>> log = pl.DataFrame({"author": ["a", "b", "c", "d"], "views": [0, 0, 0, 10]})
    >>> result = eh.inequality(log, unit="author", amount="views", population=None, metrics="gini", rng=1)
    >>> kept = eh.history(pathlib.Path(tempfile.mkdtemp()) / "reach.parquet")
    >>> kept.append(result, at="2026-11-16").frame["estimate"].to_list()
    [0.75]
    """
    if not isinstance(path, (str, Path)):
        raise EvenhandError(f"path={path!r} is not a path. Pass the path of a Parquet file, which need not exist yet.")
    try:
        folder = stat.S_ISDIR(Path(path).stat().st_mode)
    except FileNotFoundError:
        folder = False
    except (OSError, ValueError) as error:  # a name that is too long, no text, or holds a NUL
        why = getattr(error, "strerror", None) or error
        raise EvenhandError(f"{str(path)[:80]!r} is no path here ({why}). Pass the path of a Parquet file.") from error
    if folder:
        raise EvenhandError(f"{str(path)!r} is a folder. Pass the path of a Parquet file, which need not exist yet.")
    return History(Path(path))


@dataclass(frozen=True, slots=True)
class History:
    """Results of the same plans on many days, one row per day, plan, slice, metric and group.

    `path` is a Parquet file that any tool can read. Rows are added whole or not at all, by one writer at a time.
    """

    path: Path

    def append(self, result: Result, *, at: str | date, replace: bool = False, window: int = 1) -> History:
        """Add a result for a day; `window` is how many days its table covers, up to that day.

        The same numbers again change nothing. Other numbers for the same plan and day are an error, unless `replace`.
        Results of a changed plan stand beside the old ones: the column `plan` tells them apart.
        """
        return self.append_all([(result, at)], replace=replace, window=window)

    def append_all(
        self, results: Sequence[tuple[Result, str | date]], *, replace: bool = False, window: int = 1
    ) -> History:
        """Add results, each with its day: all of them, or none where one is refused."""
        if not is_whole(window, 1):
            raise EvenhandError(f"window={window!r} is no number of days. Pass a whole number such as 7.")
        entries = [store.Entry(_kept(result), hash_of(result.findings), day(at), int(window)) for result, at in results]
        store.add(self.path, entries, replace=replace)
        return self

    def plans_and_days(self) -> set[tuple[str, date]]:
        stored = store.read(self.path)
        return set() if stored is None else set(stored.rows.select("plan", "at").iter_rows())

    @property
    def frame(self) -> Any:
        """All rows, by day, as a Polars frame."""
        return self._stored().rows.sort("at", maintain_order=True)

    def latest(self) -> list[Findings]:
        """The rows of each plan's last day as findings of their audit, for export."""
        stored = self._stored()
        findings = []
        for plan in stored.rows["plan"].unique(maintain_order=True):
            days = stored.rows.filter(stored.rows["plan"] == plan)["at"]
            rows = stored.rows.filter(store.is_of_day(plan, max(days)))
            about = stored.plans.get(plan, {})
            slices = tuple(s for s in about.get("slices", []) if s in rows.columns)
            columns = store.columns(rows, [*slices, *COLUMNS, *store.extra_columns(rows, slices)])
            audit = str(about.get("audit") or rows["audit"][0])
            question, words = str(about.get("question") or audit), about.get("words") or {}
            facts = {"plan_hash": plan, "at": max(days).isoformat(), "plan": about.get("plan") or {}}
            findings.append(Findings(audit, question, slices, columns, {}, words, facts))
        return findings

    def plot(self, kind: str | None = None, *, rate: float = RATE) -> Any:
        """Altair chart of estimates and intervals over time, one panel per slice, alarms marked."""
        return self.trend(rate).plot(kind)

    def report(self, path: str | Path, *, rate: float = RATE) -> Path:
        """Write one self-contained page: changes in sentences, lines, and the alarm's assumptions."""
        return self.trend(rate).report(path)

    def alarms(self, rate: float = RATE) -> Alarms:
        """One row per lasting change: the days it was detected and began, level before and after.

        `rate` is the chance that a stable quantity gives a false alarm in a year of daily looks. Each quantity is watched by
        itself, on levels adjusted for weekdays, and anew after an alarm; docs/history.md has what this assumes.
        """
        trend = self.trend(rate)
        raised, facts = trend.findings.curves["alarms"], trend.findings.provenance
        columns = {name: column for name, column in raised.items() if name not in ("line", "label")}
        slices = tuple(name for name in columns if name not in ALARM)
        findings = Findings(
            "alarms", "When did it change?", slices, columns, trend.findings.curves, {}, facts, claims=trend.claims
        )
        return Alarms(findings, trend.backend, trend=trend)

    def trend(self, rate: float = RATE) -> Result:
        """All rows, the newest first, with the alarms: what the page and the charts are made from."""
        if not (isinstance(rate, float) and 0 < rate < 1):
            raise EvenhandError(
                f"rate={rate!r} is no chance of a false alarm. Pass a number between 0 and 1, such as 0.05."
            )
        stored = self._stored()
        findings = _findings(stored)
        drawn = lines(findings)
        windows = {plan: int(about.get("window") or 1) for plan, about in stored.plans.items()}
        days = sorted({day for line in drawn for day in line.at})
        seen = _watched(drawn, days, windows, rate)
        ready = int(np.isfinite(seen.evidence).any(axis=1).sum())
        facts: dict[str, Any] = {"rate": rate, "quantities": len(drawn), "watched": ready}
        # Up to 0.5 the false-alarm rate was checked with a year of days; more is hardly ever estimated there than 0.6.
        correlated = np.flatnonzero(seen.autocorrelation > 0.6)
        if len(correlated):
            facts["closely_related_days"] = [f"{drawn[i].metric} {drawn[i].label}".strip() for i in correlated]
        thinned = [f"{line.metric} {line.label}".strip() for line in drawn if windows.get(line.plan, 1) > 1]
        facts |= {"thinned": thinned} if thinned else {}
        level = float(findings.provenance.get("level", 0.95))
        curves = {**findings.curves, "alarms": _alarm_columns(drawn, days, seen), "trends": _trends(drawn, level)}
        watched = replace(findings, curves=curves, provenance={**findings.provenance, **facts})
        return Result(replace(watched, claims=alarm_claims(watched)))

    def _stored(self) -> store.Stored:
        stored = store.read(self.path)
        if stored is None:
            raise EvenhandError(f"{str(self.path)!r} does not exist. Append a result first.")
        return stored


@dataclass(frozen=True, repr=False)
class Alarms(Result):
    """Alarms as rows; charts and the page are those of the whole history, with the alarms in it."""

    trend: Result = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def standing(self) -> int:
        return sum(until is None for until in self.findings.columns["until"])

    def plot(self, kind: str | None = None, *, width: float | None = None, height: float | None = None) -> Any:
        return self.trend.plot(kind, width=width, height=height)

    def report(self, path: str | Path, *, profile: str | Path | None = None) -> Path:
        return self.trend.report(path, profile=profile)


EACH_DAY = (
    "Each interval is for its own day, as the audit of that day has it: how far that day's number would move had others been "
    "drawn. Whether a line has moved is for the alarms to say, not for intervals of two days that do not meet."
)

ALARM = ("metric", "group", "at", "since", "before", "after", "deviations", "plan", "until", "line", "label")
"""Columns of an alarm beside those of its slice."""


def _kept(result: Any) -> Findings:
    """What a history holds of a result; what is no result, or holds no estimates, is refused."""
    if not isinstance(result, Result):
        raise EvenhandError(f"{type(result).__name__} is no result. Pass what an audit or eh.read.result gave.")
    if "estimate" not in result.findings.columns:
        raise EvenhandError(
            f"A {result.findings.audit} result holds no estimates. Keep the result of an audit with metrics."
        )
    return result.findings


def day(at: Any) -> date:
    """The day of a look, from a date or its text.

    >>> day("2026-11-16")
    datetime.date(2026, 11, 16)
    """
    try:
        moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError as error:
        raise EvenhandError(f"at={at!r} is not a date. Write it as 2026-11-16.") from error
    if isinstance(moment, datetime):
        if moment.time() != time():
            raise EvenhandError(f"at={at!r} has a time of day, and a history holds one look a day. Pass the date.")
        return moment.date()
    if not isinstance(moment, date):
        raise EvenhandError(f"at={at!r} is not a date. Write it as 2026-11-16.")
    return moment


def _findings(stored: store.Stored) -> Findings:
    about_plans = list(stored.plans.values())
    rows = stored.rows.sort("at", descending=True, maintain_order=True)
    named = dict.fromkeys(name for about in about_plans for name in about["slices"])
    slices = [name for name in named if name in rows.columns]
    names = ["at", *slices, *COLUMNS, *store.extra_columns(rows, slices), "plan", "audit"]
    levels = {float(about.get("level") or 0.95) for about in about_plans}
    facts = ({"level": levels.pop()} if len(levels) == 1 else {}) | {"interval_for": EACH_DAY}
    plans = {
        "plan": list(stored.plans), "audit": [about["audit"] for about in about_plans],
        "asked": [about.get("plan") or {} for about in about_plans],
    }  # fmt: skip
    return Findings(
        "history", "What changed, and when?", ("at", *slices), store.columns(rows, names),
        {"plans": plans}, {}, facts, ("trend",),
    )  # fmt: skip


def _watched(drawn: Sequence[Line], days: Sequence[date], windows: Mapping[str, int], rate: float) -> Watch:
    """Watch every line on the looks whose tables do not overlap; weekdays count only where looks are days apart."""
    column = {day: i for i, day in enumerate(days)}
    levels = np.full((len(drawn), len(days)), math.nan)
    is_daily = np.zeros(len(drawn), dtype=bool)
    for i, line in enumerate(drawn):
        last = date.min
        gaps = np.diff([day.toordinal() for day in line.at])
        is_daily[i] = not len(gaps) or np.median(gaps) < 7
        for day, estimate in zip(line.at, line.estimate, strict=True):
            if (day - last).days >= windows.get(line.plan, 1) and not math.isnan(estimate):
                levels[i, column[day]], last = estimate, day
        is_daily[i] &= (
            windows.get(line.plan, 1) < 7
        )  # fewer looks than days of a week: no weekday has enough of its own
    evidence, autocorrelation = np.full(levels.shape, math.nan), np.full(len(drawn), math.nan)
    alarms: list[Alarm] = []
    weekdays = np.array([day.weekday() for day in days], dtype=np.int64)
    for which, days_of_week in ((is_daily, weekdays), (~is_daily, 0 * weekdays)):
        rows = np.flatnonzero(which)
        seen = watch(levels[rows], days_of_week, rate=rate)
        evidence[rows], autocorrelation[rows] = seen.evidence, seen.autocorrelation
        alarms += [replace(alarm, series=int(rows[alarm.series])) for alarm in seen.alarms]
    return Watch(tuple(alarms), evidence, autocorrelation)


def _trends(drawn: Sequence[Line], level: float) -> dict[str, list[Any]]:
    """The trend of every line that has looks enough, as columns: change a year, and the ends of the fitted line."""
    rows = []
    for i, line in enumerate(drawn):
        if fitted := trend([day.toordinal() for day in line.at], line.estimate, level):
            ends = [line.defined[0][0], line.defined[-1][0], fitted.first, fitted.last]
            rows.append([i, line.metric, line.label, fitted.slope, fitted.low, fitted.high, *ends])
    names = ("line", "metric", "label", "slope", "low", "high", "first_day", "last_day", "first", "last")
    return {name: [cells[i] for cells in rows] for i, name in enumerate(names)}


def _alarm_columns(drawn: Sequence[Line], days: Sequence[date], seen: Watch) -> dict[str, list[Any]]:
    slices = dict.fromkeys(name for line in drawn for name in line.labels)
    rows = []
    for alarm in sorted(seen.alarms, key=lambda alarm: (-alarm.look, alarm.series)):
        line = drawn[alarm.series]
        cells = [
            line.metric, line.group, days[alarm.look], days[alarm.since], alarm.before, alarm.after, alarm.deviations,
            line.plan, None if alarm.until is None else days[alarm.until], alarm.series, line.label,
        ]  # fmt: skip
        rows.append([*(line.labels.get(name) for name in slices), *cells])
    return {name: [cells[i] for cells in rows] for i, name in enumerate([*slices, *ALARM])}

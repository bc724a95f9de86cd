"""Results kept day by day in one Parquet file, whole at every moment: what they were, what changed, and when to look.

Rows are added under a lock, in a new file that takes the old one's place by a rename: a reader, a second writer or a kill at any
moment meets either all rows of an append or none. Columns are only ever added, and keep the type that they began with. The file
holds a hash of its own bytes, so that a damaged one is refused before anything reads numbers from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from io import BytesIO
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.cards import is_whole
from evenhand.errors import EvenhandError
from evenhand.findings import COLUMNS, NUMBERS, Findings, hash_of, label, plain
from evenhand.intervals.alarms import Alarm, Watch, trend, watch
from evenhand.report.files import write_whole
from evenhand.report.words.history import HISTORY_COLUMNS, Line, alarm_claims, lines
from evenhand.results import Result

if TYPE_CHECKING:
    import polars as pl

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
        entries = [Entry(_kept(result), hash_of(result.findings), day(at), int(window)) for result, at in results]
        add_rows(self.path, entries, replace=replace)
        return self

    def plans_and_days(self) -> set[tuple[str, date]]:
        stored = read_rows(self.path)
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
            rows = stored.rows.filter(_is_of_day(plan, max(days)))
            about = stored.plans.get(plan, {})
            slices = tuple(s for s in about.get("slices", []) if s in rows.columns)
            columns = _columns(rows, [*slices, *COLUMNS, *_extra_columns(rows, slices)])
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

    def _stored(self) -> Stored:
        stored = read_rows(self.path)
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


def _findings(stored: Stored) -> Findings:
    about_plans = list(stored.plans.values())
    rows = stored.rows.sort("at", descending=True, maintain_order=True)
    named = dict.fromkeys(name for about in about_plans for name in about["slices"])
    slices = [name for name in named if name in rows.columns]
    names = ["at", *slices, *COLUMNS, *_extra_columns(rows, slices), "plan", "audit"]
    levels = {float(about.get("level") or 0.95) for about in about_plans}
    facts = ({"level": levels.pop()} if len(levels) == 1 else {}) | {"interval_for": EACH_DAY}
    plans = {
        "plan": list(stored.plans), "audit": [about["audit"] for about in about_plans],
        "asked": [about.get("plan") or {} for about in about_plans],
    }  # fmt: skip
    return Findings(
        "history", "What changed, and when?", ("at", *slices), _columns(rows, names),
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


@contextlib.contextmanager
def only_writer(target: Path, patience: float = 60.0) -> Iterator[None]:
    """Wait up to `patience` seconds until nobody else writes this file, then keep others out.

    The lock is on a hidden neighbour, since the file itself is replaced. The neighbour is removed by whoever holds it: one who
    was waiting for it then finds that its name leads elsewhere, and takes the new one.
    """
    lock_path = target.parent / f".{target.name[:60]}.lock"
    until = monotonic() + patience
    while (descriptor := _try_lock(lock_path)) is None:
        if monotonic() > until:
            raise EvenhandError(f"{str(target)!r} is being written by another process. Try again when that has ended.")
        sleep(0.02)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # where open files cannot be removed it stays, and holds nobody up
            lock_path.unlink()
        os.close(descriptor)


def _try_lock(lock_path: Path) -> int | None:
    """A descriptor that holds the lock, or nothing where somebody else does."""
    try:
        descriptor = os.open(lock_path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise EvenhandError(
            f"{str(lock_path)!r} cannot be written ({error.strerror}). Pass a path in a folder that is writable."
        ) from error
    try:
        _lock(descriptor)
        if os.path.samestat(os.fstat(descriptor), lock_path.stat()):
            return descriptor
    except (BlockingIOError, PermissionError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


COUNTS = frozenset({"units", "undefined_draws"})
ABOUT, CHECKSUM = "evenhand-plans", "evenhand-sha256"
"""Where the file keeps what is known of each plan (its words, its slices, its question), and the hash of its bytes."""

MARK = re.compile(rb"sha256 of this file with zeros here: ([0-9a-f]{64})")
ZEROS = b"0" * 64


@dataclass(frozen=True)
class Stored:
    """Rows of a history as added, and the description of each plan by its hash."""

    rows: pl.DataFrame
    plans: Mapping[str, dict[str, Any]]


def read_rows(path: Path) -> Stored | None:
    """All rows as they were added; nothing where there is no file yet."""
    import polars as pl

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvenhandError(f"{str(path)!r} cannot be read ({error.strerror}). Pass the path of a history.") from error
    mark = MARK.search(content)
    if mark is None:
        raise EvenhandError(f"{str(path)!r} is not a history. Pass a path that holds one, or none yet.")
    if mark[1].decode() != _digest(content):
        raise EvenhandError(
            f"{str(path)!r} is damaged: its bytes are not those that were written. Take it from a backup."
        )
    return Stored(pl.read_parquet(content), json.loads(pl.read_parquet_metadata(content)[ABOUT]))


def _digest(content: bytes) -> str:
    """SHA-256 of the bytes with zeros in place of the digest that they hold."""
    return hashlib.sha256(MARK.sub(lambda mark: mark[0][:-64] + ZEROS, content, count=1)).hexdigest()


def _bytes(rows: pl.DataFrame, plans: Mapping[str, Any]) -> bytes:
    out = BytesIO()
    checksum = f"sha256 of this file with zeros here: {ZEROS.decode()}"
    described = json.dumps(plans, ensure_ascii=False)
    rows.write_parquet(out, compression="zstd", metadata={ABOUT: described, CHECKSUM: checksum})
    content = out.getvalue()
    digest = _digest(content).encode()
    return MARK.sub(lambda mark: mark[0][:-64] + digest, content, count=1)


@dataclass(frozen=True, slots=True)
class Entry:
    """The rows of one result for one day; `window` is how many days its table covers."""

    findings: Findings
    plan: str
    at: date
    window: int = 1


def add_rows(path: Path, entries: Sequence[Entry], *, replace: bool) -> None:
    """Add results for their days, all of them or none.

    The same numbers again change nothing; others for the same plan and day are refused, unless they replace the old.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise EvenhandError(f"{str(path)!r} is in a folder that does not exist. Make the folder first.")
    with only_writer(target):
        stored = read_rows(target)
        rows, plans = (None, {}) if stored is None else (stored.rows, dict(stored.plans))
        has_changed = False
        for entry in entries:
            new = _rows(entry.findings, entry.plan, entry.at)
            plans[entry.plan] = {**_about(entry.findings), "window": entry.window}
            if rows is not None:
                earlier = rows.filter(_is_of_day(entry.plan, entry.at))
                if earlier.height and _same(earlier, new):
                    continue
                if earlier.height and not replace:
                    raise EvenhandError(
                        f"{str(path)!r} holds other numbers for {entry.at} and this plan. Pass replace=True to put these in their place."
                    )
                new = _appended(rows.filter(~_is_of_day(entry.plan, entry.at)), new, path)
            rows, has_changed = new, True
        if rows is not None and has_changed:
            write_whole(target, _bytes(rows, plans))


def _about(findings: Findings) -> dict[str, Any]:
    provenance = findings.provenance
    return {
        "audit": findings.audit, "question": findings.question, "slices": list(findings.slices),
        "words": dict(findings.words), "level": provenance.get("level", 0.95), "plan": plain(provenance.get("plan") or {}),
    }  # fmt: skip


def _rows(findings: Findings, plan: str, at: date) -> pl.DataFrame:
    import polars as pl

    taken = [name for name in findings.slices if name in HISTORY_COLUMNS]
    if taken:
        raise EvenhandError(f"{taken[0]!r} is also a column of every history. Rename that column of the table first.")
    columns = [
        _column(name, values, number=name not in findings.slices and _is_number(name, values))
        for name in dict.fromkeys([*findings.slices, *COLUMNS, *findings.columns])
        for values in [findings.columns.get(name, [None] * len(findings))]
    ]
    day_and_plan = (pl.lit(at, pl.Date).alias("at"), pl.lit(plan).alias("plan"), pl.lit(findings.audit).alias("audit"))
    return pl.DataFrame(columns).select(*day_and_plan, pl.all())


def _is_number(name: str, values: Sequence[Any]) -> bool:
    if name in COLUMNS:
        return name in NUMBERS or name in COUNTS
    present = [v for v in values if v is not None]
    return bool(present) and all(isinstance(plain(v), (int, float)) and not isinstance(v, bool) for v in present)


def _column(name: str, values: Sequence[Any], *, number: bool) -> pl.Series:
    """Numbers as such, missing where they are undefined; everything else is a label."""
    import polars as pl

    if number:
        return pl.Series(name, [None if v is None or v != v else float(v) for v in values], pl.Float64)
    return pl.Series(name, [None if v is None else label(v) for v in values], pl.String)


def _columns(rows: pl.DataFrame, names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of findings from rows of a history; counts, which the file holds as numbers, are whole again."""
    values = {name: rows[name].to_list() for name in names}
    whole = {name: [None if v is None else int(v) for v in values[name]] for name in COUNTS if name in values}
    return {**values, **whole}


def _extra_columns(rows: pl.DataFrame, slices: Sequence[str]) -> list[str]:
    """Columns beside those of every result in which anything stands."""
    standard = {*HISTORY_COLUMNS, *COLUMNS, *slices}
    return [name for name in rows.columns if name not in standard and rows[name].null_count() < rows.height]


def _is_of_day(plan: str, at: date) -> pl.Expr:
    import polars as pl

    return (pl.col("plan") == plan) & (pl.col("at") == at)


def _same(earlier: pl.DataFrame, rows: pl.DataFrame) -> bool:
    """Whether two tables have equal rows in any order; a column of one is null in the other."""
    names = list(dict.fromkeys([*earlier.columns, *rows.columns]))

    def sorted_rows(table: pl.DataFrame) -> list[tuple[str, ...]]:
        columns = [table[n].to_list() if n in table.columns else [None] * table.height for n in names]
        return sorted(tuple(repr(v) for v in row) for row in zip(*columns, strict=True))

    return sorted_rows(earlier) == sorted_rows(rows)


def _appended(stored: pl.DataFrame, rows: pl.DataFrame, path: Path) -> pl.DataFrame:
    """New rows below the stored ones; a column of only one side is null in the other."""
    import polars as pl

    for name, kind in stored.schema.items():
        if name not in rows.columns or rows.schema[name] == kind:
            continue
        if kind == pl.String:
            rows = rows.with_columns(_column(name, rows[name].to_list(), number=False))
        elif rows[name].null_count() == rows.height:
            rows = rows.with_columns(pl.Series(name, [None] * rows.height, kind))
        else:
            raise EvenhandError(
                f"{name!r} holds numbers in {str(path)!r} and labels here. Use another file for this history."
            )
    return pl.concat([stored, rows], how="diagonal")

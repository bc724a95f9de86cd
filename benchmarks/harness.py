"""Races: contestants take turns on the same data, several rounds, each in its own process; the medians are compared."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "out"
PEERS = ROOT / ".venv-peers" / "bin" / "python"
ROUNDS = 5


@dataclass(frozen=True)
class Contestant:
    """A way to do the work. `task` is `module:factory`; the factory prepares and returns the function that is timed.

    `times` multiplies what was measured, for contestants too slow to do all of the work (said in the table).
    """

    name: str
    task: str
    environment: str = "own"
    times: float = 1.0
    rounds: int = ROUNDS
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Race:
    """The same work on the same data. The first contestant is ours; ratios are others over ours.

    `arguments` may be a function that makes the data: it is called when the race is run, and not where it is left out.
    """

    name: str
    size: int
    arguments: dict[str, Any] | Callable[[], dict[str, Any]]
    contestants: Sequence[Contestant]
    tolerance: float = 1e-9
    target: str = ""


@dataclass
class Outcome:
    """Medians of one contestant in one race."""

    race: str
    size: int
    contestant: str
    cpu: float = math.nan
    wall: float = math.nan
    extra_mib: float = math.nan
    rounds: int = 0
    times: float = 1.0
    value: Any = None
    problem: str = ""

    @property
    def ran(self) -> bool:
        return not self.problem


class Process:
    """A contestant that prepares, tells when it is ready, and then waits for its turns."""

    def __init__(self, data: dict[str, Any], contestant: Contestant) -> None:
        python = str(PEERS) if contestant.environment == "peers" else sys.executable
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
        if contestant.environment == "peers":
            environment["PYTHONPATH"] = str(ROOT)
        self._process = subprocess.Popen(
            [python, "-W", "ignore", "-m", "benchmarks.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, cwd=ROOT, env=environment,
        )  # fmt: skip
        self._say(json.dumps({"task": contestant.task, "arguments": {**data, **contestant.arguments}}))

    def ready(self) -> Process:
        self._answer()
        return self

    def go(self) -> dict[str, Any]:
        self._say("go")
        return self._answer()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # who has gone does not answer, which is told there
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        found: dict[str, Any] = json.loads(answer) if answer else {"error": "its process ended"}
        if "error" in found:
            self.end()
            raise RuntimeError(found["error"])
        return found

    def leave(self) -> None:
        """Tell it that there are no more turns."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def end(self) -> None:
        self.leave()
        self._process.wait()


def run(race: Race, most: int = ROUNDS, say: Any = print) -> list[Outcome]:
    """All contestants, in turns, round after round, at most so many."""
    outcomes = {c.name: Outcome(race.name, race.size, c.name, times=c.times) for c in race.contestants}
    started, waiting = {}, {}
    data = race.arguments() if callable(race.arguments) else race.arguments
    for c in race.contestants:
        if c.environment == "peers" and not PEERS.exists():
            outcomes[c.name].problem = "the environment of the peers is not installed"
        else:
            started[c.name] = Process(data, c)
    for name, process in started.items():  # they prepare side by side, and run one at a time
        try:
            waiting[name] = process.ready()
        except RuntimeError as error:
            outcomes[name].problem = str(error)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in waiting}
    for turn in range(min(most, max(c.rounds for c in race.contestants))):
        for c in race.contestants:
            if c.name in waiting and turn < c.rounds:
                try:
                    found[c.name].append(waiting[c.name].go())
                except RuntimeError as error:
                    outcomes[c.name].problem = str(error)
                    waiting.pop(c.name)
    for process in waiting.values():
        process.leave()
    for process in waiting.values():
        process.end()
    for name, rounds in found.items():
        if rounds and outcomes[name].ran:
            _fill(outcomes[name], rounds)
    say(table(outcomes.values(), race.target))
    return list(outcomes.values())


def _fill(outcome: Outcome, rounds: list[dict[str, Any]]) -> None:
    for name in ("cpu", "wall"):
        setattr(outcome, name, statistics.median(r[name] for r in rounds) * outcome.times)
    memory = [r["extra_mib"] for r in rounds if r["extra_mib"] is not None]
    outcome.extra_mib = max(memory) if memory else math.nan  # later rounds find memory that the first one asked for
    outcome.rounds, outcome.value = len(rounds), rounds[-1]["value"]


def table(outcomes: Iterable[Outcome], target: str = "") -> str:
    """One line per contestant, the ratio to ours beside it."""
    listed = list(outcomes)
    ours = listed[0]
    lines = [f"\n{ours.race}, n = {ours.size:,}" + (f"   (target: {target})" if target else "")]
    head = (
        f"  {'contestant':38} {'CPU s':>10} {'wall s':>10} {'extra MiB':>10} {'CPU / ours':>11} {'memory / ours':>14}"
    )
    lines.append(head)
    for o in listed:
        if not o.ran:
            lines.append(f"  {o.contestant:38} did not run: {o.problem}")
            continue
        of_memory = o.extra_mib / ours.extra_mib if ours.extra_mib > 1 else math.nan
        note = f"  (measured x {o.times:g})" if o.times != 1 else ""
        lines.append(
            f"  {o.contestant:38} {o.cpu:10.4f} {o.wall:10.4f} {o.extra_mib:10.0f} {o.cpu / ours.cpu:11.2f} {of_memory:14.2f}{note}"
        )
    return "\n".join(lines)


def disagreements(race: Race, outcomes: Sequence[Outcome]) -> list[str]:
    """Contestants that found another value than ours."""
    ran = [o for o in outcomes if o.ran and o.value is not None]
    return [
        f"{race.name}, n = {race.size:,}: {o.contestant} found {_short(o.value)}, {ran[0].contestant} {_short(ran[0].value)}"
        for o in ran[1:]
        if not _close(ran[0].value, o.value, race.tolerance)
    ]


def _close(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_close(a, b, tolerance) for a, b in zip(one, other, strict=True))
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 90 else text[:87] + "..."


def growth(outcomes: Sequence[Outcome]) -> float:
    """Least-squares slope of log CPU seconds on log size: 1 is linear."""
    points = [(math.log(o.size), math.log(o.cpu)) for o in outcomes if o.ran and o.cpu > 0]
    if len(points) < 2:
        return math.nan
    mean_x, mean_y = (statistics.fmean(p[i] for p in points) for i in (0, 1))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)

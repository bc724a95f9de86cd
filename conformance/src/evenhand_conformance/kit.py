"""The kit: vectors and laws, the questions they ask, and the score of the answers."""

from __future__ import annotations

import difflib
import json
import math
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from evenhand_conformance import worker

Status = Literal["agrees", "differs", "fails", "absent"]


class KitError(ValueError):
    """A tool that cannot be asked, or a name that is none: one sentence for the fact, one for the remedy."""


@cache
def contents() -> dict[str, Any]:
    """The vectors and laws as they are shipped."""
    text = resources.files("evenhand_conformance").joinpath("vectors.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def metrics() -> list[str]:
    """The metrics that have vectors, by name."""
    return sorted({v["metric"] for v in contents()["vectors"]})


def tools() -> dict[str, str]:
    """Adapters that come along, by name."""
    folder = resources.files("evenhand_conformance").joinpath("tools")
    files = (Path(str(f)) for f in folder.iterdir() if f.name.endswith(".py") and not f.name.startswith("_"))
    return {f.stem.replace("_", "-"): f"{f}:adapter" for f in sorted(files)}


def checked_names(role: str, names: Sequence[str], choices: Sequence[str]) -> None:
    """Refuse a name that is not among the choices, with the nearest of them."""
    for name in names:
        if name not in choices:
            near = difflib.get_close_matches(name, choices, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "See: evenhand-conformance list."
            raise KitError(f"{role} {name!r} is not in the kit. {hint}")


@dataclass(frozen=True)
class Check:
    """One vector or law, and how the tool did on it.

    Attributes
    ----------
    expected : the value of the definition; None where undefined; for a law, the relation.
    got : the tool's value (two for a law); None where it gives none.
    reason : a reason of the adapter whose number is exactly the tool's; empty where none is.
    """

    id: str
    metric: str
    status: Status
    expected: Any = None
    got: Any = None
    raised: str = ""
    why: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Score:
    """How a tool did: on vectors, and on laws."""

    tool: str
    version: str
    tolerance: float
    vectors: tuple[Check, ...]
    laws: tuple[Check, ...]

    @property
    def conforms(self) -> bool:
        """Whether everything that the tool offers agrees."""
        return all(c.status in ("agrees", "absent") for c in (*self.vectors, *self.laws))

    def count(self, status: Status, metric: str | None = None, *, laws: bool = False) -> int:
        chosen = self.laws if laws else self.vectors
        return sum(c.status == status and metric in (None, c.metric) for c in chosen)

    def offered(self) -> list[str]:
        """Metrics of which the tool answers at least one vector."""
        return sorted({c.metric for c in self.vectors if c.status != "absent"})


def run(
    tool: str,
    *,
    python: str | None = None,
    only: Sequence[str] = (),
    tolerance: float = 1e-9,
    step: Callable[[int, int], None] | None = None,
) -> Score:
    """Ask a tool every question and score its answers.

    Parameters
    ----------
    tool : `MODULE:FUNCTION`, `FILE.py:FUNCTION`, or the name of an adapter that comes along.
    python : interpreter of the environment that holds the tool; this one where left out.
    only : names of metrics; all where left out.
    tolerance : relative distance at which numbers agree.
    step : called with the number of answers so far and in all.
    """
    checked_names("metric", only, metrics())
    adapters = tools()
    if ":" not in tool:
        checked_names("tool", [tool], sorted(adapters))
    place = adapters.get(tool, tool)
    vectors = [v for v in contents()["vectors"] if not only or v["metric"] in only]
    laws = [law for law in contents()["laws"] if not only or law["metric"] in only]
    questions = [_question(v, v["input"]) for v in vectors]
    questions += [_question(law, law[side]) for law in laws for side in ("before", "after")]
    stream = worker.answers(place, questions) if python is None else _run_in_environment(python, place, questions)
    records = _collected(stream, tool, len(questions), step)
    version, answers = records[0]["version"], records[1:]
    pairs = zip(answers[len(vectors) :: 2], answers[len(vectors) + 1 :: 2], strict=True)
    return Score(
        tool, version, tolerance,
        tuple(_checked(v, a, tolerance) for v, a in zip(vectors, answers, strict=False)),
        tuple(_obeyed(law, before, after, tolerance) for law, (before, after) in zip(laws, pairs, strict=True)),
    )  # fmt: skip


def _question(case: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {k: math.inf if v == "inf" else v for k, v in case["parameters"].items()}
    return {"metric": case["metric"], "input": data, "parameters": parameters}


def _run_in_environment(python: str, place: str, questions: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The answers of a tool that lives in another environment."""
    program = shutil.which(python)
    if program is None:
        raise KitError(f"--python {python!r} is no program. Pass the interpreter of the tool's environment.")
    with subprocess.Popen(  # noqa: S603  (the user's own interpreter)
        [program, str(Path(worker.__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        errors="replace",
    ) as process:  # fmt: skip
        if process.stdin is None or process.stdout is None:
            raise KitError(f"{python} could not be asked. Try it in a terminal.")
        try:
            with process.stdin as to:
                to.write(json.dumps({"tool": place, "questions": questions}))
            yield from (json.loads(line) for line in process.stdout)
        finally:
            process.kill()


def _collected(
    stream: Iterator[dict[str, Any]], tool: str, many: int, step: Callable[[int, int], None] | None
) -> list[dict[str, Any]]:
    """All answers; a tool that cannot be asked at all is an error."""
    records: list[dict[str, Any]] = []
    problem = None
    try:
        for answer in stream:
            if problem := answer.get("problem"):
                break
            records.append(answer)
            if step is not None:
                step(len(records) - 1, many)
    except KitError:
        raise
    except Exception as error:  # noqa: BLE001  an adapter that cannot be imported may raise anything
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise KitError(
            f"{tool} cannot be asked ({problem}). Install it, point --python at its environment, or name the adapter as "
            "MODULE:FUNCTION."
        )
    if len(records) != many + 1:
        raise KitError(f"{tool} ended after {max(len(records) - 1, 0)} of {many} answers. Run its adapter on its own.")
    return records


def number(value: Any) -> float:
    """A value of a vector or an answer; NaN where there is none."""
    return math.nan if value is None else float(value)


def same(a: float, b: float, tolerance: float) -> bool:
    """Whether two numbers agree; below 1e-12 apart they do whatever their size."""
    return a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=min(1e-12, tolerance))


def _checked(vector: Mapping[str, Any], answer: Mapping[str, Any], tolerance: float) -> Check:
    """Undefined is answered by NaN, None or a refusal; a number by that number."""
    expected, got, raised = number(vector["value"]), number(answer.get("value")), answer.get("raised", "")
    if math.isnan(expected):
        agrees = bool(raised) or math.isnan(got)
    else:
        agrees = not raised and same(expected, got, tolerance)
    status = _status(agrees=agrees, absent="absent" in answer, raised=bool(raised) and not math.isnan(expected))
    reason = "" if status in ("agrees", "absent") else _reason(answer, got, tolerance)
    return Check(
        vector["id"], vector["metric"], status, vector["value"], answer.get("value"), raised, vector["why"], reason
    )


def _status(*, agrees: bool, absent: bool, raised: bool) -> Status:
    return "absent" if absent else "fails" if raised else "agrees" if agrees else "differs"


def _reason(answer: Mapping[str, Any], got: float, tolerance: float) -> str:
    """The first reason that leads to exactly what the tool gave."""
    for text, claim in answer.get("reasons", ()):
        if "raised" in answer or claim == "raises":
            fits = "raised" in answer and claim == "raises"
        else:
            predicted = number(claim)
            fits = same(predicted, got, tolerance) or (math.isnan(predicted) and math.isnan(got))
        if fits:
            return str(text)
    return ""


def _obeyed(law: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any], tolerance: float) -> Check:
    """A law asks how the tool's own numbers move; whatever convention it follows."""
    relation, raised = law["relation"], before.get("raised") or after.get("raised") or ""
    a, b = number(before.get("value")), number(after.get("value"))
    near = same(a, b, tolerance)
    agrees = {
        "equal": near,
        "falls": b < a and not near,
        "falls_or_stays": b < a or near,
        "rises_or_stays": b > a or near,
        "negates": same(a, -b, tolerance),
        "inverts": same(a * b, 1.0, tolerance),
    }[relation]
    status = _status(agrees=agrees, absent="absent" in before or "absent" in after, raised=bool(raised))
    why = f"{law['law']}: {contents()['reading']['laws'][relation]}"
    return Check(law["id"], law["metric"], status, relation, [before.get("value"), after.get("value")], raised, why)

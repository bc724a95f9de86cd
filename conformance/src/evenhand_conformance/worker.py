"""Asks an adapter the questions. The standard library only, for it also runs in the environment of another tool.

An adapter is a function of one question, `{"metric": ..., "input": {...}, "parameters": {...}}`, that returns a number, None or NaN
where there is none, and raises NotImplementedError for what its tool does not offer. Its module may hold `REASONS`: for a metric,
pairs of a sentence and a function of the question that says what number (or `"raises"`) the reason leads to, None for no claim.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Answer = dict[str, Any]


def load(tool: str) -> tuple[Callable[[Mapping[str, Any]], Any], Mapping[str, Sequence[Any]], str]:
    """The adapter, the reasons and the version behind `MODULE:FUNCTION` or `FILE.py:FUNCTION`."""
    place, _, name = tool.rpartition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location("conformance_adapter", place)
        if spec is None or spec.loader is None or not Path(place).exists():
            raise ImportError(f"no file {place!r}")
        sys.path.append(str(Path(place).parent / "parts"))  # what our own adapters share
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    version = getattr(module, "version", None)
    return getattr(module, name), getattr(module, "REASONS", {}), str(version()) if callable(version) else ""


def plain(value: Any) -> Any:
    """An answer that JSON can hold."""
    number = None if value is None else float(value)
    return None if number is None or math.isnan(number) else number if math.isfinite(number) else str(number)


def answered(adapter: Callable[[Mapping[str, Any]], Any], question: Mapping[str, Any]) -> Answer:
    """The tool's answer: a value, that it has no such metric, or the error it raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {"value": plain(adapter(question))}
    except NotImplementedError:
        return {"absent": True}
    except Exception as error:  # noqa: BLE001  whatever a tool may raise is an answer
        return {"raised": f"{type(error).__name__}: {error}"[:300]}


def predicted(reasons: Sequence[Any], question: Mapping[str, Any]) -> list[list[Any]]:
    """The value that each reason predicts."""
    out = []
    for text, function in reasons:
        try:
            claim = function(question)
        except Exception:  # noqa: BLE001, S112  a reason that cannot be worked out proves nothing
            continue
        if claim is not None:
            out.append([text, claim if claim == "raises" else plain(claim)])
    return out


def answers(tool: str, questions: Sequence[Mapping[str, Any]]) -> Iterator[Answer]:
    """The version first, then an answer to each question."""
    adapter, reasons, version = load(tool)
    yield {"version": version}
    for question in questions:
        answer = answered(adapter, question)
        if "absent" not in answer:
            answer["reasons"] = predicted(reasons.get(question["metric"], ()), question)
        yield answer


def main() -> int:
    """Answer questions from stdin on stdout, a line each; the tool's own prints go to stderr."""
    request = json.loads(sys.stdin.read())
    out = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            for answer in answers(request["tool"], request["questions"]):
                out.write(json.dumps(answer) + "\n")
                out.flush()
    except Exception as error:  # noqa: BLE001  an adapter may raise anything
        out.write(json.dumps({"problem": f"{type(error).__name__}: {error}"[:300]}) + "\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, whose names are nobody's business
    sys.exit(main())

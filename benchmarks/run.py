"""`make bench`: every suite, one after the other; JSON and a chart in benchmarks/out; exit 1 where contestants disagree."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness import OUT, ROUNDS, Outcome, disagreements, run

SUITES = ("inequality", "prefix", "exposure", "outcome", "recommender", "experiment", "rebalance", "end_to_end")
"""Each is a module here with `races(folder, quick=...)` and, if it wishes, `summary(outcomes)` and `charts(outcomes)`."""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", default=list(SUITES), help=f"of {', '.join(SUITES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and two rounds, within two minutes")
    parser.add_argument("--only", default="", help="races whose name contains this")
    args = parser.parse_args(words)
    OUT.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    for name in args.suites:
        wrong += _suite(name, quick=args.quick, only=args.only)
    for line in wrong:
        print(f"DISAGREE  {line}", file=sys.stderr)
    return 1 if wrong else 0


def _suite(name: str, *, quick: bool, only: str) -> list[str]:
    suite: Any = importlib.import_module(f"benchmarks.{name}")
    folder = Path(tempfile.mkdtemp(prefix="data-", dir=OUT))
    outcomes: list[Outcome] = []
    wrong: list[str] = []
    try:
        for race in suite.races(folder, quick=quick):
            if only in race.name:
                found = run(race, most=2 if quick else ROUNDS)
                outcomes += found
                wrong += disagreements(race, found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts = suite.summary(outcomes) if hasattr(suite, "summary") else {}
    for label, value in facts.items():
        print(f"\n{label}: {value:.2f}")
    _write(name, outcomes, facts, quick=quick)
    for kind, chart in (suite.charts(outcomes) if hasattr(suite, "charts") else {}).items():
        chart.save(str(OUT / f"{name}-{kind}.html"))
        chart.save(str(OUT / f"{name}-{kind}.svg"))
    return wrong


def _write(name: str, outcomes: list[Outcome], facts: dict[str, float], *, quick: bool) -> None:
    import numpy as np

    from evenhand import __version__

    about = {"quick": quick, "python": platform.python_version(), "numpy": np.__version__, "evenhand": __version__}
    rows = [{k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(o).items()} for o in outcomes]
    written = json.dumps({"about": about, "outcomes": rows, "summary": facts}, indent=1, allow_nan=True)
    (OUT / f"{name}.json").write_text(written)
    _chart(outcomes).save(str(OUT / f"{name}.html"))
    _chart(outcomes).save(str(OUT / f"{name}.svg"))
    print(f"\nwrote {OUT / name}.json, .html and .svg")


def _chart(outcomes: list[Outcome]) -> Any:
    """CPU seconds on a log axis, a panel per race."""
    import altair as alt

    points = [
        {
            "race": f"{o.race}, n = {o.size:,}",
            "contestant": o.contestant,
            "cpu": o.cpu,
            "wall": o.wall,
            "extra": o.extra_mib,
        }
        for o in outcomes
        if o.ran and o.cpu > 0
    ]
    base = alt.Chart(alt.Data(values=json.loads(json.dumps(points).replace("NaN", "null"))))
    tips = [alt.Tooltip(f"{field}:Q", format=".4g") for field in ("cpu", "wall", "extra")]
    mark = base.mark_point(filled=True, size=70).encode(
        x=alt.X("cpu:Q", scale=alt.Scale(type="log"), title="CPU seconds (log scale)"),
        y=alt.Y("contestant:N", title=None, sort=None),
        color=alt.condition("indexof(datum.contestant, 'evenhand') == 0", alt.value("#b2182b"), alt.value("#666666")),
        tooltip=["contestant:N", *tips],
    )
    return (
        mark.properties(width=420)
        .facet(
            row=alt.Row(
                "race:N", title=None, sort=None, header=alt.Header(labelAngle=0, labelAlign="left", labelOrient="top")
            )
        )
        .resolve_scale(y="independent")
    )


if __name__ == "__main__":
    sys.exit(main())

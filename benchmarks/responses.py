"""Measure how ranking metrics respond to a known bias, and write what `eh.advise` reads of it (`make responses`).

The same settings as `evenhand study response`, with more worlds.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from evenhand.studies.response import METRICS, responses, settings

WORLDS = 60
"""Two metrics that respond in 50% and 80% of worlds differ significantly."""
TARGET = Path(__file__).parents[1] / "src" / "evenhand" / "audits" / "responses.json"


def main() -> None:
    """Write the table: a setting per line, with hits and worlds of every metric."""
    found = responses(WORLDS, seed=2026)
    lines = []
    for setting in settings():
        counts = {metric: [found[setting, metric].hits, found[setting, metric].worlds] for metric in METRICS}
        lines.append(json.dumps(asdict(setting) | {"counts": counts}))
    TARGET.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Scores other tools and keeps the result: `python -m conformance.score NAME=PYTHON ...`, as `make conformance` does.

Writes conformance/scores.json and the table and reasons in docs/conformance.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "src"))
from evenhand_conformance import command, kit

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "scores.json"
PAGE = ROOT / "docs" / "conformance.md"
MARKS = "<!-- scores: made by make conformance -->", "<!-- end of scores -->"


def scored(name, python):
    """What is kept of a tool's score: counts, and each reason with the vectors that it accounts for."""
    found = command.summary(kit.run(name, python=python))
    astray = [v for v in found["vectors"] if v["status"] in ("differs", "fails")]
    reasons = Counter(v["reason"] for v in astray if v["reason"])
    kept = ("tool_version", "kit_version", "asked", "agrees", "differs", "fails", "laws_agree", "laws_broken")
    return {
        **{key: found[key] for key in kept},
        "metrics": found["metrics_offered"],
        "reasons": dict(reasons.most_common()),
        "unexplained": [v["id"] for v in astray if not v["reason"]],
    }


def page(scores):
    """The part of docs/conformance.md that the scores make."""
    lines = [
        "| tool | metrics | vectors agree | differ | fail | laws kept | accounted for |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, s in sorted(scores.items(), key=lambda pair: pair[1]["tool_version"].lower()):
        astray = s["differs"] + s["fails"]
        laws = (
            f"{s['laws_agree']} of {s['laws_agree'] + s['laws_broken']}"
            if s["laws_agree"] + s["laws_broken"]
            else "none apply"
        )
        lines.append(
            f"| {s['tool_version']} (`{name}`) | {len(s['metrics'])} | {s['agrees']} of {s['asked']} | {s['differs']} | {s['fails']} "
            f"| {laws} | {sum(s['reasons'].values())} of {astray} |"
        )
    lines += ["", "Why, and how many vectors each reason accounts for:", ""]
    for _, s in sorted(scores.items(), key=lambda pair: pair[1]["tool_version"].lower()):
        lines += [f"- {text}: {many}." for text, many in s["reasons"].items()]
        lines += (
            [f"- {s['tool_version']}, not accounted for: {', '.join(s['unexplained'])}."] if s["unexplained"] else []
        )
    return "\n".join(lines)


def main(words):
    scores = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for word in words:
        name, _, python = word.partition("=")
        scores[name] = scored(name, python)
        print(f"{scores[name]['tool_version']}: {scores[name]['agrees']} of {scores[name]['asked']} vectors agree")
    KEPT.write_text(json.dumps(dict(sorted(scores.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    head, tail = MARKS
    inside = re.compile(f"{head}.*?{tail}", re.DOTALL)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(inside.sub(lambda _: f"{head}\n{page(scores)}\n{tail}", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What must be true before a tag is published: `python .ci/check_release.py v0.1.0`, or `kit-v1.2.0` for the conformance kit."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDER = "evenhand.example"
"""Stands for the public address until there is one (RELEASING.md)."""
CARRIERS = ("pyproject.toml", "conformance/pyproject.toml", "CITATION.cff", "recipe/recipe.yaml", "paper.md")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def found(pattern: str, name: str) -> str:
    match = re.search(pattern, read(name), re.MULTILINE)
    return match[1] if match else ""


def versions(tag: str) -> dict[str, str]:
    """The version that each file states, by file."""
    if tag.startswith("kit-"):
        module = "conformance/src/evenhand_conformance/__init__.py"
        return {module: found(r'^__version__ = "(.+)"', module)}
    return {
        "src/evenhand/__init__.py": found(r'^__version__ = "(.+)"', "src/evenhand/__init__.py"),
        "CITATION.cff": found(r"^version: (.+)$", "CITATION.cff"),
        "recipe/recipe.yaml": found(r'^  version: "(.+)"', "recipe/recipe.yaml"),
        "CHANGELOG.md": found(r"^## (\S+)", "CHANGELOG.md"),
    }


def problems(tag: str) -> list[str]:
    number = tag.removeprefix("kit-").removeprefix("v")
    told = [
        f"{name} says {stated or 'nothing'}, the tag {number}"
        for name, stated in versions(tag).items()
        if stated != number
    ]
    told += [f"{name} has no public address: {PLACEHOLDER}" for name in CARRIERS if PLACEHOLDER in read(name)]
    if not tag.startswith("kit-") and "(unreleased)" in found(r"^## (.+)$", "CHANGELOG.md"):
        told.append("CHANGELOG.md calls it unreleased")
    urls = tomllib.loads(read("pyproject.toml"))["project"].get("urls", {})
    if not all(address.startswith("https://") for address in urls.values()):
        told.append("pyproject.toml has an address that is not https")
    dirty = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    if dirty.stdout:
        told.append("the working tree has changes")
    return told


if __name__ == "__main__":
    left = problems(sys.argv[1])
    print("\n".join(left) or f"{sys.argv[1]} may be published")
    sys.exit(bool(left))

"""The examples in the pages of docs/ run as printed, in order, and the site has a place for every page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
DRAWN = {"gallery", "studies"}
"""Pages that are little but pictures: the build of the site runs them (make docs, in CI), and once is enough."""
PAGES = [p for p in sorted(DOCS.glob("*.md")) if "```python\n" in p.read_text(encoding="utf-8") and p.stem not in DRAWN]
PLACE = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_python_block_and_then_every_command_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile("".join(blocks(page, "python")), page.name, "exec"), {"__name__": page.stem})
    for text in blocks(page, "bash"):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, env=PLACE)
        assert done.returncode == 0, f"{text}\n{done.stderr}"


def test_every_page_has_a_place_in_the_navigation_of_the_site():
    listed = set(re.findall(r"([\w-]+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    missing = {p.name for p in DOCS.glob("*.md")} - listed
    assert not missing, f"add to nav in mkdocs.yml: {sorted(missing)}"

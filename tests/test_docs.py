"""The commands in the pages of docs/ run as printed, after the Python before them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if "```bash\n" in page.read_text(encoding="utf-8")]
"""Pages with commands, which read what the page's Python wrote; the build of the site runs the others (make docs, in CI)."""
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

"""Every code block in the README runs as printed, in one folder, and prints what the README says it does."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```(python|bash|toml|text)\n(.*?)```", re.DOTALL)


def test_every_block_of_the_readme_runs(tmp_path):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 6

    def ran(*command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    for name, text in ((re.match(r"# (\S+\.toml)", text), text) for language, text in blocks if language == "toml"):
        assert name, f"the first line of a TOML block names its file: {text}"
        (tmp_path / name[1]).write_text(text)
    # One session of Python, as a reader would have it; it writes the files that the commands read.
    printed = ran(
        sys.executable, "-W", "error", "-c", "".join(text for language, text in blocks if language == "python")
    )
    assert all(text in printed for language, text in blocks if language == "text")
    for language, text in blocks:
        if language == "bash":
            ran("bash", "-euo", "pipefail", "-c", text)

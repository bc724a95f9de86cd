"""Every code block in the README runs as printed, in order, in one folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```(python|bash|toml)\n(.*?)```", re.DOTALL)


def test_every_block_of_the_readme_runs(tmp_path):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script, ran = "", 0
    for language, text in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        ran += 1
        if language == "toml":
            name = re.match(r"# (\S+\.toml)", text)
            assert name, f"the first line of a TOML block names its file: {text}"
            (tmp_path / name[1]).write_text(text)
            continue
        if language == "python":
            script += text
            command = [sys.executable, "-W", "error", "-c", script]
        else:
            command = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert ran >= 6

"""The examples in docs/hosts.md that belong to one host, ready to run."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "hosts.md"


def upstream(host):
    """The code of the pull request that docs/upstream drafts for a host, as it stands there."""
    page = (PAGE.parent / "upstream" / f"{host}.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"```python {host}\n(.*?)```", page, re.DOTALL)
    return code


def run_page(host, place):
    """Run the Python blocks marked with the host, in order, as one script, then its command lines; the last output."""
    page = PAGE.read_text(encoding="utf-8")
    script = "".join(re.findall(rf"```python {host}\n(.*?)```", page, re.DOTALL))
    assert script, f"docs/hosts.md has no example for {host}"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}  # MLflow leaves its store there
    done = subprocess.run([sys.executable, "-c", script], cwd=place, capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr
    commands = re.findall(rf"```bash {host}\n(.*?)```", page, re.DOTALL)
    for command in commands:
        words = command.replace("python -m", f"{sys.executable} -m")
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", words], cwd=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return done.stdout

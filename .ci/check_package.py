"""What is in the sdist and the wheel, and whether the wheel works without the repository.

`python .ci/check_package.py contents DIST` reads the files; `python .ci/check_package.py works PYTHON` uses an installed wheel, and
`python .ci/check_package.py kit PYTHON` the conformance kit where nothing else is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BESIDE = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff")
NAMED = ("py.typed", "__init__.pyi", "plan.schema.json", "report/assets/")
"""Files without which something breaks far from here; all others are compared with the sources."""


def sources() -> set[str]:
    found = subprocess.run(["git", "ls-files", "src/evenhand"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name.removeprefix("src/") for name in found.stdout.split()}


def contents(dist: Path) -> None:
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    wanted = sources()
    held = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    package = {name for name in held if ".dist-info/" not in name}
    refuse("the wheel lacks", wanted - package)
    refuse("the wheel holds what is no source", package - wanted)
    refuse("the wheel lacks", {n for n in NAMED if not any(f"evenhand/{n}" in name for name in held)})
    refuse(
        "the wheel lacks its licence", set() if any(name.endswith("licenses/LICENSE") for name in held) else {"LICENSE"}
    )
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    refuse("the sdist lacks", {*BESIDE, *(f"src/{name}" for name in wanted)} - inside)
    print(f"{wheel.name}: {len(package)} files, {wheel.stat().st_size / 1e6:.1f} MB; {sdist.name}: complete")


def refuse(what: str, names: set[str]) -> None:
    if names:
        raise SystemExit(f"{what}: {', '.join(sorted(names))}")


def works(python: Path) -> None:
    """An audit, its report, a plan and the kit, in a folder that knows nothing of the repository."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        rows = [f"u{i},{i * i}" for i in range(1, 41)]
        (at / "log.csv").write_text("\n".join(["unit,seen", *rows]) + "\n", encoding="utf-8")

        def run(*words: str, code: int = 0) -> str:
            done = subprocess.run(
                [str(python), "-W", "error::DeprecationWarning:evenhand", *words],
                cwd=at,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != code:
                raise SystemExit(
                    f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
                )
            return done.stdout

        place = run("-c", "import evenhand; print(evenhand.__file__)").strip()
        if "site-packages" not in place or str(ROOT / "src") in place:
            raise SystemExit(f"not the wheel: {place}")
        asked = [
            "inequality",
            "log.csv",
            "--unit",
            "unit",
            "--amount",
            "seen",
            "--population",
            "50",
            "--seed",
            "1",
            "-m",
            "gini",
        ]
        first = run("-m", "evenhand", *asked, "--format", "json", "--html", "report.html")
        if "<html" not in (at / "report.html").read_text(encoding="utf-8"):
            raise SystemExit("the report is no page")
        (at / "plan.toml").write_text(run("-m", "evenhand", "plan", *asked), encoding="utf-8")
        if run("-m", "evenhand", "run", "plan.toml", "--format", "csv") != run(
            "-m", "evenhand", *asked, "--format", "csv"
        ):
            raise SystemExit("the plan gives other numbers than the command")
        run("-m", "evenhand", "metrics", "gini")
        run("-m", "evenhand", *asked, "--check", "gini <= 0", code=1)
        run("-m", "evenhand", "inequality", "nowhere.csv", "--unit", "unit", "--population", "none", code=2)
        score = json.loads(run("-m", "evenhand", "conformance", "run", "--tool", "evenhand", "--format", "json"))
        names = "numpy", "polars", "duckdb", "altair"
        versions = run(
            "-c", f"import importlib.metadata as m; print(', '.join(n + ' ' + m.version(n) for n in {names}))"
        )
        print(
            f"{versions.strip()}: an audit of {len(first):,} letters and its report; {score['agrees']} of {score['asked']} vectors agree"
        )


ADAPTER = """
def adapter(question):
    if question["metric"] != "mean" or "weights" in question["input"]:
        raise NotImplementedError
    return sum(question["input"]["amounts"]) / len(question["input"]["amounts"])
"""


def kit(python: Path) -> None:
    """The conformance kit alone: its list, a score, and nothing installed beside it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mine.py").write_text(ADAPTER, encoding="utf-8")

        def run(*words: str) -> str:
            done = subprocess.run(
                [str(python), *words], cwd=folder, capture_output=True, text=True, check=False, env={"PATH": ""}
            )
            if done.returncode:
                raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
            return done.stdout

        listed = run("-m", "evenhand_conformance", "list", "--format", "json")
        score = json.loads(run("-m", "evenhand_conformance", "run", "--tool", "mine:adapter", "--format", "json"))
        code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
        beside = set(run("-c", code).split()) - {"evenhand-conformance", "pip", "setuptools"}
        refuse("the kit brought along", beside)
        size = len(json.loads(listed)["vectors"])
        print(f"the kit alone: {size} vectors; {score['agrees']} of {score['asked']} agree with a mean of ten lines")


if __name__ == "__main__":
    {"contents": contents, "works": works, "kit": kit}[sys.argv[1]](Path(sys.argv[2]).absolute())

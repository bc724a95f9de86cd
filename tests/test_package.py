"""The package as a newcomer meets it: quick to import, typed, every citation resolves, no machine path anywhere."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import evenhand as eh
from evenhand import metrics  # noqa: F401
from evenhand.cards import REGISTRY

ROOT = Path(__file__).parents[1]


def cpu_seconds(code):
    script = f"import resource\n{code}\nu = resource.getrusage(resource.RUSAGE_SELF)\nprint(u.ru_utime + u.ru_stime)"
    found = [
        float(
            subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()[
                -1
            ]
        )
        for _ in range(3)
    ]
    return min(found)


@pytest.mark.parametrize(
    "code",
    [
        "import evenhand",
        "import contextlib, evenhand.cli\nwith contextlib.suppress(SystemExit): evenhand.cli.main(['--help'])",
    ],
    ids=["import", "help"],
)
def test_import_and_help_are_quick(code):
    assert cpu_seconds(code) < 0.3


def test_importing_the_package_loads_no_dataframe_library():
    code = "import sys, evenhand; print([m for m in ('polars', 'pandas', 'pyarrow', 'scipy', 'altair') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_every_citation_on_a_card_resolves():
    known = tomllib.loads((ROOT / "docs" / "references.toml").read_text())
    cited = {key for m in REGISTRY.values() for key in m.card.references}
    assert cited <= set(known), sorted(cited - set(known))


def test_every_public_name_can_be_loaded():
    for name in eh.__all__:
        assert getattr(eh, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'fairness'"):
        eh.fairness  # noqa: B018


def test_no_file_names_this_machine_or_a_registry():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    private = re.compile(r"(?<![\w.])/(work|root|home|farm)/\w|files\.pythonhosted|pypi\.org/simple|registry\.npmjs")
    found = []
    for name in tracked.stdout.split():
        path = ROOT / name
        if (
            path.suffix in {".py", ".md", ".toml", ".txt", ".json", ".html", ""}
            and path.is_file()
            and path != Path(__file__)
        ):
            found += [f"{name}: {m[0]}" for m in private.finditer(path.read_text(errors="ignore"))]
    assert not found


def test_the_citation_has_the_version_of_the_package():
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited[1] == eh.__version__


def test_the_changelog_begins_with_this_version():
    releases = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert releases[0].startswith(eh.__version__)


def test_the_oldest_versions_that_are_tested_are_those_that_are_allowed():
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    tested = dict(
        line.split("==")
        for line in (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    for name, least in (one.partition(";")[0].split(">=") for one in allowed):
        assert tested[name].startswith(least.partition(",")[0]), name


def test_public_names_win_over_folders_of_the_same_name():
    code = "import evenhand.sources.engine, evenhand as eh; from evenhand import sources; print(callable(eh.sources), sources is eh.sources)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["True", "True"]


FRAMES = r"^\s*(?:import|from) (?:polars|pandas|duckdb|narwhals|pyarrow|arro3|ibis|pyspark|sqlglot)\b"
ASKING = r"\bis_(?:polars|pandas|duckdb|pyspark|ibis|modin|dask)\b"
AT_THE_ENDS = (
    "sources/",  # where tables come in
    "results.py", "audits/rebalance.py", "cli/recalibrate.py", "report/files.py",  # where frames are handed out
    "history/histories.py",  # runs are kept as Parquet
    "synthetic/", "studies/", "adapters/", "cli/demo.py",  # users of the library, who bring tables along
)  # fmt: skip


def test_only_the_two_ends_know_dataframes_and_engines():
    root = ROOT / "src" / "evenhand"
    texts = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    frames = [name for name, text in texts.items() if re.search(FRAMES, text, re.MULTILINE)]
    assert [name for name in frames if not name.startswith(AT_THE_ENDS)] == []
    asking = [name for name, text in texts.items() if re.search(ASKING, text)]
    assert [name for name in asking if not name.startswith("sources/")] == []

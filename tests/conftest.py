"""Shared by every test: how hard hypothesis tries, a clock that stands still, one browser, one Spark cluster with its session, and one PostgreSQL server."""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: a shared machine makes single examples slow at random. At the desk examples are drawn anew each time, and
# `HYPOTHESIS_PROFILE=hard` looks further; what decides whether work lands draws the same ones every time.
settings.register_profile("usual", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("hard", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") == "true" else "usual"))


@pytest.fixture(scope="module", autouse=True)
def stopped_clock():
    """Results of equal calls are equal to the byte: `computed_at` does not move on between them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenhand.audits.declare.now", lambda: "2026-01-01T00:00:00+00:00")
        yield


@pytest.fixture(scope="session")
def browser():
    """The machine's own Chromium; its absence is seen in the summary, and is a failure where CI=true."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    playwright = importlib.util.find_spec("playwright")
    if path is None or playwright is None:
        lacking = "Chromium is not installed" if path is None else "playwright is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{lacking}, so the report was not looked at")
        pytest.skip(f"{lacking}: the report was NOT looked at in a browser")
    from playwright.sync_api import sync_playwright

    quiet = [
        "--no-sandbox",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
    ]
    with sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=path, args=quiet)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def cluster():
    """A real Spark cluster on loopback. Where Java or pyspark is absent the test is skipped, except in CI: a failure there."""
    lacking = [name for name, there in (("Java", shutil.which("java")), ("pyspark", _has_pyspark())) if not there]
    if lacking:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"Spark needs {' and '.join(lacking)}")
    from cluster import Cluster

    found = Cluster()
    yield found
    found.close()


@pytest.fixture(scope="session")
def spark(cluster):
    """The one session of this process, on the cluster."""
    from cluster import session

    found = session(cluster.url)
    yield found
    found.stop()


def _has_pyspark() -> bool:
    return importlib.util.find_spec("pyspark") is not None


@pytest.fixture(scope="session")
def postgres():
    """The folder of the socket of a real PostgreSQL, whose text sorts as people do; skipped where it is absent, except in CI."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    programs = Path(found[-1]).parent if found else Path(shutil.which("initdb") or "lacking").parent
    if not (programs / "pg_ctl").exists():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("PostgreSQL is not installed")
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    folder = tempfile.mkdtemp(prefix="evenhand-pg-", dir="/tmp")  # the name of a socket must be short
    if user:
        shutil.chown(folder, "postgres")

    def run(program, *words):
        subprocess.run([*user, programs / program, "-D", f"{folder}/data", *words], check=True, cwd=folder, stdout=subprocess.DEVNULL)  # fmt: skip

    try:
        run("initdb", "-A", "trust", "-U", "evenhand", "-E", "UTF8", "--no-sync", "--no-locale", "--locale-provider=icu", "--icu-locale=en-US")  # fmt: skip
        quick = f"-k {folder} -c listen_addresses= -c fsync=off -c shared_buffers=16MB"
        run("pg_ctl", "-w", "-s", "-l", f"{folder}/log", "-o", quick, "start")
        yield folder
        run("pg_ctl", "-w", "-s", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)

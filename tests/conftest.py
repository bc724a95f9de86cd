"""Shared by every test: how hard hypothesis tries, and the browser."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest
from hypothesis import settings

# No deadline: a shared machine makes single examples slow at random. `HYPOTHESIS_PROFILE=hard` looks further.
settings.register_profile("usual", deadline=None)
settings.register_profile("hard", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


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

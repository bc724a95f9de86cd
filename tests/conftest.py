"""Shared by every test: how hard hypothesis tries."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadline: a shared machine makes single examples slow at random. `HYPOTHESIS_PROFILE=hard` looks further.
settings.register_profile("usual", deadline=None)
settings.register_profile("hard", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))

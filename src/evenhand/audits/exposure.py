"""Who is exposed, and is it in proportion? Rankings, policies and recommendations against targets and relevance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evenhand import metrics as _all_metrics  # noqa: F401  (fills the registry)
from evenhand.attention import Attention, parse
from evenhand.audits.assemble import Row, check_min_units, log, names_of, notes, provenance, row, suppressed, tidy
from evenhand.audits.exposure_measures import BY_TARGET, BY_UTILITY, EXPECTED, TWO_SIDED, Asked, Measure, lean, measure
from evenhand.cards import Ask, Floats, ask, needing
from evenhand.errors import EvenhandError, all_problems, listing
from evenhand.tallies.exposure import Amortised, Exposed, Exposure, side_codes, target_shares
from evenhand.tallies.placement import Placement
from evenhand.views.groups import rollup

__all__ = ["exposure", "rollup"]

QUESTION = "Who is exposed, and is it in proportion?"
TARGETS = ("population", "equal", "ranking", "relevant")

"""Names that moved: `exposure_policy` has them."""

from evenhand.tallies.exposure_policy import UNKNOWN_LABEL as UNKNOWN_LABEL
from evenhand.tallies.exposure_policy import Unknown as Unknown

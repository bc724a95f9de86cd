"""`python -m evenhand_conformance`."""

import sys

from evenhand_conformance.command import main

sys.exit(main())

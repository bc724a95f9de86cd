"""`python -m evenhand`."""

from evenhand.cli import main

raise SystemExit(main())

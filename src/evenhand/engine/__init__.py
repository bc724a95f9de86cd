"""View -> tally: the only group-bys in the package."""

"""Two saved results: did it change, and by more than chance?

example:
  evenhand inequality monday.parquet --unit author --amount views --population none --format json --output monday.json
  evenhand inequality friday.parquet --unit author --amount views --population none --format json --output friday.json
  evenhand compare friday.json monday.json

The estimate is the first minus the second. A saved result holds no units and no requests, so whether the two share any is
not known: interval and p need --independent, which says that they share none. Arms and periods: see evenhand experiment.
Rankers on the same requests: audit them in one table with --system and add --systems.
"""

"""Two saved results: did it change, and by more than chance?

example:
  evenhand inequality monday.parquet --unit author --amount views --population none --format json --output monday.json
  evenhand inequality friday.parquet --unit author --amount views --population none --format json --output friday.json
  evenhand compare friday.json monday.json

The estimate is the first minus the second; the two must rest on different units (two arms, two periods). A saved result
holds no requests: to compare rankers on the same requests, audit them in one table with --system and add --systems.
"""

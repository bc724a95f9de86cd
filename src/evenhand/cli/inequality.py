r"""How unevenly something is spread over those who could receive it.

example:
  evenhand inequality events.parquet --unit author_id --amount impressions --population 102000000 --by source \
      -m gini -m 'top_share(p=0.01)' --html reach.html

population is everyone who could have received something; a log holds only those who did:
  a number      every slice has that many units
  a file        a table of units (with the --by columns, each slice gets its own)
  SLICE=N,...   a number per slice
  none          only the units seen
"""

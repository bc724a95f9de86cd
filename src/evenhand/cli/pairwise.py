"""Does the more relevant item stand above, whatever the groups?

examples:
  evenhand pairwise scores.parquet --request user --groups artist_gender --relevance test.csv --protected female
  evenhand pairwise scores.csv --system model --groups books.csv --relevance rating --protected f --negatives 10000
  evenhand pairwise scores.csv --groups 'rollup(songs.csv, artists.csv)' --relevance rating --protected f

Pass all that was scored, not a list that was cut: pairs need items on both sides of the cut.
"""

from evenhand.cli.options import add_systems as add_arguments

__all__ = ["add_arguments"]

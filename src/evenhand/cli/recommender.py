"""Whether a recommender serves groups of users, and items, even-handedly.

examples:
  evenhand recommender scores.npz --user-groups users.csv --versus a --protected b --top 10 --html bias.html
  evenhand recommender scores.parquet --relevant clicks.parquet --user-groups users.csv --top 10 --items 100000
  evenhand recommender lists.csv --score none --user-groups gender -m exposure_tv -m item_gini
  evenhand recommender scores.npz --user-groups users.csv --top 10 --convention holisticai
  evenhand recommender log.parquet --by country --system model --user-groups users.csv --top 10 --items 100000

scores are a matrix (.npz of numpy or scipy, .npy; users are numbered from 0) or a table with a row per user and item.
--user-groups is a table of user and group, a table of group alone (one row per row of the matrix), or a column of scores.
--by and --system are columns of a table; every slice and every recommender is measured apart, with its own users.
"""

from evenhand.cli.options import add_systems as add_arguments

__all__ = ["add_arguments"]

r"""Does the inequality lie within groups or between them?

example:
  evenhand decompose events.parquet --unit author_id --amount impressions --group country --population authors.parquet \
      --index 'atkinson(epsilon=0.5)'

gini: total = within + between + overlap; theil, ge(alpha=2): total = within + between;
atkinson(epsilon=0.5): 1 - total = (1 - within)(1 - between).
The unseen must have a group: --population takes a table with the group column, GROUP=N,..., or none.
"""

"""Which source makes the skew: the Gini index split over where amounts come from.

example:
  evenhand sources events.parquet --unit author_id --amount impressions --source source --population authors.parquet

Per source: share of the total, own_gini, correlation with the rank of the total, contribution (they add up to the Gini
index), and marginal: 1% more from that source moves the index by 1% of it. Which source makes the skew? Read marginal.
"""

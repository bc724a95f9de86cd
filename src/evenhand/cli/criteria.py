"""Which metric suits this data: the criteria of the inequality paper, measured.

example:
  evenhand criteria events.parquet --unit author_id --amount impressions --population authors.parquet --by source

Each criterion of the paper's Table 2 is measured on this data: what was measured, the number behind it, and what the
authors judged. effect needs --by or several --amount.
"""

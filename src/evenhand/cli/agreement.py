"""Saved results of several systems: do the metrics agree on which is fairer?

example:
  evenhand exposure 'runs/*.gz' --groups docs.csv --relevance 2020.qrels --protected developing --format json --output e.json
  evenhand agreement e.json --plot agreement=heat.svg

Several results of the same systems are put side by side. The systems are those of --system, or the runs themselves.
"""

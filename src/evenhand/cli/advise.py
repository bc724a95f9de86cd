"""Which ranking metric to trust for these rankings, and why.

examples:
  evenhand advise --balance medium --bias high
  evenhand advise --viewpoints 7 --bias low
  evenhand advise --goal opportunity --sparse
  evenhand advise serps.csv --request query --group stance --protected against --bias medium

The recommended metric comes first. With rankings, the balance is read off them, `chance` is what random order gives on a
typical list, and `found` how often a list with the expected bias would stand out from random orders.
"""

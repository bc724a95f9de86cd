"""Does every top of a ranking mirror the whole, or does one viewpoint stand higher?

examples:
  evenhand prefix serps.csv --request query --group stance --protected against
  evenhand prefix serps.csv --request query --group stance --by engine -m ndjs --html viewpoints.html
  evenhand prefix serps.csv --group stance --protected=-3 --protected=-2 --protected=-1 -m ndd -m ndkl
  evenhand prefix 'runs/*.gz' --group labels.qrels --protected con       TREC runs, labels in the form of judgments
  evenhand prefix charts.csv --group "rollup(films.csv, group=genres, split='|')"       an item shared among its genres

Files without a table's ending (.parquet, .csv, .tsv, .jsonl) are read as TREC runs: request Q0 item rank score tag,
ordered by score, ties by item, as trec_eval does.
"""

from evenhand.cli.options import add_systems as add_arguments

__all__ = ["add_arguments"]

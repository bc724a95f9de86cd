"""Who is exposed in rankings, against a target, another group, or relevance.

examples:
  evenhand exposure recs.parquet --request user --groups artist_gender --protected female
  evenhand exposure 'runs/*.gz' --groups docs.csv --relevance 2020.qrels --protected developing -m awrf -m eel
  evenhand exposure runs.csv --system run --groups docs.csv --protected f -m 'awrf@10' -m 'log_dp(per_item=True)'
  evenhand exposure plays.parquet --request user --groups 'rollup(songs.csv, artists.csv)' --protected female
  evenhand exposure trec-fair:run.jsonl --groups trec-fair:article-level.csv --relevance trec-fair:sample.jsonl

Files without a table's ending (.parquet, .csv, .tsv, .jsonl) are TREC runs or, for --relevance, judgments (qrels).
trec-fair: before a path reads a file of the TREC Fair Ranking track (runs, ragged groups, judged queries).
rollup(ITEMS, PROVIDERS) goes from items through providers to groups: a file of item and provider (weight=COLUMN for
parts that are not equal), a file of provider and group; an item of several providers is shared among their groups.
rollup(FILMS, group=genres, split='|') shares an item among the labels of one text.
shares(f, m, of=FILE, counts=True) takes numbers of authors of each group for shares.
--target may be population, equal, ranking, relevant, or shares: f=0.5,m=0.5
"""

from evenhand.cli.options import add_systems as add_arguments

__all__ = ["add_arguments"]

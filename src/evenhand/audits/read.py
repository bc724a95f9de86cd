"""Reading what others wrote: separated text, spreadsheets, TREC runs, judgments and labels, saved results, queries on a connection."""

from evenhand.results import load as result
from evenhand.sources.databases import database
from evenhand.sources.inputs import tally
from evenhand.sources.opening import csv, excel
from evenhand.sources.trec import (
    labels,
    qrels,
    qrels_groups,
    trec_fair_groups,
    trec_fair_queries,
    trec_fair_run,
    trec_fair_sequence,
    trec_run,
    trec_runs,
)

__all__ = [
    "csv",
    "database",
    "excel",
    "labels",
    "qrels",
    "qrels_groups",
    "result",
    "tally",
    "trec_fair_groups",
    "trec_fair_queries",
    "trec_fair_run",
    "trec_fair_sequence",
    "trec_run",
    "trec_runs",
]

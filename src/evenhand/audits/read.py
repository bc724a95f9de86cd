"""Reading what others wrote: TREC runs, judgments and labels, and saved results."""

from evenhand.results import load as result
from evenhand.views.read import labels, qrels, trec_run, trec_runs

__all__ = ["labels", "qrels", "result", "trec_run", "trec_runs"]

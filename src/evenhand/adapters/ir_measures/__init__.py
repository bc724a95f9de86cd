"""evenhand's ranking metrics as measures of ir_measures: `AWRF(groups="docs.csv")@10` beside `nDCG@10`.

Importing this module registers the measures and their provider; ir_measures finds nothing by itself. Groups come from a
file (`groups=`) or from the second field of the qrels. Runs are ordered as trec_eval orders them: by score, then by
document id, both falling. A query for which a measure does not exist is nan; means leave it out, count it and say so.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evenhand.audits.exposure.exposure import exposure
from evenhand.cards import REGISTRY
from evenhand.errors import EvenhandError, MissingExtraError, UndefinedWarning, listing, suggestion
from evenhand.sources.trec import qrels_groups

try:
    import ir_measures as host
    from ir_measures import measures, providers
except ModuleNotFoundError as error:
    missing = MissingExtraError("ir_measures", "ir-measures")
    if sys.argv[:1] == ["-m"] and __name__ in sys.orig_argv:  # a command: `python -m` comes here before __main__
        print(missing, file=sys.stderr)
        raise SystemExit(2) from error
    raise missing from error

__all__ = ["AWRF", "EED", "EEL", "EER", "FAIR", "Mean", "nDD", "nDJS", "nDKL", "provider"]

PER_QUERY = {"aggregate", "unbiased"}
"""Parameters that ask for something else than the mean of one value per query."""

SHARED = {
    "cutoff": measures.ParamInfo(dtype=int, desc="look at the first ranks only"),
    "groups": measures.ParamInfo(
        default=None, desc="file (or dict) of doc_id and group; default: the qrels' 2nd field"
    ),
    "protected": measures.ParamInfo(default=None, desc="label of the protected group"),
    "unknown": measures.ParamInfo(dtype=str, default="drop", desc="what becomes of documents without a group"),
}


class Mean(float):
    """A mean over `queries` queries; `skipped` others have no value."""

    queries: int
    skipped: int


class SkippingMean(measures.MeanAgg):
    """The mean of the queries for which the measure exists; the others are counted, never zero."""

    def __init__(self, measure: Any) -> None:
        super().__init__()
        self.measure = measure
        self.skipped = 0

    def add(self, value: float) -> None:
        if math.isnan(value):
            self.skipped += 1
        else:
            super().add(value)

    def result(self) -> Mean:
        mean = Mean(super().result())
        mean.queries, mean.skipped = self.count, self.skipped
        if self.skipped:
            total = self.count + self.skipped
            words = f"{self.measure} is undefined for {self.skipped:,} of {total:,} queries; its mean leaves them out."
            warnings.warn(UndefinedWarning(words), stacklevel=2)
        return mean


class EvenhandMeasure(measures.Measure):
    """A metric of evenhand under its paper's name, with the parameters of the function."""

    DEFAULT = math.nan
    METRIC: str

    def __repr__(self) -> str:
        """As ir_measures writes it, also with an unknown parameter, which the error quotes."""
        defaults = {n: p.default for n, p in self.SUPPORTED_PARAMS.items()}
        changed = {k: v for k, v in self.params.items() if k != "cutoff" and (k not in defaults or v != defaults[k])}
        return self._written(str(self.NAME), changed)

    @property
    def text(self) -> str:
        """The measure as an evenhand metric string: `"awrf(distance='tv')@10"`."""
        params = {k: v for k, v in self.params.items() if k not in SHARED}
        if "aggregate" in REGISTRY[self.METRIC].parameters:
            params["aggregate"] = "per_request"
        return self._written(self.METRIC, params)

    def _written(self, name: str, params: Mapping[str, Any]) -> str:
        inside = ",".join(f"{k}={v!r}" for k, v in params.items())
        cutoff = self.params.get("cutoff")
        return name + (f"({inside})" if inside else "") + ("" if cutoff is None else f"@{cutoff}")

    @property
    def needs_groups(self) -> bool:
        return bool(self.params.get("level") != "item")

    def validate_params(self) -> None:
        """Refuse what ir_measures would refuse with an assertion, in a sentence."""
        for name, value in self.params.items():
            if name not in self.SUPPORTED_PARAMS:
                near = suggestion(name, self.SUPPORTED_PARAMS)
                raise EvenhandError(
                    f"{self.NAME} has no parameter {name!r}. {near}It has: {listing(self.SUPPORTED_PARAMS)}."
                )
            if not self.SUPPORTED_PARAMS[name].validate(value):
                kind = self.SUPPORTED_PARAMS[name].dtype.__name__
                raise EvenhandError(f"{self.NAME}({name}={value!r}) does not fit. Pass a value of type {kind}.")
        self.validated = True

    def aggregator(self) -> SkippingMean:
        return SkippingMean(self)


def _measure(metric: str) -> Any:
    card = REGISTRY[metric].card
    defaults = {n: p.default for n, p in REGISTRY[metric].parameters.items() if n not in PER_QUERY}
    fields = {
        "METRIC": metric, "NAME": card.symbol, "__name__": card.symbol, "__doc__": card.asks, "PRETTY_NAME": card.title,
        "SHORT_DESC": card.asks, "SUPPORTED_PARAMS": SHARED | {n: measures.ParamInfo(default=d) for n, d in defaults.items()},
    }  # fmt: skip
    measure = type(card.symbol, (EvenhandMeasure,), fields)()
    measures.register(measure)
    return measure


AWRF, EED, EEL, EER = (_measure(name) for name in ("awrf", "eed", "eel", "eer"))
FAIR, nDD, nDKL, nDJS = (_measure(name) for name in ("fair", "ndd", "ndkl", "ndjs"))  # noqa: N816


class Evaluator(providers.Evaluator):
    """Judgments, and the measures that share their groups: one audit for all of them."""

    def __init__(self, requested: Iterable[Any], qrels: Any) -> None:
        import polars as pl

        judged = list(host.util.QrelsConverter(qrels).as_namedtuple_iter())
        self.judged = pl.DataFrame(
            [(q.query_id, q.doc_id, q.relevance, q.iteration) for q in judged],
            schema={"query_id": pl.String, "doc_id": pl.String, "relevance": pl.Float64, "iteration": pl.String},
            orient="row",
        ).with_columns(pl.col("relevance").clip(lower_bound=0.0))  # TREC writes junk as -2: not relevant
        super().__init__(list(requested), set(self.judged["query_id"]))
        self.settings: dict[str, list[Any]] = {}
        for measure in self.measures:
            roles = {k: measure[k] for k in ("groups", "protected", "unknown")} | {"grouped": measure.needs_groups}
            self.settings.setdefault(repr(roles), []).append(measure)

    def _iter_calc(self, run: Any) -> Iterator[Any]:
        ranked = self._ranked(run)
        if not ranked.height:
            return
        judged = self.judged.select("query_id", "doc_id", "relevance").unique()
        for same_settings in self.settings.values():
            first, by_text = same_settings[0], {m.text: m for m in same_settings}
            result = exposure(
                ranked, groups=self._groups(first), relevance=judged, protected=first["protected"], unknown=first["unknown"],
                request="query_id", item="doc_id", metrics=list(by_text), interval=None, chance=False,
            )  # fmt: skip
            for query, metric, value in result.per_request.select("request", "metric", "estimate").iter_rows():
                yield host.Metric(query_id=query, measure=by_text[metric], value=value)

    def _ranked(self, run: Any) -> Any:
        """The run in trec_eval's order, judged queries only."""
        import polars as pl

        rows = [(d.query_id, d.doc_id, d.score) for d in host.util.RunConverter(run).as_namedtuple_iter()]
        frame = pl.DataFrame(
            rows, schema={"query_id": pl.String, "doc_id": pl.String, "score": pl.Float64}, orient="row"
        )
        frame = frame.filter(pl.col("query_id").is_in(list(self.qrel_qids)))
        frame = frame.sort("query_id", "score", "doc_id", descending=[False, True, True])
        return frame.with_columns(pl.int_range(1, pl.len() + 1).over("query_id").cast(pl.Int64).alias("rank"))

    def _groups(self, measure: Any) -> Any:
        import polars as pl

        if not measure.needs_groups:
            return {}
        if measure["groups"] is not None:
            return measure["groups"]
        labels = self.judged.select("doc_id", "iteration").unique()
        if labels["iteration"].n_unique() < 2:
            raise EvenhandError(
                f"{measure.NAME} needs the groups of documents. Pass groups='docs.csv' with columns doc_id and group, or "
                "write groups into the second field of the qrels."
            )
        if labels["iteration"].str.contains(r"[,|]").any():
            return qrels_groups(self.judged, item="doc_id")
        clash = labels.filter(pl.col("doc_id").is_duplicated())
        if clash.height:
            raise EvenhandError(
                f"The second field of the qrels gives {clash['doc_id'].n_unique():,} documents several groups (first: "
                f"{clash['doc_id'].min()!r}). Give each document one, or pass groups='docs.csv'."
            )
        return dict(labels.with_columns(pl.col("iteration").replace("-1", None)).iter_rows())


class Provider(providers.Provider):
    NAME = "evenhand"
    SUPPORTED_MEASURES = (AWRF, EED, EEL, EER, FAIR, nDD, nDKL, nDJS)

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Evaluator:
        return Evaluator(measures, qrels)

    def qrel_inputs(self, measures: Iterable[Any]) -> list[str]:
        by_file = all(m["groups"] is not None or not m.needs_groups for m in measures)
        return ["query_id", "doc_id", "relevance"] + ([] if by_file else ["iteration"])


provider = Provider()
providers.register(provider)
host.DefaultPipeline.providers.append(provider)

"""Results in MLflow: `result.log_mlflow()` writes them, `read` gets one back, `mlflow.models.evaluate` makes them by `Evaluator`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.audits.declare import find
from evenhand.errors import EvenhandError, MissingExtraError, listing
from evenhand.results import Result, load
from evenhand.sources.folders import Folder

try:
    from mlflow.artifacts import download_artifacts, list_artifacts
    from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator
except ModuleNotFoundError as error:
    raise MissingExtraError("mlflow", "mlflow") from error

__all__ = ["Evaluator", "read"]


def read(run_id: str, audit: str | None = None, *, prefix: str = "", folder: str = "evenhand") -> Result:
    """The result logged into a run; `audit` (`"inequality"`) chooses among several."""
    paths = {
        Path(f.path).name.removesuffix(".json"): f.path
        for f in list_artifacts(run_id=run_id, artifact_path=folder)
        if f.path.endswith(".json")
    }
    names = [name for name in paths if audit is None or name == Path(f"{prefix}{audit}").name]
    if len(names) != 1:
        fact = "holds no such result" if not names else "holds several results"
        raise EvenhandError(f"Run {run_id!r} {fact}. Its results: {listing(paths) or 'none'}. Name one with audit=.")
    place = Folder()
    return load(download_artifacts(run_id=run_id, artifact_path=paths[names[0]], dst_path=place.name))


class Evaluator(ModelEvaluator):
    """An audit as an evaluator of MLflow, which finds it by its entry point, `evaluators="evenhand"`.

    `evaluator_config` holds `audit` and the parameters of the audit. The table is the data that is evaluated, with its targets, and with
    the predictions of the model, if there is one, as one more column.
    """

    @classmethod
    def can_evaluate(cls, *, evaluator_config: Mapping[str, Any] | None, **_: Any) -> bool:
        return "audit" in (evaluator_config or {})

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        predictions: str | None = None,
        **_: Any,
    ) -> EvaluationResult:
        """Run the audit, log its result into the run, and return its numbers."""
        parameters = {name: value for name, value in evaluator_config.items() if name != "audit"}
        result = find(evaluator_config["audit"])(_table(dataset, model, predictions), **parameters)
        return EvaluationResult(metrics=result.log_mlflow(), artifacts={}, run_id=run_id)


def _table(dataset: Any, model: Any, predictions: str | None) -> Any:
    features = dataset.features_data
    if not hasattr(features, "columns"):
        raise EvenhandError("The data to evaluate is an array without column names. Pass a pandas DataFrame.")
    columns = {}
    if dataset.has_targets:
        columns[dataset.targets_name] = dataset.labels_data
    if model is not None:
        columns[predictions or "prediction"] = model.predict(features)
    elif dataset.has_predictions:
        columns[dataset.predictions_name] = dataset.predictions_data
    return features.assign(**columns)

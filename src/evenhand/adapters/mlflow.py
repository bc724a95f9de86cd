"""Results in MLflow: `result.log_mlflow()` writes them, `read` gets one back from the artifacts of a run."""

from __future__ import annotations

from pathlib import Path

from evenhand.errors import EvenhandError, MissingExtraError, listing
from evenhand.results import Result, load
from evenhand.sources.folders import Folder

try:
    import mlflow
    from mlflow.artifacts import download_artifacts, list_artifacts
except ModuleNotFoundError as error:
    raise MissingExtraError("mlflow", "mlflow") from error

__all__ = ["log", "read"]


def log(result: Result, run_id: str | None = None, *, prefix: str = "", folder: str = "evenhand") -> dict[str, float]:
    """Log a result into a finished run, or without `run_id` as `result.log_mlflow()` does."""
    if run_id is None:
        return result.log_mlflow(prefix=prefix, folder=folder)
    with mlflow.start_run(run_id=run_id):
        return result.log_mlflow(prefix=prefix, folder=folder)


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

"""Log a run to MLflow: what was run, its numbers, its report."""

import importlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from daskfc.errors import InvalidInput

_FILES = ("summary.json", "report.html")
_LONGEST = 500  # characters of a parameter that every MLflow takes


def log_run(
    folder: Path,
    record: Mapping[str, Any],
    summary: Mapping[str, Any],
    experiment: str,
    tracking_uri: str | None,
) -> str:
    """Log a run that is done, see `daskfc.Run.log_to_mlflow`; return MLflow's id of it."""
    if summary["status"] != "done":
        raise InvalidInput(
            f"run {record['run_id']!r} has no results to log; its status is {summary['status']!r}. "
            "Resume it first."
        )
    try:
        mlflow = importlib.import_module("mlflow")
    except ImportError as error:
        raise InvalidInput(
            f"log_to_mlflow needs MLflow, which cannot be imported ({error.name} is missing). "
            "Install it with: pip install 'daskfc[mlflow]'."
        ) from None
    entities = mlflow.entities
    client = mlflow.MlflowClient(tracking_uri)  # beside it MLflow's own settings stay as they are
    known = client.get_experiment_by_name(experiment)
    place = client.create_experiment(experiment) if known is None else known.experiment_id
    logged: str = client.create_run(place, run_name=record["run_id"]).info.run_id
    now = int(time.time() * 1000)
    client.log_batch(
        logged,
        metrics=[entities.Metric(name, value, now, 0) for name, value in _metrics(summary)],
        params=[entities.Param(name, value) for name, value in _params(record)],
        tags=[entities.RunTag(f"daskfc.{key}", one) for key, one in record["versions"].items()],
    )
    for name in _FILES:
        client.log_artifact(logged, str(folder / name))
    client.set_terminated(logged)
    return logged


def _params(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what was run: the pipeline's keys, and each parameter of its method."""
    pipeline = dict(record["pipeline"])
    for name, value in {**pipeline.pop("params", {}), **pipeline}.items():
        text = value if isinstance(value, str) else json.dumps(value)
        yield name, text[:_LONGEST]


def _metrics(summary: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield scores of all methods, quality, sizes, bytes and seconds; the own method's bare."""
    for method, row in summary.get("metrics", {}).items():
        prefix = "" if method == summary["method"] else f"{method}."
        for name, score in row.items():
            yield f"{prefix}{name}", float(score["mean"])
    numbers = {
        **{
            name: summary["quality"].get(name)
            for name in ("silhouette", "modularity", "stability", "noise")
        },
        "n_clusters_found": len(summary["quality"].get("sizes", ())),
        "n_samples": summary["n_samples"],
        "n_clients": summary["n_clients"],
        "payload_bytes": summary["communication"].get("payload_bytes"),
        "total_s": summary["timing"].get("total_s"),
        "epsilon": (summary["privacy"].get("noise") or {}).get("epsilon_of_all_fits"),
    }
    yield from ((name, float(value)) for name, value in numbers.items() if value is not None)

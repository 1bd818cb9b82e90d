"""``summary.json``: what other programs read about a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from daskfc.deploy import load_cluster
from daskfc.runs.outcome.communication import communication_of, costliest_client
from daskfc.runs.outcome.evaluate import Truth, confusion_of, score
from daskfc.runs.outcome.fits import Fit
from daskfc.runs.outcome.folder import without_nan
from daskfc.runs.outcome.quality import quality_of
from daskfc.runs.pipeline.methods import CheckedPipeline


def unfinished_summary(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a run without a result: all keys of `summary_of`, and why it ended."""
    pipeline = record.get("pipeline") or {}
    return {
        "run_id": record["run_id"],
        "status": record["status"],
        "error": record.get("error"),
        "resumable": bool(record.get("resumable")),
        "pipeline": record.get("pipeline_source"),
        "storage": record.get("storage_source"),
        "method": pipeline.get("method"),
        "params": pipeline.get("params", {}),
        "n_samples": record.get("n_samples"),
        "n_clients": record.get("n_clients"),
        "seeds": pipeline.get("seeds", []),
        "metrics": {},
        "quality": {},
        "profiles": {},
        "n_clusters_choice": {},
        "changes": {},
        "communication": {},
        "privacy": {"statement": told} if (told := _unprotected(record)) else {},
        "timing": {},
        "peak_memory_bytes": {},
    }


def _unprotected(record: Mapping[str, Any]) -> str:
    """Return what a cluster of plain workers left unprotected; empty for other clusters."""
    cluster = record.get("cluster") or {}
    where = load_cluster(cluster) if cluster.get("trusted") else None
    return f"{where.unprotected}." if where is not None and where.cluster == "existing" else ""


def _mean(fits: Sequence[Fit], stage: str) -> float:
    return float(np.mean([fit.timing.get(stage, 0.0) for fit in fits]))


def _timing(
    own: Sequence[Fit], by_method: Mapping[str, Sequence[Fit]], total_s: float
) -> dict[str, float]:
    stages = dict.fromkeys(key for fit in own for key in fit.timing if key != "total_s")
    return {
        "total_s": total_s,
        **{key: _mean(own, key) for key in stages},
        **{f"{name}_fit_s": _mean(fits, "total_s") for name, fits in by_method.items()},
    }


def _noise(fits: Sequence[Fit], preparation: pd.DataFrame | None) -> dict[str, Any]:
    """Return a method's noise, and the privacy loss of a client over its fits with all seeds."""
    told = [fit.facts.get("noise") for fit in fits]
    if not told or not all(told):
        return {}
    first = dict(told[0] or {})
    if first["delta"] is None:
        return {"noise": {**first, "epsilon": None}}
    earlier = [z for fit in fits for z in fit.facts.get("released_before", ())]
    ledgers = [fit.ledger for fit in fits] + ([] if preparation is None else [preparation])
    epsilon = costliest_client(ledgers, earlier).epsilon(first["delta"])
    return {"noise": {**first, "fits": len(fits), "epsilon_of_all_fits": epsilon}}


def _privacy(
    communication: Mapping[str, Any],
    fits: Sequence[Fit],
    preparation: pd.DataFrame | None,
    unprotected: str,
) -> dict[str, Any]:
    own = fits[0]
    reconstruction = without_nan(own.facts.get("reconstruction"))
    kinds = communication["by_message"]
    protections: dict[str, int] = {}
    for row in kinds.values():
        protections[row["protection"]] = protections.get(row["protection"], 0) + row["messages"]
    return {
        "statement": f"{own.facts.get('privacy', '')} {unprotected}".strip(),
        "messages_by_protection": protections,
        "reveals": {name: row["reveals"] for name, row in kinds.items()},
        **_noise(fits, preparation),
        **({"reconstruction": reconstruction} if reconstruction else {}),
    }


def summary_of(
    record: Mapping[str, Any],
    checked: CheckedPipeline,
    fits: Sequence[Fit],
    truth: Truth,
    *,
    total_s: float,
    preparation: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Return the summary of a finished run; figures of one fit are of the own method's first.

    `total_s` includes the start of the workers; messages of a `preparation` add to privacy loss.
    """
    pipeline = checked.pipeline
    by_method: dict[str, list[Fit]] = {}
    for fit in fits:
        by_method.setdefault(fit.method, []).append(fit)
    own = by_method[pipeline.method]
    communication = communication_of(own[0].ledger)
    peaks: dict[str, int] = {}
    for fit in own:
        for party, peak in fit.facts.get("peak_memory_bytes", {}).items():
            peaks[party] = max(peaks.get(party, 0), int(peak))
    labels = {name: [fit.labels.to_numpy() for fit in each] for name, each in by_method.items()}
    methods = {}
    for name, (first, *_) in by_method.items():
        moved = communication_of(first.ledger)
        del moved["by_message"]
        methods[name] = {"note": first.facts.get("note", ""), "communication": moved}
    quality = quality_of(
        own, pipeline.params, record.get("warnings", ()), by_rows=checked.own.split == "samples"
    )
    return {
        **unfinished_summary(record),
        "status": "done",
        "error": None,
        "resumable": False,
        "n_samples": int(own[0].labels.sizes["sample"]),
        "n_clients": record.get("n_clients")
        or len(np.unique(own[0].labels["client"].to_numpy().astype(str))),
        "metrics": {} if truth.labels is None else score(truth.labels, labels, pipeline.metrics),
        "unscored": truth.missing,
        "quality": quality,
        "confusion": confusion_of(truth, own[0].labels.to_numpy()),
        "methods": methods,
        "communication": communication,
        "privacy": _privacy(communication, own, preparation, _unprotected(record)),
        "timing": _timing(own, by_method, total_s),
        "peak_memory_bytes": peaks,
        "histories": own[0].facts.get("histories", {}),
        "choices": own[0].facts.get("choices", {}),
        "stages": own[0].facts.get("stages", []),
        "map": own[0].facts.get("map", {}),
    }

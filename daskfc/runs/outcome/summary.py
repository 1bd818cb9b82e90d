"""``summary.json``: what other programs read about a run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from daskfc.deploy import load_cluster
from daskfc.runs.outcome.communication import communication_of, costliest_client
from daskfc.runs.outcome.evaluate import Truth, confusion_of, score
from daskfc.runs.outcome.fits import Fit
from daskfc.runs.outcome.quality import quality_of
from daskfc.runs.pipeline.methods import CheckedPipeline

__all__ = ["summary_of", "unfinished_summary"]


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


def _timing(own: Sequence[Fit], fits: Sequence[Fit], total_s: float) -> dict[str, float]:
    stages = list(dict.fromkeys(key for fit in own for key in fit.timing if key != "total_s"))
    each = {key: float(np.mean([fit.timing.get(key, 0.0) for fit in own])) for key in stages}
    whole: dict[str, list[float]] = {}
    for fit in fits:
        whole.setdefault(f"{fit.method}_fit_s", []).append(fit.timing.get("total_s", 0.0))
    return {
        "total_s": total_s,
        **each,
        **{key: float(np.mean(values)) for key, values in whole.items()},
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


def _reconstruction(own: Fit) -> dict[str, Any]:
    """Return the clients' errors of reconstructed similarities and their bounds, if measured."""
    told = own.facts.get("reconstruction")
    if not told:
        return {}
    clients = {
        name: {key: value if math.isfinite(value) else None for key, value in errors.items()}
        for name, errors in told.items()
    }
    return {"reconstruction": clients}


def _privacy(
    communication: Mapping[str, Any],
    fits: Sequence[Fit],
    preparation: pd.DataFrame | None,
    unprotected: str,
) -> dict[str, Any]:
    own = fits[0]
    kinds = communication["by_message"]
    protections: dict[str, int] = {}
    for row in kinds.values():
        protections[row["protection"]] = protections.get(row["protection"], 0) + row["messages"]
    return {
        "statement": f"{own.facts.get('privacy', '')} {unprotected}".strip(),
        "messages_by_protection": protections,
        "reveals": {name: row["reveals"] for name, row in kinds.items()},
        **_noise(fits, preparation),
        **_reconstruction(own),
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
    own = [fit for fit in fits if fit.method == pipeline.method]
    communication = communication_of(own[0].ledger)
    peaks: dict[str, int] = {}
    for fit in own:
        for party, peak in fit.facts.get("peak_memory_bytes", {}).items():
            peaks[party] = max(peaks.get(party, 0), int(peak))
    labels: dict[str, list[np.ndarray]] = {}
    methods: dict[str, dict[str, Any]] = {}
    for fit in fits:
        labels.setdefault(fit.method, []).append(fit.labels.to_numpy())
        methods.setdefault(fit.method, {"note": fit.facts.get("note", "")})
        if "communication" not in methods[fit.method]:
            moved = communication_of(fit.ledger)
            methods[fit.method]["communication"] = {
                key: value for key, value in moved.items() if key != "by_message"
            }
    unprotected = _unprotected(record)
    told = {
        **unfinished_summary(record),
        "privacy": _privacy(communication, own, preparation, unprotected),
        "timing": _timing(own, fits, total_s),
    }
    quality = quality_of(
        own, pipeline.params, record.get("warnings", ()), by_rows=checked.own.split == "samples"
    )
    return {
        **told,
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
        "peak_memory_bytes": peaks,
        "histories": own[0].facts.get("histories", {}),
        "choices": own[0].facts.get("choices", {}),
        "stages": own[0].facts.get("stages", []),
        "map": own[0].facts.get("map", {}),
    }

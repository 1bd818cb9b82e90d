"""Compare runs side by side: settings, results and costs."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.metrics import ari
from daskfc.runs.report.changes import pairs_of_ids

_SIZES = 12  # ours: clusters whose sizes are listed


def comparison(
    names: Sequence[str],
    configs: Sequence[Mapping[str, Any]],
    summaries: Sequence[Mapping[str, Any]],
    labels: Sequence[xr.DataArray | None],
) -> pd.DataFrame:
    """Return one column a run: settings that differ, scores, sizes, bytes, seconds, memory.

    Index ``(part, what)``; None where a run has no value. Agreement is the adjusted Rand index with
    the first run, where both have the same sample ids. Raises InvalidInput for fewer than two runs.
    """
    if len(names) < 2:
        raise InvalidInput(
            f"a comparison needs two runs at least; got {len(names)}. Name another run's folder."
        )
    columns = [_facts(*one) for one in zip(configs, summaries, strict=True)]
    first = labels[0]
    for column, own in zip(columns, labels, strict=True):
        if first is not None and own is not None:
            column["clusters", f"agreement with {names[0]} (ari)"] = _agreement(first, own)
    found = dict.fromkeys(key for column in columns for key in column)
    order = sorted(found, key=lambda key: _PARTS.index(key[0]))
    keys = [key for key in order if _is_told(key, [column.get(key) for column in columns])]
    table = {
        name: [column.get(key) for key in keys]
        for name, column in zip(_told_apart(names), columns, strict=True)
    }
    index = pd.MultiIndex.from_tuples(keys, names=["part", "what"])
    return pd.DataFrame(table, index=index, dtype=object)


_PARTS = ("run", "settings", "scores", "clusters", "cost")


def _is_told(key: tuple[str, str], values: Sequence[Any]) -> bool:
    """Return whether to show a line: of settings only those that differ."""
    if key[0] == "settings":
        return len({repr(value) for value in values}) > 1
    return any(value is not None for value in values)


def _told_apart(names: Sequence[str]) -> list[str]:
    told = [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]
    same = len(set(told)) < len(told)
    return [f"{i}. {name}" for i, name in enumerate(names, 1)] if same else told


def _facts(config: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    method = summary.get("method")
    told: dict[tuple[str, str], Any] = {
        ("run", "method"): method,
        ("run", "status"): summary.get("status"),
        ("run", "samples"): summary.get("n_samples"),
        ("run", "clients"): summary.get("n_clients"),
    }
    pipeline = config.get("pipeline") or {}
    settings = {**pipeline.get("params", {}), "prepare": pipeline.get("prepare")}
    settings |= {key: config.get(key) for key in ("storage_source", "seeds")}
    settings["daskfc"] = (config.get("versions") or {}).get("daskfc")
    told.update({("settings", key): value for key, value in settings.items()})
    for name, value in (summary.get("metrics") or {}).get(method, {}).items():
        told["scores", name] = value["mean"]
    quality = summary.get("quality") or {}
    sizes = sorted(quality.get("sizes", {}).values(), reverse=True)
    if sizes:
        listed = ", ".join(map(str, sizes[:_SIZES]))
        told["clusters", "clusters"] = len(sizes)
        told["clusters", "sizes"] = listed + (", ..." if len(sizes) > _SIZES else "")
    for key in ("silhouette", "modularity", "stability"):
        told["clusters", key] = quality.get(key)
    moved = summary.get("communication") or {}
    noise = (summary.get("privacy") or {}).get("noise") or {}
    told["cost", "messages"] = moved.get("messages")
    told["cost", "payload bytes"] = moved.get("payload_bytes")
    told["cost", "epsilon of a fit"] = noise.get("epsilon")
    told["cost", "seconds of a fit"] = (summary.get("timing") or {}).get(f"{method}_fit_s")
    told["cost", "seconds in all"] = (summary.get("timing") or {}).get("total_s")
    peaks = (summary.get("peak_memory_bytes") or {}).values()
    told["cost", "peak memory of a party, bytes"] = max(peaks, default=None)
    return told


def _agreement(first: xr.DataArray, other: xr.DataArray) -> float | None:
    """Return the adjusted Rand index of two runs with the same sample ids, each once."""
    pairs = pairs_of_ids(first, other)
    # with ids missing or repeated these are other samples, of which some may have equal ids
    same = len(pairs) == first.sizes["sample"] == other.sizes["sample"]
    return float(ari(pairs[:, 0], pairs[:, 1])) if same else None

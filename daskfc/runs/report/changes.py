"""Compare a run with an earlier one: clusters matched to its, their shares and profiles.

Samples are matched where that reveals nothing new to the caller: by clear ids, or row by row where
the stores can be read from here and are those of the earlier run, or grew from them. Pseudonyms of
two runs have nothing in common, so otherwise clusters are matched by their profiles.
"""

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import linear_sum_assignment

from daskfc.errors import InvalidInput
from daskfc.metrics import ari
from daskfc.runs.outcome.folder import RunFolder
from daskfc.stores import ClientStore
from daskfc.stores.building.appending import rows_of_before

_FEATURES = 12  # ours: features of a cluster that are listed, those that moved most
HEAD = ("cluster", "was", "share", "share before", "stayed", "what moved most")


def earlier_run(
    run: str | PathLike[str], stores: Mapping[str, ClientStore] | None
) -> dict[str, Any]:
    """Return ``run_id``, ``folder`` and ``shared`` of a finished run to compare a new one with.

    ``shared`` counts each client's first rows that both runs read; it is empty without `stores`.
    """
    folder = RunFolder(run)
    record = folder.done_record("a run is compared with one that is done; this one's")
    digests = record.get("contents") or {}
    shared = {
        name: rows
        for name, store in (stores or {}).items()
        if (rows := rows_of_before(store, str(digests.get(name))))
    }
    return {"run_id": record["run_id"], "folder": str(folder.path.absolute()), "shared": shared}


def changes_since(
    record: Mapping[str, Any], labels: xr.DataArray, profiles: Mapping[str, Any], *, by_rows: bool
) -> dict[str, Any]:
    """Return what changed since the run that ``record`` names; empty where it names none.

    ``labels`` ``(sample,)`` are of the first fit; ``by_rows`` says that rows may be matched.
    """
    told = record.get("since")
    if not told:
        return {}
    try:
        folder = RunFolder(told["folder"])
        old, summary = folder.record, folder.summary
        method, seed = old["pipeline"]["method"], old["pipeline"]["seeds"][0]
        before = folder.read_labels()["labels"].sel(algorithm=method, seed=seed)
    except InvalidInput:
        why = f"the folder of run {told['run_id']!r} cannot be read any more."
        return {"since": told["run_id"], "by": None, "why": why, "clusters": []}
    pairs, by = None, None
    if not (record.get("pseudonyms") or old.get("pseudonyms")):
        pairs, by = pairs_of_ids(labels, before), "ids"
    elif by_rows and told["shared"]:
        pairs, by = _pairs_of_rows(labels, before, told["shared"]), "rows"
    if pairs is not None and not len(pairs):
        pairs, by = None, None
    past = summary.get("profiles") or {}
    was: dict[int, int] = {}
    if pairs is not None:
        was = _matched_by_samples(pairs)
    elif matched := _matched_by_profiles(profiles, past):
        was, by = matched, "profiles"
    shares, shares_before = _shares(labels.to_numpy()), _shares(before.to_numpy())
    return {
        "since": told["run_id"],
        "method_before": method,
        "by": by,
        "why": _WHY[by],
        "n_samples": int(labels.sizes["sample"]),
        "n_samples_before": int(before.sizes["sample"]),
        "n_shared": None if pairs is None else len(pairs),
        "agreement": None if pairs is None else float(ari(pairs[:, 1], pairs[:, 0])),
        "stayed": None if pairs is None else _stayed(pairs, was, None),
        "clusters": [
            {
                "cluster": c,
                "before": was.get(c),
                "share": share,
                "share_before": shares_before.get(was.get(c, -1)),
                "stayed": _stayed(pairs, was, c) if pairs is not None and c in was else None,
                "profile": _drift(profiles, past, c, was[c]) if c in was else [],
            }
            for c, share in shares.items()
        ],
        "gone": {
            str(c): share for c, share in shares_before.items() if by and c not in was.values()
        },
    }


_WHY = {
    "ids": "clusters are matched by the samples of both runs, which have clear ids.",
    "rows": "clusters are matched by the rows of the stores that both runs read.",
    "profiles": "clusters are matched by their profiles, as samples of two runs have different "
    "pseudonyms.",
    None: "clusters are not matched: the runs share no sample that is known here, and not both "
    "have profiles. Say 'profiles: true' in the pipeline.",
}


def pairs_of_ids(now: xr.DataArray, before: xr.DataArray) -> np.ndarray:
    """Return (cluster now, cluster before) of the samples of both; none where ids repeat."""
    a, b = (
        pd.Series(one.to_numpy(), index=one["sample_id"].to_numpy().astype(str))
        for one in (now, before)
    )
    if not (a.index.is_unique and b.index.is_unique):
        return np.empty((0, 2), dtype=np.int64)
    both = a.index[a.index.isin(b.index)]
    return np.column_stack([a.loc[both].to_numpy(), b.loc[both].to_numpy()])


def _pairs_of_rows(
    now: xr.DataArray, before: xr.DataArray, shared: Mapping[str, int]
) -> np.ndarray:
    """Return (cluster now, cluster before) of each client's first rows, which both runs read."""
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for client, rows in shared.items():
        a, b = (one.to_numpy()[one["client"].to_numpy().astype(str) == client]
                for one in (now, before))  # fmt: skip
        if len(b) == rows <= len(a):
            pairs.append(np.column_stack([a[:rows], b]))
    return np.concatenate(pairs)


def _matched_by_samples(pairs: np.ndarray) -> dict[int, int]:
    """Match clusters to earlier ones, one to one, so that most samples stay where they were."""
    pairs = pairs[(pairs >= 0).all(axis=1)]  # noise is no cluster
    if not len(pairs):
        return {}
    now, a = np.unique(pairs[:, 0], return_inverse=True)
    before, b = np.unique(pairs[:, 1], return_inverse=True)
    counts = np.zeros((len(now), len(before)))
    np.add.at(counts, (a, b), 1)
    matched = zip(*linear_sum_assignment(counts, maximize=True), strict=True)
    return {int(now[i]): int(before[j]) for i, j in matched if counts[i, j]}


def _matched_by_profiles(profiles: Mapping[str, Any], past: Mapping[str, Any]) -> dict[int, int]:
    """Match clusters to earlier ones with the nearest means in deviations, one to one."""
    if not (profiles.get("clusters") and past.get("clusters")):
        return {}
    spread = dict(zip(past["columns"], past["overall_std"], strict=True))
    common = [name for name in profiles["columns"] if spread.get(name)]
    if not common:
        return {}
    a, b = (_means(own, common) / [spread[name] for name in common] for own in (profiles, past))
    apart = np.square(a[:, None] - b[None])
    known = np.isfinite(apart)
    usual = apart[known].sum() / max(1, known.sum())  # what is withheld makes no cluster nearer
    off = np.where(known, apart, usual).sum(axis=2)
    matched = zip(*linear_sum_assignment(off), strict=True)
    return {profiles["clusters"][i]: past["clusters"][j] for i, j in matched}


def _means(profiles: Mapping[str, Any], columns: list[str]) -> np.ndarray:
    at = [profiles["columns"].index(name) for name in columns]
    return np.array(profiles["means"], dtype=np.float64)[:, at]  # None becomes NaN


def _shares(labels: np.ndarray) -> dict[int, float]:
    found, counts = np.unique(labels, return_counts=True)
    return {
        int(c): int(count) / labels.size for c, count in zip(found, counts, strict=True) if c >= 0
    }


def _stayed(pairs: np.ndarray, was: Mapping[int, int], cluster: int | None) -> float | None:
    """Return the share of common samples, all or one cluster's, that stayed in their cluster."""
    of = np.ones(len(pairs), dtype=bool) if cluster is None else pairs[:, 1] == was[cluster]
    if not of.any():
        return None
    # noise that stayed noise is where it was
    there = [was.get(int(c), -2 if c >= 0 else -1) for c in pairs[of, 0]]
    return float(np.mean(np.array(there) == pairs[of, 1]))


def _drift(
    profiles: Mapping[str, Any], past: Mapping[str, Any], cluster: int, before: int
) -> list[dict[str, Any]]:
    """Return the features whose mean moved most in a cluster, in deviations of all samples."""
    if cluster not in profiles.get("clusters", ()) or before not in past.get("clusters", ()):
        return []
    spread = dict(zip(past["columns"], past["overall_std"], strict=True))
    old = dict(zip(past["columns"], past["means"][past["clusters"].index(before)], strict=True))
    new = zip(
        profiles["columns"], profiles["means"][profiles["clusters"].index(cluster)], strict=True
    )
    moved = [
        {"feature": name, "mean": mean, "before": old[name],
         "shift": (mean - old[name]) / spread[name]}
        for name, mean in new
        if mean is not None and old.get(name) is not None and spread.get(name)
    ]  # fmt: skip
    return sorted(moved, key=lambda one: -abs(one["shift"]))[:_FEATURES]


def changes_rows(changes: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each cluster, and for each that is gone; see `HEAD`."""
    rows = []
    new = "new" if changes["by"] else ""  # where nothing is matched nothing is known to be new
    for one in changes["clusters"]:
        moved = next(iter(one["profile"]), None)
        rows.append(
            [
                str(one["cluster"]),
                new if one["before"] is None else str(one["before"]),
                *(_share(one[name]) for name in ("share", "share_before", "stayed")),
                f"{moved['feature']}: {moved['before']:.4g} to {moved['mean']:.4g}"
                if moved
                else "",
            ]
        )
    return rows + [
        ["gone", c, "", _share(share), "", ""] for c, share in changes.get("gone", {}).items()
    ]


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def changes_in_words(changes: Mapping[str, Any]) -> str:
    """Return in words how many samples are new, how many stayed, and how they were matched."""
    head = f"Since run {changes['since']}"
    if "n_samples" not in changes:
        return f"{head}: {changes['why']}"
    head += f", of {changes['n_samples_before']:,} samples, now {changes['n_samples']:,}"
    if changes["n_shared"] is None:
        return f"{head}: {changes['why']}"
    return (
        f"{head}: {changes['stayed']:.1%} of {changes['n_shared']:,} shared ones stayed where they "
        f"were (adjusted Rand index {changes['agreement']:.3f}); {changes['why']}"
    )

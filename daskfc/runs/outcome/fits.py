"""Store the fits of a run and its chosen number of clusters, each as soon as it is done."""

import hashlib
import io
import json
import logging
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.folders import whole_folder
from daskfc.runs.pipeline.methods import STABILITY

log = logging.getLogger("daskfc.runs")

_ARRAYS = ("labels.npz", "ledger.parquet")
_CHOICE = "choice of n_clusters"  # its name among a run's fits
_WHY = {
    "silhouette": "how much nearer samples are to their own cluster than to the next one, from "
    "the server's distances",
    "modularity": "how much more often nearest neighbours are in one cluster than by chance, from "
    "the server's distances",
    "silhouette-modularity": "silhouette times modularity: clusters far from each other, whose "
    "samples have their nearest neighbours among them, from the server's distances",
    "calinski-harabasz": "variance between clusters over variance within, from the server's "
    "distances",
    "eigengap": "the gap after as many eigenvalues of the Laplacian of the samples' graph or "
    "similarities, which the server has",
    "gap": "how much tighter clusters are than those of uniform samples; the least number whose "
    "gap is that of the next one or more, but for the next one's error by chance, and else the "
    "largest",
    STABILITY: "how well fits agree (adjusted Rand index) with other seeds, and with features "
    "shifted by chance by a tenth of their deviation; of numbers that are as stable, the largest",
}


@dataclass(frozen=True)
class Fit:
    """One fit as it is kept: int64 labels ``(sample,)``, ledger, seconds by stage, facts."""

    method: str
    seed: int
    labels: xr.DataArray
    ledger: pd.DataFrame
    timing: Mapping[str, float]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """A number of clusters, the criterion, all candidates' scores (or None) and the messages.

    `parts` has the scores by the criteria of which this one is made, by name.
    """

    n_clusters: int
    by: str
    scores: Mapping[int, float | None]
    ledger: pd.DataFrame
    errors: Mapping[int, float] = field(default_factory=dict)
    parts: Mapping[str, Mapping[int, float | None]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, the fields but for the messages, and ``why`` in words."""
        return {
            "n_clusters": self.n_clusters,
            "by": self.by,
            "why": _WHY.get(self.by, ""),
            "scores": _named(self.scores),
            "errors": _named(self.errors),
            "parts": {name: _named(part) for name, part in self.parts.items()},
        }


def _named(scores: Mapping[int, Any]) -> dict[str, Any]:
    return {str(k): score for k, score in scores.items()}


def _numbered(scores: Mapping[str, Any]) -> dict[int, Any]:
    return {int(k): score for k, score in scores.items()}


def folder_name(method: str) -> str:
    """Return a method's name as part of a folder's name."""
    plain = re.sub(r"[^A-Za-z0-9-]", "_", method)
    return plain if plain == method else f"{plain}-{_digest(method.encode())[:8]}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class FitShelf:
    """Finished fits in a folder, each whole or absent; fits with other `settings` are ignored."""

    def __init__(self, path: str | Path, settings: str = "") -> None:
        self.path = Path(path)
        self.settings = settings
        self.path.mkdir(parents=True, exist_ok=True)
        for left in self.path.glob(".*"):  # of a process that was killed while it wrote
            shutil.rmtree(left, ignore_errors=True)

    def _place(self, method: str, seed: int) -> Path:
        return self.path / f"{folder_name(method)}-{seed}"

    def put(self, fit: Fit) -> None:
        """Keep a fit."""
        place = self._place(fit.method, fit.seed)
        with whole_folder(place) as partial:
            self._write(partial, fit)
            shutil.rmtree(place, ignore_errors=True)

    def put_choice(self, choice: Choice, seed: int) -> None:
        """Keep a choice, so that a resumed run goes on with it."""
        none = ("sample", np.empty(0, dtype=str))
        labels = xr.DataArray(
            np.empty(0, dtype=np.int64), dims="sample", coords={"client": none, "sample_id": none}
        )
        self.put(Fit(_CHOICE, seed, labels, choice.ledger, {}, choice.as_dict()))

    def get_choice(self, seed: int) -> Choice | None:
        """Return the choice that was kept, or None."""
        fit = self.get(_CHOICE, seed)
        if fit is None:
            return None
        facts = fit.facts
        return Choice(
            facts["n_clusters"],
            facts["by"],
            _numbered(facts["scores"]),
            fit.ledger,
            _numbered(facts.get("errors", {})),
            {name: _numbered(part) for name, part in facts.get("parts", {}).items()},
        )

    def _write(self, folder: Path, fit: Fit) -> None:
        labels = fit.labels
        owners = labels["client"].to_numpy().astype(str)
        names, codes = np.unique(owners, return_inverse=True)
        np.savez_compressed(
            folder / "labels.npz",
            labels=labels.to_numpy().astype(np.int64),
            clients=names,
            owners=codes.astype(np.int32),
            sample_ids=labels["sample_id"].to_numpy().astype(str),
        )
        fit.ledger.to_parquet(folder / "ledger.parquet", index=False)
        about = {
            "method": fit.method, "seed": fit.seed, "timing": dict(fit.timing),
            "facts": dict(fit.facts), "settings": self.settings,
            "sha256": {name: _digest((folder / name).read_bytes()) for name in _ARRAYS},
        }  # fmt: skip
        text = json.dumps(about)
        sealed = {"fit": text, "sha256": _digest(text.encode())}
        (folder / "fit.json").write_text(json.dumps(sealed), encoding="utf-8")

    def get(self, method: str, seed: int) -> Fit | None:
        """Return a finished fit; None if there is none that can be read."""
        place = self._place(method, seed)
        if not place.is_dir():
            return None
        try:
            return self._read(place)
        except Exception as error:  # libraries raise anything for damaged bytes
            kind = type(error).__name__
            log.warning("%s, seed %d: its fit is damaged (%s), fit again", method, seed, kind)
            return None

    def _read(self, place: Path) -> Fit | None:
        sealed = json.loads((place / "fit.json").read_text(encoding="utf-8"))
        text = sealed["fit"]
        about = json.loads(text)
        files = {name: (place / name).read_bytes() for name in _ARRAYS}
        found = {name: _digest(data) for name, data in files.items()}
        if _digest(text.encode()) != sealed["sha256"] or found != about["sha256"]:
            raise ValueError("other bytes than were written")
        if about["settings"] != self.settings:
            return None
        with np.load(io.BytesIO(files["labels.npz"]), allow_pickle=False) as kept:
            labels = xr.DataArray(
                kept["labels"],
                dims="sample",
                coords={
                    "client": ("sample", kept["clients"][kept["owners"]]),
                    "sample_id": ("sample", kept["sample_ids"]),
                },
                name="label",
            )
        ledger = pd.read_parquet(io.BytesIO(files["ledger.parquet"]))
        return Fit(about["method"], about["seed"], labels, ledger, about["timing"], about["facts"])


def labels_cube(fits: Sequence[Fit]) -> xr.Dataset:
    """Join the labels of all fits over (algorithm, seed, sample); raise if samples differ."""
    first = fits[0].labels
    methods = list(dict.fromkeys(fit.method for fit in fits))
    seeds = list(dict.fromkeys(fit.seed for fit in fits))
    cube = np.empty((len(methods), len(seeds), first.sizes["sample"]), dtype=np.int64)
    for fit in fits:
        same = fit.labels.sizes == first.sizes and all(
            np.array_equal(fit.labels[c].to_numpy().astype(str), first[c].to_numpy().astype(str))
            for c in ("client", "sample_id")
        )
        if not same:
            raise InvalidInput(
                f"{fit.method} (seed {fit.seed}) labelled other samples than {fits[0].method} "
                f"(seed {fits[0].seed}): a store changed during the run. Start a new run."
            )
        cube[methods.index(fit.method), seeds.index(fit.seed)] = fit.labels.to_numpy()
    return xr.Dataset(
        {"labels": (("algorithm", "seed", "sample"), cube)},
        coords={
            "algorithm": np.array(methods, dtype=object),
            "seed": np.array(seeds, dtype=np.int64),
            "client": ("sample", first["client"].to_numpy().astype(object)),
            "sample_id": ("sample", first["sample_id"].to_numpy().astype(object)),
        },
    )

"""Fits of ESFMC and of what it is compared with, and attacks on what it shares."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.baselines import JoinedViews, OneView
from daskfc.federation import Federation
from daskfc.federation.estimator import FederatedClusterer
from daskfc.metrics import all_metrics
from daskfc.protocols import ESFMC
from daskfc.protocols.esfmc.privacy import inversion_error
from daskfc.protocols.esfmc.settings import recipe
from daskfc.protocols.esfmc.training import ViewModel
from daskfc.stores import ClientStore
from pipelines.papers import federations
from pipelines.papers.esfmc.values import METRICS, Dataset
from pipelines.papers.journal import Record

__all__ = ["BASELINES", "Opened", "attacked", "made", "opened", "scored"]

BASELINES: dict[str, tuple[type[FederatedClusterer], dict[str, Any]]] = {
    "all columns, k-means": (JoinedViews, {"clusterer": "k-means"}),
    "all columns, spectral": (JoinedViews, {"clusterer": "spectral"}),
    "one view, spectral": (OneView, {}),
}
KINDS = ("labels", "assignments", "z_c", "z_x", "z")  # what may be shared, least first


class Opened:
    """A federation of one client a view, with its stores here, for evaluation.

    Parameters
    ----------
    federation : Federation
        Running.
    stores : dict of str to ClientStore
        Of the clients.
    """

    def __init__(self, federation: Federation, stores: dict[str, ClientStore]) -> None:
        self.federation = federation
        self.stores = stores
        self._classes: dict[str, int] = {}
        for store in stores.values():
            ids = store.sample_ids().tolist()
            self._classes |= dict(zip(ids, federations.true_labels(store).tolist(), strict=True))

    def scores(self, model: FederatedClusterer) -> Record:
        """Return the metrics of a fit's labels, every sample counted once."""
        true = [self._classes[name] for name in model.labels_["sample_id"].to_numpy().tolist()]
        assert len(true) == len(self._classes)
        return all_metrics(np.array(true), model.labels_.to_numpy(), METRICS)


@contextmanager
def opened(
    data: Dataset, folder: Path, seed: int, overlap: float = 1.0, samples: int | None = None
) -> Iterator[Opened]:
    """Open a federation whose clients hold the views of a data set.

    Parameters
    ----------
    data : Dataset
        Which.
    folder : Path
        Where its file is.
    seed : int
        Of what views lack.
    overlap : float
        φ.
    samples : int, optional
        At most so many, for a first look.
    """
    source: dict[str, Any] = {"path": str(folder / data.file), "scaling": data.scaling}
    if samples is not None:
        source["subsample"] = {"n": samples, "seed": 0}
    partition = {"scheme": "views", "overlap": overlap, "seed": seed}
    with tempfile.TemporaryDirectory(prefix="paper-") as place:
        storage = {"source": source, "partition": partition, "root": place}
        with federations.opened(storage) as (federation, stores):
            yield Opened(federation, stores)


def made(data: Dataset, seed: int, **params: Any) -> ESFMC:
    """Return ESFMC with a data set's number of clusters."""
    return ESFMC(data.n_clusters, random_state=seed, **params)


def scored(held: Opened, model: FederatedClusterer, **about: Any) -> Record:
    """Fit, and return metrics and seconds."""
    model.fit(held.federation)
    rounds = {"rounds": model.n_rounds_} if isinstance(model, ESFMC) else {}
    seconds = model.timing_["total_s"]
    return {**about, **held.scores(model), **rounds, "seconds": seconds}


def attacked(dataset: Dataset, held: Opened, seed: int, **about: Any) -> Iterator[Record]:
    """Train each client's networks on the labels of a fit; rebuild its rows from what they share.

    Parameters
    ----------
    dataset : Dataset
        Which.
    held : Opened
        Its federation, with complete views.
    seed : int
        Of fit, networks and attack.

    Yields
    ------
    Record
        One for each client and kind of what is shared.
    """
    model = made(dataset, seed).fit(held.federation)
    found = dict(zip(model.labels_["sample_id"].to_numpy(), model.labels_.to_numpy(), strict=True))
    for client, store in held.stores.items():
        rows = store.rows(0, store.n_samples).astype(np.float32)
        labels = np.array([found[name] for name in store.sample_ids().tolist()])
        chosen = recipe("robust", len(rows))
        network = ViewModel.begin(rows.shape[1], dataset.n_clusters, chosen.network, seed=seed)
        network.pretrain(rows, settings=chosen.training)
        for number in range(1, model.n_rounds_ + 1):
            network.train(rows, labels, settings=chosen.training, round=number)
        made_of = network.features(rows)
        shared: dict[str, NDArray[Any]] = {"labels": np.eye(dataset.n_clusters)[labels]}
        shared |= {kind: getattr(made_of, kind) for kind in KINDS[1:]}
        for kind, features in shared.items():
            error = inversion_error(features, rows, seed=seed)
            yield {**about, "seed": seed, "view": client, "shared": kind, "error": error}

"""Fits of ESFMC and of what it is compared with, and attacks on what it shares."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from daskfc.baselines import JoinedViews, OneView
from daskfc.federation import Federation
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.parameters import picked
from daskfc.metrics import all_metrics
from daskfc.protocols import ESFMC
from daskfc.protocols.esfmc.networks.training import ViewModel
from daskfc.protocols.esfmc.networks.units import Units
from daskfc.protocols.esfmc.party import SHARED, ClientSettings
from daskfc.protocols.esfmc.privacy import inversion_error
from daskfc.stores import ClientStore
from pipelines.papers import federations
from pipelines.papers.esfmc.values import METRICS, Dataset
from pipelines.papers.journal import Record

__all__ = [
    "BASELINES",
    "Opened",
    "attacked",
    "losses_of",
    "made",
    "opened",
    "scored",
    "variant",
]

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
        owners: Counter[str] = Counter()
        for store in stores.values():
            ids = store.sample_ids().tolist()
            self._classes |= dict(zip(ids, federations.true_labels(store).tolist(), strict=True))
            owners.update(ids)
        views = len({store.feature_names for store in stores.values()})
        self._everywhere = {name for name, count in owners.items() if count == views}

    def scores(self, model: FederatedClusterer) -> Record:
        """Return the metrics of a fit's labels, every sample counted once.

        Where some view lacks some sample, also the accuracy of those that all have ("acc_in_all"),
        and of the others ("acc_others").
        """
        names = model.labels_["sample_id"].to_numpy().tolist()
        labels = model.labels_.to_numpy()
        true = np.array([self._classes[name] for name in names])
        assert len(true) == len(self._classes)
        found = all_metrics(true, labels, METRICS)
        in_all = np.array([name in self._everywhere for name in names])
        if not in_all.all():
            for key, rows in {"acc_in_all": in_all, "acc_others": ~in_all}.items():
                found[key] = all_metrics(true[rows], labels[rows], ("acc",))["acc"]
        return found


@contextmanager
def opened(
    data: Dataset,
    folder: Path,
    seed: int,
    overlap: float = 1.0,
    samples: int | None = None,
    clients_per_view: int = 1,
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
    clients_per_view : int
        Among whom the samples of a view are divided.
    """
    source: dict[str, Any] = {"path": str(folder / data.file), "scaling": data.scaling}
    if samples is not None:
        source["subsample"] = {"n": samples, "seed": 0}
    partition = {"scheme": "views", "overlap": overlap, "seed": seed}
    partition["clients_per_view"] = clients_per_view
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


def timed(held: Opened, models: Iterable[ESFMC], **about: Any) -> Record:
    """Fit twice in the same processes, where networks are compiled once; where the second spends.

    Seconds from the first message of a fit to the last features of the first round, from there to
    those of the other rounds, and to the server's report of each round.
    """
    seconds = []
    for model in models:
        model.fit(held.federation)
        seconds.append(model.timing_["total_s"])
    rows = sorted(model.ledger_, key=lambda row: row.time)
    clients, server, mark = [], 0.0, rows[0].time
    for number in range(1, model.n_rounds_ + 1):
        told = {r.message: r.time for r in rows if r.round == number}  # the last of each kind
        clients.append(told["SharedFeatures"] - mark)
        mark = told["RoundReport"]
        server += mark - told["SharedFeatures"]
    first, *others = clients
    split = {"first_round": first, "other_rounds": sum(others), "server": server}
    return {
        **about,
        "seconds": seconds[0],
        "again": seconds[-1],
        "rounds": model.n_rounds_,
        **split,
    }


def losses_of(model: ESFMC, **about: Any) -> Iterator[Record]:
    """Yield the losses of a fit's clients, epoch by epoch."""
    for name, clients in model.histories.items():
        for client, losses in clients.items():
            yield {**about, "kind": "losses", "term": name, "client": client, "losses": losses}


def attacked(
    held: Opened, model: ESFMC, kinds: Sequence[str] = KINDS, **about: Any
) -> Iterator[Record]:
    """Train each client's networks on the labels of a fit; rebuild its rows from what they share.

    Parameters
    ----------
    held : Opened
        A federation with complete views.
    model : ESFMC
        Fitted on it.
    kinds : sequence of str
        What may be shared.

    Yields
    ------
    Record
        One for each client and kind of what is shared.
    """
    seed = model.random_state
    settings = picked(ClientSettings, model, aligned=False, complete=True)
    found = dict(zip(model.labels_["sample_id"].to_numpy(), model.labels_.to_numpy(), strict=True))
    for client, store in held.stores.items():
        rows = store.rows(0, store.n_samples)
        labels = np.array([found[name] for name in store.sample_ids().tolist()])
        chosen = settings.of(*rows.shape)
        shape = (rows.shape[1], model.n_clusters, chosen.network)
        units = Units.of(rows) if chosen.own_units else None
        network = ViewModel.begin(*shape, seed=seed, units=units)
        network.pretrain(rows, settings=chosen.training)
        for number in range(1, model.n_rounds_ + 1):
            network.train(rows, labels, settings=chosen.training, round=number)
        made_of = network.features(rows)
        for kind in kinds:
            labelled = np.eye(model.n_clusters)[labels]
            features = labelled if kind == "labels" else getattr(made_of, kind)
            error = inversion_error(features, rows, seed=seed)
            yield {**about, "seed": seed, "view": client, "shared": kind, "error": error}


def variant(held: Opened, model: ESFMC, **about: Any) -> Record:
    """Return metrics of a fit, and the error of rows that are rebuilt from what it shares.

    The error is the mean over clients; "labels_error" is that of labels alone, which any variant
    tells.
    """
    record = scored(held, model, **about)
    kind = SHARED[model.share]
    attacks = list(attacked(held, model, ("labels", kind)))
    for key, shared in {"error": kind, "labels_error": "labels"}.items():
        record[key] = fmean(one["error"] for one in attacks if one["shared"] == shared)
    return record

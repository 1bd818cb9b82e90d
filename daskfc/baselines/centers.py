"""Cluster centres as messages, and what baselines that end in centres have in common."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from daskfc.baselines.lloyd import assign
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, Message, PerClient, Sent, array
from daskfc.federation.estimator import FederatedClusterer, labels_array
from daskfc.federation.samples import LabelledSamples, own_labels
from daskfc.stores import ClientStore

__all__ = ["CenterClusterer", "GlobalCenters", "global_centers", "nearest_labels", "nearest_of_new"]


class GlobalCenters(
    Message,
    route=("server → client", "server → caller"),
    reveals="the means of the clusters over all clients",
):
    """The centres of the clusters over all clients."""

    centers: np.ndarray = array("n_clusters", "n_features", dtype="float64")


def global_centers(centers: np.ndarray) -> GlobalCenters:
    """Make a message of the server's centres, ``(n_clusters, d)`` float64."""
    return GlobalCenters(np.ascontiguousarray(centers))


def nearest_labels(data: ClientStore, centers: GlobalCenters) -> LabelledSamples:
    """Label a client's samples with the nearest centre."""
    return own_labels(data, assign(data, centers.centers))


def nearest_of_new(url: str, centers: np.ndarray) -> LabelledSamples:
    """Label the samples of another store of a client with the nearest centre.

    Parameters
    ----------
    url : str
        The store, reachable by the client.
    centers : numpy.ndarray
        ``(n_clusters, d)`` float64.

    Returns
    -------
    LabelledSamples
        In the order of the store.
    """
    data = ClientStore.open(url)
    return own_labels(data, assign(data, centers))


def predict_new(
    federation: Federation, step: Callable[..., Any], stores: Mapping[str, str], *args: object
) -> xr.DataArray:
    """Run a step on a new store of each named client and join the labels.

    Parameters
    ----------
    federation : Federation
        The parties, running.
    step : callable
        ``step(url, *args)`` to `LabelledSamples`.
    stores : mapping of str to str
        The clients and the URLs of their new stores.
    *args : object
        What the step needs of the model.

    Returns
    -------
    xarray.DataArray
        ``(sample,)`` int64 with the coordinates ``client`` and ``sample_id``.
    """
    sent = {
        name: federation.publish(step, url, *args, party=name, wait=False)
        for name, url in stores.items()
    }
    found: dict[str, Any] = {name: one.result() for name, one in sent.items()}
    return labels_array(found)


class CenterClusterer(FederatedClusterer):
    """Base of the baselines whose model is one centre per cluster.

    Attributes
    ----------
    cluster_centers_ : numpy.ndarray
        ``(n_clusters, n_features)`` float64, published by the server.
    """

    split: ClassVar = "samples"
    n_clusters: int
    cluster_centers_: np.ndarray

    def predict(self, federation: Federation, stores: Mapping[str, str]) -> xr.DataArray:
        """Label new samples with the nearest of ``cluster_centers_``.

        Parameters
        ----------
        federation : Federation
            The parties, running; need not be the one of ``fit``.
        stores : mapping of str to str
            For each client with new samples, the URL of a store that it can read.

        Returns
        -------
        xarray.DataArray
            ``(sample,)`` int64 with the coordinates ``client`` and ``sample_id``.

        Raises
        ------
        InvalidInput
            When a name is no client of the federation, or a store has other columns than those of
            ``fit``.
        """
        self._start_predict(stores, federation)
        return predict_new(federation, nearest_of_new, stores, self.cluster_centers_)

    def _check_local_clusters(self, n_local_clusters: int | None, n_clients: int | None) -> None:
        if n_local_clusters is None:
            return
        owner = type(self).__name__
        if n_local_clusters > self.n_clusters:
            raise InvalidInput(
                f"the 'n_local_clusters' parameter of {owner} must be at most 'n_clusters', "
                f"{self.n_clusters}; got {n_local_clusters}. Lower it."
            )
        if n_clients is not None and n_local_clusters * n_clients < self.n_clusters:
            raise InvalidInput(
                f"{owner} needs a local centre for each of {self.n_clusters} clusters; "
                f"{n_clients} clients send {n_local_clusters} each. Raise 'n_local_clusters'."
            )

    def _publish_centers(self, federation: Federation, centers: Local) -> None:
        self.cluster_centers_ = federation.publish(global_centers, centers).centers

    def _nearest_labels(self, federation: Federation, centers: Local) -> PerClient[Sent]:
        told = federation.tell(global_centers, centers)
        return federation.publish(nearest_labels, told, party="clients", wait=False)

"""Cluster centres as messages, and what baselines with centres, or with rounds, share."""

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskfc.baselines.centers.lloyd import assign
from daskfc.checks import integer
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, Message, PerClient, Sent, array
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.samples import Labelled, LabelledSamples, NewStores, own_labels
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_many_as_announced, takes
from daskfc.stores import ClientStore


class GlobalCenters(
    Message,
    route=("server → client", "server → caller"),
    reveals="the means of the clusters over all clients",
):
    """The centres of the clusters over all clients."""

    centers: np.ndarray = array("n_clusters", "n_features", dtype="float64")


def nearest_labels(data: ClientStore, centers: GlobalCenters) -> LabelledSamples:
    """Label a client's samples with the nearest centre."""
    return own_labels(data, assign(data, centers.centers))


@takes(centers=as_many_as_announced)
def nearest_of_new(
    new: ClientStore, centers: np.ndarray, site: SiteRules = FREE
) -> LabelledSamples:
    """Label new samples of a client with the nearest of ``(n_clusters, d)`` centres."""
    site.check_model(centers)
    return own_labels(new, assign(new, centers))


def relative_shift(before: np.ndarray, after: np.ndarray) -> float:
    """Return how far an array moved, relative to its norm."""
    return float(np.linalg.norm(after - before)) / max(float(np.linalg.norm(after)), 1e-300)


def until_rest(
    model: Any, federation: Federation, turn: Callable[[int], float], what: str, whose: str
) -> None:
    """Take turns, each a round, until one moves little; warn where the last one still moves."""
    shift = 0.0
    for number in range(1, model.max_rounds + 1):
        federation.next_round()
        model.n_rounds_ = number
        shift = turn(number)
        if shift <= model.tolerance:
            return
    warnings.warn(
        f"{type(model).__name__}'s {what} still moved by {shift:.1e} of {whose} norm in round "
        f"{model.max_rounds}, more than the tolerance {model.tolerance:.1e}. Raise 'max_rounds'.",
        ConvergenceWarning,
        stacklevel=5,
    )


class CenterClusterer(FederatedClusterer):
    """Base of the baselines whose model is one centre per cluster, ``(n_clusters, n_features)``."""

    split: ClassVar = "samples"
    model_at_parties: ClassVar = False

    n_clusters: int = param(integer(low=1), kw_only=False)

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        """Label new samples with the nearest of ``cluster_centers_``."""
        return federation.publish(
            nearest_of_new, new, self.cluster_centers_, party=tuple(new), wait=False
        )

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

    def _publish_centers(self, federation: Federation, centers: Local[GlobalCenters]) -> None:
        self.cluster_centers_ = federation.publish(centers).centers

    def _nearest_labels(
        self, federation: Federation, centers: Local[GlobalCenters]
    ) -> PerClient[Sent]:
        sent = federation.tell(centers)
        return federation.publish(nearest_labels, sent, party="clients", wait=False)

"""Scores against true labels, which the clients hold apart from their data."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Message, array
from daskfc.metrics import all_metrics
from daskfc.stores import ClientStore

__all__ = ["EvaluationLabels", "evaluation_labels", "score", "true_labels"]


@dataclass(frozen=True)
class EvaluationLabels(Message):
    """The true labels of one client's samples, in the order of its store; none if it has none."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → caller"
    reveals: ClassVar = "evaluation only: to the caller the true label of every sample"
    labels: np.ndarray = array("sample", dtype="int64")


def evaluation_labels(data: ClientStore) -> EvaluationLabels:
    """Read a client's evaluation labels.

    Parameters
    ----------
    data : ClientStore
        The client's samples.

    Returns
    -------
    EvaluationLabels
        ``(n_samples,)`` int64, or ``(0,)`` when the store holds none.
    """
    labels = data.labels()
    return EvaluationLabels(
        np.zeros(0, dtype=np.int64) if labels is None else np.asarray(labels, dtype=np.int64)
    )


def true_labels(federation: Federation, like: xr.DataArray) -> np.ndarray | None:
    """Ask the clients for the true labels of the samples of a result.

    Parameters
    ----------
    federation : Federation
        The parties, running.
    like : xarray.DataArray
        ``(sample,)`` with the coordinate ``client``, each client's samples in its store's order.

    Returns
    -------
    numpy.ndarray or None
        ``(sample,)`` int64 in the order of ``like``; None when a client has no labels.
    """
    # counted apart from any method's messages
    federation.start_run(uuid.uuid4().hex, random_state=0)
    owners = like["client"].to_numpy().astype(str)
    named = [client for client in federation.clients if (owners == client).any()]
    everyone = len(named) == len(federation.clients)
    parts: Mapping[str, Any] = federation.publish(
        evaluation_labels, party="clients" if everyone else named
    )
    truth = np.empty(len(owners), dtype=np.int64)
    for client, part in parts.items():
        mine = owners == client
        if len(part.labels) != mine.sum():
            return None
        truth[mine] = part.labels
    return truth


def score(
    truth: np.ndarray, labels: Mapping[str, Sequence[np.ndarray]], metrics: Sequence[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """Score every method, over its seeds.

    Parameters
    ----------
    truth : numpy.ndarray
        ``(sample,)`` true labels.
    labels : mapping of str to sequence of numpy.ndarray
        For each method one ``(sample,)`` array a seed.
    metrics : sequence of str
        Names of metrics.

    Returns
    -------
    dict
        ``{method: {metric: {"mean": ..., "std": ...}}}``; the standard deviation of one seed is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.runs.evaluate import score
    >>> score(np.array([0, 0, 1, 1]), {"A": [np.array([1, 1, 0, 0])]}, ["kappa"])
    {'A': {'kappa': {'mean': 1.0, 'std': 0.0}}}
    """
    table: dict[str, dict[str, dict[str, float]]] = {}
    for method, runs in labels.items():
        for found in runs:
            if len(found) != len(truth):
                raise InvalidInput(
                    f"{method} labelled {len(found)} samples of {len(truth)}; the two must agree."
                )
        each = [all_metrics(truth, found, metrics) for found in runs]
        table[method] = {
            name: {
                "mean": float(np.mean([one[name] for one in each])),
                "std": float(np.std([one[name] for one in each])),
            }
            for name in metrics
        }
    return table

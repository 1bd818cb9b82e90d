"""Federations of worker processes on one machine, and what their stores keep for evaluation."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from daskfc.federation import Federation
from daskfc.stores import ClientStore, load_storage

__all__ = ["opened", "true_labels"]


@contextmanager
def opened(
    storage: Mapping[str, Any], **cluster: Any
) -> Iterator[tuple[Federation, dict[str, ClientStore]]]:
    """Open a federation on a storage, and the stores here as well, for evaluation.

    Parameters
    ----------
    storage : mapping
        What a storage file holds; stores that are missing are built.
    **cluster
        Of a local cluster's file.
    """
    local = {"cluster": "local", **cluster}
    with Federation.local(dict(storage), cluster=local, allow_raw=True) as federation:
        yield federation, load_storage(storage).open()


def true_labels(store: ClientStore) -> np.ndarray:
    """Return the labels that a store keeps apart for evaluation."""
    labels = store.labels()
    assert labels is not None, store
    return labels

"""Federations of worker processes on one machine, and what their stores keep for evaluation."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from daskfc.federation import Federation
from daskfc.stores import ClientStore, load_storage, write_store

__all__ = ["holding", "opened", "true_labels"]


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


@contextmanager
def holding(
    X: np.ndarray,
    y: np.ndarray,
    parts: Sequence[np.ndarray],
    *,
    dtype: str = "float64",
    **cluster: Any,
) -> Iterator[Federation]:
    """Open a federation whose clients hold these rows; the ids of samples are row numbers.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        All samples.
    y : ndarray of shape (n,)
        Their classes, for evaluation.
    parts : sequence of ndarray
        Rows of each client.
    dtype : str
        In which stores keep them.
    **cluster
        Of a local cluster's file.
    """
    with tempfile.TemporaryDirectory(prefix="paper-") as folder:
        urls = {f"client-{i}": f"{folder}/client-{i}.zarr" for i in range(1, len(parts) + 1)}
        for (name, url), rows in zip(urls.items(), parts, strict=True):
            write_store(url, name, X[rows], rows.astype(str), y[rows], dtype=dtype)
        local = {"cluster": "local", **cluster}
        with Federation.local(urls, cluster=local, allow_raw=True) as federation:
            yield federation


def true_labels(store: ClientStore) -> np.ndarray:
    """Return the labels that a store keeps apart for evaluation."""
    labels = store.labels()
    assert labels is not None, store
    return labels

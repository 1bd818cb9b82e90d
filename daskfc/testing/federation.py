"""Small federations of real processes, from arrays."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from daskfc.federation import Federation
from daskfc.federation.sample_keys import order_of
from daskfc.stores import write_store

__all__ = ["federation_of", "order_of", "stores_of"]


def stores_of(
    folder: str | PathLike[str],
    rows: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray] | None = None,
    *,
    columns: Mapping[str, Sequence[str]] | None = None,
    chunk_rows: int = 16,
) -> dict[str, str]:
    """Write one store per client.

    Parameters
    ----------
    folder : path-like
        Where; must hold no store of these names.
    rows : mapping of str to numpy.ndarray
        ``(n_samples, n_features)`` of each client.
    labels : mapping of str to numpy.ndarray, optional
        ``(n_samples,)`` evaluation labels of each client.
    columns : mapping of str to sequence of str, optional
        Names of each client's columns; x0, x1, ... by default.
    chunk_rows : int
        Rows of a chunk; small, so that tests cross chunks.

    Returns
    -------
    dict of str to str
        URLs. Sample ids are ``client-1/0``, ``client-1/1``, …

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from daskfc.stores import ClientStore
    >>> from daskfc.testing.federation import stores_of
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     urls = stores_of(folder, {"client-1": np.eye(3)})
    ...     ClientStore.open(urls["client-1"]).n_samples
    3
    """
    urls = {}
    for name, values in rows.items():
        urls[name] = str(Path(folder) / f"{name}.zarr")
        ids = [f"{name}/{i}" for i in range(len(values))]
        own = None if labels is None else labels[name]
        write_store(
            urls[name],
            name,
            values,
            ids,
            own,
            feature_names=None if columns is None else columns[name],
            chunk_rows=chunk_rows,
            dtype=str(values.dtype),
        )
    return urls


@contextmanager
def federation_of(
    folder: str | PathLike[str],
    rows: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray] | None = None,
    **options: Any,
) -> Iterator[Federation]:
    """Start a federation of real processes over arrays, and stop it at the end.

    Parameters
    ----------
    folder : path-like
        Where the stores are written.
    rows, labels : mapping
        As for `stores_of`.
    **options
        As for `Federation.local`: cluster, allow_raw.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.testing.federation import federation_of
    >>> with federation_of("some/folder", {"a": np.eye(3)}) as federation:  # doctest: +SKIP
    ...     federation.clients
    ('a',)
    """
    with Federation.local(stores_of(folder, rows, labels), **options) as federation:
        yield federation

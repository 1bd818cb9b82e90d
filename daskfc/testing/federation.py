"""Small federations of real processes, from arrays."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from daskfc.federation import Federation
from daskfc.stores import write_store


def stores_of(
    folder: str | PathLike[str],
    rows: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray] | None = None,
    *,
    columns: Mapping[str, Sequence[str]] | None = None,
    chunk_rows: int = 16,
) -> dict[str, str]:
    """Write one store per client from its ``(n_samples, n_features)`` rows; return their URLs."""
    urls = {}
    for name, values in rows.items():
        urls[name] = str(Path(folder) / f"{name}.zarr")
        own = None if labels is None else labels[name]
        write_store(
            urls[name],
            name,
            values,
            labels=own,
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
    """Start a federation of real processes over arrays, and stop it at the end."""
    with Federation.local(stores_of(folder, rows, labels), **options) as federation:
        yield federation

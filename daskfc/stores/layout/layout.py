"""The layout of one client's Zarr v3 group: names, codecs, attributes, digests.

A store is a group with

- ``features``: ``(n_samples, n_features)`` in chunks of ``(chunk_rows, n_features)``;
- ``sample_id``: ``(n_samples,)`` variable strings in chunks of ``(chunk_rows,)``, and the key of
  their pseudonyms as its attribute ``id_key`` (see `daskfc.stores.layout.id_key`);
- ``evaluation/labels``: ``(n_samples,)`` int64, where labels are known; apart, so that a site can
  remove them;
- attributes, of which ``complete: true`` is written last. Version 2 has two more than version 1:
  ``categories``, by column the words that its numbers 0, 1, ... stand for, and ``missing``,
  whether features may be NaN. Stores that grew have ``appended``, a list of the ``samples`` and
  ``content_digest`` before each append.

Every chunk is compressed by zstd, followed by a CRC-32C. Chunks of zeros are written too, so that a
missing chunk is a loss, never a fill value.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from zarr.codecs import Crc32cCodec, ZstdCodec

from daskfc.errors import StoreError

FORMAT = "daskfc-client"
VERSION = 1
_MOST_FEATURES = 1 << 22  # ours: their names alone take 300 MB
WITH_GAPS = 2  # the version of stores with categories, or with missing values


def array_options(
    shape: tuple[int, ...], chunks: tuple[int, ...], axes: tuple[str, ...]
) -> dict[str, Any]:
    """Return the options to create an array of a store with; `axes` are names for xarray."""
    return {
        "shape": shape,
        "chunks": chunks,
        "dimension_names": axes,
        "compressors": [ZstdCodec(level=1), Crc32cCodec()],  # written as zstd, then its checksum
        "config": {"write_empty_chunks": True},
    }


def n_chunks(n_samples: int, chunk_rows: int) -> int:
    """Return the number of chunks along the samples."""
    return -(-n_samples // chunk_rows)


def default_names(n_features: int) -> tuple[str, ...]:
    """Return the names of features that have none: x0, x1, ..."""
    return tuple(f"x{i}" for i in range(checked_width(n_features)))


def checked_width(n_features: int) -> int:
    """Return a number of columns; raise for over 4,194,304, which a damaged file may claim."""
    if n_features > _MOST_FEATURES:
        raise StoreError(
            f"a table must have at most {_MOST_FEATURES} columns; the head of the file says "
            f"{n_features}. See that it is whole, or leave columns out."
        )
    return n_features


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class ContentDigest:
    """A digest of ordered samples in blocks of any size, without labels, which may be removed."""

    def __init__(
        self,
        dtype: np.dtype[Any],
        feature_names: Sequence[str],
        categories: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._dtype = dtype.newbyteorder("<")
        self._features = hashlib.sha256()
        self._ids = hashlib.sha256()
        self._head: dict[str, Any] = {"dtype": dtype.name, "features": list(feature_names)}
        if categories:
            self._head["categories"] = {name: list(words) for name, words in categories.items()}

    def add(self, features: np.ndarray, sample_ids: Sequence[str] | np.ndarray) -> None:
        """Add the next rows, (rows, n_features) in the stored type, and their ids."""
        self._features.update(np.ascontiguousarray(features, self._dtype).data)
        for sample_id in sample_ids:
            data = str(sample_id).encode()
            self._ids.update(len(data).to_bytes(4, "little") + data)

    def hexdigest(self) -> str:
        """Return the digest of all rows so far."""
        parts = (self._features, self._ids)
        return digest_of({**self._head, "parts": [part.hexdigest() for part in parts]})


def data_set_of(attributes: Mapping[str, Any]) -> str:
    """Return the digest by which privacy budgets know a store: that before anything was appended.

    The samples from before stay in the data, so that new rows bring no new budget.
    """
    first = next(iter(attributes.get("appended", ())), attributes)
    return str(first["content_digest"])


def fixed_width(ids: np.ndarray) -> np.ndarray:
    """Return ids in NumPy's type of fixed width; Zarr's own cannot be cast to it directly."""
    return ids.astype(object).astype(str)


def labels_digest(labels: np.ndarray) -> str:
    """Return the SHA-256 of evaluation labels, the same for every integer type."""
    return hashlib.sha256(np.ascontiguousarray(labels, "<i8").data).hexdigest()


def positions_of_repeats(sample_ids: np.ndarray) -> tuple[int, int, int] | None:
    """Return (first row, second row, number of repeated rows), or None when all ids differ."""
    order = np.argsort(sample_ids, kind="stable")
    ordered = sample_ids[order]
    repeats = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(repeats):
        return None
    at = int(repeats[np.argmin(order[repeats + 1])])
    return int(order[at]), int(order[at + 1]), len(repeats)


def check_different(
    ids: np.ndarray, whose: str, way_out: str, *, of: str = "", places: str = "rows"
) -> None:
    """Raise unless all ids differ; the sentence tells places, and no id."""
    if (repeats := positions_of_repeats(ids)) is not None:
        first, second, count = repeats
        raise StoreError(
            f"{whose}: sample ids{of} must differ; got {count} repeated, {places} {first} and "
            f"{second} are the first pair. {way_out}"
        )

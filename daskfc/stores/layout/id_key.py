"""The secret key of a store's sample ids, from which keys of pseudonyms are derived.

It is an attribute of the array of ids: whoever can read the ids has it, and nobody else. So a site
can resolve pseudonyms with its store alone.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import zarr

from daskfc.stores.layout.locations import zarr_store

_ATTRIBUTE = "id_key"
_BYTES = 32


def stored_key(sample_ids: Any) -> bytes | None:
    """Return the secret stored with an array of ids; None in stores of daskfc 0.1."""
    text = dict(sample_ids.attrs).get(_ATTRIBUTE)
    try:
        key = bytes.fromhex(str(text))
    except ValueError:
        return None
    return key if len(key) == _BYTES else None


def kept_key(url: str, client: str, *, replaces: bool) -> dict[str, Any]:
    """Return as attributes the key of the replaced store, if it is of this client, or a new one."""
    key = None
    if replaces:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # no whole store
            group = zarr.open_group(zarr_store(url, read_only=True), mode="r", zarr_format=3)
            if group.attrs.get("client") == client:
                key = stored_key(group["sample_id"])
    return {_ATTRIBUTE: (key or new_key()).hex()}


def new_key() -> bytes:
    """Return the secret of a store that replaces none."""
    return os.urandom(_BYTES)


def content_key(features: Iterable[np.ndarray], sample_ids: np.ndarray) -> bytes:
    """Return the key of a store without one: a digest of its content, which its readers know."""
    digest = hashlib.sha256(b"daskfc.id_key")
    for block in features:
        digest.update(np.ascontiguousarray(block).data)
    for name in sample_ids:
        text = str(name).encode()
        digest.update(len(text).to_bytes(4, "little") + text)
    return digest.digest()

"""The secret key of a store's sample ids, from which keys of pseudonyms are derived.

It is an attribute of the array of ids: whoever can read the ids has it, and nobody else. So a site
can resolve pseudonyms with its store alone.
"""

import contextlib
import os
from typing import Any

import zarr

from daskfc.stores.layout.locations import zarr_store

_ATTRIBUTE = "id_key"
_BYTES = 32


def stored_key(sample_ids: Any) -> bytes:
    """Return the secret stored with an array of ids; raise for one without."""
    key = bytes.fromhex(sample_ids.attrs[_ATTRIBUTE])
    if len(key) != _BYTES:
        raise ValueError(f"a key has {_BYTES} bytes")
    return key


def kept_key(url: str, client: str, *, replaces: bool) -> dict[str, Any]:
    """Return as attributes the key of the replaced store, if it is of this client, or a new one."""
    if replaces:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # no whole store
            group = zarr.open_group(zarr_store(url, read_only=True), mode="r", zarr_format=3)
            if group.attrs.get("client") == client:
                return {_ATTRIBUTE: stored_key(group["sample_id"]).hex()}
    return {_ATTRIBUTE: new_key().hex()}


def new_key() -> bytes:
    """Return the secret of a store that replaces none."""
    return os.urandom(_BYTES)

"""Zarr: an array, a group of arrays, or a store of daskfc."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import zarr

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.chunk_sizes import bounded
from daskfc.stores.layout.layout import FORMAT, default_names
from daskfc.stores.layout.locations import resolve_url, zarr_store
from daskfc.stores.layout.samples import Samples, encode_labels, reading
from daskfc.stores.sources.source import Source


class Zarr(Source):
    """A Zarr array, or a group with arrays of features, labels and ids, read in blocks.

    Names default to features or X; evaluation/labels, labels or y; and sample_id or ids. A store of
    daskfc keeps its feature names, its words and its gaps.
    """

    suffixes = (".zarr",)
    keys = frozenset({"features", "labels", "ids"})

    def open(self, source: SourceConfig) -> Samples:
        """Read labels, ids and attributes."""
        url = resolve_url(str(source.path))
        with reading(url, "zarr"):
            node = zarr.open(zarr_store(url, read_only=True), mode="r")
            labels = classes = ids = names = None
            kinds: dict[str, Any] = {}
            if isinstance(node, zarr.Array):
                features: Any = bounded(node, url)
            else:
                features = _member(node, source.array, ("features", "X"), url, "features")
                found = _member(
                    node, source.labels, ("evaluation/labels", "labels", "y"), url, "labels"
                )
                if found is not None:
                    labels, classes = encode_labels(found[:], f"{url}:{found.path}")
                found = _member(node, source.ids, ("sample_id", "ids"), url, "ids")
                if found is not None:
                    ids = np.asarray(found[:]).astype(object).astype(str)
                if node.attrs.get("format") == FORMAT:
                    if node.attrs.get("complete") is not True:
                        raise StoreError(f"{url}: the store is half-written; build it again.")
                    attributes: Any = dict(node.attrs)
                    names = tuple(str(name) for name in attributes["feature_names"])
                    kinds = {
                        "categories": {
                            str(name): tuple(words)
                            for name, words in (attributes.get("categories") or {}).items()
                        },
                        "missing": bool(attributes.get("missing", False)),
                    }
                    if "evaluation" in node:
                        known: Any = node["evaluation"].attrs.get("classes")
                        classes = None if known is None else tuple(known)
        if features is None or features.ndim < 2:
            raise StoreError(
                f"{url}: a zarr source must have an array of rows and columns called features or "
                f"X, or one named by source.features."
            )
        width = math.prod(features.shape[1:])

        def blocks(rows: int) -> Iterator[np.ndarray]:
            with reading(url, "zarr"):
                for start in range(0, features.shape[0], rows):
                    block = np.asarray(features[start : start + rows])
                    yield block.reshape(len(block), width)

        n, names = int(features.shape[0]), names or default_names(width)
        return Samples(n, names, blocks, labels, classes, ids, **kinds)


def _member(
    group: zarr.Group, asked: str | None, defaults: tuple[str, ...], url: str, key: str
) -> Any:
    for name in defaults if asked is None else (asked,):
        found = group.get(name)
        if isinstance(found, zarr.Array):
            return bounded(found, url)
    if asked is not None:
        raise StoreError(f"{url}: source.{key} must name an array of the group; got {asked!r}.")
    return None

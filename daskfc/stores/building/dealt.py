"""Write a store for each client of samples at hand: its own, or its share of all of them."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse

from daskfc.checks import checked
from daskfc.errors import InvalidInput
from daskfc.naming import correction
from daskfc.stores.building.at_hand import samples_at_hand, told_by_keywords
from daskfc.stores.building.building import write_samples, write_shares
from daskfc.stores.dealing.config import LayoutConfig, PartitionConfig
from daskfc.stores.dealing.dealing import Share, deal
from daskfc.stores.dealing.names import client_name
from daskfc.stores.layout.samples import Samples

_BY_LABELS = ("label-skew", "dirichlet")
_OF_EACH = ("labels", "sample_ids", "graph")  # what may be a mapping of clients
_LAYOUT = ("chunk_rows", "dtype")
_KEYWORDS = (*_LAYOUT, "clients", "split", "by", "seed", "graph", "feature_names")
# As of one storage file: who deals has all ids, and dealing again must give the same labels.
_ONE_HAND = {"storage_digest": "simulation", "source_fingerprint": None}


@told_by_keywords()
def write_dealt(
    folder: str,
    data: Any,
    *,
    clients: int | None = None,
    split: str | Mapping[str, Any] | None = None,
    by: Any = None,
    seed: int = 0,
    graph: Any = None,
    **columns: Any,
) -> dict[str, str]:
    """Write stores below a folder, and return the clients with their URLs; see `daskfc.simulate`.

    `data` is a mapping of clients to their samples, or all samples, which are dealt to `clients`
    clients as `split` says, or by the values of `by`. `columns` go to `write_store`.
    """
    known = {*_KEYWORDS, *signature(samples_at_hand).parameters} - {"data", "where"}
    if unknown := [key for key in columns if key not in known]:
        way = "Call it 'sample_ids'." if unknown[0] == "ids" else correction(unknown[0], known)
        raise InvalidInput(f"simulate takes no keyword {unknown[0]!r}. {way}")
    own = isinstance(data, Mapping) and not isinstance(data, xr.Dataset)
    ways = own + (clients is not None) + (by is not None)
    if ways != 1 or (split is not None and clients is None):
        given = {"clients": clients, "split": split, "by": by}
        told = ", ".join(name for name, value in given.items() if value is not None) or "none"
        raise InvalidInput(
            "simulate needs a mapping of each client to its samples, as {'a': table, 'b': table}, "
            "or all samples with the number of 'clients' to deal them to, or with 'by', which says "
            f"whose they are; got {told} with {type(data).__name__}. Give one of these."
        )
    laid_out = {key: columns.pop(key) for key in _LAYOUT if key in columns}
    layout = checked(LayoutConfig, laid_out, "the layout")
    if own:
        _write_own(folder, data, layout, {"graph": graph, **columns})
        return {str(name): _url(folder, name) for name in data}
    if by is not None and graph is not None:
        raise InvalidInput(
            "a graph joins all samples, and 'by' would cut it. Give each client its own, or "
            "split='vertical' for clients with columns of the same samples."
        )
    data, parts = (data, None) if by is None else _apart(data, by)
    samples = _read(data, "the samples", columns)
    if graph is not None:
        samples = replace(samples, graph=sparse.csr_array(graph))
    shares = _dealt(samples, clients, split, seed) if parts is None else _of(samples, parts)
    urls = {name: _url(folder, name) for name in shares}
    write_shares(
        samples,
        shares,
        urls,
        layout=layout,
        overwrite=False,
        attributes=_ONE_HAND,
        progress=None,
        storage="simulation",
    )
    return urls


def _write_own(
    folder: str, data: Mapping[Any, Any], layout: LayoutConfig, columns: Mapping[str, Any]
) -> None:
    if not data:
        raise InvalidInput("simulate needs at least one client; got none. Give its samples.")
    for name, url in [(name, _url(folder, name)) for name in data]:  # all names, before any store
        keys = {
            key: value.get(name) if key in _OF_EACH and isinstance(value, Mapping) else value
            for key, value in columns.items()
        }
        graph = keys.pop("graph")
        samples = _read(data[name], f"client {str(name)!r}", keys)
        write_samples(
            url,
            str(name),
            samples,
            chunk_rows=layout.chunk_rows,
            dtype=layout.dtype,
            attributes=_ONE_HAND,
            graph=graph,
        )


def _read(data: Any, where: str, columns: Mapping[str, Any]) -> Samples:
    """Return samples at hand; `columns` are keywords of `write_store`."""
    renamed = {"columns" if key == "feature_names" else key: one for key, one in columns.items()}
    return samples_at_hand(data, where=where, **renamed)


def _url(folder: str, name: Any) -> str:
    try:
        return f"{folder}/{client_name(str(name))}.zarr"
    except ValueError as error:
        raise InvalidInput(f"client {name!r}: {error}. Rename it.") from None


def _apart(data: Any, by: Any) -> tuple[Any, np.ndarray]:
    """Return the samples without the column `by`, and the client of each of them."""
    if isinstance(by, str):
        if by not in getattr(data, "columns", ()):  # a table of pandas or of Dask
            known = ", ".join(map(str, getattr(data, "columns", ()))) or "no names"
            raise InvalidInput(
                f"'by' must be a column of the table, or one client's name a sample; got {by!r}, "
                f"and the columns are {known}. Correct the name."
            )
        data, by = data.drop(columns=by), np.asarray(data[by])
    names = pd.Series(np.asarray(by))
    if names.ndim != 1 or len(names) != len(data) or names.isna().any():
        raise InvalidInput(
            f"'by' must name one client for each of the {len(data)} samples; got {len(names)} "
            f"names, {int(names.isna().sum())} of them missing. Give each sample its client."
        )
    return data, names.astype(str).to_numpy()


def _of(samples: Samples, parts: np.ndarray) -> dict[str, Share]:
    columns = np.arange(len(samples.feature_names))
    return {
        str(name): Share(np.flatnonzero(parts == name), columns) for name in dict.fromkeys(parts)
    }


def _dealt(
    samples: Samples, clients: int | None, split: str | Mapping[str, Any] | None, seed: int
) -> dict[str, Share]:
    keys = dict(split) if isinstance(split, Mapping) else {"scheme": split or "iid"}
    asked = {"seed": seed, **keys, "clients": clients}
    partition = checked(PartitionConfig, asked, "the split")
    if partition.scheme in _BY_LABELS and samples.labels is None:
        raise InvalidInput(
            f"the split {partition.scheme!r} deals by labels, and there are none. Give 'labels', "
            "one a sample or the name of a column, or split='iid'."
        )
    dealt = deal(samples, partition, "simulation")
    return {f"client-{number}": share for number, share in enumerate(dealt, 1)}

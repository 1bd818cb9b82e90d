"""Read a storage file, which names clients, sources and layout, and build its stores."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, PrivateAttr, field_validator, model_validator

from daskfc.checks import Section, checked
from daskfc.errors import InvalidInput, StoreError
from daskfc.stores.building.building import (
    Origin,
    Progress,
    described,
    keeping_gaps,
    views_of_store,
    write_own,
    write_shares,
)
from daskfc.stores.building.paths import paths_of
from daskfc.stores.dealing.config import ClientConfig, LayoutConfig, PartitionConfig, SourceConfig
from daskfc.stores.dealing.dealing import deal
from daskfc.stores.dealing.names import client_name
from daskfc.stores.dealing.views import view_clients
from daskfc.stores.layout.layout import digest_of
from daskfc.stores.layout.locations import resolve_url
from daskfc.stores.layout.staging import store_exists, unfinished
from daskfc.stores.sources.readers import check_source, open_source, view_names
from daskfc.stores.store.client import ClientStore
from daskfc.stores.store.together import check_ids_apart, check_owner, check_together
from daskfc.yaml_files import read_mapping


class Storage(Section):
    """What a storage file says: a source dealt to clients, or clients with stores or files.

    Parameters
    ----------
    source : SourceConfig, optional
        Where samples come from; given together with `partition`, and without `clients`.
    partition : PartitionConfig, optional
        How samples are dealt to clients.
    layout : LayoutConfig
        How stores are laid out.
    root : str, optional
        Folder or URL that will hold ``client-1.zarr`` and so on; ``stores/<name of the file>``
        below the working directory by default.
    clients : mapping of str to ClientConfig, or list of str, optional
        Names, with existing stores or with sources to build them from; names alone where the sites
        of a running cluster have the stores.

    Examples
    --------
    >>> from daskfc.stores import load_storage
    >>> storage = load_storage({
    ...     "source": {"dataset": "iris"},
    ...     "partition": {"scheme": "label-skew", "clients": 3, "skew": 0.75},
    ...     "root": "memory://doc/iris",
    ... })
    >>> storage.ensure()["client-1"]
    'memory://doc/iris/client-1.zarr'
    >>> [row["samples"] for row in storage.inspect()]
    [50, 50, 50]
    """

    source: SourceConfig | None = None
    partition: PartitionConfig | None = None
    layout: LayoutConfig = LayoutConfig()
    root: str | None = Field(default=None, min_length=1)
    clients: dict[str, ClientConfig] | None = Field(default=None, min_length=1)
    _name: str = PrivateAttr(default="")
    _file: str = PrivateAttr(default="STORAGE")
    _written: Storage | None = PrivateAttr(default=None)  # with the paths of the file

    @field_validator("clients", mode="before")
    @classmethod
    def _names_alone(cls, clients: Any) -> Any:
        if not isinstance(clients, list | tuple):
            return clients
        if not all(isinstance(name, str) for name in clients):
            raise ValueError("must be names, or a mapping of names to stores or sources")
        if len({str(name) for name in clients}) < len(clients):
            raise ValueError("must not name a client twice")
        return {name: {"store": None} for name in clients}

    @field_validator("clients")
    @classmethod
    def _names(cls, clients: dict[str, ClientConfig] | None) -> dict[str, ClientConfig] | None:
        for name in clients or {}:
            client_name(name)
        return clients

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.source is None) == (self.clients is None):
            raise ValueError("exactly one of 'source' and 'clients' must be given")
        if (self.source is None) != (self.partition is None):
            raise ValueError("'source' and 'partition' must be given together")
        given = bool(self.root) or "layout" in self.model_fields_set
        if self.clients is not None and given and not self._own_sources():
            raise ValueError("'root' and 'layout' mean nothing to 'clients', whose stores exist")
        for source in self._own_sources().values():
            check_source(source)
        if self.source is not None:
            check_source(self.source)
            if self.partition is not None and self.partition.scheme == "views":
                self._check_views(self.partition.clients_per_view or 1)
        return self

    def _own_sources(self) -> dict[str, SourceConfig]:
        """Return the sources of the clients that have files of their own."""
        clients = (self.clients or {}).items()
        return {name: client.source for name, client in clients if client.source is not None}

    def _check_views(self, clients_per_view: int) -> None:
        """Raise for a data set without views, and for views that no client can be named after."""
        assert self.source is not None
        if self.source.dataset is not None and len(view_names(self.source)) < 2:
            raise ValueError(
                f"scheme 'views' deals a source of several views, and the data set "
                f"{self.source.dataset!r} is one table; see digits-views"
            )
        if self.source.views is not None:
            for name in view_clients(tuple(self.source.views), clients_per_view, by_name=True):
                client_name(name)

    @property
    def name(self) -> str:
        """Name of the file without its suffix; for a dictionary, the start of its digest."""
        return self._name or f"storage-{self.digest[:12]}"

    @property
    def digest(self) -> str:
        """SHA-256 of the resolved file without its root, for provenance."""
        written = self._written or self  # not where the file lies
        return digest_of(written.model_dump(mode="json", exclude_none=True, exclude={"root"}))

    def client_names(self) -> tuple[str, ...]:
        """Return the names of the clients.

        Returns
        -------
        tuple of str
            Those of the file; those of the views that it names, with a number where a view has
            several clients; client-1, client-2, ... for other sources.

        Raises
        ------
        StoreError
            When there are as many clients as views in a file, and the file cannot be read.
        """
        return self._named(None)

    def _named(self, root: str | None) -> tuple[str, ...]:
        if self.clients is not None:
            return tuple(self.clients)
        assert self.source is not None  # by _one_kind
        assert self.partition is not None
        if self.partition.scheme == "views":
            by_name = self.source.views is not None
            clients_per_view = self.partition.clients_per_view or 1
            return view_clients(self._views(root), clients_per_view, by_name=by_name)
        assert self.partition.clients is not None  # by PartitionConfig
        return tuple(f"client-{i}" for i in range(1, self.partition.clients + 1))

    def _views(self, root: str | None) -> tuple[str, ...]:
        """Return the views of the source, by its file or by stores that were built from it."""
        assert self.source is not None
        try:
            names = view_names(self.source)
        except StoreError as error:
            known = views_of_store(f"{self._folder(root)}/client-1.zarr", self.digest)
            if known is None:
                raise StoreError(
                    f"storage {self.name!r} has as many clients as {self.source.where} has views, "
                    f"and these cannot be counted: {error} Or list them by source.features."
                ) from error
            return known
        if len(names) < 2:
            raise StoreError(
                f"storage {self.name!r}: partition 'views' deals at least two views; "
                f"{self.source.where} has {len(names) or 'none'}. Name arrays by source.features, "
                "give a file for each view by source.views, or use scheme 'vertical'."
            )
        return names

    def _folder(self, root: str | None) -> str:
        return resolve_url(root or self.root or f"stores/{self.name}")

    def client_urls(self, root: str | None = None) -> dict[str, str]:
        """Return the clients and the URLs of their stores, without building or opening any.

        Parameters
        ----------
        root : str, optional
            Instead of the file's own root.

        Returns
        -------
        dict of str to str
            In the file's order, or view by view, or client-1, client-2, ...

        Raises
        ------
        InvalidInput
            When the file names a client and not its store, or clients cannot be counted; see
            `client_names`.
        """
        if self.clients is None:
            folder = self._folder(root)
            return {name: f"{folder}/{name}.zarr" for name in self._named(root)}
        urls = {}
        for name, client in self.clients.items():
            if client.source is not None:
                urls[name] = f"{self._folder(root)}/{name}.zarr"
            elif client.store is not None:
                urls[name] = resolve_url(client.store)
            else:
                raise InvalidInput(
                    f"storage {self.name!r} names client {name!r} and not its store; names alone "
                    "are for clusters whose sites have the stores. Add 'store', or choose a "
                    "cluster file with 'cluster: existing'."
                )
        return urls

    def build(
        self, root: str | None = None, *, overwrite: bool = False, progress: Progress | None = None
    ) -> dict[str, str]:
        """Write the store of every client in one pass over the source.

        Parameters
        ----------
        root : str, optional
            Instead of the file's own root.
        overwrite : bool
            Whether existing stores may be replaced; each is removed when its successor is whole.
        progress : callable, optional
            Called with rows done and rows in all.

        Returns
        -------
        dict of str to str
            Clients and URLs.

        Raises
        ------
        StoreError
            When a store exists already, or the source, the partition or the disk does not allow it.
        """
        if self.source is None and not self._own_sources():
            raise StoreError(
                f"storage {self.name!r} names stores that exist, so there is nothing to build; "
                f"use 'daskfc stores inspect' or 'check', or give the clients a 'source'."
            )
        urls = self.client_urls(root)
        made = {name: urls[name] for name in self._origins(urls)}
        there = [url for url in made.values() if store_exists(url)]
        if there and not overwrite:
            raise StoreError(
                f"storage {self.name!r}: {len(there)} of {len(made)} stores are there already, the "
                f"first is {there[0]}, and they are not written over unless asked; pass "
                f"overwrite=True (--overwrite), or choose another root."
            )
        self._write(urls, made, overwrite, progress)
        return urls

    def _origins(self, urls: Mapping[str, str]) -> dict[str, Origin]:
        """Return the origins of the stores that are built here."""
        if self.source is not None:
            return dict.fromkeys(urls, Origin.of(self.source, self.digest))
        origins, written = {}, (self._written or self)._own_sources()
        for name, source in self._own_sources().items():
            told: dict[str, BaseModel] = {"source": written[name], "layout": self.layout}
            plain = {k: v.model_dump(mode="json", exclude_none=True) for k, v in told.items()}
            origins[name] = Origin.of(source, digest_of(plain))
        return origins

    def ensure(
        self, root: str | None = None, *, progress: Progress | None = None, gaps: bool = False
    ) -> dict[str, str]:
        """Build the stores that are missing, or older than an edit of the file, and use the others.

        A store is made again where that loses nothing: of the same files, without samples that were
        appended and clusters that were put into it.

        Parameters
        ----------
        root : str, optional
            Instead of the file's own root.
        progress : callable, optional
            Called with rows done and rows in all, when anything is built.
        gaps : bool
            Whether cells may be empty in sources that do not say so, for a pipeline that imputes.

        Returns
        -------
        dict of str to str
            Clients and URLs of complete stores with the same columns.

        Raises
        ------
        StoreError
            When an existing store was made from something else, or would lose something.
        """
        urls = self.client_urls(root)
        origins = self._origins(urls)
        half = {name for name, origin in origins.items() if unfinished(urls[name], origin.digest)}
        missing, past = {}, False
        for name, origin in origins.items():
            if name in half or not store_exists(urls[name]):
                missing[name] = urls[name]
            elif origin.is_past(name, ClientStore.open(urls[name]), self._file):
                missing[name], past = urls[name], True
        if missing:
            self._write(urls, missing, past or bool(half), progress, gaps)
        self.open(root)
        return urls

    def _write(
        self,
        urls: Mapping[str, str],
        wanted: Mapping[str, str],
        overwrite: bool,
        progress: Progress | None,
        gaps: bool = False,
    ) -> None:
        """Write the wanted stores; those of one source are put in place together at the end."""
        origins = self._origins(wanted)
        how: dict[str, Any] = {"overwrite": overwrite, "progress": progress, "layout": self.layout}
        own = {name: one for name, one in self._own_sources().items() if name in wanted}
        told = {name: one.bundled or one.fingerprint is not None for name, one in origins.items()}
        for name in sorted(own, key=told.__getitem__):  # what is gone raises before any is written
            write = partial(write_own, wanted[name], name, origin=origins[name], **how)
            keeping_gaps(own[name], gaps, write)
        if self.source is not None:
            of = next(iter(origins.values())).attributes
            keeping_gaps(self.source, gaps, lambda one: self._deal(one, urls, wanted, of, how))

    def _deal(
        self,
        source: SourceConfig,
        urls: Mapping[str, str],
        wanted: Mapping[str, str],
        told: Mapping[str, Any],
        how: Mapping[str, Any],
    ) -> None:
        assert self.partition is not None
        samples = open_source(source)
        provenance = dict(told)
        if self.partition.scheme == "views":
            provenance["storage_views"] = [view.name for view in samples.views]
        shares = dict(zip(urls, deal(samples, self.partition, self.name), strict=True))
        write_shares(samples, shares, wanted, attributes=provenance, storage=self.name, **how)

    def open(self, root: str | None = None, *, verify: bool = False) -> dict[str, ClientStore]:
        """Open every client's store, and check that it is its own and that all fit together.

        Parameters
        ----------
        root : str, optional
            Instead of the file's own root.
        verify : bool
            Read everything and check it against the checksums.

        Returns
        -------
        dict of str to ClientStore
            In the order of the clients.

        Raises
        ------
        StoreError
            When one is missing, damaged, or another client's.
        InvalidInput
            When their columns or samples do not fit together; see `check_together`.
        """
        stores = self._opened(root, verify)
        check_together(stores)
        return stores

    def _opened(self, root: str | None, verify: bool) -> dict[str, ClientStore]:
        stores: dict[str, ClientStore] = {}
        for name, url in self.client_urls(root).items():
            stores[name] = ClientStore.open(url, verify=verify)
            check_owner(stores[name].name, name, url)
        return stores

    def check(self, root: str | None = None) -> None:
        """Read all stores and check them against checksums, rules and each other.

        Parameters
        ----------
        root : str, optional
            Instead of the file's own root.

        Raises
        ------
        StoreError
            For the first fault; see `ClientStore.check`. Also when a sample id occurs at two
            clients that hold different samples.
        """
        stores = self._opened(root, verify=True)
        if check_together(stores) == "samples":  # else those of one view were compared
            check_ids_apart(stores, f"storage {self.name!r}")

    def inspect(self, root: str | None = None) -> list[dict[str, Any]]:
        """Describe every client's store.

        Parameters
        ----------
        root : str, optional
            Instead of the file's own root.

        Returns
        -------
        list of dict
            One row a client: client, url, samples, features, dtype, chunks, bytes_on_disk, labels;
            and edges where there is a graph, view where the client has one of several, scaling
            where the features were scaled.

        Raises
        ------
        StoreError
            When a store is missing or its columns differ.
        """
        return [described(name, store) for name, store in self.open(root).items()]


def load_storage(source: str | Path | Mapping[str, Any] | Storage) -> Storage:
    """Read a storage file, or check a dictionary that says the same.

    Parameters
    ----------
    source : path, mapping or Storage
        What to load; nothing that it names is opened. Relative paths in a file start at its folder,
        in a dictionary at the working directory.

    Returns
    -------
    Storage
        Checked.

    Raises
    ------
    InvalidInput
        For a missing file, bad YAML, unknown keys, wrong types and impossible values, naming file,
        key, rule, value and the fix.

    Examples
    --------
    >>> from daskfc.stores import load_storage
    >>> load_storage({"sources": {}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: storage: key 'sources' is not known there. Correct its spelling...
    """
    if isinstance(source, Storage):
        return source
    given = source.values() if isinstance(source, Mapping) else [source]
    if (data := next((one for one in given if hasattr(one, "__array__")), None)) is not None:
        raise InvalidInput(
            f"a storage says where data are, and holds none; got {type(data).__name__}. Try a "
            "method on data at hand by daskfc.simulate, or write each client's by "
            "daskfc.write_store and give the URLs."
        )
    if isinstance(source, Mapping):
        document, where, name = dict(source), "storage", ""
    else:
        keys = "the keys source and partition, or clients"
        document, where = read_mapping(source, "storage", keys=keys), str(source)
        name = Path(source).stem
    written = checked(Storage, document, where)
    written._name = name
    if isinstance(source, Mapping):
        return written
    folder = os.path.dirname(where)
    meant = paths_of(folder, written.source, written.clients, written.root)
    storage = written.model_copy(update=meant)
    storage._written, storage._file = written, shlex.quote(str(source))
    return storage

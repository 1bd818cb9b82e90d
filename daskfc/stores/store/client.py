"""A client's store, read-only: rows in blocks, ids, evaluation labels, checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from scipy import sparse

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores.layout.chunk_sizes import ChunkError, bounded
from daskfc.stores.layout.content import check_rows, finite, of_size, understood
from daskfc.stores.layout.graph import StoredGraph, checked_graph, graph_digest
from daskfc.stores.layout.id_key import stored_key
from daskfc.stores.layout.layout import (
    FORMAT,
    VERSION,
    WITH_GAPS,
    ContentDigest,
    fixed_width,
    labels_digest,
    n_chunks,
)
from daskfc.stores.layout.locations import (
    files_of,
    filesystem,
    metadata_of,
    reaching,
    resolve_url,
    zarr_store,
)
from daskfc.stores.layout.samples import unprepared

if TYPE_CHECKING:
    import xarray as xr

_GRAPH_ROWS = 1 << 16  # ours: rows of a graph read at once


class ClientStore:
    """One client's samples on disk or in an object store; made by `open`, never written to.

    Rows are read chunk by chunk and returned as float64. An instance holds no data and pickles as
    its URL. If the store is replaced while it is open, reads raise StoreError: rows never go with
    the digest of another store, which seeds the noise that protects them.

    Parameters
    ----------
    url : str
        Absolute URL.
    group, mark
        The opened group, and its metadata file as read before that.

    Attributes
    ----------
    url : str
        Absolute URL.
    name : str
        The client's name, as recorded when the store was written.
    n_samples, n_features : int
        Shape of the features.
    dtype : numpy.dtype
        Stored type of the features.
    chunk_rows : int
        Rows of one chunk.
    feature_names : tuple of str
        Columns.
    categories : dict of str to tuple of str
        By column the words that its numbers, 0, 1, ..., stand for.
    missing : bool
        Whether features may be NaN.
    attributes : dict
        Digests and version, as recorded.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.stores import ClientStore, write_store
    >>> write_store("memory://doc/a.zarr", "client-1", np.eye(3), ["a", "b", "c"], overwrite=True)
    >>> store = ClientStore.open("memory://doc/a.zarr")
    >>> store.n_samples, store.rows(1, 2)
    (3, array([[0., 1., 0.]]))
    """

    def __init__(self, url: str, group: zarr.Group, mark: bytes) -> None:
        self.url = url
        self._mark = mark
        self._group = group
        self.attributes: dict[str, Any] = dict(group.attrs)
        self._features = _array(group, "features", url, ndim=2)
        self._ids = _array(group, "sample_id", url, ndim=1)
        self.name = str(self.attributes["client"])
        self.n_samples, self.n_features = (int(size) for size in self._features.shape)
        self.dtype: np.dtype[Any] = np.dtype(self._features.dtype)
        self.chunk_rows = int(self._features.chunks[0])
        self.feature_names = tuple(str(name) for name in self.attributes["feature_names"])
        words: Mapping[str, Sequence[str]] = self.attributes.get("categories", {})
        self.categories = {name: tuple(own) for name, own in words.items()}
        self.missing = bool(self.attributes.get("missing", False))
        self._labels = _array(group, "evaluation/labels", url, ndim=1, required=False)
        graph = group.get("graph")
        self._graph: StoredGraph | None = None
        if isinstance(graph, zarr.Group):
            self._graph = StoredGraph(graph, self.n_samples, self._read, url)

    @classmethod
    def open(cls, url: str, *, verify: bool = False) -> ClientStore:
        """Open a store and refuse one that is missing, half-written or of another layout.

        Parameters
        ----------
        url : str
            URL of fsspec or path.
        verify : bool
            Read everything and check it against the checksums, as `check` does.

        Returns
        -------
        ClientStore
            Holds no data yet.

        Raises
        ------
        StoreError
            When it is missing, half-written, of another layout, lacks chunks, or fails `check`.
        """
        url = resolve_url(url)
        store = zarr_store(url, read_only=True)
        try:
            with reaching(url):
                mark = metadata_of(url)
                group = zarr.open_group(store, mode="r", zarr_format=3)
        except StoreError:
            raise
        except FileNotFoundError as error:
            raise StoreError(
                f"{url}: no store of a client is there; correct the URL, or build it with "
                f"'daskfc stores build'."
            ) from error
        except NotADirectoryError as error:
            raise StoreError(
                f"{url}: this is a file and no store; make one of it with 'daskfc stores add NAME "
                f"FILE', or name it as the client's 'source' in the storage file."
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{url}: the store cannot be opened ({type(error).__name__}); correct the URL or "
                f"build it again."
            ) from error
        attributes = dict(group.attrs)
        if attributes.get("format") != FORMAT:
            raise StoreError(
                f"{url}: this Zarr group is no store of daskfc; import it with a storage file "
                f"whose source is {{path: {url}, format: zarr}}."
            )
        if attributes.get("version") not in (VERSION, WITH_GAPS):
            raise StoreError(
                f"{url}: the store has layout version {attributes.get('version')!r} and this "
                f"daskfc reads versions {VERSION} and {WITH_GAPS}; build it again with this daskfc."
            )
        if attributes.get("complete") is not True:
            raise StoreError(
                f"{url}: the store is half-written, its build did not end; build it again with "
                f"'daskfc stores build --overwrite'."
            )
        with understood(url):
            opened = cls(url, group, mark)
            opened._check_shape()
            # attributes that are read later
            _ = opened.digest, opened.scaling, opened.classes, opened.build_id, opened.id_key()
            if verify:
                opened.check()
        return opened

    def __reduce__(self) -> tuple[Any, ...]:
        return (ClientStore.open, (self.url,))

    def __repr__(self) -> str:
        return f"<ClientStore {self.name!r}: {self.n_samples} x {self.n_features} at {self.url}>"

    def _check_shape(self) -> None:
        n, d = self.n_samples, self.n_features
        lengths = {"sample_id": self._ids.shape[0], "feature_names": len(self.feature_names)}
        wanted = {"sample_id": n, "feature_names": d}
        if self._labels is not None:
            lengths["evaluation/labels"], wanted["evaluation/labels"] = self._labels.shape[0], n
        for what, length in lengths.items():
            if length != wanted[what]:
                raise StoreError(
                    f"client {self.name!r}: {what} has {length} entries and the features need "
                    f"{wanted[what]}; build the store {self.url} again."
                )
        if n < 1 or d < 1:
            raise StoreError(
                f"client {self.name!r}: a store must have at least one sample and one feature; got "
                f"{n} x {d} at {self.url}. Leave the client out."
            )
        keys = files_of(self.url)
        arrays = [self._features, self._ids, *([] if self._labels is None else [self._labels])]
        for array in [*arrays, *(self._graph.arrays() if self._graph else [])]:
            # zarr reads a missing chunk as zeros; here every chunk was written, so it is a loss
            found = sum(f"/{array.path}/c/" in key for key in keys)
            expected = n_chunks(int(array.shape[0]), int(array.chunks[0]))
            if found != expected:
                raise StoreError(
                    f"client {self.name!r}: {array.path} has {found} of its {expected} chunks; the "
                    f"store {self.url} is damaged, build it again."
                )

    def _read(self, array: Any, start: int, stop: int) -> np.ndarray:
        damage: Exception | None = None
        part = np.empty(0)
        try:
            try:
                with reaching(self.url):
                    part = np.asarray(array[start:stop])
            except ChunkError as error:
                damage = error
            except StoreError:
                raise
            except (ValueError, RuntimeError, TypeError) as error:  # what Zarr's codecs raise
                damage = error
            unchanged = metadata_of(self.url) == self._mark  # asked after the chunks were read
        except OSError as error:
            raise StoreError(
                f"client {self.name!r}: rows {start} to {stop} of {array.path} cannot be read "
                f"({type(error).__name__}); see that {self.url} can be reached."
            ) from error
        if not unchanged:
            raise StoreError(
                f"client {self.name!r}: the store {self.url} was replaced while it was in use; "
                f"start the run again."
            )
        if isinstance(damage, ChunkError):
            raise StoreError(f"client {self.name!r}: {damage}") from damage
        if damage is not None:
            raise StoreError(
                f"client {self.name!r}: a chunk in rows {start} to {stop} of {array.path} does not "
                f"match its checksum; the store {self.url} is damaged, build it again."
            ) from damage
        return part

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Read rows, and only the chunks that have them.

        Parameters
        ----------
        start, stop : int
            With ``0 <= start <= stop <= n_samples``.

        Returns
        -------
        ndarray of shape (stop - start, n_features), float64
            A new array.

        Raises
        ------
        InvalidInput
            When the range leaves the store.
        StoreError
            When a chunk does not match its checksum, or squares of values exceed float64.
        """
        return of_size(self.rows_of_any_size(start, stop), self.feature_names, self.name)

    def rows_of_any_size(self, start: int, stop: int) -> np.ndarray:
        """Read rows for a step of preparation; see `rows`."""
        if not 0 <= start <= stop <= self.n_samples:
            raise InvalidInput(
                f"rows of client {self.name!r} must lie in [0, {self.n_samples}]; got {start} to "
                f"{stop}."
            )
        numbers = np.ascontiguousarray(self.stored(start, stop), dtype=np.float64)
        gaps = bool(self.attributes.get("missing", False))  # as it is written, before preparation
        return finite(numbers, start, self.name, missing=gaps)

    def stored(self, start: int, stop: int) -> np.ndarray:
        """Read rows in their stored type, as they were written."""
        return self._read(self._features, start, stop)

    def blocks(self, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """Iterate over all rows in blocks.

        Parameters
        ----------
        rows : int, optional
            Rows of one block; by default those of a chunk.

        Yields
        ------
        start : int
            First row of the block.
        block : ndarray of shape (<= rows, n_features), float64
            The rows; NaN where a value is missing, in stores that may lack some.
        """
        step = self.chunk_rows if rows is None else rows
        if step < 1:
            raise InvalidInput(f"rows of a block must be a whole number of at least 1; got {step}.")
        for start in range(0, self.n_samples, step):
            yield start, self.rows(start, min(start + step, self.n_samples))

    def sample_ids(self) -> np.ndarray:
        """Return the ids of all samples.

        Returns
        -------
        ndarray of shape (n_samples,), str
            In the order of the rows.
        """
        return fixed_width(self._read(self._ids, 0, self.n_samples))

    def id_key(self) -> bytes:
        """Return the 32 secret bytes from which keys of the store's pseudonyms are derived."""
        return stored_key(self._ids)

    @property
    def unprepared(self) -> str:
        """What to prepare before rows are numbers, in words; empty if nothing."""
        return unprepared(self.categories, self.missing)

    @property
    def build_id(self) -> str:
        """Random id of this writing of the store."""
        return str(self.attributes["build_id"])

    def labels(self) -> np.ndarray | None:
        """Return the evaluation labels.

        Returns
        -------
        ndarray of shape (n_samples,), int64, or None
            None where the store has none.
        """
        known = self._labels
        return None if known is None else self._read(known, 0, self.n_samples).astype(np.int64)

    @property
    def digest(self) -> str:
        """SHA-256 of features, columns and ids, as recorded when the store was written."""
        return str(self.attributes["content_digest"])

    @property
    def view(self) -> str | None:
        """Name of the view whose columns these are, where the source had several."""
        name = self.attributes.get("view")
        return None if name is None else str(name)

    @property
    def scaling(self) -> str:
        """Kinds of scaling that the features went through, by view if several; empty for none."""
        told = {
            str(step.get("view", "")): str(step["kind"])
            for step in self.attributes.get("steps", ())
            if step["step"] == "scaling"
        }
        if len(set(told.values())) < 2:
            return next(iter(told.values()), "")
        return ", ".join(f"{view}: {kind}" for view, kind in told.items())

    @property
    def has_labels(self) -> bool:
        """Whether evaluation labels are kept beside the features."""
        return self._labels is not None

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the labels 0, 1, ..., where the source named them."""
        if self._labels is None:
            return None
        names: Any = self._group["evaluation"].attrs.get("classes")
        return None if names is None else tuple(str(name) for name in names)

    @property
    def has_graph(self) -> bool:
        """Whether the store holds a graph of its samples."""
        return self._graph is not None

    @property
    def n_edges(self) -> int:
        """Edges of the graph, loops among them; 0 without a graph."""
        return 0 if self._graph is None else self._graph.n_edges

    def graph(self) -> sparse.csr_array | None:
        """Return the whole graph.

        Returns
        -------
        csr_array of shape (n_samples, n_samples), float64, or None
            Symmetric; None where the store has none.
        """
        return None if self._graph is None else self._graph.rows(0, self.n_samples)

    def graph_blocks(self, rows: int | None = None) -> Iterator[tuple[int, sparse.csr_array]]:
        """Iterate over the rows of the graph in blocks.

        Parameters
        ----------
        rows : int, optional
            Rows of one block; 65,536 by default.

        Yields
        ------
        start : int
            First row of the block.
        block : csr_array of shape (<= rows, n_samples), float64
            The rows.

        Raises
        ------
        StoreError
            When the store has no graph.
        """
        if self._graph is None:
            raise StoreError(
                f"client {self.name!r}: the store {self.url} has no graph; add one to the storage "
                "file."
            )
        return self._graph.blocks(_GRAPH_ROWS if rows is None else rows)

    def dataset(self, chunks: Any = None) -> xr.Dataset:
        """Return an xarray view that loads only what is indexed.

        Parameters
        ----------
        chunks : "auto", or as of `xarray.Dataset.chunk`, optional
            Read ``features`` by Dask: "auto" takes whole chunks of the store at a time.

        Returns
        -------
        xarray.Dataset
            ``features`` over (sample, feature), with ids, names, words as JSON, and no labels.

        Notes
        -----
        For use at a site. Computing it within a step of a run raises an error: steps have no
        scheduler, which could place tasks at another party.
        """
        # here, since xarray takes 80 MB that steps do not need
        from daskfc.stores.store.lazy_rows import lazy_dataset

        return lazy_dataset(self, chunks)

    def check(self) -> None:
        """Read everything and check it against checksums, digests and rules.

        Raises
        ------
        StoreError
            For a damaged chunk, features that are not finite, repeated ids, or content that is not
            what was written; names the client and row numbers, never values.
        """
        steps = range(0, self.n_samples, self.chunk_rows)
        spans = [(start, min(start + self.chunk_rows, self.n_samples)) for start in steps]
        found = check_rows(
            ((self.stored(*span), fixed_width(self._read(self._ids, *span))) for span in spans),
            ContentDigest(self.dtype, self.feature_names, self.attributes.get("categories")),
            missing=self.missing,
            client=self.name,
            url=self.url,
        )
        labels = self.labels()
        wanted = {"content": found == self.digest}
        if self._graph is not None:
            whole = checked_graph(self.graph(), self.n_samples, f"client {self.name!r}")
            wanted["graph"] = graph_digest(whole) == self._graph.digest
        if labels is not None:
            recorded = self._group["evaluation"].attrs.get("labels_digest")
            wanted["evaluation labels"] = labels_digest(labels) == recorded
        for what, equal in wanted.items():
            if not equal:
                raise StoreError(
                    f"client {self.name!r}: the {what} of {self.url} is not what was written "
                    f"there; build the store again."
                )

    def bytes_on_disk(self) -> int:
        """Return the bytes of all files of the store."""
        fs, path = filesystem(self.url)
        return int(fs.du(path))


def _array(group: zarr.Group, path: str, url: str, *, ndim: int, required: bool = True) -> Any:
    """Return an array of a group, or None where an optional one is absent."""
    found = group.get(path)
    if found is None and not required:
        return None
    if not isinstance(found, zarr.Array) or found.ndim != ndim:
        raise StoreError(
            f"{url}: the store must have a {ndim}-dimensional array {path!r}; it has not. Build it "
            f"again."
        )
    return bounded(found, url)

"""Write one client's store in blocks, so that a reader sees all of it or nothing."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import zarr

from daskfc.errors import StoreError
from daskfc.stores.layout.graph import checked_graph, write_graph
from daskfc.stores.layout.id_key import kept_key
from daskfc.stores.layout.layout import (
    FORMAT,
    VERSION,
    WITH_GAPS,
    ContentDigest,
    array_options,
    check_different,
    default_names,
    labels_digest,
)
from daskfc.stores.layout.locations import check_space, local_path, resolve_url, zarr_store
from daskfc.stores.layout.rounding import ColumnRounding
from daskfc.stores.layout.samples import ids_as_text, unmasked
from daskfc.stores.layout.staging import partial_name, put_in_place, remove, store_exists, sweep

_SMALLER = np.dtype("float32")  # the type that is tried by default
_UNDECIDED = "undecided"  # the array of rows whose type is not known yet


def bytes_needed(n_samples: int, n_features: int, dtype: str | np.dtype[Any] | None) -> int:
    """Return the most bytes that a store takes while it is written, without its graph."""
    a_value = 16 if dtype is None else np.dtype(dtype).itemsize  # float64, and once more
    return n_samples * (n_features * a_value + 24)  # a label, and an id of up to 16 bytes


class StoreWriter:
    """Write one client's store block by block.

    On a local file system everything is written under a temporary name beside the target and
    renamed when it is whole. Elsewhere nothing can be renamed at once: the mark ``complete`` is
    written last, and readers refuse a group without it. A store that is to be replaced is removed
    only when the new one is whole.

    Parameters
    ----------
    url : str
        Where the store will be.
    name : str
        The client's name.
    n_samples, n_features : int
        Shape, both at least 1.
    feature_names : sequence of str, optional
        Columns; x0, x1, ... by default.
    labelled : bool
        Whether every block comes with evaluation labels.
    classes : sequence of str, optional
        Names of the labels 0, 1, ...
    chunk_rows : int
        Rows of one chunk.
    dtype : str, optional
        Stored type of the features. By default the smallest that holds every column: an integer
        type of whole numbers; float32 where it moves no value by more than a millionth of the
        column's standard deviation, and no whole number; else float64. Rows are kept as float64
        until all are there.
    overwrite : bool
        Whether an existing store may be replaced.
    attributes : mapping, optional
        Further attributes, for provenance.
    graph : sparse array of shape (n_samples, n_samples), optional
        Symmetric adjacency of the samples.
    categories : mapping of str to sequence of str, optional
        By column the words that its numbers, 0, 1, ..., stand for.
    missing : bool
        Whether features may be NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.stores import ClientStore, StoreWriter
    >>> with StoreWriter("memory://doc/w.zarr", "a", 4, 2, chunk_rows=2, overwrite=True) as writer:
    ...     writer.append(np.zeros((3, 2)), ["0", "1", "2"])
    ...     writer.append(np.ones((1, 2)), ["3"])
    >>> ClientStore.open("memory://doc/w.zarr", verify=True).n_samples
    4
    """

    def __init__(
        self,
        url: str,
        name: str,
        n_samples: int,
        n_features: int,
        *,
        feature_names: Sequence[str] | None = None,
        labelled: bool = False,
        classes: Sequence[str] | None = None,
        chunk_rows: int = 1024,
        dtype: str | None = None,
        overwrite: bool = False,
        attributes: Mapping[str, Any] | None = None,
        graph: Any = None,
        categories: Mapping[str, Sequence[str]] | None = None,
        missing: bool = False,
    ) -> None:
        self.url = resolve_url(url)
        self.name = name
        self._shape = (n_samples, n_features)
        self._names = tuple(default_names(n_features) if feature_names is None else feature_names)
        self._chosen = dtype is None
        self._decided = not self._chosen
        self._dtype = self._checked_dtype("float64" if dtype is None else dtype)
        self._chunk_rows = chunk_rows
        self._labelled = labelled
        self._missing = missing
        self._check_arguments()
        self._path = local_path(self.url)
        if self._path is not None:
            sweep(self._path)
        self._replaces = store_exists(self.url)
        if self._replaces and not overwrite:
            raise StoreError(
                f"{self.url}: something is there already, and stores are not written over unless "
                f"asked; pass overwrite=True (--overwrite), or choose another root."
            )
        self._graph = None if graph is None else checked_graph(graph, n_samples, f"client {name!r}")
        check_space(self.url, self._needed(), f"client {name!r}")
        self._staged = self.url
        if self._path is not None or self._replaces:
            self._staged = partial_name(self.url)
        self._ended = False  # closed or aborted
        self._whole = False  # all rows are there, and written
        self._at = 0  # rows received
        self._ids: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []
        self._waiting: list[np.ndarray] = []  # rows of the chunk that is not full yet
        self._categories = {name: tuple(words) for name, words in (categories or {}).items()}
        small = self._dtype if self._decided else _SMALLER
        self._rounding = None  # for a type that moves no value
        if small.kind == "f" and small.itemsize < 8:
            self._rounding = ColumnRounding(n_features, small)
        self._classes = classes
        self._attributes = dict(attributes or {})
        self._id_attributes = kept_key(self.url, name, replaces=self._replaces)
        with self._refusing_disk_errors():
            self._create()

    def _check_arguments(self) -> None:
        n, d = self._shape
        if n < 1 or d < 1:
            raise StoreError(
                f"client {self.name!r} must have at least one sample and one feature; got {n} x "
                f"{d}. Leave the client out or ask for fewer clients."
            )
        if len(self._names) != d or len(set(self._names)) != d:
            raise StoreError(
                f"client {self.name!r} must have {d} different feature names; got "
                f"{len(self._names)}, {len(set(self._names))} of them different. Correct the names."
            )
        if self._missing and self._dtype.kind != "f":
            raise StoreError(
                f"client {self.name!r}: {self._dtype.name} cannot hold missing values. Choose "
                "float32 or float64 as layout.dtype."
            )
        if self._chunk_rows < 1:
            raise StoreError(
                f"chunk_rows of client {self.name!r} must be a whole number of at least 1; got "
                f"{self._chunk_rows}."
            )

    def _checked_dtype(self, dtype: str) -> np.dtype[Any]:
        try:
            found = np.dtype(dtype)
        except TypeError:
            found = None
        if found is None or found.kind not in "fiu":
            raise StoreError(
                f"dtype of client {self.name!r} must be a float or an integer type; got "
                f"{(dtype if found is None else found.name)!r}. Take float32, float64 or int64."
            )
        return found

    def _needed(self) -> int:
        n, d = self._shape
        edges = 0 if self._graph is None else 8 * n + 12 * self._graph.nnz
        return bytes_needed(n, d, self._dtype if self._decided else None) + edges

    @contextmanager
    def _refusing_disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.abort()
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                reason = f"no space on disk, up to {self._needed()} bytes are needed; free some"
            else:
                reason = f"{type(error).__name__}; see that the place can be written"
            raise StoreError(
                f"client {self.name!r}: the store {self.url} could not be written: {reason} or "
                f"choose another root. Nothing was left there."
            ) from error

    def _create(self) -> None:
        n = self._shape[0]
        rows = min(self._chunk_rows, n)
        folder = local_path(self._staged)  # a name that nothing has yet
        if folder is not None:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)  # raw data lie in it
        self._group = zarr.create_group(
            zarr_store(self._staged, read_only=False), zarr_format=3, overwrite=folder is None
        )
        head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "client": self.name}
        if self._categories or self._missing:
            words = {name: list(words) for name, words in self._categories.items()}
            head |= {"version": WITH_GAPS, "categories": words, "missing": self._missing}
        self._group.attrs.update({**head, **self._attributes, "complete": False})
        if self._decided:
            self._start_features()
        else:
            self._undecided = self._feature_array(_UNDECIDED)
        per_sample = array_options((n,), (rows,), ("sample",))
        self._id_array = self._group.create_array(
            "sample_id", dtype=str, attributes=self._id_attributes, **per_sample
        )
        if self._labelled:
            evaluation = self._group.create_group("evaluation")
            self._label_array = evaluation.create_array("labels", dtype="int64", **per_sample)

    def _feature_array(self, name: str) -> zarr.Array[Any]:
        n, d = self._shape
        options = array_options((n, d), (min(self._chunk_rows, n), d), ("sample", "feature"))
        return self._group.create_array(name, dtype=self._dtype.newbyteorder("<"), **options)

    def _start_features(self) -> None:
        self._features = self._feature_array("features")
        self._digest = ContentDigest(self._dtype, self._names, self._categories)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def append(
        self,
        features: np.ndarray,
        sample_ids: Sequence[str] | np.ndarray,
        labels: np.ndarray | None = None,
    ) -> None:
        """Add the next rows; whole chunks are written, the rest waits.

        Parameters
        ----------
        features : ndarray of shape (rows, n_features)
            Finite numbers.
        sample_ids : sequence of str
            One id a row.
        labels : ndarray of shape (rows,), optional
            Integers; required when the writer is labelled.

        Raises
        ------
        StoreError
            For rows that do not fit, are not finite or that the stored type cannot hold.
        """
        features = unmasked(features)
        ids = ids_as_text(sample_ids, f"client {self.name!r}")
        rows = len(features)
        if features.ndim != 2 or features.shape[1] != self._shape[1]:
            raise StoreError(
                f"client {self.name!r}: a block must have {self._shape[1]} columns; got shape "
                f"{features.shape}."
            )
        if len(ids) != rows or (labels is None) == self._labelled:
            raise StoreError(
                f"client {self.name!r}: a block of {rows} rows must come with as many ids"
                f"{' and labels' if self._labelled else ' and no labels'}; got {len(ids)} ids and "
                f"{'no' if labels is None else len(labels)} labels."
            )
        if self._at + rows > self._shape[0]:
            raise StoreError(
                f"client {self.name!r}: {self._shape[0]} rows were announced; got at least "
                f"{self._at + rows}."
            )
        kept = self._checked(features)
        self._ids.append(ids)
        if labels is not None:
            self._labels.append(np.asarray(labels).astype(np.int64))
        self._at += rows
        self._waiting.append(kept)
        if sum(len(part) for part in self._waiting) >= self._chunk_rows:
            self._flush(last=False)

    def _checked(self, features: np.ndarray) -> np.ndarray:
        """Return rows to keep, floats as float64; raise for values that cannot be stored."""
        if features.dtype.kind not in "fiub":
            raise StoreError(
                f"client {self.name!r}: features must be real numbers; got type "
                f"{features.dtype.name!r}. Name the numeric columns."
            )
        with np.errstate(over="ignore"):  # narrower floats, which hold no 2**24
            features = features.astype(np.float64) if features.dtype.kind == "f" else features
        odd = np.isinf(features) if self._missing else ~np.isfinite(features)
        bad = np.flatnonzero(odd.any(axis=1))
        if len(bad):
            what = "infinity" if self._missing else "NaN or infinity"
            raise StoreError(
                f"client {self.name!r}: features must be finite; got {what} in "
                f"{len(bad)} of {len(features)} rows of a block, the first is row "
                f"{self._at + int(bad[0])} of the client. Clean the source."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            stored = features.astype(self._dtype)
        if self._dtype.kind == "f":
            gaps = np.isnan(features)
            lost = ~np.isfinite(stored) & ~gaps
        else:
            lost = stored.astype(np.float64) != features
        if lost.any():
            raise StoreError(
                f"client {self.name!r}: {self._dtype.name} cannot hold {int(lost.sum())} values "
                f"of a block of {len(features)} rows; choose another layout.dtype, such as "
                f"float32 or float64."
            )
        self._refuse_merging(features, stored)
        if self._dtype.kind != "f":
            return stored
        kept = features.astype(np.float64)
        kept[gaps] = np.nan  # one pattern of bits, so that digests agree
        return kept

    def _refuse_merging(self, features: np.ndarray, stored: np.ndarray) -> None:
        """Raise for whole numbers that a float rounds to others."""
        read = stored if stored.dtype.kind == "f" else stored.astype(np.float64)  # as fits do
        digits = np.finfo(read.dtype).nmant + 1
        large = (features > 2**digits) | (features < -(2**digits))
        if not large.any():
            return
        with np.errstate(invalid="ignore"):
            back = read.astype(features.dtype) if features.dtype.kind in "iu" else read
        whole = np.rint(features) == features
        rounded = large & whole & (back != features) & np.isfinite(read)
        if rounded.any():
            row, column = np.argwhere(rounded)[0]
            raise StoreError(
                f"client {self.name!r}: {read.dtype.name} rounds whole numbers above 2**{digits}; "
                f"got {int(rounded.sum())} that it would change, the first in column "
                f"{self._names[column]!r} of row {self._at + int(row)} of the client. Leave the "
                f"column out{'' if digits > 50 else ', or choose layout.dtype float64'}."
            )

    def _flush(self, *, last: bool) -> None:
        rows = np.concatenate(self._waiting)
        done = self._at - len(rows)
        keep = 0 if last else len(rows) % self._chunk_rows
        whole = rows[: len(rows) - keep]
        for start in range(0, len(whole), self._chunk_rows):  # whatever the blocks of `append`
            self._write(done + start, whole[start : start + self._chunk_rows])
        self._waiting = [rows[len(whole) :].copy()]

    def _write(self, start: int, rows: np.ndarray) -> None:
        """Write a chunk, in its type if that is decided."""
        if self._rounding is not None:
            self._rounding.add(rows)
        with self._refusing_disk_errors():
            if self._decided:
                self._store(start, rows)
            else:
                self._undecided[start : start + len(rows)] = rows

    def _store(self, start: int, rows: np.ndarray) -> None:
        with np.errstate(over="ignore"):
            stored = rows.astype(self._dtype, copy=False)
        self._digest.add(stored, ())
        self._features[start : start + len(rows)] = stored

    def _decide(self) -> None:
        """Choose the type, now that all rows are known, and write them in it."""
        assert self._rounding is not None
        self._dtype = self._rounding.smallest(gaps=self._missing)
        with self._refusing_disk_errors():
            self._start_features()
            for start in range(0, self._shape[0], self._chunk_rows):
                self._store(start, np.asarray(self._undecided[start : start + self._chunk_rows]))
            del self._group[_UNDECIDED]
        self._decided = True

    def check(self) -> None:
        """Write the rows that wait, and validate the store.

        `close` does so too; before closing several writers, check all of them.

        Raises
        ------
        StoreError
            When rows are missing, ids repeat or the type moves a column; nothing is left then.
        """
        if self._whole:
            return
        if self._at != self._shape[0]:
            self.abort()
            raise StoreError(
                f"client {self.name!r}: {self._shape[0]} rows were announced; got {self._at}."
            )
        try:
            ids = np.concatenate(self._ids)
            check_different(ids, f"client {self.name!r}", "Clean the source.")
        except StoreError:
            self.abort()
            raise
        self._flush(last=True)
        if not self._decided:
            self._decide()
        elif self._rounding is not None and (moved := self._rounding.moved()).any():
            self.abort()
            raise StoreError(
                f"client {self.name!r}: {self._dtype.name} must not move a value by more than a "
                "millionth of its column's standard deviation; it would in "
                f"{int(moved.sum())} of {len(moved)} columns, the first is "
                f"{self._names[int(np.argmax(moved))]!r}. Choose dtype float64, or leave dtype out."
            )
        self._whole = True

    def close(self) -> None:
        """Write the rows that wait and ``complete``, then put the store in its place.

        Raises
        ------
        StoreError
            As of `check`; nothing is left then.
        """
        self.check()
        ids = np.concatenate(self._ids)
        self._digest.add(np.empty((0, self._shape[1])), ids)
        with self._refusing_disk_errors():
            self._id_array[:] = ids.astype(object)
            if self._labelled:
                labels = np.concatenate(self._labels)
                self._label_array[:] = labels
                notes = {"labels_digest": labels_digest(labels)}
                classes = None if self._classes is None else list(self._classes)
                self._group["evaluation"].attrs.update({**notes, "classes": classes})
            if self._graph is not None:
                write_graph(self._group, self._graph)
            self._group.attrs.update(
                {
                    "feature_names": list(self._names),
                    "content_digest": self._digest.hexdigest(),
                    "chosen_dtype": self._chosen,
                    "build_id": uuid.uuid4().hex,  # differs by build, reveals no data
                    "complete": True,  # last: a reader refuses a group without it
                }
            )
            # elsewhere than on a local disk a whole copy is kept when it cannot be put in place
            self._ended = self._path is None
            if self._staged != self.url:
                put_in_place(self._staged, self.url)
        self._ended = True

    def abort(self) -> None:
        """Remove what was written; a store that was to be replaced stays as it is.

        Does nothing after `close`.
        """
        if self._ended:
            return
        self._ended = True
        remove(self._staged)

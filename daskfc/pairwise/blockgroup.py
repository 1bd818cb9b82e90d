"""A Zarr group that is filled block by block and survives being killed at any moment.

A block counts as done when its marker exists, which is written last. Without a marker the block is
written again, with the same content. A crash of the machine may keep the marker and lose the block:
resuming a group checks every block once, by its checksum, and removes the markers of damaged ones.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec
from zarr.storage import FsspecStore, LocalStore

from daskfc.errors import InvalidInput, StoreError
from daskfc.pairwise.grid import SymmetricGrid

_LAYOUT = 1
_NAME = "daskfc-pairwise"


def _store(path: str, *, read_only: bool = False) -> LocalStore | FsspecStore:
    # LocalStore renames whole chunks into place; fsspec's own local files do not
    local = path.removeprefix("file://")
    if "://" not in local:
        return LocalStore(local, read_only=read_only)
    return FsspecStore.from_url(path, read_only=read_only)


def _settings_of(path: str) -> dict[str, Any] | None:
    """Return the settings of the group at a path; None if there is no group."""
    try:
        # read only, because a store opened for writing creates its folder
        group = zarr.open_group(_store(path, read_only=True), mode="r", zarr_format=3)
    except FileNotFoundError:
        return None
    except ValueError as error:  # zarr's own errors are ValueErrors
        raise StoreError(
            f"{path} holds something that is no Zarr v3 group ({type(error).__name__}). "
            f"Choose another folder or remove it."
        ) from error
    settings = group.attrs.get(_NAME)
    return dict(settings) if isinstance(settings, Mapping) else {"state": "of another program"}


class BlockGroup:
    """Base of results that are written block by block, in any order, into a Zarr group.

    `settings` are its ``kind``, ``n``, ``tile`` and the subclass's own. Pickled as its path.
    Threads and processes may write blocks of one group at once, even the same block.
    """

    kind: ClassVar[str]

    def __init__(self, path: str, group: zarr.Group, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.grid = SymmetricGrid(int(settings["n"]), int(settings["tile"]))
        self._group = group
        self._settings = dict(settings)
        self._markers = self._array("done")
        self._known: dict[tuple[int, int], int] = {}
        self._refresh()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).open, (self.path,)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n={self.grid.n}, tile={self.grid.tile}, "
            f"done={len(self._known)} of {self.grid.n_blocks} blocks)"
        )

    @classmethod
    def open(cls, path: str) -> Self:
        """Open a group by folder or fsspec URL; StoreError if its creation was interrupted."""
        path = str(path)
        settings = _settings_of(path)
        if settings is None or settings["state"] == "of another program":
            raise StoreError(f"{path} holds no {cls.kind}. Correct the path or create it first.")
        if settings["state"] != "ready":
            raise StoreError(
                f"the creation of the {cls.kind} at {path} was interrupted. "
                f"Create it again at the same path."
            )
        if settings.get("kind") != cls.kind or settings.get("layout") != _LAYOUT:
            raise StoreError(
                f"{path} holds {settings.get('kind')!r} of layout {settings.get('layout')!r}, not "
                f"{cls.kind!r} of layout {_LAYOUT}. Correct the path."
            )
        return cls(path, zarr.open_group(_store(path), mode="r+", zarr_format=3), settings)

    @classmethod
    def _create(
        cls,
        path: str,
        grid: SymmetricGrid,
        settings: Mapping[str, Any],
        fill: Callable[[zarr.Group], None],
        *,
        resume: bool,
    ) -> Self:
        path = str(path)
        wanted = {"kind": cls.kind, "layout": _LAYOUT, "n": grid.n, "tile": grid.tile, **settings}
        found = _settings_of(path)
        if found is not None and found["state"] == "of another program":
            raise StoreError(
                f"{path} holds a Zarr group of another program. Choose another folder."
            )
        if found is not None and found["state"] == "ready":
            if not resume:
                raise StoreError(
                    f"{path} exists already. Pass resume=True to go on with it, or remove it."
                )
            for key, value in wanted.items():
                if found.get(key) != value:
                    raise StoreError(
                        f"{path} was begun with {key}={found.get(key)!r} and cannot go on with "
                        f"{key}={value!r}. Choose another folder or remove it."
                    )
            begun = cls.open(path)
            begun._forget_torn()
            return begun
        # "ready" is written last, so that an interrupted creation starts again
        group = zarr.create_group(
            _store(path),
            overwrite=found is not None,
            zarr_format=3,
            attributes={_NAME: {"state": "creating"}},
        )
        group.create_array(
            "done",
            shape=(grid.n_panels, grid.n_panels),
            chunks=(1, 1),
            dtype="int64",
            fill_value=0,
            compressors=[Crc32cCodec()],
        )
        fill(group)
        group.attrs[_NAME] = {**wanted, "state": "ready"}
        return cls.open(path)

    def _array(self, name: str) -> zarr.Array[Any]:
        try:
            array = self._group[name]
        except (KeyError, ValueError) as error:  # no description, or none that can be read
            raise StoreError(
                f"the {self.kind} at {self.path} has lost its array {name!r}. Create it again."
            ) from error
        assert isinstance(array, zarr.Array), name
        return array

    def _read(self, array: zarr.Array[Any], where: tuple[Any, ...]) -> NDArray[Any]:
        try:
            return np.asarray(array[where])
        except (ValueError, RuntimeError) as error:  # a checksum, a length or a code that is wrong
            raise StoreError(
                f"array {array.basename!r} of the {self.kind} at {self.path} is corrupt. "
                f"Resume the run, or remove the folder and compute it again."
            ) from error

    def _refresh(self) -> None:
        markers = self._readable_markers()
        for i, j in np.argwhere(markers > 0):
            self._known[int(i), int(j)] = int(markers[i, j]) - 1

    def _readable_markers(self) -> NDArray[Any]:
        """Return all markers; 0, not done, where one is damaged."""
        with suppress(StoreError):
            return self._read(self._markers, (slice(None), slice(None)))
        markers = np.zeros(self._markers.shape, np.int64)
        for i, j in self.grid.blocks():
            with suppress(StoreError):
                markers[i, j] = self._read(self._markers, (i, j))
        return markers

    def _forget_torn(self) -> None:
        """Remove markers that are damaged, and those of damaged blocks."""
        for i, j in self.grid.blocks():
            try:
                self._read(self._markers, (i, j))
                if (i, j) in self._known:
                    self._look(i, j)
            except StoreError:
                self._markers[i, j] = 0
                self._known.pop((i, j), None)

    @abstractmethod
    def _look(self, i: int, j: int) -> None:
        """Read a block that is marked as done; raise StoreError if it is damaged."""

    def _mark(self, i: int, j: int, count: int = 0) -> None:
        self._markers[i, j] = count + 1
        self._known[i, j] = count

    def _checked(self, i: int, j: int, block: NDArray[Any]) -> NDArray[Any]:
        """Check a block's shape and type; return it as float64 or int64 in C order."""
        shape = self.grid.shape(i, j)
        array = np.asarray(block)
        if array.shape != shape:
            raise InvalidInput(
                f"block ({i}, {j}) of the {self.kind} must have the shape {shape}; "
                f"got {array.shape}."
            )
        if array.dtype.kind not in "fiu":
            raise InvalidInput(
                f"block ({i}, {j}) of the {self.kind} must hold real numbers; got {array.dtype}."
            )
        return np.ascontiguousarray(array, np.float64 if array.dtype.kind == "f" else np.int64)

    def _refuse_values(self, i: int, j: int) -> InvalidInput:
        return InvalidInput(
            f"block ({i}, {j}) given to the {self.kind} holds NaN or negative numbers; squared "
            f"distances have neither. Look at the step that computed it."
        )

    def done(self) -> set[tuple[int, int]]:
        """Return the blocks (i, j) that are completely written, by any process."""
        self._refresh()
        return set(self._known)

    def missing(self) -> list[tuple[int, int]]:
        """Return the blocks that are still to be written, row by row."""
        done = self.done()
        return [block for block in self.grid.blocks() if block not in done]

    def require_complete(self) -> None:
        """Raise StoreError, with their number, while blocks are missing."""
        if len(self._known) < self.grid.n_blocks:
            missing = len(self.missing())
            if missing:
                raise StoreError(
                    f"the {self.kind} at {self.path} is not finished: {missing} of "
                    f"{self.grid.n_blocks} blocks are missing. Write them first."
                )

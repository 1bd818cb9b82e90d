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
from zarr.storage import LocalStore

from daskfc.errors import StoreError
from daskfc.pairwise.grid import SymmetricGrid

_NAME = "daskfc-pairwise"


def _settings_of(path: str) -> Mapping[str, Any]:
    """Return the settings of the group at a path; none if there is no group."""
    try:
        # read only, because a store opened for writing creates its folder
        group = zarr.open_group(LocalStore(path, read_only=True), mode="r", zarr_format=3)
    except FileNotFoundError:
        return {}
    settings = group.attrs.get(_NAME)
    return settings if isinstance(settings, Mapping) else {}


class BlockGroup:
    """Base of results that are written block by block, in any order, into a Zarr group.

    Its settings are its ``kind``, ``n``, ``tile`` and the subclass's own. Pickled as its path.
    Threads and processes may write blocks of one group at once, even the same block.
    """

    kind: ClassVar[str]

    def __init__(self, path: str, group: zarr.Group, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.grid = SymmetricGrid(int(settings["n"]), int(settings["tile"]))
        self._group = group
        self._markers = self._array("done")
        self._known: dict[tuple[int, int], int] = {}
        self._refresh()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).open, (self.path,)

    @classmethod
    def open(cls, path: str) -> Self:
        """Open a group by its folder; StoreError if it is none, or its creation was interrupted."""
        settings = _settings_of(path)
        if settings.get("kind") != cls.kind:
            raise StoreError(f"{path} holds no {cls.kind}. Correct the path or create it first.")
        return cls(path, zarr.open_group(LocalStore(path), mode="r+", zarr_format=3), settings)

    @classmethod
    def _create(
        cls,
        path: str,
        grid: SymmetricGrid,
        own: Mapping[str, Any],
        fill: Callable[[zarr.Group], None],
    ) -> Self:
        """Go on with the group at a path if it has these settings, or begin it."""
        settings = {"kind": cls.kind, "n": grid.n, "tile": grid.tile, **own}
        if _settings_of(path) == settings:
            begun = cls.open(path)
            begun._forget_torn()
            return begun
        # settings are written last, so that an interrupted creation starts again
        group = zarr.create_group(LocalStore(path), overwrite=True, zarr_format=3)
        group.create_array(
            "done",
            shape=(grid.n_panels, grid.n_panels),
            chunks=(1, 1),
            dtype="int64",
            fill_value=0,
            compressors=[Crc32cCodec()],
        )
        fill(group)
        group.attrs[_NAME] = settings
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
        if len(self._known) < self.grid.n_blocks and (missing := len(self.missing())):
            raise StoreError(
                f"the {self.kind} at {self.path} is not finished: {missing} of "
                f"{self.grid.n_blocks} blocks are missing. Write them first."
            )

"""Look at files before a store is made of them: what they hold, what is guessed, all faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from daskfc.checks import checked
from daskfc.errors import StoreError
from daskfc.naming import known_name
from daskfc.stores.building.at_hand import source_at
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.locations import matching_files
from daskfc.stores.layout.samples import reading
from daskfc.stores.sources.cells import Fault
from daskfc.stores.sources.guessing import ColumnGuess, guessed_columns, guessed_marks, keys_of
from daskfc.stores.sources.readers import check_source, format_of, known_sources, open_source
from daskfc.stores.sources.source import Source
from daskfc.stores.sources.tables.csv import Csv
from daskfc.stores.sources.tables.table import Table, spelling_of, whole

_HEAD, _ROWS = 5, 8192  # ours: rows shown, and read at a time


@dataclass
class FileLook:
    """What is in a file, and the `keys` of a source that would read it, given and guessed.

    `head` has the first rows as they are written, and no columns where the format names none;
    `faults` are the cells that are no features, with their values; `place` turns a fault's row into
    its place in the file, in words.
    """

    file: str
    format: str
    n_samples: int
    keys: dict[str, Any]
    head: pd.DataFrame = field(default_factory=pd.DataFrame)
    columns: list[ColumnGuess] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    place: Callable[[int], str] = str

    def _beside(self, other: FileLook) -> tuple[list[str], list[str]]:
        """Return columns that this file alone has, and those that the other alone has."""
        if not (self.columns and other.columns):  # of a format that names none
            return [], []
        own, others = ([column.name for column in one.columns] for one in (self, other))
        return [n for n in own if n not in others], [n for n in others if n not in own]

    def spelling_of(self, other: FileLook) -> dict[str, str]:
        """Return columns of another file that differ from this file's in case and marks alone."""
        own, others = self._beside(other)
        return {name: known for name in others if (known := known_name(name, own)) != name}

    def apart(self, other: FileLook) -> Iterator[str]:
        """Yield in words which columns one of two files lacks."""
        for names, having, without in zip(
            self._beside(other), (self, other), (other, self), strict=True
        ):
            if names:
                listed = ", ".join(map(repr, names))
                yield f"{without.file} lacks {listed}, which {having.file} has."


def look_at_all(paths: Sequence[str], given: Mapping[str, Any]) -> list[FileLook]:
    """Look at files, with columns renamed as the first file spells them; see `look_at`."""
    looks = [look_at(paths[0], given)]
    for path in paths[1:]:
        found = look_at(path, given)
        if renamed := looks[0].spelling_of(found):
            found = look_at(path, {**given, "rename": {**renamed, **given.get("rename", {})}})
        looks.append(found)
    return looks


def look_at(path: str, given: Mapping[str, Any] | None = None) -> FileLook:
    """Look at a file, or the first that a pattern matches, and guess how it is to be read.

    `path` may be the URI of a database, with ``sql`` among the `given` keys of `SourceConfig`. The
    result holds values of the file, for whoever owns it; nothing is written and nothing sent.
    """
    source, reader, given = _found(path, given or {})
    kind = format_of(source)
    with reading(source.where, kind):
        check_source(source)
        where = {"path": path} if source.uri is None else {"uri": path}
        if not isinstance(reader, Table) or source.array is not None:
            return FileLook(source.where, kind, open_source(source).n_samples, {**where, **given})
        file = reader.told(source)
        file.count()  # every line has all fields
        frame = whole(file, file.names, file.names)
        found = FileLook(source.where, kind, len(frame), {**where, **given}, frame.head(_HEAD))
        found.columns = guessed_columns(frame, spelling_of(source))
        found.place = file.place
        if source.pivot is None:
            found.keys = {**where, **keys_of(found.columns, given)}
            source = _with(source, found.keys)
        else:
            found.place = lambda row: f"sample {row + 1}"
        samples = reader.read(source, found.faults)
        for _ in samples.blocks(_ROWS):  # lists all cells that building would refuse one by one
            pass
        found.n_samples = samples.n_samples
    return found


def cells_at(path: str, given: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Return the cells of a table as they are written, its marks guessed; StoreError if none."""
    source, reader, _ = _found(path, given or {})
    if not isinstance(reader, Table):
        raise StoreError(
            f"{source.where}: a table with named columns is needed; got format "
            f"{format_of(source)!r}. Give a csv, Excel or parquet file."
        )
    with reading(source.where, format_of(source)):
        file = reader.told(source)
        file.count()
        return whole(file, file.names, file.names)


def _found(path: str, given: Mapping[str, Any]) -> tuple[SourceConfig, Source, dict[str, Any]]:
    """Return a file, or the first that a pattern matches, its reader, and what is known of it."""
    source = source_at(path, given)
    if source.path is not None:
        source = source.model_copy(update={"path": matching_files(source.file)[0]})
    reader = known_sources()[format_of(source)]()
    with reading(source.where, format_of(source)):
        if isinstance(reader, Csv):
            given = {**guessed_marks(source.file), **given}
            source = _with(source, given)
    return source, reader, dict(given)


def _with(source: SourceConfig, keys: Mapping[str, Any]) -> SourceConfig:
    told = {key: own for key, own in keys.items() if key not in ("path", "uri")}
    whole = {**source.model_dump(exclude_none=True), **told}
    return checked(SourceConfig, whole, source.where)

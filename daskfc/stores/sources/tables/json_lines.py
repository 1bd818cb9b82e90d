"""JSON: an object a line, or a list of objects, whose keys name the columns."""

import json
from collections.abc import Iterator
from typing import Any

import fsspec
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.tables.table import KEYS_OF_TABLES, Held, Table, TableFile, typed


class JsonLines(Table):
    """A file of JSON, in memory as a whole; a key that an object lacks is an empty cell."""

    suffixes = (".jsonl", ".ndjson", ".json")
    keys = KEYS_OF_TABLES | {"encoding"}

    def file(self, source: SourceConfig) -> TableFile:
        """Read all objects."""
        places, objects = [], []
        for place, value in _values(source):
            if not isinstance(value, dict):
                raise _wrong(source, place, "must be an object with a key for each column")
            nested = [key for key, own in value.items() if isinstance(own, dict | list)]
            if nested:
                raise _wrong(source, place, f"must hold numbers and words; {nested[0]!r} does not")
            places.append(place)
            objects.append(value)
        return Held(typed(pd.DataFrame(objects, dtype=object)), places)


def _values(source: SourceConfig) -> Iterator[tuple[str, Any]]:
    """Yield what the file holds, each with its place."""
    options = {"encoding": source.encoding or "utf-8-sig", "compression": "infer"}
    with fsspec.open(source.file, "rt", **options) as file:
        first = file.read(1)
        while first.isspace():
            first = file.read(1)
        file.seek(0)
        if first == "[":
            for number, value in enumerate(_parsed(file.read(), source, "the file"), start=1):
                yield f"object {number}", value
            return
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"line {number}", _parsed(line, source, f"line {number}")


def _parsed(text: str, source: SourceConfig, place: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        twice = isinstance(error, _Twice)
        rule = f"names {error} twice" if twice else "is no JSON"
        raise _wrong(source, place, f"must be an object of JSON; it {rule}") from None


class _Twice(ValueError):
    """A key that an object has twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(repr(key))
        found[key] = value
    return found


def _wrong(source: SourceConfig, place: str, rule: str) -> StoreError:
    return StoreError(
        f"{source.file}: {place} {rule}. Mend it, or write the table as csv, Excel or parquet."
    )

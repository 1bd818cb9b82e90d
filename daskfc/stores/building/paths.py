"""Relative paths of a storage file, which start at its folder."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from daskfc.folders import below
from daskfc.stores.dealing.config import ClientConfig, SourceConfig
from daskfc.stores.sources.readers import format_of

_DATABASES = ("sqlite", "duckdb")  # whose URI may be a path


def paths_of(
    folder: str,
    source: SourceConfig | None,
    clients: Mapping[str, ClientConfig] | None,
    root: str | None,
) -> dict[str, Any]:
    """Return the parts of a storage file in a folder that have paths, as these are meant."""

    def place(path: str) -> str:
        return below(folder, path)

    found: dict[str, Any] = {}
    if source is not None:
        found["source"] = source.model_copy(update=moved(source, place))
    if clients is not None:
        found["clients"] = {name: _client(one, place) for name, one in clients.items()}
    if root is not None:
        found["root"] = _relative(root, place)
    return found


def _client(client: ClientConfig, place: Callable[[str], str]) -> ClientConfig:
    """Return a client with its paths as they are meant."""
    found: dict[str, Any] = {}
    if client.source is not None:
        found["source"] = client.source.model_copy(update=moved(client.source, place))
    if client.store is not None:
        found["store"] = _relative(client.store, place)
    return client.model_copy(update=found)


def moved(source: SourceConfig, place: Callable[[str], str]) -> dict[str, Any]:
    """Return the keys of a source that are paths, with relative ones as `place` gives them."""
    if source.views is not None:
        own = {
            name: view.model_copy(update={"path": _relative(view.path, place)})
            for name, view in source.views.items()
        }
        return {"views": own}
    if source.uri is not None:
        kind, _, file = source.uri.partition(":///")
        if kind.partition("+")[0] in _DATABASES and file and file != ":memory:":
            return {"uri": f"{kind}:///{_relative(file, place)}"}
    found = {} if source.path is None else {"path": source.path}
    if found and source.labels is not None and format_of(source) == "idx":
        found["labels"] = source.labels
    return {key: _relative(path, place) for key, path in found.items()}


def _relative(text: str, place: Callable[[str], str]) -> str:
    """Return a path as `place` gives it, or as it is: URLs, whole ones, unset variables."""
    plain = os.path.expanduser(os.path.expandvars(text))
    if os.path.isabs(plain) or "://" in plain or "$" in plain:
        return text
    return place(plain)

"""Relative paths of a storage file, which start at its folder."""

import glob
import os
import warnings
from collections.abc import Mapping
from typing import Any

from daskfc.errors import InvalidInput
from daskfc.stores.dealing.config import ClientConfig, SourceConfig
from daskfc.stores.sources.readers import format_of

_DATABASES = ("sqlite", "duckdb")  # whose URI may be a path


class StoragePathWarning(UserWarning):
    """A path of a storage file was found from the working directory alone."""


class Paths:
    """The paths of one storage file; what is only where they once started is used, and told."""

    def __init__(self, file: str) -> None:
        self._file, self._folder = file, os.path.dirname(file)
        self._elsewhere = os.path.realpath(self._folder) != os.path.realpath(os.curdir)
        self._late: list[str] = []

    def _of(self, text: str, kind: str = "") -> str:
        """Return a path or URL as it is meant; InvalidInput where it could be two."""
        plain = os.path.expanduser(os.path.expandvars(text))
        if not self._elsewhere or os.path.isabs(plain) or "://" in plain or "$" in plain:
            return text
        here = os.path.normpath(os.path.join(self._folder, plain))
        found, once = _found(here, kind), _found(plain, kind)
        if once and not found:
            self._late.append(text)
            return text
        if once and found != once:
            raise InvalidInput(
                f"{self._file}: the path {text!r} may be {here}, from the folder of this file, or "
                f"{os.path.normpath(plain)}, from the working directory, where such paths once "
                "started. Write the whole path of the one that is meant, or move the other away."
            )
        return here

    def meant(
        self,
        source: SourceConfig | None,
        clients: Mapping[str, ClientConfig] | None,
        root: str | None,
    ) -> dict[str, Any]:
        """Return the parts of a storage file that have paths, as these are meant, and warn once."""
        found: dict[str, Any] = {}
        if source is not None:
            found["source"] = self._source(source)
        if clients is not None:
            found["clients"] = {name: self._client(one) for name, one in clients.items()}
        if root is not None:
            found["root"] = self._of(root)
        if self._late:
            self._tell()
        return found

    def _client(self, client: ClientConfig) -> ClientConfig:
        """Return a client with its paths as they are meant."""
        if client.source is not None:
            return client.model_copy(update={"source": self._source(client.source)})
        if client.store is not None:
            return client.model_copy(update={"store": self._of(client.store)})
        return client

    def _source(self, source: SourceConfig) -> SourceConfig:
        """Return a source with its paths as they are meant."""
        views = source.views
        if views is not None:
            own = {
                name: view.model_copy(update={"path": self._of(view.path)})
                for name, view in views.items()
            }
            return source.model_copy(update={"views": own})
        if source.uri is not None:
            kind, _, place = source.uri.partition(":///")
            if kind in _DATABASES and place:
                return source.model_copy(update={"uri": f"{kind}:///{self._of(place)}"})
        if source.path is None:
            return source
        kind, found = format_of(source), {"path": source.path}
        if kind == "idx" and source.labels is not None:
            found["labels"] = source.labels
        return source.model_copy(update={key: self._of(one, kind) for key, one in found.items()})

    def _tell(self) -> None:
        """Warn of paths that were found from the working directory alone."""
        more = len(self._late) - 1
        first = os.path.relpath(os.path.expanduser(self._late[0]), self._folder or os.curdir)
        warnings.warn(
            f"{self._file}: relative paths start at the folder of this file, where "
            f"{self._late[0]!r}{f' and {more} more' * bool(more)} cannot be found; taken from the "
            f"working directory, as once. Write {first!r}{' and so on' * bool(more)}.",
            StoragePathWarning,
            stacklevel=5,
        )


def _found(path: str, kind: str) -> list[str]:
    """Return the files that a path names or matches, or that begin so, as a graph's do."""
    if os.path.exists(path):
        return [os.path.realpath(path)]
    pattern = f"{glob.escape(path)}.*" if kind == "planetoid" else path
    return sorted(map(os.path.realpath, glob.glob(pattern)))

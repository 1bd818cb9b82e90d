"""The interface of a source, which reads one format of files."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.samples import Samples


class Source(ABC):
    """Reader of one format of files, to be subclassed and registered.

    A package registers the class by an entry point of the group ``daskfc.sources``, whose name is
    the `format` in storage files. An error that a source raises for a file, when it opens it or in
    its blocks, becomes one sentence that names the file; a `StoreError` stays as it is.

    Attributes
    ----------
    suffixes, prefixes : tuple of str
        Endings of its files' names, before ``.gz``, ``.bz2`` or ``.xz``, and beginnings.
    keys : frozenset of str
        Keys of a storage file's source that it knows, beside `dataset`, `path`, `format`, `scale`,
        `scaling`, `subsample` and `graph`.
    has_views : bool
        Whether a file may hold several views, so that `features` may name several arrays.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    prefixes: ClassVar[tuple[str, ...]] = ()
    keys: ClassVar[frozenset[str]] = frozenset()
    has_views: ClassVar[bool] = False

    @abstractmethod
    def open(self, source: SourceConfig) -> Samples:
        """Return the samples of ``source.path``, which is one file or folder."""

    def files(self, source: SourceConfig) -> list[str]:
        """Return the paths of all files that are read, for the source's fingerprint."""
        return [str(source.path)]

    def columns(self, source: SourceConfig) -> list[str]:
        """Return the names of columns that may be labels, by the header alone; none by default."""
        return []

    def views(self, source: SourceConfig) -> tuple[str, ...]:
        """Return the names of a file's views, from names and headers alone; none for a table."""
        return ()


@contextmanager
def from_extra(what: str, package: str, extra: str) -> Iterator[None]:
    """Say which extra of daskfc reads files of a kind, where its package is missing."""
    try:
        yield
    except ImportError as error:
        raise StoreError(
            f"{what} is read by {package}, which is not installed here. Install it with: pip "
            f"install 'daskfc[{extra}]'."
        ) from error


def pick_name(
    asked: str | None, defaults: tuple[str, ...], there: list[str], where: str, key: str
) -> str | None:
    """Return `asked` if it is `there`, else raise; without it the first default there, or None."""
    if asked is None:
        return next((name for name in defaults if name in there), None)
    if asked not in there:
        raise StoreError(
            f"{where}: source.{key} must be one of {', '.join(there[:12])}; got {asked!r}."
        )
    if there.count(asked) > 1:
        raise StoreError(
            f"{where}: names must differ; {asked!r} of source.{key} comes twice. Rename one."
        )
    return asked

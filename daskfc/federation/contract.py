"""What every fit relies on: stores that are their clients' own, with columns that go together.

Messages    StoreSummary  client → caller  when a running cluster is joined, and by ``predict``
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.federation.messages import Message, array
from daskfc.federation.texts import text_arrays, texts_in
from daskfc.stores import ClientStore
from daskfc.stores.together import (
    Split,
    check_columns,
    check_owner,
    check_samples,
    first_difference,
)

__all__ = ["Contract", "StoreSummary", "store_summary", "summary_of_new"]


class StoreSummary(
    Message,
    route="client → caller",
    reveals="the names of the client's columns, and whether its store was written again",
):
    """Whose a client's store is, what its columns are called, and which writing of it this is."""

    owner: str
    build_id: str
    column_bytes: np.ndarray = array("byte", dtype="uint8")
    column_ends: np.ndarray = array("column", dtype="int64")

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns, in their order."""
        return tuple(texts_in(self.column_bytes, self.column_ends))


def store_summary(data: ClientStore) -> StoreSummary:
    """Describe a client's store to whoever opens a federation."""
    written = map(str, data.attributes["feature_names"])  # before they are prepared
    return StoreSummary(data.name, data.build_id, *text_arrays(written))


def summary_of_new(new: ClientStore) -> StoreSummary:
    """Describe a client's store of new samples."""
    return store_summary(new)


@dataclass(frozen=True)
class Contract:
    """What was agreed when a federation opened; every fit and every step is checked against it.

    Parameters
    ----------
    columns : mapping of str to tuple of str
        Names of every client's columns, in their order.
    builds : mapping of str to str
        Which writing of its store each client brought.
    readable : mapping of str to ClientStore
        The stores, where they can be read from here; elsewhere only a method's own messages tell
        whether samples go together.
    """

    columns: Mapping[str, tuple[str, ...]]
    builds: Mapping[str, str]
    readable: Mapping[str, ClientStore] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        stores: Mapping[str, StoreSummary],
        readable: Mapping[str, ClientStore] | None = None,
    ) -> "Contract":
        """Make the contract of clients whose stores are their own.

        Parameters
        ----------
        stores : mapping of str to StoreSummary
            What every client brings.
        readable : mapping of str to ClientStore, optional
            Their stores, where they can be read from here.

        Raises
        ------
        StoreError
            When a client brings the store of another one.
        """
        for client, store in stores.items():
            check_owner(store.owner, client, "its store")
        return cls(
            columns={client: store.columns() for client, store in stores.items()},
            builds={client: store.build_id for client, store in stores.items()},
            readable=dict(readable or {}),
        )

    def check_split(self, split: Split, method: str) -> None:
        """Refuse columns, and samples that can be read, that do not go together for a method.

        See `check_columns` and `check_samples`.
        """
        check_columns(self.columns, split, method)
        if self.readable:
            check_samples(self.readable, split)

    def check_new(self, client: str, store: StoreSummary) -> None:
        """Refuse new samples of another client, or with other columns than its clustered ones.

        Parameters
        ----------
        client : str
            Who brings them.
        store : StoreSummary
            Of the store with the new samples.

        Raises
        ------
        InvalidInput
            Names the owners, or the first column that differs.
        """
        check_owner(store.owner, client, "its store of new samples")
        # One that joined since the fit has the columns that all others had.
        wanted = self.columns.get(client) or next(iter(self.columns.values()))
        got = store.columns()
        if (found := first_difference(wanted, got)) is not None:
            at, here, there = found
            raise InvalidInput(
                f"new samples of client {client!r} must have the columns of the clustered ones in "
                f"the same order; column {at} is {here} there and {there} in the new store. Write "
                "it again with those columns."
            )

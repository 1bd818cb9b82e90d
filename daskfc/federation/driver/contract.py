"""The contract that every fit relies on: each store is its client's, and columns go together.

Messages    StoreSummary  client → caller  when a running cluster is joined, and by ``predict``
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.federation.messages.declaration import Message, array
from daskfc.federation.messages.texts import text_arrays, texts_in
from daskfc.stores import ClientStore
from daskfc.stores.store.fitted_steps import FittedStep
from daskfc.stores.store.together import (
    Split,
    check_columns,
    check_owner,
    check_samples,
    first_difference,
)


class StoreSummary(
    Message,
    route="client → caller",
    reveals="the names of the client's columns, which of them hold words, whether values may be "
    "missing, and whether its store was written again",
):
    """The owner, the columns and the version of a client's store."""

    owner: str
    build_id: str
    column_bytes: np.ndarray = array("byte", dtype="uint8")
    column_ends: np.ndarray = array("column", dtype="int64")
    of_words: np.ndarray = array("column", dtype="bool")
    missing: int

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns, in their order."""
        return tuple(texts_in(self.column_bytes, self.column_ends))

    def categorical(self) -> tuple[str, ...]:
        """Return the names of the columns that hold words."""
        columns = zip(self.columns(), self.of_words.tolist(), strict=True)
        return tuple(name for name, holds_words in columns if holds_words)


def store_summary(data: ClientStore) -> StoreSummary:
    """Describe a client's store to the caller that opens a federation."""
    known = data.attributes  # as they are written, before they are prepared
    names, words = list(map(str, known["feature_names"])), known.get("categories", {})
    of_words = np.array([name in words for name in names])
    missing = int(known.get("missing", False))
    return StoreSummary(data.name, data.build_id, *text_arrays(names), of_words, missing)


def summary_of_new(new: ClientStore) -> StoreSummary:
    """Describe a client's store of new samples."""
    return store_summary(new)


@dataclass(frozen=True)
class Contract:
    """What was agreed when a federation opened; every fit and every step is checked against it.

    `builds` are the stores' versions, `categorical` the columns with words, `readable` the stores
    that this process can read; of others only a method's messages show whether samples match.
    """

    columns: Mapping[str, tuple[str, ...]]
    builds: Mapping[str, str]
    readable: Mapping[str, ClientStore] = field(default_factory=dict, compare=False, repr=False)
    categorical: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(
        cls, stores: Mapping[str, StoreSummary], readable: Mapping[str, ClientStore] | None = None
    ) -> "Contract":
        """Return the clients' contract; StoreError when one brings another client's store."""
        for client, store in stores.items():
            check_owner(store.owner, client, "its store")
        return cls(
            columns={client: store.columns() for client, store in stores.items()},
            builds={client: store.build_id for client, store in stores.items()},
            categorical={client: store.categorical() for client, store in stores.items()},
            missing={client: bool(store.missing) for client, store in stores.items()},
            readable=dict(readable or {}),
        )

    def check_split(self, split: Split, method: str) -> None:
        """Refuse columns, and samples of readable stores, that do not fit a method's split."""
        check_columns(self.columns, split, method)
        if self.readable:
            check_samples(self.readable, split)

    def check_prepared(self, steps: Mapping[str, Sequence[FittedStep]]) -> None:
        """Refuse stores with words or missing values, unless each client's steps handle them."""
        for client in self.columns:
            own = [step["step"] for step in steps.get(client, ())]
            words, missing = self.categorical.get(client, ()), self.missing.get(client, False)
            check_prepared(client, words, missing, own)

    def check_new(self, client: str, store: StoreSummary, steps: Sequence[FittedStep] = ()) -> None:
        """Refuse new samples of another client, or with columns other than the clustered ones."""
        check_owner(store.owner, client, "its store of new samples")
        # A client that joined after the fit must have the columns of the others.
        wanted = self.columns.get(client) or next(iter(self.columns.values()))
        got = store.columns()
        if (found := first_difference(wanted, got)) is not None:
            at, here, there = found
            raise InvalidInput(
                f"new samples of client {client!r} must have the columns of the clustered ones in "
                f"the same order; column {at} is {here} there and {there} in the new store. Write "
                "it again with those columns."
            )
        own = [step["step"] for step in steps]
        check_prepared(client, store.categorical(), bool(store.missing), own)


def check_prepared(
    client: str, categorical: Sequence[str], missing: bool, steps: Sequence[str]
) -> None:
    """Refuse words or missing values in a store, unless the named preparation steps handle them."""
    if categorical and "one-hot" not in steps:
        raise InvalidInput(
            f"column {categorical[0]!r} of client {client!r} holds words, and methods read "
            "numbers. Prepare the features, as by prepare: [impute, one-hot, standardise]."
        )
    if missing and "impute" not in steps:
        raise InvalidInput(
            f"values of client {client!r} may be missing, and methods need all of them. Prepare "
            "the features, as by prepare: [impute, standardise]."
        )

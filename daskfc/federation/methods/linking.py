"""Finding which samples clients with several views have in common, by pseudonyms."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.errors import InvalidInput
from daskfc.federation.driver.federation import Federation
from daskfc.federation.methods.samples import SampleDigests, mixed_digests


@dataclass(frozen=True)
class Linked:
    """The N samples of all clients in one order: (n_m,) places in [0, N) per client, as stored.

    `views` has each client's view; `in_all_views`, (N,), says which samples every view has.
    """

    n_samples: int
    places: Mapping[str, Ints]
    views: Mapping[str, int]
    in_all_views: NDArray[np.bool_]

    @property
    def complete(self) -> bool:
        """Whether every view has every sample."""
        return bool(self.in_all_views.all())

    @property
    def one_client_a_view(self) -> bool:
        """Whether no two clients share a view."""
        return len(set(self.views.values())) == len(self.views)


def linked(digests: Mapping[str, NDArray[np.uint64]], views: Mapping[str, int]) -> Linked:
    """Place every sample in the order of all pseudonyms, the same whatever the clients' order."""
    for client, own in digests.items():
        if repeated := len(own) - len(np.unique(own)):
            raise InvalidInput(
                f"sample ids must be unique in every client; client {client!r} repeats {repeated} "
                f"of its {len(own)}. Drop the copies."
            )
    every = np.unique(np.concatenate(list(digests.values())))
    places: dict[str, Ints] = {
        client: np.searchsorted(every, own).astype(np.int64) for client, own in digests.items()
    }
    n_views = 0
    owners = np.zeros(len(every), dtype=np.int64)
    for view in sorted(set(views.values())):
        held = np.zeros(len(every), dtype=np.int64)
        for client, at in places.items():
            if views[client] == view:
                held[at] += 1
        if (shared := int((held > 1).sum())) > 0:
            names = ", ".join(repr(client) for client in digests if views[client] == view)
            raise InvalidInput(
                f"clients with the same columns must hold different samples; {names} share "
                f"{shared} of {int((held > 0).sum())} sample ids. Drop the copies."
            )
        owners += held
        n_views += 1
    if n_views > 1 and not (owners > 1).any():
        raise InvalidInput(
            "clients with different columns must have samples in common; no sample id occurs in "
            f"two of the {n_views} views. Give every sample the same id in all of them."
        )
    return Linked(len(every), places, dict(views), owners == n_views)


def link_views(digests: Mapping[str, SampleDigests], views: Mapping[str, int]) -> Linked:
    """Find at the server which samples the clients share; see `linked`."""
    return linked(mixed_digests(digests), views)


def views_of(federation: Federation) -> dict[str, int]:
    """Return the number of each client's view: clients with the same columns have one view."""
    numbers: dict[tuple[str, ...], int] = {}
    columns = federation.contract.columns
    return {client: numbers.setdefault(columns[client], len(numbers)) for client in columns}

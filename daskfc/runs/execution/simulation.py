"""Simulate a federation on this machine over given data, for notebooks and experiments."""

import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.federation.driver.requests import request_for
from daskfc.federation.methods.sample_keys import order_of
from daskfc.federation.party.options import check_party_name
from daskfc.pairwise import DistanceTiles
from daskfc.protocols import OmniFC
from daskfc.secure.distances import SecureDistances, choose_code
from daskfc.stores import write_store
from daskfc.stores.dealing.partitions import iid

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Simulation", "simulate"]


class Simulation(Federation):
    """A federation on this machine over data of its caller; see `simulate`."""

    folder: tempfile.TemporaryDirectory[str]

    def close(self) -> None:
        """Stop the processes and remove the stores; safe to call again."""
        super().close()
        self.folder.cleanup()

    def distances(self, *, tolerance: float = 1e-4, **options: Any) -> "xr.DataArray":
        """Compute all squared distances as OmniFC does.

        Parameters
        ----------
        tolerance : float
            As for `OmniFC`; data on a grid have no error at all.
        **options
            Of `SecureDistances.of_samples`: tile, engine, max_abs.

        Returns
        -------
        xarray.DataArray
            ``(sample, other)`` on a `dask.array` over the tiles on the server's disk, with
            ``client`` and ``sample_id`` of each; it can be read until the federation is closed.

        Notes
        -----
        Privacy: a real server's distances stay with it. In a simulation its disk is the caller's.
        """
        from daskfc.pairwise.arrays import distance_array  # imports Dask's arrays, used only here

        run = f"distances-{uuid.uuid4().hex}"
        workspace = Path(self.folder.name) / run
        request = request_for(OmniFC, OmniFC(2, distances="blocks").get_params(deep=False))
        self.start_run(run, random_state=0, workspace=str(workspace), request=request)
        code = choose_code(len(self.clients), None, None, None)
        distances = SecureDistances.of_samples(self, code, tolerance=tolerance, **options)
        self.wait([distances.blocks("full")])
        (place,) = (found.parent for found in workspace.glob("server/*/zarr.json"))
        stores = self.contract.readable
        order = np.argsort(np.concatenate(list(order_of(stores).values())))
        ids = np.concatenate([one.sample_ids() for one in stores.values()])
        clients = np.repeat(list(stores), [one.n_samples for one in stores.values()])
        tiles = DistanceTiles.open(str(place))
        return distance_array(tiles, clients=clients[order], sample_ids=ids[order])


def simulate(data: Any, *, clients: int | None = None, seed: int = 0, **options: Any) -> Simulation:
    """Start a federation of worker processes on this machine over given data.

    Parameters
    ----------
    data : mapping, or what `write_store` takes as features
        Samples of each client by its name; or all samples, which are dealt at random.
    clients : int, optional
        Number of clients to deal all samples to, named client-1 and so on.
    seed : int
        Random state of the deal.
    **options
        As for `Federation.local`: cluster, allow_raw.

    Returns
    -------
    Simulation
        A `Federation`; its stores are in a temporary folder, and gone when it is closed.

    Raises
    ------
    InvalidInput
        For all samples without a number of clients, or samples of each client with one.

    Notes
    -----
    Privacy: that of a real federation among the processes; the caller has all data anyway.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc import OmniFC
    >>> from daskfc.runs import simulate
    >>> with simulate({"a": np.eye(9), "b": np.eye(9)[::-1]}) as federation:  # doctest: +SKIP
    ...     labels = OmniFC(3).fit(federation).labels_
    ...     near = federation.distances() < 1.0
    """
    if isinstance(data, Mapping) == (clients is not None):
        raise InvalidInput(
            "simulate needs the samples of each client by its name, or those of all and the number "
            f"of 'clients'; got clients={clients!r} with {type(data).__name__}. Give one of both."
        )
    if clients is not None:
        own: Any = data.iloc if hasattr(data, "iloc") else np.asarray(data)
        parts = iid(np.empty(len(data)), clients, seed=seed)
        data = {f"client-{number}": own[part] for number, part in enumerate(parts, 1)}
    folder = tempfile.TemporaryDirectory(prefix="daskfc-simulation-")
    try:
        urls = {}
        for name, features in data.items():
            check_party_name(name)
            urls[name] = str(Path(folder.name) / f"{name}.zarr")
            write_store(urls[name], name, features)
        simulation = Simulation.local(urls, **options)
    except BaseException:
        folder.cleanup()
        raise
    simulation.folder = folder  # it goes with the federation
    return simulation

"""Simulate a federation on this machine over given data, for notebooks and experiments."""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfc.federation import Federation
from daskfc.federation.driver.opening import Opened
from daskfc.federation.driver.requests import request_for
from daskfc.federation.methods.sample_keys import order_of
from daskfc.pairwise import DistanceTiles
from daskfc.protocols import OmniFC
from daskfc.secure.distances import SecureDistances, choose_code

if TYPE_CHECKING:
    import xarray as xr


class Simulation(Federation):
    """A federation on this machine over data of its caller; see `simulate`.

    Attributes
    ----------
    folder : str
        Where the clients' stores are, until it is closed.
    """

    def __init__(self, opened: Opened, *, allow_raw: bool = False) -> None:
        super().__init__(opened, allow_raw=allow_raw)
        self.folder = opened.folder

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
        workspace = Path(self.folder) / run
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


def simulate(
    data: Any,
    *,
    clients: int | None = None,
    split: str | Mapping[str, Any] | None = None,
    by: Any = None,
    seed: int = 0,
    cluster: Any = None,
    allow_raw: bool = False,
    **columns: Any,
) -> Simulation:
    """Start a federation of worker processes on this machine over given data, without any file.

    Parameters
    ----------
    data : mapping, or array_like, DataFrame, DataArray, Dataset, sparse array or path
        Samples of each client by its name; or all samples, which are dealt. Each of what
        `write_store` takes, arrays and tables of Dask too, a block at a time.
    clients : int, optional
        Number of clients to deal all samples to, named client-1 and so on.
    split : str or mapping, optional
        How, as ``partition`` of a storage file says it: "iid", the default, "vertical" for columns,
        ``{"scheme": "label-skew", "skew": 0.5}``, ``{"scheme": "dirichlet", "alpha": 0.3}``.
    by : str or sequence, optional
        In place of `clients`: the column of a table, which is no feature then, or one value a
        sample, that names the client which has it.
    seed : int
        Random state of the deal.
    cluster : path or mapping, optional
        Limits of the parties, as for `Federation.local`.
    allow_raw : bool
        Whether messages with protection "raw" may leave a party.
    **columns
        Of `write_store`: sample_ids, labels, feature_names, categorical, dates, missing, words,
        dtype, chunk_rows, graph. For samples of each client, sample_ids, labels and graph may be
        mappings of clients.

    Returns
    -------
    Simulation
        A `Federation`; its stores are in a temporary folder, and gone when it is closed. Samples of
        each client are called ``a/0``, ``a/1``, and so on, dealt ones by their row; those of a
        table with an index of its own by that.

    Raises
    ------
    InvalidInput
        For all samples without a way to deal them, samples of each client with one, and a name
        that no client may have.
    StoreError
        As for `write_store`.

    Notes
    -----
    Privacy: that of a real federation among the processes; the caller has all data anyway.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc import OmniFC, simulate
    >>> with simulate(np.eye(9), clients=3) as federation:  # doctest: +SKIP
    ...     labels = OmniFC(3).fit(federation).labels_
    ...     near = federation.distances() < 1.0
    """
    dealing = {"clients": clients, "split": split, "by": by, "seed": seed, **columns}
    return Simulation.simulate(data, cluster=cluster, allow_raw=allow_raw, **dealing)

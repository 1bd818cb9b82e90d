"""FedSC: the estimator that wires the steps of both sides."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import xarray as xr
from sklearn.utils.validation import check_is_fitted

from daskfc import seeds
from daskfc.aggregation import MaskedSum, PlainSum
from daskfc.aggregation.masked import check_maskers
from daskfc.aggregation.total import Aggregation
from daskfc.checks import Constraint, boolean, integer, one_of, optional, real
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.estimator import FederatedClusterer, labels_array
from daskfc.federation.samples import canonical_positions, labelled_samples, sample_digests
from daskfc.protocols.fedsc import party, server
from daskfc.protocols.fedsc.messages import Plan, Progress

__all__ = ["FedSC"]


@dataclass(frozen=True)
class _Fitted:
    """What `predict` needs of `fit`, as handles of what stays at the parties."""

    final: Sent
    plan: Sent
    rows: PerClient[Sent]
    positions: Local
    labels: Local


class FedSC(FederatedClusterer):
    """Federated spectral clustering by a shared dictionary in kernel space.

    Parameters
    ----------
    n_clusters : int
        K.
    n_atoms : int, optional
        d; by default what keeps 0.99 of the eigenvalues of a client's own kernel, the largest of
        all clients.
    rounds : int
        S, rounds of averaging.
    local_steps : int
        Q, steps on the dictionary at a client in a round.
    step : {"preconditioned", "gradient"}
        The closed form, or descent by steps of 1/L.
    kernel_width : float, optional
        r > 0 of the Gaussian kernel, in units of the data; by default the mean distance, averaged
        over the clients (Eq. 42).
    ridge : float
        λ > 0.
    participation : float
        Share of the clients that take part in a round, in (0, 1].
    neighbors : int, optional
        Neighbours in the graph of similarities, the sample itself among them;
        ``max(ceil(log n), 1)`` by default.
    weighting : {"samples", "uniform"}
        What a client's dictionary weighs in the mean: its samples, or the same for all.
    averaging : {"masked", "plain"}
        Whether the server sees only the mean, or every client's dictionary.
    tolerance : float
        Rounds end when the dictionary changes by less, relative to its norm.
    n_init : int
        Starts of k-means on the embedding.
    n_colluding : int
        Clients that may pool what they know with the server, for masked averaging.
    allow_few : bool
        Allow masked averaging with fewer than two honest clients.
    random_state : int
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    kernel_width_, n_atoms_ : float, int
        What was used.
    n_rounds_ : int
        Rounds until the end.
    change_ : float
        Relative change of the dictionary in the last round.

    Notes
    -----
    Privacy: clients and server are semi-honest. The server learns moments of all samples and the
    mean dictionaries, sizes and mean distances of the clients; with masked averaging no client's
    own dictionary. In the end it gets rows of every client whose inner products are the
    similarities, from which it can reconstruct samples as far as the atoms span them: this is the
    paper's protocol, and no protection against the server.

    References
    ----------
    Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
    NeurIPS 2023, Algorithm 1.

    Examples
    --------
    >>> from daskfc.protocols.fedsc import FedSC
    >>> FedSC(3, n_atoms=10).get_params()["rounds"]
    5
    """

    _params: ClassVar[Mapping[str, Constraint]] = {
        "n_clusters": integer(low=1),
        "n_atoms": optional(integer(low=1)),
        "rounds": integer(low=1),
        "local_steps": integer(low=1),
        "step": one_of("preconditioned", "gradient"),
        "kernel_width": optional(real(above=0)),
        "ridge": real(above=0),
        "participation": real(above=0, high=1),
        "neighbors": optional(integer(low=1)),
        "weighting": one_of("samples", "uniform"),
        "averaging": one_of("masked", "plain"),
        "tolerance": real(low=0),
        "n_init": integer(low=1),
        "n_colluding": integer(low=0),
        "allow_few": boolean(),
        "random_state": integer(low=0),
    }

    def __init__(
        self,
        n_clusters: int,
        *,
        n_atoms: int | None = None,
        rounds: int = 5,
        local_steps: int = 1,
        step: str = "preconditioned",
        kernel_width: float | None = None,
        ridge: float = 1e-3,
        participation: float = 1.0,
        neighbors: int | None = None,
        weighting: str = "samples",
        averaging: str = "masked",
        tolerance: float = 0.0,
        n_init: int = 50,
        n_colluding: int = 0,
        allow_few: bool = False,
        random_state: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_atoms = n_atoms
        self.rounds = rounds
        self.local_steps = local_steps
        self.step = step
        self.kernel_width = kernel_width
        self.ridge = ridge
        self.participation = participation
        self.neighbors = neighbors
        self.weighting = weighting
        self.averaging = averaging
        self.tolerance = tolerance
        self.n_init = n_init
        self.n_colluding = n_colluding
        self.allow_few = allow_few
        self.random_state = random_state

    def check(self, n_clients: int | None = None) -> None:
        """Hold the parameters against their constraints and the number of clients."""
        super().check(n_clients)
        if n_clients is not None and self.averaging == "masked":
            check_maskers(self._n_active(n_clients), self.n_colluding, self.allow_few)

    def _n_active(self, n_clients: int) -> int:
        return max(1, math.ceil(self.participation * n_clients - 1e-9))

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        with self._stage(federation, "planning"):
            digests = federation.ask(sample_digests)
            positions = federation.on_server(canonical_positions, digests)
            sizes = federation.ask(party.summarise, self.kernel_width, self.n_atoms)
            chosen = federation.on_server(server.plan_of, sizes, self.kernel_width, self.n_atoms)
            plan = federation.publish(server.tell_plan, chosen)
            assert isinstance(plan, Plan), type(plan)
            told = federation.tell(server.tell_plan, chosen)
            sums = self._sums(federation, federation.clients)
            moments = federation.on_clients(party.moments)
            bound = plan.largest_client * max(plan.magnitude, plan.magnitude**2)
            total = sums.sum(moments, max_abs=bound)
            seed = seeds.integer_seed(self.random_state, "FedSC")
            dictionary = federation.on_server(server.start, total, sizes, chosen, seed)
            federation.wait([positions, dictionary])
        self.kernel_width_, self.n_atoms_ = plan.width, plan.n_atoms
        with self._stage(federation, "averaging"):
            dictionary = self._rounds(federation, sums, dictionary, plan, told, sizes)
        with self._stage(federation, "clustering"):
            final = federation.tell(server.tell_final, dictionary, chosen)
            rows = federation.ask(party.rows_of, final, told, self.ridge)
            labels = federation.on_server(
                server.cluster, rows, positions, self.n_clusters, self.neighbors, self.n_init, seed
            )
            federation.wait(labels)
        self._fitted = _Fitted(final, told, rows, positions, labels)
        own = federation.tell(server.tell_labels, labels, positions)
        return federation.publish(labelled_samples, own, party="clients", wait=False)

    def predict(self, federation: Federation, stores: Mapping[str, str]) -> xr.DataArray:
        """Label new samples of any clients by the clustered samples that are most similar.

        Parameters
        ----------
        federation : Federation
            The one of `fit`. In another run of it, or another federation, `fit` is repeated first.
        stores : mapping of str to str
            For some clients the URL of a store with new samples, readable at that client.

        Returns
        -------
        xarray.DataArray
            ``(sample,)`` int64 with the coordinates ``client`` and ``sample_id``.

        Raises
        ------
        InvalidInput
            When a name is no client, or none is given.
        PartyError
            When new samples have other features.

        Notes
        -----
        Privacy: as in `fit`; the server gets the new samples' rows.
        """
        check_is_fitted(self)
        unknown = sorted(set(stores) - set(federation.clients))
        if unknown or not stores:
            raise InvalidInput(
                f"the stores given to predict must belong to clients, "
                f"{', '.join(federation.clients)}; got {unknown or 'none'}. Name a client of the "
                "federation."
            )
        if federation.run_id != self.run_id_:
            self.fit(federation)
        fitted, new, clients = self._fitted, PerClient(stores), list(stores)
        rows = federation.ask(
            party.rows_of_new, new, fitted.final, fitted.plan, self.ridge, clients=clients
        )
        labels = federation.on_server(
            server.predict,
            rows,
            fitted.rows,
            fitted.positions,
            fitted.labels,
            self.n_clusters,
            self.neighbors,
        )
        told = federation.tell(server.tell_new_labels, labels, clients=clients)
        sent = federation.publish(party.labelled_new, new, told, party=clients, wait=False)
        return labels_array({name: handle.result() for name, handle in sent.items()})

    def _sums(self, federation: Federation, clients: tuple[str, ...]) -> Aggregation:
        if self.averaging == "plain":
            return PlainSum(federation)
        return MaskedSum(
            federation, clients=clients, n_colluding=self.n_colluding, allow_few=self.allow_few
        )

    def _active(self, federation: Federation, number: int) -> tuple[str, ...]:
        """Draw the clients of a round."""
        count = self._n_active(len(federation.clients))
        if count == len(federation.clients):
            return federation.clients
        random = seeds.generator(self.random_state, "FedSC", "participation", number)
        kept = sorted(random.permutation(len(federation.clients))[:count])
        return tuple(federation.clients[i] for i in kept)

    def _rounds(
        self,
        federation: Federation,
        sums: Aggregation,
        dictionary: Local,
        plan: Plan,
        told: Sent,
        sizes: PerClient[Sent],
    ) -> Local:
        """Algorithm 1, lines 2 to 9: local steps, and their mean."""
        bound, uniform = party.REACH * plan.magnitude, self.weighting == "uniform"
        for number in range(1, self.rounds + 1):
            federation.next_round()
            clients = self._active(federation, number)
            ways = sums if clients == federation.clients else self._sums(federation, clients)
            sent = federation.tell(server.tell_dictionary, dictionary, clients=clients)
            parts = federation.on_clients(
                party.weighted_update,
                sent,
                told,
                self.ridge,
                self.local_steps,
                self.step,
                uniform,
                clients=clients,
            )
            before, total = dictionary, ways.sum(parts, max_abs=bound)
            dictionary = federation.on_server(server.mean_dictionary, total, sizes, plan, uniform)
            report = federation.publish(server.progress, dictionary, before)
            assert isinstance(report, Progress), type(report)
            federation.report_progress("averaging", number, self.rounds)
            self.n_rounds_, self.change_ = number, report.change
            if report.change < self.tolerance:
                break
        return dictionary

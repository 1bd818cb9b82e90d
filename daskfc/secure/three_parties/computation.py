"""A computation on shares from the driver's side: who computes, rounds, and where labels go."""

import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.errors import DecodingError, InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation, Local, PerClient
from daskfc.secure.shared.party import N_PARTIES
from daskfc.secure.three_parties import steps
from daskfc.secure.three_parties.tasks import LabelTask, NeighboursOfShares, Task

_Task = TypeVar("_Task", LabelTask, NeighboursOfShares)
_Result = TypeVar("_Result")
_Here = Mapping[str, Any]
_Rows: TypeAlias = PerClient[Local[steps.WholeRows]]
_Turns: TypeAlias = PerClient[Local[steps.Turn]]
_Labels: TypeAlias = PerClient[Local[Ints]]

_AT_ONCE = 16  # ours: rounds asked for before one looks whether the program has ended
_STARTS = 3  # ours: of one computation, each with new keys, where members are started anew

_ANEW = {
    (steps.advanced.__name__, DecodingError.__name__),
    (steps.begun.__name__, PrivacyError.__name__),
}
"""How steps fail that are to be done again after a member was started anew."""

log = logging.getLogger("daskfc.secure")


class SharedComputation:
    """Cluster all clients' samples on shares that three of them hold.

    Parameters
    ----------
    federation : Federation
        In a run, of three clients at least.
    members : tuple of str, optional
        The three that compute; by default the first ones.
    begin : step, optional
        What begins the task at a member: a method's own step may refuse tasks that it did not
        announce.

    Raises
    ------
    InvalidInput
        For other than three different clients.

    Notes
    -----
    Privacy: each client learns the clusters of its own samples. No other party learns anything but
    numbers of samples and features, the task's parameters, and the number of rounds. Parties are
    semi-honest; two members that pool what they hold learn all samples, and one that does not
    follow the protocol can change labels unseen. Where a member is started anew, the computation
    begins again under new keys.

    References
    ----------
    Araki, Furukawa, Lindell, Nof, Ohara, "High-throughput semi-honest secure three-party
    computation with an honest majority", CCS 2016.

    Examples
    --------
    >>> from daskfc.secure.shared import DensityClusters
    >>> from daskfc.secure.three_parties import DensityOfShares, SharedComputation
    >>> def labels(federation, rows, n):         # rows: PerClient of WholeRows below 2^10
    ...     task = DensityOfShares(DensityClusters(n, 2, 10, squared_eps=9, min_samples=5))
    ...     return SharedComputation(federation).labels(rows, task)
    """

    def __init__(
        self,
        federation: Federation,
        members: tuple[str, ...] | None = None,
        begin: Callable[..., steps.Turn] = steps.begun,
    ) -> None:
        chosen = (
            tuple(sorted(federation.clients)[:N_PARTIES]) if members is None else tuple(members)
        )
        if len(set(chosen)) != N_PARTIES or not set(chosen) <= set(federation.clients):
            raise InvalidInput(
                "a computation on shares needs three different clients of the federation; got "
                f"{', '.join(map(repr, chosen)) or 'none'}. Name three of "
                f"{', '.join(federation.clients)}."
            )
        self.members = chosen
        self.n_rounds = 0
        self._begin = begin
        self._federation = federation
        self._fit: _Turns | None = None
        self._task: Task | None = None

    def labels(self, rows: _Rows, task: LabelTask) -> _Labels:
        """Return each client's labels, which stay there.

        Parameters
        ----------
        rows : PerClient of Local
            `WholeRows` of each client, a row for each of its samples.
        task : LabelTask
            `CentresOfShares` or `DensityOfShares`, of all samples in the order of clients' names.
            Members begin one task in a start of a run.

        Raises
        ------
        PartyError
            When members are started anew again and again.
        """
        return self._anew(rows, task, self._tell_labels)

    def labels_of_new(self, rows: _Rows, n_samples: int) -> _Labels:
        """Return labels of new samples, which stay there, by what `labels` found.

        After k-means it is the nearest centre; after DBSCAN the first cluster that has a core
        sample within eps, and noise without any.

        Parameters
        ----------
        rows : PerClient of Local
            New `WholeRows` at some clients, on the grid of those of `labels`.
        n_samples : int
            How many there are.

        Raises
        ------
        InvalidInput
            Where no labels were computed before in this run, or a member was started anew since.
        PartyError
            When a member refuses: after `steps.PREDICTIONS` in a start of a run.

        Notes
        -----
        Privacy: each of these clients learns the clusters of its own new samples, and all their
        number. Who chooses samples learns by their labels where centres are, or which places are
        within eps of a core sample.
        """
        fit, task = self._fit, self._task
        if fit is None or not isinstance(task, LabelTask):
            raise InvalidInput(
                "new samples are placed by labels on shares, and there are none in this "
                "computation. Compute labels first."
            )
        here = {"members": self.members, "tag": uuid.uuid4().hex}
        try:
            keys, x = self._shared(rows, task, here, n_samples)
            turn = self._federation.on_clients(
                steps.begun_placing, fit, keys, x, clients=self.members
            )
            turn = self._ended(turn, task.placing(n_samples).cost().rounds)
        except PartyError as error:
            if (error.step, error.error_type) not in _ANEW:
                raise
            raise InvalidInput(
                "a member of the fit was started anew, and its shares of what was found are gone. "
                "Fit again to place new samples."
            ) from error
        return self._tell_labels(turn, rows, task, here)

    def neighbours(self, rows: _Rows, task: NeighboursOfShares) -> Local[NDArray[np.uint64]]:
        """Return who is near whom, at the server: rows of bits, in the order of clients' names.

        Parameters
        ----------
        rows : PerClient of Local
            As in `labels`.
        task : NeighboursOfShares
            As in `labels`.

        Raises
        ------
        PartyError
            When members are started anew again and again.
        """
        return self._anew(rows, task, self._tell_graph)

    def _anew(
        self, rows: _Rows, task: _Task, tell: Callable[[_Turns, _Rows, _Task, _Here], _Result]
    ) -> _Result:
        """Compute, and begin again where a member was started anew."""
        for start in range(1, _STARTS + 1):
            here = {"members": self.members, "tag": uuid.uuid4().hex}
            try:
                self._fit, self._task = self._computed(rows, task, here), task
                return tell(self._fit, rows, task, here)
            except PartyError as error:
                if start == _STARTS or (error.step, error.error_type) not in _ANEW:
                    raise
                log.warning("a member of a computation on shares is gone: it begins again")
        raise AssertionError

    def _computed(self, rows: _Rows, task: Task, here: _Here) -> _Turns:
        keys, x = self._shared(rows, task, here)
        turn = self._federation.on_clients(self._begin, keys, x, task, clients=self.members)
        return self._ended(turn, task.cost(2).rounds)

    def _shared(
        self, rows: _Rows, task: Task, here: _Here, n_new: int | None = None
    ) -> tuple[PerClient[Local[steps.RingKeys]], PerClient[Local[steps.Shares]]]:
        """Return the members' new keys, and their shares of rows."""
        federation, members = self._federation, self.members
        others = PerClient({one: tuple(m for m in members if m != one) for one in members})
        how = {"task": task, "n_new": n_new, **here}
        public = federation.exchange(steps.offered, **how, clients=members, receivers=others)
        keys = federation.on_clients(steps.agreed, public, **here, clients=members)
        shared = federation.exchange(
            steps.cut_rows, rows, **here, clients=tuple(rows), receivers=members
        )
        return keys, federation.on_clients(steps.gathered, shared, **here, clients=members)

    def _tell_labels(self, turn: _Turns, rows: _Rows, task: LabelTask, here: _Here) -> _Labels:
        federation, owners = self._federation, tuple(rows)
        parts = federation.exchange(
            steps.label_summands, turn, clients=self.members, receivers=owners
        )
        how = {"task": task, **here}
        return federation.on_clients(steps.labels_of, parts, rows, **how, clients=owners)

    def _tell_graph(
        self, turn: _Turns, rows: _Rows, task: NeighboursOfShares, here: _Here
    ) -> Local[NDArray[np.uint64]]:
        parts = self._federation.ask(steps.graph_summand, turn, clients=self.members)
        return self._federation.on_server(steps.graph_of, parts, **here)

    def _ended(self, turn: _Turns, most: int) -> _Turns:
        """Take rounds until the program has ended, `most` by estimate."""
        federation, members = self._federation, self.members
        before = PerClient({one: (members[i - 1],) for i, one in enumerate(members)})
        first = members[0]
        while True:
            for _ in range(_AT_ONCE):
                words = federation.exchange(steps.words_of, turn, clients=members, receivers=before)
                turn = federation.on_clients(steps.advanced, turn, words, clients=members)
            told = federation.publish(steps.rounds_taken, turn[first], party=first)
            self.n_rounds = told.n_rounds
            federation.report_progress("rounds", told.n_rounds, max(most, told.n_rounds))
            if told.ended:
                return turn

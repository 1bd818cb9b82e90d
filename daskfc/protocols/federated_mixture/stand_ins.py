"""Stubs for the steps of a federated Gaussian mixture in a rehearsal."""

from dataclasses import dataclass, replace

import numpy as np

from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, of_shape
from daskfc.protocols.federated_mixture import party, server
from daskfc.protocols.federated_mixture.messages import Mixture, MixtureUnits
from daskfc.secure.kmeans.stand_ins import KMeansSearch
from daskfc.secure.prepare import steps

_ROUNDS = 12  # ours: or ``max_iter`` if less


@dataclass(frozen=True)
class _State:
    """The sizes of a state between two sums."""

    shape: tuple[int, int]
    covariances: tuple[int, int, int]
    n_iter: int = 0
    ended: str = ""


def _started(search: KMeansSearch, units: MixtureUnits, plan: server.MixturePlan) -> _State:
    k, d, kind = search.n_clusters, len(units.means), plan.covariance
    rows, columns = d if kind in ("full", "tied") else 1, 1 if kind == "spherical" else d
    return _State((k, d), (1 if kind == "tied" else k, rows, columns))


def _told(state: _State) -> Mixture:
    (k, d), covariances = state.shape, state.covariances
    return Mixture(of_shape(k), of_shape(k, d), of_shape(*covariances), 1.0, 0.0, 0.0, 0.0)


def _weighed(state: _State, plan: server.MixturePlan, rehearsal: Rehearsal) -> _State:
    most = rehearsal.assume("iterations of the mixture", min(_ROUNDS, plan.max_iter))
    return replace(state, ended="rest" if state.n_iter >= most else "")


def _own_moments(told: Mixture, covariance: str) -> np.ndarray:
    k, d = told.means.shape
    return of_shape(server.size_of_moments(k, d, covariance))


STAND_INS: StandIns = {
    steps.column_magnitudes: lambda data: Sizes(column=data.n_features),
    steps.sums: lambda data: of_shape(3, data.n_features),
    steps.means_of: lambda total: Sizes(column=total.values.shape[1]),
    steps.squares: lambda data: of_shape(2, data.n_features),
    server.units_of: lambda total: MixtureUnits(
        of_shape(total.values.shape[1]), np.ones(total.values.shape[1]), 1
    ),
    party.own_rows: lambda data: of_shape(data.n_samples, data.n_features),
    server.started: _started,
    server.parameters: _told,
    party.own_log_joint: lambda rows, told: of_shape(len(rows), len(told.weights)),
    party.uniform: lambda rows, told: of_shape(len(rows), len(told.weights)),
    party.own_masses: lambda told: of_shape(party.PER_COMPONENT * len(told.weights) + 2),
    server.weighed: _weighed,
    server.held: lambda state: Sizes(component=state.shape[0], mark=0.0),
    party.responsibilities: lambda joint: of_shape(*joint.shape),
    server.progress: lambda state: Sizes(
        opens=1, bound=1.0, n_iter=state.n_iter, ended=state.ended
    ),
    party.own_moments: _own_moments,
    server.moved: lambda state: replace(state, n_iter=state.n_iter + 1),
    party.own_components: lambda joint: of_shape(len(joint), dtype="int64"),
}

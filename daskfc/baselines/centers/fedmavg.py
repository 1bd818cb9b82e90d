"""FedMAvg: federated matrix factorisation for clustering, by averaging the basis.

Paper       S. Wang, T.-H. Chang, "Federated matrix factorization: algorithm design and application
            to data clustering", IEEE Trans. Signal Processing 70 (2022), arXiv 2002.04930v2; the
            clustering model is the orthogonal NMF of S. Wang, T.-H. Chang, Y. Cui, J.-S. Pang,
            "Clustering by orthogonal NMF model and non-convex penalty optimization" (2021).
Notation    paper (columns)   here (rows)       shape, range
            k                 n_clusters        int ≥ 1
            X_p               data              (n_p, d) float64, stays at client p
            H_p               coefficients      (n_p, k), at least 0, stays at client p
            W                 basis             (k, d)
            ω_p               shares            n_p / n
            ρ                 penalty           float ≥ 0, `orthogonality` times the mean |x|²
            Q_1               coefficient_steps int ≥ 1, gradient steps on H_p in a round
            Q̂                 basis_steps       int ≥ 0; round s takes ⌊Q̂ / s⌋ + 1 steps on W
Objective   Σ_p ω_p / n_p Σ_i ( ½ |x_i - h_i W|² + ρ/2 ((Σ_j h_ij)² - |h_i|²) ),  H ≥ 0: the penalty
            is 0 exactly when every h_i has at most one entry that is not 0.
Messages    GramMoments     client → server    once, 2 d + 1 numbers
            Basis       server → client    every round; to the caller at the end
            LocalBasis  client → server    every round, P k d floats
            BasisShift  server → caller    every round, one float
Departures  (1) All clients take part in every round (the paper may sample some). (2) W has no box
            constraint: at every stationary point it is a weighted sum of rows. The ridge terms of W
            and H are left out. (3) W starts from normal numbers with the mean and the deviation of
            each feature, clipped at 0 where no client has a negative value, and H from 0. (4) Steps
            are 1/L with L the largest eigenvalue of the client's own curvature. (5) Stops when W
            moves by less than `tolerance` times its norm. A sample without a positive coefficient
            is in cluster 0.
Limits      h_i scales freely, so clusters are directions from the origin: the model cannot separate
            two clusters on one ray (iris: kappa 0.50 in OmniFC's Table 1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from daskfc.baselines.centers.centers import relative_shift, until_rest
from daskfc.checks import integer, real
from daskfc.federation import Federation, Local, Message, PerClient, Sent, array
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.samples import Labelled, LabelledSamples, NewStores, own_labels
from daskfc.seeds import generator
from daskfc.stores import ClientStore


class GramMoments(
    Message,
    route="client → server",
    reveals=("the client's number of samples, and mean, deviation and sign of each feature"),
):
    """Sums over one client's samples, from which the server draws the first basis."""

    n_samples: int
    sums: np.ndarray = array("n_features", dtype="float64")
    squares: np.ndarray = array("n_features", dtype="float64")
    any_negative: np.ndarray = array("n_features", dtype="bool")


class Basis(
    Message,
    route=("server → client", "server → caller"),
    reveals="one direction per cluster over all clients, and the mean |x|²",
):
    """The averaged basis W and the weight ρ of the penalty."""

    basis: np.ndarray = array("n_clusters", "n_features", dtype="float64")
    penalty: float


class LocalBasis(
    Message,
    route="client → server",
    reveals="weighted sums of the client's samples, one per cluster, each round",
):
    """One client's basis W_p after its own steps of a round."""

    basis: np.ndarray = array("n_clusters", "n_features", dtype="float64")


class BasisShift(Message, route="server → caller", reveals="one number of convergence"):
    """The averaged basis's movement in a round, relative to its norm."""

    shift: float


@dataclass(frozen=True)
class LocalFactors:
    """A client's coefficients ``(n, k)``, at least 0, and its own basis ``(k, d)``."""

    coefficients: np.ndarray
    basis: np.ndarray


def local_moments(data: ClientStore) -> GramMoments:
    """Sum the features and their squares, in one pass."""
    d = data.n_features
    sums, squares, negative = np.zeros(d), np.zeros(d), np.zeros(d, dtype=bool)
    for _, rows in data.blocks():
        sums += rows.sum(axis=0)
        squares += np.square(rows).sum(axis=0)
        negative |= (rows < 0).any(axis=0)
    return GramMoments(int(data.n_samples), sums, squares, negative)


def sample_shares(parts: Mapping[str, GramMoments]) -> dict[str, float]:
    """Return each client's share of all samples, ω_p."""
    n = sum(part.n_samples for part in parts.values())
    return {name: part.n_samples / n for name, part in parts.items()}


def first_basis(
    parts: Mapping[str, GramMoments], *, n_clusters: int, orthogonality: float, random_state: int
) -> Basis:
    """Draw the first basis around the mean of all samples; ρ is in units of the mean |x|²."""
    n = sum(part.n_samples for part in parts.values())
    mean = np.sum([parts[name].sums for name in sorted(parts)], axis=0) / n
    square = np.sum([parts[name].squares for name in sorted(parts)], axis=0) / n
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    random = generator(random_state, "FedMAvg", "server")
    start = mean + deviation * random.standard_normal((n_clusters, len(mean)))
    negative = np.any([part.any_negative for part in parts.values()], axis=0)
    start = np.where(negative, start, np.maximum(start, 0))
    return Basis(start, float(orthogonality * square.sum()))


def step_coefficients(
    coefficients: np.ndarray, cross: np.ndarray, gram: np.ndarray, *, penalty: float, steps: int
) -> np.ndarray:
    """Take Q_1 = `steps` projected gradient steps on H (n, k); `cross` is X Wᵀ, `gram` W Wᵀ."""
    curvature = float(np.linalg.eigvalsh(gram)[-1]) + penalty * max(len(gram) - 1, 0)
    if curvature <= 0:
        return coefficients
    for _ in range(steps):
        gradient = coefficients @ gram - cross
        gradient += penalty * (coefficients.sum(axis=1, keepdims=True) - coefficients)
        coefficients = np.maximum(coefficients - gradient / curvature, 0)
    return coefficients


def _update_coefficients(
    data: ClientStore, last: np.ndarray, average: Basis, steps: int
) -> np.ndarray:
    gram = average.basis @ average.basis.T
    updated = np.empty_like(last)
    for start, rows in data.blocks():
        block = slice(start, start + len(rows))
        updated[block] = step_coefficients(
            last[block], rows @ average.basis.T, gram, penalty=average.penalty, steps=steps
        )
    return updated


def local_factors(
    data: ClientStore,
    average: Basis,
    last: LocalFactors | None,
    *,
    coefficient_steps: int,
    steps: int,
) -> LocalFactors:
    """Update H_p, then W_p from the averaged W: one round at one client; the result stays there."""
    shape = (data.n_samples, len(average.basis))
    before = np.zeros(shape) if last is None else last.coefficients
    H = _update_coefficients(data, before, average, coefficient_steps)
    cross = np.zeros_like(average.basis)  # Hᵀ X
    for start, rows in data.blocks():
        cross += H[start : start + len(rows)].T @ rows
    gram = H.T @ H
    curvature = float(np.linalg.eigvalsh(gram)[-1])
    W = average.basis
    if curvature > 0:
        for _ in range(steps):
            W = W - (gram @ W - cross) / curvature
    return LocalFactors(H, W)


def local_basis(factors: LocalFactors) -> LocalBasis:
    """Return W_p, without H_p, for the server."""
    return LocalBasis(factors.basis)


def average_basis(
    parts: Mapping[str, LocalBasis], shares: Mapping[str, float], before: Basis
) -> Basis:
    """Average the clients' bases by their shares of the samples; ρ stays as before."""
    averaged = np.sum([shares[name] * parts[name].basis for name in sorted(parts)], axis=0)
    return Basis(averaged, before.penalty)


def basis_shift(before: Basis, after: Basis) -> BasisShift:
    """Return the averaged basis's movement, by which the caller stops the rounds."""
    return BasisShift(relative_shift(before.basis, after.basis))


def coefficient_labels(
    data: ClientStore, factors: LocalFactors, average: Basis, *, coefficient_steps: int
) -> LabelledSamples:
    """Label a client's samples with their largest coefficient under the final basis."""
    H = _update_coefficients(data, factors.coefficients, average, coefficient_steps)
    return own_labels(data, H.argmax(axis=1))


def nearest_direction(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return ``argmin_j min_{h ≥ 0} |x - h w_j|²`` for each row: int64 ``(n,)``."""
    norms = np.linalg.norm(basis, axis=1)
    cosines = rows @ (basis / np.where(norms > 0, norms, 1)[:, None]).T
    return np.asarray(cosines.argmax(axis=1))


def direction_of_new(new: ClientStore, basis: np.ndarray) -> LabelledSamples:
    """Label new samples of a client with their nearest direction."""
    return own_labels(
        new, np.concatenate([nearest_direction(rows, basis) for _, rows in new.blocks()])
    )


class FedMAvg(FederatedClusterer):
    """Federated orthogonal NMF of Wang and Chang, by model averaging.

    Parameters
    ----------
    n_clusters : int
        Clusters over all clients.
    orthogonality : float
        Weight of the penalty on more than one coefficient for a sample, in units of the mean
        squared norm of a sample; 0 gives plain semi-NMF.
    coefficient_steps : int
        Gradient steps on the coefficients in a round, Q_1.
    basis_steps : int
        Round s takes ``basis_steps // s + 1`` gradient steps on the basis.
    max_rounds : int
        Rounds between clients and server, at most.
    tolerance : float
        Relative movement of the basis below which the rounds end.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64, the cluster of the largest coefficient.
    basis_ : numpy.ndarray
        ``(n_clusters, n_features)`` float64, one direction per cluster.
    n_rounds_ : int
        Rounds that were run.

    Notes
    -----
    Privacy: the server sees, every round and in the clear, weighted sums of each client's samples,
    one per cluster; coefficients never leave.

    Examples
    --------
    >>> from daskfc.baselines import FedMAvg
    >>> FedMAvg(10).get_params()["basis_steps"]
    10
    """

    split: ClassVar = "samples"
    model_at_parties: ClassVar = False
    n_clusters: int = param(integer(low=1), kw_only=False)
    orthogonality: float = param(real(low=0), default=0.1)
    coefficient_steps: int = param(integer(low=1), default=10)
    basis_steps: int = param(integer(low=0), default=10)
    max_rounds: int = param(integer(low=1), default=100)
    tolerance: float = param(real(low=0), default=5e-3)

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        with self._stage(federation, "first_basis"):
            moments = federation.ask(local_moments)
            shares = federation.on_server(sample_shares, moments)
            start = federation.on_server(
                first_basis,
                moments,
                n_clusters=self.n_clusters,
                orthogonality=self.orthogonality,
                random_state=self.seed_,
            )
            federation.wait([shares, start])
        with self._stage(federation, "rounds"):
            average, factors = self._rounds(federation, start, shares)
        self.basis_ = federation.publish(average).basis
        return federation.publish(
            coefficient_labels,
            factors,
            federation.tell(average),
            coefficient_steps=self.coefficient_steps,
            party="clients",
            wait=False,
        )

    def _rounds(
        self, federation: Federation, average: Local[Basis], shares: Local
    ) -> tuple[Local[Basis], PerClient[Local[LocalFactors]]]:
        """Run rounds until the basis converges; return it and the clients' factors."""
        factors: PerClient[Local[LocalFactors]] | None = None

        def turn(number: int) -> float:
            nonlocal average, factors
            factors = federation.on_clients(
                local_factors,
                federation.tell(average),
                factors,
                coefficient_steps=self.coefficient_steps,
                steps=self.basis_steps // number + 1,  # Q_2 of round s
            )
            parts = federation.ask(local_basis, factors)
            before = average
            average = federation.on_server(average_basis, parts, shares, before)
            return federation.publish(basis_shift, before, average).shift

        until_rest(self, federation, turn, "basis", "its")
        assert factors is not None  # there is one round at least
        return average, factors

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        """Label new samples with the nearest direction of ``basis_``."""
        return federation.publish(direction_of_new, new, self.basis_, party=tuple(new), wait=False)

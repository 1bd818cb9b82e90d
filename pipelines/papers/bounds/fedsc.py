"""FedSC, Theorem 2.3: how far dictionary and coefficients move in Algorithm 1, and its bound.

Notation    paper              here
            Σ T_C + T_Z over T  `Moved.mean`: mean squared change
            L_s                `lipschitz`, an upper bound on the constant of Assumption 2.1
            ζ, γ_min           measured over the run
            ψ, D               `psi`, `Moved.bound`
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.kernels.kernels import atom_kernel, gaussian_kernel
from daskfc.federation import Federation
from daskfc.protocols import FedSC
from daskfc.protocols.fedsc.maths.dictionary_start import Moments, first_dictionary
from daskfc.protocols.fedsc.maths.kernel_dictionary import coefficients, local_update
from daskfc.seeds import integer_seed
from pipelines.papers.journal import Record

__all__ = ["Client", "Moved", "algorithm_1", "closed_form", "measured", "psi"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Client:
    """A client's f_p(Z, C), Eq. (13), its gradient in Z and a bound on how fast that changes.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Samples.
    width : float
        Of the kernel.
    ridge : float
        λ.
    """

    X: Floats
    width: float
    ridge: float

    def value(self, Z: Floats, C: Floats) -> float:
        """Return f_p(Z, C)."""
        K_zx, K_zz = gaussian_kernel(self.X, Z, self.width).T, atom_kernel(Z, self.width)
        fit = len(self.X) - 2.0 * np.sum(C * K_zx) + np.sum(C * (K_zz @ C))
        return float(fit + self.ridge * np.sum(C**2)) / 2.0

    def slope(self, Z: Floats, C: Floats) -> Floats:
        """Return ∂f_p/∂Z (d, m), Eq. (15)."""
        W = C * gaussian_kernel(self.X, Z, self.width).T
        V = (C @ C.T) * atom_kernel(Z, self.width)
        pull = W.sum(axis=1)[:, None] * Z - W @ self.X
        return np.asarray((pull - V.sum(axis=1)[:, None] * Z + V @ Z) / self.width**2)

    def lipschitz(self, C: Floats) -> float:
        """Return a Lipschitz constant of the gradient in Z for fixed C, whatever Z is.

        No second derivative of the kernel exceeds 1 / r², so that the Hessian's norm is at most
        that of a d x d matrix over r²: Σ_j |C_ij| on its diagonal, and the Laplacian of the graph
        with weights |C Cᵀ|.
        """
        weights = np.abs(C @ C.T)
        np.fill_diagonal(weights, 0.0)
        H = np.diag(np.abs(C).sum(axis=1) + weights.sum(axis=1)) - weights
        return float(np.linalg.eigvalsh(H)[-1]) / self.width**2


@dataclass(frozen=True)
class Moved:
    """What a run of Algorithm 1 needs for the theorem.

    `squares` are all squared changes, `first_square` the first of C from 0; `last` is Z in the end.
    """

    squares: float
    first_square: float
    rounds: int
    steps: int
    n_clients: int
    first_value: float
    zeta: float
    least_eigenvalue: float
    lowest: float
    highest: float
    ridge: float
    last: Floats

    @property
    def mean(self) -> float:
        """Return the left side: squared changes over T = S (1 + Q)."""
        return self.squares / (self.rounds * (1 + self.steps))

    @property
    def clients_needed(self) -> float:
        """Return what P must exceed for ψ to exist."""
        return 4.0 * (self.steps - 1) ** 2 * (1.0 + (self.highest / self.lowest) ** 2)

    def bound(self) -> tuple[float, float] | None:
        """Return the two terms of the right side; None where ψ does not exist."""
        found = psi(self.n_clients, self.steps, self.highest / self.lowest)
        if found is None:
            return None
        D = 2.0 / (self.least_eigenvalue + self.ridge) + 4.0 / self.lowest
        T = self.rounds * (1 + self.steps)
        drift = 16.0 * self.zeta**2 * found * D / (self.n_clients * self.lowest)
        return D * self.first_value / T, drift


def psi(P: int, Q: int, ratio: float) -> float | None:
    """Return ψ; None where its denominator is not positive, which the proof needs.

    Examples
    --------
    >>> psi(5, 1, 3.0), psi(10, 2, 1.0), psi(5, 2, 1.0)
    (1.0, 28.0, None)
    """
    below = P - 4.0 * (Q - 1) ** 2 * (1.0 + ratio**2)
    return 1.0 + (P + 8) * (Q - 1) * (2 * Q - 1) / below if below > 0 else None


def algorithm_1(clients: Sequence[Client], Z: Floats, rounds: int, steps: int) -> Moved:
    """Run Algorithm 1 from C = 0 with steps 1 / L, L the largest of the clients' in a round."""
    n = sum(len(one.X) for one in clients)
    weights = np.array([len(one.X) / n for one in clients])
    old = [np.zeros((len(Z), len(one.X))) for one in clients]
    pairs = list(zip(weights, clients, old, strict=True))
    first = sum(w * one.value(Z, C) for w, one, C in pairs)
    squares = first_square = zeta = 0.0
    eigenvalues, constants = list[float](), list[float]()
    for _ in range(rounds):
        new = [coefficients(one.X, Z, one.width, one.ridge) for one in clients]
        eigenvalues.append(float(np.linalg.eigvalsh(atom_kernel(Z, clients[0].width))[0]))
        moved = [float(np.sum((C - before) ** 2)) for C, before in zip(new, old, strict=True)]
        squares += float(weights @ moved)
        first_square = first_square or squares
        old = new
        L = max(one.lipschitz(C) for one, C in zip(clients, new, strict=True))
        constants.append(L)
        own = [Z] * len(clients)
        for _ in range(steps):
            slopes = np.array([one.slope(Z, C) for one, C in zip(clients, new, strict=True)])
            gaps = slopes - np.tensordot(weights, slopes, 1)
            zeta = max(zeta, float(np.sqrt((gaps**2).sum(axis=(1, 2)).max())))
            own = [
                mine - one.slope(mine, C) / L
                for one, mine, C in zip(clients, own, new, strict=True)
            ]
            after = np.mean(own, axis=0)
            squares += float(np.sum((after - Z) ** 2))
            Z = after
    return Moved(
        squares=squares,
        first_square=first_square,
        rounds=rounds,
        steps=steps,
        n_clients=len(clients),
        first_value=float(first),
        zeta=zeta,
        least_eigenvalue=max(min(eigenvalues), 0.0),
        lowest=min(constants),
        highest=max(constants),
        ridge=clients[0].ridge,
        last=Z,
    )


def closed_form(
    clients: Sequence[Client], Z: Floats, rounds: int, steps: int
) -> tuple[float, Floats]:
    """Return the same mean of squared changes for the package's steps, and the last dictionary."""
    n = sum(len(one.X) for one in clients)
    old = [np.zeros((len(Z), len(one.X))) for one in clients]
    squares = 0.0
    for _ in range(rounds):
        for place, one in enumerate(clients):
            C = coefficients(one.X, Z, one.width, one.ridge)
            squares += len(one.X) / n * float(np.sum((C - old[place]) ** 2))
            old[place] = C
        own = [Z] * len(clients)
        for _ in range(steps):
            own = [
                local_update(one.X, mine, one.width, one.ridge)
                for one, mine in zip(clients, own, strict=True)
            ]
            after = sum(len(one.X) / n * mine for one, mine in zip(clients, own, strict=True))
            squares += float(np.sum((np.asarray(after) - Z) ** 2))
            Z = np.asarray(after)
    return squares / (rounds * (1 + steps)), Z


def measured(
    federation: Federation,
    parts: Sequence[Floats],
    n_clusters: int,
    cells: Sequence[tuple[int, int]],
    **about: Any,
) -> list[Record]:
    """Evaluate both sides on what clients of a federation hold, for cells of (S, Q).

    The federation chooses kernel width and number of atoms, and its last dictionary is compared
    with that of the same steps here.
    """
    rounds, steps = cells[0]
    model = FedSC(n_clusters, rounds=rounds, local_steps=steps, random_state=0).fit(federation)
    view = model.server_view(federation)
    X = np.vstack(parts)
    moments = Moments(X.mean(axis=0), X.std(axis=0))
    Z = first_dictionary(moments, model.n_atoms_, integer_seed(0, "FedSC"))
    clients = [Client(part, model.kernel_width_, model.ridge) for part in parts]
    found = []
    for S, Q in cells:
        run = algorithm_1(clients, Z, S, Q)
        record = {"kind": "fedsc", **about, "n": len(X), "atoms": model.n_atoms_, "P": len(parts)}
        record |= {"S": S, "Q": Q, "value": run.mean, "bound": run.bound(), "zeta": run.zeta}
        record |= {"first": run.first_value, "lowest": run.lowest, "highest": run.highest}
        ours, last = closed_form(clients, Z, S, Q)
        record |= {"gamma": run.least_eigenvalue, "ours": ours, "needed": run.clients_needed}
        record |= {"jump": run.first_square / run.squares}
        if (S, Q) == (rounds, steps):
            record["apart"] = float(np.abs(last - view.dictionary).max())
        found.append(record)
    return found

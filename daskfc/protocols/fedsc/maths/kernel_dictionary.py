"""One client's side of FedSC: coefficients, objective and dictionary steps in kernel space.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity
            Reconstruction", NeurIPS 2023, Sections 2.1 to 2.3.
Notation    paper     here           shape, range
            X_p       X              (n, m) float64, samples in rows, stays at the client
            Z         Z              (d, m) float64, the dictionary; an atom in each row
            C_p       C              (d, n) float64, coefficients, stays at the client
            r         width          > 0, of the Gaussian kernel, in units of the data
            λ         ridge          > 0
            Q         steps          int >= 1
            W, Q      W, Q           (d, n), (d, d), Eq. (15)
            K(Z, X)   K_zx           (d, n)
            K(Z, Z)   K_zz           (d, d)
Departures  (1) The default step on Z is one preconditioned step in closed form; the paper's
            gradient steps, Eq. (16), are the other kind. (2) C is recomputed between preconditioned
            steps, since the closed form holds at the optimal C only, but not between gradient
            steps, as in the paper. (3) A gradient step is halved until the objective falls as much
            as by a step of 1 / L, since L is an estimate. (4) λ = 0 is refused.

With the preconditioned step a client's Z_p is, up to the damping, a linear combination of its own
samples: it must leave the client under a secure sum only.
"""

from typing import Literal, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from daskfc.checks import Constraint, check_params, integer, one_of, real
from daskfc.clustering.kernels.kernels import atom_kernel, gaussian_kernel, same_features
from daskfc.errors import InvalidInput

__all__ = [
    "StepKind",
    "coefficients",
    "gradient",
    "local_update",
    "objective",
]

Floats: TypeAlias = NDArray[np.float64]
StepKind = Literal["preconditioned", "gradient"]

_RULES: dict[str, Constraint] = {
    "width": real(above=0),
    "ridge": real(above=0),
    "steps": integer(1),
    "kind": one_of("preconditioned", "gradient"),
}
_DAMPING = 1e-10  # relative to the mean diagonal; atoms that a client does not use make M singular


def _check_scalars(owner: str, **params: object) -> None:
    check_params(owner, params, {name: _RULES[name] for name in params})


def coefficients(X: ArrayLike, Z: ArrayLike, width: float, ridge: float) -> Floats:
    """Return the C-step (d, n), Eqs. (9) and (14): C = (K(Z, Z) + λI)⁻¹ K(Z, X), by Cholesky.

    Refuse a ridge below rounding errors.
    """
    _check_scalars("coefficients", width=width, ridge=ridge)
    X, Z = same_features(X, Z)
    return _coefficients(gaussian_kernel(X, Z, width).T, atom_kernel(Z, width), ridge)


def _coefficients(K_zx: Floats, K_zz: Floats, ridge: float) -> Floats:
    try:
        factor = scipy.linalg.cho_factor(K_zz + ridge * np.eye(len(K_zz)), lower=True)
    except scipy.linalg.LinAlgError:
        raise InvalidInput(
            f"the 'ridge' parameter of coefficients must outweigh the rounding of a kernel of "
            f"{len(K_zz)} atoms; got {ridge!r}. Raise it, 1e-3 for example."
        ) from None
    C: Floats = scipy.linalg.cho_solve(factor, K_zx)  # Eq. (14)
    return C


def objective(K_zx: Floats, K_zz: Floats, C: Floats, ridge: float) -> float:
    """Return the client's objective, Eq. (8): ½ |ϕ(X) - ϕ(Z) C|² + ½ λ |C|²."""
    # ½ n - Tr(Cᵀ K_zx) + ½ Tr(Cᵀ (K_zz + λI) C), the last from the (d, d) matrix C Cᵀ
    A = C @ C.T
    smooth = np.vdot(A, K_zz) + ridge * np.trace(A)
    return float(0.5 * C.shape[1] - np.vdot(C, K_zx) + 0.5 * smooth)


def gradient(X: Floats, Z: Floats, C: Floats, K_zx: Floats, K_zz: Floats, width: float) -> Floats:
    """Return the objective's derivative (d, m) in the dictionary, Eq. (15).

    It is -(W X - diag(W 1) Z) / r² + 2 (Q Z - diag(Q 1) Z) / r².
    """
    W = C * K_zx  # (d, n)
    Q = 0.5 * (C @ C.T) * K_zz  # (d, d)
    pull = W @ X - W.sum(axis=1)[:, None] * Z
    push = Q @ Z - Q.sum(axis=1)[:, None] * Z
    slope: Floats = (2.0 * push - pull) / width**2
    return slope


def _descend(X: Floats, Z: Floats, C: Floats, width: float, ridge: float, steps: int) -> Floats:
    """Take gradient steps on the dictionary that never raise the objective, Eq. (16).

    The first trial is 1 / L with L = |C Cᵀ|₂ / r², halved until f(Z - η G) ≤ f(Z) - ½ η |G|². That
    ends, since the second derivatives of the Gaussian are bounded and the gradient is Lipschitz.
    """
    lipschitz = float(np.linalg.norm(C @ C.T, 2)) / width**2
    K_zx, K_zz = gaussian_kernel(X, Z, width).T, atom_kernel(Z, width)
    now = objective(K_zx, K_zz, C, ridge)
    for _ in range(steps):
        G = gradient(X, Z, C, K_zx, K_zz, width)
        slope = float(np.vdot(G, G))
        eta = 1.0 / lipschitz if lipschitz > 0 else 0.0
        rounding = 4 * np.finfo(np.float64).eps * (abs(now) + C.shape[1])
        while eta * slope > rounding:  # a smaller decrease is within rounding errors
            trial = Z - eta * G  # Eq. (16)
            K_zx, K_zz = gaussian_kernel(X, trial, width).T, atom_kernel(trial, width)
            value = objective(K_zx, K_zz, C, ridge)
            if value <= now - 0.5 * eta * slope:
                break
            eta /= 2
        else:
            return Z
        Z, now = trial, value
    return Z


def _precondition(X: Floats, Z: Floats, width: float, ridge: float) -> Floats:
    """Return the dictionary after one preconditioned step at the best coefficients C, Eq. (14).

    It is (M + μI)⁻¹ ((C ∘ K(Z, X)) X + μ Z), M = (C Cᵀ) ∘ (K(Z, Z) + λI) and μ = 1e-10 mean(diag
    M), or Z - r² (diag(W 1) - 2 diag(Q 1) + 2 Q)⁻¹ ∂f/∂Z: at that C, K_zx = (K_zz + λI) C and the
    bracket is M, a positive semidefinite Hadamard product. An unused atom does not move.
    """
    K_zx, K_zz = gaussian_kernel(X, Z, width).T, atom_kernel(Z, width)
    C = _coefficients(K_zx, K_zz, ridge)
    eye = np.eye(len(Z))
    M = (C @ C.T) * (K_zz + ridge * eye)
    C *= K_zx  # now W of Eq. (15)
    target = C @ X
    mean = float(np.trace(M)) / len(Z)
    if mean == 0.0:  # all kernel values underflow: no sample is near any atom
        return Z
    damping = _DAMPING * mean
    while True:
        try:
            factor = scipy.linalg.cho_factor(M + damping * eye, lower=True)
        except scipy.linalg.LinAlgError:
            damping *= 10.0  # terminates: eigenvalues of M are above about -d ε mean(diag M)
        else:
            step: Floats = scipy.linalg.cho_solve(factor, target + damping * Z)
            return step


def local_update(
    X: ArrayLike,
    Z: ArrayLike,
    width: float,
    ridge: float,
    *,
    steps: int = 1,
    kind: StepKind = "preconditioned",
) -> Floats:
    """Return a client's dictionary Z_p (d, m) after one round of local steps, Eqs. (9) and (10).

    It may leave the client under a secure sum only.
    """
    _check_scalars("local_update", width=width, ridge=ridge, steps=steps, kind=kind)
    X, Z = same_features(X, Z)
    if kind == "gradient":
        C = _coefficients(gaussian_kernel(X, Z, width).T, atom_kernel(Z, width), ridge)
        return _descend(X, Z, C, width, ridge, steps)
    for _ in range(steps):
        Z = _precondition(X, Z, width, ridge)
    return Z

"""One client's side of FedSC: coefficients and dictionary steps in kernel space.

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
Departures  (1) A step on Z is preconditioned and in closed form. The paper's gradient steps,
            Eq. (16), end in poor dictionaries of images: accuracy .47 on faces. (2) C is recomputed
            between steps, since the closed form holds at the optimal C only. (3) λ = 0 is refused.

A client's Z_p is, up to the damping, a linear combination of its own samples: it must leave the
client under a secure sum only.
"""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from daskfc.arrays import Floats
from daskfc.checks import Constraint, check_params, integer, real
from daskfc.clustering.kernels.kernels import atom_kernel, gaussian_kernel, same_features
from daskfc.errors import InvalidInput

_RULES: dict[str, Constraint] = {
    "width": real(above=0),
    "ridge": real(above=0),
    "steps": integer(1),
}
_DAMPING = 1e-10  # relative to the mean diagonal; atoms that a client does not use make M singular


def _check_scalars(owner: str, **params: object) -> None:
    check_params(owner, params, {name: _RULES[name] for name in params})


def coefficients(X: ArrayLike, Z: ArrayLike, width: float, ridge: float) -> Floats:
    """Return C = (K(Z, Z) + λI)⁻¹ K(Z, X), (d, n), Eqs. (9), (14); refuse too small a ridge."""
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
    return scipy.linalg.cho_solve(factor, K_zx)  # Eq. (14)


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
    centre = X.mean(axis=0)  # M 1 = W 1: a step shifts with the data, and rounds least near 0
    target = C @ (X - centre)
    mean = float(np.trace(M)) / len(Z)
    if mean == 0.0:  # all kernel values underflow: no sample is near any atom
        return Z
    damping = max(_DAMPING * mean, np.finfo(np.float64).tiny)  # ten times 0 is 0 for ever
    while True:
        try:
            factor = scipy.linalg.cho_factor(M + damping * eye, lower=True)
        except scipy.linalg.LinAlgError:
            damping *= 10.0  # terminates: eigenvalues of M are above about -d ε mean(diag M)
        else:
            moved: Floats = scipy.linalg.cho_solve(factor, target + damping * (Z - centre))
            moved += centre
            return moved


def local_update(
    X: ArrayLike, Z: ArrayLike, width: float, ridge: float, *, steps: int = 1
) -> Floats:
    """Return a client's dictionary Z_p (d, m) after one round of local steps, Eqs. (9) and (10).

    It may leave the client under a secure sum only.
    """
    _check_scalars("local_update", width=width, ridge=ridge, steps=steps)
    X, Z = same_features(X, Z)
    for _ in range(steps):
        Z = _precondition(X, Z, width, ridge)
    return Z

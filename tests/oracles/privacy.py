"""Privacy definitions and FedSC's formulas, written again without daskfc; slow on purpose."""

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm


def hockey_stick(epsilon, sigma, sensitivity):
    """δ of two Gaussians from the definition: ∫ max(0, p - e^ε q), by quadrature."""

    def excess(x):
        return max(
            0.0,
            norm.pdf(x, sensitivity, sigma) - np.exp(epsilon) * norm.pdf(x, 0.0, sigma),
        )

    # p exceeds e^ε q to the right of this point
    crossing = sensitivity / 2 + epsilon * sigma**2 / sensitivity
    top = max(crossing, sensitivity) + 12 * sigma
    middle = min(max(crossing, sensitivity + 3 * sigma), top)
    return sum(
        quad(excess, a, b, epsabs=0, epsrel=1e-11, limit=500)[0]
        for a, b in ((crossing, middle), (middle, top))
        if b > a
    )


def kernel(A, B, width):
    return np.array([[np.exp(-sum((a - b) ** 2) / (2 * width**2)) for b in B] for a in A])


def coefficients(Z, X, width, ridge):
    """Eq. (14)."""
    return np.linalg.solve(kernel(Z, Z, width) + ridge * np.eye(len(Z)), kernel(Z, X, width))


def gradient(Z, X, C, width):
    """Derivative of Eq. (8) by Z, one pair at a time."""
    result = np.zeros_like(Z)
    to_rows, to_atoms = kernel(Z, X, width), kernel(Z, Z, width)
    for a in range(len(Z)):
        for i in range(len(X)):
            result[a] -= C[a, i] * to_rows[a, i] * (X[i] - Z[a]) / width**2
            for b in range(len(Z)):
                result[a] += C[a, i] * C[b, i] * to_atoms[a, b] * (Z[b] - Z[a]) / width**2
    return result

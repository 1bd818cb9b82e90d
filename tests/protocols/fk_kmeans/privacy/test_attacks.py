"""What the server makes of Gram matrices, with and without masks."""

import numpy as np
import pytest

from daskfc.clustering.kernels.features import Kernel
from daskfc.errors import InvalidInput
from daskfc.protocols.fk_kmeans.privacy import rows_in_span, span_of

RANDOM = np.random.default_rng(0)
D, DIMENSIONS = 40, 3
DRAW = Kernel("gaussian", 1.5).features(D, 0, DIMENSIONS)
CLIENTS = [RANDOM.normal(size=(8, DIMENSIONS)) for _ in range(20)]
STARTS = RANDOM.normal(size=(40, DIMENSIONS))


def gram(rows):
    phi = DRAW.of(rows)
    return phi.T @ phi


def nearest(found, rows):
    """Return how far each reconstruction is from the nearest sample."""
    return np.linalg.norm(found[:, None] - rows, axis=2).min(axis=1)


def test_the_gram_matrix_of_few_samples_gives_them():
    """Theorem 4 calls that impossible; without masks the server has this matrix."""
    found = rows_in_span(gram(CLIENTS[0]), DRAW, STARTS)
    assert found.rank == 8
    hits = found.rows[found.residuals < 1e-3]
    assert len(hits) > 5
    assert nearest(hits, CLIENTS[0]).max() < 0.01
    assert nearest(CLIENTS[0], hits).mean() < 0.5  # most samples, not always the same one


def test_the_sum_over_many_clients_does_not():
    """With more samples than features every vector lies in the span."""
    found = rows_in_span(sum(map(gram, CLIENTS)), DRAW, STARTS)
    assert found.rank == D
    assert found.residuals.max() < 1e-6
    everybody = np.concatenate(CLIENTS)
    assert np.median(nearest(found.rows, everybody)) > 0.5 * np.median(nearest(STARTS, everybody))


def test_the_sum_over_few_clients_still_does():
    """Fewer samples than features over all clients: masks hide whose they are, not what."""
    few = np.concatenate(CLIENTS[:2])
    found = rows_in_span(sum(map(gram, CLIENTS[:2])), DRAW, STARTS)
    hits = found.rows[found.residuals < 1e-3]
    assert len(hits) > 5
    assert np.median(nearest(hits, few)) < 0.02


def test_a_span_has_the_rank_of_the_samples():
    assert span_of(gram(CLIENTS[0][:3])).shape == (D, 3)


def test_other_features_are_refused():
    with pytest.raises(InvalidInput, match="needs a Gram matrix of 40 Fourier features"):
        rows_in_span(np.eye(3), DRAW, STARTS)
    polynomial = Kernel("polynomial", 1.0).features(D, 0, DIMENSIONS)
    with pytest.raises(InvalidInput, match="kernel 'polynomial'"):
        rows_in_span(np.eye(D), polynomial, STARTS)

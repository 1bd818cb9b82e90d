import numpy as np

from daskfc.linalg.symmetric import matrix_of, packed, packed_size


def test_a_packed_matrix_has_its_norm_and_comes_back():
    random = np.random.default_rng(0)
    for n in range(80):
        G = random.normal(size=(n, n))
        G = G + G.T
        values = packed(G)
        assert values.shape == (packed_size(n),)
        np.testing.assert_allclose(np.linalg.norm(values), np.linalg.norm(G), rtol=1e-13)
        np.testing.assert_allclose(matrix_of(values), G, rtol=1e-14)

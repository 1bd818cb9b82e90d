import numpy as np
import pytest

from daskfc.coding import BYTE_PRIMES, HidingPolynomial, ResidueSystem
from daskfc.coding.engines.tiling import block_tiles
from daskfc.coding.residues import compiled


@pytest.fixture(params=["numba", "numpy"])
def passes(request, monkeypatch):
    """Both implementations of the passes over entries."""
    if request.param == "numba" and not compiled.NUMBA:
        pytest.skip("numba is not installed")
    monkeypatch.setattr(compiled, "NUMBA", request.param == "numba")
    return request.param


def byte_system(r=4, bound=None, scale=1.0):
    primes = BYTE_PRIMES[:r]
    modulus = int(np.prod([float(p) for p in primes]))
    return ResidueSystem(primes, scale=scale, bound=modulus - 1 if bound is None else bound)


def hiding_values(code, system, evaluator, key, block, shape, symmetric=False):
    """ϕ(β_j) mod p of one evaluator for a block: its words, weighted and added one by one."""
    hiding = HidingPolynomial(code, system, evaluator, key, block)
    values = np.zeros((len(system.primes), *shape), np.int64)
    for a, p in enumerate(system.primes):
        words = hiding.words(a)
        for tile in block_tiles(shape, symmetric):
            for (top, left, bottom, right), drawn, factors in words.strips(tile):
                for stream, factor in zip(drawn, factors, strict=True):
                    term = stream.astype(np.int64) % p * int(factor) % p
                    values[a, top:bottom, left:right] += term
        if symmetric:
            values[a] = np.triu(values[a]) + np.triu(values[a], 1).T
    return values % np.array(system.primes)[:, None, None]


@pytest.fixture
def integer_rows():
    """Integer rows whose largest squared distance is below 2**31."""
    rng = np.random.default_rng(7)
    return rng.integers(-900, 900, (23, 11))

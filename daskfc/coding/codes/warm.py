"""Compilation with numba ahead of time, before many workers would each compile the same loops."""

import numpy as np

from daskfc.coding.codes.decode import reconstruct
from daskfc.coding.codes.evaluate import coded_distances
from daskfc.coding.codes.hiding import HidingPolynomial
from daskfc.coding.codes.lagrange import LagrangeCode
from daskfc.coding.engines import int8_vnni
from daskfc.coding.engines.engines import ENGINES
from daskfc.coding.residues import compiled
from daskfc.coding.residues.modular import BYTE_PRIMES
from daskfc.coding.residues.scale import ResidueSystem
from daskfc.coding.residues.streams import SecretKey


def warm_up() -> bool:
    """Have numba compile and cache every loop over bytes, before workers start, if it is there."""
    if not compiled.NUMBA:
        return False
    code, system = LagrangeCode(1, 1, 3), ResidueSystem(BYTE_PRIMES[:2], scale=1.0, bound=100)
    key = SecretKey.from_bytes(bytes(32))  # hides nothing: the rows below are no data
    rows = np.array([[0, 3], [4, 0]], dtype=np.int64)
    shares = code.encode(rows, system, key)
    engine = ENGINES["int8"] if int8_vnni.available() is None else ENGINES["f32"]
    answers = [
        coded_distances(z, z, system, engine, symmetric=True,
                        hiding=HidingPolynomial(code, system, j, key, (0, 0)))
        for j, z in enumerate(shares)
    ]  # fmt: skip
    assert reconstruct(answers, range(3), code, system).tolist() == [[0, 25], [25, 0]]
    for dtype in (np.int32, np.float32, np.float64):  # products of the other engines
        out = np.empty((1, 1), dtype=np.uint8)
        acc = np.zeros((1, 1), dtype=dtype)
        compiled.reduce_tile(acc, *compiled.no_words(out.dtype), 251, out)
    for kind in (np.int8, np.float32, np.float64):  # tables of the engines
        table = np.zeros(256, dtype=kind)
        compiled.look_up(shares[0, 0], table, np.empty((2, 2), dtype=table.dtype))
    return True

"""Whole distances of later rounds of landmarks are those of the samples, however large."""

import numpy as np
import pytest

from daskfc.coding import LagrangeCode, ResidueSystem, WideIntegers
from daskfc.linalg import LandmarkEmbedding
from daskfc.secure.distances.parties import server
from daskfc.secure.distances.parties.server import Columns
from daskfc.secure.distances.routes.columns import keep_columns

PRIMES = (251, 241, 239, 233, 229, 227, 223)


@pytest.fixture
def decoded(monkeypatch):
    """Decode columns whose residues are those of some distances, by as few primes as suffice."""

    def decode(D, embedding, landmarks, system):
        spread = embedding.spread * system.scale**2
        few = system.first(server._primes_for(spread, system))
        assert not few.is_wide
        whole = np.array(D[:, landmarks].astype(object) % few.modulus, dtype=np.int64)
        monkeypatch.setattr(server, "decode_answers", lambda *_: (whole, np.empty(0, np.int64)))
        return server.decode_columns(
            {}, embedding, landmarks, None, what="", start=0, code=LagrangeCode(1, 1, 3),
            system=few, evaluators=(),
        )  # fmt: skip

    return decode


@pytest.mark.parametrize("scale", [1.0, 3.7, 10.0, 255.0])
@pytest.mark.parametrize("apart", [2.0**24, 2.0**25.4, 2.0**25.6, 2.0**25.9, 2.0**26.4])
def test_whole_numbers_are_not_rounded_by_the_way_to_float64(decoded, apart, scale):
    """From 2^51 on a division by S² and the product back lost a unit, and labels were wrong."""
    random = np.random.default_rng(1)
    rows = np.rint(random.normal(size=(400, 4)) * 10).astype(np.int64)
    rows[:, 3] = 0
    rows[::2, 0] += int(apart)
    rows[0, 3] = 500  # which one sample alone has
    D = ((rows[:, None] - rows) ** 2).sum(axis=2)
    system = ResidueSystem(PRIMES, scale, bound=int(D.max()))
    embedding = LandmarkEmbedding(400, 4, tolerance=1e-12, nearest=0.01 / scale**2)
    first = np.arange(1, 14)
    residues = np.stack([D[:, first] % p for p in PRIMES])
    whole = WideIntegers.of_residues(residues, PRIMES)
    found = [Columns(system.to_real(whole), np.empty(0, np.int64), whole)]
    server.add_columns(embedding, first, found)
    kept = keep_columns(None, first, found, system=system)
    later = embedding.next_landmarks(3)
    assert later.size
    kept = keep_columns(kept, later, [decoded(D, embedding, later, system)], system=system)
    ours = kept(slice(0, 400))
    assert (ours.near.astype(np.int64) + ours.rest).tolist() == (
        D[:, np.concatenate([first, later])].tolist()
    )

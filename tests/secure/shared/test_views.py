"""What each party sees is uniform, whatever is computed, and is not where a mask is left out.

Summands are the same in all runs, so that nothing but the streams is random; two runs have the
party's own two keys in common and differ in the third, which it does not know. Each run, and the
difference of the two, must be uniform bytes in every round.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from daskfc.coding import SecretKey
from daskfc.secure.shared import Party
from tests.secure.shared.lockstep import three_parties
from tests.secure.shared.write_vectors import PROGRAMS, messages, run_of

# All 1,500 statistics or so of this file together are above it once in 10^6 runs of the tests.
FALSE_ALARM = 1e-9 / 1.5
VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))


def unlikely(words):
    """Return whether the bytes are too unevenly spread for uniform ones."""
    counts = np.bincount(words.reshape(-1).view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    return ((counts - expected) ** 2 / expected).sum() > chi2.isf(FALSE_ALARM, 255)


def suspicious(name, rounds=40):
    """Return where what a party sees is not uniform, as (party, round, what)."""
    found = []
    for i in range(3):
        own = {i: SecretKey.from_os(), (i + 1) % 3: SecretKey.from_os()}
        seen = []  # by run, of two whose third keys differ
        for _ in range(2):
            third = [SecretKey.from_os() for _ in range(rounds)]
            runs = [
                run_of(name, three_parties([own.get(j, key) for j in range(3)])) for key in third
            ]
            seen.append([np.stack(one) for one in zip(*(run.seen[i] for run in runs), strict=True)])
        for at, (one, other) in enumerate(zip(*seen, strict=True)):
            for what, words in (("view", one), ("difference", one ^ other)):
                if unlikely(words):
                    found.append((i, at, what))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_party_sees_is_uniform(name):
    assert suspicious(name) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_products_that_are_not_hidden_are_seen(name, monkeypatch):
    monkeypatch.setattr(Party, "hide", lambda *_, **__: None)
    assert {i for i, _, _ in suspicious(name, 4)} == {0, 1, 2}


@pytest.mark.parametrize(
    "name", ["negative", "negative in 32 bits", "bits_of", "to_numbers", "shifted", "chosen"]
)
@pytest.mark.parametrize("draws", ["with_before", "with_after"])
def test_what_is_dealt_without_a_mask_is_seen(name, draws, monkeypatch):
    """Results are right then as well: only the view tells."""
    for one in ("with_before", "with_after"):
        monkeypatch.setattr(Party, one, lambda _, shape: np.zeros(shape, dtype=np.uint64))
    assert {(i, at) for i, at, _ in suspicious(name, 4)} >= {(0, 0), (1, 0), (2, 0)}


def test_a_mask_of_one_stream_alone_is_seen(monkeypatch):
    """The party that has that stream's key would see the summand."""

    def half(party, words, *, bits=False):
        words ^= party.with_before(words.shape)

    monkeypatch.setattr(Party, "hide", half)
    assert suspicious("both", 4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_messages_are_those_of_the_vectors(name):
    assert messages(name) == VECTORS["messages"][name]

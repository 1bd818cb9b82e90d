"""The order of samples: one for all clients, the same for linked ones, labels back by it."""

import hashlib

import numpy as np
import pytest

from daskfc.errors import InvalidInput
from daskfc.federation.samples import (
    SampleDigests,
    canonical_positions,
    labels_of_client,
    linked_samples,
    own_labels,
    sample_digests,
)
from daskfc.stores import ClientStore
from daskfc.testing.federation import stores_of


def digests(**clients):
    return {name: SampleDigests(np.array(own, dtype="uint64")) for name, own in clients.items()}


@pytest.fixture
def store(tmp_path):
    return ClientStore.open(stores_of(tmp_path, {"é": np.eye(3)})["é"])


def test_a_pseudonym_is_the_hash_of_salt_and_id(store):
    def expected(salt):
        hashes = (hashlib.sha256(f"{salt}\x1fé/{i}".encode()).hexdigest() for i in range(3))
        return [int.from_bytes(bytes.fromhex(one[:16]), "little") for one in hashes]

    assert list(sample_digests(store).digests) == expected("daskfc-sample-order")
    assert list(sample_digests(store, salt="of this run").digests) == expected("of this run")


def test_ids_come_back_with_labels(store):
    told = own_labels(store, np.array([2, 0, 1]))
    assert list(told.sample_ids()) == ["é/0", "é/1", "é/2"]
    assert list(told.labels) == [2, 0, 1]


def test_places_do_not_depend_on_who_holds_a_sample():
    parts = digests(a=[70, 10, 50], b=[30], c=[60, 20, 40])
    places = canonical_positions(parts)
    assert {name: list(own) for name, own in places.items()} == {
        "a": [6, 0, 4],
        "b": [2],
        "c": [5, 1, 3],
    }
    labels = np.array([1, 2, 3, 4, 5, 6, 7])
    assert list(labels_of_client(labels, places, client="c").labels) == [6, 2, 4]


def test_a_sample_of_two_clients_is_refused_with_both():
    with pytest.raises(InvalidInput, match="clients 'a' and 'c' share some, 1 ids occur twice"):
        canonical_positions(digests(a=[7, 1], b=[2], c=[3, 7]))


@pytest.mark.parametrize(
    ("own", "what"),
    [
        ([1, 3, 2], "same order; 2 of client 'b' stand elsewhere than in client 'a'"),
        ([3, 1, 2], "same order; 3 of client 'b' stand elsewhere"),
        ([1, 2], "client 'b' lacks 1 of the 3 of client 'a' and has 0 others"),
        ([1, 2, 3, 4], "client 'b' lacks 0 of the 3 of client 'a' and has 1 others"),
        ([1, 2, 4], "client 'b' lacks 1 of the 3 of client 'a' and has 1 others"),
        ([1, 2, 2], "client 'b' repeats 1 of its 3"),
    ],
    ids=["last two swapped", "rotated", "one missing", "one more", "another", "twice"],
)
def test_linked_samples_must_be_the_same_in_one_order(own, what):
    with pytest.raises(InvalidInput, match=what):
        linked_samples(digests(a=[1, 2, 3], b=own))
    with pytest.raises(InvalidInput, match=what.replace("'b'", "'z'")):
        linked_samples(digests(a=[1, 2, 3], m=[1, 2, 3], z=own))  # nor the last of several


def test_linked_samples_are_counted():
    assert linked_samples(digests(a=[3, 1, 2], b=[3, 1, 2], c=[3, 1, 2])) == 3

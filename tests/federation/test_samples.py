"""The order of samples: one for all clients, the same for linked ones, labels back by it."""

import hashlib

import numpy as np
import pytest

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation.samples import (
    ClientLabels,
    LabelledSamples,
    SampleDigests,
    canonical_positions,
    content_tag,
    labelled_new,
    labelled_samples,
    labels_of_client,
    linked_samples,
    new_digests,
    opened,
    own_labels,
    sample_digests,
    store_content,
)
from daskfc.stores import ClientStore, write_store


def digests(**clients):
    return {name: SampleDigests(np.array(own, dtype="uint64")) for name, own in clients.items()}


def store_of(folder, rows):
    """A client's store whose ids are not ASCII."""
    url = str(folder / "e.zarr")
    write_store(url, "e", rows, [f"é/{i}" for i in range(len(rows))], dtype="float64")
    return ClientStore.open(url)


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path, np.eye(3))


def test_a_pseudonym_is_the_hash_of_salt_and_id(store):
    def expected(salt):
        hashes = (hashlib.sha256(f"{salt}\x1fé/{i}".encode()).hexdigest() for i in range(3))
        return [int.from_bytes(bytes.fromhex(one[:16]), "little") for one in hashes]

    assert sample_digests(store).digests.tolist() == expected("daskfc-sample-order")
    assert list(sample_digests(store, salt="of this run").digests) == expected("of this run")


def test_new_samples_have_the_pseudonyms_of_others(store):
    np.testing.assert_array_equal(new_digests(store).digests, sample_digests(store).digests)


def test_ids_come_back_with_labels(store):
    told = own_labels(store, np.array([2, 0, 1]))
    assert list(told.sample_ids()) == ["é/0", "é/1", "é/2"]
    assert list(told.labels) == [2, 0, 1]


def test_labels_are_int64_whatever_they_were(store):
    assert own_labels(store, np.array([True, False, True])).labels.dtype == np.int64
    assert own_labels(store, [1, 2, 3]).labels.dtype == np.int64
    told = labels_of_client(np.array([1, 2], "uint8"), {"a": np.array([1])}, client="a")
    assert (told.labels.dtype, list(told.labels)) == (np.int64, [2])
    for label in (labelled_samples, labelled_new):
        found = label(store, ClientLabels(np.array([5, 6, 7])))
        assert list(found.labels) == [5, 6, 7]
        assert list(found.sample_ids()) == ["é/0", "é/1", "é/2"]


def test_no_samples_have_ids_that_are_text():
    none = LabelledSamples(np.zeros(0, "int64"), np.zeros(0, "uint8"), np.zeros(0, "int64"))
    assert none.sample_ids().dtype.kind == "U"


def test_a_store_of_new_samples_is_opened(store, tmp_path):
    assert opened(str(tmp_path / "e.zarr"), lambda own: own).digest == store.digest
    assert opened(str(tmp_path / "e.zarr"), lambda own: "prepared") == "prepared"


def test_a_tag_tells_the_same_samples_to_who_has_the_key_only(store, tmp_path):
    other = store_of(tmp_path / "other", 2 * np.eye(3))
    key, another = SecretKey.from_bytes(bytes(32)), SecretKey.from_bytes(b"\1" * 32)
    tag = content_tag(store, key)
    assert tag == content_tag(store, key) == key.derive("samples", store.digest).fingerprint()
    assert len({tag, content_tag(other, key), content_tag(store, another)}) == 3
    assert 0 <= tag < 2**63
    assert store_content(store, key).tag == tag


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
    with pytest.raises(InvalidInput, match="clients 'b' and 'c' share some, 2 ids occur twice"):
        canonical_positions(digests(a=[1, 2], b=[8, 5], c=[5, 8]))
    # many and in any order, so that an order that is not kept would be seen
    random = np.random.default_rng(0)
    for n in (40, 100, 1000):
        for _ in range(10):
            own = random.permutation(10 * n)[:n]
            shared = rf"clients 'a' and 'b' share some, {n} ids occur twice"
            with pytest.raises(InvalidInput, match=shared):
                canonical_positions(digests(a=own, b=random.permutation(own)))


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

"""The order of samples: one for all clients, the same for linked ones, labels back by it."""

import hashlib

import numpy as np
import pytest

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation.methods.samples import (
    ClientLabels,
    LabelledSamples,
    SampleDigests,
    canonical_positions,
    content_tag,
    labelled_new,
    labelled_samples,
    labels_of_client,
    linked_samples,
    mixed_digests,
    new_digests,
    opened,
    own_labels,
    sample_digests,
    store_content,
)
from daskfc.stores import ClientStore, write_store
from daskfc.stores.layout import id_key

KEY = SecretKey.from_bytes(bytes(range(32)))


def digests(**clients):
    return {name: SampleDigests(np.array(own, dtype="uint64"), 5) for name, own in clients.items()}


def store_of(folder, rows):
    """A client's store whose ids are not ASCII."""
    url = str(folder / "e.zarr")
    write_store(url, "e", rows, [f"é/{i}" for i in range(len(rows))], dtype="float64")
    return ClientStore.open(url)


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path, np.eye(3))


def test_a_pseudonym_is_a_keyed_hash_of_the_id(store):
    def expected(key):
        ids = (f"é/{i}".encode() for i in range(3))
        hashes = (hashlib.blake2b(i, digest_size=8, key=key.to_bytes()).digest() for i in ids)
        return [int.from_bytes(one, "little") for one in hashes]

    assert sample_digests(store, KEY).digests.tolist() == expected(KEY)
    assert sample_digests(store, KEY.derive("other")).digests.tolist() != expected(KEY)


def test_a_share_of_the_order_is_the_stores_own(store, tmp_path, monkeypatch):
    told = sample_digests(store, KEY)
    assert told.share == sample_digests(store, KEY.derive("other")).share
    assert 0 <= told.share < 2**63
    monkeypatch.setattr(id_key, "new_key", lambda: bytes(32))
    assert sample_digests(store_of(tmp_path / "other", np.eye(3)), KEY).share != told.share


def test_the_order_takes_the_shares_of_all_clients():
    """Who lacks one share has another order; equal digests stay equal in all of them."""
    own = np.arange(100, dtype="uint64")
    orders = []
    for shares in ((5, 8), (5, 9), (6, 8), (8, 5)):
        a, b = (SampleDigests(own, share) for share in shares)
        mixed = mixed_digests({"a": a, "b": b})
        np.testing.assert_array_equal(mixed["a"], mixed["b"])
        orders.append(np.argsort(mixed["a"]))
    np.testing.assert_array_equal(orders[0], orders[3])  # whoever has which
    ranks = np.corrcoef([np.argsort(order) for order in [np.arange(100), *orders[:3]]])
    assert np.abs(ranks - np.eye(4)).max() < 0.35


def test_new_samples_have_the_pseudonyms_of_others(store):
    told, again = new_digests(store, KEY), sample_digests(store, KEY)
    np.testing.assert_array_equal(told.digests, again.digests)


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
    other = canonical_positions(digests(x=[20, 70, 60, 30], y=[10, 40, 50]))
    assert sorted(np.concatenate(list(places.values()))) == list(range(7))
    assert list(other["x"]) == [places["c"][1], places["a"][0], places["c"][0], places["b"][0]]
    assert list(other["y"]) == [places["a"][1], places["c"][2], places["a"][2]]
    labels = np.array([1, 2, 3, 4, 5, 6, 7])
    found = labels_of_client(labels, places, client="c").labels
    assert list(found) == [place + 1 for place in places["c"]]


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

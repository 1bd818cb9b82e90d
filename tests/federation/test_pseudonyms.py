"""Pseudonyms in place of ids: who can make and take them back, and what leaves a party."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap

from daskfc.coding import KeyPair, SecretKey
from daskfc.errors import InvalidInput, StoreError
from daskfc.federation.driver.agreement import KeyOffer, key_offer, sealed_id_key, wrapped_id_key
from daskfc.federation.identity.pseudonyms import Pseudonyms, pseudonyms_of, under_pseudonyms
from daskfc.federation.messages.declaration import CALLER, Message, array
from daskfc.federation.methods.samples import (
    ClientLabels,
    LabelledSamples,
    PseudonymousSamples,
    labelled_samples,
)
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.party import Party
from daskfc.federation.steps.calls import StepCall
from daskfc.runs.outcome.evaluate import PseudonymousTruth, evaluation_labels
from daskfc.stores import ClientStore, write_store

IDS = [f"é/{i}" for i in range(4)]
HERE = Pseudonyms("5f0c2a91d3b7")


@pytest.fixture
def store(own_secrets, tmp_path):
    url = str(tmp_path / "a.zarr")
    write_store(url, "a", np.arange(8.0).reshape(4, 2), IDS, np.array([0, 1, 0, 1]))
    return ClientStore.open(url)


def test_a_pseudonym_is_a_keyed_hash_of_the_id(store):
    key = HERE.key("a", store.id_key())
    assert key == SecretKey(store.id_key()).derive("pseudonyms", HERE.label, "a")
    hashes = [hashlib.blake2b(i.encode(), digest_size=12, key=key.to_bytes()) for i in IDS]
    expected = [f"5f0c2a91d3b7-{one.hexdigest()}" for one in hashes]
    assert HERE.of(IDS, key) == expected
    assert len(set(expected)) == 4


def test_runs_clients_and_stores_share_no_pseudonym(store, tmp_path):
    url = str(tmp_path / "other" / "a.zarr")
    write_store(url, "a", np.arange(8.0).reshape(4, 2), IDS)
    same_content = ClientStore.open(url)
    assert same_content.digest == store.digest
    keys = [
        HERE.key("a", store.id_key()),
        HERE.key("b", store.id_key()),
        HERE.key("a", same_content.id_key()),
        Pseudonyms("5f0c2a91d3b8").key("a", store.id_key()),
    ]
    found = {name.partition("-")[2] for key in keys for name in HERE.of(IDS, key)}
    assert len(found) == 4 * len(IDS)
    assert Pseudonyms.fresh().label != Pseudonyms.fresh().label


def test_what_is_written_down_makes_the_same_ones():
    for names in (HERE, Pseudonyms("0" * 12, {"a": "00" * 40})):
        assert pseudonyms_of(names.as_dict()) == names
    assert pseudonyms_of({}) is pseudonyms_of(None) is None


def test_ids_are_replaced_in_messages_that_have_them_and_nothing_else_is(store):
    def key():
        return HERE.key("a", store.id_key())

    told = labelled_samples(store, ClientLabels(np.array([3, 1, 2, 0])))
    renamed = under_pseudonyms(told, HERE, key)
    assert type(renamed) is PseudonymousSamples
    assert renamed.labels.tolist() == [3, 1, 2, 0]
    assert renamed.sample_ids().tolist() == HERE.of(IDS, key())
    truth = under_pseudonyms(evaluation_labels(store), HERE, key)
    assert type(truth) is PseudonymousTruth
    assert truth.labels.tolist() == [0, 1, 0, 1]
    assert truth.sample_ids().tolist() == HERE.of(IDS, key())
    other = ClientLabels(np.array([1]))
    assert under_pseudonyms(other, HERE, key) is other


def labelled(data) -> LabelledSamples:
    return labelled_samples(data, ClientLabels(np.zeros(4, dtype=np.int64)))


class Count(Message, route="client → caller", reveals="a number"):
    """Without ids."""

    n: np.ndarray = array(dtype="int64")


def count(data) -> Count:
    return Count(np.array(data.n_samples))


def sent(store, tmp_path, step, pseudonyms, receiver=CALLER):
    """What leaves a party when it performs a step."""
    run = RunSettings("r", 0, start="1", pseudonyms=pseudonyms)
    options = PartyOptions("a", "client", str(tmp_path / "scratch"), store.url, run=run)
    call = StepCall(step, {}, "a", "r", 0, "send", (receiver,), {})
    return Party(options).perform(call, ()).message


def test_the_door_of_a_party_lets_no_clear_id_out_unless_the_run_says_so(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr("daskfc.federation.party.party._LOGGERS", ())
    monkeypatch.setattr("daskfc.federation.party.party.logging", SimpleNamespace(
        captureWarnings=lambda capture: None, getLogger=None))  # fmt: skip
    hidden = sent(store, tmp_path, labelled, HERE.as_dict())
    assert type(hidden) is PseudonymousSamples
    assert hidden.sample_ids().tolist() == HERE.of(IDS, HERE.key("a", store.id_key()))
    clear = sent(store, tmp_path, labelled, {})
    assert type(clear) is LabelledSamples
    assert clear.sample_ids().tolist() == IDS
    assert sent(store, tmp_path, count, HERE.as_dict()).n == 4


# -- one key for clients that share samples -------------------------------------------------------


def agreed(urls):
    """Carry out the steps of an agreement; return the wrapped keys by client."""
    secrets = {name: SecretKey.from_os() for name in urls}
    first, *others = urls
    offers = {name: key_offer((first,), secrets[name])[first] for name in others}
    boxes = sealed_id_key(offers, secrets[first])
    back = key_offer(tuple(others), secrets[first])
    wrapped = {}
    for name, url in urls.items():
        data = ClientStore.open(url)
        told = (None, None) if name == first else ({first: back[name]}, {first: boxes[name]})
        part = wrapped_id_key(*told, HERE.label, data, secrets[name], name)
        wrapped[name] = part.wrapped.tobytes().hex()
    return Pseudonyms(HERE.label, wrapped), boxes


@pytest.fixture
def urls(own_secrets, tmp_path):
    found = {name: str(tmp_path / "shared" / f"{name}.zarr") for name in "abc"}
    for name, url in found.items():
        write_store(url, name, np.eye(4)[:, :2], IDS)
    return found


def test_clients_that_share_samples_have_one_key_that_nobody_else_can_unwrap(urls):
    names, boxes = agreed(urls)
    keys = {name: names.key(name, ClientStore.open(url).id_key()) for name, url in urls.items()}
    assert len({key.to_bytes() for key in keys.values()}) == 1
    assert set(boxes) == {"b", "c"}
    clear = keys["a"].to_bytes().hex()
    assert clear not in str(names.as_dict())
    assert not any(clear == box.sealed.tobytes().hex() for box in boxes.values())
    assert agreed(urls)[0].key("a", ClientStore.open(urls["a"]).id_key()) != keys["a"]
    with pytest.raises(StoreError, match="store of client 'a' is not the one that the pseudonyms"):
        names.key("a", ClientStore.open(urls["b"]).id_key())
    swapped = Pseudonyms(HERE.label, {**names.keys, "b": names.keys["a"]})
    with pytest.raises(StoreError, match="'b'"):
        swapped.key("b", ClientStore.open(urls["b"]).id_key())
    other_run = Pseudonyms("0" * 12, names.keys)
    with pytest.raises(StoreError, match="'a'"):
        other_run.key("a", ClientStore.open(urls["a"]).id_key())
    with pytest.raises(InvalidInput, match="client 'd' took no part when the pseudonyms"):
        names.key("d", bytes(32))


def test_a_box_is_for_one_client_alone(urls):
    secrets = {name: SecretKey.from_os() for name in "abc"}
    offers = {name: key_offer(("a",), secrets[name])["a"] for name in "bc"}
    assert type(offers["b"]) is KeyOffer
    assert offers["b"].key.tobytes() == (
        KeyPair(secrets["b"].derive("pseudonyms", "agreement")).public
    )
    boxes = sealed_id_key(offers, secrets["a"])
    drawer = {"a": key_offer(("b",), secrets["a"])["b"]}
    with pytest.raises(InvalidUnwrap):
        wrapped_id_key(
            drawer, {"a": boxes["c"]}, "x", ClientStore.open(urls["b"]), secrets["b"], "b"
        )


# -- the secret in a store ------------------------------------------------------------------------


def test_a_store_that_is_written_again_keeps_the_secret_of_its_ids(store):
    before = store.id_key()
    write_store(store.url, "a", np.ones((2, 2)), ["x", "y"], overwrite=True)
    assert ClientStore.open(store.url).id_key() == before
    write_store(store.url, "b", np.ones((2, 2)), ["x", "y"], overwrite=True)
    assert ClientStore.open(store.url).id_key() != before


def test_a_store_without_a_secret_is_refused(store, tmp_path):
    file = tmp_path / "a.zarr" / "sample_id" / "zarr.json"
    text = file.read_text()
    for wrong in (text.replace('"id_key"', '"unknown"'), text.replace(store.id_key().hex(), "ab")):
        assert wrong != text
        file.write_text(wrong)
        with pytest.raises(StoreError, match="build it again"):
            ClientStore.open(store.url)

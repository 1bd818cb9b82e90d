from dataclasses import dataclass

import numpy as np
import pytest

from daskfc.federation import Message, array
from daskfc.federation.messages.declaration import payload_bytes
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import NotRehearsed, Sizes, derived, of_shape, sized
from daskfc.federation.planning.traffic import DELAYS, Network
from daskfc.stores import ClientStore, write_store


class Rows(Message, route=("client → server", "client → client"), reveals="rows"):
    rows: np.ndarray = array("sample", "feature", dtype="float32 | float64")
    note: str


class Count(Message, route=("server → client", "server → caller"), reveals="a number"):
    n: int


class Groups(Message, route=("client → server", "server → caller"), reveals="centres"):
    centers: np.ndarray = array("cluster", "n_features", dtype="float64")
    n_clusters: int


class Told(Message, route="server → caller", reveals="who is done"):
    done: np.ndarray = array("client", dtype="int64")


def groups(parts=None) -> Groups:
    raise AssertionError("a step was performed")


def own_rows(data) -> Rows:
    raise AssertionError("a step was performed")


def rows_for_all(data) -> dict[str, Rows]:
    raise AssertionError("a step was performed")


def count(parts) -> Count:
    raise AssertionError("a step was performed")


def heard(told):
    raise AssertionError("a step was performed")


def _rows(data):
    return sized(Rows, sample=data.n_samples, feature=data.n_features, note="ab", dtype="float64")


STAND_INS = {
    own_rows: _rows,
    rows_for_all: lambda data: {name: _rows(data) for name in ("a", "b")},
}


@pytest.fixture
def stores():
    for name, n in (("a", 10), ("b", 20)):
        url = f"memory://rehearsal/{name}.zarr"
        write_store(url, name, np.ones((n, 3)), overwrite=True)
    return {name: ClientStore.open(f"memory://rehearsal/{name}.zarr") for name in ("a", "b")}


@pytest.fixture
def rehearsal(stores):
    made = Rehearsal(stores, STAND_INS, network=Network(1e9, 1.0), process_bytes=1000)
    made.start_run("r", random_state=0)
    return made


def test_sizes_without_memory():
    message = sized(Rows, sample=10**6, feature=10**6, dtype="float64")
    assert payload_bytes(message) == 8 * 10**12
    assert sized(Rows, sample=1, feature=1).rows.dtype == np.float32
    assert of_shape(2, 3).tolist() == [[0.0] * 3] * 2
    with pytest.raises(KeyError):
        sized(Rows, sample=3)


def test_a_message_is_counted_when_its_receiver_takes_it_and_once(rehearsal):
    sent = rehearsal.ask(own_rows)
    assert not len(rehearsal.ledger)
    for _ in range(2):
        rehearsal.on_server(count, sent)
    assert [(row.sender, row.payload_bytes) for row in rehearsal.ledger] == [
        ("a", 10 * 3 * 8 + 2),
        ("b", 20 * 3 * 8 + 2),
    ]
    assert all(row.wire_bytes > row.payload_bytes + 300 for row in rehearsal.ledger)


def test_own_messages_do_not_travel(rehearsal):
    sent = rehearsal.exchange(rows_for_all)
    rehearsal.on_clients(heard, sent)
    assert {(row.sender, row.receiver) for row in rehearsal.ledger} == {("a", "b"), ("b", "a")}


def test_messages_that_wait_for_one_another(rehearsal):
    told = rehearsal.tell(count, rehearsal.ask(own_rows))
    rehearsal.wait(rehearsal.on_clients(heard, told))
    assert rehearsal.depth == 2
    assert rehearsal.clock == pytest.approx(2 * DELAYS, abs=0.01)
    rehearsal.publish(count, rehearsal.ask(own_rows))
    assert rehearsal.depth == 4


def test_a_message_that_nobody_knows_the_size_of(stores):
    rehearsal = Rehearsal(stores, {})
    rehearsal.start_run("r", random_state=0)
    with pytest.raises(NotRehearsed, match="how large the message Groups of step 'groups' is"):
        rehearsal.ask(groups)
    rehearsal.publish(count, {})  # of one size always


@pytest.mark.parametrize("table", [{}, {own_rows: lambda: Sizes()}, {Rows: lambda data: Sizes()}])
def test_sizes_that_follow_from_a_store(stores, table):
    rehearsal = Rehearsal(stores, table)
    rehearsal.start_run("r", random_state=0)
    rehearsal.on_server(heard, rehearsal.ask(own_rows))
    rehearsal.on_clients(heard, rehearsal.exchange(rows_for_all))
    sent = sorted((row.sender, row.receiver, row.shapes["rows"]) for row in rehearsal.ledger)
    assert sent == [
        ("a", "b", [10, 3]),
        ("a", "server", [10, 3]),
        ("b", "a", [20, 3]),
        ("b", "server", [20, 3]),
    ]


@dataclass(frozen=True)
class Settings:
    n_clusters: int = 4
    ready: bool = True


PARTS = {"a": Rows(np.zeros((5, 3)), ""), "b": Rows(np.zeros((6, 3)), "")}
SETTINGS = {"parts": PARTS, "settings": Settings()}


def test_sizes_that_follow_from_arguments():
    assert derived(Groups, SETTINGS).centers.shape == (4, 3)
    assert derived(Groups, {**SETTINGS, "n_clusters": 4}).n_clusters == 4
    assert derived(Groups, {"n_clusters": 2, "told": [PARTS["a"]]}).centers.shape == (2, 3)
    assert derived(Groups, SETTINGS, Sizes(cluster=9)).centers.shape == (9, 3)
    assert derived(Count, SETTINGS) == Count(0)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"parts": PARTS},  # of which none has clusters
        {**SETTINGS, "n_clusters": 5},  # and the settings say four
        {"n_clusters": 3, "told": [PARTS["a"], Rows(np.zeros((2, 7)), "")]},
        {"parts": PARTS, "n_clusters": True},
        {"parts": PARTS, "cluster": np.zeros(3)},
        {"parts": PARTS, "clusters": [3], "told": {"n_clusters": 3}},
    ],
)
def test_sizes_that_do_not_follow(given):
    assert derived(Groups, given) is None


def test_an_array_that_only_the_caller_reads_decides_how_a_method_goes_on():
    assert derived(Told, {"n_clients": 3}) is None
    assert derived(Told, {"n_clients": 3}, Sizes()).done.tolist() == [0, 0, 0]


def test_what_is_assumed_is_noted(stores):
    rehearsal = Rehearsal(stores, {}, assumed={"rounds": 3.0})
    assert rehearsal.assume("rounds", 100.0, at_most=True) == 3.0
    assert rehearsal.assume("clusters", 7.0, at_most=True) == 7.0
    assert [(one.what, one.value, one.at_most) for one in rehearsal.assumptions] == [
        ("rounds", 3.0, False),
        ("clusters", 7.0, True),
    ]


def test_memory_is_that_of_the_largest_step(rehearsal):
    sent = rehearsal.ask(own_rows)
    rehearsal.on_server(heard, sent)
    table = {"a": 10 * 3 * 8, "b": 20 * 3 * 8}
    needed = {name: bytes_ for name, (bytes_, _) in rehearsal.memory.items()}
    assert needed["a"] == 1000 + 2 * table["a"]  # its store, and what it sends
    rehearsal.foresee({"server": 10**6, "a": 5}, "graph")
    assert rehearsal.memory["server"] == (10**6, "graph")
    assert rehearsal.memory["a"][1] == "step 'own_rows'"


def test_steps_may_be_performed_on_the_stores(stores):
    def means(data) -> Rows:
        return Rows(data.rows(0, data.n_samples).mean(axis=0)[None], "")

    rehearsal = Rehearsal(stores, {}, performs=True)
    rehearsal.start_run("r", random_state=0)
    seen = []
    rehearsal.on_server(lambda parts: seen.extend(parts.values()), rehearsal.ask(means))
    assert [message.rows.tolist() for message in seen] == [[[1.0, 1.0, 1.0]]] * 2

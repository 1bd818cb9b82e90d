"""The digest of a content: the same at both ends, and another for anything else."""

import numpy as np
import pytest
from distributed.protocol import deserialize, serialize

from daskfc.federation.messages.declaration import (
    Message,
    NoiseMultiplier,
    array,
    as_declared,
    text,
)
from daskfc.federation.messages.digests import content_digest, new_salt, salted
from daskfc.federation.messages.envelopes import Here, Outgoing


class All(Message, route="client → server", reveals="everything"):
    rows: np.ndarray = array("n", "d", dtype="float64 | int64")
    words: np.ndarray = array("m", dtype="str")
    one: np.ndarray = array(dtype="int64")
    count: int
    share: float
    note: str = text(20)
    noise: NoiseMultiplier = 2.0


class Other(All):
    """Another class with the same fields."""


class Two(Message, route="client → server", reveals="two texts"):
    left: str
    right: str


def content(**changes):
    plain = {
        "rows": np.arange(6.0).reshape(3, 2),
        "words": np.array(["a", "bc"]),
        "one": np.array(5),
        "count": 3,
        "share": 0.5,
        "note": "x",
    }
    return {**plain, **changes}


def test_both_ends_have_the_same(monkeypatch):
    place = ("a", "server", "s", "r", 0)
    message = as_declared(All(**content()))
    sent = Outgoing(message, *place, {}, id="id", salt="5a" * 16, digest="not sent")
    monkeypatch.setattr(Here, "packages", {"daskfc", "tests"})
    arrived = deserialize(*serialize(sent))
    assert content_digest(arrived.message) == content_digest(sent.message)
    assert (arrived.id, arrived.salt, arrived.digest) == ("id", "5a" * 16, "")


def test_the_order_in_memory_does_not_count():
    rows = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    assert content_digest(All(**content(rows=rows))) == content_digest(All(**content()))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": np.arange(6.0).reshape(2, 3)},
        {"rows": np.arange(6).reshape(3, 2)},
        {"rows": np.arange(6.0).view("int64").reshape(3, 2)},  # the same bytes
        {"rows": np.array([[0, 1], [2, 3], [4, np.nextafter(5, 6)]])},
        {"rows": np.array([[-0.0, 1], [2, 3], [4, 5]])},
        {"words": np.array(["a", "bd"])},
        {"words": np.array(["a", "bc"], dtype="U5")},
        {"one": np.array(6)},
        {"count": 4},
        {"share": 0.5000001},
        {"note": "y"},
        {"noise": 3.0},
    ],
    ids=str,
)
def test_whatever_is_otherwise_has_another(change):
    assert content_digest(All(**content(**change))) != content_digest(All(**content()))


def test_the_class_and_the_bounds_of_fields_count():
    assert content_digest(Other(**content())) != content_digest(All(**content()))
    assert content_digest(Two("ab", "c")) != content_digest(Two("a", "bc"))
    empty = {"rows": np.zeros((0, 2))}, {"rows": np.zeros((0, 3))}
    assert content_digest(All(**content(**empty[0]))) != content_digest(All(**content(**empty[1])))


def test_a_salt_hides_what_could_be_guessed():
    digest = content_digest(Two("a", "b"))
    one, other = new_salt(), new_salt()
    assert one != other
    assert len({digest, salted(digest, one), salted(digest, other)}) == 3

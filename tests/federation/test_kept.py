"""Messages at their receiver: for it, of this run, of whom they are given as, and signed."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from daskfc.deploy.certificates.authority import Authority
from daskfc.errors import PrivacyError
from daskfc.federation.messages.envelopes import Outgoing
from daskfc.federation.messages.signed import check_signed, signed_by
from daskfc.federation.party.kept import Kept, check_arrived
from daskfc.federation.steps.handles import InnerCall, Slot
from daskfc.federation.worker.answers import only_own
from daskfc.federation.worker.door import Refused
from daskfc.secure.sums.messages import MaskedPart, PublicKeys
from tests.deploy.test_signatures import files_of

KEYS = PublicKeys(np.arange(32, dtype=np.uint8).reshape(1, 32))


def sent(by="a", to="b", run="r", message=KEYS):
    return Outgoing(message, by, to, "public_key", run, 0, {})


def check(argument, *values):
    check_arrived({"public": argument}, values, "b", "r")


def test_messages_that_are_what_they_are_given_as_pass():
    check({"a": Slot(0), "c": [Slot(1)]}, sent(), sent("c"))
    check([Slot(0), Slot(1)], sent(), Kept(3))
    check(InnerCall("step", b"", {"a": Slot(0)}, 0), sent("c"))  # names of parameters


@pytest.mark.parametrize(
    ("argument", "value", "told"),
    [
        (Slot(0), sent(to="c"), "which is for 'c'"),
        (Slot(0), sent(run="of last year"), "which is of another run"),
        (Slot(0), sent("server"), "takes another route"),
        (
            Slot(0),
            sent(message=MaskedPart("t", "", 0, KEYS.keys, np.zeros((1, 1), dtype=np.uint64))),
            "takes another route",
        ),
        ({"c": Slot(0)}, sent(), "which is given as that of 'c'"),
        ({"c": [(Slot(0),)]}, sent(), "which is given as that of 'c'"),
        (InnerCall("s", b"", {"x": {"c": Slot(0)}}, 0), sent(), "which is given as that of 'c'"),
    ],
)
def test_other_messages_are_not_used(argument, value, told):
    with pytest.raises(PrivacyError, match=told):
        check(argument, value)


# -- signed ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Of parties a and c of one authority, and of an a of another."""
    made = {}
    for name in ("one", "other"):
        folder = tmp_path_factory.mktemp(name)
        authority = Authority.create(folder / "ca")
        for party in ("a", "c"):
            made[name, party] = files_of(authority, "client", party)
    return made


def test_public_keys_are_signed_by_whose_they_are(files):
    own, ca = files["one", "a"], files["one", "a"].ca
    good = signed_by(own, sent(), "s")
    check_signed(ca, None, good, "s", "b")
    changed = PublicKeys(KEYS.keys ^ np.uint8(1))
    for wrong in (
        sent(),
        signed_by(files["one", "c"], sent(), "s"),
        signed_by(files["other", "a"], sent(), "s"),
        replace(good, message=changed),
        replace(good, receiver="c"),
        replace(good, step="advertise"),
        replace(good, run_id="q"),
        replace(good, sender="c"),
    ):
        with pytest.raises(PrivacyError, match=r"party 'b' was given PublicKeys .* not signed"):
            check_signed(ca, None, wrong, "s", "b")
    with pytest.raises(PrivacyError, match="not signed by its certificate for this start"):
        check_signed(ca, None, good, "another start", "b")


def test_without_tls_nothing_is_signed():
    assert signed_by(None, sent(), "s").signature == b""
    check_signed(None, None, sent(), "s", "b")


# -- who answers ----------------------------------------------------------------------------------


class Answering:
    """A connection to whom a certificate names."""

    def __init__(self, role, name, data):
        names = (("URI", f"daskfc:{role}/{name}"),)
        self.extra_info = {"peercert": {"subjectAltName": names}}
        self._data = data

    async def read(self):
        return {"status": "OK", "data": dict(self._data)}


@pytest.mark.parametrize(
    ("role", "name", "sender", "held"),
    [
        ("client", "a", "a", True),
        ("client", "c", "a", False),
        ("server", "a", "a", False),
        ("server", "server", "server", True),
        ("server", "server-2", "server-2", True),
        ("client", "server", "server", False),
    ],
)
def test_messages_come_from_their_sender(role, name, sender, held):
    answer = {"k": sent(sender), "refused": Refused(PrivacyError("no"), raises=False)}
    comm = Answering(role, name, answer)
    for _ in range(2):  # a connection that is used again
        comm = only_own(comm, "b")
        data = asyncio.run(comm.read())["data"]
        assert isinstance(data["k"], Outgoing if held else Refused)
        assert str(data["refused"].error) == "no"
    if not held:
        assert "was sent PublicKeys" in str(data["k"].error)


def test_without_tls_who_answers_is_not_known():
    comm = SimpleNamespace(extra_info={}, read=None)
    assert only_own(comm, "b") is comm
    assert comm.read is None

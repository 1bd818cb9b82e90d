"""Malformed frames and messages at the ports of real processes: none crashes, hangs or runs code.

Left out are requests that are answered as they should be, and end a process: without TLS, whoever
reaches the loopback address may ask for them.
"""

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import struct
import zlib

import msgpack
import numpy as np
import psutil
import pytest
from distributed.protocol.core import dumps
from distributed.protocol.serialize import (
    Pickled,
    Serialized,
    ToPickle,
    deserialize,
    serialize,
)
from distributed.protocol.utils import pack_frames_prelude
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daskfc.errors import DaskfcError, InvalidInput
from daskfc.federation.messages.envelopes import Outgoing
from daskfc.federation.messages.wire_format import Reader, encode
from daskfc.federation.party.options import RunSettings
from daskfc.federation.steps.calls import call_of
from daskfc.federation.worker import ingress
from daskfc.protocols import OmniFC
from daskfc.secure.sums.messages import PlainPart
from tests.attacks.ports import Canary, identity, push, sent
from tests.federation import steps

pytestmark = pytest.mark.slow

FUZZED = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
# What a process offers, without what ends it.
OPS = (
    "identity", "echo", "ping", "versions", "get_data", "free_keys", "daskfc_describe",
    "daskfc_ledger", "daskfc_peak_memory", "daskfc_refused", "daskfc_start_run",
    "daskfc_end_run", "daskfc_processor_seconds", "connection_stream", "run", "run_coroutine",
    "update_data",
    "plugin_add", "actor_execute", "gather", "register-worker", "heartbeat_worker", "broadcast",
    "who_has", "processing", "events", "register_nanny", "no_such_word", "",
)  # fmt: skip
NAMES = (
    "keys", "who", "run", "nonce", "proof", "run_id", "reply", "data", "function", "args", "msg",
    "address", "name", "client", "asked", "topic", "serializers", "nanny",
)  # fmt: skip

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=16),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
fields = [field.name for field in dataclasses.fields(RunSettings)]
rubbish_settings = st.fixed_dictionaries(
    {"run_id": plain, "random_state": plain},
    optional={name: plain for name in fields if name not in ("run_id", "random_state")},
)


def deep(levels):
    """Return a value within values, each in an extension of the wire's own."""
    data = msgpack.packb(1)
    for _ in range(levels):
        data = msgpack.packb(msgpack.ExtType(1, b"\x91" + data))
    return data


def envelope(about):
    """Return the header of an envelope that says something else of itself."""
    header, _ = serialize(Outgoing(steps.Vector(np.zeros(1)), "a", "b", "s", "r", 0, {}))
    return {**header, "sub-header": {"about": about}}


def of_plain_part(described):
    """Return what an envelope says of a message with one array."""
    return encode([PlainPart, [*"absr", 0, "", ""], [described]])


@functools.cache
def _zeros():
    header, _ = serialize(np.zeros(2**22))  # 32 MiB, and 32 kB of them on the wire
    header |= {"compression": ["zlib"], "split-num-sub-frames": [1], "split-offsets": [0]}
    return Serialized(header, [zlib.compress(bytes(2**25))])


ODD = {
    "a pickle": lambda header, frames, words: Serialized(header, frames),
    "a pickle to be opened at once": lambda header, frames, words: ToPickle(words),
    "a pickle in a header": lambda header, frames, words: Pickled(
        {"pickled-obj": bytes(frames[0]), "more": words}, []
    ),
    "a broken pickle": lambda header, frames, words: Serialized(header, [bytes(frames[0])[:-2]]),
    "no serializer": lambda header, frames, words: Serialized({"serializer": words}, frames),
    "no frames": lambda header, frames, words: Serialized(header, []),
    "no compression": lambda header, frames, words: Serialized(
        {**header, "compression": [words], "split-num-sub-frames": [9]}, frames
    ),
    "zeros": lambda header, frames, words: _zeros(),
    "an envelope": lambda header, frames, words: Serialized(envelope(words), frames),
    "a deep envelope": lambda header, frames, words: Serialized(
        envelope(bytes(32) + deep(2000)), frames
    ),
    "an envelope of objects": lambda header, frames, words: Serialized(
        envelope(bytes(32) + of_plain_part(["|O", [1, 2]])), [bytes(16)]
    ),
}
_numbers = itertools.count()


def message(op, odd, words, arguments, nest):
    """Return a request with a canary in it, or with something that no process can read."""
    canary = Canary(f"{nest}-{next(_numbers):06d}")  # every message has one length
    made = None if odd is None else ODD[odd](*serialize(canary), words)
    if type(made) is ToPickle:
        made = ToPickle(canary)
    extra = {} if made is None else {"keys": made, "function": made, "run": made}
    return {**arguments, **extra, "op": op, "reply": True}


def bytes_of(told):
    """Return a message as it is on the wire."""
    frames = [bytes(frame) for frame in dumps(told)]
    prelude = pack_frames_prelude(frames)
    return struct.pack("<Q", len(prelude) + sum(map(len, frames))) + prelude + b"".join(frames)


requests = st.tuples(
    st.sampled_from(OPS),
    st.none() | st.sampled_from(sorted(ODD)),
    plain,
    st.dictionaries(st.sampled_from(NAMES), plain, max_size=4),
)


@pytest.fixture(scope="module")
def nests(tmp_path_factory, addresses):
    """Where canaries sing, by process."""
    folder = tmp_path_factory.mktemp("canaries")
    return {process: folder / process for process in addresses}


def check(addresses, nests):
    """Every process still answers, and none opened a pickle."""
    for process, address in addresses.items():
        assert identity(address)["id"], process
    assert list(next(iter(nests.values())).parent.iterdir()) == []


def test_messages_that_nobody_can_read(addresses, nests):
    @settings(FUZZED, max_examples=60)
    @given(requests)
    def tried(request):
        for process, address in addresses.items():
            asyncio.run(sent(address, message(*request, nests[process])))

    tried()
    for odd in ODD:  # each at least once where it is read first
        for op in ("run", "daskfc_start_run"):
            for process, address in addresses.items():
                asyncio.run(sent(address, message(op, odd, "words", {}, nests[process])))
    check(addresses, nests)


@st.composite
def wires(draw, nest):
    """Bytes of a message, cut short or changed, or any others."""
    whole = bytes_of(message(*draw(requests), nest))
    at = draw(st.integers(0, len(whole) - 1))
    size = struct.pack("<Q", 2 ** draw(st.integers(0, 63)))
    other = bytes([whole[at] ^ draw(st.integers(1, 255))])
    return draw(
        st.sampled_from(
            [
                whole[:at],
                whole[:at] + other + whole[at + 1 :],
                size + whole[8:],
                whole[:8] + size + whole[16:],
                draw(st.binary(max_size=100)),
            ]
        )
    )


@pytest.mark.parametrize("greeted", [True, False])
def test_frames_that_are_cut_or_changed(addresses, nests, greeted):
    @settings(FUZZED, max_examples=40)
    @given(st.data())
    def tried(data):
        drawn = {process: data.draw(wires(nests[process])) for process in addresses}
        for process, raw in drawn.items():
            if greeted:
                asyncio.run(sent(addresses[process], None, raw=raw))
            else:
                push(addresses[process], raw)

    tried()
    check(addresses, nests)


def test_runs_of_rubbish(addresses, nests):
    @settings(FUZZED, max_examples=40)
    @given(
        rubbish_settings,
        st.none() | st.dictionaries(st.text(max_size=8), plain, max_size=3),
        st.binary(max_size=32) | plain,
    )
    def tried(run, proof, seal):
        asked = {"op": "daskfc_start_run", "run": run, "reply": True}
        more = {"submitter": "s", "seal": seal}
        asyncio.run(sent(addresses["worker"], {**asked, "nonce": b"n", **more}))
        asyncio.run(sent(addresses["nanny"], {**asked, "proof": proof}))

    tried()
    check(addresses, nests)


def test_a_fit_still_runs(ports, addresses):
    """The last of this file: on the processes that were sent all of the above."""
    with ports.joined() as federation:
        model = OmniFC(2, random_state=0).fit(federation)
        assert len(np.unique(model.labels_)) == 2


# -- what parties read themselves ------------------------------------------------------------------


TROUBLE = (DaskfcError, ValueError, TypeError, ImportError)  # fmt: skip


def packed(value):
    return msgpack.packb(value, unicode_errors="replace")


extensions = st.recursive(
    plain,
    lambda inner: st.builds(
        lambda code, value: msgpack.ExtType(code, packed(value)),
        st.integers(0, 9),
        st.lists(inner, max_size=3) | inner,
    ),
    max_leaves=6,
)


@settings(FUZZED, max_examples=300)
@given(
    st.binary(max_size=60) | extensions.map(lambda v: msgpack.packb(v, unicode_errors="replace"))
)
def test_calls_and_envelopes_of_rubbish_are_refused(data):
    for read in (
        lambda: Reader().decode(data),
        lambda: call_of(data, Reader()),
        lambda: deserialize(envelope(bytes(32) + data), [data]),
    ):
        with contextlib.suppress(*TROUBLE):
            read()


@pytest.mark.parametrize("levels", [33, 2000])
def test_values_within_values_end_before_the_stack_does(levels):
    with pytest.raises(ValueError, match="32 deep at most"):
        Reader().decode(deep(levels))
    assert Reader().decode(deep(32))


def test_a_number_in_place_of_a_pickle_takes_no_memory():
    """As Dask's own header of an envelope may hold it: ``bytes(2**40)`` are so many zeros."""
    with ingress.restricted():
        for number in (0, 1, 2**40):
            assert ingress._loads(number) is ingress.Forbidden


@pytest.mark.parametrize(
    "pickled",
    [
        b"Nr\xff\xff\xff\x7f.",  # a place in a list of 2**31
        b"\x8e" + (2**40).to_bytes(8, "little"),  # so many bytes, of which none are there
        b"\x96" + (2**40).to_bytes(8, "little"),
    ],
)
def test_a_pickle_of_five_bytes_takes_no_memory(pickled):
    """The unpickler in C made room for all of it, so that one frame ended a party."""
    before = psutil.Process().memory_info().rss
    with ingress.restricted():
        assert ingress._loads(pickled) in (ingress.Forbidden, None)
    assert psutil.Process().memory_info().rss - before < 2**28


@pytest.mark.parametrize("name", ["a\n2026-01-01 all is well", "\x1b[2J", ["a"], None])
def test_the_name_of_a_step_makes_no_second_line_in_a_log(name):
    """CWE-117: what was sent as the name of a step that cannot be read was written as it was."""
    step = call_of(
        encode([name, b"", encode({}), ["a", "r", 0, "keep", [], {}, []]]), Reader()
    ).step
    assert step.__name__ == "?"


def test_a_large_number_in_place_of_a_prime_takes_no_time():
    """The fields of a dataclass are the sender's, and 2**61 - 1 has no divisor to find."""
    module = "daskfc.coding.residues.scale"
    fields = {"primes": [2**61 - 1], "scale": 1.0, "bound": 1}
    data = msgpack.packb(msgpack.ExtType(6, msgpack.packb([module, "ResidueSystem", fields])))
    with pytest.raises(InvalidInput, match="at most 2"):
        Reader().decode(data)


@pytest.mark.parametrize("described", [["|O", [2]], ["O,i4", [1]], ["<f8", [-1]], ["<f8", [1]]])
def test_bytes_of_an_envelope_are_taken_for_no_objects(described):
    """Pointers that a stranger chose: numpy makes such arrays without a word."""
    about = bytes(32) + of_plain_part(described)
    with pytest.raises(ValueError, match=r"dtype of plain numbers|fill its shape"):
        deserialize(envelope(about), [bytes(16)])

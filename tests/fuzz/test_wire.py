"""What arrives at a party: values, calls and envelopes as bytes, and what Dask would unpickle."""

import dataclasses
import functools
import inspect
import os
import pickle
import subprocess

import cloudpickle
import msgpack
import numpy as np
import pytest
from dask._task_spec import Task, TaskRef
from distributed.protocol.serialize import serialize
from hypothesis import given
from hypothesis import strategies as st

from daskfc.coding import FixedPoint, LagrangeCode, ResidueSystem, SecretKey
from daskfc.errors import DaskfcError
from daskfc.federation.messages import declaration as messages
from daskfc.federation.messages.envelopes import Outgoing, Unread
from daskfc.federation.messages.wire_format import Reader, encode, sealed
from daskfc.federation.party import party as party_module
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.party import Kept, Party
from daskfc.federation.steps.calls import StepCall, call_bytes
from daskfc.federation.worker import ingress
from daskfc.federation.worker.guard import run_step
from daskfc.secure.sums import masked
from daskfc.secure.sums.messages import PlainPart
from daskfc.site import RunRequest
from daskfc.testing.federation import stores_of
from tests.fuzz.changes import PLAIN, WORDS, changed_bytes
from tests.fuzz.watch import answer, everything_loaded, fuzzed

pytestmark = pytest.mark.slow

RUN = RunSettings("r", 0, start="1", request={"method": "OmniFC"})
VALUES = (
    {"centers": (1, 2.5, None), "n": 2**70, "z": 1 - 2j},
    [np.arange(6.0).reshape(2, 3), np.array(["a", "é"]), np.float32(0.5), np.empty((0, 3), "u1")],
    {"ring": FixedPoint(8.0, 3, 40), "run": RUN, "step": masked.agree, "kind": PlainPart},
    [[((((1,),),),)], {"deep": {"deeper": [np.zeros(3)]}}],
)
CALLS = tuple(
    StepCall(step, arguments, "a", "r", 0, verb, receivers)
    for step, arguments, verb, receivers in (
        (masked.public_key, {"members": ("a", "b", "c"), "n_colluding": 0}, "exchange", ("b", "c")),
        (masked.agree, {"public": {}, "members": ("a",), "n_colluding": 0}, "keep", ()),
    )
)


@functools.cache
def known():
    everything_loaded()
    party_module.logger.disabled = True
    ingress.logger.disabled = True
    return tuple(map(encode, VALUES))


def plain(value):
    """Whether a value is data, or something of daskfc: no name of another package was made."""
    if isinstance(value, dict):
        return all(plain(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "biufcUS"
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return True
    module = getattr(value, "__module__", None) or type(value).__module__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return module.startswith("daskfc.") and plain(
            [getattr(value, field.name) for field in dataclasses.fields(value)]
        )
    return module.startswith("daskfc.") and (inspect.isroutine(value) or isinstance(value, type))


@fuzzed(300)
@given(st.deferred(lambda: changed_bytes(known())))
def test_values(data):
    """What is read is data, and is written as it was read."""
    found = answer(lambda: [Reader().decode(data)], ImportError)
    if found is not None:
        assert plain(found)
        again = Reader().decode(encode(found))
        assert encode(again) == encode(found)


NAMES = WORDS | st.sampled_from(
    ["os", "system", "builtins", "eval", "daskfc", "subprocess", "Popen", "cli", "main", "pickle",
     "daskfc.cli", "daskfc.federation.messages.wire_format", "pickle.loads", "loads", "Reader",
     "encode", "daskfc.folders", "daskfc.federation.party.options", "PartyOptions", "RunSettings",
     "Path",
     "daskfc.coding.residues.scale", "ResidueSystem", "daskfc.coding", "LagrangeCode", "FixedPoint"]
)  # fmt: skip


RECORDS = (FixedPoint, RunSettings, RunRequest, ResidueSystem, LagrangeCode, None)


@st.composite
def named(draw):
    """Return names and dataclasses on the wire, whose fields are anything."""
    kind = draw(
        st.sampled_from([FixedPoint, RunSettings, RunRequest, ResidueSystem, LagrangeCode, None])
    )
    if kind is None:
        code, content = draw(st.sampled_from([6, 7])), [draw(NAMES), draw(NAMES)]
        content += [draw(PLAIN)] if code == 6 else []
    else:
        names = [field.name for field in dataclasses.fields(kind)]
        fields = draw(st.dictionaries(st.sampled_from(names) | WORDS, PLAIN, max_size=len(names)))
        code, content = 6, [kind.__module__, kind.__qualname__, fields]
    return extension(code, encode_lossy(content))


def encode_lossy(value):
    """Return the bytes of a value, whatever text there is in it."""

    def other(part):
        return msgpack.ExtType(4, str(part).encode()) if abs(part) < 10**4000 else 0

    return msgpack.packb(value, default=other, unicode_errors="surrogatepass")


def extension(code, content):
    return msgpack.packb(msgpack.ExtType(code, content))


@fuzzed(200)
@given(named())
def test_names_and_fields(data):
    known()
    found = answer(lambda: [Reader().decode(data)], ImportError)
    assert found is None or plain(found)


@pytest.fixture(scope="module")
def party(tmp_path_factory):
    """A party of a site, in no process of its own: it reads as the worker's thread does."""
    folder = tmp_path_factory.mktemp("party")
    urls = stores_of(folder, {"a": np.arange(6.0).reshape(3, 2)})
    loggers, party_module._LOGGERS = party_module._LOGGERS, ()
    made = Party(PartyOptions("a", "client", str(folder / "scratch"), store=urls["a"], run=RUN))
    made.perform_sent(sealed(None, call_bytes(CALLS[0])), ())  # imports what keys need
    yield made
    party_module._LOGGERS = loggers


def test_calls(party):
    """A step is performed, or the submitter is told in a sentence why not."""
    known()
    calls = [sealed(None, call_bytes(call)) for call in CALLS]

    @fuzzed(400)
    @given(changed_bytes(calls))
    def tried(data):
        party.refusal = None
        found = answer(lambda: party.perform_sent(data, ()))
        assert found is None or type(found) in (Kept, Outgoing, dict)

    tried()


def test_valid_calls_are_performed(party):
    """Else the test above would hold whatever it does."""
    data = sealed(None, call_bytes(CALLS[0]))
    assert set(party.perform_sent(data, ())) == {"b", "c"}


# -- what Dask reads -------------------------------------------------------------------------------


class Runs:
    """Whose pickle would end these tests' process."""

    def __init__(self, function, *of):
        self.made = function, of

    def __reduce__(self):
        return self.made


PICKLES = [
    *map(
        pickle.dumps,
        (
            Task("k", run_step, b"call", TaskRef("a")),
            Runs(os.mkdir, "it-ran"),
            Runs(subprocess.Popen, ["false"]),
            Runs(eval, "1"),
            Runs(getattr, DaskfcError, "mro"),
            {"a": np.arange(3), "b": [TaskRef("x")]},
            SecretKey(bytes(32)),
        ),
    ),
    cloudpickle.dumps(lambda: os.mkdir("it-ran")),
]


def made_of_the_list(value):
    if isinstance(value, dict):
        return all(made_of_the_list(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(made_of_the_list, value))
    if value is None or type(value) in (bool, int, float, complex, str, bytes, bytearray):
        return True
    return any(value is one or type(value) is one for one in ingress._allowed.values()) or (
        value is ingress.Forbidden
    )


@fuzzed(600)
@given(changed_bytes(PICKLES))
def test_pickles(data):
    """Nothing is made but what is on the list, and no error ends the connection."""
    known()

    def read():
        with ingress.restricted():
            return [ingress._loads(data)]

    (found,) = answer(read)
    assert found is not Unread
    assert made_of_the_list(found)


@functools.cache
def envelope():
    part = PlainPart(np.arange(4.0).reshape(2, 2))
    header, frames = serialize(Outgoing(part, "a", "b", "s", "r", 0, {}, id="i", salt="t"))
    return header, [bytes(frame) for frame in frames]


@fuzzed(300)
@given(st.data())
def test_envelopes(data):
    """A message of daskfc comes out, or nothing."""
    known()
    header, frames = envelope()
    about = header["sub-header"]["about"]
    changed = data.draw(st.just(about) | st.deferred(lambda: changed_bytes([about, *known()])))
    sub = {"about": changed, **data.draw(st.dictionaries(WORDS, PLAIN, max_size=1))}
    given_frames = [data.draw(changed_bytes([frame])) for frame in frames]
    extra = data.draw(st.just({}) | st.dictionaries(st.sampled_from([*header]), PLAIN, max_size=2))

    def read():
        with ingress.restricted():
            return [ingress._deserialize({**header, "sub-header": sub, **extra}, given_frames)]

    (found,) = answer(read)
    if type(found) is Outgoing:
        assert isinstance(found.message, messages.Message)
        assert plain(list(vars(found.message).values()))
    else:
        assert made_of_the_list(found)

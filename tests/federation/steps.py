"""Steps and messages for the tests: importable, because worker processes import them."""

import asyncio
import errno
import gc
import hashlib
import math
import os
import signal
import threading
from pathlib import Path

import numpy as np
import scipy.linalg
from distributed import (
    Event,
    Queue,
    Variable,
    Worker,
    WorkerPlugin,
    get_client,
    get_worker,
    worker_client,
)

from daskfc.errors import EgressRefused, OverflowRefused, PartyError
from daskfc.federation import Message, NoiseMultiplier, array, text
from daskfc.federation.messages import envelopes
from daskfc.federation.messages.envelopes import Outgoing
from daskfc.federation.worker.connections import Connection

EVERYWHERE = (
    "client → server", "server → client", "client → client", "client → caller", "server → caller",
)  # fmt: skip


class Vector(Message, protection="masked", route=EVERYWHERE, reveals="a vector"):
    values: np.ndarray = array("n", dtype="float64")


class VectorAndMore(Vector):
    more: np.ndarray = array("m", dtype="float64")


class Pair(Message, route="client → server", reveals="two vectors of one length"):
    left: np.ndarray = array("n", dtype="float64")
    right: np.ndarray = array("n", dtype="uint8 | uint32")


class Noised(Message, protection="noised", route="client → server", reveals="a noisy vector"):
    values: np.ndarray = array("n", dtype="float64")
    multiplier: NoiseMultiplier = math.inf


class RawRows(Message, protection="raw", route="client → caller", reveals="everything"):
    rows: np.ndarray = array("n", "d", dtype="float64")


class Where(Message, route=("client → caller", "server → caller"), reveals="a process id"):
    pid: int
    party: str
    note: str = text(1000)


class ClientsOnly(Message, route="client → client", reveals="a number"):
    number: int


class _Pocket:
    """A base class with room for what the message does not declare."""

    __slots__ = ("rows",)


class Pocketed(_Pocket, Message, route="client → caller", reveals="a number"):
    number: int


class Talkative(Message, route="client → caller", reveals="a number"):
    """Its pickled form holds more than its fields."""

    number: int

    def __reduce__(self):
        return Talkative.told, (self.number, _remembered.get("rows"))

    @staticmethod
    def told(number, rows):
        _remembered["rows"] = rows
        return Talkative(number)


_remembered = {}


class Longer(Vector):
    """Another class than a step declares, though one of its kind."""


def raw_rows(data):
    return data.rows(0, data.n_samples)


def publish_rows(data) -> RawRows:
    return RawRows(data.rows(0, data.n_samples))


def row_sum(data) -> Vector:
    return Vector(data.rows(0, data.n_samples).sum(axis=0))


def scaled(vector, factor=2.0):
    return vector.values * factor


def as_message(values) -> Vector:
    return Vector(np.atleast_1d(np.asarray(values, dtype=np.float64)))


def sent_on(vector) -> Vector:
    return Vector(vector.values.copy())


def total(parts):
    return sum(part.values for part in parts.values())


def total_message(parts) -> Vector:
    return Vector(total(parts))


def noised(multiplier) -> Noised:
    return Noised(np.zeros(2), multiplier)


def draws(random) -> Vector:
    return Vector(random.random(4))


def other_draws(random) -> Vector:
    return Vector(random.random(4))


def where(party, note="") -> Where:
    return Where(os.getpid(), party, note)


def where_of_dict(parts, party) -> Where:
    return Where(os.getpid(), party, ",".join(parts))


class LeavesATrace(WorkerPlugin):
    def setup(self, worker):
        os.environ["TRACE_OF_A_PLUGIN"] = "it ran"


def trace_of_a_plugin(party) -> Where:
    return Where(os.getpid(), party, os.environ.get("TRACE_OF_A_PLUGIN", ""))


def eigenvalues() -> Vector:
    return Vector(scipy.linalg.eigvalsh(np.eye(50)))


def no_memory_to_send() -> Vector:
    """Return a message for which there is no memory when it is sent, once."""
    whole = envelopes.content_of

    def once(message):
        envelopes.content_of = whole
        raise MemoryError

    envelopes.content_of = once
    return Vector(np.zeros(3))


def starts_a_thread() -> Vector:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    return Vector(np.zeros(3))


def keep_pid():
    return os.getpid()


def pid_kept(pid, party) -> Where:
    return Where(pid, party, "")


def in_folder(workspace, party) -> Where:
    (Path(workspace) / "touched").write_text("x")
    return Where(os.getpid(), party, workspace)


def secret_trace(secret) -> Vector:
    # One-way, so that a test may compare secrets without a party sending one.
    word = hashlib.sha256(secret.to_bytes()).digest()[:8]
    return Vector(np.frombuffer(word, dtype="<u4").astype(np.float64))


def durable_trace(durable_secret) -> Vector:
    return secret_trace(durable_secret)


def addressed(vector, party, names) -> dict[str, Vector]:
    return {name: Vector(vector.values + index) for index, name in enumerate(names)}


def addressed_to_one(names) -> dict[str, Vector]:
    return {names[0]: Vector(np.zeros(1))}


def numbered(names) -> dict[str, ClientsOnly]:
    return {name: ClientsOnly(7) for name in names}


def total_of_numbers(parts):
    return sum(part.number for part in parts.values())


def pair_wrong_dtype() -> Pair:
    return Pair(np.zeros(3), np.zeros(3, dtype="int64"))


def pair_wrong_lengths() -> Pair:
    return Pair(np.zeros(3), np.zeros(4, dtype="uint8"))


def pair_wrong_rank() -> Pair:
    return Pair(np.zeros((3, 1)), np.zeros(3, dtype="uint8"))


def pair_of(n) -> Pair:
    return Pair(np.zeros(n), np.zeros(n, dtype="uint8"))


def not_the_declared() -> Pair:
    return Vector(np.zeros(3))


def more_than_declared(data) -> Vector:
    return VectorAndMore(np.zeros(3), data.rows(0, 1)[0])


def a_vector():
    return Vector(np.zeros(3))


def pair_whole():
    return pair_of(3)


def rows_of_zeros():
    return RawRows(np.zeros((1, 2)))


def a_bare_array() -> Vector:
    return np.zeros(3)


def with_a_stowaway(data) -> Vector:
    message = Vector(np.zeros(3))
    object.__setattr__(message, "extra", data.rows(0, 1))
    return message


def forged(message, run_id, sender, axes=None):
    """Return an envelope that no verb made."""
    return Outgoing(message(), sender, "caller", "forged", run_id, 0, axes or {})


class _Broken:
    """A connection to an asker who is gone by the time that something is written."""

    peer_address = "tcp://127.0.0.1:1"

    async def write(self, msg, **kwargs):
        raise OSError("the other end is gone")

    def abort(self):
        """Nothing is left to be closed."""


def answers_a_broken_connection(key):
    """Be asked for a value by a caller who is gone by then."""
    worker = own_worker()
    answering = worker.get_data(Connection(_Broken(), lambda peer, op: True), [key])
    try:
        asyncio.run_coroutine_threadsafe(answering, worker.loop.asyncio_loop).result(10)
    except OSError as error:
        return str(error)
    raise AssertionError("nothing broke")


def with_metadata(data) -> Vector:
    noted = np.dtype("float64", metadata={"rows": data.rows(0, data.n_samples).tobytes()})
    return Vector(np.zeros(3).astype(noted))


def with_a_pocket(data) -> Pocketed:
    message = Pocketed(1)
    object.__setattr__(message, "rows", data.rows(0, data.n_samples))
    return message


def with_own_pickling(data) -> Talkative:
    _remembered["rows"] = data.rows(0, data.n_samples)
    return Talkative(1)


def of_a_subclass() -> Vector:
    return Longer(np.zeros(3))


def with_a_lone_surrogate(party) -> Where:
    return Where(os.getpid(), party, "\ud800")


def part_of_a_view(data) -> Vector:
    return Vector(data.rows(0, data.n_samples)[::2, 1])


def forged_by_a_step(data, party, run_id):
    """Keep an envelope that no verb made, with rows where sizes belong."""
    axes = {"rows": data.rows(0, data.n_samples)}
    return Outgoing(Vector(np.zeros(3)), party, "caller", "where", run_id, 1, axes)


def of_a_telling_class(data):
    return type(f"Rows{data.rows(0, 1)[0, 0]}", (), {"__sizeof__": lambda self: 123456})()


def fails_with_a_telling_class(data) -> Vector:
    raise type(f"Value{data.rows(0, 1)[0, 0]}", (ArithmeticError,), {})


def fails_with_a_refusal_that_tells(data) -> Vector:
    refusal = EgressRefused("no \ud800")
    refusal.rows = data.rows(0, 1)
    raise refusal


def fails_with_an_error_that_tells(data, party) -> Vector:
    error = type("Telling", (PartyError,), {})(party, "step", "sentence")
    error.error_type = error.rows = str(data.rows(0, 1)[0, 0])
    raise error


def fails_with_values(data) -> Vector:
    raise ValueError(f"cannot use the value {data.rows(0, 1)[0, 0]!r}")


def fails_with_cause(data) -> Vector:
    try:
        raise KeyError(str(data.rows(0, 1)[0, 0]))
    except KeyError as error:
        raise RuntimeError("secret-text") from error


def refuses_with_cause(data) -> Vector:
    try:
        raise KeyError(str(data.rows(0, 1)[0, 0]))
    except KeyError as error:
        raise EgressRefused("a sentence of its own") from error


def fails_by_itself_with_cause(data) -> Vector:
    try:
        raise KeyError(str(data.rows(0, 1)[0, 0]))
    except KeyError as error:
        raise PartyError("client-1", "fails_by_itself_with_cause", "a reason") from error


def own_worker():
    """Return the worker of this process, which `get_worker` hides from steps."""
    (worker,) = Worker._instances
    return worker


def computes_lazily(data, scheduler) -> Vector:
    lazy = data.dataset(chunks={"sample": 2})["features"]
    return Vector(lazy.sum("sample").compute(scheduler=scheduler).values)


def tells_an_event(data):
    own_worker().log_event("rows", data.rows(0, 1).tolist())


def _tells_by(way, value):
    if way == "get_client":
        get_client().log_event("rows", value)
    elif way == "worker_client":
        with worker_client() as client:
            client.log_event("rows", value)
    elif way == "batched_stream":
        said = {"op": "log-event", "topic": "rows", "msg": value}
        get_worker().batched_stream.send(said)
    elif way == "variable":
        Variable("rows").set(value)
    elif way == "queue":
        Queue("rows").put(value)
    elif way == "event":
        Event(f"rows{value}").set()


def tells_the_scheduler(data, way) -> Where:
    """Tell a value past the messages, in one of Dask's ways."""
    _tells_by(way, data.rows(0, 1).tolist())
    return Where(os.getpid(), "", "it was told")


def tells_of_a_refusal(run_id, start):
    """Tell the driver what the guard tells it, for any run."""
    told = dict(run_id=run_id, start=start, kind="EgressRefused", sentence="nothing leaves.")
    Worker.log_event(own_worker(), "daskfc-refusals", told)


def fails_with_sentence() -> Vector:
    raise OverflowRefused("distances need 31 bits; 24 are there. Lower the tolerance.")


def held(started, release, random) -> Vector:
    """Say that it runs through one named pipe, and wait for the other."""
    Path(started).write_text(str(os.getpid()))
    Path(release).read_text()
    return Vector(random.random(3))


def held_then_not_the_declared(started, release) -> Pair:
    Path(started).write_text(str(os.getpid()))
    Path(release).read_text()
    return Vector(np.zeros(3))


def ends_its_process():
    os.kill(os.getpid(), signal.SIGKILL)


def megabytes(n) -> Vector:
    return Vector(np.ones(n * 131072))


def to_server() -> ClientsOnly:
    return ClientsOnly(1)


def length_of_name(names) -> dict[str, Vector]:
    return {name: Vector(np.full(1, float(len(name)))) for name in names}


def lengths_of(parts):
    return {name: len(part.values) for name, part in parts.items()}


def lengths(parts):
    return [len(part.left) for part in parts]


def how_it_shares(party: str) -> Where:
    """Tell what keeps this process off other processes' cores and pages."""
    policy = os.environ.get("OMP_WAIT_POLICY")
    return Where(os.getpid(), party, f"{gc.get_freeze_count()} frozen, waits {policy}")


class Brittle(Message, protection="masked", route=EVERYWHERE, reveals="nothing"):
    number: int

    def __getattribute__(self, name):
        # At the door, where nothing but the event loop's thread looks.
        if name == "number" and threading.current_thread() is threading.main_thread():
            raise RuntimeError("secret-text")
        return super().__getattribute__(name)


def breaks_at_the_door() -> Brittle:
    return Brittle(1)


def fills_its_disk(data) -> Vector:
    raise OSError(errno.ENOSPC, f"no room for {data.rows(0, 1)[0, 0]!r}", "secret-name")


def writes_to_a_folder(workspace) -> Vector:
    Path(workspace).write_text("x")
    return Vector(np.zeros(1))


def lets_no_thread_run(n) -> Vector:
    """Compute for long within one call that keeps the interpreter's lock."""
    return Vector(np.array([float(sum(range(n)))]))


def vector_of_zeros():
    """A message that stays where it is."""
    return Vector(np.zeros(3))

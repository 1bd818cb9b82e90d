"""A party inside its own worker process: its store, secret, folder, and the steps it performs."""

import contextlib
import errno
import logging
import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskfc import seeds
from daskfc.coding.streams import SecretKey
from daskfc.errors import (
    ENDS_A_RUN,
    ClusterError,
    DaskfcError,
    EgressRefused,
    InvalidInput,
    LedgerError,
    PartyError,
)
from daskfc.federation.handles import fill_slots
from daskfc.federation.ledger import LedgerFile
from daskfc.federation.messages import (
    CALLER,
    SERVER,
    Message,
    check_message,
    payload_bytes,
    routes_of,
)
from daskfc.federation.steps import StepCall, call_step, declared_message, step_name

if TYPE_CHECKING:
    from daskfc.stores import ClientStore

__all__ = [
    "LogFile",
    "Outgoing",
    "Party",
    "PartyOptions",
    "RunSettings",
    "peak_memory_bytes",
    "without_values",
]

logger = logging.getLogger("daskfc.party")


@dataclass(frozen=True)
class RunSettings:
    """What every party knows of a run, from its start on; no step can change it.

    Parameters
    ----------
    run_id : str
        The run's identity; secrets are derived from it.
    random_state : int
        The user's seed.
    allow_raw : bool
        Whether messages with protection "raw" may leave.
    workspace : str, optional
        The run's folder, where the server's folder lies.
    start : str
        Of this start of the run: one that is begun again has new secrets.
    driver : str
        Dask's name of the client that began it; while that is connected no other begins a run.
    """

    run_id: str
    random_state: int
    allow_raw: bool = False
    workspace: str | None = None
    start: str = ""
    driver: str = ""


@dataclass(frozen=True)
class PartyOptions:
    """What a party is started with; the driver never sends it later.

    Parameters
    ----------
    name : str
        The party's name, also that of its worker and of its resource.
    role : {"client", "server"}
        Whether it holds data or reduces.
    store : str, optional
        URL of the client's store.
    scratch : str
        Folder for what the party keeps when no other folder is given.
    folder : str, optional
        The party's own folder on its own machine.
    blas_threads : int
        Threads of BLAS and OpenMP in its worker process.
    latency : float
        Seconds by which its messages are held back.
    secret : SecretKey
        Kept by the nanny, so that it survives the worker process.
    run : RunSettings, optional
        The run under way, for a worker process started within it.
    """

    name: str
    role: str
    scratch: str
    store: str | None = None
    folder: str | None = None
    blas_threads: int = 1
    latency: float = 0.0
    secret: SecretKey = field(default_factory=SecretKey.from_os)
    run: RunSettings | None = None

    def run_folder(self) -> Path:
        """Return the folder of this party in the run under way."""
        if self.run is None:
            return Path(self.folder or self.scratch)
        if self.folder is not None:
            return Path(self.folder) / self.run.run_id
        if self.run.workspace is None:
            return Path(self.scratch) / self.run.run_id
        base = Path(self.run.workspace)
        return base / SERVER if self.role == SERVER else base / "parties" / self.name


@dataclass(frozen=True)
class Outgoing:
    """A message in its sender's memory, with where it may go."""

    message: Message
    sender: str
    receiver: str
    step: str
    run_id: str
    round: int
    axes: Mapping[str, int]

    def __sizeof__(self) -> int:
        # Dask throttles transfers by this number.
        return payload_bytes(self.message) if isinstance(self.message, Message) else 1


def _role(party: str) -> str:
    return party if party in (SERVER, CALLER) else "client"


def reason(error: OSError) -> str:
    """Return why a file could not be used, in the system's words, without the file's name."""
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__


def without_values(error: BaseException, party: str, step: str) -> DaskfcError:
    """Return what may cross of an exception: daskfc's own sentence, or only its type.

    Parameters
    ----------
    error : BaseException
        What a step raised.
    party, step : str
        Where it did.
    """
    if isinstance(error, (*ENDS_A_RUN, PartyError)):
        # Dask teaches exceptions to pickle their causes and traceback; these stay here.
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    if isinstance(error, DaskfcError):
        crossing = PartyError(party, step, str(error))
        crossing.error_type = type(error).__name__
        return crossing
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        kind = f"{reason(error)} at that party. Free some and resume the run."
    elif isinstance(error, OSError) and error.errno:
        kind = f"{type(error).__name__} ({reason(error)})"
    else:
        kind = type(error).__name__
    return PartyError(party, step, kind)


def peak_memory_bytes() -> int:
    """Return the most memory (bytes, resident) that this process has used so far."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Party:
    """The state of one party in its worker process.

    Parameters
    ----------
    options : PartyOptions
        What it was started with.
    """

    def __init__(self, options: PartyOptions) -> None:
        self.options = options
        self.name = options.name
        self.refusal: DaskfcError | None = None
        self._store: ClientStore | None = None
        self._enter_folder()

    @property
    def run(self) -> RunSettings | None:
        """The run under way."""
        return self.options.run

    def start_run(self, run: RunSettings) -> None:
        """Begin a run: forget refusals, move into its folder."""
        self.options = replace(self.options, run=run)
        self.refusal = None
        self._enter_folder()

    def _enter_folder(self) -> None:
        self.folder = self.options.run_folder()
        self.ledger = LedgerFile(self.folder / "ledger.jsonl")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # it starts all the same, to be able to say so
            self.refusal = self.unrecorded(error)
        handler = LogFile(self.folder / "party.log", delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        # The full text of an error stays at the party: it may hold values.
        for name in _LOGGERS:
            target = logging.getLogger(name)
            for old in target.handlers:
                old.close()
            target.handlers = [handler]
            target.propagate = False
        logging.captureWarnings(True)

    def store(self) -> "ClientStore":
        """Return this client's store, opened once per process."""
        if self._store is None:
            if self.options.store is None:
                raise InvalidInput(
                    f"party {self.name!r} has no store, so that no step of it may have a parameter "
                    "'data'. Run the step at a client."
                )
            from daskfc.stores import ClientStore  # zarr costs a server a second it does not need

            self._store = ClientStore.open(self.options.store)
        return self._store

    def perform(self, call: StepCall, values: tuple[Any, ...]) -> Any:
        """Perform a step and return what the worker keeps of it.

        Parameters
        ----------
        call : StepCall
            The step and its arguments.
        values : tuple
            The values for its slots; messages still in their envelopes.

        Raises
        ------
        EgressRefused
            When the result is not the message that the step declares.
        PartyError
            For everything else that goes wrong, without values.
        """
        name = step_name(call.step)
        try:
            self._check_call(call, name)
            arrived = tuple(v.message if isinstance(v, Outgoing) else v for v in values)
            arguments = fill_slots(call.arguments, arrived)
            result = call_step(call.step, arguments, lambda what: self._fill(what, call, name))
            return self._address(call, name, result)
        except Exception as error:
            logger.exception("step %s of round %d failed", name, call.round)
            if isinstance(error, EgressRefused):
                self.refusal = error
            crossing = without_values(error, self.name, name)
        # Outside of the except clause: the first exception must not travel as its context.
        raise crossing

    def _check_call(self, call: StepCall, name: str) -> None:
        self.check_open()
        self._check_run(f"step {name!r}", call.run_id)
        if call.party != self.name:
            raise ClusterError(f"step {name!r} was meant for party {call.party!r}. Report it.")

    def _check_run(self, what: str, run_id: str) -> None:
        if self.run is None:
            raise ClusterError(
                f"party {self.name!r} was started again while run {run_id!r} was under way, and "
                "its secret is lost. Resume the run; it then has new ones."
            )
        if run_id != self.run.run_id:
            raise ClusterError(
                f"{what} belongs to another run than party {self.name!r} is in by now "
                f"({run_id!r}, {self.run.run_id!r}). Resume it when the other has ended."
            )

    def _fill(self, what: str, call: StepCall, name: str) -> Any:
        assert self.run is not None
        if what == "data":
            return self.store()
        if what == "secret":
            return self.options.secret.derive(self.run.run_id, self.run.start)
        if what == "random":
            return seeds.generator(self.run.random_state, self.name, call.round, name)
        return str(self.folder) if what == "workspace" else self.name

    def _address(self, call: StepCall, name: str, result: Any) -> Any:
        """Put the messages of a step into envelopes, checked."""
        if call.verb == "keep":
            return result
        declared, by_receiver = declared_message(call.step)
        messages = result if by_receiver else dict.fromkeys(call.receivers, result)
        if set(messages) != set(call.receivers):
            raise InvalidInput(
                f"step {name!r} must return one message for each of {', '.join(call.receivers)}; "
                f"got messages for {', '.join(map(str, messages)) or 'nobody'}."
            )
        envelopes = {}
        for receiver in call.receivers:
            message = messages[receiver]
            envelope = Outgoing(
                message, self.name, receiver, name, call.run_id, call.round, call.axes
            )
            if isinstance(message, Message) and type(message) is not declared:
                raise EgressRefused(
                    f"party {self.name!r} tried to send {type(message).__name__}; step {name!r} "
                    f"declares {declared.__name__}. Nothing was sent."
                )
            self.check(envelope)
            envelopes[receiver] = envelope
        return envelopes[call.receivers[0]] if call.verb == "send" else envelopes

    def check_open(self) -> None:
        """Raise what this party refused before in this run, if anything."""
        if self.refusal is not None:
            raise type(self.refusal)(str(self.refusal))

    def unrecorded(self, error: OSError) -> LedgerError:
        """Return what to say of messages that could not be written down."""
        # Where a site keeps its files is its own matter; the run's folder is the driver's.
        own = self.options.folder is not None
        file = f"{self.ledger.path.name} of its workspace" if own else f"{self.ledger.path}"
        return LedgerError(
            f"party {self.name!r} cannot write its ledger {file} ({reason(error)}), and nothing "
            "leaves it unrecorded. Free space there or restore the folder, and resume the run."
        )

    def check(self, envelope: Outgoing) -> None:
        """Hold a message against its class, the run and the route.

        Raises
        ------
        EgressRefused
            When it may not be sent.
        ClusterError
            When it is of another run.
        """
        message = envelope.message
        check_message(message, envelope.axes, party=self.name)
        kind = type(message).__name__
        self._check_run(kind, envelope.run_id)  # a run that broke off may still be asking
        if envelope.sender != self.name:
            raise EgressRefused(
                f"party {self.name!r} was asked for {kind} of party {envelope.sender!r}. "
                "Nothing was sent."
            )
        assert self.run is not None
        if message.protection == "raw" and not self.run.allow_raw:
            raise EgressRefused(
                f"party {self.name!r} tried to send {kind}, which is raw data. Nothing was sent; "
                "only a federation opened with allow_raw=True lets it pass."
            )
        route = f"{_role(self.name)} → {_role(envelope.receiver)}"
        if route not in routes_of(type(message)):
            raise EgressRefused(
                f"party {self.name!r} tried to send {kind} to {envelope.receiver!r} "
                f"({route}); its routes are {', '.join(routes_of(type(message)))}. "
                "Nothing was sent."
            )


class LogFile(logging.FileHandler):
    """A log that is left out where it cannot be written: no step fails for it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        with contextlib.suppress(OSError):  # of opening the file
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing of a disk on the terminal."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # of the rest that the disk did not take before
            super().close()


_LOGGERS = (
    "asyncio",
    "daskfc",
    "distributed",
    "distributed.client",
    "distributed.gc",
    "py.warnings",
    "tornado",
    "tornado.application",
)

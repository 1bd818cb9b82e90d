"""A scheduler and its parties, one host each, that the driver starts by SSH and ends again."""

import asyncio
import contextlib
import importlib
import os
import shlex
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from daskfc.deploy.config.config import SCHEDULER, SshHost, SshStart, holds_data
from daskfc.deploy.config.dask_insides import LoopRunner, get_address_host_port
from daskfc.deploy.processes.beside import tls_options
from daskfc.errors import ClusterError, InvalidInput

_CONNECT_S = 30.0  # for one login
_SCHEDULER_S = 5.0  # for a scheduler to end
_PARTIES_S = 20.0  # for parties to end after their scheduler
_LINES = 20  # of a side's output that are kept
_CTRL_C = "\x03"


def command_of(name: str, host: SshHost, scheduler: str) -> str:
    """Return the shell command, without secrets, that starts a party or "scheduler" at a host."""
    if name == SCHEDULER:
        listens, port = get_address_host_port(scheduler, strict=True)
        words = ["scheduler", "--host", listens, "--port", str(port)]
    else:
        words = ["party", name, "--scheduler", scheduler, "--wait", "10m"]
        words += ["--memory-limit", str(host.memory_limit)]
        words += [] if host.device == "auto" else ["--device", host.device]
        for option in ("store", "workspace", "keep", "policy"):
            if (value := getattr(host, option)) is not None:
                words += [f"--{option}", str(value)]
    if (files := host.security) is not None:
        words += tls_options(files.ca, files.cert, files.key)
    # exec leaves no process of the shell: signals of the terminal reach daskfc.
    command = f"umask 077; exec {shlex.join([host.python, '-m', 'daskfc', *words])}"
    if holds_data(name) and host.store is None:
        command += f' --store "${{DASKFC_STORE:?the store of {name}}}"'
    return command


@dataclass
class _Side:
    """A process at one host, and its last lines of output."""

    name: str
    host: SshHost
    connection: Any = None
    process: Any = None
    reading: "asyncio.Task[None] | None" = None
    told: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES))
    ended: bool = False

    @property
    def where(self) -> str:
        return f"{self.name!r} at {self.host.host}"

    async def read(self) -> None:
        """Keep the last lines of its terminal until it ends, or its connection does."""
        try:
            async for line in self.process.stdout:
                if words := line.strip():
                    self.told.append(words)
            await self.process.wait_closed()
        finally:
            self.ended = True


class SshParties:
    """Processes at other machines that end with this one's connections.

    Each has a terminal of its own, which its host hangs up when the connection ends.
    """

    def __init__(self, start: SshStart, scheduler: str) -> None:
        self._ssh = _asyncssh()
        self._start_with, self._scheduler = start, scheduler
        self._sides = {name: _Side(name, host) for name, host in start.hosts.items()}
        self._starting: list[asyncio.Future[None]] = []
        self._options = _options(self._ssh, start)
        self._runner = LoopRunner(asynchronous=False)
        self._runner.start()
        try:
            self._runner.run_sync(self._start)
        except BaseException:
            self.close()
            raise

    async def _start(self) -> None:
        sides = self._sides.values()
        self._starting = [asyncio.ensure_future(self._begin(side)) for side in sides]
        await asyncio.wait(self._starting)
        failures = [one.exception() for one in self._starting]  # unasked, they are logged
        for failure in filter(None, failures):
            raise failure

    async def _begin(self, side: _Side) -> None:
        host = side.host
        options = self._options if host.user is None else {**self._options, "username": host.user}
        failure = None
        try:
            side.connection = await self._ssh.connect(host.host, host.port, **options)
            side.process = await side.connection.create_process(
                command_of(side.name, host, self._scheduler),
                term_type="dumb",  # a terminal, which is hung up when the connection ends
                encoding="utf-8",
                errors="replace",
            )
        except (OSError, TimeoutError, self._ssh.Error) as error:
            failure = type(error).__name__
        if failure is not None:
            raise ClusterError(
                f"{side.where}, port {host.port}, cannot be logged in to by SSH ({failure}). Try "
                "ssh with the same user, key and known_hosts, and correct 'hosts' in the "
                "cluster's file."
            )
        side.reading = asyncio.ensure_future(side.read())

    def check(self) -> None:
        """Raise ClusterError with the last line of output when a side has ended."""
        for side in self._sides.values():
            if side.ended:
                last = side.told[-1] if side.told else "it told nothing"
                raise ClusterError(f"{side.where} has ended: {last}")

    def close(self) -> None:
        """Stop all sides and leave their hosts; safe to call again."""
        if self._runner.is_started():
            try:
                self._runner.run_sync(self._stop)
            finally:
                self._runner.stop()

    async def _stop(self) -> None:
        """End the scheduler, then parties, and hang up."""
        for one in self._starting:  # where Ctrl-C came meanwhile
            one.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        scheduler = self._sides[SCHEDULER]
        parties = [side for side in self._sides.values() if side is not scheduler]
        await _stopped([scheduler], _SCHEDULER_S)
        await _stopped(parties, _PARTIES_S)
        connections = [side.connection for side in self._sides.values() if side.connection]
        for connection in connections:
            connection.close()
        closing = [connection.wait_closed() for connection in connections]
        await asyncio.gather(*closing, return_exceptions=True)
        reading = [side.reading for side in self._sides.values() if side.reading]
        await asyncio.gather(*reading, return_exceptions=True)


async def _stopped(sides: list[_Side], limit: float) -> None:
    """Send Ctrl-C to terminals (for root, OpenSSH ignores signals), and wait until they end."""
    reading = [side.reading for side in sides if side.reading is not None]
    for side in sides:
        if side.process is not None and not side.ended:
            with contextlib.suppress(OSError):
                side.process.stdin.write(_CTRL_C)
    if reading:
        await asyncio.wait(reading, timeout=limit)


def _asyncssh() -> Any:
    try:
        return importlib.import_module("asyncssh")
    except ImportError as error:
        name = type(error).__name__
    raise InvalidInput(
        f"a cluster's file with 'cluster: ssh' needs asyncssh, which cannot be imported ({name}). "
        "Install it with: pip install 'daskfc[ssh]'."
    )


def _options(ssh: Any, start: SshStart) -> dict[str, Any]:
    """Return the options of every login; the files that it needs are checked first."""
    for key, path in (("known_hosts", start.known_hosts), ("client_key", start.client_key)):
        if path is not None and not os.path.isfile(path):
            raise InvalidInput(
                f"the key {key!r} of the cluster's file must be a file of this machine; there is "
                f"none at {path}. Correct the path."
            )
    options: dict[str, Any] = {
        "known_hosts": start.known_hosts,
        "config": None,  # what the cluster's file says, and nothing else
        "keepalive_interval": start.keepalive,
        "connect_timeout": _CONNECT_S,
    }
    if start.client_key is not None:
        try:
            options["client_keys"] = [ssh.read_private_key(start.client_key)]
        except (OSError, ValueError) as error:
            name = type(error).__name__
        else:
            return options
        raise InvalidInput(
            f"the SSH key {start.client_key} cannot be used ({name}). Give the file of a private "
            "key without a passphrase, or no 'client_key' and the key to an agent."
        )
    return options

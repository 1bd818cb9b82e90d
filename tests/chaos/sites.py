"""Faults of sites that run already: whole parties and the scheduler, each with its processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil

from tests.chaos.cases import DEADLINE, LONG_DEADLINE, PATIENCE, Run, environment
from tests.chaos.faults import Fault, fill, small_disk
from tests.chaos.judge import (
    LATER,
    Row,
    Wrong,
    check_left_behind,
    check_run,
    check_spent,
    check_workspaces,
    follow,
    spent_at,
)
from tests.chaos.proxy import Relay
from tests.deploy.test_sites import POLICY, cluster_of
from tests.ports import free_ports

STARTUP = "30s"  # in which a driver finds parties that are there
HELD = 20  # seconds for which a scheduler stands still
# Nobody spends as much: it is there to be counted.
_BUDGET = "budget: {epsilon: 1.0e+9, delta: 1.0e-5}\n"


class Consortium:
    """A scheduler and a case's parties, which can be started again in their places.

    Parameters
    ----------
    case : Case
        Whose stores.
    folder : pathlib.Path
        Of this consortium alone.
    relayed : str, optional
        A party whose connections with the scheduler, and those of others to it, can be cut.
    """

    def __init__(self, case, folder, relayed=None):
        self.case, self.folder, self.relayed = case, folder, relayed
        self.temporary = folder / "t"
        self.temporary.mkdir(exist_ok=True)
        self.policy = folder / "site.yaml"
        self.policy.write_text(POLICY + _BUDGET)
        self.port, *self._own = free_ports(4)
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.relay = None
        self.processes, self.logs = {}, {}
        if relayed is not None:
            through, worker, nanny = self._own
            self.relay = Relay({
                ("127.0.0.3", through): ("127.0.0.1", self.port),
                **{("127.0.0.3", port): ("127.0.0.2", port) for port in (worker, nanny)},
            })  # fmt: skip
        for name in self.names:
            self.start(name)
        for name in self.names[1:]:
            self.wait_for(name)

    @property
    def names(self):
        return ("scheduler", *self.case.clients, "server")

    def _words(self, name):
        if name == "scheduler":
            return ("scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        workspace = self.folder / f"{name}-files"
        words = ["party", name, "--policy", str(self.policy), "--workspace", str(workspace)]
        if name in self.case.urls:
            words += ["--store", self.case.urls[name]]
        if name in self.case.limits:  # a method whose server takes no part foresees none for it
            words += ["--memory-limit", str(self.case.limits[name]["memory_limit"])]
        address = self.address
        if name == self.relayed:
            through, worker, nanny = map(str, self._own)
            address = f"tcp://127.0.0.3:{through}"
            words += ["--host", "127.0.0.2", "--port", worker, "--nanny-port", nanny]
            words += ["--contact-address", "127.0.0.3"]
        return (*words, "--scheduler", address, "--wait", "60s")

    def start(self, name):
        self.logs[name] = self.folder / f"{name}-{time.monotonic_ns()}.log"
        with self.logs[name].open("w") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "daskfc", *self._words(name)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=environment(self.temporary),
            )  # fmt: skip

    def wait_for(self, name):
        """Wait until a party has joined its scheduler."""
        ends = time.monotonic() + PATIENCE
        while "joined" not in self.logs[name].read_text():
            if self.processes[name].poll() is not None or time.monotonic() > ends:
                raise Wrong(f"{name} does not start: {self.logs[name].read_text()[-300:]}")
            time.sleep(0.05)

    def all_of(self, name):
        """Return a side's processes: of a party its nanny, its worker, and what these need."""
        with contextlib.suppress(psutil.NoSuchProcess):
            first = psutil.Process(self.processes[name].pid)
            return [first, *first.children(recursive=True)]
        return []

    def signal(self, name, number):
        for process in self.all_of(name):
            with contextlib.suppress(psutil.NoSuchProcess):
                os.kill(process.pid, number)

    def start_what_is_gone(self):
        """Start every side that has ended, as its site would; the others end with a scheduler."""
        if self.processes["scheduler"].poll() is not None:
            self.start("scheduler")
            for name in self.names[1:]:
                self.ended(name)
        again = [name for name in self.names if self.processes[name].poll() is not None]
        for name in again:
            self.start(name)
        for name in again:
            self.wait_for(name)

    def ended(self, name):
        """Wait until a side has ended by itself."""
        try:
            self.processes[name].wait(60)
        except subprocess.TimeoutExpired:
            raise Wrong(f"{name} does not end with its scheduler") from None

    def end(self):
        """Ask all sides to end, and raise Wrong for those that do not."""
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        slow = []
        for name, process in self.processes.items():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                slow.append(name)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if self.relay is not None:
            self.relay.end()
            self.relay = None  # this may be asked again
        if slow:
            raise Wrong(f"does not end by SIGTERM: {', '.join(slow)}")


class _OfSide(Fault):
    relays = False  # whether the party's connections can be cut
    needs_workspace = False  # whether the party's workspace is a small disk of its own
    deadline = DEADLINE
    consortium = None

    def repair(self):
        self.consortium.start_what_is_gone()


class KillNanny(_OfSide):
    """The process that started a party's worker is killed; the worker ends with it."""

    def strike(self):
        self.consortium.processes[self.party].kill()


class KillSite(_OfSide):
    """All processes of a party are killed, as when its machine loses power."""

    def strike(self):
        self.consortium.signal(self.party, signal.SIGKILL)


class EndSite(_OfSide):
    """A party is asked to end."""

    def strike(self):
        self.consortium.processes[self.party].terminate()


class ClientGone(KillSite):
    """A party is killed and does not come back for long: a resume meanwhile is refused."""

    def repair(self):
        self.run.resume()
        code = self.run.wait()
        if code != LATER or f"party {self.party!r} is not at" not in self.run.sentence():
            raise Wrong(f"a resume without {self.party} ends with {code}: {self.run.sentence()}")
        super().repair()


class SilentSite(_OfSide):
    """All processes of a party stand still for longer than the deadline."""

    def strike(self):
        stopped = self.consortium.all_of(self.party)
        self.consortium.signal(self.party, signal.SIGSTOP)
        time.sleep(DEADLINE + 5)
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


class NetworkCut(_OfSide):
    """The network between a party and the others is cut for 20 s, then whole again."""

    relays = True

    def strike(self):
        self.consortium.relay.cut()
        time.sleep(HELD)
        self.consortium.relay.mend()


class KillScheduler(_OfSide):
    """The scheduler is killed."""

    party = "scheduler"

    def strike(self):
        self.consortium.processes["scheduler"].kill()


class HoldScheduler(KillScheduler):
    """The scheduler stands still for 20 s."""

    def strike(self):
        self.consortium.signal("scheduler", signal.SIGSTOP)
        time.sleep(HELD)
        self.consortium.signal("scheduler", signal.SIGCONT)


class StopScheduler(KillScheduler):
    """The scheduler stands still for good, until who runs it kills it and starts it again."""

    def strike(self):
        self.consortium.signal("scheduler", signal.SIGSTOP)

    def repair(self):
        self.consortium.signal("scheduler", signal.SIGKILL)
        self.consortium.processes["scheduler"].wait()
        super().repair()


class FullWorkspace(_OfSide):
    """The disk of a party's workspace fills up."""

    needs_workspace = True

    def strike(self):
        self.filler = self.consortium.folder / f"{self.party}-files" / "filler"
        fill(self.filler)

    def repair(self):
        self.filler.unlink(missing_ok=True)
        super().repair()


class TwoDrivers(_OfSide):
    """A second driver begins while the first computes."""

    deadline = LONG_DEADLINE
    party = "all"

    def strike(self):
        first = self.run
        first.process.send_signal(signal.SIGSTOP)  # or it might end before the other has begun
        cluster = cluster_of(self.consortium.address, startup=STARTUP, deadline=LONG_DEADLINE)
        second = Run(first.case, first.place / "2", cluster=cluster)
        code = second.wait()
        first.process.send_signal(signal.SIGCONT)
        if code and (code != LATER or "of another driver" not in second.sentence()):
            raise Wrong(f"the second driver ends with {code}: {second.sentence()}")
        self.second = second

    def check(self):
        second = self.second
        if second.process.returncode == 0:  # the first had let go of the parties before
            if self.told:
                raise Wrong(f"the second driver took the parties: {self.told[0]}")
            return
        again = second.resume if (second.folder / "run.json").exists() else second.start_again
        again()
        if code := second.wait():
            raise Wrong(f"the second driver, later, ends with {code}: {second.sentence()}")
        check_run(second, "done")


FAULTS = [
    KillNanny, KillSite, EndSite, ClientGone, SilentSite, NetworkCut, KillScheduler, HoldScheduler,
    StopScheduler, FullWorkspace, TwoDrivers,
]  # fmt: skip


def play(kind, number, case, place, rng):
    """Let one fault strike one run of sites."""
    row = Row(number, kind.__name__, kind.party, case.method)
    party = str(rng.choice([*case.clients, "server"]))
    digest = case.digest()
    consortium = None
    with contextlib.ExitStack() as stack:
        if kind.needs_workspace:
            mounted = stack.enter_context(small_disk(place / f"{party}-files"))
            if mounted is None:
                row.outcome, row.said = "skipped", "mounting is not allowed"
                return row
        fault = kind(None, rng)
        fault.party = row.party = party if fault.party == "-" else fault.party
        try:
            consortium = Consortium(case, place, party if kind.relays else None)
            cluster = cluster_of(consortium.address, startup=STARTUP, deadline=kind.deadline)
            run = Run(case, place, cluster=cluster)
            fault.run, fault.consortium = run, consortium
            in_time = run.wait_until_fitting(after=float(rng.uniform(0, case.seconds / 2)))
            before = spent_at(place)
            fault.strike()
            row.party = fault.party
            row.outcome = follow(fault, run)
            if not in_time:
                row.outcome = "too late"
            check_spent(before, spent_at(place))
            fault.check()
            check_run(run, row.outcome, digest=digest)
            consortium.end()
            # A server that was away in the last moment has not heard of the end.
            heard = row.outcome in ("done", "resumed") and row.party != "server"
            check_workspaces(place, done=heard)
            check_left_behind(place, swept=True)
        except Wrong as wrong:
            row.outcome, row.bad = "BAD", str(wrong)
            if consortium is not None:
                with contextlib.suppress(Wrong):
                    consortium.end()
        if fault.run is not None:
            row.said = " | ".join(fault.told) or fault.run.sentence()
        row.seconds = fault.seconds
    return row

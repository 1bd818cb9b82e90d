"""Faults of sites that run already: whole parties and the scheduler, each with its processes."""

import contextlib
import os
import signal
import time

import numpy as np
import psutil

from tests.chaos.cases import DEADLINE, Run, labels_of
from tests.deploy.test_sites import Site, cluster_of
from tests.test_three_sites import free_port


class Consortium:
    """A scheduler and a case's parties, which can be started again in their places."""

    def __init__(self, case, folder):
        self.case = case
        self.site = Site(folder)
        self.port = free_port()
        self.processes = {}
        self.start("scheduler")
        self.address = f"tcp://127.0.0.1:{self.port}"
        for name in (*case.clients, "server"):
            self.start(name)

    def start(self, name):
        if name == "scheduler":
            words = ("-m", "daskfc", "scheduler", "--host", "127.0.0.1", "--port", self.port)
            self.processes[name] = self.site.start(*words)
            return
        own = {"store": self.case.urls[name]} if name in self.case.urls else {}
        own["workspace"] = str(self.site.folder / f"{name}-files")
        self.processes[name] = self.site.party(name, self.address, wait=60.0, **own)

    def all_of(self, name):
        """Return a side's processes: of a party its nanny, its worker, and what these need."""
        first = psutil.Process(self.processes[name].pid)
        return [first, *first.children(recursive=True)]

    def signal(self, name, number):
        for process in self.all_of(name):
            with contextlib.suppress(psutil.NoSuchProcess):
                os.kill(process.pid, number)

    def start_what_is_gone(self):
        """Start every side that has ended, as its site would; the others end with a scheduler."""
        if self.processes["scheduler"].poll() is not None:
            self.start("scheduler")
            for name in (*self.case.clients, "server"):
                self.processes[name].wait(60)
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                self.start(name)


class _OfSide:
    def __init__(self, consortium, rng):
        self.consortium = consortium
        self.party = str(rng.choice([*consortium.case.clients, "server"]))

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


class SilentSite(_OfSide):
    """A party says nothing for longer than the deadline, as when its network is cut."""

    def strike(self):
        stopped = self.consortium.all_of(self.party)
        self.consortium.signal(self.party, signal.SIGSTOP)
        time.sleep(DEADLINE + 5)
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


class KillScheduler(_OfSide):
    """The scheduler is killed."""

    def __init__(self, consortium, rng):
        super().__init__(consortium, rng)
        self.party = "scheduler"

    def strike(self):
        self.consortium.processes["scheduler"].kill()


FAULTS = [KillNanny, KillSite, EndSite, SilentSite, KillScheduler]


def outcome(kind, case, folder, rng):
    """Return whom it struck, outcome, seconds, whether it was resumed, same labels, what is bad."""
    consortium = Consortium(case, folder)
    try:
        cluster = cluster_of(consortium.address, startup="200s", deadline=DEADLINE)
        run = Run(case, folder / "driver", cluster=cluster)
        fault = kind(consortium, rng)
        if not run.wait_until_fitting(after=float(rng.uniform(0, case.seconds / 2))):
            fault.party = "too late"
        began = time.monotonic()
        fault.strike()
        code, bad, resumed = run.wait(), "", "-"
        seconds = time.monotonic() - began
        said = "done" if code == 0 else (run.said().splitlines() or [""])[-1]
        if code is None:
            return fault.party, "hangs", seconds, "-", "-", "hang"
        if code:
            if "Resume with" not in said:
                bad = "no way to go on"
            fault.repair()
            run.resume()
            code = run.wait()
            resumed = "hangs" if code is None else "yes" if code == 0 else "refused"
            bad = bad or ("" if code == 0 else "resume fails")
        same = code == 0 and np.array_equal(labels_of(run.folder), case.labels)
        bad = bad or ("" if same else "wrong labels")
        return fault.party, said, seconds, resumed, "yes" if same else "NO", bad
    finally:
        consortium.site.end()

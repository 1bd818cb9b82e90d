"""A SLURM cluster of two nodes on this machine: munged, slurmctld and two slurmd of a test's own.

Nothing of an installed cluster is read or written, and nobody needs to be root.
"""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.ports import free_ports

__all__ = ["NEEDED", "Slurm", "until", "why_not"]

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch")
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")
_CONF = """\
ClusterName=daskfc
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
CryptoType=crypto/munge
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=50000,sched_interval=1,batch_sched_delay=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobcomp.txt
KillWait=10
MinJobAge=300
SlurmctldTimeout=30
SlurmdTimeout=30
InactiveLimit=0
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=16 RealMemory=32000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=16 RealMemory=32000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def _program(name):
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *_SBIN]))


def why_not(*programs):
    """Return which programs are missing, as the reason of a skip; nothing when all are there."""
    missing = [name for name in programs if _program(name) is None]
    return f"docs/deploy says what to install: {', '.join(missing)} not there" if missing else ""


def until(true, what, limit=120.0):
    """Wait until something is true; what does not become so in time is a failure."""
    ends = time.monotonic() + limit
    while not (found := true()):
        assert time.monotonic() < ends, f"not within {limit:g} s: {what()}"
        time.sleep(0.05)
    return found


class Slurm:
    """The daemons of a cluster, as children, in a folder of their own; a context manager."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a socket's path has 107 letters
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self._running = []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        for name in ("munge", "state", "spool", "log"):
            (self.folder / name).mkdir(mode=0o700)
        munge = self.folder / "munge"
        key = munge / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        ctld, n1, n2 = free_ports(3)
        host = socket.gethostname().partition(".")[0]
        text = _CONF.format(
            folder=self.folder, host=host, user=getpass.getuser(), ctld=ctld, n1=n1, n2=n2
        )
        (self.folder / "slurm.conf").write_text(text)
        files = {"key": key, "socket": munge / "sock", "pid": munge / "pid"}
        files |= {"log": munge / "log", "seed": munge / "seed"}
        options = [
            f"--{name}{'' if name == 'socket' else '-file'}={path}" for name, path in files.items()
        ]
        self._child("munged", "-F", "--force", *options)
        until((munge / "sock").exists, self.told)
        self._child("slurmctld", "-D")
        for node in ("n1", "n2"):
            self._child("slurmd", "-D", "-N", node)
        until(lambda: self.asks("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2", self.told)

    def _child(self, program, *words):
        with (self.folder / "log" / f"{program}-{len(self._running)}.out").open("w") as out:
            process = subprocess.Popen(
                [_program(program), *words],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self._running.append(process)

    def asks(self, *words):
        done = subprocess.run(
            words,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def told(self):
        """Return what the daemons wrote last."""
        logs = sorted((self.folder / "log").glob("*"))
        return "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in logs)

    def jobs(self, *options):
        """Return the names of jobs that have not ended."""
        return self.asks("squeue", "-h", "-o", "%j", *options).split()

    def __exit__(self, *_):
        try:
            if len(self._running) == 4:
                self.asks("scancel", "--user", getpass.getuser())
                until(lambda: not self.jobs(), lambda: f"jobs end: {self.jobs()}", limit=60)
        finally:
            for process in reversed(self._running):
                process.terminate()
            for process in self._running:
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            shutil.rmtree(self.folder)

"""Many parties in one process, to see what a scheduler and a driver bear.

    python -m tests.benchmarks.light_parties SCHEDULER_FILE FOLDER NAME...

Each party is a `PartyWorker` with a gate, a guard, a ledger and a secret of its own, which holds
what comes in against the list; only its process is shared with the others of this one. So a site
would never run it: parties here could read one another's memory.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import dask.config
from distributed.core import Status

from daskfc.deploy.config.settings import PIN, dask_settings, quiet_logs
from daskfc.federation.messages.declaration import role_of
from daskfc.federation.party.options import PartyOptions
from daskfc.federation.worker.guard import PartyWorker
from daskfc.federation.worker.ingress import restrict_process
from daskfc.federation.worker.nanny import PartyNanny
from daskfc.site import Policy
from daskfc.stores import write_store

POLICY = "packages: [tests]\n"


class _Within:
    """What a nanny takes for its worker's process."""

    def __init__(self, worker):
        self.worker, self.worker_kwargs = worker, {}
        self.worker_address, self.worker_dir = worker.address, worker.local_directory
        self.pid, self.status = os.getpid(), Status.running

    def is_alive(self):
        return True

    async def kill(self, **_):
        await self.worker.close(nanny=False)


class LightNanny(PartyNanny):
    """A nanny whose worker runs in its own process."""

    async def instantiate(self):
        worker = await PartyWorker(
            self.scheduler_addr,
            party=self._party,
            nanny=self.address,
            nthreads=1,
            memory_limit=None,
            resources=self.resources,
            **self.worker_kwargs_of(),
        )
        self.process = _Within(worker)
        return Status.running

    def worker_kwargs_of(self):
        return {
            "local_directory": self._party.scratch,
            "host": "127.0.0.1",
            "dashboard": False,
            "dashboard_address": "127.0.0.1:0",
        }


async def serve(address, folder, names):
    policy = folder / "policy.yaml"
    nannies = []
    for name in names:
        own = folder / name
        (own / "scratch").mkdir(parents=True)
        store = None
        if role_of(name) == "client":
            store = str(own / "store.zarr")
            write_store(store, name, [[0.0, 0.0, 0.0]] * 20, [f"{name}.{j}" for j in range(20)])
        party = PartyOptions(
            name=name,
            role=role_of(name),
            scratch=str(own / "scratch"),
            folder=str(own),
            store=store,
            policy=Policy.load(policy),
        )
        nannies.append(
            LightNanny(
                address,
                party=party,
                resources={name: PIN},
                nthreads=1,
                memory_limit=None,
                host="127.0.0.1",
                local_directory=party.scratch,
                quiet=True,
            )
        )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    for nanny in nannies:  # one after the other: each registers and says so
        await nanny
    await stopped.wait()
    await asyncio.gather(*(nanny.close(timeout=2) for nanny in nannies))


def main():
    file, folder, *names = sys.argv[1:]
    restrict_process()
    with quiet_logs(), dask.config.set(dask_settings({})):
        asyncio.run(serve(json.loads(Path(file).read_text())["address"], Path(folder), names))


if __name__ == "__main__":
    main()

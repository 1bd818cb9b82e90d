"""A local cluster: a scheduler in this process, and one worker process per party."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import dask.config
from distributed import Scheduler

from daskfc.deploy.config.config import LocalCluster
from daskfc.deploy.config.dashboard import dashboard_options, dashboard_settings
from daskfc.deploy.config.dask_insides import LoopRunner
from daskfc.deploy.config.settings import PIN, dask_settings, quiet_logs
from daskfc.deploy.connections.extensions import scheduler_extensions
from daskfc.deploy.connections.stopping import close_scheduler
from daskfc.deploy.processes.scratch import own_folder
from daskfc.deploy.processes.site import raise_reason
from daskfc.deploy.processes.spawn import prepare_forkserver
from daskfc.errors import ClusterError

_HOST = "127.0.0.1"  # nothing of a local cluster may listen on the network


class LocalParties:
    """The processes of a local federation, all stopped again if one is not there in time.

    `nanny_class` starts and restarts one party's worker, and gets as ``party`` its entry of
    `parties`; it is an argument since `daskfc.federation` lies above this package.
    """

    def __init__(
        self, config: LocalCluster, parties: Mapping[str, Any], nanny_class: type[Any]
    ) -> None:
        self.config = config
        self.address = ""
        self._parties = parties
        self._nanny_class = nanny_class
        self._settings = dask_settings(config.dask)
        pages = dashboard_settings(config.dashboard)
        self._nannies: dict[str, Any] = {}
        self._scheduler: Any = None
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(quiet_logs())
        self._stack.enter_context(dask.config.set({**self._settings, **pages}))
        prepare_forkserver()
        self._runner = LoopRunner(asynchronous=False)
        self._runner.start()
        self.loop = self._runner.loop
        try:
            self._runner.run_sync(self._start)
        except BaseException:
            self.close()
            raise

    async def _start(self) -> None:
        self._scheduler = await Scheduler(
            host=_HOST,
            port=0,
            protocol="tcp",
            extensions=scheduler_extensions(),
            **dashboard_options(self.config.dashboard),
            local_directory=str(own_folder()),
        )
        self.address = self._scheduler.address
        for name, party in self._parties.items():
            limits = self.config.limits(name)
            self._nannies[name] = self._nanny_class(
                self.address,
                party=party,
                host=_HOST,
                nthreads=limits.nthreads,
                memory_limit=limits.memory_limit,
                resources={name: PIN},
                local_directory=party.scratch,
                dashboard=False,
                dashboard_address=f"{_HOST}:0",
                config=self._settings,
                quiet=True,
            )
        starting = {
            asyncio.ensure_future(_awaited(nanny)): name for name, nanny in self._nannies.items()
        }
        done, late = await asyncio.wait(starting, timeout=self.config.startup)
        for task in late:
            task.cancel()
        errors = {task: task.exception() for task in done}
        failed = [starting[task] for task in [*done, *late] if task in late or errors[task]]
        for error in filter(None, errors.values()):
            raise_reason(error)
        if failed:
            names = ", ".join(sorted(failed))
            raise ClusterError(
                f"the worker processes of {names} were not there after {self.config.startup:g} s. "
                "Look whether memory is free, or raise 'startup' in the cluster's file."
            )

    def pid(self, party: str) -> int | None:
        """Return the process id of a party's worker, or None while it has none."""
        pid: int | None = self._nannies[party].pid
        return pid

    def forget(self, party: str) -> None:
        """Stop one party for good, as a site that leaves; for tests and demonstrations."""
        self._runner.run_sync(self._nannies[party].close, timeout=1)

    def close(self) -> None:
        """Stop all processes; safe to call again."""
        if self._runner.is_started():
            try:
                self._runner.run_sync(self._stop)
            finally:
                self._runner.stop()
        self._stack.close()

    async def _stop(self) -> None:
        closing = [
            nanny.close(timeout=1.5, reason="federation-close") for nanny in self._nannies.values()
        ]
        await asyncio.gather(*closing, return_exceptions=True)
        if self._scheduler is not None:
            await close_scheduler(self._scheduler, "federation-close")


async def _awaited(nanny: Any) -> Any:
    return await nanny

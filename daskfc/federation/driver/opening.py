"""Opening a federation: its parties are started here, or found on a running scheduler."""

import os
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from distributed import Client

from daskfc.coding.residues.streams import SecretKey
from daskfc.deploy import ExistingCluster, LocalCluster, LocalParties, load_cluster
from daskfc.deploy.config.config import SecurityFiles, TrustedStart
from daskfc.deploy.config.settings import quiet_logs
from daskfc.deploy.connections.connection import close_client, connect_client
from daskfc.deploy.connections.reaching import address_in
from daskfc.deploy.processes.given_cluster import cluster_given, is_given
from daskfc.deploy.processes.scratch import scratch_folder
from daskfc.deploy.processes.ssh import SshParties
from daskfc.deploy.processes.trusted import TrustedParties
from daskfc.errors import ClusterError, InvalidInput
from daskfc.federation.driver.contract import Contract, store_summary
from daskfc.federation.driver.roll_call import RollCall
from daskfc.federation.identity.versions import check_party_versions, check_scheduler_versions
from daskfc.federation.messages.declaration import SERVER, role_of, server_workers
from daskfc.federation.messages.envelopes import Here
from daskfc.federation.party.options import PartyOptions, check_party_name
from daskfc.federation.worker.nanny import PartyNanny
from daskfc.stores import ClientStore, load_storage
from daskfc.stores.building.dealt import write_dealt

_OF_COLUMNS = ("categorical", "dates", "missing", "words")  # of a table of new samples too
_BESIDE_S = 300.0  # for parties beside plain workers to start, as with SSH


@dataclass(frozen=True)
class Opened:
    """What a federation is opened with: its connection, clients in the order of results, limits.

    `deadline` is in seconds, `limits` in bytes per party; `driver_key` is that of parties started
    here, `trusted` says what is not protected beside plain workers; `folder` has the stores of data
    at hand, and `columns` says how these are read.
    """

    dask_client: Client
    clients: tuple[str, ...]
    deadline: float
    limits: Mapping[str, int | None]
    closing: ExitStack
    contract: Contract | None = None
    processes: LocalParties | None = None
    server_workers: tuple[str, ...] = ()
    driver_key: SecretKey | None = None
    security: SecurityFiles | None = None
    trusted: str = ""
    folder: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)

    def new_stores(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Return URLs of stores of new samples; a simulation writes those of data at hand."""
        rest = {name: one for name, one in given.items() if not isinstance(one, str | os.PathLike)}
        if rest and not self.folder:
            name, one = next(iter(rest.items()))
            raise InvalidInput(
                f"new samples are given by the URL of a store, and as they are in a simulation "
                f"alone; got {type(one).__name__} of client {name!r}. Write them with "
                "daskfc.write_store."
            )
        folder = f"{self.folder}/new-{uuid.uuid4().hex}"
        written: dict[str, str] = {}
        for name, one in rest.items():
            written |= write_dealt(folder, {name: one}, **_of_table(self.columns, one))
        return {name: written.get(name) or os.fspath(one) for name, one in given.items()}


def _of_table(columns: Mapping[str, Any], table: Any) -> dict[str, Any]:
    """Return what is said of columns that a client's table has; it may have some of all."""
    there = set(getattr(table, "columns", ()))
    return {
        key: [name for name in said if name in there] if isinstance(said, list | tuple) else said
        for key, said in columns.items()
    }


def _is_urls(storage: Any) -> bool:
    return isinstance(storage, Mapping) and all(
        isinstance(value, str | os.PathLike) for value in storage.values()
    )


def _store_urls(storage: Any, root: str | None) -> dict[str, str]:
    if _is_urls(storage):
        return {str(name): os.fspath(url) for name, url in storage.items()}
    urls: dict[str, str] = load_storage(storage).ensure(root)
    return urls


def open_local(storage: Any, *, cluster: Any = None, root: str | None = None) -> Opened:
    """Start a worker process for the server and for each client of a storage file or of URLs."""
    config = load_cluster(cluster)
    if not isinstance(config, LocalCluster):
        raise InvalidInput("Federation.local needs a cluster file with 'cluster: local'.")
    urls = _store_urls(storage, root)
    if not urls:
        raise InvalidInput("a federation needs at least one client; the storage names none.")
    for name in urls:
        check_party_name(name)
    workers = server_workers(config.server.workers)
    unknown = sorted(set(config.parties) - {*urls, SERVER})
    if unknown:
        raise InvalidInput(
            f"the cluster's file sets limits of {', '.join(unknown)}, which the storage does not "
            f"name; its clients are {', '.join(urls)}. Correct the name."
        )
    memory = psutil.virtual_memory().total
    for name in (*urls, SERVER):
        if (limit := config.limits(name).memory_limit) > memory:
            raise InvalidInput(
                f"the memory limit of party {name!r} must be at most what this machine has, "
                f"{memory / 1e9:.1f} GB; got {limit / 1e9:g} GB. Lower memory_limit in the "
                "cluster's file."
            )
    opened = {name: ClientStore.open(url) for name, url in urls.items()}
    contract = Contract.of({name: store_summary(store) for name, store in opened.items()}, opened)
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        driver_key = SecretKey.from_os()
        Here.keys.add(driver_key)
        stack.callback(Here.keys.discard, driver_key)
        # clients compute beside each other, and so do the server's workers; both take turns
        busy = dict.fromkeys(urls, len(urls)) | dict.fromkeys((SERVER, *workers), 1 + len(workers))
        parties = {
            name: PartyOptions(
                name=name,
                role=role_of(name),
                scratch=str(scratch / name),
                store=urls.get(name),
                threads=config.limits(name).threads(busy[name]),
                device=config.limits(name).device,
                latency=config.latency,
                bandwidth=config.bandwidth,
                driver_key=driver_key,
            )
            for name in (*urls, SERVER, *workers)
        }
        for party in parties.values():
            Path(party.scratch).mkdir()
        processes = LocalParties(config, parties, PartyNanny)
        stack.callback(processes.close)
        dask_client = connect_client(processes.address, timeout=10, loop=processes.loop)
        stack.callback(close_client, dask_client)
        return Opened(
            dask_client,
            tuple(urls),
            deadline=config.deadline,
            limits={name: config.limits(name).memory_limit for name in parties},
            closing=stack.pop_all(),
            contract=contract,
            processes=processes,
            server_workers=workers,
            driver_key=driver_key,
        )


def open_simulation(data: Any, *, cluster: Any = None, **dealing: Any) -> Opened:
    """Start parties over data at hand, as `write_dealt` deals them to stores that go at the end."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="daskfc-simulation-"))
        opened = open_local(write_dealt(folder, data, **dealing), cluster=cluster)
        stack.callback(opened.closing.close)
        columns = {key: dealing[key] for key in _OF_COLUMNS if key in dealing}
        return replace(opened, closing=stack.pop_all(), folder=folder, columns=columns)


def open_existing(
    cluster: Any,
    *,
    clients: Sequence[str] | None = None,
    trusted: bool = False,
    stores: Mapping[str, str] | None = None,
    policies: Mapping[str, str] | None = None,
) -> Opened:
    """Join a running scheduler, starting it first by SSH where the cluster's file says so.

    `clients` are by default those that the file expects, never whoever is connected. With `trusted`
    whoever runs the plain workers, or may submit to them, can read what the parties hold.
    """
    given = cluster if is_given(cluster) else None
    config = load_cluster(cluster) if given is None else cluster_given(given, trusted=trusted)
    if not isinstance(config, ExistingCluster):
        raise InvalidInput("Federation.connect needs a cluster file with 'cluster: existing'.")
    if trusted or stores or policies:
        paths = [stores or {}, policies or {}]
        if not (trusted and stores and all(map(_is_urls, paths))):
            raise InvalidInput(
                "trusted=True goes with stores={client: path or URL}, and policies={client: path} "
                "where there are some: parties are then started beside the plain workers of a Dask "
                "cluster, and open these. Give both or neither."
            )
        keys = [{name: os.fspath(path) for name, path in one.items()} for one in paths]
        start = TrustedStart(stores=keys[0], policies=keys[1])
        config = config.model_copy(update={"trusted": start})
    names = who_takes_part(config, clients)
    with ExitStack() as stack:
        stack.enter_context(quiet_logs())
        if config.scheduler_file is not None:
            config = config.at(address_in(config.scheduler_file, wait=config.connect))
        assert config.scheduler is not None
        checks: list[Callable[[], None]] = []  # of processes that are started from here
        if config.ssh is not None:
            started = SshParties(config.ssh, config.scheduler)
            stack.callback(started.close)
            checks = [started.check]
        workers = server_workers(config.server.workers)
        parties, unprotected = (*names, SERVER, *workers), config.unprotected
        if config.trusted is not None:
            config = config.model_copy(update={"startup": config.startup or _BESIDE_S})
            beside = TrustedParties(config, parties, given)
            stack.callback(beside.close)
            checks = [beside.check]
            places = {"scheduler": beside.address, "security": beside.security}
            config = config.model_copy(update=places)
        assert config.scheduler is not None
        try:
            dask_client = connect_client(
                config.scheduler, timeout=config.connect, security=config.security
            )
        except ClusterError:
            for check in checks:
                check()  # raises the cause where it is known
            raise
        stack.callback(close_client, dask_client)
        roll_call = RollCall(dask_client)
        check_scheduler_versions(roll_call.scheduler_versions())
        found = _find_parties(roll_call, config, parties, checks)
        check_party_versions({name: found[name].get("versions", {}) for name in parties})
        return Opened(
            dask_client,
            names,
            deadline=config.deadline,
            limits={name: found[name]["memory_limit"] for name in parties},
            closing=stack.pop_all(),
            server_workers=workers,
            security=config.security,
            trusted=unprotected,
        )


def _in_order(names: set[str]) -> list[str]:
    """Return names in natural order: client-2 before client-10."""
    return sorted(
        names, key=lambda name: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)]
    )


def who_takes_part(config: ExistingCluster, clients: Sequence[str] | None) -> tuple[str, ...]:
    """Return the clients that the caller or the cluster's file names; the two may not differ."""
    named, expected = tuple(clients or ()), config.expect or ()
    if config.trusted is not None:
        expected = expected or tuple(config.trusted.stores)
        owners = config.trusted.stores
        if (
            sorted(expected) != sorted(owners)
            or not owners.keys() >= config.trusted.policies.keys()
        ):
            raise InvalidInput(
                f"{', '.join(expected)} are expected, stores are given of {', '.join(owners)}, and "
                f"policies of {', '.join(config.trusted.policies) or 'nobody'}. Give a store of "
                "each client, and policies of these alone."
            )
    for name in (*named, *expected):
        check_party_name(name)
    if not named and not expected:
        raise InvalidInput(
            f"nothing says which clients of {config.place} take part. Name them in a storage "
            "file (clients: [a, b]), in the cluster's file (expect: [a, b]), or by clients=."
        )
    if named and expected and sorted(named) != sorted(expected):
        raise InvalidInput(
            f"the cluster's file expects {', '.join(expected)}, and {', '.join(named)} were named "
            "to take part. Correct one of them."
        )
    return named or expected


def _find_parties(
    roll_call: RollCall,
    config: ExistingCluster,
    parties: Sequence[str],
    checks: Sequence[Callable[[], None]] = (),
) -> dict[str, dict[str, Any]]:
    waited = config.deadline if config.startup is None else config.startup
    ends = time.monotonic() + waited
    while True:
        for check in checks:
            check()
        answers = roll_call.ask("daskfc_describe")
        unguarded = [name for name, answer in answers.items() if answer is None]
        if unguarded:
            raise ClusterError(
                f"worker {', '.join(map(repr, _in_order(set(unguarded))))} of {config.scheduler} "
                "is a plain Dask worker without the guard. Stop it and start parties with "
                "'daskfc party', or, where whoever runs the cluster may read the data, have them "
                "started beside it by Federation.connect(..., trusted=True, stores=...)."
            )
        missing = [name for name in parties if name not in answers]
        if not missing:
            return answers
        if time.monotonic() >= ends:
            others = ", ".join(map(repr, _in_order(set(answers)))) or "nobody"
            served = all(role_of(name) != "client" for name in missing)
            store = "" if served else " --store URL (none for the server)"
            raise ClusterError(
                f"party {', '.join(map(repr, missing))} is not at {config.scheduler} after "
                f"{waited:g} s; there is {others}. Start it with 'daskfc party NAME{store} "
                f"--scheduler {config.scheduler}', or correct the names."
            )
        time.sleep(0.2)

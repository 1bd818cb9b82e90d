"""``daskfc party``: a site starts its own party and keeps its secret."""

import time
from contextlib import ExitStack
from pathlib import Path

from daskfc.checks import checked
from daskfc.deploy.certificates.issued import Issued
from daskfc.deploy.config.config import SecurityFiles, WorkerLimits, needs_certificates
from daskfc.deploy.config.peers import is_loopback
from daskfc.deploy.config.settings import quiet_logs
from daskfc.deploy.connections.descriptors import allow_many_descriptors
from daskfc.deploy.connections.metrics_page import check_metrics
from daskfc.deploy.connections.reaching import address_in
from daskfc.deploy.processes.scratch import scratch_folder
from daskfc.deploy.processes.site import Doors, run_party
from daskfc.errors import InvalidInput
from daskfc.federation.ledger.narration import Narrates, Narration
from daskfc.federation.messages.declaration import role_of
from daskfc.federation.party.options import PartyOptions, check_party_name
from daskfc.federation.worker.ingress import restricted
from daskfc.federation.worker.nanny import PartyNanny
from daskfc.folders import make_private
from daskfc.site import Policy, SiteState
from daskfc.stores import ClientStore
from daskfc.stores.store.together import check_owner


def serve_party(
    name: str,
    *,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    store: str | None = None,
    memory_limit: str | int = "2GB",
    nthreads: int = 1,
    blas_threads: int | None = None,
    device: str = "auto",
    workspace: str | None = None,
    keep: int | None = None,
    security: SecurityFiles | None = None,
    host: str | None = None,
    port: int = 0,
    nanny_port: int = 0,
    contact_address: str | None = None,
    wait: float = 15.0,
    metrics: str | None = None,
    narrates: Narrates = False,
    policy: str | None = None,
    state: str | None = None,
    trusted: bool = False,
) -> None:
    """Run one party until the scheduler goes, or until SIGTERM or SIGINT.

    Until the scheduler has answered, signals are the caller's to handle.

    Parameters
    ----------
    name : str
        The party; "server" for the one that reduces and holds no data, "server-2" and so on for
        further workers of it.
    scheduler : str, optional
        Address of the scheduler.
    scheduler_file : str, optional
        File with the address, in its place.
    store : str, optional
        URL of the client's store; needed by every party but the server's.
    memory_limit : str or int
        Bytes, or text such as "2GB".
    nthreads : int
        Steps at once.
    blas_threads : int, optional
        Threads of a step; by default one a core, as far as a twentieth of the memory holds their
        work arrays.
    device : {"auto", "cpu"}
        Whether large products are computed on a graphics card, where torch finds one.
    workspace : str, optional
        Folder of this party on this machine, for its ledger, log and checkpoints. Without one they
        are in a folder that is removed when the party ends.
    keep : int, optional
        How many runs have folders there; those of older ones are removed as another begins, but
        for what a server needs to resume one. All by default.
    security : SecurityFiles, optional
        Certificates for ``tls://``.
    host : str, optional
        Address to listen on.
    port, nanny_port : int
        Ports of the worker and of the process that starts it; 0 for any that is free.
    contact_address : str, optional
        Host by which others reach both, where it is not the one to listen on.
    wait : float
        Seconds until the scheduler must have answered; sites may start in any order.
    metrics : str, optional
        Host and port of a page with counts for Prometheus, such as "127.0.0.1:9100"; none by
        default. It has no access control, and shows names of parties and messages, numbers, bytes.
    narrates : bool or "json"
        Print on standard error who it is, that it joined, what it is asked and what it sends,
        as lines of text or of JSON.
    policy : str, optional
        File of the site's policy. Without one everything may run on the loopback address, and
        elsewhere the rules of a file without keys hold; see `daskfc.site.Policy`.
    state : str, optional
        File of what the party remembers of all runs; by default ``state.sqlite`` in `workspace`.
    trusted : bool
        Whether the party runs beside a worker of a Dask cluster, where whoever runs the cluster can
        read what it holds. A policy must allow that; without one everything may run.

    Raises
    ------
    InvalidInput
        For a wrong name, limit or address, or a client without a store, before anything starts.
    StoreError
        When the store is missing, half-written, corrupt, or another client's.
    ClusterError
        When the scheduler cannot be reached.
    """
    role, ends = role_of(name), time.monotonic() + wait
    check_party_name(name, role)
    doors = Doors(host, port, nanny_port, contact_address)
    if (scheduler is None) == (scheduler_file is None):
        raise InvalidInput(
            f"party {name!r} needs the address of its scheduler, or a file that has it. Give "
            "--scheduler or --scheduler-file, not both."
        )
    if scheduler is None:
        assert scheduler_file is not None
        scheduler = address_in(scheduler_file, wait=wait)
    issued = _check_certificate(name, role, scheduler, security)
    rules = (
        Policy.default(trusted or is_loopback(scheduler)) if policy is None else Policy.load(policy)
    )
    if state is None and workspace is not None:
        state = str(Path(workspace) / "state.sqlite")
    counts = rules.budget is not None or rules.runs is not None or rules.maskers.differ_by > 1
    if state is None and counts:
        raise InvalidInput(
            f"the policy of party {name!r} counts over runs, and nothing says where. Give --state "
            "or --workspace."
        )
    if keep is not None and (keep < 1 or workspace is None):
        raise InvalidInput(
            f"party {name!r} can keep the folders of at least one run in its workspace; got --keep "
            f"{keep}{' and no --workspace' if workspace is None else ''}. Correct it."
        )
    if metrics is not None:
        check_metrics(metrics)
    held = None
    if role != "client" and store is not None:
        raise InvalidInput("the server holds no data; start it without a store.")
    if role == "client":
        if store is None:
            raise InvalidInput(f"party {name!r} needs a store. Give its URL with --store.")
        held = ClientStore.open(store)
        check_owner(held.name, name, store)
    asked = {"nthreads": nthreads, "blas_threads": blas_threads, "device": device}
    asked["memory_limit"] = memory_limit
    limits = checked(WorkerLimits, asked, f"party {name!r}")
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        if workspace is not None:
            make_private(workspace)
        memory = None if state is None else str(SiteState(state).path)
        stack.enter_context(quiet_logs())
        stack.enter_context(restricted())
        party = PartyOptions(
            name=name,
            role=role,
            scratch=str(scratch),
            store=store,
            folder=str(scratch) if workspace is None else workspace,
            keep=keep,
            threads=limits.threads(),
            device=limits.device,
            narrates=narrates,
            metrics=metrics,
            policy=rules,
            state=memory,
            ca=None if security is None else security.ca,
            serial=0 if issued is None else issued.serial,
            files=security,
            trusted=trusted,
        )
        narration = Narration(name, told=narrates)
        data = f"{held.n_samples:,} samples x {held.n_features}" if held else "no data"
        if issued is not None and (soon := issued.warning()) is not None:
            narration.say(soon)
        narration.say(f"holds {data}; joins the scheduler at {scheduler}")
        allow_many_descriptors()
        run_party(
            PartyNanny,
            party,
            scheduler=scheduler,
            limits=limits,
            security=security,
            doors=doors,
            wait=max(ends - time.monotonic(), 1.0),
            joined=lambda: narration.say("joined; waits for runs, Ctrl-C ends it"),
            stopped=lambda by: narration.say(f"stopped by {by or 'the end of its scheduler'}"),
        )


def _check_certificate(
    name: str, role: str, scheduler: str, security: SecurityFiles | None
) -> Issued | None:
    """Refuse a certificate of another party, an expired one, or none off this machine."""
    if security is None:
        if not (is_loopback(scheduler) or needs_certificates(scheduler)):
            raise InvalidInput(
                f"party {name!r} would join {scheduler} without TLS, where whoever reaches its "
                f"port could read and ask. Make a key by 'daskfc certs request {name}', have it "
                "signed, and give an address that begins with tls://."
            )
        return None
    issued = Issued.of_file(security.cert)
    if (issued.role, issued.name) != ("client" if role == "client" else "server", name):
        raise InvalidInput(
            f"the certificate of party {name!r} is of {issued.role} {issued.name!r}. Have one "
            "signed for this party: roles and names are compared."
        )
    issued.check_valid()
    return issued

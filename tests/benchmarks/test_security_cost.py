"""What ingress, identity and TLS cost: the same work with and without them, in turn, in one run.

Without them a party unpickles whatever comes, asks no task, peer, seal or signature whether it may,
and lets every run begin; masks, guard, digests and ledgers stay. Here this is done by a class of
party that is no part of daskfc. `checks` are start-up and rounds (those of `test_rounds`) of local
federations; `sites` are parties with processes of their own, and the time until a message of so
many MB is read at the server, with the digests and receipts of both ends. Numbers are medians of
turns; on a busy machine, processor time (of driver and parties) tells more than wall time. With
benchmarks off: one turn of the smallest sizes.
"""

import contextlib
import dataclasses
import functools
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import distributed.protocol.core
import distributed.protocol.pickle
import numpy as np
import psutil
from distributed import Nanny, Worker

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.config.config import SecurityFiles
from daskfc.federation import Federation, Message, array
from daskfc.federation.driver import opening, verbs
from daskfc.federation.messages import envelopes
from daskfc.federation.party import party
from daskfc.federation.party.gate import Admitted
from daskfc.federation.worker import connections, guard, ingress, serve
from daskfc.federation.worker.nanny import PartyNanny
from daskfc.secure.sums import MaskedSum
from daskfc.stores import write_store
from tests.benchmarks.test_rounds import own_array
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
KINDS = ("with", "without")
POLICY = "packages: [tests]\n"


# -- a party that asks nothing --------------------------------------------------------------------


class _Plain:
    """A connection that is read as it comes."""

    def __init__(self, comm):
        self.comm = comm

    def __getattr__(self, name):
        return getattr(self.comm, name)


class _Open:
    def admit(self, settings, proof):
        return Admitted(os.urandom(32), None)


def _unsealed(key, content):
    return bytes(32) + content


def _believed(keys, data):
    return data[32:], True


def _nobody(comm):
    return None


def unchecked():
    """Take the checks of ingress and identity out of this process; returns how to put them back."""
    stack = contextlib.ExitStack()
    put = functools.partial(mock.patch.object)
    for place, name, value in (
        (distributed.protocol.pickle, "loads", ingress.dask_loads),
        (distributed.protocol.core, "merge_and_deserialize", ingress.dask_merge),
        (guard, "restrict_process", lambda *_: None),
        (guard, "is_admitted", lambda spec: True),
        (guard, "peer_of", _nobody),
        (connections, "peer_of", _nobody),
        (party, "opened", _believed),
        (envelopes, "opened", _believed),
        (envelopes, "sealed", _unsealed),
        (verbs, "sealed", _unsealed),
    ):
        stack.enter_context(put(place, name, value))
    return stack


class SameWorker(guard.PartyWorker):
    """As it is; from this module, as the other."""


class UncheckedWorker(guard.PartyWorker):
    def __init__(self, *args, **kwargs):
        unchecked()
        super().__init__(*args, **kwargs)

    def handle_comm(self, comm):
        return Worker.handle_comm(self, _Plain(comm))


class SameNanny(PartyNanny):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.Worker = SameWorker


class UncheckedNanny(PartyNanny):
    def __init__(self, *args, party, **kwargs):
        super().__init__(*args, party=dataclasses.replace(party, ca=None), **kwargs)
        self.Worker, self._gate = UncheckedWorker, _Open()

    def handle_comm(self, comm):
        return Nanny.handle_comm(self, _Plain(comm))


def nanny_of(kind):
    return SameNanny if kind == "with" else UncheckedNanny


# -- local federations ----------------------------------------------------------------------------


def processor_s(roots):
    every = {p for root in roots for p in (root, *root.children(recursive=True))}
    return sum(sum(p.cpu_times()[:2]) for p in every)


def timed(work, roots):
    """Return what work returns, its seconds, and the processor's seconds meanwhile."""
    before, start = processor_s(roots), time.perf_counter()
    done = work()
    return done, time.perf_counter() - start, processor_s(roots) - before


def local(kind, urls, n_rounds):
    here = [psutil.Process()]
    with contextlib.ExitStack() as stack:
        if kind == "without":
            stack.enter_context(unchecked())
        stack.enter_context(mock.patch.object(opening, "PartyNanny", nanny_of(kind)))
        federation, *start = timed(lambda: Federation.local(urls), here)
        stack.enter_context(federation)
        federation.start_run("rounds", random_state=0)
        sums = MaskedSum(federation)

        def rounds(numbers):
            for round in numbers:
                parts = federation.inline(own_array, round)
                federation.wait(sums.sum(parts, max_abs=1.0))

        rounds(range(3))  # keys, connections
        _, *found = timed(lambda: rounds(range(3, 3 + n_rounds)), here)
        return {
            "start, s": start[0],
            "start, processor s": start[1],
            "round, ms": 1000 * found[0] / n_rounds,
            "round, processor ms": 1000 * found[1] / n_rounds,
        }


def median_of(turns):
    return {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}


def checks(folder, counts, n_rounds, n_turns):
    rows = []
    for n in counts:
        urls = {f"client-{i}": str(folder / f"{n}-{i}.zarr") for i in range(n)}
        for name, url in urls.items():
            write_store(url, name, np.zeros((20, 3)), [f"{name}.{j}" for j in range(20)])
        local("with", urls, 1)  # what only the first federation of a process costs
        turns = {kind: [] for kind in KINDS}
        for turn in range(n_turns):
            for kind in KINDS if turn % 2 else reversed(KINDS):
                turns[kind].append(local(kind, urls, n_rounds))
        found = {kind: median_of(own) for kind, own in turns.items()}
        rows += [
            {
                "what": f"{n} clients: {name}",
                **{kind: found[kind][name] for kind in KINDS},
                "ratio": found["with"][name] / found["without"][name],
            }
            for name in found["with"]
        ]
    return rows


# -- sites ----------------------------------------------------------------------------------------


class Block(Message, route="client → server", reveals="random numbers"):
    values: np.ndarray = array("n", dtype="float64")


@functools.cache
def _numbers(n):
    return np.random.default_rng(0).random(n)


def block(data, n) -> Block:
    """Return so many random numbers, which no compression makes shorter."""
    return Block(_numbers(n))


def read(blocks):
    return sum(len(one.values) for one in blocks.values())


def serve_here(kind, name, options):
    """Run a party until it is stopped; what a process of a site does."""
    if kind == "without":
        unchecked()
    serve.PartyNanny = nanny_of(kind)
    if options["security"] is not None:
        options["security"] = SecurityFiles(**options["security"])
    serve.serve_party(name, **options)


class Sites:
    """A scheduler, a server and a client, each in a process of its own."""

    def __init__(self, folder, kind, files):
        self.kind, self.files, self.federation = kind, files, None
        folder.mkdir()
        url = str(folder / "a.zarr")
        write_store(url, "a", np.zeros((20, 3)), [f"a.{j}" for j in range(20)])
        policy = folder / "site.yaml"
        policy.write_text(POLICY)
        tls = files is not None
        flags = _flags(files["scheduler"]) if tls else []
        words = ["-m", "daskfc", "scheduler"] if kind == "with" else _DASKS
        host, port = "127.0.0.1", str(free_port())
        self.address = f"{'tls' if tls else 'tcp'}://{host}:{port}"
        bind = host if kind == "with" or not tls else f"tls://{host}"
        self.running = [self._start(*words, "--host", bind, "--port", port, *flags)]
        for name in ("a", "server"):  # they wait for their scheduler
            options = {
                "scheduler": self.address,
                "security": files[name] if tls else None,
                "store": url if name == "a" else None,
                "policy": str(policy),
            }
            code = f"from {__name__} import serve_here; serve_here({kind!r}, {name!r}, {options!r})"
            self.running.append(self._start("-c", code))

    def join(self):
        with self.patched():
            self.federation = self._joined()
            self.federation.start_run("blocks", random_state=0, deadline_s=120)

    def _start(self, *words):
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen([sys.executable, *words], env=env, stderr=subprocess.DEVNULL)

    def patched(self):
        return unchecked() if self.kind == "without" else contextlib.nullcontext()

    def _joined(self):
        security = None if self.files is None else self.files["me"]
        cluster = {"cluster": "existing", "scheduler": self.address, "security": security,
                   "startup": 300, "connect": 120}  # fmt: skip
        if self.kind == "with":
            return Federation.connect(cluster, clients=["a"])
        opened = opening.open_existing(cluster, clients=["a"])
        return Federation(dataclasses.replace(opened, security=None))  # which signs nothing

    def messages(self, n_bytes, count):
        """Return milliseconds of a message, and the processor's."""
        roots = [psutil.Process(), *(psutil.Process(one.pid) for one in self.running)]

        def work():
            for _ in range(count):
                sent = self.federation.ask(block, n_bytes // 8)
                self.federation.wait(self.federation.on_server(read, sent))

        with self.patched():
            work()  # the numbers are drawn once
            _, seconds, used = timed(work, roots)
        return {"ms": 1000 * seconds / count, "processor ms": 1000 * used / count}

    def end(self):
        if self.federation is not None:
            self.federation.close()
        for one in reversed(self.running):
            one.terminate()
        for one in self.running:
            one.wait(60)


# What the steps' graphs name is imported before it serves: that takes seconds.
_MAIN = "import daskfc.federation; from distributed.cli.dask_scheduler import main; main()"
_DASKS = ("-c", _MAIN, "--no-dashboard", "--dashboard-address", "127.0.0.1:0")


def _flags(files):
    names = {"ca": "--tls-ca-file", "cert": "--tls-cert", "key": "--tls-key"}
    return [word for key, flag in names.items() for word in (flag, files[key])]


def certificates(folder):
    authority, files = Authority.create(folder / "ca"), {}
    roles = {"client": "a", "server": "server", "scheduler": "scheduler", "submitter": "me"}
    for role, name in roles.items():
        authority.issue(role, name)
        own = authority.folder_of(name)
        files[name] = {key: str(own / f"{key}.pem") for key in ("ca", "cert", "key")}
    return files


def sites(folder, sizes, n_turns, without=("no TLS", "no checks")):
    files = certificates(folder)
    settings = {"TLS": ("with", files), "no TLS": ("with", None), "no checks": ("without", files)}
    settings = {name: how for name, how in settings.items() if name in ("TLS", *without)}
    with contextlib.ExitStack() as stack:
        open_ = {}
        for name, how in settings.items():
            open_[name] = Sites(folder / name.replace(" ", "-"), *how)
            stack.callback(open_[name].end)
        for one in open_.values():
            one.join()
        rows = []
        for n_bytes, count in sizes:
            turns = {name: [] for name in open_}
            for turn in range(n_turns):
                for name in open_ if turn % 2 else reversed(open_):
                    turns[name].append(open_[name].messages(n_bytes, count))
            found = {name: median_of(own) for name, own in turns.items()}
            for what in ("ms", "processor ms"):
                of = {name: own[what] for name, own in found.items()}
                rows.append(
                    {
                        "what": f"message of {n_bytes / 1e6:g} MB, {what}",
                        **of,
                        **{f"TLS / {name}": of["TLS"] / of[name] for name in without},
                    }
                )
        return rows


def test_checks(benchmark, tmp_path):
    sizes = ((2, 8), 100, 5) if benchmark.enabled else ((2,), 2, 1)
    benchmark.group = "Ingress and identity"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(checks, args=(tmp_path, *sizes))
    assert all(row["ratio"] > 0 for row in rows)


def test_sites(benchmark, tmp_path):
    sizes = [(8_000, 100), (1_000_000, 20), (4_000_000, 10), (16_000_000, 5)]
    given = (sizes, 7) if benchmark.enabled else ([(8_000, 1)], 1)
    benchmark.group = "TLS and identity between sites"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(sites, args=(tmp_path, *given))
    assert all(row["TLS / no TLS"] > 0 for row in rows)

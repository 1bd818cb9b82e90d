"""A consortium with TLS, as its sites start it: keys of their own, signed, and the scripts."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from click.testing import CliRunner
from distributed.comm import connect
from distributed.core import rpc

from daskfc.cli import main
from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.tls import security_of
from daskfc.deploy.config.config import SecurityFiles
from daskfc.deploy.connections import pace
from daskfc.deploy.connections.reaching import address_in
from daskfc.federation import Federation
from daskfc.testing.federation import stores_of
from tests.deploy.test_sites import Site, cluster_of

ROLES = {
    "a": "client", "b": "client", "c": "client", "server": "server", "scheduler": "scheduler",
    "alice": "submitter", "bob": "submitter",
}  # fmt: skip


class Consortium:
    """Clients, a server and a scheduler, and everybody's folder; who has no rows has not started.

    Parameters
    ----------
    folder : Path
        For all of it.
    rows : dict of str to array
        What the clients hold.
    policy : str
        Keys that their policies have beside those of `Site`, or in their place.
    rest : float, optional
        Seconds that a message may take beside its bytes, in place of those that daskfc lets it.
    forked : bool
        Whether what the scripts start is a fork, or has a command line of its own.
    """

    def __init__(self, folder, rows, policy="", rest=pace._REST_S, forked=True):
        self.folder, self.rest, self.forked = folder, rest, forked
        (folder / "bin").mkdir()
        (folder / "bin" / "daskfc").write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
        (folder / "bin" / "daskfc").chmod(0o700)
        self.site = Site(folder)
        keys = [yaml.safe_load(text) for text in (self.site.policy.read_text(), policy)]
        self.site.policy.write_text(yaml.safe_dump({**keys[0], **(keys[1] or {})}))
        self.ca = ("--ca", str(folder / "ca"))
        self.certs("init", *self.ca)
        self.authority = Authority(folder / "ca")
        (folder / "parties.yaml").write_text(yaml.safe_dump({"parties": ROLES}, sort_keys=False))
        self.files = {}
        for name in ROLES:
            own = self.held(name)
            self.certs("request", name, "--out", own)
            self.files[name] = {key: str(own / f"{key}.pem") for key in ("ca", "cert", "key")}
        requests = [self.held(name) / f"{name}.request.pem" for name in ROLES]
        self.certs("sign", *requests, "--parties", folder / "parties.yaml", "--yes", *self.ca)
        for name in ROLES:
            sent = shutil.copytree(self.authority.folder_of(name), folder / "sent" / name)
            self.certs("install", name, sent, "--out", self.held(name))
        self.urls = stores_of(folder, rows)
        self.processes = {}
        told = folder / "scheduler.json"
        self.run("scheduler", "--port", "0", "--scheduler-file", told, DASKFC_HOST="127.0.0.1")
        self.address = address_in(str(told), wait=120)
        for name in self.urls:
            shutil.copy(self.site.policy, self.held(name) / "policy.yaml")  # they edited it
            self.party(name)
        self.run("server", "--policy", self.site.policy, DASKFC_SCHEDULER=self.address)

    def certs(self, *words):
        told = CliRunner().invoke(main, ["certs", *map(str, words)])
        assert told.exit_code == 0, told.output
        return told.stdout

    def party(self, name):
        """Start a client by its script."""
        self.run(name, DASKFC_STORE=self.urls[name], DASKFC_SCHEDULER=self.address)

    def run(self, name, *words, **environment):
        """Start a side by its own script."""
        words = [str(self.held(name) / "start.sh"), *map(str, words)]
        place = self.folder / "bin" if self.forked else Path(sys.executable).parent
        environment["PATH"] = os.pathsep.join([str(place), os.environ["PATH"]])
        if self.forked:
            told = subprocess.check_output(words, env={**os.environ, **environment}, text=True)
            command = ("-m", "daskfc", *told.split("\0")[:-1])
            patience = f"from daskfc.deploy.connections import pace; pace._REST_S = {self.rest}"
            process = self.site.start(*command, before=f"import os; os.umask(0o77); {patience}")
        else:
            process = self.site.start(*words[1:], program=words[0], **environment)
        self.processes[name] = process

    def said(self, name):
        return self.site.said(self.processes[name])

    def held(self, name):
        return self.folder / "held" / name

    def joined(self, name="alice", clients=("a", "b")):
        cluster = cluster_of(self.address, security=self.files[name], startup="300s")
        return Federation.connect(cluster, clients=list(clients))

    def arguments(self, name):
        """Return how somebody with a certificate connects."""
        return security_of(SecurityFiles(**self.files[name])).get_connection_args("worker")

    def ask(self, name, at=None, **message):
        """Ask a port, the scheduler's by default, with somebody's certificate."""

        async def whole():
            where = self.address if at is None else at
            async with rpc(where, connection_args=self.arguments(name)) as there:
                op = message.pop("op")
                return await getattr(there, op)(**message)

        return asyncio.run(whole())

    def say(self, name, *messages):
        """Send messages to the scheduler one after the other; return what the first is answered."""

        async def whole():
            comm = await connect(self.address, **self.arguments(name))
            try:
                answer = None
                for message in messages:
                    await comm.write(message)
                    answer = await comm.read() if answer is None else answer
                return answer
            finally:
                await comm.close()

        return asyncio.run(whole())

    def revoke(self, *names):
        """Revoke certificates, and put the list into everybody's folder."""
        for name in names:
            self.certs("revoke", name, *self.ca)
        for name in ROLES:
            new = self.held(name) / "revoked.new"
            shutil.copy(self.authority.folder / "revoked.pem", new)
            new.rename(self.held(name) / "revoked.pem")

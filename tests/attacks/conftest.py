import numpy as np
import pytest
import yaml

from daskfc.federation import Federation
from daskfc.testing.federation import stores_of
from tests.deploy.test_sites import POLICY, Site, cluster_of

ROWS = {
    f"site-{i}": np.random.default_rng(i).normal(size=(12, 2)) + 10.0 * (np.arange(12) % 2)[:, None]
    for i in (1, 2, 3)
}
# What the last of the sites says of itself; the others let everything run.
STRICT = {
    **yaml.safe_load(POLICY),
    "raw": "never",
    "stores": [],
    "maskers": {"at_least": 3, "threshold": "2/3"},
    "budget": {"epsilon": 1.0, "delta": 1e-5},
}


class Ports:
    """Three sites, a server and a scheduler without TLS, each party's two processes its own."""

    def __init__(self, folder):
        self.folder = folder
        self.site = Site(folder)
        self.urls = stores_of(folder, ROWS)
        self.address = self.site.scheduler("127.0.0.1")
        strict = folder / "strict.yaml"
        strict.write_text(yaml.safe_dump(STRICT))
        for name in (*ROWS, "server"):
            own = {"store": self.urls[name]} if name in ROWS else {}
            own |= {"policy": str(strict)} if name == "site-3" else {}
            self.site.party(name, self.address, workspace=str(self.files(name)), **own)

    def files(self, name):
        return self.folder / f"{name}-files"

    def joined(self, **options):
        cluster = cluster_of(self.address, startup="300s")
        return Federation.connect(cluster, clients=list(ROWS), **options)

    def of(self, party):
        """Return the addresses of a party's worker and nanny."""
        with self.joined() as federation:
            told = federation.dask_client.scheduler_info(n_workers=-1)["workers"]
        return next((a, one["nanny"]) for a, one in told.items() if one["name"] == party)


@pytest.fixture(scope="session")
def ports(tmp_path_factory):
    made = Ports(tmp_path_factory.mktemp("ports"))
    yield made
    made.site.end()


@pytest.fixture(scope="session")
def addresses(ports):
    """The processes that strangers reach: a worker, its nanny, and the scheduler."""
    worker, nanny = ports.of("site-1")
    return {"worker": worker, "nanny": nanny, "scheduler": ports.address}

"""What methods over columns tell the server beside what sites agreed to: distances, assignments."""

import numpy as np
import pytest

from daskfc.errors import DaskfcError, PolicyRefused, PrivacyError
from daskfc.federation import Federation
from daskfc.protocols import ESFMC, KCAGC
from daskfc.stores import write_store
from tests.deploy.test_sites import Site, cluster_of

pytestmark = pytest.mark.slow

POLICY = """\
methods:
  kCAGC: {variant: optimised, distances: landmarks, n_refine: 0, n_local_clusters: {max: 3}}
  ESFMC: {noise: required}
"""
LAWFUL = {"filter_order": 0, "distances": "landmarks", "n_refine": 0, "n_local_clusters": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sites")


@pytest.fixture(scope="module")
def address(folder):
    site, random = Site(folder), np.random.default_rng(0)
    site.policy.write_text(POLICY)
    scheduler = site.scheduler("127.0.0.1")
    for name in ("a", "b", "c", "server"):
        options = {"workspace": str(folder / name)}
        if name != "server":
            options["store"] = str(folder / f"{name}.zarr")
            names, ids = [f"{name}/{i}" for i in range(4)], [str(i) for i in range(24)]
            rows = random.normal(size=(24, 4))
            write_store(options["store"], name, rows, ids, feature_names=names)
        site.party(name, scheduler, **options)
    yield scheduler
    site.end()


@pytest.fixture
def federation(address):
    with Federation.connect(cluster_of(address), clients=["a", "b", "c"]) as running:
        yield running


@pytest.fixture(autouse=True)
def unheard(recorder):
    """What is tried here is what the lists must not have."""
    recorder.listens = False
    yield
    recorder.listens = True


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ({"distances": "centres"}, "distances"),
        ({"distances": "auto"}, "distances"),  # which may choose centres
        ({"n_refine": 1}, "n_refine"),
        ({"variant": "basic"}, "variant"),
        ({"n_local_clusters": None}, "n_local_clusters"),
    ],
)
def test_what_a_site_forbids_is_refused(federation, asked, rule):
    with pytest.raises(PolicyRefused, match=rf"by its rule 'methods.kCAGC.{rule}'"):
        KCAGC(2, **{**LAWFUL, **asked}).fit(federation)


def test_what_it_allows_goes_through(federation):
    model = KCAGC(2, **LAWFUL).fit(federation)
    assert model.n_virtual_nodes_ <= 8
    assert list(model.choices) == ["distances"]


@pytest.mark.parametrize("change", [{"n_refine": 1}, {"n_local_clusters": 24}])
def test_what_was_not_announced_is_refused(federation, change):
    model = KCAGC(2, **LAWFUL)
    project = model._project

    def changed(*arguments):
        vars(model).update(change)
        return project(*arguments)

    model._project = changed
    with pytest.raises(PolicyRefused, match="by its rule 'steps'"):
        model.fit(federation)


def test_a_server_that_asks_for_other_distances_gets_none(federation, monkeypatch):
    """To centres; to single samples, which it says are virtual nodes."""
    model = KCAGC(2, **LAWFUL)
    model._rank = lambda *_: None
    with pytest.raises(DaskfcError, match="not in a run that was announced with"):
        model.fit(federation)
    model = KCAGC(2, **LAWFUL)
    nodes_of = model._on_nodes

    def on_samples(federation, sums, rows, nodes, n_clusters, clusters):
        monkeypatch.setattr(federation, "on_clients", lambda step, rows, *_, **__: rows)
        return nodes_of(federation, sums, rows, nodes, n_clusters, clusters)

    model._on_nodes = on_samples
    with pytest.raises(DaskfcError, match=r"distances of samples .* are not in a run"):
        model.fit(federation)


def test_new_samples_of_several_clients_bear_no_noise_and_are_not_told(folder, federation):
    """A site's own store counts as new samples, so that noise of a fit was none a call later."""
    noise = {"epsilon": 8.0, "delta": 1e-4}
    short = {"rounds": 1, "local_epochs": 1, "pretraining_epochs": 0}
    model = ESFMC(2, noise=noise, random_state=0, **short).fit(federation)
    stores = {name: str(folder / f"{name}.zarr") for name in "ab"}
    assert len(model.predict(federation, {"a": stores["a"]})) == 24
    with pytest.raises(PrivacyError, match="labels new samples of one client at a time"):
        model.predict(federation, stores)
    model.noise = None  # as a driver does that does not ask
    with pytest.raises(PolicyRefused, match="by its rule 'steps'"):
        model.predict(federation, stores)
    assert "Assignments" not in {row.message for row in federation.ledger}

"""Groups that a submitter names, and words of few, at sites whose policies say nothing of them."""

import numpy as np
import pytest
import xarray as xr

from daskfc import Prepare
from daskfc.errors import PolicyRefused
from daskfc.federation import Federation, PerClient
from daskfc.secure.profiles import Profile, steps
from daskfc.site import BETWEEN_SITES, RunRequest, Smallest
from daskfc.testing.federation import stores_of
from tests.deploy.test_sites import Site, cluster_of

pytestmark = pytest.mark.slow

ROWS = {f"site-{i}": np.random.default_rng(i).normal(size=(20, 2)) for i in (1, 2, 3)}


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    site, urls = Site(folder), stores_of(folder, ROWS)
    (folder / "policy.yaml").write_text("raw: never\n")
    address = site.scheduler("127.0.0.1")
    for name in (*ROWS, "server"):
        own = {"store": urls[name]} if name in ROWS else {}
        own |= {"policy": str(folder / "policy.yaml"), "workspace": f"{folder}/{name}"}
        site.party(name, address, **own)
    yield address
    site.end()


@pytest.fixture
def federation(sites):
    cluster = cluster_of(sites, startup="300s")
    with Federation.connect(cluster, clients=list(ROWS)) as joined:
        joined.pseudonyms = None  # whoever makes up labels has some way to name samples
        yield joined


def ids(name):
    return [f"{name}/{i}" for i in range(len(ROWS[name]))]


def labels_of(numbers):
    clients = np.repeat(list(ROWS), 20)
    names = np.concatenate([ids(name) for name in ROWS])
    coords = {"client": ("sample", clients), "sample_id": ("sample", names)}
    return xr.DataArray(np.concatenate(numbers), dims="sample", coords=coords)


def asked(federation, groups, run):
    """What a submitter does who calls the steps himself, for groups of his own."""
    federation.start_run(run, random_state=0, deadline_s=60, request=RunRequest("profiles"))
    told = PerClient({name: steps.digest_of_ids(ids(name)) for name in ROWS})
    kept = federation.on_clients(steps.own_groups, PerClient(groups), told, None)
    federation.wait(list(kept.values()))


def test_sums_of_pairs_and_of_single_samples_are_refused(federation):
    """Three profiles of pairs gave all rows to 1.8e-15; one group of one sample gave its row."""
    pairs = labels_of([np.r_[0, 0, np.full(18, -1)], np.full(20, -1), np.full(20, -1)])
    assert not Profile(smallest=2, of_one_client=True).fit(federation, pairs).clusters
    groups = {name: np.full(20, -1, dtype=np.int32) for name in ROWS}
    groups["site-1"][7] = 0
    with pytest.raises(PolicyRefused, match=r"'site-1' refuses this by its rule 'groups\.samples'"):
        asked(federation, groups, "one sample")
    federation.smallest = Smallest(samples=1)
    with pytest.raises(PolicyRefused, match=r"by its rule 'groups\.samples'"):
        asked(federation, groups, "announced so")
    federation.smallest = Smallest(samples=5, clients=1)
    with pytest.raises(PolicyRefused, match=r"by its rule 'groups\.clients'"):
        asked(federation, groups, "of one client")


def test_words_that_few_have_are_refused(federation):
    federation.smallest = Smallest()
    with pytest.raises(PolicyRefused, match=r"by its rule 'groups\.samples'"):
        Prepare({"one-hot": {"smallest": 1}}).fit(federation)


def test_a_second_grouping_of_the_same_samples_is_refused(federation):
    """Two that differ by one sample tell it; the site remembers over runs and drivers."""
    halves = np.arange(20) % 2
    found = Profile().fit(federation, labels_of([halves] * 3))
    np.testing.assert_array_equal(found.sizes, [30, 30])
    again = Profile().fit(federation, labels_of([1 - halves] * 3))  # the same parts
    np.testing.assert_allclose(again.means, found.means[::-1], rtol=1e-9)
    other = halves.copy()
    other[0] = 1
    with pytest.raises(
        PolicyRefused, match=r"'site-2' refuses this by its rule 'groups\.groupings'"
    ):
        Profile().fit(federation, labels_of([halves, other, halves]))
    groups = {name: halves.astype(np.int32) for name in ROWS}
    groups["site-3"] = other.astype(np.int32)
    with pytest.raises(
        PolicyRefused, match=r"'site-3' refuses this by its rule 'groups\.groupings'"
    ):
        asked(federation, groups, "another driver")
    assert federation.smallest == BETWEEN_SITES

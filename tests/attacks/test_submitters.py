"""What a submitter asks of sites whose own policies and memories say no, on real processes."""

import asyncio
import re
from dataclasses import replace

import numpy as np
import pytest
from distributed import Worker

from daskfc.baselines import KFED, Central
from daskfc.baselines.centers.k_fed import local_clustering
from daskfc.coding import FixedPoint
from daskfc.errors import DaskfcError
from daskfc.federation import PerClient
from daskfc.federation.driver.requests import request_for
from daskfc.federation.party.site_rules import FAILURES
from daskfc.protocols import FedSC, OmniFC
from daskfc.protocols.fedsc import party
from daskfc.protocols.fedsc.diagnosis import reconstruction_of
from daskfc.protocols.omnifc import on_shares
from daskfc.secure.sums import masked
from daskfc.site import RunRequest, SiteState
from daskfc.testing.federation import stores_of
from tests.attacks.conftest import ROWS
from tests.secure.sums import steps

pytestmark = pytest.mark.slow


# A method of a package that the sites' policies name: its runs may compose daskfc's steps.
OTHER = RunRequest("other", package="tests", masked=True)


@pytest.fixture
def unheard(recorder):
    """What is tried is what the lists must not have."""
    recorder.listens = False
    yield
    recorder.listens = True


def refused(rule):
    return pytest.raises(DaskfcError, match=rf"party 'site-3' refuses this by its rule '{rule}'")


def audited(ports, rule):
    return [
        row
        for row in SiteState(str(ports.files("site-3") / "state.sqlite")).audit()
        if row.rule == rule
    ]


def test_raw_rows_stay_where_the_site_says_so(ports):
    """Whatever the submitter allows itself."""
    with ports.joined(allow_raw=True) as federation, refused("raw"):
        Central(2).fit(federation)
    assert audited(ports, "raw")


def test_predict_opens_no_store_that_the_site_does_not_name(ports, tmp_path):
    others = stores_of(tmp_path, ROWS)
    with ports.joined() as federation:
        model = OmniFC(2, random_state=0).fit(federation)
        told = model.predict(federation, {"site-1": others["site-1"]})  # whose site says any
        assert len(told) == len(ROWS["site-1"])
        with refused("stores"):
            model.predict(federation, {"site-3": others["site-3"]})
    assert audited(ports, "stores")


@pytest.mark.parametrize("reveal", ["labels", "neighbours"])
def test_who_announced_one_radius_asks_for_no_other(ports, monkeypatch, reveal):
    """By radii of its own a submitter learned distances, one comparison after the other."""
    model = OmniFC(clusterer={"dbscan": {"eps": 3.0}}, reveal=reveal, random_state=0)
    with ports.joined() as federation:
        assert len(model.fit(federation).labels_) == sum(map(len, ROWS.values()))
    own = on_shares._largest_within
    monkeypatch.setattr(on_shares, "_largest_within", lambda *of: own(*of) + 1)
    with ports.joined() as federation, pytest.raises(DaskfcError, match="by its rule 'steps'"):
        model.fit(federation)
    assert any("'task' must be" in row.text for row in audited(ports, "steps"))


def test_fits_one_after_the_other_spend_one_budget(ports):
    """Four fits at an epsilon of 1 met no refusal."""
    noise = {"kind": "data", "epsilon": 0.8, "delta": 1e-5, "clip": 10.0}
    method = FedSC(2, noise=noise, random_state=0)
    with ports.joined() as federation:
        method.fit(federation)
    with ports.joined() as federation, refused("budget"):
        method.fit(federation)
    assert audited(ports, "budget")


def test_who_announced_few_clusters_asks_for_no_more(ports, unheard):
    """A limit held what a run announced: asked for 60 all the same, a site told its rows."""
    request = request_for(KFED, KFED(2, n_local_clusters=2).get_params(deep=False))
    how = {"max_iterations": 300, "random_state": 0}
    with ports.joined() as federation:
        federation.start_run("few-clusters", random_state=0, deadline_s=60, request=request)
        for k in (2, 12):
            found = federation.on_client("site-3", local_clustering, n_local_clusters=k, **how)
            if k == 2:
                federation.wait([found])
        with refused("steps"):
            federation.wait([found])


SMALL = {"epsilon": 0.05, "delta": 1e-5, "clip": 10.0}


def test_noise_that_no_message_tells_of_is_counted(ports, unheard):
    """A sigma larger by a millionth gave fresh noise, without a word in ledger or budget."""
    with ports.joined() as federation:
        model = FedSC(2, noise={"kind": "data", **SMALL}, random_state=0).fit(federation)
        planned = model._fitted.planned
        noise = replace(planned.noise, sigma=planned.noise.sigma * (1 + 1e-6))
        with refused("noise"):
            federation.wait([federation.on_client("site-3", party.samples_of, noise)])


def test_what_noise_does_not_protect_is_not_told(ports, monkeypatch, unheard):
    """Drivers alone refused errors of similarities, and moments beside noise on the factors."""
    with ports.joined() as federation:
        model = FedSC(2, noise={"kind": "data", **SMALL}, random_state=0).fit(federation)
        planned, final = model._fitted.planned, model._fitted.final
        told = final, None, planned.plan_sent
        more = {"ridge": model.ridge, "noise": planned.noise}
        rows = federation.on_clients(party.rows_of, planned.samples, *told, **more)
        with refused("steps"):
            federation.publish(reconstruction_of, planned.samples, rows, *told, **more,
                               party="site-3")  # fmt: skip
    monkeypatch.setattr(FedSC, "check", lambda self, n_clients=None: None)
    noise = {"kind": "factors", **SMALL}
    model = FedSC(2, noise=noise, kernel_width=2.0, n_atoms=4, random_state=0)
    with ports.joined() as federation:
        with pytest.raises(DaskfcError, match="does not protect moments of the samples"):
            model.fit(federation)
        assert "MaskedPart" not in {row.message for row in federation.ledger}


def test_masks_are_used_once(ports):
    """Two arrays under the same masks tell their difference."""
    ring, tag = FixedPoint.for_bound(1e3, n_terms=3), "the same"
    with ports.joined() as federation:
        federation.start_run("twice", random_state=0, deadline_s=60, request=OTHER)
        graph = federation.clients, 0
        near = PerClient(masked.mask_neighbours(*graph))
        public = federation.exchange(masked.public_key, *graph, receivers=near)
        rows = federation.on_clients(steps.rows)
        for again in (False, True):
            keys = federation.on_clients(masked.agree, public, *graph)
            parts = federation.on_clients(steps.rows_and_one) if again else rows
            sent = federation.ask(masked.masked_part, parts, keys, ring, tag)
            if not again:
                federation.wait(list(sent.values()))
        with pytest.raises(DaskfcError, match=r"the masks of .* were used for another content"):
            federation.wait(list(sent.values()))


def test_a_bound_is_no_question_that_may_be_asked_again(ports):
    """What a sum refuses tells of one site's array, and no message of it, nor a row in a ledger."""
    with ports.joined() as federation:
        federation.start_run("bounds", random_state=0, deadline_s=60, request=OTHER)
        graph = federation.clients, 0
        near = PerClient(masked.mask_neighbours(*graph))
        public = federation.exchange(masked.public_key, *graph, receivers=near)
        keys = federation.on_clients(masked.agree, public, *graph, clients=["site-3"])
        rows = federation.on_clients(steps.rows, clients=["site-3"])

        def asked(bound):
            ring, tag = FixedPoint(bound, 1, 0), f"within {bound}"
            sent = federation.ask(masked.masked_part, rows, keys, ring, tag, clients=["site-3"])
            federation.wait(list(sent.values()))

        largest = float(np.abs(ROWS["site-3"]).max())
        above = 2.0 ** np.ceil(np.log2(largest))
        for bound in np.linspace(above / 2 + 0.1, above, 5):  # on both sides of the largest
            asked(float(bound))
        for bound in above / 2.0 ** np.arange(1, 1 + FAILURES):
            with pytest.raises(DaskfcError, match="exceed the agreed magnitude of"):
                asked(float(bound))
        with pytest.raises(DaskfcError, match="steps of this start failed at site-3, which takes"):
            asked(2.0 * above)
    assert any("it takes no more of the run" in row.text for row in audited(ports, "steps"))


def test_keys_are_agreed_on_by_as_many_as_the_site_says(ports):
    with ports.joined() as federation:
        federation.start_run("few", random_state=0, deadline_s=60, request=OTHER)
        two = ("site-2", "site-3")
        near = PerClient({"site-2": ("site-3",), "site-3": ("site-2",)})
        public = federation.exchange(masked.public_key, two, 0, clients=two, receivers=near)
        keys = federation.on_clients(masked.agree, public, two, 0, clients=two)
        with refused("maskers.at_least"):
            federation.wait(list(keys.values()))


@pytest.mark.parametrize(
    ("name", "resources"),
    [
        ("spy", {"server": 1e9}),
        ("spy", {"spy": 1e9, "server": 1e9}),
        ("server", {"server": 1e9}),
    ],
)
def test_a_worker_offers_no_resource_but_its_own(ports, name, resources):
    async def joins():
        async with Worker(ports.address, name=name, resources=resources, nthreads=1):
            """It would take the server's steps."""

    with ports.joined() as federation:  # with every party there, whatever was done to it before
        with pytest.raises(RuntimeError, match="failed to start") as failure:
            asyncio.run(asyncio.wait_for(joins(), 60))
        assert re.search("resource of its own name alone|name taken", str(failure.value.__cause__))
        told = federation.dask_client.scheduler_info(n_workers=-1)["workers"].values()
    assert sorted(one["name"] for one in told) == ["server", *sorted(ROWS)]

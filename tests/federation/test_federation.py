"""The federation's own words, and joining with the shared one's processes."""

import asyncio
import gc
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from distributed.client import AllExit
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from daskfc import OmniFC
from daskfc.deploy.connections import connection
from daskfc.errors import ClusterError, InvalidInput
from daskfc.federation import Federation, Ledger
from daskfc.federation.driver import federation as module
from daskfc.federation.driver.contract import Contract
from daskfc.federation.driver.opening import Opened
from daskfc.federation.worker.guard import REFUSALS

CLIENTS = ("client-1", "client-3")


@pytest.fixture
def joined(federation, monkeypatch):
    """What joining finds: the shared processes, some of their clients; and whether it was left."""
    told = SimpleNamespace(given=[], left=[])

    def open_existing(*args, **kwargs):
        told.given.append((args, kwargs))
        closing = ExitStack()
        closing.callback(told.left.append, True)
        limits = {name: federation.limits()[name] for name in (*CLIENTS, "server")}
        return Opened(federation.dask_client, CLIENTS, 9.0, limits, closing)

    monkeypatch.setattr(module, "open_existing", open_existing)
    yield told
    # a client has one handler of a topic, which by now is that of who joined
    federation.dask_client.subscribe_topic(REFUSALS, federation._refusals.hear)


def test_who_joins_asks_the_clients_whose_their_stores_are(federation, joined):
    with Federation.connect("cluster.yaml", allow_raw=True, clients=["a"]) as other:
        assert joined.given == [(("cluster.yaml",), {"clients": ["a"]})]
        assert (other.clients, other.parties) == (CLIENTS, (*CLIENTS, "server"))
        assert repr(other) == "<Federation of 2 clients: client-1, client-3>"
        page = other._repr_html_()
        for words in ("Federation of 2 clients, open", ">client-3<", ">server<"):
            assert words in page
        assert other.allow_raw is True
        assert other.run_id is None
        assert len(other.ledger) == 0
        told = other.opening_ledger
        assert {row.message for row in told} == {"StoreSummary"}
        assert [row.sender for row in told].count("client-3") == 1
        assert {row.sender for row in told} == set(CLIENTS)
        assert all(row.run.startswith("opening-") for row in told)
        agreed = federation.contract
        assert other.contract == Contract(
            columns={name: agreed.columns[name] for name in CLIENTS},
            builds={name: agreed.builds[name] for name in CLIENTS},
            categorical=dict.fromkeys(CLIENTS, ()),
            missing=dict.fromkeys(CLIENTS, False),
        )
        assert other.limits() == {name: federation.limits()[name] for name in other.parties}
        assert other._deadline == other._absences.deadline == 9.0
        assert joined.left == []
    assert joined.left == [True]
    other.close()
    assert joined.left == [True]  # once


def test_raw_data_stays_unless_it_is_allowed_when_joining(joined):
    with Federation.connect("cluster.yaml") as other:
        assert other.allow_raw is False


def test_who_joins_is_told_pseudonyms_and_who_reads_the_stores_anyway_clear_ids(federation, joined):
    with Federation.connect("cluster.yaml") as other, Federation.connect("cluster.yaml") as third:
        assert other.pseudonyms.keys == {}
        assert other.pseudonyms.label != third.pseudonyms.label
    assert federation.pseudonyms is None


def test_who_cannot_agree_leaves(joined, monkeypatch):
    def disagree(self):
        raise ClusterError("another driver.")

    monkeypatch.setattr(Federation, "_agree", disagree)
    with pytest.raises(ClusterError, match="another driver"):
        Federation.connect("cluster.yaml")
    assert joined.left == [True]


def test_progress_is_told_to_whoever_listens(federation, monkeypatch):
    told = []
    federation.report_progress("nobody", 1, 2)
    monkeypatch.setattr(federation, "on_progress", lambda *stage: told.append(stage))
    federation.report_progress("sums", 3, 7)
    assert told == [("sums", 3, 7)]


def test_an_error_that_nobody_waits_for_is_logged_as_dasks(federation, monkeypatch):
    told, logged = [], []
    loop = federation.dask_client.loop.asyncio_loop
    monkeypatch.setattr(loop, "default_exception_handler", told.append)
    monkeypatch.setattr(connection._dasks, "debug", lambda *what, **more: logged.append(more))
    ours = AllExit()  # with which Dask ends its own waiting

    async def fails():
        raise ours

    async def leave():
        task = asyncio.ensure_future(fails())
        await asyncio.wait([task])
        del task
        gc.collect()

    federation.dask_client.sync(leave)
    assert not [context for context in told if context.get("exception") is ours]
    # Dask logs words of its own by the same logger, at any moment.
    assert [more.get("exc_info") for more in logged].count(ours) == 1


def test_rounds_are_counted_from_the_start_of_a_run(federation):
    assert [federation.next_round(), federation.next_round(), federation.round] == [1, 2, 2]
    federation.start_run("again", random_state=0)
    assert federation.round == 0


def test_a_run_has_its_deadline_or_that_of_the_cluster(federation):
    usual = federation._default_deadline
    federation.start_run("short", random_state=0, deadline_s=12.5)
    assert federation._deadline == federation._absences.deadline == 12.5
    federation.start_run("usual", random_state=0)
    assert federation._deadline == federation._absences.deadline == usual


@pytest.mark.parametrize("seed", [-1, 1.0, "1", None])
def test_the_seed_is_a_number_of_at_least_0(federation, seed):
    before = federation.run_id
    with pytest.raises(InvalidInput) as refusal:
        federation.start_run("seeded", random_state=seed)
    assert str(refusal.value) == f"random_state must be a whole number of at least 0; got {seed!r}."
    assert federation.run_id == before


def test_a_federation_in_no_run_has_no_messages(federation, monkeypatch):
    monkeypatch.setattr(federation, "_run", None)
    assert federation.run_id is None
    assert isinstance(federation.ledger, Ledger)
    assert len(federation.ledger) == 0
    with pytest.raises(InvalidInput) as refusal:
        federation.on_server(len, "x")
    assert str(refusal.value) == "the federation is in no run; call start_run first."


@pytest.mark.parametrize(
    "tool",
    [
        GridSearchCV(OmniFC(3), {"n_clusters": [2, 3]}),
        make_pipeline(StandardScaler(), OmniFC(3)),
    ],
    ids=["search", "pipeline"],
)
def test_tools_that_split_samples_are_told_that_these_stay_where_they_are(federation, tool):
    with pytest.raises(InvalidInput, match=r"cannot be split or transformed .* fit with each para"):
        tool.fit(federation)
    with pytest.raises(InvalidInput, match=r"OmniFC has no score.* 'daskfc compare'\."):
        OmniFC(3).score(federation)

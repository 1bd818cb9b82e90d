"""One party at its own site: what is refused before it connects, and what it is started with."""

import re
import stat
from pathlib import Path

import numpy as np
import pytest

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.config.config import SecurityFiles, WorkerLimits
from daskfc.deploy.processes.site import Doors
from daskfc.errors import InvalidInput, StoreError
from daskfc.federation import serve_party
from daskfc.federation.party.options import PartyOptions
from daskfc.federation.worker import serve
from daskfc.federation.worker.nanny import PartyNanny
from daskfc.site import Policy
from daskfc.testing.federation import stores_of

ADDRESS = "tcp://127.0.0.1:9"


def exactly(sentence):
    return f"^{re.escape(sentence)}$"


@pytest.fixture
def started(monkeypatch):
    """What parties were started with, instead of starting any."""
    calls = []

    def run_party(kind, party, **options):
        assert Path(party.scratch).is_dir()
        calls.append((kind, party, options))

    monkeypatch.setattr(serve, "run_party", run_party)
    return calls


@pytest.fixture
def url(tmp_path):
    return stores_of(tmp_path, {"a": np.eye(2)})["a"]


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("server", {"store": "x"}, "the server holds no data; start it without a store."),
        ("a", {}, "party 'a' needs a store. Give its URL with --store."),
        (
            "a b",
            {"store": "x"},
            "the name of a client must have up to 63 letters, digits, '.', '_' or '-', and not be "
            "'server', 'server-2' and so on, 'caller' or 'clients'; got 'a b'. Rename it.",
        ),
        (
            "caller",
            {"store": "x"},
            "the name of a client must have up to 63 letters, digits, '.', '_' or '-', and not be "
            "'server', 'server-2' and so on, 'caller' or 'clients'; got 'caller'. Rename it.",
        ),
    ],
)
def test_what_no_party_is_started_with(started, name, options, sentence):
    with pytest.raises(InvalidInput, match=exactly(sentence)):
        serve_party(name, scheduler=ADDRESS, **options)
    assert started == []


def test_a_party_brings_a_store_of_its_own(started, url, tmp_path):
    with pytest.raises(
        StoreError,
        match=exactly(
            f"client 'b' must bring a store of its own; {url} was written for client 'a'. Correct "
            "the URL, or call the client 'a'."
        ),
    ):
        serve_party("b", scheduler=ADDRESS, store=url)
    with pytest.raises(StoreError, match=r"none\.zarr"):
        serve_party("a", scheduler=ADDRESS, store=str(tmp_path / "none.zarr"))
    assert started == []


@pytest.mark.parametrize(
    "keys",
    [
        "budget: {epsilon: 1, delta: 1e-5}",
        "runs: {at_most: 1, per: day}",
        "maskers: {differ_by: 2}",
    ],
)
def test_what_counts_over_runs_needs_a_memory(started, url, tmp_path, keys):
    (tmp_path / "site.yaml").write_text(keys)
    policy = str(tmp_path / "site.yaml")
    with pytest.raises(InvalidInput, match="counts over runs, and nothing says where"):
        serve_party("a", scheduler=ADDRESS, store=url, policy=policy)
    state = str(tmp_path / "state.sqlite")
    serve_party("a", scheduler=ADDRESS, store=url, policy=policy, state=state)
    assert started[-1][1].state == state


@pytest.mark.parametrize(
    ("options", "allows"), [({}, True), ({"policy": "raw: never"}, False)], ids=["no policy", "own"]
)
def test_beside_a_worker_of_others_a_policy_must_allow_it(started, url, tmp_path, options, allows):
    """Without one the caller, who started the party, may ask for what he could read anyway."""
    if "policy" in options:
        (tmp_path / "site.yaml").write_text(options["policy"])
        options = {"policy": str(tmp_path / "site.yaml")}
    serve_party("a", scheduler=ADDRESS, store=url, trusted=True, **options)
    party = started[-1][1]
    assert party.trusted
    assert (party.policy.trusted == "allow") == allows


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"keep": 3}, "--keep 3 and no --workspace"),
        ({"keep": 0, "workspace": "w"}, "--keep 0"),
        ({"keep": -1}, "--keep -1 and no --workspace"),
    ],
)
def test_folders_of_runs_are_kept_where_there_are_some(started, url, options, got):
    sentence = (
        f"party 'a' can keep the folders of at least one run in its workspace; got {got}. "
        "Correct it."
    )
    with pytest.raises(InvalidInput, match=exactly(sentence)):
        serve_party("a", scheduler=ADDRESS, store=url, **options)
    assert started == []


@pytest.mark.parametrize("limit", ["nthreads", "blas_threads", "device", "memory_limit"])
def test_limits_are_checked(started, url, limit):
    with pytest.raises(InvalidInput, match=rf"party 'a'.*{limit}"):
        serve_party("a", scheduler=ADDRESS, store=url, **{limit: "much"})
    assert started == []


def test_a_client_is_started_with_its_store_and_folder(started, url, tmp_path):
    authority = Authority.create(tmp_path / "ca", "ca")
    serial = authority.issue("client", "a").serial
    folder = authority.folder_of("a")
    security = SecurityFiles(**{one: str(folder / f"{one}.pem") for one in ("ca", "cert", "key")})
    serve_party(
        "a",
        scheduler=ADDRESS,
        store=url,
        device="cpu",
        memory_limit="3GB",
        nthreads=2,
        blas_threads=4,
        workspace=str(tmp_path / "own"),
        keep=7,
        security=security,
        host="127.0.0.2",
        port=9001,
        nanny_port=9002,
        contact_address="site-a.example",
        wait=3.0,
    )
    ((kind, party, options),) = started
    assert kind is PartyNanny
    assert party == PartyOptions(
        name="a",
        role="client",
        scratch=party.scratch,
        store=url,
        folder=str(tmp_path / "own"),
        keep=7,
        threads=4,
        device="cpu",
        secret=party.secret,
        policy=Policy.default(loopback=True),
        state=str(tmp_path / "own" / "state.sqlite"),
        ca=security.ca,
        serial=serial,
        files=security,
    )
    limits = options.pop("limits")
    assert options.pop("joined")() is None  # it tells nobody
    assert options.pop("stopped")("SIGTERM") is None
    assert limits.model_dump() == {
        "nthreads": 2, "blas_threads": 4, "device": "cpu", "memory_limit": 3 * 10**9,
    }  # fmt: skip
    assert 2.0 < options.pop("wait") <= 3.0  # what is left of it
    doors = Doors("127.0.0.2", 9001, 9002, "site-a.example")
    assert options == {"scheduler": ADDRESS, "security": security, "doors": doors}
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700
    assert not Path(party.scratch).exists()  # once it has ended


def test_a_server_is_started_without_data(started):
    serve_party("server", scheduler=ADDRESS)
    ((_, party, options),) = started
    assert (party.name, party.role, party.store) == ("server", "server", None)
    assert party.folder == party.scratch  # no path of a driver's
    assert party.threads == WorkerLimits().threads()
    limits = options.pop("limits")
    assert options.pop("joined")() is None  # it tells nobody
    assert options.pop("stopped")("SIGTERM") is None
    assert limits.model_dump() == {
        "nthreads": 1, "blas_threads": None, "device": "auto", "memory_limit": 2 * 10**9,
    }  # fmt: skip
    assert 14.0 < options.pop("wait") <= 15.0
    assert options == {"scheduler": ADDRESS, "security": None, "doors": Doors()}

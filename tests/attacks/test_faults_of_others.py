"""Faults that others published of their systems, each tried here; the docstrings name them."""

import ast
import base64
import gc
import importlib.util
import itertools
import json
import pickle
import re
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numcodecs
import numpy as np
import psutil
import pytest
import scipy.io
import zarr

from daskfc.coding import FixedPoint, KeyPair, SecretKey, add_mask
from daskfc.deploy.processes.scratch import own_folder
from daskfc.errors import DaskfcError, PrivacyError, StoreError
from daskfc.federation import Federation, PerClient
from daskfc.federation.messages.envelopes import Here
from daskfc.federation.messages.wire_format import Reader
from daskfc.federation.party import party as party_module
from daskfc.federation.party.gate import Gate
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.party import Party
from daskfc.protocols import FedSC
from daskfc.secure.sums import masked
from daskfc.stores import ClientStore
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import open_source
from daskfc.testing.federation import stores_of
from tests.attacks.attempts import ROOT
from tests.attacks.conftest import ROWS
from tests.attacks.ports import Canary
from tests.federation import steps
from tests.ports import free_port
from tests.secure.sums import steps as sums

# -- where chance comes from -----------------------------------------------------------------------

_SECRET = ("coding", "privacy", "federation", "site", "deploy", "secure")
# Files there that draw from a public seed, and what for. Nothing of it hides anything.
_SEEDED = {
    "coding/engines/engines.py": "what an engine is tried on before it is chosen",
    "federation/party/party.py": "the parameter 'random' of a step",
    "federation/planning/rehearsal.py": "the same, in one process",
    "federation/methods/sample_map.py": "which samples are drawn in a figure",
    "federation/methods/estimator.py": "a seed where the user gave none",
    "secure/kmeans/coreset.py": "which samples stand for others",
    "secure/kmeans/noise.py": "where clusters begin",
    "secure/kmeans/on_sums.py": "where clusters begin",
    "secure/kmeans/private/approach.py": "where clusters begin",
    "secure/three_parties/tasks.py": "where clusters begin",
}


def seeded(path):
    """Whether a file imports what draws from a seed, or asks NumPy for it; types do not count."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        if {"random", "numpy.random", "daskfc.seeds"} & set(names):
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np.random."):
            if ast.unparse(node) != "np.random.Generator":
                return True
    return False


def test_secrets_are_drawn_from_no_seed():
    """NVFlare#4433 drew a nonce by a weak generator; FastLloyd's masks come from a public seed."""
    found = {
        str(path.relative_to(ROOT / "daskfc"))
        for folder in _SECRET
        for path in (ROOT / "daskfc" / folder).rglob("*.py")
        if seeded(path)
    }
    assert found == set(_SEEDED)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import random", True),
        ("from random import choice", True),
        ("from numpy import random", True),
        ("import numpy as np\nnp.random.default_rng(0)", True),
        ("from daskfc import seeds", True),
        ("from daskfc.seeds import generator", True),
        ("import numpy as np\ndef f(random: np.random.Generator): ...", False),
        ("import secrets", False),
    ],
)
def test_a_seed_is_found(text, told, tmp_path):
    (tmp_path / "a.py").write_text(text)
    assert seeded(tmp_path / "a.py") == told


def test_no_mask_comes_twice_over_many_resumes(tmp_path, monkeypatch):
    """MicroSecAgg (arXiv 2410.09676): a set-up that is used again makes masks predictable."""
    monkeypatch.setattr(party_module, "_LOGGERS", ())
    monkeypatch.setattr(party_module.logging, "captureWarnings", lambda capture: None)
    options = PartyOptions("a", "client", str(tmp_path))
    gate, peers = Gate(options), [KeyPair(SecretKey.from_os()).public for _ in range(3)]
    nonces, secrets, keys, first = set(), set(), set(), set()
    words = np.zeros(2, np.uint64)
    starts = [(f"r{i % 5}", f"start {i}") for i in range(250)]  # of five runs, resumed again
    for run_id, start in starts:
        settings = RunSettings(run_id, 0, start=start, request={"method": "OmniFC"})
        nonce = gate.admit(settings, None).nonce
        own = Party(replace(options, run=settings, nonce=nonce))._fill("secret", 0, "step", b"")
        nonces.add(nonce)
        secrets.add(own.to_bytes())
        pair = KeyPair(own.derive("masks"))
        for public, tag in itertools.product(peers, range(20)):
            key = pair.shared(public, "masks").derive("tag", tag)
            words[:] = 0
            add_mask(words, key)
            keys.add(key.to_bytes())
            first.add(words.tobytes())
    assert len(nonces) == len(secrets) == len(starts)
    assert len(keys) == len(first) == 60 * len(starts)
    # Whoever puts back the party's files has it forget its starts, and still gets no mask again.
    run_id, start = starts[0]
    forgot = Gate(options).admit(RunSettings(run_id, 0, start=start, request={}), None)
    assert forgot.nonce not in nonces


# -- what names and files of others do -------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("antigravity", "fly"),
        ("this", "s"),
        ("daskfc.__main__", "main"),
        ("daskfc..antigravity", "fly"),
        ("daskfc/../antigravity", "fly"),
        ("daskfcs", "anything"),
    ],
)
def test_a_name_is_refused_before_it_is_imported(module, name):
    """CVE-2026-24186: NVFlare's FOBS loaded the class whose name had come over the wire."""
    before = set(sys.modules)
    with pytest.raises(PrivacyError, match="may not be named in what is sent"):
        Reader().named(module, name)
    assert set(sys.modules) == before


def _zarr_objects(path, canary):
    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    group.create_array("X", data=np.eye(3), chunks=(3, 3), compressors=None)
    array = path / "X"
    about = json.loads((array / ".zarray").read_text())
    about |= {"dtype": "|O", "fill_value": None, "filters": [{"id": "pickle", "protocol": 4}]}
    (array / ".zarray").write_text(json.dumps(about))
    (array / "0.0").write_bytes(pickle.dumps([canary, (3, 3)]))


def _npz_objects(path, canary):
    np.savez(path, X=np.array([[canary, canary]], dtype=object))


def _npy_stack(path, canary):
    """What `dask.array.from_npy_stack` opens: a folder whose file ``info`` is a pickle."""
    path.mkdir()
    (path / "info").write_bytes(pickle.dumps(canary))
    np.save(path / "0.npy", np.eye(3))


def _mat_object(path, canary):
    scipy.io.savemat(path, {"X": np.array([[1.0]]), "Y": np.array([[1]])})
    path.write_bytes(path.read_bytes()[:128] + pickle.dumps(canary))


@pytest.mark.parametrize(
    ("name", "write", "format"),
    [
        ("a.zarr", _zarr_objects, "zarr"),
        ("a.npz", _npz_objects, "npz"),
        ("stack", _npy_stack, "zarr"),
        ("a.mat", _mat_object, "mat"),
    ],
)
def test_a_file_of_others_runs_no_code(name, write, format, tmp_path):
    """dask/dask#12578 and CVE-2024-10096: data that is opened as a pickle runs what it says."""
    path = tmp_path / name
    write(path, Canary(tmp_path / "it-ran"))
    with pytest.raises(StoreError):
        list(open_source(SourceConfig(path=str(path), format=format)).blocks(10))
    with pytest.raises(StoreError):
        ClientStore.open(str(path))
    assert not (tmp_path / "it-ran").exists()
    assert "pickle" in numcodecs.registry.codec_registry  # so that it was there to be named


def test_an_archive_leads_nowhere_else(tmp_path):
    """CVE-2026-24204 and NVFlare#4509: entries of an archive named ``../`` were written there."""
    path = tmp_path / "in" / "a.npz"
    path.parent.mkdir()
    np.savez(path, X=np.eye(3))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../out.npy", b"x")
        archive.writestr("/tmp/out.npy", b"x")
    before = sorted(tmp_path.rglob("*"))
    (block,) = open_source(SourceConfig(path=str(path))).blocks(10)
    np.testing.assert_array_equal(block, np.eye(3))
    with pytest.raises(StoreError):
        open_source(SourceConfig(path=str(path), features="../../out"))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_chunk_that_is_a_link_elsewhere_is_not_told(tmp_path):
    """NVFlare#4879: a link in a signed folder gave whatever file it led to."""
    url = stores_of(tmp_path, {"a": np.arange(8.0).reshape(4, 2)})["a"]
    other = tmp_path / "other"
    other.write_bytes(b"whose words nobody may read")
    chunk = Path(url) / "features" / "c" / "0" / "0"
    chunk.unlink()
    chunk.symlink_to(other)
    with pytest.raises(DaskfcError, match="damaged") as caught:
        ClientStore.open(url, verify=True)
    assert "words" not in str(caught.value)


# -- what a run leaves where others look -----------------------------------------------------------


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A local federation with Dask's pages, after a fit with noise, masked sums and an error."""
    earlier = Earlier(listening(), own_secrets())
    folder = tmp_path_factory.mktemp("ran")
    cluster = {"cluster": "local", "dashboard": f"127.0.0.1:{free_port()}"}
    found = importlib.util.find_spec
    with pytest.MonkeyPatch.context() as patch:  # Dask serves a page without Bokeh, too
        patch.setattr(
            importlib.util, "find_spec", lambda name, *rest: name == "bokeh" or found(name, *rest)
        )
        federation = Federation.local(stores_of(folder, ROWS), cluster=cluster)
    with federation:
        noise = {"kind": "data", "epsilon": 0.8, "delta": 1e-5, "clip": 10.0}
        run = {"random_state": 0, "workspace": str(folder / "run"), "deadline_s": 60}
        federation.start_run("fails", **run)
        with pytest.raises(DaskfcError):
            federation.wait(list(federation.ask(steps.fails_with_cause).values()))
        federation.start_run("masked", **run)
        total(federation)
        FedSC(2, noise=noise, random_state=0).fit(federation)
        yield federation, folder, earlier


def total(federation):
    """Add up arrays of all clients behind masks."""
    ring, tag = FixedPoint.for_bound(1e3, n_terms=3), "all"
    graph = federation.clients, 0
    near = PerClient(masked.mask_neighbours(*graph))
    public = federation.exchange(masked.public_key, *graph, receivers=near)
    keys = federation.on_clients(masked.agree, public, *graph)
    sent = federation.ask(masked.masked_part, federation.on_clients(sums.rows), keys, ring, tag)
    federation.wait(list(sent.values()))


def processes():
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def listening():
    """Where this process and its children listen: TCP, and UDP of any kind."""
    return {
        (line.laddr.ip, line.laddr.port)
        for process in processes()
        for line in process.net_connections(kind="inet")
        if line.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)
    }


def own_secrets():
    """What this process knows: the driver's secrets, and those of the parties that it started."""
    options = [one for one in gc.get_objects() if type(one) is PartyOptions]
    keys = [one for one in gc.get_objects() if type(one) is SecretKey]
    keys += [*Here.keys, *(one.secret for one in options)]
    return {key.to_bytes() for key in keys} | {one.nonce for one in options if one.nonce}


class Earlier(NamedTuple):
    """What other tests of this process left behind: their keys are zeros or a letter."""

    listens: set[tuple[str, int]]
    secrets: set[bytes]


@pytest.mark.slow
def test_a_local_federation_listens_on_the_loopback_alone(ran):
    """CVE-2021-42343: Dask's LocalCluster listened on every address, nannies and pages too."""
    federation, _, earlier = ran
    listens = listening() - earlier.listens
    assert {ip for ip, _ in listens} == {"127.0.0.1"}
    workers = federation.dask_client.scheduler_info(n_workers=-1)["workers"]
    told = [federation.dask_client.scheduler.address, federation.dashboard_link, *workers]
    told += [one["nanny"] for one in workers.values()]
    ports = {int(re.search(r":(\d+)", one.split("//")[1])[1]) for one in told}
    assert ports <= {port for _, port in listens}
    assert len(ports) == 2 + 2 * len(workers)


def forms(secret):
    """How bytes may stand in a text."""
    return {secret, secret.hex().encode(), base64.b64encode(secret), repr(secret)[2:-1].encode()}


def told_in(secrets, texts):
    """Return which texts hold a secret, in whatever form."""
    looked_for = set().union(*map(forms, secrets))
    return {name for name, text in texts.items() if any(one in text for one in looked_for)}


@pytest.mark.slow
def test_no_key_is_in_a_file_or_on_a_command_line(ran, capfd):
    """NVFlare#4932, #4933, #4979: tokens stood in logs and in what `ps` shows of a process."""
    federation, folder, earlier = ran
    secrets = own_secrets() - earlier.secrets
    assert len(secrets) > len(federation.clients)
    files = [path for place in (folder, own_folder()) for path in place.rglob("*")]
    texts = {str(path): path.read_bytes() for path in files if path.is_file()}
    assert any(name.endswith("ledger.jsonl") for name in texts)
    assert any(name.endswith("party.log") and text for name, text in texts.items())
    for process in processes()[1:]:
        texts[f"ps {process.pid}"] = "\0".join(process.cmdline()).encode()
        texts[f"environment {process.pid}"] = repr(process.environ()).encode()
    texts["repr"] = repr([one for one in gc.get_objects() if type(one) is PartyOptions]).encode()
    assert told_in(secrets, texts) == set()
    one = next(iter(secrets))
    assert told_in(secrets, {"a": b"key=" + one.hex().encode(), "b": b"none"}) == {"a"}

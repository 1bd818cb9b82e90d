"""Blocks of distances are the same whether the server decodes them alone or with its workers."""

import itertools
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.coding import ENGINES, LagrangeCode, ResidueSystem, SecretKey, coded_distances
from daskfc.errors import DecodingError
from daskfc.federation import Federation
from daskfc.federation.messages.declaration import check_message
from daskfc.federation.party.process_memory import PROCESS_BYTES
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.pairwise import DistanceTiles, NeighbourTiles, RadiusTiles, SymmetricGrid
from daskfc.protocols import OmniFC
from daskfc.runs.planning.rehearse import STAND_INS
from daskfc.secure.distances import SecureDistances, choose_code
from daskfc.secure.distances.parties import server
from daskfc.secure.distances.parties.messages import CodedDistances
from daskfc.secure.distances.routes import divided, streaming
from daskfc.secure.distances.sizing.memory import Workload, needs
from daskfc.stores import ClientStore
from daskfc.testing.federation import stores_of
from tests.federation.test_recovery import kill

KEEPS = {
    "full": {},
    "neighbours": {"n_neighbors": 3, "radius2": None},
    "radius": {"n_neighbors": None, "radius2": 40.0},
}
PARTS = {
    "full": ("DistancesOfBlock", {}),
    "neighbours": ("NearestOfBlock", {"n_neighbors": 3}),
    "radius": ("PairsOfBlock", {"radius2": 40.0}),
}


def asked(keep):
    return {"n_neighbors": None, "radius2": None, **KEEPS[keep]}


def kept(tiles):
    """Return all that a store of blocks tells, in one order."""
    if isinstance(tiles, NeighbourTiles):
        graph = tiles.graph()
        return graph.indices, graph.distances
    if isinstance(tiles, RadiusTiles):
        pairs = [np.empty((0, 2), np.int32), *(np.transpose(pair) for pair in tiles.edges())]
        return (np.unique(np.concatenate(pairs), axis=0),)
    return (tiles.full(),)


# -- the steps, with plain arguments --------------------------------------------------------------

SYSTEMS = {
    "three primes": ((251, 241, 239), 1.0),
    "four primes and a scale": ((251, 241, 239, 233), 4.0),
    "more than 32 bits": ((251, 241, 239, 233, 229), 1.0),
    "large primes": ((8388593, 8388587), 2.0),
}


def answers_of(X, code, system, evaluators, i, j, grid):
    """Have evaluators answer for a block of rows of whole numbers."""
    engine = ENGINES["f64"]
    shares = code.encode(X, system, SecretKey.from_bytes(bytes(32)))
    return {
        name: CodedDistances(
            coded_distances(share[:, grid.panel(i)], share[:, grid.panel(j)], system, engine), 7
        )
        for name, share in zip(evaluators, shares, strict=True)
    }


@given(data=st.data())
@settings(max_examples=40)
def test_what_workers_hand_back_is_what_the_server_decodes(data, tmp_path_factory):
    keep = data.draw(st.sampled_from(list(KEEPS)))
    primes, scale = SYSTEMS[data.draw(st.sampled_from(list(SYSTEMS)))]
    code = LagrangeCode(*data.draw(st.sampled_from([(1, 1, 3), (1, 1, 4), (2, 1, 5), (1, 2, 6)])))
    n, d = data.draw(st.integers(4, 14)), data.draw(st.integers(1, 4))
    most = data.draw(st.sampled_from([1, 5, 100]))  # few numbers: ties, and rows that are equal
    X = np.array(data.draw(st.lists(st.integers(0, most), min_size=n * d, max_size=n * d)))
    X = X.reshape(n, d)
    system = ResidueSystem(primes, scale, bound=min(d * most**2, np.prod(primes, dtype=object) - 1))
    grid = SymmetricGrid(n, data.draw(st.integers(-(-n // 4), 6)))  # of ten blocks at most
    evaluators = tuple(f"client-{number}" for number in range(code.n_evaluators))
    public = {"code": code, "system": system, "evaluators": evaluators}
    step, told = divided.block_part(**asked(keep))
    alone, together = (
        server.open_tiles(
            str(tmp_path_factory.mktemp("server")), name="tiles", grid=grid, **asked(keep)
        )
        for _ in range(2)
    )
    blocks = list(grid.blocks())
    for i, j in data.draw(st.permutations(blocks)):
        answers = answers_of(X, code, system, evaluators, i, j, grid)
        secret = SecretKey.from_os()
        server.decode_block(alone, answers, secret, i=i, j=j, **public)
        if data.draw(st.booleans()):
            part = step(answers, secret, i=i, j=j, **told, **public)
            check_message(part)
            divided.keep_part(together, part, i=i, j=j, system=system)
        else:
            server.decode_block(together, answers, secret, i=i, j=j, **public)
    for ours, theirs in zip(kept(together), kept(alone), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    whole = ((X[:, None] - X[None]) ** 2).sum(axis=2) / scale**2
    if keep == "full":
        np.testing.assert_array_equal(kept(together)[0], whole)
    elif keep == "radius":
        pairs = np.argwhere(np.triu(whole <= 40.0, 1))
        np.testing.assert_array_equal(kept(together)[0].reshape(-1, 2), pairs)
    else:
        np.fill_diagonal(whole, np.inf)
        order = np.argsort(whole, axis=1, kind="stable")[:, :3]
        np.testing.assert_array_equal(kept(together)[0], order)
        np.testing.assert_array_equal(kept(together)[1], np.take_along_axis(whole, order, axis=1))


@pytest.fixture
def block(tmp_path):
    """Return answers of five evaluators to a block of two panels, and what steps are told."""
    X = np.random.default_rng(0).integers(0, 50, (8, 3))
    code, grid = LagrangeCode(1, 1, 5), SymmetricGrid(8, 4)
    system = ResidueSystem((251, 241, 239), 1.0, bound=3 * 50**2)
    evaluators = tuple("abcde")
    answers = answers_of(X, code, system, evaluators, 0, 1, grid)
    return answers, {"i": 0, "j": 1, "code": code, "system": system, "evaluators": evaluators}


@pytest.mark.parametrize("keep", KEEPS)
def test_a_liar_is_named_by_a_worker(block, keep, tmp_path):
    answers, public = block
    answers["d"].residues[1, 2, 3] ^= 1
    step, told = divided.block_part(**asked(keep))
    part = step(answers, SecretKey.from_os(), **told, **public)
    assert part.wrong.tolist() == [3]
    tiles = server.open_tiles(str(tmp_path), name="a", grid=SymmetricGrid(8, 4), **asked(keep))
    decoded = divided.keep_part(tiles, part, i=0, j=1, system=public["system"])
    assert decoded.wrong.tolist() == [3]
    assert tiles.done() == {(0, 1)}


@pytest.mark.parametrize("keep", KEEPS)
def test_two_liars_end_a_run(block, keep):
    answers, public = block
    answers["d"].residues[1] ^= 1
    answers["a"].residues[1] ^= 2
    step, told = divided.block_part(**asked(keep))
    with pytest.raises(DecodingError, match="contradict each other"):
        step(answers, SecretKey.from_os(), **told, **public)


def test_what_is_handed_back_twice_is_kept_once(block, tmp_path):
    answers, public = block
    tiles = server.open_tiles(
        str(tmp_path), name="a", grid=SymmetricGrid(8, 4), **asked("neighbours")
    )
    part = divided.nearest_in_block(answers, SecretKey.from_os(), n_neighbors=3, **public)
    for _ in range(2):
        divided.keep_part(tiles, part, i=0, j=1, system=public["system"])
    for i in range(2):
        own = answers_of(
            np.random.default_rng(0).integers(0, 50, (8, 3)), public["code"], public["system"],
            public["evaluators"], i, i, tiles.grid,
        )  # fmt: skip
        server.decode_block(tiles, own, SecretKey.from_os(), **{**public, "i": i, "j": i})
    assert (np.diff(np.sort(tiles.graph().indices, axis=1), axis=1) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("keep", KEEPS)
def test_memory_of_a_worker_stays_within_the_plan(keep, ties):
    n, d, code = 1024, 20, LagrangeCode(1, 1, 4)
    X = np.random.default_rng(0).integers(0, 200, (2 * n, d))
    if ties:
        X[:] = 1
    grid, system = SymmetricGrid(2 * n, n), ResidueSystem((251, 241, 239), 1.0, bound=d * 200**2)
    evaluators = tuple("abcd")
    answers = answers_of(X, code, system, evaluators, 0, 1, grid)
    public = {"code": code, "system": system, "evaluators": evaluators}
    k = asked(keep)["n_neighbors"]
    work = Workload(2 * n, d, 1, 3, 4, mode=keep, n_neighbors=k, window=3)
    step, told = divided.block_part(**asked(keep))
    secret = SecretKey.from_os()
    tracemalloc.start()
    try:
        step(answers, secret, i=0, j=1, **told, **public)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # one block's answers were there before, and those of another may arrive meanwhile
    of_blocks = 2 * 4 * 3 * n * n
    assert peak + of_blocks <= needs(work, n, 2).worker_bytes - PROCESS_BYTES
    assert needs(work, n, 2).worker_bytes - PROCESS_BYTES <= 3 * (peak + of_blocks)


# -- in a federation ------------------------------------------------------------------------------

ROWS = {
    f"client-{number}": np.random.default_rng(number).integers(0, 9, (11, 3)).astype(float)
    for number in range(1, 5)
}
TILE = 8  # 44 samples: 21 blocks, the last panel of 4 samples
CLUSTER = {
    "cluster": "local",
    "server": {"workers": 3},
    "worker": {"memory_limit": "1500MB"},
    "parties": {"server": {"memory_limit": "1500MB"}},
}
_runs = itertools.count()


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    return stores_of(tmp_path_factory.mktemp("stores"), ROWS)


@pytest.fixture(scope="module")
def processes(urls):
    with Federation.local(urls, cluster=CLUSTER) as running:
        yield running


def distances_of(federation, *, spares=1):
    code = choose_code(len(federation.clients), 1, 1, spares)
    return SecureDistances.of_samples(federation, code, tolerance=1e-4, tile=TILE)


def computed(federation, monkeypatch, folder, keep, workers, *, spares=1, after=None):
    """Return what the server keeps with some of its workers, and the run's ledger."""
    monkeypatch.setattr(federation, "server_workers", ("server-2", "server-3")[: workers - 1])
    federation.start_run(f"run-{next(_runs)}", random_state=0, workspace=str(folder), deadline_s=60)
    monkeypatch.setattr(federation, "on_progress", after)
    distances = distances_of(federation, spares=spares)
    federation.wait(distances.blocks(keep, **KEEPS[keep]))
    assert distances.dropped == {}
    name = {"full": "distances", "neighbours": "candidates", "radius": "within"}[keep]
    kind = {"full": DistanceTiles, "neighbours": NeighbourTiles, "radius": RadiusTiles}[keep]
    (array,) = (path for path in Path(folder).rglob(name) if path.is_dir())
    return kept(kind.open(str(array.parent))), federation.ledger


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("spares", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("keep", KEEPS)
def test_the_number_of_workers_changes_nothing_but_who_is_told(
    processes, urls, monkeypatch, tmp_path, keep, spares
):
    monkeypatch.setattr(streaming, "SHORTEST_GRACE", 60.0)  # so that every answer is counted
    found, ledgers = {}, {}
    for workers in (1, 2, 3):
        found[workers], ledgers[workers] = computed(
            processes, monkeypatch, tmp_path / str(workers), keep, workers, spares=spares
        )
        for ours, theirs in zip(found[workers], found[1], strict=True):
            np.testing.assert_array_equal(ours, theirs)
    routes = {
        workers: {(row.sender, row.receiver, row.message) for row in ledger}
        for workers, ledger in ledgers.items()
    }
    evaluators = processes.clients[: 3 + spares]
    message = PARTS[keep][0]
    for workers, names in ((2, ["server-2"]), (3, ["server-2", "server-3"])):
        assert routes[workers] - routes[1] == {
            *((client, name, "CodedDistances") for client in evaluators for name in names),
            *((name, "server", message) for name in names),
        }
        answers = Counter(
            row.receiver for row in ledgers[workers] if row.message == "CodedDistances"
        )
        each = len(evaluators) * 21 // workers
        assert sum(answers.values()) == len(evaluators) * 21
        assert all(abs(count - each) <= len(evaluators) for count in answers.values())
        # every part is asked for once, and is much smaller than its answers but where all is kept
        assert sum(row.message == message for row in ledgers[workers]) == sum(
            answers[name] for name in names
        ) // len(evaluators)
    for workers in (1, 2, 3):
        _planned_as_told(processes, urls, keep, workers, spares, ledgers[workers])


def _planned_as_told(federation, urls, keep, workers, spares, ledger):
    stores = {name: ClientStore.open(url) for name, url in urls.items()}
    names = ("server-2", "server-3")[: workers - 1]
    limits = federation.limits()
    rehearsal = Rehearsal(stores, STAND_INS, limits=limits, server_workers=names)
    rehearsal.start_run("plan", random_state=0)
    distances_of(rehearsal, spares=spares).blocks(keep, **KEEPS[keep])
    sent = [
        Counter((row.message, row.sender, row.receiver) for row in one)
        for one in (rehearsal.ledger, ledger)
    ]
    assert sent[0] == sent[1]
    assert rehearsal.ledger.payload_bytes == ledger.payload_bytes
    assert rehearsal.ledger.wire_bytes == pytest.approx(ledger.wire_bytes, rel=0.02)
    assert set(names) <= set(rehearsal.memory)
    assert all(rehearsal.memory[name][0] > PROCESS_BYTES for name in names)


@pytest.mark.long
@pytest.mark.parametrize("victim", ["server", "server-2", "client-1"])
@pytest.mark.parametrize("keep", KEEPS)
def test_a_party_that_is_killed_changes_nothing(processes, monkeypatch, tmp_path, keep, victim):
    wanted, _ = computed(processes, monkeypatch, tmp_path / "undisturbed", keep, 1)
    killed = []

    def kill_once(stage, done, total):
        if stage == "distances" and not killed:
            assert done < total
            killed.append(kill(processes, victim))

    found, _ = computed(processes, monkeypatch, tmp_path / "killed", keep, 3, after=kill_once)
    assert killed
    assert processes.processes.pid(victim) != killed[0]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_workers(processes, monkeypatch, tmp_path):
    class Stop(Exception):
        pass

    def stop(stage, done, total):
        if stage == "distances" and done > total / 3:
            raise Stop

    with pytest.raises(Stop):
        computed(processes, monkeypatch, tmp_path / "a", "neighbours", 3, after=stop)
    found, ledger = computed(processes, monkeypatch, tmp_path / "a", "neighbours", 2)
    wanted, whole = computed(processes, monkeypatch, tmp_path / "b", "neighbours", 1)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    asked_again, all_of_them = (
        sum(row.message == "CodedDistances" for row in one) for one in (ledger, whole)
    )
    assert 0 < asked_again < all_of_them


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "told"),
    [
        ({"server-2": 1, "server-3": None}, {"server"}),
        ({"server-2": None, "server-3": 1}, {"server", "server-2"}),
        ({"server-2": None, "server-3": None}, {"server", "server-2", "server-3"}),
    ],
)
def test_workers_without_room_decode_nothing(processes, monkeypatch, tmp_path, room, told):
    known = processes.limits()
    monkeypatch.setattr(processes, "limits", lambda: {**known, **room})
    _, ledger = computed(processes, monkeypatch, tmp_path, "radius", 3)
    assert {row.receiver for row in ledger if row.message == "CodedDistances"} == told


FITS = {
    "hierarchical": {"n_clusters": 3, "clusterer": "hierarchical"},
    "dbscan": {"clusterer": {"dbscan": {"eps": 1.5, "min_samples": 2}}},
    "spectral": {"n_clusters": 3, "clusterer": {"spectral": {"n_neighbors": 6}}},
}


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The neighbour graph has:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
@pytest.mark.usefixtures("approved")
def test_labels_do_not_depend_on_who_decodes(processes, monkeypatch, name):
    labels = {}
    for workers in (1, 3):
        monkeypatch.setattr(processes, "server_workers", ("server-2", "server-3")[: workers - 1])
        model = OmniFC(**FITS[name], distances="blocks", n_colluding=1, tile=TILE, random_state=0)
        labels[workers] = model.fit(processes).labels_.values
        decoders = {r.receiver for r in model.ledger_ if r.message == "CodedDistances"}
        assert len(decoders) == workers
    np.testing.assert_array_equal(labels[1], labels[3])
    assert len(set(labels[1].tolist())) > 1

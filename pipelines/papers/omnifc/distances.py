"""The distances themselves: error against the true ones (Table 7, Fig. 5), and their bits.

For evaluation on this machine only: what is read here is the server's own folder. In a run over
several hosts nobody but the server has these distances.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from daskfc import Federation
from daskfc.coding import select_engine
from daskfc.errors import InvalidInput, StoreError
from daskfc.federation.methods.sample_keys import own_digest_key
from daskfc.federation.methods.samples import canonical_positions, sample_digests
from daskfc.pairwise import DistanceTiles
from daskfc.secure.distances import SecureDistances, choose_code
from daskfc.stores import ClientStore, load_storage
from pipelines.papers import federations
from pipelines.papers.journal import Record

__all__ = [
    "SIZES",
    "canonical_labels",
    "canonical_rows",
    "code_study",
    "digest",
    "opened",
    "pooled_store",
    "reconstruct",
    "size_study",
    "stored_distances",
    "true_error",
    "z_scored",
]

SIZES = (1000, 2000, 3000, 5000, 7000, 10000)  # the paper's Table 7
CLIENTS = (3, 5, 7, 10, 20)  # the paper's Fig. 5 varies m, l and t
LARGEST_L_T = 4
SERVER_BYTES = "4GB"  # 10,000 samples: 0.8 GB of distances, counted twice where they are checked


@contextmanager
def opened(
    source: Mapping[str, Any], folder: Path, **partition: Any
) -> Iterator[tuple[Federation, dict[str, ClientStore]]]:
    """Open a federation of worker processes on stores that are built in a folder.

    The stores are opened here as well, for evaluation: labels, ids, true distances.
    """
    storage = {
        "source": dict(source),
        "partition": {"seed": 0, **partition},
        "layout": {"chunk_rows": 1024, "dtype": "float64"},
        "root": str(folder / "stores"),
    }
    parties = {"server": {"memory_limit": SERVER_BYTES}}
    with federations.opened(storage, parties=parties) as opened_parties:
        yield opened_parties


def canonical_rows(stores: Mapping[str, ClientStore]) -> np.ndarray:
    """Return all rows in the order in which the server holds its distances."""
    return _in_order(stores, lambda store: store.rows(0, store.n_samples))


def canonical_labels(stores: Mapping[str, ClientStore]) -> np.ndarray:
    """Return the true labels in the same order."""
    return _in_order(stores, federations.true_labels)


def _in_order(
    stores: Mapping[str, ClientStore], read: Callable[[ClientStore], np.ndarray]
) -> np.ndarray:
    key = own_digest_key(next(iter(stores.values())))  # the first client makes it for all
    positions = canonical_positions({name: sample_digests(s, key) for name, s in stores.items()})
    places = np.concatenate([positions[name] for name in stores])
    values = np.concatenate([read(store) for store in stores.values()])
    return values[np.argsort(places)]


def stored_distances(workspace: Path) -> DistanceTiles:
    """Open the one full matrix of distances in a server's folder."""
    found = []
    for path in sorted((workspace / "server").iterdir()):
        try:
            found.append(DistanceTiles.open(str(path)))
        except StoreError:
            continue  # a graph of neighbours or of a radius
    assert len(found) == 1, found
    return found[0]


def digest(tiles: DistanceTiles) -> str:
    """Return the SHA-256 of the matrix, row by row, as float64."""
    sha = hashlib.sha256()
    for _, rows in tiles.panels():
        sha.update(np.ascontiguousarray(rows).tobytes())
    return sha.hexdigest()


def true_error(panels: Iterable[tuple[int, np.ndarray]], X: np.ndarray, grid: int | None) -> Record:
    """Return the error of squared distances against those of the samples.

    Parameters
    ----------
    panels : iterable of (int, ndarray)
        First row and rows of the matrix.
    X : ndarray of shape (n, d)
        Samples in the order of the matrix.
    grid : int, optional
        The samples are integers divided by it: then the true distances are computed in integers,
        which float64 holds exactly.

    Returns
    -------
    dict
        ``rmse`` over all n² entries, ``scale`` (the mean squared distance), ``relative``, whether
        the diagonal is 0 and the matrix has no negative number.
    """
    points = X - X.mean(axis=0) if grid is None else np.rint(X * grid)
    unit = 1.0 if grid is None else float(grid) * float(grid)
    g = np.einsum("ij,ij->i", points, points)
    squares, total, zero, n = 0.0, 0.0, True, len(X)
    for start, rows in panels:
        stop = start + len(rows)
        D = points[start:stop] @ points.T
        D *= -2.0
        D += g
        D += g[start:stop, None]
        if grid is None:
            D[np.arange(stop - start), np.arange(start, stop)] = 0.0
        D /= unit
        squares += float(np.square(rows - D).sum())
        total += float(D.sum())
        zero &= not rows[np.arange(stop - start), np.arange(start, stop)].any()
    rmse, scale = float(np.sqrt(squares / n**2)), total / n**2
    return {"rmse": rmse, "scale": scale, "relative": rmse / scale, "zero_diagonal": bool(zero)}


def z_scored(X: np.ndarray) -> np.ndarray:
    """Return features with mean 0 and deviation 1; constant ones become 0."""
    deviation = X.std(axis=0)
    scored: np.ndarray = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return scored


def reconstruct(
    federation: Federation,
    workspace: Path,
    *,
    n_segments: int | None = None,
    n_colluding: int | None = None,
    n_spares: int | None = None,
    engine: str = "auto",
    without: Sequence[int] = (),
) -> DistanceTiles:
    """Run OmniFC up to the distances, and open them in the server's folder.

    Parameters
    ----------
    federation : Federation
        The parties.
    workspace : Path
        A new folder, or one whose distances are to be completed.
    n_segments, n_colluding, n_spares, engine
        As for `OmniFC`.
    without : sequence of int
        Evaluators that are never asked, so that another subset decodes.
    """
    code = choose_code(len(federation.clients), n_segments, n_colluding, n_spares)
    federation.start_run(uuid.uuid4().hex, random_state=0, workspace=str(workspace))
    distances = SecureDistances.of_samples(federation, code, tolerance=1e-4, engine=engine)
    if engine != "auto":  # an engine that is not there is passed over, and would not be compared
        n_columns = code.n_columns(distances.n_features)
        used = select_engine(distances.system, n_columns, engine).name
        assert used == engine, (used, engine)
    distances.dropped.update({federation.clients[j]: "left out on purpose" for j in without})
    distances.blocks("full")
    return stored_distances(workspace)


def _subset(mnist: Path, n: int, folder: Path, kind: str) -> dict[str, Any]:
    """Return the source of n MNIST samples: pixels / 255, or z-scored, which lie on no grid."""
    subsample = {"n": n, "seed": 0}
    if kind == "pixels":
        return {"path": str(mnist), "scale": 1 / 255, "subsample": subsample}
    store = pooled_store(_subset(mnist, n, folder, "pixels"), folder / "pool")
    np.savez(folder / "z.npz", X=z_scored(store.rows(0, n)), y=federations.true_labels(store))
    return {"path": str(folder / "z.npz")}


def pooled_store(source: Mapping[str, Any], folder: Path) -> ClientStore:
    """Build one store of all samples of a source, to read them through the same readers."""
    storage = load_storage(
        {
            "source": dict(source),
            "partition": {"scheme": "iid", "clients": 1},
            "layout": {"dtype": "float64"},
            "root": str(folder),
        }
    )
    storage.ensure()
    return storage.open()["client-1"]


def size_study(mnist: Path, folder: Path, sizes: Iterable[int]) -> Iterator[Record]:
    """Measure the error for growing numbers of samples (Table 7)."""
    for n in sizes:
        for kind, grid in (("pixels", 255), ("z-scored", None)):
            place = folder / f"{kind}-{n}"
            place.mkdir(parents=True)
            source = _subset(mnist, n, place, kind)
            with opened(source, place, scheme="label-skew", skew=0.75, clients=10) as (
                parties,
                stores,
            ):
                tiles = reconstruct(parties, place / "run")
            X = canonical_rows(stores)
            yield {"kind": "size", "n": n, "data": kind, **true_error(tiles.panels(), X, grid)}


def code_study(mnist: Path, folder: Path) -> Iterator[Record]:
    """Measure error and bits over clients, segments, colluders, spares and engines (Fig. 5)."""
    for kind, grid in (("pixels", 255), ("z-scored", None)):
        place = folder / kind
        place.mkdir(parents=True)
        source = _subset(mnist, 1000, place, kind)
        for m in CLIENTS:
            with opened(source, place / f"m{m}", scheme="iid", clients=m) as (parties, stores):
                X = canonical_rows(stores)
                for i, params in enumerate(_codes(m)):
                    record = {"kind": "code", "data": kind, "m": m, **params}
                    try:
                        tiles = reconstruct(parties, place / f"m{m}" / f"run{i}", **params)
                    except InvalidInput as refusal:
                        yield {**record, "refused": str(refusal)}
                        continue
                    error = true_error(tiles.panels(), X, grid)
                    yield {**record, **error, "sha": digest(tiles)}


def _codes(m: int) -> Iterator[dict[str, Any]]:
    for l in range(1, LARGEST_L_T + 1):  # noqa: E741
        for t in range(1, LARGEST_L_T + 1):
            yield {"n_segments": l, "n_colluding": t, "n_spares": 0}
    if m == 10:
        for spares in (1, 2, 3):
            yield {"n_segments": 2, "n_colluding": 2, "n_spares": spares}
        for without in ((0, 1, 2), (3, 5, 7), (7, 8, 9)):
            yield {"n_segments": 2, "n_colluding": 2, "n_spares": 3, "without": without}
        for engine in ("int8", "f32", "f64"):
            yield {"n_segments": 2, "n_colluding": 2, "n_spares": 1, "engine": engine}

"""What the cells of the FedSC paper are made of: data, noise, clients, pooled methods, scores."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from daskfc.clustering import make_clusterer
from daskfc.clustering.kernels.kernels import gaussian_kernel
from daskfc.clustering.kernels.low_rank_similarity import (
    default_neighbors,
    join_similar,
    most_similar,
)
from daskfc.federation import Federation
from daskfc.metrics import accuracy, nmi
from daskfc.metrics.matching import match_labels
from daskfc.protocols.fedsc.maths.dictionary_start import count_atoms, mean_distance
from daskfc.protocols.fedsc.maths.similarity_spectral import cluster_graph
from daskfc.seeds import generator
from daskfc.stores import PARTITIONS
from pipelines.papers import federations
from pipelines.papers.journal import Record

__all__ = [
    "DATASETS",
    "N_INIT",
    "Dataset",
    "Pool",
    "atoms_holding",
    "circles",
    "in_order",
    "opened",
    "pooled",
    "published_nmi",
    "published_settings",
    "random_cuts",
    "scores",
    "spectral",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_INIT = 50


@dataclass(frozen=True)
class Pool:
    """All samples of a data set, as one seed of a cell has them.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Classes, for evaluation.
    """

    X: Floats
    y: Ints

    def noisy(self, share: float, *labels: str | int) -> "Pool":
        """Add N(0, (share * std of all entries)²) to every entry, before anybody has the data.

        It is the experiment's corruption, drawn from a seed, and no mechanism of privacy.
        """
        E = generator(0, "paper", "noise", f"{share:g}", *labels).normal(size=self.X.shape)
        return Pool(self.X + share * float(self.X.std()) * E, self.y)


def _from_file(name: str) -> Callable[[Path, int], Pool]:
    def read(folder: Path, seed: int) -> Pool:
        with np.load(folder / f"{name}.npz") as file:
            return Pool(file["X"].astype(np.float64), file["y"].astype(np.int64))

    return read


def circles(folder: Path, seed: int) -> Pool:
    """Return the circles of Eq. 37, of radius 2 and 4, with noise of 0.1 σ as its text says."""
    theta = np.linspace(0.0, 2 * np.pi, 629)
    X = np.concatenate([r * np.stack([np.cos(theta), np.sin(theta)], axis=1) for r in (2.0, 4.0)])
    y = np.repeat(np.array([0, 1], dtype=np.int64), len(theta))
    return Pool(X, y).noisy(0.1, "circles", seed)


def _mnist(folder: Path, seed: int) -> Pool:
    with np.load(folder / "mnist.npz") as file:
        X, y = file["X"], file["y"]
    rows = np.sort(generator(0, "paper", "mnist").choice(len(X), 1000, replace=False))
    return Pool(X[rows] / 255.0, y[rows].astype(np.int64))


@dataclass(frozen=True)
class Dataset:
    """A data set of the paper's tables.

    Parameters
    ----------
    n_clusters : int
        K.
    read : callable
        The samples for a folder and a seed.
    n_seeds : int
        How many of the pipeline's seeds are run.
    noise : sequence of float
        The β of its tables.
    splits : sequence of str
        "equal": dealt at random, equally; "unequal": cut at random places.
    skips_class : bool
        Whether the paper's NMI leaves class 0 out.
    n_clients : int
        P.
    """

    n_clusters: int
    read: Callable[[Path, int], Pool]
    n_seeds: int = 10
    noise: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 0.7)
    splits: tuple[str, ...] = ("equal",)
    skips_class: bool = False
    n_clients: int = 8

    def deal(
        self, pool: Pool, seed: int, split: str = "equal", clients: int | None = None
    ) -> list[Ints]:
        """Return the rows of every client, P of them if no number is given."""
        clients = clients or self.n_clients
        if split == "unequal":
            return random_cuts(len(pool.y), clients, seed)
        return PARTITIONS["iid"](pool.y, clients, seed=seed)


DATASETS = {
    "iris": Dataset(3, _from_file("iris"), skips_class=True),
    "coil20": Dataset(20, _from_file("coil20_20x20"), n_seeds=5, splits=("equal", "unequal")),
    "banknote": Dataset(2, _from_file("banknote"), skips_class=True),
    "circles": Dataset(2, circles),
    "mnist": Dataset(10, _mnist, n_seeds=5, noise=(0.0, 0.3, 0.7)),
}


def random_cuts(n_samples: int, n_clients: int, seed: int) -> list[Ints]:
    """Cut samples in random order at random places, as the published code once did."""
    random = generator(seed, "paper", "cuts")
    order = random.permutation(n_samples)
    cuts = np.sort(random.choice(n_samples - 1, n_clients - 1, replace=False)) + 1
    return [np.sort(part).astype(np.int64) for part in np.split(order, cuts)]


@contextmanager
def opened(pool: Pool, parts: Sequence[Ints]) -> Iterator[Federation]:
    """Open a federation of worker processes whose clients hold these rows; ids are row numbers."""
    with federations.holding(pool.X, pool.y, parts) as federation:
        yield federation


def atoms_holding(X: Floats, mass: float = 0.99) -> int:
    """Return d of the pooled kernel, Eq. 43, which the paper knows and a federation does not."""
    return count_atoms(X, mean_distance(X), mass=mass, max_samples=len(X))


def published_settings(clean: Pool, noisy: Pool) -> dict[str, Any]:
    """Return FedSC's parameters in the published runs: d of the clean pool, r of the noisy one."""
    return {
        "n_atoms": atoms_holding(clean.X),
        "kernel_width": mean_distance(noisy.X),
        "rounds": 20,
        "ridge": 1e-3,
        "weighting": "uniform",
        "start": "normal",
        "stale_pair": True,
    }


def spectral(X: Floats, n_clusters: int, seed: int) -> tuple[Ints, int]:
    """Cluster pooled samples as FedSC's Stage II does, on the true kernel.

    Returns
    -------
    labels : ndarray of shape (n,)
    n_components : int
        Of the graph; with more than clusters, the leading eigenvectors are not determined.
    """
    K = gaussian_kernel(X, X, mean_distance(X))
    graph = join_similar([most_similar(K, 0, default_neighbors(len(X)))])
    labels = cluster_graph(graph, n_clusters, seed=seed, n_init=N_INIT).labels
    return labels, int(connected_components(graph, directed=False)[0])


def pooled(pool: Pool, n_clusters: int, seed: int) -> Iterator[Record]:
    """Yield the records of k-means and spectral clustering of all samples in one process."""
    found = make_clusterer({"k-means": {"n_init": N_INIT}}).pooled(pool.X, n_clusters, seed)
    yield {"method": "k-means", **scores(pool.y, found.labels)}
    labels, components = spectral(pool.X, n_clusters, seed)
    yield {"method": "SC", "components": components, **scores(pool.y, labels)}


def in_order(labels: xr.DataArray) -> Ints:
    """Return the row number of every label."""
    rows: Ints = labels.sample_id.values.astype(np.int64)
    return rows


def scores(y: Ints, labels: Ints) -> Record:
    """Return what a clustering is judged by."""
    return {
        "acc": accuracy(y, labels),
        "nmi": nmi(y, labels),
        "published_nmi": published_nmi(y, labels),
    }


def published_nmi(y: Ints, labels: Ints) -> float:
    """Return what the published code calls NMI of labels that begin with 0: class 0 is left out.

    Its loops over classes begin with 1, so that the first row and the first column of the table of
    matched labels count nowhere.

    Examples
    --------
    >>> import numpy as np
    >>> published_nmi(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
    1.0
    """
    true, found = match_labels(y, labels)
    size = int(max(true.max(), found.max())) + 1
    P = np.zeros((size, size))
    np.add.at(P, (true, found), 1.0 / len(true))
    rows, columns, joint = P.sum(axis=1)[1:], P.sum(axis=0)[1:], P[1:, 1:]
    share = joint / np.where(joint > 0, np.outer(rows, columns), 1.0)
    information = float((joint * np.log(np.where(joint > 0, share, 1.0))).sum())
    entropies = _entropy(rows) + _entropy(columns)
    return 2.0 * information / entropies if entropies > 0 else 1.0


def _entropy(shares: Floats) -> float:
    return -float((shares * np.log(np.where(shares > 0, shares, 1.0))).sum())

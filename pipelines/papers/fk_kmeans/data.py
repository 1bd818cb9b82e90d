"""The data sets of the paper, or as good as those, and federations whose clients hold them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from daskfc.federation import Federation
from daskfc.metrics import nmi
from daskfc.seeds import generator
from daskfc.stores import PARTITIONS
from pipelines.papers import federations
from pipelines.papers.fk_kmeans.values import CLIENTS, TABLE_1, Setting

__all__ = ["DATASETS", "Dataset", "Pool", "generated", "opened"]

Ints = NDArray[np.int64]

_APART = 0.5  # of the generated classes' means, in deviations of a sample from its mean


@dataclass(frozen=True)
class Pool:
    """All samples of a data set.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Samples, in the type in which stores keep them.
    y : ndarray of shape (n,)
        Classes, for evaluation.
    """

    X: NDArray[Any]
    y: Ints

    def drawn(self, n: int, *labels: str | int) -> "Pool":
        """Return n samples drawn at random, in their order; all where there are no more."""
        if n >= len(self.y):
            return self
        random = generator(0, "paper", "fk k-means", *labels)
        rows = np.sort(random.choice(len(self.y), n, replace=False))
        return Pool(self.X[rows], self.y[rows])

    def nmi(self, labels: xr.DataArray) -> float:
        """Return the normalised mutual information of found labels and the classes."""
        return nmi(self.y[labels.sample_id.values.astype(np.int64)], labels.values)


def _mushrooms(folder: Path) -> Pool:
    with np.load(folder / "mushrooms.npz") as file:
        return Pool(file["X"], file["y"].astype(np.int64))


def _mnist(folder: Path) -> Pool:
    with np.load(folder / "mnist.npz") as file:
        n = TABLE_1["MNIST"].n_samples  # images to train with come first
        return Pool(file["X"][:n], file["y"][:n].astype(np.int64))


def _mnist_small(folder: Path) -> Pool:
    return _mnist(folder).drawn(TABLE_1["MNIST-small"].n_samples, "MNIST-small")


def generated(n: int, setting: Setting) -> Pool:
    """Return Gaussian classes of different sizes, in the shape of a data set.

    Parameters
    ----------
    n : int
        Samples.
    setting : Setting
        Whose columns and classes.

    Examples
    --------
    >>> from pipelines.papers.fk_kmeans.data import generated
    >>> from pipelines.papers.fk_kmeans.values import TABLE_1
    >>> generated(100, TABLE_1["covtype"]).X.shape
    (100, 54)
    """
    k, d = setting.n_clusters, setting.n_columns
    random = generator(0, "paper", "fk k-means", "generated")
    shares = random.dirichlet(np.full(k, 3.0))
    means = _APART * random.standard_normal((k, d), dtype=np.float32)
    y = random.choice(k, n, p=shares)
    return Pool(means[y] + random.standard_normal((n, d), dtype=np.float32), y.astype(np.int64))


def _covtype(folder: Path) -> Pool:
    return generated(TABLE_1["covtype"].n_samples, TABLE_1["covtype"])


@dataclass(frozen=True)
class Dataset:
    """A data set of the paper.

    Parameters
    ----------
    name : str
        In Table 1.
    all_samples : callable
        From the folder of npz files to the pool.
    """

    name: str
    all_samples: Callable[[Path], Pool]

    @property
    def setting(self) -> Setting:
        """Return its row of Table 1."""
        return TABLE_1[self.name]

    @property
    def params(self) -> dict[str, Any]:
        """k, D and s for `FederatedKernelKMeans`."""
        setting = self.setting
        return {
            "n_clusters": setting.n_clusters,
            "n_features": setting.n_features,
            "n_eigenvectors": setting.n_eigenvectors,
        }

    def read(self, folder: Path, at_most: int | None = None) -> Pool:
        """Return the pool, or a part of it for a first look."""
        pool = self.all_samples(folder)
        return pool if at_most is None else pool.drawn(at_most, self.name, "first look")


DATASETS = {
    name: Dataset(name, read)
    for name, read in {
        "mushrooms": _mushrooms,
        "MNIST-small": _mnist_small,
        "MNIST": _mnist,
        "covtype": _covtype,
    }.items()
}


@contextmanager
def opened(
    pool: Pool, seed: int, server_memory: str = "4GB", **cluster: Any
) -> Iterator[Federation]:
    """Open a federation of M worker processes to which samples are dealt at random.

    Parameters
    ----------
    pool : Pool
        The samples.
    seed : int
        Of the dealing.
    server_memory : str
        Of the server; clients have 2 GB.
    **cluster
        Of a local cluster's file.
    """
    parts = PARTITIONS["iid"](pool.y, CLIENTS, seed=seed)
    limits = {"parties": {"server": {"memory_limit": server_memory}}, **cluster}
    with federations.holding(
        pool.X, pool.y, parts, dtype=pool.X.dtype.name, **limits
    ) as federation:
        yield federation

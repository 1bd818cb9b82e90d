"""Public data sets of many kinds, on which federated and pooled clusterers are compared.

Seven come with scikit-learn, the others are files of a folder. Labels say how many clusters are
looked for and which clients get a sample, and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import datasets

from daskfc.seeds import generator

__all__ = ["DATASETS", "Dataset", "Samples"]

MOST = 1500  # samples of a set


@dataclass(frozen=True)
class Samples:
    """Rows, float64, and the labels that tell clients and the number of clusters."""

    X: np.ndarray
    y: np.ndarray

    @property
    def n_clusters(self) -> int:
        """As many as there are labels."""
        return len(np.unique(self.y))


@dataclass(frozen=True)
class Dataset:
    """A data set, and where it is.

    Parameters
    ----------
    words : str
        What its columns are.
    read : callable
        From the folder of files to samples and labels.
    """

    words: str
    read: Callable[[Path], tuple[Any, Any]]

    def samples(self, folder: Path) -> Samples:
        """Return all samples, or `MOST` of them, drawn with seed 0, in the order of the file."""
        X, y = self.read(folder)
        rows = np.arange(len(y))
        if len(rows) > MOST:
            rows = np.sort(generator(0, "battery").choice(rows, MOST, replace=False))
        return Samples(np.asarray(X[rows], dtype=np.float64), np.asarray(y)[rows])


def _built_in(load: Callable[..., Any]) -> Callable[[Path], tuple[Any, Any]]:
    return lambda folder: load(return_X_y=True)


def _diabetes(folder: Path) -> tuple[Any, Any]:
    X, target = datasets.load_diabetes(return_X_y=True, scaled=False)
    return X, np.digitize(target, np.quantile(target, [0.25, 0.5, 0.75]))


def _linnerud(exercise: bool) -> Callable[[Path], tuple[Any, Any]]:
    def read(folder: Path) -> tuple[Any, Any]:
        X, body = datasets.load_linnerud(return_X_y=True)
        weight = body[:, 0]
        return (X if exercise else body), (weight > np.median(weight)).astype(int)

    return read


def _file(name: str, array: str = "X") -> Callable[[Path], tuple[Any, Any]]:
    def read(folder: Path) -> tuple[Any, Any]:
        with np.load(folder / f"{name}.npz") as file:
            return file[array], file["y"]

    return read


def _sparse_file(name: str) -> Callable[[Path], tuple[Any, Any]]:
    def read(folder: Path) -> tuple[Any, Any]:
        with np.load(folder / f"{name}.npz") as file:
            parts = tuple(file[f"X_{part}"] for part in ("data", "indices", "indptr"))
            return sparse.csr_array(parts, shape=tuple(file["X_shape"])).toarray(), file["y"]

    return read


DATASETS = {
    "iris": Dataset("lengths in tenths", _built_in(datasets.load_iris)),
    "wine": Dataset("chemical contents, each in its unit", _built_in(datasets.load_wine)),
    "breast-cancer": Dataset("measures of cells", _built_in(datasets.load_breast_cancer)),
    "digits": Dataset("pixels 0 to 16", _built_in(datasets.load_digits)),
    "diabetes": Dataset("ages, indices, blood", _diabetes),
    "linnerud-exercise": Dataset("counts", _linnerud(exercise=True)),
    "linnerud-body": Dataset("whole measures", _linnerud(exercise=False)),
    "banknote": Dataset("wavelet moments", _file("banknote")),
    "mushrooms": Dataset("one-hot words", _file("mushrooms")),
    "coil20": Dataset("grey levels", _file("coil20")),
    "coil20-20x20": Dataset("grey levels, resampled", _file("coil20_20x20")),
    "circles": Dataset("points of a plane", _file("concentric_circles")),
    "circles-noisy": Dataset("the same, with noise", _file("concentric_circles", "X_noisy")),
    "mnist": Dataset("pixels 0 to 255", _file("mnist")),
    "cora": Dataset("words, there or not", _sparse_file("cora")),
    "pubmed": Dataset("TF-IDF of words", _sparse_file("pubmed")),
    "mfeat-fourier": Dataset("Fourier coefficients", _file("hw_mfeat", "view0")),
    "mfeat-profiles": Dataset("profile correlations, whole", _file("hw_mfeat", "view1")),
    "mfeat-karhunen": Dataset("Karhunen-Loève coefficients", _file("hw_mfeat", "view2")),
    "mfeat-pixels": Dataset("pixels 0 to 6", _file("hw_mfeat", "view3")),
    "mfeat-zernike": Dataset("Zernike moments", _file("hw_mfeat", "view4")),
    "mfeat-shape": Dataset("morphology, each in its unit", _file("hw_mfeat", "view5")),
    "bdgp-visual": Dataset("histograms", _file("bdgp", "view0")),
    "bdgp-text": Dataset("words, there or not", _file("bdgp", "view1")),
    "synthetic3d-1": Dataset("Gaussian mixture", _file("synthetic3d", "view0")),
    "synthetic3d-2": Dataset("Gaussian mixture", _file("synthetic3d", "view1")),
    "synthetic3d-3": Dataset("Gaussian mixture", _file("synthetic3d", "view2")),
}
"""By name; values are as published: nothing is scaled, centred or imputed."""

"""Planetoid's citation graphs, Cora, Citeseer and Pubmed, as they were distributed.

Source      Yang, Cohen and Salakhutdinov 2016, arXiv 1603.08861; files of kimiyoung/planetoid.
Files       ind.NAME.allx, .ally    features and one-hot labels of all nodes but the test nodes
            ind.NAME.tx, .ty        those of the test nodes
            ind.NAME.test.index     the node of every row of tx, in no order
            ind.NAME.graph          neighbours of every node
Departures  (1) The graph is made symmetric and unweighted; loops are kept and have weight 1.
            (2) Citeseer has 15 nodes that neither allx nor test.index knows. They are kept, without
            features, so that there are 3327 nodes as in the literature. Nobody labelled them. As
            in the literature, whose argmax of an empty row is 0, they count as class 0: at most
            0.45 points of accuracy.
"""

from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.graph import checked_graph
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.locations import filesystem, resolve_url
from daskfc.stores.layout.samples import Samples, blocks_of, reading
from daskfc.stores.sources.pickles import load_numbers
from daskfc.stores.sources.source import Source

_PARTS = ("allx", "ally", "tx", "ty", "test.index", "graph")


class Planetoid(Source):
    """The raw files of a Planetoid graph; their pickles are read without running anything.

    Samples are in the order of the nodes; small whole features become uint8; nodes without a label
    count as class 0, see the module's departures.
    """

    prefixes = ("ind.",)

    def files(self, source: SourceConfig) -> list[str]:
        """Return the URLs of the six files of ``ind.NAME``, or of a folder's only graph."""
        url = resolve_url(str(source.path))
        fs, inner = filesystem(url)
        with reading(url, "planetoid"):
            if fs.isdir(inner):
                names = [str(path).rpartition("/")[2] for path in fs.ls(inner, detail=False)]
                found = sorted(
                    name.removesuffix(".graph")
                    for name in names
                    if name.startswith("ind.") and name.endswith(".graph")
                )
                if len(found) != 1:
                    raise StoreError(
                        f"{url}: a folder of Planetoid's files must hold one ind.NAME.graph; got "
                        f"{len(found)}{': ' * bool(found)}{', '.join(found[:12])}. Let source.path "
                        "end in one ind.NAME."
                    )
                url = f"{url}/{found[0]}"
        return [f"{url}.{part}" for part in _PARTS]

    def open(self, source: SourceConfig) -> Samples:
        """Read all six files."""
        files = self.files(source)
        path = files[0].removesuffix(f".{_PARTS[0]}")
        content = _contents(files, path)
        X_rest, X_test = (_features(content[part], f"{path}.{part}") for part in ("allx", "tx"))
        y_rest, y_test = (_classes(content[part], f"{path}.{part}") for part in ("ally", "ty"))
        test = _positions(content["test.index"], f"{path}.test.index")
        for names, sizes in {
            "allx and tx as many columns": (X_rest.shape[1], X_test.shape[1]),
            "allx and ally as many rows": (X_rest.shape[0], len(y_rest)),
            "tx, ty and test.index as many rows": (X_test.shape[0], len(y_test), len(test)),
        }.items():
            if len(set(sizes)) > 1:
                got = ", ".join(str(size) for size in sizes)
                raise StoreError(f"{path}: of Planetoid's files, {names} must be; got {got}.")
        n_rest, n = X_rest.shape[0], int(test.max(initial=X_rest.shape[0] - 1)) + 1
        if len(np.unique(test)) < len(test) or test.min(initial=n_rest) < n_rest:
            raise StoreError(
                f"{path}.test.index: test nodes must differ and follow the {n_rest} nodes of allx; "
                "they do not. Get the file again."
            )
        where = np.concatenate([np.arange(n_rest), test])
        A = _graph(content["graph"], n, where, f"{path}.graph")
        labels = np.zeros(n, dtype=np.int64)
        labels[where] = np.concatenate([y_rest, y_test])
        stacked = sparse.coo_array(sparse.vstack([X_rest, X_test]))
        at = (where[stacked.coords[0]], stacked.coords[1])
        X = sparse.csr_array((_narrow(stacked.data), at), shape=(n, X_rest.shape[1]))
        return Samples(n, default_names(X.shape[1]), blocks_of(X), labels, graph=A)


def _contents(files: list[str], path: str) -> dict[str, bytes]:
    """Return the bytes of every part."""
    content, missing = {}, []
    for part, url in zip(_PARTS, files, strict=True):
        fs, inner = filesystem(url)
        with reading(url, "planetoid"):
            try:
                content[part] = bytes(fs.cat_file(inner))
            except FileNotFoundError:
                missing.append(part)
                if len(missing) == len(_PARTS):
                    raise
    if missing:
        raise StoreError(
            f"{path}: the source must have the files {', '.join(_PARTS)} of one Planetoid graph; "
            f"{', '.join(missing)} of them are not there. Get them too."
        )
    return content


def _features(data: bytes, where: str) -> sparse.csr_array:
    value = load_numbers(data, where)
    if not isinstance(value, sparse.csr_array):
        raise _unlike(where, "a matrix of sparse rows", value)
    return value


def _classes(data: bytes, where: str) -> np.ndarray:
    """Return labels from one-hot rows; 0 for rows without a class."""
    value = load_numbers(data, where)
    if not isinstance(value, np.ndarray) or value.ndim != 2 or not value.shape[1]:
        raise _unlike(where, "an array of one-hot rows", value)
    if not np.isin(value, (0, 1)).all() or (value.sum(axis=1) > 1).any():
        raise StoreError(
            f"{where}: every row must be 1 at its class and 0 elsewhere; some are not. Get the "
            "file again."
        )
    classes: np.ndarray = value.argmax(axis=1)
    return classes


def _positions(data: bytes, where: str) -> np.ndarray:
    words = data.split()
    try:
        if not all(word.isdigit() for word in words):  # Python's int takes 1_0 for 10
            raise ValueError
        return np.array([int(word) for word in words], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise StoreError(
            f"{where}: the file must have the number of a node in every line; it has something "
            "else. Get it again."
        ) from error


def _graph(data: bytes, n: int, described: np.ndarray, where: str) -> sparse.csr_array:
    """Return the symmetric graph of n nodes; raise if it lacks one that has no features."""
    value = load_numbers(data, where)
    if not isinstance(value, dict) or not all(isinstance(v, list) for v in value.values()):
        raise _unlike(where, "a dictionary of the neighbours of every node", value)
    for node in chain(value, *value.values()):
        if type(node) is not int or not 0 <= node < n:
            raise StoreError(
                f"{where}: nodes must be integers in [0, {n - 1}], as the features and test.index "
                "say; got another. See that all files are of one graph."
            )
    nodes = np.fromiter(value, np.int64, len(value))
    lonely = n - len(np.union1d(nodes, described))
    if lonely:
        raise StoreError(
            f"{where}: the graph must have every node up to the last of test.index; {lonely} "
            "without features are not there either. See that all files are of one graph."
        )
    ends = [len(neighbours) for neighbours in value.values()]
    columns = np.fromiter(chain(*value.values()), np.int64, sum(ends))
    A = sparse.csr_array((np.ones(len(columns)), (np.repeat(nodes, ends), columns)), shape=(n, n))
    A.sum_duplicates()  # neighbours that are named twice; scipy 1.13 leaves them apart
    A.data[:] = 1.0
    return checked_graph(A.maximum(sparse.csr_array(A.T)), n, where)


def _narrow(values: np.ndarray) -> np.ndarray:
    """Return small whole numbers, such as counts of words, as uint8."""
    # NaN and infinity must not be converted
    if values.dtype.kind == "f" and not ((values >= 0) & (values <= 255)).all():
        return values
    small = values.astype(np.uint8)
    return small if (small == values).all() else values


def _unlike(where: str, wanted: str, value: Any) -> StoreError:
    return StoreError(
        f"{where}: the file must hold {wanted}; got {type(value).__name__}. See that it is "
        "Planetoid's."
    )

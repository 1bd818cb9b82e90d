"""Libsvm (svmlight) files, kept sparse in memory and returned dense in blocks."""

import fsspec

from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.samples import Samples, blocks_of, encode_labels
from daskfc.stores.sources.source import Source


class Libsvm(Source):
    """A libsvm file; labels are the first field of every line, and must be integers.

    Columns have the names of their indices, x0 or x1 and so on.
    """

    suffixes = (".libsvm", ".svm", ".svmlight")

    def open(self, source: SourceConfig) -> Samples:
        """Read the whole file."""
        from sklearn.datasets import load_svmlight_file  # here, as in `bundled`

        path = source.file
        with fsspec.open(path, "rb", compression="infer") as file:
            matrix, targets = load_svmlight_file(file, zero_based=True)
        labels, _ = encode_labels(targets, path)
        # a file of indices from 1 has no x0, so that it is not taken for one of indices from 0
        first = int(matrix[:, [0]].nnz == 0)
        names = default_names(matrix.shape[1])[first:]
        return Samples(matrix.shape[0], names, blocks_of(matrix[:, first:]), labels)

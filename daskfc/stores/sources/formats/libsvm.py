"""Libsvm (svmlight) files, kept sparse in memory and returned dense in blocks."""

import fsspec

from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.samples import Samples, blocks_of, encode_labels
from daskfc.stores.sources.source import Source


class Libsvm(Source):
    """A libsvm file; labels are the first field of every line, and must be integers."""

    suffixes = (".libsvm", ".svm", ".svmlight")

    def open(self, source: SourceConfig) -> Samples:
        """Read the whole file."""
        from sklearn.datasets import load_svmlight_file  # here, as in `bundled`

        path = source.file
        with fsspec.open(path, "rb", compression="infer") as file:
            matrix, targets = load_svmlight_file(file)
        labels, _ = encode_labels(targets, path)
        n, width = matrix.shape
        return Samples(n, default_names(width), blocks_of(matrix), labels)

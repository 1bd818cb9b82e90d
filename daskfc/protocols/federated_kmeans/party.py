"""Federated k-means: the steps of clients besides those of `daskfc.secure.kmeans`."""

import numpy as np

from daskfc.arrays import Floats
from daskfc.federation import LabelledSamples, own_labels
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_many_as_announced, takes
from daskfc.secure.kmeans import nearest_labels
from daskfc.stores import ClientStore


def own_rows(data: ClientStore) -> Floats:
    """Return a client's samples, (n_m, d), which stay in its memory for the fit."""
    rows = np.empty((data.n_samples, data.n_features))
    for start, block in data.blocks():
        rows[start : start + len(block)] = block
    return rows


@takes(centers=as_many_as_announced)
def labelled_new(new: ClientStore, centers: Floats, site: SiteRules = FREE) -> LabelledSamples:
    """Label new samples by the nearest of centres (k, d)."""
    site.check_model(centers)
    labels = [nearest_labels(block, centers) for _, block in new.blocks()]
    return own_labels(new, np.concatenate([np.empty(0, dtype=np.int64), *labels]))

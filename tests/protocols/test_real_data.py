"""OmniFC on the paper's data sets: on a grid, distances are exact, and so are labels."""

import numpy as np
import pytest

from daskfc.baselines import Central
from daskfc.federation import Federation
from daskfc.protocols import OmniFC
from daskfc.stores import load_storage
from tests.conftest import DATA, needs_data

pytestmark = pytest.mark.slow

CLUSTERERS = ["spectral", {"hierarchical": {"linkage": "ward"}}, "k-medoids"]


@pytest.mark.few(1)
@needs_data
@pytest.mark.parametrize(("name", "n_clusters"), [("coil20", 20), ("mnist", 10)])
def test_labels_are_those_of_the_pooled_clusterer(tmp_path, name, n_clusters):
    storage = load_storage(
        {
            "source": {"path": str(DATA / f"{name}.npz"), "subsample": {"n": 1000, "seed": 0}},
            "partition": {"scheme": "label-skew", "clients": 8, "skew": 0.75, "seed": 0},
        }
    )
    with Federation.local(storage.build(str(tmp_path)), allow_raw=True) as federation:
        for clusterer in CLUSTERERS:
            parameters = dict(n_clusters=n_clusters, clusterer=clusterer, random_state=0)
            omnifc = OmniFC(**parameters).fit(federation).labels_
            central = Central(**parameters).fit(federation).labels_
            np.testing.assert_array_equal(omnifc.values, central.values)

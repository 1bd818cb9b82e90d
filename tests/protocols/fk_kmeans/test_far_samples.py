"""Samples that lie far from the origin and near to each other are seen from their mean."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from daskfc.errors import InvalidInput, PartyError
from daskfc.federation import Federation
from daskfc.protocols import FederatedKernelKMeans
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.messages import FeaturePlan
from daskfc.stores import write_store
from tests.protocols.conftest import by_id, deal

pytestmark = pytest.mark.slow


def blobs():
    """After ClickHouse#119117."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(4, 2)) * 6
    own = np.arange(400) % 4
    return centres[own] + random.normal(size=(400, 2)) * 0.3, own


@pytest.mark.few(1)
@pytest.mark.parametrize("offset", [1e12, 1e6])
def test_clusters_do_not_depend_on_the_origin(tmp_path, offset):
    X, own = blobs()
    far = X + np.array([offset, -offset])
    with Federation.local(deal(tmp_path, far, np.arange(400) % 3)) as federation:
        model = FederatedKernelKMeans(4, n_features=60, iterations=4).fit(federation)
        assert adjusted_rand_score(own, by_id(model.labels_)) == 1.0
        differences = far[:, None] - far
        mean = np.mean(np.sum(differences**2, axis=2))
        assert model.kernel_width_ == pytest.approx(np.sqrt(mean), rel=1e-4)
        sent = [row for row in federation.ledger if row.message == "Centre"]
        assert {row.receiver for row in sent} == set(federation.clients)
        url = str(tmp_path / "new.zarr")
        names = [f"new-{i}" for i in range(40)]
        write_store(url, "client-1", far[:40] + 0.125, names, dtype="float64")
        predicted = model.predict(federation, {"client-1": url})
        np.testing.assert_array_equal(predicted, by_id(model.labels_)[:40])


def test_new_samples_that_lie_too_far_are_to_be_left_out():
    """A fit without 'kernel_width' was told to leave it out."""
    plan, settings = FeaturePlan(2.0, 9, np.zeros(0)), FeatureSettings("gaussian", 3, 60, 0)
    told = r"^the new samples of client 'q' .* from those of the fit, .* Leave farther ones out\.$"
    with pytest.raises(InvalidInput, match=told):
        settings.seen(np.full((1, 3), 1e12), plan, "q", are_new=True)


def test_what_cannot_be_seen_from_the_mean_is_refused(tmp_path):
    X, _ = blobs()
    with Federation.local(deal(tmp_path, X + 1e12, np.arange(400) % 3)) as federation:
        given = FederatedKernelKMeans(4, n_features=60, iterations=2, kernel_width=2.0)
        with pytest.raises(PartyError, match=r"'client-\d' must not lie so far .* 'kernel_width'"):
            given.fit(federation)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("kernel", "unit", "offset"),
    [("gaussian", 1e-9, 0), ("polynomial", 1, 1e9), ("gaussian", 1e9, 0), ("laplacian", 1e-30, 0)],
)
def test_the_unit_of_features_does_not_matter(tmp_path, kernel, unit, offset):
    X, own = blobs()
    with Federation.local(deal(tmp_path, X * unit + offset, np.arange(400) % 3)) as federation:
        model = FederatedKernelKMeans(4, n_features=60, iterations=2, kernel=kernel)
        assert adjusted_rand_score(own, by_id(model.fit(federation).labels_)) == 1.0

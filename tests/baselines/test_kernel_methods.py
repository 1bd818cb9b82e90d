"""RFK k-means and CE PCA step by step: blocks, clients, exact kernel principal components."""

import numpy as np
import pytest

from daskfc.baselines import CEPCA, RFKKMeans
from daskfc.baselines.kernels.ce_pca import (
    OwnRepresentatives,
    PointSketch,
    Representatives,
    ScoreTotal,
    coordinates,
    distances_to_span,
    embed,
    factor_of_all,
    leverage,
    point_sketch,
    projected_sketch,
    score_total,
    send_representatives,
    tell_directions,
    tell_representatives,
    tell_shares,
)
from daskfc.baselines.kernels.kernel_methods import KernelChoice
from daskfc.baselines.kernels.rfk_kmeans import feature_labels, feature_rows
from daskfc.clustering.kernels.features import KERNELS
from daskfc.errors import InvalidInput
from daskfc.secure.sums import KernelWidth

WIDTH = KernelWidth(6.0)
CHOICE = KernelChoice("gaussian", 3)


@pytest.fixture
def stores(store, easy):
    parts = np.split(easy[0], [20, 70])
    return {f"client-{i}": store(part, name=f"client-{i}") for i, part in enumerate(parts)}


def rows_of(data):
    return data.rows(0, data.n_samples)


# -- RFK k-means ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KERNELS)
def test_features_are_one_draw_for_all_clients_whatever_their_blocks(stores, kind):
    choice = KernelChoice(kind, 2)
    how = {"choice": choice, "n_features": 3000, "random_state": 1}
    phi = {name: feature_rows(data, WIDTH, **how) for name, data in stores.items()}
    assert all(data.largest_read <= 7 for data in stores.values())
    a, b = phi["client-0"], phi["client-1"]
    exact = choice.of_width(WIDTH).values(rows_of(stores["client-0"]), rows_of(stores["client-1"]))
    scale = np.abs(exact).max()
    assert np.abs(a @ b.T - exact).max() < 0.2 * scale
    other = feature_rows(stores["client-0"], WIDTH, **{**how, "random_state": 2})
    assert not np.allclose(other, a)


def test_new_samples_get_the_nearest_centre(stores):
    data = stores["client-1"]
    how = {"choice": CHOICE, "random_state": 0}
    phi = feature_rows(data, WIDTH, n_features=60, **how)
    found = feature_labels(data, WIDTH, phi[[4, 9]], **how).labels
    expected = np.square(phi[:, None] - phi[[4, 9]]).sum(axis=2).argmin(axis=1)
    assert np.array_equal(found, expected)


# -- CE PCA ---------------------------------------------------------------------------------------


def representatives(stores, *, n=40, seed=0):
    """The first half of the method, by its own steps."""
    E = {
        name: embed(
            data,
            WIDTH,
            choice=CHOICE,
            n_features=100,
            embedding_size=30,
            random_state=seed,
        )
        for name, data in stores.items()
    }
    sent = {
        name: point_sketch(one, sketch_size=25, random_state=seed, party=name)
        for name, one in E.items()
    }
    assert {name: one.sketch.shape[1] for name, one in sent.items()} == {
        "client-0": 20,
        "client-1": 25,
        "client-2": 25,
    }
    factor = factor_of_all(sent)
    scores = {name: leverage(one, factor) for name, one in E.items()}
    found = None
    for what in ("leverage", "distance"):
        totals = {name: score_total(one) for name, one in scores.items()}
        told = tell_shares(totals, n_samples=n // 2, random_state=seed, what=what)
        assert sum(one.n_samples for one in told.values()) == n // 2
        rows = {
            name: send_representatives(
                data, scores[name], told[name], random_state=seed, what=what, party=name
            )
            for name, data in stores.items()
        }
        found = tell_representatives(rows, found)
        scores = {
            name: distances_to_span(data, found, WIDTH, choice=CHOICE)
            for name, data in stores.items()
        }
    return found


def test_components_are_about_the_exact_ones(stores, easy):
    found, k = representatives(stores), 4
    assert len(found.rows) == 40
    everything = {tuple(row) for row in easy[0]}
    assert all(tuple(row) in everything for row in found.rows)  # raw samples, as the ledger says
    sketches = {
        name: projected_sketch(data, found, WIDTH, choice=CHOICE, random_state=0, party=name)
        for name, data in stores.items()
    }
    directions = tell_directions(sketches, n_components=k)
    H = np.concatenate(
        [coordinates(data, found, directions, WIDTH, choice=CHOICE) for data in stores.values()]
    )
    K = CHOICE.of_width(WIDTH).values(easy[0], easy[0])
    best = np.linalg.eigvalsh(K)[:-k].sum()
    assert np.trace(K) - np.square(H).sum() < 1.1 * best
    assert max(data.largest_read for data in stores.values()) <= 7  # blocks


def test_distances_of_representatives_are_zero(stores):
    found = Representatives(rows_of(stores["client-0"]))
    none = distances_to_span(stores["client-0"], found, WIDTH, choice=CHOICE)
    assert not none.any()
    some = distances_to_span(stores["client-2"], found, WIDTH, choice=CHOICE)
    assert some.shape == (50,)
    assert (some > 0).any()


def test_who_adds_nothing_sends_nothing(stores):
    totals = {"client-0": ScoreTotal(0.0), "client-1": ScoreTotal(2.0)}
    told = tell_shares(totals, n_samples=9, random_state=0, what="distance")
    assert {name: one.n_samples for name, one in told.items()} == {"client-0": 0, "client-1": 9}
    own = send_representatives(
        stores["client-0"], np.zeros(20), told["client-0"], random_state=0, what="x", party="a"
    )
    assert own.rows.shape == (0, 5)
    joined = tell_representatives({"a": own, "b": OwnRepresentatives(np.ones((2, 5)))}, None)
    assert joined.rows.shape == (2, 5)


def test_the_order_of_clients_does_not_matter():
    rng = np.random.default_rng(0)
    parts = {name: PointSketch(rng.standard_normal((3, 8))) for name in "abc"}
    turned = dict(reversed(parts.items()))
    np.testing.assert_array_equal(factor_of_all(parts).factor, factor_of_all(turned).factor)


def test_parameters_have_rules():
    for model, text in (
        (RFKKMeans(0), "'n_clusters' parameter of RFKKMeans"),
        (RFKKMeans(2, kernel="linear"), "'kernel' parameter of RFKKMeans"),
        (RFKKMeans(2, kernel_width=0.0), "'kernel_width' parameter of RFKKMeans"),
        (RFKKMeans(2, n_features=0), "'n_features' parameter of RFKKMeans"),
        (CEPCA(2, n_representatives=1), "'n_representatives' parameter of CEPCA"),
        (CEPCA(2, n_components=0), "'n_components' parameter of CEPCA"),
    ):
        with pytest.raises(InvalidInput, match=text):
            model.check()

"""Profiles are pandas' means and deviations by cluster; what is withheld enters nothing."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.datasets import load_wine

from daskfc import FedSC, OmniFC, Prepare
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation, PerClient
from daskfc.protocols.fk_kmeans import FederatedKernelKMeans
from daskfc.secure.prepare.steps import common_magnitudes
from daskfc.secure.profiles import Profile, steps, withheld_clusters
from daskfc.secure.sums import MaskedSum, Total
from daskfc.site import ANY_PART, BETWEEN_SITES
from daskfc.stores import ClientStore
from daskfc.testing.federation import federation_of, stores_of

X, y = load_wine(return_X_y=True)
OWNERS = np.arange(len(X)) % 4
ROWS = {f"client-{i + 1}": X[OWNERS == i] for i in range(4)}
POOLED = np.concatenate(list(ROWS.values()))
COLUMNS = load_wine().feature_names
KIND = np.concatenate([y[OWNERS == i] for i in range(4)])


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    columns = dict.fromkeys(ROWS, COLUMNS)
    urls = stores_of(tmp_path_factory.mktemp("stores"), ROWS, columns=columns)
    with Federation.local(urls) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_prepared(request):
    yield
    if "federation" in request.fixturenames:
        request.getfixturevalue("federation").preparation = None


def labels_of(rows, labels):
    clients = np.concatenate([np.repeat(name, len(own)) for name, own in rows.items()])
    ids = np.concatenate([[f"{name}/{i}" for i in range(len(own))] for name, own in rows.items()])
    coords = {"client": ("sample", clients), "sample_id": ("sample", ids)}
    return xr.DataArray(np.asarray(labels), dims="sample", coords=coords)


def check_against_pandas(found, pooled, labels, columns):
    """All that a profile says, from the pooled samples of the clusters that it describes."""
    shown = np.isin(labels, found.clusters)
    frame = pd.DataFrame(pooled[shown], columns=list(columns))[list(found.columns)]
    groups = frame.groupby(labels[shown])
    size = np.abs(frame.to_numpy()).max(axis=0)
    np.testing.assert_array_equal(found.sizes, groups.size())
    close(found.means, groups.mean(), size)
    close(found.stds, groups.std(ddof=0), size)
    close(found.overall_mean, frame.mean(), size)
    close(found.overall_std, frame.std(ddof=0), size)
    off = (groups.mean() - frame.mean()) / frame.std(ddof=0)
    np.testing.assert_allclose(found.standardised, off, atol=1e-8)
    between = (groups.transform("mean") - frame.mean()).pow(2).mean() / frame.var(ddof=0)
    np.testing.assert_allclose(found.separation, between, atol=1e-8)
    assert list(found.separation) == sorted(found.separation, reverse=True)


def close(found, wanted, size):
    assert (np.abs(np.asarray(found) - np.asarray(wanted)) <= 1e-9 * size).all()


METHODS = [
    OmniFC(3, clusterer="k-means", n_colluding=1),
    FedSC(3),
    FederatedKernelKMeans(3),
]


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("model", METHODS, ids=lambda model: type(model).__name__)
def test_a_profile_is_of_the_stores_units_after_any_method(federation, model):
    federation.preparation = Prepare("standardise").fit(federation)
    labels = model.fit(federation).labels_
    found = Profile(smallest=2, of_one_client=True).fit(federation, labels)
    assert federation.preparation is not None
    check_against_pandas(found, POOLED, labels.values, COLUMNS)
    assert found.clusters == tuple(np.unique(labels.values))


@pytest.mark.slow
def test_what_leaves_a_party_is_masked_or_a_magnitude(federation):
    found = Profile().fit(federation, labels_of(ROWS, KIND))
    of_clients = {
        (row.message, row.protection)
        for row in found.ledger
        if row.sender.startswith("client") and row.receiver == "server"
    }
    assert of_clients == {("ColumnMagnitudes", "plain"), ("MaskedPart", "masked")}
    assert not [row for row in found.ledger if row.sender != "server" and row.receiver == "caller"]
    assert set(COLUMNS[i] for i in (6, 12)) <= set(found.columns[:4])  # flavanoids, proline


@pytest.mark.slow
def test_what_is_withheld_is_never_summed(federation):
    kinds = KIND.copy()
    kinds[:3] = 7  # of the first client, and few
    kinds[3:6] = -1
    labels = labels_of(ROWS, kinds)
    found = Profile().fit(federation, labels)
    assert found.clusters == (0, 1, 2)
    assert found.withheld == {7: "it has fewer than 5 samples without those of any one client"}
    check_against_pandas(found, POOLED, kinds, COLUMNS)
    shapes = [row.shapes for row in found.ledger if row.message == "MaskedPart"]
    assert {tuple(shape["values"]) for shape in shapes} == {(3, X.shape[1]), (3, 2 * X.shape[1])}
    nothing = Profile(smallest=100).fit(federation, labels)
    assert (nothing.clusters, len(nothing.ledger)) == ((), 0)
    assert nothing.as_dict()["means"] == []


@pytest.mark.slow
def test_columns_of_very_different_sizes_and_constant_ones(tmp_path):
    random = np.random.default_rng(0)
    scales = np.array([1e6, 1e-6, 1.0, 1e3])
    rows = {f"client-{i}": random.normal(size=(40, 4)) * scales + 5 * scales for i in (1, 2, 3)}
    for own in rows.values():
        own[:, 2] = 0.1
    labels = np.tile(np.arange(40) % 3, 3)
    with federation_of(tmp_path, rows) as federation:
        found = Profile().fit(federation, labels_of(rows, labels))
    pooled = np.concatenate(list(rows.values()))
    frame = pd.DataFrame(pooled, columns=["x0", "x1", "x2", "x3"])[list(found.columns)]
    close(found.means, frame.groupby(labels).mean(), np.abs(frame).max().to_numpy())
    close(found.stds, frame.groupby(labels).std(ddof=0), np.abs(frame).max().to_numpy())
    assert found.columns[-1] == "x2"
    assert found.separation[-1] == 0
    assert not found.stds[:, -1].any()
    assert not found.standardised[:, -1].any()


@pytest.mark.slow
def test_labels_of_other_samples_are_refused(federation):
    labels = labels_of(ROWS, KIND)
    with pytest.raises(PartyError, match="must be of the samples of client 'client-"):
        Profile().fit(federation, labels[::-1])
    with pytest.raises(InvalidInput, match="they lack 'sample_id'"):
        Profile().fit(federation, labels.drop_vars("sample_id"))


@pytest.mark.slow
def test_one_client_alone_has_nobody_to_hide_among(tmp_path):
    rows = {"client-1": X}
    with federation_of(tmp_path, rows) as federation, pytest.raises(PrivacyError, match="at least"):
        Profile(of_one_client=True).fit(federation, labels_of(rows, y))


def all_that_is_told(store, groups):
    """Every array of a client that goes into a message."""
    told = steps.cluster_magnitudes(store, groups, {}, None, None)
    common = common_magnitudes({"a": told})
    total = steps.cluster_sums(store, groups, {}, None, common, n_groups=2)
    sizes = np.bincount(groups[groups >= 0], minlength=2)
    summed = Total(total, 0.0, ("a",))
    means = steps.means_of(summed, common, steps.counts_of(summed, common, sizes, None))
    apart = steps.cluster_magnitudes(store, groups, {}, None, means)
    common = common_magnitudes({"a": apart})
    squares = steps.cluster_squares(store, groups, {}, None, means, common)
    return [told.powers, total, means.means, apart.powers, squares]


def test_no_message_depends_on_samples_of_no_group(tmp_path):
    groups = np.array([0, 1, -1, 0, 1, -1] * 7, dtype=np.int32)
    rows = np.random.default_rng(0).normal(size=(len(groups), 3))
    other = rows.copy()
    other[groups < 0] = 1e9
    urls = stores_of(tmp_path, {"a": rows, "b": other})
    first, second = (all_that_is_told(ClientStore.open(urls[n]), groups) for n in ("a", "b"))
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.fixture
def between_sites(federation):
    federation.smallest = BETWEEN_SITES
    yield federation
    federation.smallest = ANY_PART


@pytest.mark.slow
def test_samples_of_clients_that_have_few_enter_nothing(between_sites):
    """What is told is of the others, and how many they are is told as well."""
    kinds, owners = KIND.copy(), np.concatenate([np.repeat(n, len(x)) for n, x in ROWS.items()])
    few = np.flatnonzero((owners == "client-2") & (KIND == 0))[4:]
    kinds[few] = 1  # four samples of kind 0 are left there
    lone = np.flatnonzero(owners == "client-3")[:6]
    kinds[lone] = 5  # a cluster of one client's own
    found = Profile(smallest=2, of_one_client=True).fit(between_sites, labels_of(ROWS, kinds))
    assert found.withheld == {5: "fewer than 2 clients have enough samples of it"}
    assert found.left_out == {0: 4}
    entering = kinds.copy()
    entering[(owners == "client-2") & (kinds == 0)] = -1
    entering[kinds == 5] = -1
    check_against_pandas(found, POOLED, entering, COLUMNS)
    assert found.as_dict()["left_out"] == {"0": 4}


@pytest.mark.slow
def test_the_server_describes_no_cluster_of_too_few_clients(between_sites):
    """A caller who asks by the steps themselves, for groups of one client's samples."""
    names = between_sites.clients
    groups = {name: np.full(len(ROWS[name]), -1, dtype=np.int32) for name in names}
    groups["client-1"][:9] = 0
    own = PerClient(groups)
    ids = {n: steps.digest_of_ids([f"{n}/{i}" for i in range(len(ROWS[n]))]) for n in names}
    between_sites.start_run("lone", random_state=0, deadline_s=60)
    kept = between_sites.on_clients(steps.own_groups, own, PerClient(ids), None)
    told = between_sites.ask(steps.cluster_magnitudes, kept, {}, None, None)
    largest = between_sites.on_server(common_magnitudes, told)
    args = (kept, {}, None, between_sites.tell(largest))
    parts = between_sites.on_clients(steps.cluster_sums, *args, n_groups=1)
    total = MaskedSum(between_sites).sum(parts, max_abs=100.0)
    counts = between_sites.on_server(steps.counts_of, total, largest, np.array([9]), None)
    means = between_sites.on_server(steps.means_of, total, largest, counts)
    with pytest.raises(PartyError, match="the samples of fewer than 2 clients"):
        between_sites.publish(means)


def counted(*clients):
    return {f"client-{i}": np.array(own) for i, own in enumerate(clients)}


NONE_OUTSIDE = {"client-0": 0, "client-1": 0, "client-2": 0}


@pytest.mark.parametrize(
    ("counts", "outside", "rules", "withheld"),
    [
        (([9, 5, 0], [9, 0, 4], [9, 0, 3]), NONE_OUTSIDE, {}, [1, 2]),
        (([9, 5, 0], [9, 0, 2], [9, 0, 2]), NONE_OUTSIDE, {"of_one_client": True}, [2]),
        (([9, 5, 0], [9, 5, 0], [9, 0, 4]), NONE_OUTSIDE, {}, [2]),
        # The third cluster would be all samples less the first and the second.
        (([9, 5, 0], [9, 5, 0], [9, 0, 4]), NONE_OUTSIDE, {"all_are_told": True}, [1, 2]),
        # Two that are large enough together need no third.
        (([9, 4, 0], [9, 0, 4], [9, 3, 3]), NONE_OUTSIDE, {"all_are_told": True}, [1, 2]),
        (([9, 9, 9], [9, 9, 9], [9, 9, 8]), {**NONE_OUTSIDE, "client-0": 1},
         {"all_are_told": True}, [2]),
        (([9, 9, 9], [9, 9, 9], [9, 9, 8]), {**NONE_OUTSIDE, "client-0": 1}, {}, []),
    ],
)  # fmt: skip
def test_which_clusters_are_withheld(counts, outside, rules, withheld):
    given = {"smallest": 5, "of_one_client": False, "all_are_told": False, **rules}
    assert list(withheld_clusters(counted(*counts), outside, **given)) == withheld


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"smallest": 1}, "'smallest' parameter of Profile must be a whole number of at least 2"),
        ({"of_one_client": 3}, "'of_one_client' parameter of Profile must be True or False"),
    ],
)
def test_bad_rules(params, match):
    with pytest.raises(InvalidInput, match=match):
        Profile(**params)

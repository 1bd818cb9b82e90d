"""Profiles of tables with words and gaps are pandas'; cells with few values enter nothing."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import daskfc
from daskfc import Prepare
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import Federation
from daskfc.runs import plan
from daskfc.secure.prepare import PreparationWarning
from daskfc.secure.prepare.messages import CommonMagnitudes
from daskfc.secure.prepare.steps import common_magnitudes
from daskfc.secure.profiles import Profile, steps, withheld_cells
from daskfc.secure.profiles.groups import BY_DIFFERENCE, TOO_FEW
from daskfc.secure.profiles.messages import ClusterMeans, WithheldCells
from daskfc.secure.sums import Total
from daskfc.stores import ClientStore, write_store

SITES = ("a", "b", "c")
N = 60  # patients of a site
NUMBERS, WORDS = ["age", "creatinine", "visits", "lab", "scan"], ["sex", "stage"]
OWNERS = np.repeat(SITES, N)
KIND = np.tile([0, 1, 2], N)


def table():
    """Sixty patients of each of three hospitals, with clusters that words and numbers tell apart.

    Nobody at b has a lab value, and seven at a alone in cluster 1; nobody in cluster 2 has a scan.
    Stage four is at a alone; five is rare.
    """
    random = np.random.default_rng(7)
    n = N * len(SITES)
    frame = pd.DataFrame(
        {
            "age": random.normal(60, 12, n) + 10 * KIND,
            "sex": np.where(random.random(n) < 0.2 + 0.3 * KIND, "f", "m").astype(object),
            "creatinine": random.lognormal(0, 1, n) * 1e-6,
            "stage": random.choice(["one", "two", "three"], n, p=[0.5, 0.3, 0.2]).astype(object),
            "visits": random.integers(0, 6, n).astype(float),
            "lab": random.normal(1e6, 1e3, n),
            "scan": random.normal(0, 1, n),
        }
    )
    for name, share in {"age": 0.2, "creatinine": 0.1, "stage": 0.15, "sex": 0.05}.items():
        frame.loc[random.random(n) < share, name] = np.nan
    frame.loc[:6, "stage"] = "four"
    frame.loc[[70, 150], "stage"] = "five"
    frame.loc[(OWNERS == "b") | ((KIND == 1) & (np.arange(n) > 20)), "lab"] = np.nan
    frame.loc[KIND == 2, "scan"] = np.nan
    return frame


TABLE = table()


def labels_of(labels, sites=SITES):
    ids = [f"{name}{i}" for name in sites for i in range(len(labels) // len(sites))]
    clients = np.repeat(sites, len(labels) // len(sites))
    coords = {"client": ("sample", clients), "sample_id": ("sample", ids)}
    return xr.DataArray(np.asarray(labels), dims="sample", coords=coords)


def stores_of(folder, frame, **options):
    urls = {name: str(folder / f"{name}.zarr") for name in SITES}
    for name in SITES:
        own = frame[name == OWNERS].reset_index(drop=True)
        ids = [f"{name}{i}" for i in range(len(own))]
        write_store(urls[name], name, own, ids, dtype="float64", chunk_rows=16, **options)
    return urls


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    with Federation.local(stores_of(folder, TABLE, categorical=WORDS, missing="keep")) as running:
        with pytest.warns(PreparationWarning, match=r"'four' \(a\)"):
            running.preparation = Prepare(["impute", "one-hot"]).fit(running)
        yield running


@pytest.fixture(scope="module")
def found(federation):
    return Profile().fit(federation, labels_of(KIND))


def described(found):
    """The pooled table without what is withheld."""
    told = pd.DataFrame(found.counts > 0, columns=found.columns).iloc[KIND].reset_index(drop=True)
    return TABLE.where(told[TABLE.columns])


def goodman_kruskal(words, clusters):
    """Tau: how much less often a word is guessed wrong, by its shares, if the cluster is known."""
    table = pd.crosstab(clusters, words)
    p = table.to_numpy() / table.to_numpy().sum()
    alone = 1 - np.square(p.sum(axis=0)).sum()
    known = 1 - (np.square(p) / p.sum(axis=1, keepdims=True)).sum()
    return (alone - known) / alone


@pytest.mark.slow
def test_numbers_are_pandas_over_the_values_that_are_there(found):
    columns = [name for name in found.columns if name in NUMBERS]
    at = [found.columns.index(name) for name in columns]
    frame, size = described(found)[columns], np.abs(TABLE[columns]).max().to_numpy()
    groups = frame.groupby(KIND)
    np.testing.assert_array_equal(found.counts[:, at], groups.count())
    for told, wanted in [(found.means, groups.mean()), (found.stds, groups.std(ddof=0))]:
        close = np.abs(told[:, at] - wanted.to_numpy()) <= 1e-9 * size
        assert (close | wanted.isna().to_numpy()).all()
        np.testing.assert_array_equal(np.isnan(told[:, at]), wanted.isna())
    np.testing.assert_allclose(found.overall_mean[at], frame.mean(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.overall_std[at], frame.std(ddof=0), rtol=1e-9)
    expected = groups.transform("mean").where(frame.notna())
    between = (expected - frame.mean()).pow(2).mean() / frame.var(ddof=0)
    np.testing.assert_allclose(found.separation[at], between, atol=1e-8)
    off = ((groups.mean() - frame.mean()) / frame.std(ddof=0)).to_numpy()
    np.testing.assert_allclose(found.standardised[:, at], off, atol=1e-6)


@pytest.mark.slow
def test_shares_of_words_are_pandas_to_the_last_bit(found):
    assert dict(found.categories) == {"sex": ("f", "m"), "stage": ("four", "one", "three", "two")}
    for name, words in found.categories.items():
        kept = TABLE[name].where(TABLE[name].isin(words) | TABLE[name].isna(), "other")
        wanted = kept.groupby(KIND).value_counts(normalize=True).unstack(fill_value=0)
        wanted = wanted.reindex(columns=[*words, "other"], fill_value=0)
        np.testing.assert_array_equal(found.shares[name], wanted)
        overall = kept.value_counts(normalize=True).reindex([*words, "other"], fill_value=0)
        np.testing.assert_allclose(found.overall_shares[name], overall, rtol=1e-12)
        apart = found.separation[found.columns.index(name)]
        assert apart == pytest.approx(goodman_kruskal(kept, KIND), abs=1e-12)
    assert np.isnan(found.means[:, [found.columns.index(name) for name in WORDS]]).all()
    off = found.standardised_shares["sex"][:, :2]
    share = (TABLE["sex"].dropna() == "f").mean()
    wanted = (found.shares["sex"][:, 0] - share) / np.sqrt(share * (1 - share))
    np.testing.assert_allclose(off, np.column_stack([wanted, -wanted]), rtol=1e-9)


@pytest.mark.slow
def test_what_tells_clusters_apart_comes_first_words_among_them(found):
    known = found.separation[~np.isnan(found.separation)]
    assert list(known) == sorted(known, reverse=True)
    assert set(found.columns[:2]) == {"age", "sex"}
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert told["columns"] == list(found.columns)
    assert told["shares"]["sex"]["words"] == ["f", "m"]
    assert np.shape(told["shares"]["sex"]["shares"]) == (3, 3)


@pytest.mark.slow
def test_shares_of_missing_values(found):
    lacking = TABLE[list(found.columns)].isna().groupby(KIND).mean()
    wanted = lacking.where(found.counts > 0)
    np.testing.assert_allclose(found.missing, wanted, atol=1e-12)


@pytest.mark.slow
def test_columns_with_few_values_in_a_cluster_are_withheld_there(found):
    """And one more, where the preparation told the mean of all."""
    few = "fewer than 10 values are there, or fewer than 5 without those of any one client"
    whys = dict(found.withheld_cells)
    assert whys.pop((0, "lab")).startswith("its figures, beside those of all samples")
    assert whys == {(1, "lab"): few, (2, "scan"): few}
    assert {"cluster": 2, "column": "scan", "why": few} in found.as_dict()["withheld_cells"]
    for cluster, name in found.withheld_cells:
        i = found.columns.index(name)
        assert np.isnan(found.means[cluster, i])
        assert found.as_dict()["means"][cluster][i] is None
    assert found.separation[found.columns.index("lab")] == 0


@pytest.mark.slow
def test_what_leaves_a_party_is_masked_or_a_magnitude(found):
    rows = list(found.ledger)
    of_clients = {
        (row.message, row.protection)
        for row in rows
        if row.sender in SITES and row.receiver == "server"
    }
    assert of_clients == {("ColumnMagnitudes", "plain"), ("MaskedPart", "masked")}
    masked = [tuple(row.shapes["values"]) for row in rows if row.message == "MaskedPart"]
    d, words = TABLE.shape[1], 6
    assert set(masked) == {(4, d), (3, 3 * d + words), (3, d)}
    told = {row.message for row in rows if row.sender == "server" and row.receiver == "caller"}
    assert told == {"WithheldCells", "ClusterCounts", "ClusterMeans", "ClusterSpreads"}
    told = {row.message for row in rows if row.sender == "server" and row.receiver in SITES}
    assert told == {"WithheldCells", "ClusterMeans", "CommonMagnitudes"}
    assert "five" not in str(found.as_dict())


@pytest.mark.slow
def test_few_values_are_withheld_and_so_is_what_would_tell_them(federation):
    labels = KIND.copy()
    labels[:3] = 8  # a cluster of one client's own, whose values are left over
    result = Profile().fit(federation, labels_of(labels))
    assert 8 in result.withheld
    for i, name in enumerate(result.columns):
        there = TABLE[name].notna().to_numpy()
        told = [c for j, c in enumerate(result.clusters) if result.counts[j, i]]
        left = there & ~np.isin(labels, told)
        by_client = [int(left[name == OWNERS].sum()) for name in SITES]
        assert not any(by_client) or sum(by_client) - max(by_client) >= 5, name


@pytest.mark.slow
def test_words_without_gaps_take_no_sum_more(tmp_path):
    frame = TABLE[["sex", "visits"]].fillna({"sex": "m"})
    labels = labels_of(KIND)
    with Federation.local(stores_of(tmp_path, frame, categorical=["sex"])) as federation:
        with pytest.raises(InvalidInput, match="column 'sex', which holds words at client 'a'"):
            Profile().fit(federation, labels)
        federation.preparation = Prepare("one-hot").fit(federation)
        result = Profile().fit(federation, labels)
    wanted = frame["sex"].groupby(KIND).value_counts(normalize=True).unstack()
    np.testing.assert_array_equal(result.shares["sex"][:, :2], wanted[["f", "m"]])
    assert not result.shares["sex"][:, 2].any()
    assert not result.missing.any()
    shapes = [tuple(r.shapes["values"]) for r in result.ledger if r.message == "MaskedPart"]
    assert set(shapes) == {(3, 6), (3, 2)}
    assert "WithheldCells" not in {row.message for row in result.ledger}


def all_that_is_told(store, groups, withheld):
    """Every array of a client that goes into a message once cells are withheld."""
    args = (store, groups, {"sex": ["f", "m"]}, withheld)
    told = steps.cluster_magnitudes(*args, None)
    common = common_magnitudes({"a": told})
    total = steps.cluster_sums(*args, common, n_groups=2)
    summed = Total(total, 0.0, ("a",))
    counts = steps.counts_of(summed, common, np.array([1, 1]), withheld)
    means = steps.means_of(summed, common, counts)
    apart = steps.cluster_magnitudes(*args, means)
    squares = steps.cluster_squares(*args, means, common_magnitudes({"a": apart}))
    return [told.powers, total, means.means, counts.values, counts.words, apart.powers, squares]


def test_no_message_depends_on_what_is_withheld(tmp_path):
    random = np.random.default_rng(1)
    groups = np.array([0, 1, -1] * 14, dtype=np.int32)
    rows = pd.DataFrame(
        {"age": random.normal(size=42), "sex": random.choice(["f", "m"], 42)}, dtype=object
    ).assign(size=random.normal(size=42))
    rows["age"] = rows["age"].astype(float)
    rows.loc[::5, ["age", "sex"]] = np.nan
    other = rows.copy()
    other.loc[groups == 1, "age"] = 1e9  # the cells that are withheld, and samples in no group
    other.loc[groups == 0, "sex"] = "m"
    other.loc[groups < 0, ["age", "sex", "size"]] = [-1e9, "f", 1e9]
    withheld = WithheldCells(np.array([[0, 1, 0], [1, 0, 0]], dtype=np.uint8))
    told = []
    for name, frame in {"a": rows, "b": other}.items():
        url = str(tmp_path / f"{name}.zarr")
        write_store(url, name, frame, categorical=["sex"], missing="keep", dtype="float64")
        told.append(all_that_is_told(ClientStore.open(url), groups, withheld))
    for one, two in zip(*told, strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.isnan(told[0][2][1, 0])


def test_cells_of_few_values_are_not_summed_though_nobody_asks_which(tmp_path):
    """Whoever left `withheld` out was told the only value of a client, and sums of two."""
    rows = np.array([[1.0, np.nan], [2.0, 123.456], [3.0, np.nan]])
    url = str(tmp_path / "a.zarr")
    write_store(url, "a", rows, list("pqr"), None, dtype="float64", missing="keep")
    groups, powers = np.array([0, 0, 0], dtype=np.int32), CommonMagnitudes(np.ones(2))
    means = ClusterMeans(np.zeros((1, 2)))
    store, told = ClientStore.open(url), (groups, {}, None)
    for ask in (
        lambda: steps.cluster_magnitudes(store, *told, None),
        lambda: steps.cluster_sums(store, *told, powers, n_groups=1),
        lambda: steps.cluster_squares(store, *told, means, powers),
    ):
        with pytest.raises(PrivacyError, match="which cells have too few"):
            ask()


def test_counts_up_to_the_smallest_say_whether_enough_are_left():
    """A sum of counts up to s is 2 s where 2 s are there, and s without any one client's."""
    random = np.random.default_rng(0)
    for _ in range(2000):
        own, s = random.integers(0, 12, random.integers(2, 6)), int(random.integers(2, 7))
        enough = own.sum() >= 2 * s and own.sum() - own.max() >= s
        assert (np.minimum(own, s).sum() >= 2 * s) == enough
        assert (np.minimum(own, s).sum() >= s) == (own.sum() >= s)


def test_what_is_left_over_is_nothing_or_enough():
    random = np.random.default_rng(0)
    s = 3
    for _ in range(500):
        own = random.integers(0, 8, (3, 5, 1)) * (random.random((3, 5, 1)) < 0.6)
        counts = np.minimum(own, s).sum(axis=0)
        why = withheld_cells(counts, 2 * s, all_are_told=True)[:, 0]
        left = own[:, :-1, 0][:, why > 0].sum(axis=1) + own[:, -1, 0]
        assert not left.any() or not (why == 0).any() or left.sum() - left.max() >= s
        plain = withheld_cells(counts, 2 * s, all_are_told=False)[:, 0]
        np.testing.assert_array_equal(plain == TOO_FEW, counts[:-1, 0] < 2 * s)
        assert set(why[plain == 0]) <= {0, BY_DIFFERENCE}
        assert (why == BY_DIFFERENCE).sum() <= 1


@pytest.mark.slow
def test_a_run_with_words_and_gaps_is_planned_and_described(tmp_path, capsys):
    urls = stores_of(tmp_path, TABLE.drop(columns=["lab", "scan"]), categorical=WORDS,
                     missing="keep")  # fmt: skip
    storage = {"clients": {name: {"store": url} for name, url in urls.items()}}
    pipeline = {
        "method": "k-FED", "params": {"n_clusters": 2}, "profiles": True,
        "prepare": ["impute", "one-hot"],
    }  # fmt: skip
    assert not plan(pipeline, storage=storage).refused
    run = daskfc.run(pipeline, storage=storage, runs_dir=tmp_path / "runs", name="mixed")
    told = run.summary["profiles"]
    assert told["clusters"] == [0, 1]
    assert set(told["shares"]) == set(WORDS)
    assert set(told["columns"]) == {"age", "creatinine", "visits", *WORDS}
    spent = run.ledger[run.ledger["method"] == "profiles"]
    assert {"WithheldCells", "ClusterCounts", "ClusterMeans"} <= set(spent["message"])
    page = (tmp_path / "runs" / "mixed" / "report.html").read_text()
    assert "sex = f" in page
    assert "age: missing" in page
    run.show()
    assert "stage = one" in capsys.readouterr().out

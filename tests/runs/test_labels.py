"""Labels as files: pseudonyms for the caller, own ids for each site, whatever opens them."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.federation.identity.pseudonyms import Pseudonyms
from daskfc.runs import Run, RunFailed, run, site_labels
from daskfc.runs.outcome.fits import Fit, labels_cube
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.outcome.labels import write_tables
from daskfc.stores import ClientStore, append_samples, write_store

CLIENTS = ("a", "b", "c")
N = 6


def ids_of(client, shared=False):
    return [f"patient-{'all' if shared else client}-é{i}" for i in range(N)]


@pytest.fixture
def urls(tmp_path):
    found = {name: str(tmp_path / "stores" / f"{name}.zarr") for name in CLIENTS}
    for i, (name, url) in enumerate(found.items()):
        rows = np.random.default_rng(i).normal(size=(N, 2)) + 8 * (np.arange(N) % 2)[:, None]
        write_store(url, name, rows, ids_of(name), np.arange(N) % 2)
    return found


def made(tmp_path, urls, names, *, name="night", clients=CLIENTS, clear=False):
    """A run's folder as a run leaves it, with two methods and two seeds."""
    record = {"pipeline": {"method": "A", "seeds": [3, 4]}}
    if not clear:
        record["pseudonyms"] = names.as_dict()
    folder = RunFolder.create(tmp_path / "runs", name, record)
    told, owners = [], []
    for client in clients:
        store = ClientStore.open(urls[client])
        ids = store.sample_ids().tolist()
        told += ids if clear else names.of(ids, names.key(client, store.id_key()))
        owners += [client] * N
    random = np.random.default_rng(0)
    coords = {"client": ("sample", owners), "sample_id": ("sample", told)}
    fits = [
        Fit(method, seed, xr.DataArray(random.integers(-1, 3, len(told)), coords, ("sample",)),
            pd.DataFrame(), {})
        for method in ("A", "B") for seed in (3, 4)
    ]  # fmt: skip
    cube = labels_cube(fits)
    folder.write_labels(cube)
    write_tables(folder, cube["labels"])
    folder.update(status="done")
    return Run(folder.path), cube["labels"].to_numpy().reshape(4, -1)


def shared_by(urls):
    """What clients that share samples agree on, with every key wrapped as a client does it."""
    from cryptography.hazmat.primitives.keywrap import aes_key_wrap

    from daskfc.coding import SecretKey

    label, key, keys = "0123456789ab", SecretKey.from_os().to_bytes(), {}
    for client, url in urls.items():
        own = SecretKey(ClientStore.open(url).id_key())
        wrapping = own.derive("shared pseudonyms", label, client).to_bytes()
        keys[client] = aes_key_wrap(wrapping, key).hex()
    return Pseudonyms(label, keys)


@pytest.mark.parametrize("kind", ["folder", "labels.csv", "labels.parquet", "elsewhere.csv"])
def test_each_site_gets_its_own_clusters_under_its_own_ids(tmp_path, urls, kind):
    found, labels = made(tmp_path, urls, Pseudonyms.fresh())
    source = found.folder if kind == "folder" else found.folder / kind
    if kind == "elsewhere.csv":
        source = tmp_path / kind
        table = pd.read_csv(found.folder / "labels.csv").sample(frac=1, random_state=0)
        table.to_csv(source, index=False)  # rows in any order
    for i, (client, url) in enumerate(urls.items()):
        own = site_labels(source, url)
        assert own.columns.tolist() == ["sample_id", "cluster", "A seed 4", "B seed 3", "B seed 4"]
        assert own["sample_id"].tolist() == ids_of(client)
        assert np.array_equal(own.iloc[:, 1:].to_numpy().T, labels[:, i * N : (i + 1) * N])


def test_the_files_of_the_caller_hold_pseudonyms(tmp_path, urls):
    found, labels = made(tmp_path, urls, Pseudonyms("0123456789ab"))
    csv = pd.read_csv(found.folder / "labels.csv")
    assert csv.columns.tolist() == [
        "pseudonym", "client", "cluster", "A seed 4", "B seed 3", "B seed 4"
    ]  # fmt: skip
    assert csv["client"].tolist() == np.repeat(CLIENTS, N).tolist()
    assert csv["pseudonym"].str.fullmatch("0123456789ab-[0-9a-f]{24}").all()
    assert csv["pseudonym"].tolist() == found.labels["sample_id"].to_numpy().tolist()
    assert np.array_equal(csv.iloc[:, 2:].to_numpy().T, labels)
    parquet = pd.read_parquet(found.folder / "labels.parquet")
    pd.testing.assert_frame_equal(parquet, csv, check_dtype=False)
    assert not (found.folder / "labels.keys.json").exists()
    for path in found.folder.rglob("*"):
        assert path.is_dir() or b"patient-" not in path.read_bytes(), path


def test_clear_ids_are_called_ids(tmp_path, urls):
    found, labels = made(tmp_path, urls, None, clear=True)
    assert pd.read_csv(found.folder / "labels.csv").columns[0] == "sample_id"
    for source in (found.folder, found.folder / "labels.csv"):
        own = site_labels(source, urls["b"])
        assert own["sample_id"].tolist() == ids_of("b")
        assert own["cluster"].tolist() == labels[0, N : 2 * N].tolist()


def test_clients_that_share_samples_all_get_their_clusters(tmp_path, urls):
    for client, url in urls.items():
        ids = ids_of(client, shared=True)
        ids = ids[::-1] if client == "c" else ids
        write_store(url, client, np.eye(N)[:, :2], ids, overwrite=True)
    found, labels = made(tmp_path, urls, shared_by(urls), clients=("a",))
    for client, url in urls.items():
        for source in (found.folder, found.folder / "labels.csv"):
            own = site_labels(source, url)
            expected = labels[0, ::-1] if client == "c" else labels[0]
            assert own["cluster"].tolist() == expected.tolist()
    copied = tmp_path / "labels.csv"
    copied.write_bytes((found.folder / "labels.csv").read_bytes())
    with pytest.raises(InvalidInput, match=r"put the run's labels\.keys\.json beside it"):
        site_labels(copied, urls["b"])
    for spoilt in ("{", "[]", json.dumps(Pseudonyms.fresh().as_dict())):
        (tmp_path / "labels.keys.json").write_text(spoilt)
        with pytest.raises(InvalidInput, match=r"keys\.json: is not of the same run as labels\.c"):
            site_labels(copied, urls["b"])


def test_the_store_of_another_is_refused(own_secrets, tmp_path, urls):
    two = {name: urls[name] for name in ("a", "b")}
    found, _ = made(tmp_path, two, Pseudonyms.fresh(), clients=("a", "b"))
    with pytest.raises(InvalidInput, match=r"no label is of a sample of client 'c' .* of a, b\."):
        site_labels(found.folder, urls["c"])
    # One who knows the ids of a, and its name, is not a: the secret lies in the store of a alone.
    pretended = str(tmp_path / "pretended" / "a.zarr")
    write_store(pretended, "a", np.eye(N)[:, :2], ids_of("a"))
    with pytest.raises(InvalidInput, match="no label is of a sample of client 'a'"):
        site_labels(found.folder / "labels.csv", pretended)


def test_a_store_that_was_written_again_with_other_samples_is_refused(tmp_path, urls):
    found, labels = made(tmp_path, urls, Pseudonyms.fresh())
    write_store(urls["a"], "a", np.ones((N, 2)), ids_of("a"), overwrite=True)
    own = site_labels(found.folder, urls["a"])  # the same samples
    assert own["cluster"].tolist() == labels[0, :N].tolist()
    changed = [*ids_of("a")[1:], "patient-new", "patient-newer"]
    write_store(urls["a"], "a", np.ones((N + 1, 2)), changed, overwrite=True)
    with pytest.raises(InvalidInput, match=r"2 of 7 samples .* no label, and 1 labels of client"):
        site_labels(found.folder, urls["a"])


def test_a_store_that_grew_since_the_run_has_labels_of_its_earlier_samples(tmp_path, urls):
    found, labels = made(tmp_path, urls, Pseudonyms.fresh())
    append_samples(urls["b"], np.zeros((2, 2)), ["new-1", "new-2"], [0, 1])
    own = site_labels(found.folder, urls["b"])
    assert own["sample_id"].tolist() == ids_of("b")
    assert np.array_equal(own.iloc[:, 1:].to_numpy().T, labels[:, N : 2 * N])


def test_labels_from_which_rows_were_removed_are_refused(tmp_path, urls):
    found, _ = made(tmp_path, urls, Pseudonyms.fresh())
    file = found.folder / "labels.csv"
    table = pd.read_csv(file)
    table.drop(index=1).to_csv(file, index=False)
    with pytest.raises(InvalidInput, match=r"1 of 6 samples .* have no label, and 0 labels"):
        site_labels(file, urls["a"])
    assert len(site_labels(file, urls["b"])) == N
    pd.concat([table, table[:1]]).to_csv(file, index=False)
    with pytest.raises(InvalidInput, match="it has a sample twice"):
        site_labels(file, urls["a"])


def test_what_is_no_file_of_labels_is_refused(tmp_path, urls):
    found, _ = made(tmp_path, urls, Pseudonyms.fresh())
    text = (found.folder / "labels.csv").read_text()
    other, _ = made(tmp_path, urls, Pseudonyms.fresh(), name="other")
    lines = (other.folder / "labels.csv").read_text().splitlines()
    cases = {
        "": "it is no table",
        "a\n1\n": "it needs rows, and columns 'pseudonym', 'client' and 'cluster'",
        text.splitlines()[0] + "\n": "it needs rows",
        text.replace("pseudonym", "name"): "it needs rows",
        text.replace(",0,", ",x,", 1): "clusters must be whole numbers",
        text + lines[1] + "\n": "its pseudonyms must be those of one run",
        text.replace("-", "", 1): "its pseudonyms must be those of one run",
    }
    for content, why in cases.items():
        file = tmp_path / "labels.csv"
        file.write_text(content)
        with pytest.raises(InvalidInput, match=f"labels.csv: holds no labels of a run: {why}"):
            site_labels(file, urls["a"])
    (tmp_path / "labels.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidInput, match="it is no table"):
        site_labels(tmp_path / "labels.parquet", urls["a"])
    with pytest.raises(InvalidInput, match="cannot be read"):
        site_labels(tmp_path / "missing.csv", urls["a"])
    with pytest.raises(InvalidInput, match="no run is there"):
        site_labels(tmp_path, urls["a"])


def test_labels_of_new_samples_are_taken_back_by_both_stores(tmp_path, urls):
    new = str(tmp_path / "new.zarr")
    write_store(new, "a", np.eye(N)[:, :2], [f"new-{i}" for i in range(N)])
    names = Pseudonyms.fresh()
    key = names.key("a", ClientStore.open(urls["a"]).id_key())
    table = pd.DataFrame({
        "pseudonym": names.of([f"new-{i}" for i in range(N)], key), "client": "a",
        "cluster": range(N),
    })  # fmt: skip
    table[::-1].to_csv(tmp_path / "new.csv", index=False)
    own = site_labels(tmp_path / "new.csv", urls["a"], samples=new)
    assert own["sample_id"].tolist() == [f"new-{i}" for i in range(N)]
    assert own["cluster"].tolist() == list(range(N))
    with pytest.raises(InvalidInput, match=r"a store of client 'a' and .* one of client 'b'"):
        site_labels(tmp_path / "new.csv", urls["b"], samples=new)


def test_labels_open_by_the_defaults_of_others_without_a_warning(tmp_path, urls):
    found, labels = made(tmp_path, urls, Pseudonyms.fresh())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = xr.open_zarr(found.folder / "labels.zarr")
        assert np.array_equal(opened["labels"].to_numpy().reshape(4, -1), labels)
        table = found.labels.to_dataframe()
    assert set(table.columns) >= {"client", "sample_id", "cluster"}
    assert table["cluster"].tolist() == labels[0].tolist()
    assert table["client"].tolist() == np.repeat(CLIENTS, N).tolist()
    cube = found.all_labels.to_dataframe()
    assert len(cube) == labels.size


# -- on real worker processes ---------------------------------------------------------------------

KNOWN_BY_CALLER = {"labels.csv", "labels.parquet", "labels.zarr"}


def whole_run(tmp_path, urls, name, **pipeline):
    storage = {"clients": {client: {"store": url} for client, url in urls.items()}}
    params = {"n_clusters": 2, **({"filter_order": 0} if pipeline["method"] == "kCAGC" else {})}
    return run(
        {"params": params, "seeds": [0], **pipeline},
        storage=storage, runs_dir=tmp_path / "runs", name=name,
    )  # fmt: skip


def clear_ids_in(folder):
    return {
        path.relative_to(folder).parts[0]
        for path in folder.rglob("*")
        if path.is_file() and b"patient-" in path.read_bytes()
    }


@pytest.mark.slow
def test_a_run_tells_its_caller_no_id_unless_asked(tmp_path, urls):
    plain = whole_run(tmp_path, urls, "plain", method="k-FED", compare=["central"])
    assert clear_ids_in(plain.folder) == set()
    told = set(plain.ledger["message"])
    assert {"PseudonymousSamples", "PseudonymousTruth"} <= told
    assert not told & {"LabelledSamples", "EvaluationLabels"}
    again = whole_run(tmp_path, urls, "again", method="k-FED")
    assert not set(plain.labels["sample_id"].values) & set(again.labels["sample_id"].values)
    clear = whole_run(tmp_path, urls, "clear", method="k-FED", ids="clear")
    assert clear_ids_in(clear.folder) & KNOWN_BY_CALLER
    told = clear.ledger.set_index("message")["reveals"]
    assert set(told["LabelledSamples"]) == {"to the caller the cluster of every sample id"}
    assert clear.labels["sample_id"].to_numpy().tolist() == [
        name for client in CLIENTS for name in ids_of(client)
    ]
    for client, url in urls.items():
        own = [site_labels(one.folder / "labels.csv", url) for one in (plain, again, clear)]
        expected = clear.labels[clear.labels["client"] == client].to_numpy().tolist()
        assert all(table["cluster"].tolist() == expected for table in own)
    assert plain.summary["metrics"]["k-FED"]["acc"]["mean"] == 1.0  # scored under pseudonyms


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("method", ["kCAGC", "ESFMC"])
def test_clients_that_share_samples_tell_no_id_either(tmp_path, urls, method):
    for client, url in urls.items():
        names = [f"{column} of {client}" for column in "uv"]
        rows = ClientStore.open(url).rows(0, N)
        ids = ids_of(client, shared=True)
        write_store(url, client, rows, ids, feature_names=names, overwrite=True)
    done = whole_run(tmp_path, urls, "shared", method=method)
    assert clear_ids_in(done.folder) == set()
    assert done.labels.sizes["sample"] == N
    agreement = done.ledger[done.ledger["method"] == "opening"]
    assert set(agreement["message"]) == {"KeyOffer", "SealedIdKey", "WrappedIdKey"}
    for url in urls.values():
        own = site_labels(done.folder / "labels.csv", url)
        assert own["sample_id"].tolist() == ids_of("a", shared=True)
        assert own["cluster"].tolist() == done.labels.to_numpy().tolist()


@pytest.mark.slow
def test_a_resumed_run_has_the_pseudonyms_and_the_messages_of_its_start(
    tmp_path, urls, monkeypatch
):
    for client, url in urls.items():
        names = [f"{column} of {client}" for column in "uv"]
        rows = ClientStore.open(url).rows(0, N)
        ids = ids_of(client, shared=True)
        write_store(url, client, rows, ids, feature_names=names, overwrite=True)

    def broken(*_):
        raise OSError("the scores cannot be had")

    with monkeypatch.context() as patch:
        patch.setattr("daskfc.runs.execution.execution.true_labels", broken)
        with pytest.raises(RunFailed):
            whole_run(tmp_path, urls, "again", method="kCAGC")
    folder = tmp_path / "runs" / "again"
    began = Run(folder).config["pseudonyms"]
    assert set(began["keys"]) == set(CLIENTS)
    with np.load(folder / "fits" / "kCAGC-0" / "labels.npz") as kept:
        first = kept["sample_ids"].tolist()
    assert all(name.startswith(began["label"]) for name in first)
    assert clear_ids_in(folder / "fits") == set()
    done = Run(folder).resume()
    assert done.config["pseudonyms"] == began
    assert done.labels["sample_id"].to_numpy().tolist() == first
    agreement = done.ledger[done.ledger["method"] == "opening"]
    assert agreement["message"].value_counts().to_dict() == {
        "KeyOffer": 4, "SealedIdKey": 2, "WrappedIdKey": 3
    }  # fmt: skip
    assert site_labels(folder, urls["b"])["sample_id"].tolist() == ids_of("b", shared=True)

"""``daskfc labels`` at a site, and ``daskfc predict``."""

import sys

import numpy as np
import pandas as pd
import pytest

from daskfc.runs.outcome.labels import beside
from daskfc.stores import ClientStore, write_store
from daskfc.stores.store.clusters import cluster_names, read_clusters


@pytest.fixture
def labelled(tmp_path):
    """A store and the labels of its samples, as the caller of a run sends them."""
    from daskfc.federation.identity.pseudonyms import Pseudonyms

    write_store(str(tmp_path / "a.zarr"), "a", np.eye(3), ["p1", "p2", "p3"])
    store, names = ClientStore.open(str(tmp_path / "a.zarr")), Pseudonyms.fresh()
    told = names.of(["p1", "p2", "p3"], names.key("a", store.id_key()))
    table = pd.DataFrame({"pseudonym": told, "client": "a", "cluster": [2, 0, 1], "B seed 1": 7})
    table[::-1].to_csv(tmp_path / "labels.csv", index=False)
    return store


def test_what_a_site_writes_holds_no_formulas(daskfc, tmp_path):
    ids = ["=1+1", "-2", "p;=1"]
    write_store(str(tmp_path / "a.zarr"), "a", np.eye(3), ids)
    table = pd.DataFrame(
        {"sample_id": ["'=1+1", "-2", "p;=1"], "client": "a", "cluster": [2, 0, 1]}
    )
    table.to_csv(tmp_path / "labels.csv", index=False)
    wanted = '"sample_id","cluster"\n"\'=1+1",2\n"-2",0\n"p;=1",1\n'
    assert daskfc("labels", "labels.csv", "--store", "a.zarr").stdout == wanted
    daskfc("labels", "labels.csv", "--store", "a.zarr", "--out", "own.csv")
    assert (tmp_path / "own.csv").read_text() == wanted
    daskfc("labels", "labels.csv", "--store", "a.zarr", "--out", "own.parquet")
    assert pd.read_parquet(tmp_path / "own.parquet")["sample_id"].tolist() == ids


OWN = "sample_id,cluster,B seed 1\np1,2,7\np2,0,7\np3,1,7\n"


def test_a_site_prints_or_writes_its_own_clusters(daskfc, labelled, tmp_path):
    done = daskfc("labels", "labels.csv", "--store", "a.zarr")
    assert (done.exit_code, done.stdout) == (0, OWN)
    done = daskfc("labels", "labels.csv", "--store", "a.zarr", "--out", "own.csv")
    assert (done.exit_code, done.stdout) == (0, "")
    assert (tmp_path / "own.csv").read_text() == OWN
    assert (tmp_path / "own.csv").stat().st_mode & 0o077 == 0  # clear ids
    done = daskfc("labels", "labels.csv", "--store", "a.zarr", "--out", "own.parquet")
    assert done.exit_code == 0
    assert pd.read_parquet(tmp_path / "own.parquet").to_csv(index=False) == OWN


def test_a_site_keeps_them_in_its_store(daskfc, labelled, tmp_path):
    words = ("labels", "labels.csv", "--store", "a.zarr", "--into-store", "night")
    done = daskfc(*words)
    assert done.exit_code == 0, done.output
    for _ in range(2):
        store = ClientStore.open(str(tmp_path / "a.zarr"), verify=True)  # as good as it was
        assert store.digest == labelled.digest
        assert store.rows(0, 3).tolist() == np.eye(3).tolist()
        clusters, fits = read_clusters(store, "night")
        assert clusters.tolist() == [[2, 7], [0, 7], [1, 7]]
        assert fits == ("cluster", "B seed 1")
        assert labelled.rows(0, 3).tolist() == np.eye(3).tolist()  # opened before, and not changed
        again = daskfc(*words)
        assert again.exit_code == 2
        assert "has clusters called 'night'. Choose another name" in again.stderr
        assert daskfc(*words, "--overwrite").exit_code == 0


@pytest.mark.parametrize("out", ["own.txt", "there.csv", "no-folder/own.csv", "a.zarr"])
def test_nothing_is_written_before_all_of_it_can_be(daskfc, labelled, tmp_path, out):
    (tmp_path / "there.csv").write_text("mine")
    words = ("labels", "labels.csv", "--store", "a.zarr")
    assert daskfc(*words, "--into-store", "night", "--out", out).exit_code == 2
    assert cluster_names(labelled) == []
    assert daskfc(*words, "--into-store", "night").exit_code == 0
    assert daskfc(*words, "--into-store", "night", "--out", "own.csv").exit_code == 2
    assert not (tmp_path / "own.csv").exists()
    assert (tmp_path / "there.csv").read_text() == "mine"


OF_A_SITE = "name;patient;weight\nZoë;p3;61,5\n=A1;p1;070\nBob;p9;\nAda;p2;58\n"


def test_clusters_go_beside_the_columns_of_a_table(daskfc, labelled, tmp_path):
    """In its order, with its cells as they are written, and empty where a row is no sample."""
    (tmp_path / "own.csv").write_text(OF_A_SITE, encoding="utf-8")
    words = ("labels", "labels.csv", "--store", "a.zarr", "--with", "own.csv")
    done = daskfc(*words)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == (
        "name,patient,weight,cluster,B seed 1\n"
        'Zoë,p3,"61,5",1,7\n\'=A1,p1,070,2,7\nBob,p9,,,\nAda,p2,58,0,7\n'
    )
    assert "3 samples" in daskfc(*words, "--out", "grouped.parquet").stderr
    grouped = pd.read_parquet(tmp_path / "grouped.parquet")
    assert grouped["cluster"].tolist() == [1, 2, pd.NA, 0]
    assert grouped["name"].tolist() == ["Zoë", "=A1", "Bob", "Ada"]
    grouped.iloc[:, 1:3].to_excel(tmp_path / "own.xlsx", index=False)
    again = daskfc(*words[:-1], "own.xlsx")
    assert again.stdout.splitlines()[2] == "p1,070,2,7"
    with pd.ExcelWriter(tmp_path / "own.xlsx", mode="a") as book:
        pd.DataFrame({"bed": [1]}).to_excel(book, sheet_name="Beds", index=False)
    refused = daskfc(*words[:-1], "own.xlsx")
    assert refused.exit_code == 2
    assert "Name it by --sheet" in refused.stderr
    assert daskfc(*words[:-1], "own.xlsx", "--sheet", "Sheet1").stdout == again.stdout


@pytest.mark.parametrize("ids", [["p1", "p2", "p3"], [" p1", "p1", "p3"]])
def test_blanks_around_ids_lead_no_cluster_astray(ids, tmp_path):
    """Stores have ids of tables without them; ids that differ by them alone stay what they are."""
    written = [" p1", "p2 ", "p3"] if "p2" in ids else ids
    (tmp_path / "own.csv").write_text("".join(f"{one},x\n" for one in ["patient", *written]))
    table = beside(pd.DataFrame({"sample_id": ids, "cluster": [4, 5, 6]}), f"{tmp_path}/own.csv")
    assert table["patient"].tolist() == written
    assert table["cluster"].tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("patient\np1\np2\n", "have the ids of the 3 samples; the best one has 2. Give the file"),
        ("age,sex\n1,f\n", "the best one has 0"),
        ("cluster,id\n1,p1\n1,p2\n1,p3\n", "the name of one that is there, cluster. Rename"),
        ("id,a\np1,1,2\n", "own.csv"),
        ("bed,id\np2,p1\np3,p2\np1,p3\n", "bed, id do, and differ. Leave out those"),
        (None, "own.csv"),
    ],
)
def test_a_table_without_the_ids_is_refused_and_nothing_is_written(
    daskfc, labelled, tmp_path, text, said
):
    if text is not None:
        (tmp_path / "own.csv").write_text(text)
    words = ("labels", "labels.csv", "--store", "a.zarr", "--with", "own.csv")
    done = daskfc(*words, "--out", "new.csv", "--into-store", "night")
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert not (tmp_path / "new.csv").exists()
    assert cluster_names(labelled) == []


def test_labels_that_a_spreadsheet_saved_are_read(daskfc, labelled, tmp_path):
    file = tmp_path / "labels.csv"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert daskfc("labels", "labels.csv", "--store", "a.zarr").stdout == OWN


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--store", "b.zarr"), "no store of a client is there"),
        (("--store", "a.zarr", "--out", "own.txt"), "--out must end in .csv or .parquet"),
        (("--store", "a.zarr", "--out", "labels.csv"), "a file is there and is not written over"),
        (("--store", "a.zarr", "--out", "no/own.csv"), "cannot be written"),
        (("--store", "a.zarr", "--into-store", "../x"), "the name of a set of clusters"),
        (("--store", "a.zarr", "--samples", "b.zarr"), "no store of a client is there"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(daskfc, labelled, tmp_path, words, said):
    before = (tmp_path / "labels.csv").read_text()
    done = daskfc("labels", "labels.csv", *words)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert (tmp_path / "labels.csv").read_text() == before


def test_clusters_that_are_not_there_are_said_to_be_missing(labelled):
    with pytest.raises(Exception, match=r"has no clusters called 'day'\. Correct the name"):
        read_clusters(labelled, "day")


def test_predict_hands_the_stores_to_the_run_and_says_where_the_labels_are(
    daskfc, monkeypatch, tmp_path
):
    asked = []

    def predict_run(folder, stores, **how):
        asked.append((folder, stores, how))
        return tmp_path / "predictions"

    monkeypatch.setattr(sys.modules["daskfc.cli.sites.labels"], "predict_run", predict_run)
    done = daskfc("predict", "r", "--store", "a=x=y.zarr", "--store", "b=z", "--seed", "3")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'predictions' / 'labels.csv'}\n"
    how = {"method": None, "seed": 3, "name": None}
    assert asked == [("r", {"a": "x=y.zarr", "b": "z"}, how)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--store", "a.zarr"), "--store must be CLIENT=URL; got 'a.zarr'."),
        (("--store", "=x"), "--store must be CLIENT=URL"),
        (("--store", "a=x", "--store", "a=y"), "--store names a client twice"),
        (("--store", "a=x"), "no run is there"),
    ],
)
def test_predict_refuses_what_names_no_store(daskfc, words, said):
    done = daskfc("predict", "no-run", *words)
    assert done.exit_code == 2
    assert said in done.stderr

"""The pure parts of the program that chooses numbers of clusters on public data sets."""

import numpy as np
import pytest

from pipelines.papers.omnifc import how_many, how_many_tables
from tests.pipelines.papers.pages import row_of


def record(data, clusterer, k, chosen, fits):
    about = {"kind": "how many", "data": data, "n": 1150, "k": k, "clusterer": clusterer}
    told = {str(one): {"index": index, "modularity": q} for one, (index, q) in fits.items()}
    return {**about, "chosen": chosen, "fits": told}


def choices(both, silhouette, modularity, **more):
    return {"silhouette-modularity": both, "silhouette": silhouette, "modularity": modularity,
            **more}  # fmt: skip


RECORDS = [
    record("iris", "k-means", 3, choices(3, 2, 7), {2: (0.5, 0.4), 3: (0.75, 0.6), 7: (0.25, 0.7)}),
    record("iris", "spectral", 3, choices(3, 2, 6, eigengap=9),
           {2: (0.5, 0.4), 3: (0.5, 0.65), 6: (0.25, 0.7), 9: (0.0, 0.6)}),
    record("wine", "k-means", 3, choices(5, 2, 3), {2: (0.5, 0.4), 3: (0.25, 0.5), 5: (1.0, 0.7)}),
    record("wine", "spectral", 3, choices(4, 3, 3, eigengap=3), {3: (1.0, 0.2), 4: (0.5, 0.3)}),
]  # fmt: skip


def test_the_page_counts_what_is_right_and_what_is_taken():
    text = how_many_tables.render(RECORDS, ["iris", "wine"], ["digits-of-4"])
    assert row_of(text, "k-means", "silhouette-modularity")[2:] == ["1 of 2", "1 of 2", "0.875"]
    assert row_of(text, "k-means", "silhouette")[2:] == ["0 of 2", "2 of 2", "0.500"]
    assert row_of(text, "k-means", "the number of labels")[2:] == ["", "", "0.500"]
    assert row_of(text, "spectral", "silhouette-modularity")[2:] == ["1 of 2", "2 of 2", "0.500"]
    assert row_of(text, "spectral", "eigengap")[2:] == ["1 of 2", "1 of 2", "0.500"]
    assert row_of(text, "iris", "1,150")[2:] == ["3", "3", "2", "7", "3", "2", "6", "9"]
    # at the numbers chosen: iris has more modularity by spectral clustering, wine by k-means
    assert row_of(text, "iris", "0.600")[2:] == ["0.650", "0.750", "0.500", "spectral"]
    assert row_of(text, "wine", "0.700")[2:] == ["0.300", "1.000", "0.500", "k-means"]
    assert "mean index **0.750**" in text
    assert "k-means for all sets has 0.875, spectral clustering for all 0.500" in text
    assert "the better one of each set 0.875" in text
    assert "tried once" not in text


def test_of_fits_that_are_as_good_spectral_clustering_is_taken():
    near = [
        record("iris", "k-means", 3, choices(3, 3, 3), {3: (0.75, 0.66)}),
        record("iris", "spectral", 3, choices(3, 3, 3, eigengap=3), {3: (0.5, 0.65)}),
    ]
    text = how_many_tables.render(near, ["iris"], [])
    assert row_of(text, "iris", "0.660")[-1] == "spectral"


def test_sets_that_were_tried_afterwards_have_tables_of_their_own():
    text = how_many_tables.render(RECORDS, ["wine"], ["iris"])
    first, second = text.split("\n## ")[1:]
    assert "| wine" in first
    assert "| iris" not in first
    assert "| iris" in second


def test_a_part_is_of_the_first_classes(tmp_path):
    y = np.arange(9000) % 9
    np.savez(tmp_path / "mnist.npz", X=np.arange(9000)[:, None], y=y)
    found = how_many.Part("mnist", 3).samples(tmp_path)
    assert len(found.X) == how_many.MOST
    assert found.n_clusters == 3
    np.testing.assert_array_equal(found.X[:, 0].astype(int) % 9, found.y)


@pytest.mark.parametrize("name", how_many.SETS)
def test_no_set_has_more_clusters_than_are_tried(name):
    """Else no criterion could be right."""
    part = how_many.PARTS.get(name)
    assert part is None or part.classes in how_many.CANDIDATES
    assert not name.startswith("coil20") or part is not None

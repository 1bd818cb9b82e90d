"""The pure parts of programs that measure views of other sets, and clients that differ."""

import numpy as np
import pytest

from pipelines.papers.esfmc import other_data
from pipelines.papers.kmeans import priors
from tests.pipelines.papers.pages import row_of


def views(data, **accuracies):
    about = {"kind": "set", "data": data, "n": 1150, "k": 3, "columns": "2 + 3", "words": "two"}
    fits = [
        {"kind": "views", "data": data, "method": method, "seed": seed, "acc": acc, "nmi": acc / 2}
        for method, own in accuracies.items()
        for seed, acc in enumerate(own)
    ]
    return [about, *fits]


def test_a_method_below_the_better_of_views_and_columns_is_named():
    records = [
        *views("HW", ESFMC=[0.9, 0.8], OmniFC=[0.85], all=[0.8], best=[0.89]),
        *views("COIL20", ESFMC=[0.7], OmniFC=[0.788], all=[0.8], best=[0.6]),
    ]
    text = other_data.render(records)
    assert row_of(text, "HW", "two")[2:6] == ["yes", "1,150", "2 + 3", "3"]
    assert row_of(text, "HW", "two")[6:8] == ["0.850 ± 0.050", "0.850 ± 0.000"]
    assert row_of(text, "COIL20", "two")[2] == "no"
    assert "ESFMC lies further below on 2 of 2 sets: HW (-0.040), COIL20 (-0.100)." in " ".join(
        text.split()
    )
    assert "OmniFC lies further below on 1 of 2 sets: HW (-0.040)." in " ".join(text.split())


def test_columns_are_brought_to_one_unit():
    found = other_data.unit(np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]]))
    np.testing.assert_array_equal(found, [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]])


@pytest.mark.parametrize("name", ["digits", "breast cancer"])
def test_views_have_the_same_samples(name, tmp_path):
    held = other_data.SETS[name](tmp_path)
    assert {len(view) for view in held.views} == {len(held.y)}
    assert len(held.views) == 3


def fit(data, skew, method, kappa, overdispersion=None):
    return {"kind": "priors", "data": data, "n": 150, "skew": skew, "seed": 0, "method": method,
            "kappa": kappa, "overdispersion": overdispersion}  # fmt: skip


def test_gains_and_the_largest_loss_are_told():
    records = [
        fit("iris", 0.0, "nearest", 0.8), fit("iris", 0.0, "priors", 0.79, 0.01),
        fit("iris", 1.0, "nearest", 0.8), fit("iris", 1.0, "priors", 0.9, 0.5),
        fit("iris", 1.0, "FFCM", 0.85), fit("digits", 1.0, "nearest", 0.7),
    ]  # fmt: skip
    text = priors.render(records)
    assert row_of(text, "iris", "no", "150", "0")[4:] == [
        "0.800 ± 0.000", "0.790 ± 0.000", "–", "-0.010", "0.010 ± 0.000",
    ]  # fmt: skip
    assert row_of(text, "iris", "no", "150", "1")[6:8] == ["0.850 ± 0.000", "+0.100"]
    assert "The largest loss against the nearest centre is 0.010." in text
    assert "digits" not in text

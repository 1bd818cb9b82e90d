"""Scores: values worked out by hand, scikit-learn, and laws."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, f1_score

from daskfc.errors import InvalidInput
from daskfc.metrics import (
    accuracy,
    all_metrics,
    ari,
    contingency,
    kappa,
    macro_f1,
    match_labels,
    nmi,
)
from tests.oracles import clustering as oracle

# 3 classes of 4, 3, 3 samples. Clusters: 5 = {4 of class 0}, 6 = {1 of class 1, 3 of class 2},
# 7 = {2 of class 1}. Best matching agrees on 4 + 2 + 3 = 9 of 10.
TRUE = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
PRED = [5, 5, 5, 5, 6, 7, 7, 6, 6, 6]


def test_scores_worked_out_by_hand():
    assert accuracy(TRUE, PRED) == 0.9
    # chance = (4*4 + 3*2 + 3*4) / 100 = 0.34; kappa = (0.9 - 0.34) / 0.66
    assert kappa(TRUE, PRED) == pytest.approx(0.56 / 0.66)
    # F1: class 0: 1; class 1: 2*2/(3+2); class 2: 2*3/(3+4)
    assert macro_f1(TRUE, PRED) == pytest.approx((1 + 4 / 5 + 6 / 7) / 3)
    # pairs together: in both 6 + 3 + 1, in classes 6 + 3 + 3, in clusters 6 + 6 + 1
    expected = 12 * 13 / 45
    assert ari(TRUE, PRED) == pytest.approx((10 - expected) / ((12 + 13) / 2 - expected))
    h_true = -(0.4 * np.log(0.4) + 2 * 0.3 * np.log(0.3))
    h_pred = -(2 * 0.4 * np.log(0.4) + 0.2 * np.log(0.2))
    joint = -(0.4 * np.log(0.4) + 0.1 * np.log(0.1) + 0.2 * np.log(0.2) + 0.3 * np.log(0.3))
    assert nmi(TRUE, PRED) == pytest.approx(2 * (h_true + h_pred - joint) / (h_true + h_pred))


def test_matching_is_one_to_one_and_counts_spare_clusters_as_wrong():
    classes, matched = match_labels([0, 0, 0, 0, 1, 1], [3, 3, 4, 4, 9, 9])
    assert classes.tolist() == [0, 0, 0, 0, 1, 1]
    assert sorted(matched[:4].tolist()) == [0, 0, 2, 2]
    assert accuracy([0, 0, 0, 0, 1, 1], [3, 3, 4, 4, 9, 9]) == pytest.approx(4 / 6)


def test_spare_clusters_have_numbers_of_their_own():
    _, matched = match_labels([0, 0, 0, 0, 0, 1], [4, 4, 5, 6, 7, 8])
    assert matched.tolist() == [0, 0, 2, 3, 4, 1]


def test_fewer_clusters_than_classes():
    assert accuracy([0, 0, 1, 2], [8, 8, 8, 8]) == 0.5
    assert macro_f1([0, 0, 1, 2], [8, 8, 8, 8]) == pytest.approx((2 * 2 / 6) / 3)
    assert kappa([0, 0, 1, 2], [8, 8, 8, 8]) == pytest.approx(0.0)


def test_noise_is_a_cluster_of_its_own():
    assert contingency([0, 0, 1], [-1, 0, 0])[0].tolist() == [[1, 1], [0, 1]]
    assert accuracy([0, 0, 1, 1], [-1, -1, 0, 0]) == 1.0


def test_one_class_and_one_cluster_agree_fully():
    assert all_metrics([3, 3], [0, 0]) == {"kappa": 1, "nmi": 1, "ari": 1, "acc": 1, "f1": 1}


def test_scores_agree_with_sklearn_after_matching():
    random = np.random.default_rng(0)
    true, pred = random.integers(0, 5, 300), random.integers(0, 6, 300)
    classes, matched = match_labels(true, pred)
    assert kappa(true, pred) == pytest.approx(cohen_kappa_score(classes, matched))
    score = f1_score(classes, matched, labels=np.unique(classes), average="macro")
    assert macro_f1(true, pred) == pytest.approx(score)


labels = st.integers(1, 9).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-1, 3), min_size=n, max_size=n)] * 2)
)


@settings(deadline=None)
@given(labels)
def test_kappa_is_that_of_the_best_matching(pair):
    true, pred = pair
    observed, value = oracle.best_kappa(true, pred)
    assert accuracy(true, pred) == pytest.approx(observed)
    assert kappa(true, pred) == pytest.approx(value)


@settings(deadline=None)
@given(labels, st.permutations(range(-1, 4)))
def test_names_of_clusters_do_not_matter(pair, image):
    true, pred = pair
    renamed = [image[p + 1] for p in pred]
    for score in (kappa, accuracy, nmi, ari):
        assert score(true, renamed) == pytest.approx(score(true, pred))


@settings(deadline=None)
@given(labels)
def test_the_truth_scores_one(pair):
    assert all(value == pytest.approx(1.0) for value in all_metrics(pair[0], pair[0]).values())


@pytest.mark.parametrize(
    ("true", "pred", "text"),
    [
        ([0, 1], [0], "one length; got 2 and 1"),
        ([], [], "not empty"),
        ([[0], [1]], [0, 1], "one-dimensional"),
    ],
)
def test_bad_labels_are_refused(true, pred, text):
    with pytest.raises(InvalidInput, match=text):
        kappa(true, pred)


def test_unknown_metric_is_refused():
    with pytest.raises(InvalidInput, match="no metric is named 'kapa'"):
        all_metrics([0], [0], ["kapa"])


@pytest.mark.parametrize(
    "values",
    [
        np.array([None, "a"], dtype=object),
        np.array([1, "a", None], dtype=object),
        np.array([1.0, np.nan]),
        [np.nan, "a"],
        pd.Series(["a", None], dtype="string"),
    ],
)
def test_labels_of_two_kinds_and_missing_ones_are_refused(values):
    rest = np.zeros(len(values))
    with pytest.raises(InvalidInput, match="the true labels must be all numbers or all words"):
        all_metrics(values, rest)
    with pytest.raises(InvalidInput, match="the predicted labels must be all numbers or all words"):
        all_metrics(rest, values)

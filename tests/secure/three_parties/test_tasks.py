"""Tasks of a computation on shares: what they hold, and that labels hang on no dealing."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from daskfc.errors import InvalidInput
from daskfc.secure.shared import DensityClusters, Lloyd, cut_numbers
from daskfc.secure.shared.planes import unpacked
from daskfc.secure.three_parties import CentresOfShares, DensityOfShares
from tests.secure.shared.lockstep import in_lockstep, told

TASK = CentresOfShares(Lloyd(6, 2, 2, 8, 1), seed=0)


@pytest.mark.parametrize("changes", [{"n_clusters": 7}, {"at_once": 1 << 40}])
def test_a_task_holds_together(changes):
    with pytest.raises(InvalidInput, match="k-means on shares needs no more clusters than"):
        replace(TASK, lloyd=replace(TASK.lloyd, **changes))
    with pytest.raises(InvalidInput, match="'at_once' of DBSCAN on shares"):
        DensityOfShares(DensityClusters(6, 2, 8, 1, 1, at_once=1 << 40))


def test_candidates_follow_from_the_seed_alone():
    same, other = CentresOfShares(TASK.lloyd, 0), CentresOfShares(TASK.lloyd, 1)
    assert (same.candidates, same.seeding) == (TASK.candidates, TASK.seeding)
    assert other.seeding != TASK.seeding
    assert sorted(TASK.candidates) == list(range(6))


def test_labels_of_dbscan_hang_on_no_place_of_a_sample():
    """Those of the pooled samples in an order of values: of a border sample, and numbers too."""
    x = np.array([[0, 0], [1, 0], [2, 0], [3, 1], [7, 0], [11, 1], [12, 0], [13, 0], [14, 2]])
    x = np.concatenate([x, x[[0, 0, 6]], [[90, 90], [40, 3], [41, 3], [42, 3], [43, 3]]])
    task = DensityOfShares(DensityClusters(len(x), 2, 7, 17, 4))
    run = in_lockstep(task.order.ordered, cut_numbers(x))
    run.results = [rows for rows, _ in run.results]
    in_order = told(run, signed=True)
    pooled = DBSCAN(eps=17.5**0.5, min_samples=4, algorithm="brute").fit_predict(in_order)
    wanted = {tuple(row): label for row, label in zip(in_order.tolist(), pooled, strict=True)}
    assert wanted[7, 0] in (wanted[0, 0], wanted[11, 1])
    assert len({*wanted.values()}) == 4
    random = np.random.default_rng(0)
    for _ in range(4):
        rows = random.permutation(x)
        run = in_lockstep(task.program, cut_numbers(rows))
        run.results = [planes for planes, _ in run.results]
        labels = task.labels(unpacked(told(run), len(x)))
        assert labels.tolist() == [wanted[tuple(row)] for row in rows.tolist()]

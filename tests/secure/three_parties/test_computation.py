"""Clusters on shares over a federation: labels of pooled samples, and nobody sees anything else."""

import os
import signal
from itertools import count

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from daskfc import Federation
from daskfc.errors import InvalidInput
from daskfc.federation import own_labels
from daskfc.federation.steps.handles import results
from daskfc.secure.shared import DensityClusters, Lloyd
from daskfc.secure.shared.seeding import FRACTION_BITS
from daskfc.secure.three_parties import (
    CentresOfShares,
    DensityOfShares,
    SharedComputation,
    WholeRows,
)
from daskfc.testing.federation import stores_of
from tests.oracles.shared import lloyd, seeded

SIZES = {"east": 31, "north": 38, "south": 17, "west": 34}  # in the order of their names
CENTRES = 90 * np.random.default_rng(1).normal(size=(4, 3))
NUMBERS, MEMBERS = count(), ("east", "north", "south")  # by default
N, D, BITS = sum(SIZES.values()), 3, 10


def samples():
    random = np.random.default_rng(0)
    own = CENTRES[random.integers(0, 4, N)] + 9 * random.normal(size=(N, D))
    return np.rint(own).astype(np.int64)


X = samples()
ENDS = np.cumsum(list(SIZES.values()))
ROWS = dict(zip(SIZES, np.split(X, ENDS[:-1]), strict=True))
DENSITY = DensityOfShares(DensityClusters(N, D, BITS, 15**2, 5))
MEANS = CentresOfShares(Lloyd(N, D, 4, BITS, 2), seed=2)


def expected():
    """Return the labels of k-means in the clear, from the same candidates."""
    own, plan = X[MEANS.candidates], MEANS.seeding
    start = own[seeded(own, plan.starts, 1 << FRACTION_BITS)]
    return lloyd(X, start, 2, BITS)[0]


def whole(data):
    return WholeRows(data.rows(0, data.n_samples).astype(np.int64))


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    urls = stores_of(tmp_path_factory.mktemp("rows"), {k: v.astype(float) for k, v in ROWS.items()})
    with Federation.local(urls) as found:
        yield found


def clustered(federation, task, members=None):
    """Return the labels of all samples, and the computation."""
    federation.start_run(f"shares-{next(NUMBERS)}", random_state=0)
    try:
        computation = SharedComputation(federation, members)
        labels = computation.labels(federation.on_clients(whole), task)
        sent = results(federation.publish(own_labels, labels, party="clients", wait=False))
        return np.concatenate([sent[name].labels for name in SIZES]), computation
    finally:
        federation.end_run()


def same_clusters(found, wanted):
    """Return whether two labellings are one but for the numbers of clusters; noise stays noise."""
    pairs = set(zip(found.tolist(), wanted.tolist(), strict=True))
    noise = (found == -1) == (wanted == -1)
    return noise.all() and len(pairs) == len(set(found)) == len(set(wanted))


def test_dbscan_is_that_of_the_pooled_samples(federation):
    labels, computation = clustered(federation, DENSITY)
    wanted = DBSCAN(eps=15, min_samples=5).fit_predict(X)
    assert len(set(wanted)) > 3
    assert -1 in wanted
    assert same_clusters(labels, wanted)
    assert computation.members == MEMBERS


def test_only_declared_messages_leave_and_the_caller_learns_the_number_of_rounds(federation):
    labels, computation = clustered(federation, MEANS)
    np.testing.assert_array_equal(labels, expected())  # Lloyd's algorithm on the pooled samples
    frame = federation.ledger.to_frame()
    between = {"PublicKeys": 6, "SharedRows": 4 * 3 - 3, "LabelSummand": 3 * 4 - 3}
    counts = frame["message"].value_counts()
    assert {name: counts[name] for name in between} == between
    assert set(frame["message"]) == {*between, "SharedWords", "RoundsTaken", "LabelledSamples"}
    assert "server" not in {*frame["sender"], *frame["receiver"]}
    to_caller = set(frame[frame["receiver"] == "caller"]["message"])
    assert to_caller == {"RoundsTaken", "LabelledSamples"}
    words = frame[frame["message"] == "SharedWords"]
    taken = [shapes["values"] != [0] for shapes in words["shapes"]]
    assert sum(taken) == 3 * computation.n_rounds
    assert set(frame[frame["receiver"] == "west"]["message"]) == {"LabelSummand"}  # no member


@pytest.mark.few(1)
@pytest.mark.parametrize("victim", ["north", "south"])
def test_any_three_clients_compute_and_one_that_is_killed_changes_no_label(federation, victim):
    killed, three = [], ("west", "north", "east")

    def kill(stage, done, total):
        if not killed:
            killed.append(federation.processes.pid(victim))
            os.kill(killed[0], signal.SIGKILL)

    federation.on_progress = kill
    try:
        labels, computation = clustered(federation, MEANS, three)
    finally:
        federation.on_progress = None
    assert federation.processes.pid(victim) != killed[0]
    assert computation.members == three
    np.testing.assert_array_equal(labels, expected())


@pytest.mark.parametrize(
    "members", [("north", "south"), ("north", "north", "west"), ("a", "b", "c")]
)
def test_other_than_three_clients_are_refused(federation, members):
    with pytest.raises(InvalidInput, match="three different clients of the federation; got '"):
        SharedComputation(federation, members)

"""The server's steps on two views of which each lacks some samples."""

from dataclasses import replace

import numpy as np
import pytest

from daskfc.federation.methods.linking import Linked
from daskfc.protocols.esfmc import server
from daskfc.protocols.esfmc.messages import Assignments, SharedFeatures

K = 3
N = 90
TRUE = np.arange(N) % K
IN_ALL = np.arange(N) < 60
PLACES = {"client-1": np.arange(75), "client-2": np.setdiff1d(np.arange(N), np.arange(60, 75))}
FOUND = Linked(N, PLACES, {"client-1": 0, "client-2": 1}, IN_ALL)
HEADS = (TRUE + (np.arange(N) % 7 == 0)) % K  # what the clients' heads say: not all of it true


def features(seed):
    random = np.random.default_rng(seed)
    return {
        client: SharedFeatures(
            (np.eye(K)[TRUE[places]] + 0.05 * random.normal(size=(len(places), K))).astype("f4")
        )
        for client, places in PLACES.items()
    }


def assignments():
    probable = (0.1 + 0.7 * np.eye(K)[HEADS]).astype("f4")
    return {client: Assignments(probable[places]) for client, places in PLACES.items()}


@pytest.fixture(params=[False, True], ids=["local", "align"])
def grouped(request):
    """What the server knows after two rounds, and whether it has assignments."""
    settings, grouping = server.ServerSettings(K, "robust", 0), None
    for number in (1, 2):
        said = assignments() if request.param and number > 1 else None
        grouping = server.cluster(FOUND, features(number), said, grouping, settings)
    return grouping, request.param


def test_a_map_is_drawn_from_samples_of_all_views_that_have_labels(grouped):
    grouping, _ = grouped
    rows, labels = server.seen_by_map(FOUND, features(2), grouping, 0)
    np.testing.assert_array_equal(labels, grouping.labels[IN_ALL])
    told = server.sample_map((rows, labels))
    assert len(told.labels) == IN_ALL.sum()
    shared = replace(FOUND, views={"client-1": 0, "client-2": 0})
    assert len(server.sample_map(server.seen_by_map(shared, features(2), grouping, 0)).labels) == 0


def test_samples_of_all_views_are_clustered_and_heads_train_on_these(grouped):
    grouping, _ = grouped
    assert len(set(zip(TRUE[IN_ALL], grouping.labels[IN_ALL], strict=True))) == K
    for client, told in server.labels_after(FOUND, grouping).items():
        places = PLACES[client]
        np.testing.assert_array_equal(
            told.labels, np.where(IN_ALL[places], grouping.labels[places], server.NONE)
        )


def test_a_sample_that_a_view_lacks_gets_the_label_of_q_or_of_its_client(grouped):
    grouping, aligned = grouped
    for client, told in server.labels_at_last(FOUND, grouping).items():
        places = PLACES[client]
        lacking = HEADS[places] if aligned else np.full(len(places), server.NONE)
        np.testing.assert_array_equal(
            told.labels, np.where(IN_ALL[places], grouping.labels[places], lacking)
        )


def test_a_client_weighs_as_much_as_its_features_agree_with_the_labels():
    rng = np.random.default_rng(0)
    telling = server.Block(np.arange(N), np.eye(K)[TRUE])
    silent = server.Block(np.arange(N), rng.normal(size=(N, K)))
    labels = np.where(IN_ALL, TRUE, server.NONE)
    alone = server.Block(np.flatnonzero(~IN_ALL), np.eye(K)[TRUE[~IN_ALL]])
    weights = server._weights([telling, silent, alone], labels)
    assert weights[0] == 1.0
    assert weights[1] < 0.5
    assert weights[2] == 0.0  # none of its samples has a label
    assert server._weights([alone], labels) == [1.0]


def test_q_is_told_only_where_it_is_known(grouped):
    grouping, aligned = grouped
    assert (grouping.assignments is not None) == aligned
    assert server.report(FOUND, grouping).change == 0.0
    if aligned:
        told = server.shared_assignments(grouping).probabilities
        np.testing.assert_array_equal(told.argmax(axis=1), HEADS)

"""The messages of ESFMC."""

import math

import numpy as np

from daskfc.federation import Message, NoiseMultiplier, array


class LinkedSamples(
    Message,
    route="server → client",
    reveals="how many samples all clients have, and which of a client's own all views have",
):
    """The places of a client's samples in the order of all pseudonyms."""

    places: np.ndarray = array("sample", dtype="int64")
    in_all_views: np.ndarray = array("sample", dtype="bool")
    n_samples: int


class SharedFeatures(
    Message,
    route="client → server",
    reveals=(
        "a map of every sample's columns, by which who knows the columns of some samples can "
        "rebuild much of the others'"
    ),
):
    """A client's features of a round: Z_c, or others as the parameter `share` says."""

    features: np.ndarray = array("sample", "feature", dtype="float32")
    noise_multiplier: NoiseMultiplier = math.inf


class Assignments(
    Message,
    route="client → server",
    reveals="how probable the client's own view finds each cluster for every sample",
):
    """Q^m: the assignments of a client's samples by its clustering head."""

    probabilities: np.ndarray = array("sample", "cluster", dtype="float32")


class SharedAssignments(
    Message,
    route="server → client",
    reveals="how probable each cluster is for every sample, over the clients that have it",
):
    """Q, Eq. (14), in the order of all pseudonyms."""

    probabilities: np.ndarray = array("sample", "cluster", dtype="float32")


class Votes(
    Message,
    route="client → server",
    reveals="the clusters of samples that some views have and others lack",
):
    """A client's own labels of samples that some other views have, but not all."""

    labels: np.ndarray = array("sample", dtype="int64")


class LinkReport(
    Message,
    route="server → caller",
    reveals="to the caller how many samples there are, and how many of them all views have",
):
    """Numbers of samples in any and in all views."""

    n_samples: int
    n_in_all_views: int
    joins_graphs: int  # 1 if those in all views are too few, or several clients share a view


class RoundReport(
    Message,
    route="server → caller",
    reveals="to the caller how many samples have a label, and how many changed theirs",
):
    """The result of a round."""

    n_samples: int
    n_labelled: int  # clients label the others
    n_to_vote: int  # of the others, samples of several clients
    change: float  # share of the samples labelled before that have another label now


class TrainingLosses(
    Message,
    route="client → caller",
    reveals="to the caller how well a client's network fits its own samples, epoch by epoch",
):
    """The losses of a client's training in a round, as `EpochLosses`."""

    losses: np.ndarray = array("epoch", 5, dtype="float64")

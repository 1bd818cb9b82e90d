"""The messages of FedSC."""

import math

import numpy as np

from daskfc.federation import Message, NoiseMultiplier, array


class KernelSummary(
    Message,
    route="client → server",
    reveals="a client's number of samples, their mean distance, the rank of its kernel",
):
    """A client's input to the choice of the kernel's width and the number of atoms."""

    n_samples: int
    n_features: int
    mean_distance: float
    n_atoms: int
    magnitude: float
    noise_multiplier: NoiseMultiplier = math.inf


class KernelPlan(
    Message,
    route=("server → client", "server → caller"),
    reveals="mean distance, largest magnitude and largest client, over all clients",
):
    """The kernel's width, sizes and bounds that all parties of a run use."""

    width: float
    n_atoms: int
    n_features: int
    magnitude: float
    largest_client: int


class Dictionary(Message, route="server → client", reveals="the mean of the clients' dictionaries"):
    """The shared dictionary Z of a round."""

    atoms: np.ndarray = array("atom", "feature", dtype="float64")


class FinalDictionary(
    Message, route="server → client", reveals="the mean of the clients' dictionaries"
):
    """The last dictionary, with the root R of its kernel that all clients use."""

    atoms: np.ndarray = array("atom", "feature", dtype="float64")
    root: np.ndarray = array("atom", "atom", dtype="float64")


class SimilarityRows(
    Message,
    route="client → server",
    reveals=(
        "all similarities, and with the dictionary the client's samples as far as the atoms span "
        "them: exactly, with more atoms than features"
    ),
):
    """A client's coefficients times the root: inner products of rows are similarities."""

    rows: np.ndarray = array("sample", "atom", dtype="float64")
    noise_multiplier: NoiseMultiplier = math.inf


class DictionaryChange(
    Message, route="server → caller", reveals="to the caller the dictionary's relative change"
):
    """The dictionary's relative change in a round."""

    change: float


class Resumed(
    Message, route="server → caller", reveals="to the caller how far an earlier start came"
):
    """The round after which a fit resumes, and the releases of earlier starts."""

    round: int
    change: float
    multipliers: np.ndarray = array("release", dtype="float64")


class Reconstruction(
    Message,
    route="client → caller",
    reveals="to the caller two errors of a client's own similarities, and their bound",
):
    """Errors of a client's own similarities, and their bound."""

    error: float
    rms: float
    bound: float


class FactorView(
    Message,
    protection="raw",
    route="server → caller",
    reveals="to the caller the dictionary and every sample's coefficients",
):
    """The factors that the server can compute, for a study of privacy."""

    dictionary: np.ndarray = array("atom", "feature", dtype="float64")
    coefficients: np.ndarray = array("atom", "sample", dtype="float64")

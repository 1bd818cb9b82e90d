"""Messages of a federated Gaussian mixture."""

import numpy as np

from daskfc.federation import Message, array, text


class MixtureUnits(
    Message,
    route=("server → client", "server → caller"),
    reveals="the mean and deviation of each feature over all clients, and the number of samples",
):
    """The units in which a mixture is fitted."""

    means: np.ndarray = array("feature", dtype="float64")
    scales: np.ndarray = array("feature", dtype="float64")
    n_rows: int


class Mixture(
    Message,
    route=("server → client", "server → caller"),
    reveals="weights, means and covariances of the components, and the mean log-likelihood",
):
    """Parameters in `MixtureUnits`; a covariance is a matrix, a diagonal (1, d) or (1, 1)."""

    weights: np.ndarray = array("component", dtype="float64")
    means: np.ndarray = array("component", "feature", dtype="float64")
    covariances: np.ndarray = array("covariance", "row", "column", dtype="float64")
    unit: float  # of sums of log-likelihoods
    log_likelihood: float  # of these parameters once all rounds are over, before it of earlier ones
    mark: float  # of these parameters and `after`, in what clients make of them
    after: float  # the mark of the responsibilities whose moments were opened last; 0 of none


class MixtureHeld(
    Message,
    route="server → client",
    reveals="which components' responsibilities stay, since those of too few samples changed",
):
    """Components that are as they were in the sums of this iteration."""

    held: np.ndarray = array("component", dtype="bool")
    mark: float  # of the parameters


class MixtureProgress(
    Message,
    route="server → caller",
    reveals="the log-likelihood, a bound on the next sums, whether they are opened, and what ended "
    "the rounds",
):
    """The state between two sums, from which the caller goes on."""

    opens: int
    bound: float
    n_iter: int
    log_likelihood: float
    ended: str = text(8)  # "rest", "held", "rounds", "numbers"; "" while they go on

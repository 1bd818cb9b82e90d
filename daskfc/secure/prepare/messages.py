"""All messages that leave a party in the preparation of features."""

import numpy as np

from daskfc.federation import Message, array


class ColumnMagnitudes(
    Message,
    route="client → server",
    reveals="the largest magnitude of each of the client's columns, rounded up to a power of two",
):
    """Powers of two that bound the magnitudes of a column; they fix the precision of sums."""

    powers: np.ndarray = array("column", dtype="int16")


class CommonMagnitudes(
    Message,
    route="server → client",
    reveals="the largest magnitude of each column over all clients, as a power of two",
):
    """The largest of the clients' powers."""

    powers: np.ndarray = array("column", dtype="int16")


class FittedMeans(
    Message,
    route=("server → client", "server → caller"),
    reveals="the mean of each column over all clients",
):
    """Means, from a masked sum."""

    means: np.ndarray = array("column", dtype="float64")


class FittedScales(
    Message,
    route="server → caller",
    reveals="to the caller the standard deviation of each column over all clients",
):
    """Standard deviations, from a masked sum; 1 for constant columns."""

    scales: np.ndarray = array("column", dtype="float64")


class FittedComponents(
    Message,
    route="server → caller",
    reveals="to the caller the principal directions of all samples, and their variances",
):
    """Principal components, from a masked sum of covariances."""

    components: np.ndarray = array("component", "column", dtype="float64")
    variances: np.ndarray = array("component", dtype="float64")


class SampleTotal(
    Message, route="server → caller", reveals="to the caller the number of samples of all clients"
):
    """The number of samples in a noisy sum."""

    n_samples: int


class ZeroRows(
    Message,
    route="server → caller",
    reveals="to the caller how many samples of all clients have zeros alone",
):
    """The number of samples that are all zeros, from a masked sum."""

    n_samples: int


class CountsOfWords(
    Message,
    route="server → caller",
    reveals="to the caller how many samples of all clients there are, and have a value above 0 in "
    "each column, where as many do as the run requires of a sum, and of how many columns fewer do",
):
    """In how many samples each word occurs, from a masked sum."""

    counts: np.ndarray = array("column", dtype="int64")
    n_samples: int
    withheld: int


class RowLengths(
    Message,
    route="server → caller",
    reveals="to the caller, who tells all clients, the length of each sample over all columns",
):
    """Lengths of the rows of all clients' columns together, from a masked sum of their squares."""

    lengths: np.ndarray = array("sample", dtype="float64")


class NoisyScales(
    Message,
    route="server → caller",
    reveals="to the caller the mean and standard deviation of each column, with noise",
):
    """Moments of values within declared ranges, from a masked sum with every client's noise."""

    means: np.ndarray = array("column", dtype="float64")
    scales: np.ndarray = array("column", dtype="float64")


class NarrowedRanges(
    Message,
    route="server → client",
    reveals="in which range of values the wanted quantiles of each column lie, ever narrower",
):
    """First and last sortable number of the ranges of the samples at the wanted ranks.

    1 and 0 where a search has ended. `mark` stands for the columns and their preparation.
    """

    low: np.ndarray = array("column", "rank", dtype="uint64")
    high: np.ndarray = array("column", "rank", dtype="uint64")
    mark: int


class FittedQuantiles(
    Message,
    route="server → caller",
    reveals="to the caller quantiles of each column over all clients",
):
    """Quantiles, from histograms that are masked sums."""

    values: np.ndarray = array("column", "level", dtype="float64")


class HashKey(Message, route="client → client", reveals="nothing: random bits"):
    """The key of a hash that the clients share and the server does not have."""

    key: np.ndarray = array(32, dtype="uint8")


class KeptBuckets(
    Message,
    route="server → client",
    reveals="which hashes, by a key that the server has not, enough samples of all clients share; "
    "and how many words of each column enough samples have, but of too few clients",
):
    """Hashes whose words the clients shall send, each with its column.

    `mark` stands for the columns, preparation and key of the counts.
    """

    columns: np.ndarray = array("kept", dtype="int64")
    buckets: np.ndarray = array("kept", dtype="int64")
    withheld: np.ndarray = array("column", dtype="int64")
    mark: int


class FittedWords(
    Message,
    route="server → caller",
    reveals="to the caller the words that enough samples of all clients share, and how many do; "
    "and how many words enough samples have, but of too few clients",
):
    """Words of columns, from a masked sum of their bytes; not which client has them."""

    columns: np.ndarray = array("word", dtype="int64")
    counts: np.ndarray = array("word", dtype="int64")
    word_bytes: np.ndarray = array("byte", dtype="uint8")
    word_ends: np.ndarray = array("word", dtype="int64")
    collided: np.ndarray = array("collided", dtype="int64")
    withheld: np.ndarray = array("column", dtype="int64")


class WordsLeave(
    Message,
    route="client → caller",
    reveals="to the caller whether the site's policy lets it know which words its samples have",
):
    """The entry ``words`` of a site's policy: 1 for allow."""

    told: int


class OwnWords(
    Message,
    route="client → caller",
    reveals="to the caller which of the agreed words the client's samples have; not sent unless "
    "the policies of all sites allow it",
):
    """For the agreed words of all columns in turn, whether any sample has it."""

    held: np.ndarray = array("word", dtype="bool")


class LoneWords(
    Message,
    route="server → caller",
    reveals="to the caller, of each column, how many of the agreed words one client alone has",
):
    """Numbers of words that only one client has, from a masked sum; not which, nor whose."""

    counts: np.ndarray = array("column", dtype="int64")

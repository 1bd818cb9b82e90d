"""All messages that leave a party in a computation of distances."""

import numpy as np

from daskfc.federation import Message, array


class SampleSummary(
    Message,
    route="client → server",
    reveals=(
        "a pseudonym per sample, the number and names (hashed) of the features, the largest norm "
        "and half the diagonal of the box that holds the samples, both rounded up to a power of "
        "2**(1/8), whether the values lie on a grid, whether the samples are the same as in an "
        "earlier run"
    ),
):
    """A client's sample pseudonyms and range, from which the server plans the code."""

    digests: np.ndarray = array("sample", dtype="uint64")
    share: int  # of the secret that the order of all samples depends on; other clients lack it
    n_features: int
    columns: int  # of their names, in order
    content: int  # of the samples, under the client's own key, for resuming
    radius: float  # >= max |x|
    spread: float  # >= max |x - b| for the middle b of the box; infinite where not reported
    grids: int  # bit i: the values are on daskfc.coding.GRIDS[i]


class Reach(
    Message,
    route="client → server",
    reveals="how far a client's samples go from the centre, rounded up to a power of 2**(1/8)",
):
    """The range of a client's samples about the centre of all."""

    radius: float  # >= max |x - c|


class NearestApart(
    Message,
    route=("client → server", "server → caller"),
    reveals=(
        "the squared distance that a hundredth of a client's samples have to their nearest own "
        "that is not the same, or one that is nearer, rounded down to a power of two"
    ),
):
    """A small distance between different samples, for a grid that does not make them equal."""

    squared: float  # infinite where all are the same


class ViewModularity(
    Message,
    route="client → caller",
    reveals="to the caller how clearly the client's own columns fall into groups",
):
    """The modularity of groups that a client finds in its own columns, their weight."""

    modularity: float


class NewSamples(
    Message, route="client → caller", reveals="to the caller the number of new samples"
):
    """How many new samples a client wants labelled."""

    n_samples: int


class PublicPlan(
    Message,
    route="server → caller",
    reveals="to the caller the number of samples per client, the features, the range",
):
    """The size of the problem and the range of the data, for the caller to plan the run."""

    samples: np.ndarray = array("client", dtype="int64")
    n_samples: int  # of all clients; fewer than the sum where several hold columns of one
    n_features: int
    radius: float
    spread: float  # the largest of the clients'
    grids: int
    problem: int  # identifies ids, contents and range, to resume


class GapReport(
    Message,
    route="server → caller",
    reveals="to the caller how many samples lack columns, and how little two of them share",
):
    """What comes of samples that lack columns, of which two are compared by what they share."""

    lacking: int  # samples
    scaled: int  # pairs that share some columns
    apart: int  # pairs that share none
    share: float  # the least that a pair shares, if any, of the weight of all columns
    far: float  # squared distance of pairs that share none
    stretch: float  # of squared distances that the grid resolves, where scaled: 1 or more

    def in_words(self) -> str:
        """Return the report in a sentence."""
        least = f"which share {100 * self.share:.3g} % of the columns' weight or more"
        told = f"{self.lacking:,} samples lack some: {self.scaled:,} pairs scaled, {least}"
        return told + f"; {self.apart:,} share none and are apart" * bool(self.apart)


class GapsAllowed(
    Message,
    route="client → client",
    reveals="to the evaluators that the client takes part where samples may lack columns",
):
    """A client's word, without which evaluators take no samples that lack columns."""

    allowed: int  # 1


class RowPositions(
    Message,
    route="server → client",
    reveals="to the evaluators how many samples each client has, in an order that tells no more",
):
    """The places of each client's rows in the canonical order."""

    positions: np.ndarray = array("sample", dtype="int64")
    ends: np.ndarray = array("client", dtype="int64")  # cumulative numbers of samples
    groups: np.ndarray = array("client", dtype="int64")  # clients of one have the same columns


class CodedRows(
    Message,
    protection="coded",
    route="client → client",
    reveals="nothing to any n_colluding evaluators that pool what they hold",
):
    """Lagrange shares of a client's rows for one evaluator (Eq. 3), per prime, or their key."""

    residues: np.ndarray = array("prime", "row", "column", dtype="uint8 | uint32")
    seed: np.ndarray = array("byte", dtype="uint8")  # of the first t evaluators' residues
    start: int  # first row, in the order of the client's store
    n_rows: int
    n_columns: int
    fingerprint: int  # of the client's secret: one encoding, one run


class HidingKey(
    Message,
    route="client → client",
    reveals="to the evaluators what hides single segments from the server",
):
    """Key of the polynomial that hides the segments' distances; the server must not have it."""

    key: np.ndarray = array("byte", dtype="uint8")


class Landmarks(
    Message,
    route="server → client",
    reveals=(
        "to the evaluators which samples lie far from the landmarks so far, and about how many "
        "dimensions are left"
    ),
):
    """The next landmark samples, as canonical positions."""

    positions: np.ndarray = array("landmark", dtype="int64")


class KeptRows(
    Message,
    route="server → client",
    reveals="to a client how many of its samples the last fit like this one had, and its landmarks",
):
    """What the server kept of the last fit, for one client, in the order of its store."""

    n_rows: int
    landmarks: np.ndarray = array("landmark", dtype="int64")  # ascending


class RowTags(
    Message,
    route="client → server",
    reveals="whether the client's first samples are those of the last fit like this one",
):
    """Tags under the client's own key: of as many samples as the last fit had, and of all."""

    first: int
    every: int


class LastFit(
    Message,
    route="server → caller",
    reveals=(
        "to the caller, of the last fit like this one, how many samples of each client it had and "
        "whether these are the same, how many landmarks, and the distance that it resolved"
    ),
):
    """How much of what the server kept of the last fit still holds."""

    samples: np.ndarray = array("client", dtype="int64")  # -1: others, or seen otherwise
    rounds: np.ndarray = array("round", dtype="int64")  # landmarks of each; none if none is kept
    resolved: float  # 0 for the first grid
    alike: int  # whether range and grid of all samples are the same


class CodedDistances(
    Message,
    protection="coded",
    route=("client → server", "client → server worker"),
    reveals="the block's true squared distances, once enough answers are in",
):
    """Squared distances of coded rows at one evaluator (Eq. 4), per prime, for one block."""

    residues: np.ndarray = array("prime", "row", "column", dtype="uint8 | uint32")
    encoding: int  # of all clients' fingerprints and the hiding key


class ServerDisk(
    Message, route="server → caller", reveals="to the caller the server's free disk space"
):
    """Free bytes on the disk of the server's folder."""

    free: int


class MissingBlocks(
    Message, route="server → caller", reveals="to the caller how much work is left"
):
    """The blocks of distances that the server does not hold yet."""

    blocks: np.ndarray = array("block", 2, dtype="int64")


class LandmarkStatus(
    Message,
    route="server → caller",
    reveals=(
        "to the caller the rank of the data and the largest relative residual; to the evaluators, "
        "by what they are asked next, how large it is, within a factor of 200"
    ),
):
    """How well the landmarks span the samples."""

    n_landmarks: int
    rank: int
    residual: float  # largest squared distance to the span over the mean squared distance
    converged: int
    n_primes: int  # that determine the next columns, given the bounds on them


class PointsStatus(
    Message,
    route="server → caller",
    reveals="to the caller the rank of the data and how surely its distances follow from columns",
):
    """The error bound of distances from coordinates, in 1 / S², and whether it suffices."""

    rank: int
    error: float
    least: float  # of the error, what other landmarks do not change
    certified: int
    primes: np.ndarray = array("prime", dtype="int64")  # whose residues decide what rounding cannot


class DecodedBlock(
    Message, route="server → caller", reveals="to the caller which evaluators contradict the others"
):
    """An acknowledgement that a block is stored, with the evaluators that answered wrongly."""

    wrong: np.ndarray = array("evaluator", dtype="int64")

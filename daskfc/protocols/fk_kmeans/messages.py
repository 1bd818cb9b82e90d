"""The messages of federated kernel k-means."""

import numpy as np

from daskfc.arrays import Floats
from daskfc.federation import Message, array
from daskfc.protocols.fk_kmeans.maths.dspgd import Iteration


class FeaturePlan(
    Message,
    route=("server → client", "server → caller"),
    reveals="the kernel's width and the number of samples, over all clients; their mean too, where "
    "they lie so far from the origin that they are seen from it",
):
    """The kernel width, number of samples and centre that all parties use."""

    width: float
    n_samples: int
    centre: np.ndarray = array("feature", dtype="float64")  # empty for the origin

    def seen(self, rows: Floats) -> Floats:
        """Return rows relative to the centre."""
        return rows - self.centre if self.centre.size else rows


class Eigenpairs(
    Message,
    route=("server → client", "server → caller"),
    reveals="the largest eigenpairs of WᵀW over all clients: how random features of samples vary",
):
    """The eigenpairs that end an iteration, as `maths.dspgd.Iteration`."""

    values: np.ndarray = array("eigenpair", dtype="float64")
    vectors: np.ndarray = array("column", "eigenpair", dtype="float64")
    threshold: float
    number: int
    n_products: int  # of Lanczos; 0 for a sum of Gram matrices

    @property
    def iteration(self) -> Iteration:
        """The eigenpairs as `maths.dspgd` takes them."""
        return Iteration(self.values, self.vectors, self.threshold, self.number)


class LanczosVectors(
    Message, route="server → client", reveals="directions in the space of the random features"
):
    """Vectors that each client multiplies by its W[m]ᵀW[m]: c_q of Algorithm 2."""

    vectors: np.ndarray = array("column", "vector", dtype="float64")


class LanczosProgress(
    Message, route="server → caller", reveals="how many products Lanczos has taken"
):
    """Whether Lanczos has ended."""

    done: int  # 1 or 0
    n_rounds: int  # so far
    n_left: int  # at most, until the vectors span everything


class Spectrum(
    Message,
    route="server → caller",
    reveals="to the caller the largest eigenvalues of the kernel matrix as estimated so far",
):
    """Progress of the iterations of Section 4.1, without their eigenvectors."""

    values: np.ndarray = array("eigenpair", dtype="float64")
    threshold: float
    change: float
    n_products: int


class IterationsDone(
    Message, route="server → caller", reveals="how many iterations an earlier start of a fit did"
):
    """The iteration after which a fit resumes."""

    n_iterations: int


class SampleCount(Message, route="client → server", reveals="the client's number of samples"):
    """The number of a client's rows in a vector over all samples (Section 4.1)."""

    n_samples: int


class VectorRows(
    Message, route="server → client", reveals="directions in the space of all clients' samples"
):
    """A client's rows of vectors over all samples: c_q[m] of Section 4.1."""

    rows: np.ndarray = array("sample", "vector", dtype="float64")


class ProjectedVectors(
    Message, route="server → client", reveals="sums over all clients of features times vectors"
):
    """Aᵀ c_q / √D over all clients (Section 4.1, step 3)."""

    vectors: np.ndarray = array("feature", "vector", dtype="float64")


class ProductRows(
    Message,
    route="client → server",
    reveals="products of the client's random features, one for each of its samples",
):
    """A[m] Aᵀ c_q / D, the client's rows of a product (Section 4.1, step 4)."""

    rows: np.ndarray = array("sample", "vector", dtype="float64")


class EmbeddedRows(
    Message, route="server → client", reveals="to each client its own samples' coordinates"
):
    """H[m] where the server has the eigenvectors themselves (Section 4.1)."""

    rows: np.ndarray = array("sample", "coordinate", dtype="float64")

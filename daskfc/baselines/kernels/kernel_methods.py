"""The base class of federated kernel k-means baselines, with a kernel width from all clients."""

from dataclasses import dataclass
from typing import ClassVar

from daskfc.checks import integer, one_of, optional, real
from daskfc.clustering.kernels.features import KERNELS, Kernel
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.parameters import param
from daskfc.secure.kmeans import Clusters, open_kmeans
from daskfc.secure.sums import KernelWidth, agree_on_width, open_sum


@dataclass(frozen=True)
class KernelChoice:
    """A kernel, one of `KERNELS`, without its width; `degree` is for the polynomial one."""

    kind: str
    degree: int

    def of_width(self, width: KernelWidth) -> Kernel:
        """Return the kernel of a width."""
        return Kernel(self.kind, width.width, self.degree)


class FederatedKernelClusterer(FederatedClusterer):
    """Base of the baselines that end in distributed linear k-means on rows from a kernel."""

    split: ClassVar = "samples"

    n_clusters: int = param(integer(low=1), kw_only=False)
    kernel: str = param(one_of(*KERNELS), default="gaussian")
    kernel_width: float | None = param(optional(real(above=0)), default=None)
    degree: int = param(integer(low=1), default=3)
    n_features: int = param(integer(low=1), default=200)
    coreset_size: int = param(integer(low=0), default=1000)
    n_init: int = param(integer(low=1), default=10)

    kernel_width_: float

    @property
    def _choice(self) -> KernelChoice:
        return KernelChoice(self.kernel, self.degree)

    def _width(self, federation: Federation) -> KernelWidth | Sent[KernelWidth]:
        """Return the width for steps of clients: as given, or from one masked sum."""
        if self.kernel_width is not None:
            self.kernel_width_ = float(self.kernel_width)
            return KernelWidth(self.kernel_width_)
        # allow_few, as later messages reveal more of a single client than its sums do
        sums = open_sum(federation, "masked", allow_few=True)
        agreed = agree_on_width(federation, sums, self.kernel)
        self.kernel_width_ = federation.publish(agreed).width
        return federation.tell(agreed)

    def _clusters(self, federation: Federation, rows: PerClient[Local]) -> Clusters:
        kmeans = open_kmeans(
            federation,
            "coreset",
            n_clusters=self.n_clusters,
            seed=self.seed_,
            coreset_size=self.coreset_size,
            n_init=self.n_init,
        )
        return kmeans.fit(rows)

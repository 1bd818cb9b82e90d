"""Baselines for comparison: other federated methods, and central algorithms on pooled raw data."""

from daskfc.baselines.centers.dsc import DSC
from daskfc.baselines.centers.fedmavg import FedMAvg
from daskfc.baselines.centers.ffcm import FFCM
from daskfc.baselines.centers.k_fed import KFED
from daskfc.baselines.centers.mufc import MUFC
from daskfc.baselines.kernels.ce_pca import CEPCA
from daskfc.baselines.kernels.rfk_kmeans import RFKKMeans
from daskfc.baselines.pooled.central import Central
from daskfc.baselines.pooled.graphs import AGC, GCC
from daskfc.baselines.pooled.views import JoinedViews, OneView
from daskfc.federation.methods.estimator import FederatedClusterer

__all__ = [
    "AGC",
    "BASELINES",
    "CEPCA",
    "DSC",
    "FFCM",
    "GCC",
    "KFED",
    "MUFC",
    "Central",
    "FedMAvg",
    "JoinedViews",
    "OneView",
    "RFKKMeans",
]

BASELINES: dict[str, type[FederatedClusterer]] = {
    "k-FED": KFED,
    "MUFC": MUFC,
    "FFCM": FFCM,
    "FedMAvg": FedMAvg,
    "DSC": DSC,
    "AGC": AGC,
    "GCC": GCC,
    "RFK-k-means": RFKKMeans,
    "CE-PCA": CEPCA,
    "joined-views": JoinedViews,
    "one-view": OneView,
}

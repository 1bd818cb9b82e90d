"""Baselines for comparison: other federated methods, and central algorithms on pooled raw data."""

from daskfc.baselines.ce_pca import CEPCA
from daskfc.baselines.central import Central
from daskfc.baselines.dsc import DSC
from daskfc.baselines.fedmavg import FedMAvg
from daskfc.baselines.ffcm import FFCM
from daskfc.baselines.graphs import AGC, GCC
from daskfc.baselines.k_fed import KFED
from daskfc.baselines.mufc import MUFC
from daskfc.baselines.rfk_kmeans import RFKKMeans
from daskfc.baselines.views import JoinedViews, OneView
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

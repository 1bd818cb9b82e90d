"""Where parties run: the cluster's YAML file, and the processes that are started by it."""

from daskfc.deploy.config.config import ClusterConfig, ExistingCluster, LocalCluster, load_cluster
from daskfc.deploy.processes.local import LocalParties

__all__ = ["ClusterConfig", "ExistingCluster", "LocalCluster", "LocalParties", "load_cluster"]

from .config.config import ClusterConfig as ClusterConfig
from .config.config import ExistingCluster as ExistingCluster
from .config.config import LocalCluster as LocalCluster
from .config.config import load_cluster as load_cluster
from .processes.local import LocalParties as LocalParties

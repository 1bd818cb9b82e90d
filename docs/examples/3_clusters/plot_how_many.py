"""
How many clusters?
==================

``n_clusters: auto`` compares numbers of clusters by what the server knows, here by silhouette times
modularity, of distances that were made once, and draws the curves. No labels are read.
"""

# %%
import tempfile

import daskfc as fc

run = fc.run(
    {
        "method": "OmniFC",
        "params": {"n_clusters": "auto", "clusterer": "k-means"},
        "prepare": ["standardise"],
    },
    storage={"source": {"dataset": "wine"}, "partition": {"scheme": "iid", "clients": 3}},
    runs_dir=tempfile.mkdtemp(),
)

# %%
# What was chosen, and by what.
chosen = run.summary["n_clusters_choice"]
print(chosen["n_clusters"], "clusters, by", chosen["by"])
run.plot.k_curve()

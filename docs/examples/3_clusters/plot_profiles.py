"""
What sets clusters apart
========================

Labels say who belongs together, and not why. With ``profiles: true`` clients tell sums over
clusters that have enough samples, under masks: means of features by cluster, as deviations from
those of all samples.
"""

# %%
import tempfile

import daskfc as fc

run = fc.run(
    {
        "method": "OmniFC",
        "params": {"n_clusters": 3, "clusterer": "k-means"},
        "prepare": ["standardise"],
        "profiles": True,
    },
    storage={"source": {"dataset": "wine"}, "partition": {"scheme": "iid", "clients": 3}},
    runs_dir=tempfile.mkdtemp(),
)
run.plot.profiles()

# %%
# How many samples each cluster has at each client.
run.plot.sizes()

"""
The same labels as on pooled data
=================================

Five clients hold scikit-learn's handwritten digits; three quarters of each client's samples are one
digit. OmniFC reconstructs all distances of samples, and no client learns anything of another's.
Spectral clustering on these distances gives the labels of the same algorithm on the pooled samples.
"""

# %%
# A storage says whose data it is. Stores are Zarr folders, one a client, written on the first use.
import tempfile

import matplotlib.pyplot as plt

import daskfc as fc

folder = tempfile.mkdtemp()
storage = {
    "source": {"dataset": "digits"},
    "partition": {"scheme": "label-skew", "clients": 5, "skew": 0.75, "seed": 0},
    "root": f"{folder}/stores",
}

# %%
# One worker process a client, and one for the server. ``central`` is the same clusterer on pooled
# rows: it sees raw data, and the run says so.
run = fc.run(
    {
        "method": "OmniFC",
        "params": {"n_clusters": 10, "clusterer": "spectral"},
        "compare": ["central"],
    },
    storage=storage,
    runs_dir=f"{folder}/runs",
)
pooled = run.all_labels.sel(algorithm="central", seed=0)
print("differing labels:", int((run.labels != pooled).sum()))
print("agreement with the digits, which nobody told:", run.summary["metrics"]["OmniFC"]["nmi"])

# %%
# What the caller has: a map of the samples, which knows no ids and no clients, and how each
# client's samples spread over the clusters. The skew is there, and did not hurt.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
run.plot.map(left)
run.plot.sizes(right)

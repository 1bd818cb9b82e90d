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
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import daskfc as fc

storage = {
    "source": {"dataset": "digits"},
    "partition": {"scheme": "label-skew", "clients": 5, "skew": 0.75, "seed": 0},
    "root": tempfile.mkdtemp(),
}

# %%
# One worker process a client, and one for the server. `Central` sees raw data: the federation has
# to allow it.
with fc.Federation.local(storage, allow_raw=True) as federation:
    model = fc.OmniFC(n_clusters=10, clusterer="spectral", random_state=0).fit(federation)
    pooled = fc.Central(n_clusters=10, clusterer="spectral", random_state=0).fit(federation)

print("differing labels:", int((model.labels_ != pooled.labels_).sum()))

# %%
# Labels know their sample and their client. The digits are public, so that we may look at them all.
samples = load_digits()
rows = model.labels_["sample_id"].values.astype(int)
plane = PCA(n_components=2).fit_transform(samples.data[rows])
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True)
left.scatter(*plane.T, c=model.labels_, cmap="tab10", s=6)
left.set_title("cluster")
right.scatter(*plane.T, c=samples.target[rows], cmap="tab10", s=6)
right.set_title("digit, which nobody told")
fig.tight_layout()

# %%
# How each client's samples spread over the clusters, which is what the caller has: the skew is
# there, and did not hurt.
clients = np.unique(model.labels_["client"])
counts = [
    np.bincount(model.labels_.values[(model.labels_["client"] == name).values], minlength=10)
    for name in clients
]
fig, ax = plt.subplots(figsize=(6, 3.5))
ax.imshow(counts, cmap="Blues", aspect="auto")
ax.set(xlabel="cluster", xticks=range(10), yticks=range(len(clients)), yticklabels=clients)
fig.tight_layout()

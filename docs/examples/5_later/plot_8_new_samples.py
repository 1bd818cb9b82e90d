"""
Labels for samples that come later
==================================

A fit ends; then more patients come. ``predict`` labels them with what the fit left at the parties,
without another fit.
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import daskfc as fc

X, _ = make_blobs(500, centers=4, cluster_std=1.1, random_state=3)
clients = [f"client-{number}" for number in range(1, 5)]
first = dict(zip(clients, np.array_split(X[:400], 4), strict=True))
later = dict(zip(clients, np.array_split(X[400:], 4), strict=True))

# %%
# New samples lie in a store that their client can read, as those of the fit do.
folder, new = Path(tempfile.mkdtemp()), {}
for name, rows in later.items():
    new[name] = str(folder / f"{name}-later.zarr")
    fc.write_store(new[name], name, rows, [f"{name}/later-{i}" for i in range(len(rows))])

# %%
# The model of kernel k-means lies with the parties as long as the run does.
model = fc.FederatedKernelKMeans(n_clusters=4, n_features=200, random_state=0)
with fc.simulate(first) as federation:
    labels = model.fit(federation).labels_
    again = model.predict(federation)
    added = model.predict(federation, new)
print("differing labels of the samples of fit:", int((again != labels).sum()))
print(added.sizes, sorted(set(added["client"].values)))

# %%
# Samples of a client are in its own order: ``client-1/0``, ``client-1/1``, and so on.
fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
old, fresh = np.concatenate([*first.values()]), np.concatenate([*later.values()])
ax.scatter(*old.T, c=labels, cmap="Set2", s=10, label="fitted")
ax.scatter(*fresh.T, c=added, cmap="Set2", s=40, marker="^", edgecolor="black", label="later")
ax.legend()

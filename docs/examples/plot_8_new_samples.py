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
from daskfc.protocols import FederatedKernelKMeans

samples, _ = make_blobs(500, centers=4, cluster_std=1.1, random_state=3)
first, later = samples[:400], samples[400:]
folder = Path(tempfile.mkdtemp())
stores, new = {}, {}
for client, rows in enumerate(np.array_split(first, 4), start=1):
    name = f"client-{client}"
    stores[name] = str(folder / f"{name}.zarr")
    fc.write_store(stores[name], name, rows)
for client, rows in enumerate(np.array_split(later, 4), start=1):
    name = f"client-{client}"
    new[name] = str(folder / f"{name}-later.zarr")
    ids = [f"{name}/later-{i}" for i in range(len(rows))]
    fc.write_store(new[name], name, rows, ids)

# %%
# The model of kernel k-means lies with the parties as long as the run does.
model = FederatedKernelKMeans(n_clusters=4, n_features=200, random_state=0)
with fc.Federation.local(stores) as federation:
    labels = model.fit(federation).labels_
    added = model.predict(federation, new)
print(added.sizes, sorted(set(added["client"].values)))


# %%
# Samples of a client are in its own order: ``client-1/0``, ``client-1/1``, and so on.
def rows_of(found, parts):
    """Return the samples that labels are of; known here because the data are made up."""
    parts = dict(zip(stores, parts, strict=True))
    names = zip(found["client"].values, found["sample_id"].values, strict=True)
    return np.array([parts[name][int(one.split("/")[1].split("-")[-1])] for name, one in names])


fig, ax = plt.subplots(figsize=(5.5, 4))
old_rows = rows_of(labels, np.array_split(first, 4))
new_rows = rows_of(added, np.array_split(later, 4))
ax.scatter(*old_rows.T, c=labels, cmap="Set2", s=10, label="fitted")
ax.scatter(*new_rows.T, c=added, cmap="Set2", s=40, marker="^", edgecolor="black", label="later")
ax.legend()
fig.tight_layout()

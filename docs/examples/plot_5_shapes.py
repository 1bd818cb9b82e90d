"""
Shapes that no centre describes
===============================

Two moons, dealt to five clients. Methods that exchange centres cannot follow them; any clusterer
that works on distances can, because OmniFC's distances are those of the pooled samples.
"""

# %%
# Data of one's own become a store each by `write_store`.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import daskfc as fc

samples, _ = make_moons(600, noise=0.06, random_state=0)
folder = Path(tempfile.mkdtemp())
stores = {}
for client, rows in enumerate(np.array_split(samples, 5), start=1):
    name = f"client-{client}"
    stores[name] = str(folder / f"{name}.zarr")
    fc.write_store(stores[name], name, rows)

# %%
methods = {
    "k-FED": fc.KFED(n_clusters=2, random_state=0),
    "OmniFC, k-means": fc.OmniFC(n_clusters=2, clusterer="k-means", random_state=0),
    "OmniFC, spectral": fc.OmniFC(n_clusters=2, clusterer="spectral", random_state=0),
    "OmniFC, dbscan": fc.OmniFC(clusterer={"dbscan": {"eps": 0.2}}, random_state=0),
}
with fc.Federation.local(stores) as federation:
    labels = {name: model.fit(federation).labels_ for name, model in methods.items()}

# %%
# Samples are called ``client-1/0``, ``client-1/1``, ... where they have no ids of their own.
fig, axes = plt.subplots(1, 4, figsize=(11, 2.6), sharey=True)
for ax, (name, found) in zip(axes, labels.items(), strict=True):
    for client, rows in enumerate(np.array_split(samples, 5), start=1):
        mine = found[(found["client"] == f"client-{client}").values]
        order = [int(one.rpartition("/")[2]) for one in mine["sample_id"].values]
        ax.scatter(*rows[order].T, c=mine, cmap="coolwarm", vmin=0, vmax=1, s=6)
    ax.set_title(name)
fig.tight_layout()

"""
Shapes that no centre describes
===============================

Two moons, dealt to five clients. Methods that exchange centres cannot follow them; any clusterer
that works on distances can, because OmniFC's distances are those of the pooled samples.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

import daskfc as fc

X, _ = make_moons(600, noise=0.06, random_state=0)
methods = {
    "k-FED": fc.KFED(n_clusters=2, random_state=0),
    "OmniFC, k-means": fc.OmniFC(n_clusters=2, clusterer="k-means", random_state=0),
    "OmniFC, spectral": fc.OmniFC(n_clusters=2, clusterer="spectral", random_state=0),
    "OmniFC, dbscan": fc.OmniFC(clusterer={"dbscan": {"eps": 0.2}}, random_state=0),
}
with fc.simulate(X, clients=5) as federation:
    labels = {name: model.fit(federation).labels_ for name, model in methods.items()}

# %%
# Dealt samples are called by their row.
fig, axes = plt.subplots(1, 4, figsize=(11, 2.6), sharey=True, layout="constrained")
for ax, (name, found) in zip(axes, labels.items(), strict=True):
    rows = found["sample_id"].values.astype(int)
    ax.scatter(*X[rows].T, c=found, cmap="coolwarm", vmin=0, vmax=1, s=6)
    ax.set_title(name)

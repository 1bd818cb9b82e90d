"""
Clusters of several densities, and noise
========================================

A dense group, a loose one, a ring, and samples in between, at three clients. HDBSCAN needs no
number of clusters and no radius, and leaves out what belongs nowhere.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import daskfc as fc

random = np.random.default_rng(0)
angle = random.uniform(0, 2 * np.pi, 300)
ring = 5 * np.c_[np.cos(angle), np.sin(angle)] + random.normal(scale=0.2, size=(300, 2))
parts = [
    ring,
    random.normal(scale=0.5, size=(200, 2)),
    np.array([12, 0]) + random.normal(scale=1.5, size=(200, 2)),
    random.uniform([-8, -8], [18, 8], size=(60, 2)),
]
X = np.concatenate(parts)
models = {
    "hdbscan": fc.OmniFC(clusterer={"hdbscan": {"min_cluster_size": 30}}),
    "dbscan": fc.OmniFC(clusterer={"dbscan": {"eps": 0.7}}),
    "k-means": fc.OmniFC(3, clusterer="k-means", random_state=0),
}
with fc.simulate(X, clients=3) as federation:
    labels = {name: model.fit(federation).labels_ for name, model in models.items()}

# %%
# Noise has the label -1, here in grey. One radius fits one density.
fig, axes = plt.subplots(1, 3, figsize=(11, 2.8), sharey=True, layout="constrained")
for ax, (name, found) in zip(axes, labels.items(), strict=True):
    row, noise = found["sample_id"].values.astype(int), found.values < 0
    ax.scatter(*X[row[noise]].T, color="lightgrey", s=5)
    ax.scatter(*X[row[~noise]].T, c=found.values[~noise], cmap="tab10", s=5)
    ax.set_title(f"{name}: {found.values.max() + 1} clusters")

"""
k-means that asks least trust
=============================

``FederatedKMeans`` tells the server sums over groups of five samples or more of all clients, under
masks, and centres; no distances. Its clusters are those of k-means on the pooled samples, nearly.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import daskfc as fc

X, _ = make_blobs(3000, centers=6, cluster_std=1.4, random_state=3)
with fc.simulate(X, clients=4) as federation:
    model = fc.FederatedKMeans(6, random_state=0).fit(federation)
pooled = KMeans(6, n_init=10, random_state=0).fit(X)

# %%
# The clusters, with the centres of both. Dealt samples are called by their row.
row = model.labels_["sample_id"].values.astype(int)
agreement = adjusted_rand_score(pooled.labels_[row], model.labels_)
print(f"adjusted Rand index of both: {agreement:.2f}")
fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.scatter(*X[row].T, c=model.labels_, cmap="tab10", s=3)
ax.scatter(*pooled.cluster_centers_.T, marker="o", s=90, facecolors="none", edgecolors="black")
ax.scatter(*model.cluster_centers_.T, marker="x", s=50, color="black")
ax.set_title("x: of the federation, o: of the pooled samples")

"""
Clusters of different shapes: a Gaussian mixture
================================================

Long and round clouds at three clients. k-means cuts the long ones; ``FederatedGaussianMixture``
fits a covariance to each, by masked sums alone.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import daskfc as fc

random = np.random.default_rng(1)
long = random.normal(size=(600, 2)) * [4.0, 0.5]
turn = np.array([[0.8, -0.6], [0.6, 0.8]])
away = np.array([[0, 6], [9, -3]])
X = np.concatenate([long @ turn, long @ turn + away[0], random.normal(size=(400, 2)) + away[1]])
models = {
    "k-means": fc.FederatedKMeans(3, random_state=0),
    "Gaussian mixture": fc.FederatedGaussianMixture(3, random_state=0),
}
with fc.simulate(X, clients=3) as federation:
    labels = {name: model.fit(federation).labels_ for name, model in models.items()}

# %%
# The server learns the sums of each iteration; the mean log-likelihood of a sample rises with it.
fig, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for ax, (name, found) in zip(axes, labels.items(), strict=False):
    row = found["sample_id"].values.astype(int)
    ax.scatter(*X[row].T, c=found, cmap="viridis", s=3)
    ax.set(title=name, aspect="equal")
axes[2].plot(models["Gaussian mixture"].lower_bounds_, marker="o")
axes[2].set(xlabel="iteration", title="mean log-likelihood")

"""
What noise costs
================

Masks hide who sent what; noise hides any one sample, from the server too. Federated k-means with
Gaussian noise on every sum, for several budgets ε and numbers of samples: the noise of a sum is the
same for a thousand samples and for a million.
"""

# %%
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

import daskfc as fc

budgets = [0.5, 1.0, 2.0, 4.0]
sizes = [1_000, 10_000, 100_000]


def inertia(rows, centers):
    """Return the sum of squared distances to the nearest centre."""
    return sum(np.square(x[:, None] - centers).sum(axis=2).min(axis=1).sum() for x in rows)


# %%
# Samples lie within 12 of the origin, as their owners know without looking.
found = {}
for n in sizes:
    rows, _ = make_blobs(n, 4, centers=5, center_box=(-5, 5), cluster_std=1.5, random_state=1)
    exact = KMeans(5, n_init=5, random_state=0).fit(rows).inertia_
    folder, urls = tempfile.mkdtemp(), {}
    for name, own in zip("abcd", np.array_split(rows, 4), strict=True):
        urls[name] = f"{folder}/{name}.zarr"
        fc.write_store(urls[name], name, own, [f"{name}/{i}" for i in range(len(own))])
    found[n] = []
    with fc.Federation.local(urls) as federation:
        for epsilon in budgets:
            noise = {"epsilon": epsilon, "delta": 1e-6, "largest_norm": 12.0}
            model = fc.FederatedKMeans(5, noise=noise).fit(federation)
            found[n].append(inertia(np.array_split(rows, 50), model.cluster_centers_) / exact)
print(found)

# %%
# The ledger of a fit with noise holds its multiplier; the report says what all seeds cost together.
fig, ax = plt.subplots(figsize=(5.5, 3.2))
for n, ratios in found.items():
    ax.semilogx(budgets, ratios, marker="o", label=f"{n:,} samples")
ax.axhline(1.0, linestyle="--", color="grey", label="pooled k-means")
ax.set(xlabel="ε at δ = 1e-6", ylabel="inertia, relative")
ax.legend()
fig.tight_layout()

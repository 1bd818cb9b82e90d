"""
Nobody learns a distance
========================

By its distances OmniFC's server knows the samples up to a motion. With ``reveal="labels"`` three
clients compute on shares: each learns the clusters of its own samples, and the server none.
"""

# %%
# The same samples and clusterer, with and without. Labels are the same.
import matplotlib.pyplot as plt
import numpy as np

import daskfc as fc

random = np.random.default_rng(0)
centres = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]])
X = np.concatenate([centre + random.normal(size=(40, 2)) for centre in centres])
fits = {}
with fc.simulate(X, clients=3) as federation:
    for reveal in ("distances", "labels"):
        model = fc.OmniFC(clusterer={"dbscan": {"eps": 1.4}}, reveal=reveal)
        fits[reveal] = model.fit(federation)
        told = {row.message for row in model.ledger_ if row.receiver == "server"}
        print(f"{reveal}: the server is told {', '.join(sorted(told))}")

# %%
# What it costs is rounds: some hundreds, in place of a few.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for ax, (reveal, model) in zip(axes, fits.items(), strict=True):
    row = model.labels_["sample_id"].values.astype(int)
    ax.scatter(*X[row].T, c=model.labels_, cmap="viridis", s=8)
    ax.set_title(f"reveal: {reveal}, {len(model.ledger_.to_frame()):,} messages")

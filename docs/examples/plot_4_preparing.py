"""
Features of different size
==========================

Wines have an alcohol content of about 13 and proline of about 750: distances are proline's alone.
``Prepare`` finds means and deviations over all clients by masked sums, and every method reads
standardised features after it.
"""

# %%
import tempfile

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

import daskfc as fc
from daskfc.metrics import ari

storage = {
    "source": {"dataset": "wine"},
    "partition": {"scheme": "label-skew", "clients": 5, "skew": 0.5, "seed": 0},
    "layout": {"dtype": "float64"},
    "root": tempfile.mkdtemp(),
}
model = fc.OmniFC(n_clusters=3, clusterer="k-means", random_state=0)
with fc.Federation.local(storage) as federation:
    plain = model.fit(federation).labels_
    federation.preparation = fc.Prepare("standardise").fit(federation)
    standardised = model.fit(federation).labels_

# %%
# Growers of the wines, which no method was told.
wine = load_wine()
grower = wine.target[plain["sample_id"].values.astype(int)]
scores = {
    "as they are": ari(grower, plain.values),
    "standardised": ari(grower, standardised.values),
}
print(scores)

# %%
# The two columns that tell most, with clusters before and after.
rows = wine.data[plain["sample_id"].values.astype(int)]
x, y = (wine.feature_names.index(name) for name in ("flavanoids", "proline"))
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
for ax, labels, (title, score) in zip(axes, (plain, standardised), scores.items(), strict=True):
    ax.scatter(rows[:, x], rows[:, y], c=labels, cmap="Set1", s=14)
    ax.set(title=f"{title}: ARI {score:.2f}", xlabel="flavanoids", ylabel="proline")
fig.tight_layout()

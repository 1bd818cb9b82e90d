"""
Features of different size
==========================

Wines have an alcohol content of about 13 and proline of about 750: distances are proline's alone.
``Prepare`` finds means and deviations over all clients by masked sums, and every method reads
standardised features after it.
"""

# %%
# A table at hand is dealt to five clients, half of whose wines are one grower's.
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline

import daskfc as fc
from daskfc.metrics import ari

wine = load_wine(as_frame=True)
model = fc.OmniFC(n_clusters=3, clusterer="k-means", random_state=0)
split = {"scheme": "label-skew", "skew": 0.5}
with fc.simulate(wine.data, clients=5, labels=wine.target, split=split) as federation:
    plain = model.fit(federation).labels_
    make_pipeline(fc.Prepare("standardise"), model).fit(federation)
    standardised = model.labels_

# %%
# Growers of the wines, which no method was told. Dealt samples are called by their row.
rows = wine.data.iloc[plain["sample_id"].values.astype(int)]
grower = wine.target[rows.index]
scores = {
    "as they are": ari(grower, plain.values),
    "standardised": ari(grower, standardised.values),
}
print(scores)

# %%
# The two columns that tell most, with clusters before and after.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for ax, labels, (title, score) in zip(axes, (plain, standardised), scores.items(), strict=True):
    ax.scatter(rows["flavanoids"], rows["proline"], c=labels, cmap="Set1", s=14)
    ax.set(title=f"{title}: ARI {score:.2f}", xlabel="flavanoids", ylabel="proline")

"""
Columns of the same wines
=========================

Three laboratories have measured other properties of the same wines. Squared distances add up over
columns, so the labels are those of the pooled table, and no laboratory sees a column of another's.
"""

# %%
# Each laboratory's columns count alike with ``balance``: it divides them by the root of their mean
# squared distance, which nobody learns.
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_wine

import daskfc as fc

wines = load_wine(as_frame=True)
models = {
    "as they are": fc.OmniFC(3, split="columns", clusterer="k-means", random_state=0),
    "balanced": fc.OmniFC(3, split="columns", clusterer="k-means", balance=True, random_state=0),
}
with fc.simulate(wines.data, clients=3, split="vertical") as federation:
    labels = {name: model.fit(federation).labels_ for name, model in models.items()}

# %%
# The growers serve to look at the result alone: proline, of some 750, outweighs all other columns
# where it is not balanced.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for ax, (name, found) in zip(axes, labels.items(), strict=True):
    row = found["sample_id"].values.astype(int)
    counts = pd.crosstab(wines.target[row].values, found.values)
    counts.plot.bar(stacked=True, ax=ax, legend=False, rot=0)
    ax.set(title=name, xlabel="grower", ylabel="wines, by cluster")

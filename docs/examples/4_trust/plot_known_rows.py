"""
What distances tell who knows some rows
=======================================

OmniFC's server has all distances of samples. One client's rows, in the wrong hands, are places to
measure from: here the first client's own images find those of the others, in a simulation whose
server we are.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import daskfc as fc
from daskfc.privacy import rows_by_distances

X = load_digits().data[:300]
data = {"insider": X[:100], "b": X[100:200], "c": X[200:]}
with fc.simulate(data) as federation:
    D = federation.distances().compute()
squared = D.sel(sample=D["client"] != "insider", other=D["other_client"] == "insider")

# %%
# In a simulation ids say which image is which, as client/row.
first = {"insider": 0, "b": 100, "c": 200}
owners = (one.split("/") for one in squared["other_sample_id"].values)
known = X[[first[name] + int(row) for name, row in owners]]
others = (one.split("/") for one in squared["sample_id"].values)
true = X[[first[name] + int(row) for name, row in others]]
fig, axes = plt.subplots(4, 8, figsize=(8, 4.2), layout="constrained")
for line, n in zip(axes[:3], (5, 20, 70), strict=True):
    found, _ = rows_by_distances(known[:n], squared.values[:, :n])
    line[0].set_ylabel(f"{n} known")
    for ax, image in zip(line, found, strict=False):
        ax.imshow(image.reshape(8, 8), cmap="gray_r")
axes[3, 0].set_ylabel("true")
for ax, image in zip(axes[3], true, strict=False):
    ax.imshow(image.reshape(8, 8), cmap="gray_r")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])

# %%
# With as many known rows as features and one more, all others are found exactly. With
# ``reveal="labels"`` nobody is told a distance.

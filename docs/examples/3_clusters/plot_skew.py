"""
When clients are unlike
=======================

From none to all of a client's samples are of one digit. Exact distances give the labels of the
pooled samples, whoever holds them. FFCM averages what clients found, so that who a client is tells
what its samples are: it gains where clients are unlike, and loses where they are alike.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import daskfc as fc
from daskfc.metrics import kappa

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]
models = {
    "OmniFC, k-means": fc.OmniFC(10, clusterer="k-means", random_state=0),
    "FFCM": fc.FFCM(10, tolerance=0.05, random_state=0),
}
skews, scores = [0.0, 0.25, 0.5, 0.75, 1.0], {name: [] for name in models}
for skew in skews:
    split = {"scheme": "label-skew", "skew": skew}
    with fc.simulate(X, clients=10, labels=y, split=split) as federation:
        for name, model in models.items():
            found = model.fit(federation).labels_
            row = found["sample_id"].values.astype(int)
            scores[name].append(kappa(y[row], found.values))

# %%
# True digits serve to deal the samples, and to score.
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, found in scores.items():
    ax.plot(skews, found, marker="o", label=name)
ax.set(xlabel="share of a client's samples that are of its own digit", ylabel="kappa", ylim=(0, 1))
ax.legend()

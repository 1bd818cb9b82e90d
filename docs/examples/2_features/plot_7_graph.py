"""
Columns of a graph's nodes
==========================

Four clients hold different pixels of the same digits, which a graph joins to their neighbours.
kCAGC filters each client's columns over the graph and clusters all without joining the columns.
"""

# %%
import tempfile

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import daskfc as fc
from daskfc.baselines import AGC
from daskfc.metrics import nmi

storage = {
    "source": {"dataset": "digits", "graph": {"neighbours": 10}},
    "partition": {"scheme": "vertical", "clients": 4},
    "root": tempfile.mkdtemp(),
}
digits = load_digits().target
orders = [0, 1, 3, 9]


def agreement(labels):
    """Return the NMI with the true digits."""
    return nmi(digits[labels["sample_id"].values.astype(int)], labels.values)


# %%
# AGC is the same filter on all columns in one place: it sees raw data, which has to be allowed.
found = {"kCAGC, four clients": [], "AGC, pooled columns": []}
with fc.Federation.local(storage, allow_raw=True) as federation:
    for order in orders:
        ours = fc.KCAGC(n_clusters=10, filter_order=order, random_state=0).fit(federation)
        pooled = AGC(n_clusters=10, filter_order=order, random_state=0).fit(federation)
        found["kCAGC, four clients"].append(agreement(ours.labels_))
        found["AGC, pooled columns"].append(agreement(pooled.labels_))

# %%
# Each pass over the graph makes neighbours more alike.
fig, ax = plt.subplots(figsize=(5.5, 3.2))
for name, scores in found.items():
    ax.plot(orders, scores, marker="o", label=name)
ax.set(xlabel="passes over the graph", ylabel="NMI with the true digits")
ax.legend()
fig.tight_layout()

"""
What noise costs
================

Masks hide who sent what; noise hides any one sample, from the server too. Federated kernel k-means
with Gaussian noise on every sum, for several budgets ε: less ε, more noise, fewer right labels.
"""

# %%
import tempfile

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import daskfc as fc
from daskfc.metrics import nmi
from daskfc.protocols import FederatedKernelKMeans

storage = {
    "source": {"dataset": "digits"},
    "partition": {"scheme": "iid", "clients": 4, "seed": 0},
    "root": tempfile.mkdtemp(),
}
budgets = [4.0, 16.0, 64.0, 256.0]
digits = load_digits().target


def agreement(labels):
    """Return the NMI with the true digits."""
    return nmi(digits[labels["sample_id"].values.astype(int)], labels.values)


# %%
found = {}
with fc.Federation.local(storage) as federation:
    plain = FederatedKernelKMeans(n_clusters=10, clustering="sums", iterations=2, random_state=0)
    without = agreement(plain.fit(federation).labels_)
    for epsilon in budgets:
        model = FederatedKernelKMeans(
            n_clusters=10,
            clustering="sums",
            solver="gram",
            iterations=2,
            kernel_width=50.0,
            noise={"epsilon": epsilon, "delta": 1e-5},
            random_state=0,
        )
        found[epsilon] = agreement(model.fit(federation).labels_)
print(found, without)

# %%
# The ledger of a fit with noise holds its multiplier; the report says what all seeds cost together.
fig, ax = plt.subplots(figsize=(5.5, 3.2))
ax.semilogx(list(found), list(found.values()), marker="o", label="with noise")
ax.axhline(without, linestyle="--", color="grey", label="without")
ax.set(xlabel="ε at δ = 1e-5", ylabel="NMI with the true digits", ylim=(0, 1))
ax.legend()
fig.tight_layout()

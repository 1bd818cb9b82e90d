"""
What leaves a client
====================

Every message is declared and counted. Three methods cluster the same samples; the ledgers say who
was sent what, how it was protected, and how many bytes it took.
"""

# %%
import tempfile

import matplotlib.pyplot as plt

import daskfc as fc
from daskfc.protocols import FederatedKernelKMeans

storage = {
    "source": {"dataset": "digits"},
    "partition": {"scheme": "iid", "clients": 5, "seed": 0},
    "root": tempfile.mkdtemp(),
}
methods = {
    "OmniFC": fc.OmniFC(n_clusters=10, clusterer="k-means", random_state=0),
    "FedSC": fc.FedSC(n_clusters=10, random_state=0),
    "kernel k-means": FederatedKernelKMeans(n_clusters=10, random_state=0),
}
with fc.Federation.local(storage) as federation:
    ledgers = {name: model.fit(federation).ledger_ for name, model in methods.items()}

# %%
# A row a message: who, to whom, of which class and how protected. Content is not in it.
rows = ledgers["OmniFC"].to_frame()
print(rows[["sender", "receiver", "message", "protection", "payload_bytes"]].head(8))

# %%
# Bytes by protection. Of a masked message only the sum over all clients can be read, of a coded one
# only what enough of them give together; a plain one tells what its class declares.
colours = {"plain": "tab:orange", "masked": "tab:blue", "coded": "tab:green"}
fig, ax = plt.subplots(figsize=(7, 3))
for place, (_, ledger) in enumerate(ledgers.items()):
    table = ledger.to_frame()
    start = 0.0
    for protection, colour in colours.items():
        width = table.loc[table["protection"] == protection, "payload_bytes"].sum() / 1e6
        ax.barh(place, width, left=start, color=colour, label=protection if place == 0 else None)
        start += width
ax.set(yticks=range(len(ledgers)), yticklabels=ledgers, xlabel="payload, MB")
ax.legend()
fig.tight_layout()

"""
All distances as an array
=========================

The server of OmniFC has all squared distances, in tiles on its disk. In a simulation that disk is
ours: they come as an xarray on Dask that reads a tile when it is looked at. Three clients hold
blobs of their own; what is drawn is one tile of D, and a kernel that was never made as a whole.
"""

# %%
# `simulate` starts a worker process for each client, and one for the server, over arrays at hand.
import matplotlib.pyplot as plt
import numpy as np

import daskfc as fc

random = np.random.default_rng(0)
centres = {"hospital-1": 0.0, "hospital-2": 3.0, "hospital-3": 7.0}
data = {name: random.normal(centre, 1.0, (300, 5)) for name, centre in centres.items()}

with fc.simulate(data) as federation:
    D = federation.distances(tile=256)
    print(D.sizes, "in chunks of", D.data.chunksize)

    # Samples stand in an order that tells nobody whose they are; by client, blobs are blocks.
    by_client = D.sortby("client").sortby("other_client")
    tile = D[:256, 256:512].compute()
    degrees = np.exp(-by_client / by_client.mean()).sum("other").compute()
    blocks = by_client.compute()
    print("messages:", len(federation.ledger))

# %%
# A tile as it lies on the server's disk, and all of them with the clients beside each other.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
left.imshow(tile, cmap="viridis")
left.set(title="a tile of D", xlabel="sample 256 to 511", ylabel="sample 0 to 255")
right.imshow(blocks, cmap="viridis")
right.set(title="D, by client", xticks=[150, 450, 750], xticklabels=list(centres), yticks=[])
fig.tight_layout()

# %%
# Sums of the kernel's rows: how much of the data is near each sample.
fig, ax = plt.subplots(figsize=(6, 3))
for name in centres:
    ax.hist(degrees[degrees.client == name], bins=30, alpha=0.6, label=name)
ax.set(xlabel="sum of a row of the kernel", ylabel="samples")
ax.legend()
fig.tight_layout()

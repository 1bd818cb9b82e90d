"""
What leaves a client
====================

Every message is declared and counted. Three methods cluster the same samples; the ledgers say who
was sent what, how it was protected, and how many bytes it took.
"""

# %%
import tempfile

import daskfc as fc

folder = tempfile.mkdtemp()
storage = {
    "source": {"dataset": "digits"},
    "partition": {"scheme": "iid", "clients": 5, "seed": 0},
    "root": f"{folder}/stores",
}
pipeline = {
    "method": "OmniFC",
    "params": {"n_clusters": 10, "clusterer": "k-means"},
    "compare": ["FedSC", "FederatedKernelKMeans"],
}
run = fc.run(pipeline, storage=storage, runs_dir=f"{folder}/runs")

# %%
# A row a message: who, to whom, of which class and how protected. Content is not in it. Here is the
# first one of each class of OmniFC's.
own = run.ledger[run.ledger["method"] == "OmniFC"].drop_duplicates("message")
columns = ["sender", "receiver", "message", "protection", "payload_bytes"]
print(own[columns].to_string(index=False))

# %%
# Bytes by protection. Of a masked message only the sum over all clients can be read, of a coded one
# only what enough of them give together; a plain one tells what its class declares.
run.plot.ledger()

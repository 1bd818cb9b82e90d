"""
Data that grow
==============

A run on Monday; on Tuesday a client has more samples. The next run says what became of the clusters
of the first: which one is which, and how many samples have moved.
"""

# %%
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_wine

import daskfc as fc
from daskfc.stores import append_samples

folder = Path(tempfile.mkdtemp())
wines = load_wine(as_frame=True).data
parts = {"north": wines[:60], "south": wines[60:110], "west": wines[110:150]}
clients = {}
for name, table in parts.items():
    fc.write_store(str(folder / f"{name}.zarr"), name, table, [str(i) for i in table.index])
    clients[name] = {"store": str(folder / f"{name}.zarr")}
pipeline = {
    "method": "OmniFC",
    "params": {"n_clusters": 3, "clusterer": "k-means"},
    "prepare": ["standardise"],
}
more = {"storage": {"clients": clients}, "runs_dir": str(folder)}
fc.run(pipeline, name="monday", **more)

# %%
# The west brings the wines that are left.
rest = wines[150:]
append_samples(str(folder / "west.zarr"), rest, [str(i) for i in rest.index])
run = fc.run(pipeline, name="tuesday", since=str(folder / "monday"), **more)
changes = run.summary["changes"]
print(f"{changes['stayed']:.0%} of {changes['n_shared']} wines are in the same cluster as before")
print(pd.DataFrame(changes["clusters"])[["cluster", "before", "share_before", "share", "stayed"]])

# %%
run.plot.sizes()

"""
Three hospitals' csv files
==========================

Three hospitals have a csv file each, with patients of three kinds in different shares. The
patients are made up: ``daskfc init --example hospitals`` writes the same files. What follows is the
command line's way, in Python.
"""

# %%
# The files of the example, in an empty folder. Features are standardised over all hospitals by
# masked sums, then clustered on exact distances.
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import daskfc as fc
from daskfc.examples import write_example
from daskfc.runs import site_labels

os.chdir(tempfile.mkdtemp())
write_example("hospitals")
print(Path("storage/hospitals.yaml").read_text(encoding="utf-8"))

run = fc.run("pipelines/hospitals.yaml", storage="storage/hospitals.yaml")
folder = Path(run.folder).absolute()
print(sorted(path.name for path in folder.iterdir()))
store = fc.ClientStore.open(str(Path("stores/hospitals/hospital-b.zarr").absolute()))
scores_of = run.summary["metrics"]

# %%
# Diagnoses were in a column of their own, which only scores read: beside OmniFC's, those of the
# same method on pooled rows.
for method, scores in scores_of.items():
    print(method, {name: round(score["mean"], 3) for name, score in scores.items()})

# %%
# What a hospital can do with it: the run knows patients by pseudonyms, which the hospital takes
# back with its store, as ``daskfc labels`` does; it looks at their measures, which never left it.
# Here is hospital-b.
own = site_labels(folder, store.url)
print(own.head())
clusters = own["cluster"].to_numpy()
rows = store.rows(0, store.n_samples)
scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
profile = np.array([scaled[clusters == k].mean(axis=0) for k in range(3)])
fig, ax = plt.subplots(figsize=(7, 2.8))
image = ax.imshow(profile, cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
ax.set(xticks=range(len(store.feature_names)), yticks=range(3), ylabel="cluster")
ax.set_xticklabels(store.feature_names, rotation=30, ha="right")
ax.set_title("mean of each cluster at hospital-b, in standard deviations")
fig.colorbar(image)
fig.tight_layout()

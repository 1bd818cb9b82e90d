"""
Three hospitals' csv files
==========================

Three hospitals have a csv file each, with patients of three kinds in different shares. The
patients are made up: ``daskfc init --example hospitals`` writes the same files. What follows is the
command line's way, in Python.
"""

# %%
# The files of the example, in an empty folder. One column holds words and another has gaps, which
# are filled; words become numbers, and all is standardised over all hospitals by masked sums. Then
# patients are clustered on exact distances.
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import daskfc as fc
from daskfc.examples import write_example
from daskfc.runs import site_labels

os.chdir(tempfile.mkdtemp())
write_example("hospitals")
print(Path("storage/hospitals.yaml").read_text(encoding="utf-8"))

run = fc.run("pipelines/hospitals.yaml", storage="storage/hospitals.yaml")
folder = Path(run.folder).absolute()
print(sorted(path.name for path in folder.iterdir()))
summary = run.summary
table = pd.read_csv("data/hospital-b.csv", index_col="patient")
store = Path("stores/hospitals/hospital-b.zarr").absolute()

# %%
# Diagnoses were in a column of their own, which only scores read: beside OmniFC's, those of the
# same method on pooled rows.
for method, scores in summary["metrics"].items():
    print(method, {name: round(score["mean"], 3) for name, score in scores.items()})

# %%
# The run also told what the patients of each cluster have in common, by sums over all hospitals
# that show no one hospital's: what tells clusters apart best comes first.
profiles = summary["profiles"]
for feature, share in zip(profiles["columns"], profiles["separation"], strict=True):
    print(f"{feature:<12} {share:.2f} of its variance is between clusters")

# %%
# What a hospital can do with it: the run knows patients by pseudonyms, which the hospital takes
# back with its store, as ``daskfc labels`` does; it looks at its own table, which never left it.
# Here is hospital-b.
own = site_labels(folder, str(store)).set_index("sample_id")
print(own.head())
measures = table.select_dtypes("number")
scaled = (measures - measures.mean()) / measures.std()
profile = scaled.groupby(own["cluster"]).mean()
fig, ax = plt.subplots(figsize=(7, 2.8))
image = ax.imshow(profile, cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
ax.set(xticks=range(len(measures.columns)), yticks=range(len(profile)), ylabel="cluster")
ax.set_xticklabels(measures.columns, rotation=30, ha="right")
ax.set_title("mean of each cluster at hospital-b, in standard deviations")
fig.colorbar(image)
fig.tight_layout()

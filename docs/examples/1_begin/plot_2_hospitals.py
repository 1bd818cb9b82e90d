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

run = fc.run(
    "pipelines/hospitals.yaml",
    storage="storage/hospitals.yaml",
    runs_dir=Path("runs").absolute(),
)
print(sorted(path.name for path in run.folder.iterdir()))
table = pd.read_csv("data/hospital-b.csv", index_col="patient")
store = Path("stores/hospitals/hospital-b.zarr").absolute()

# %%
# Diagnoses were in a column of their own, which only scores read: beside OmniFC's, those of the
# same method on pooled rows.
for method, scores in run.summary["metrics"].items():
    print(method, {name: round(score["mean"], 3) for name, score in scores.items()})

# %%
# The run also told what the patients of each cluster have in common, by sums over all hospitals
# that show no one hospital's: what tells clusters apart best comes first.
run.plot.profiles()

# %%
# And where they lie, and which hospital has how many of them.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
run.plot.map(left)
run.plot.sizes(right)

# %%
# What a hospital can do with it: the run knows patients by pseudonyms, which the hospital takes
# back with its store, as ``daskfc labels`` does; it looks at its own table, which never left it.
# Here is hospital-b.
own = site_labels(run.folder, str(store)).set_index("sample_id")
print(own.head())
print(table.groupby(own["cluster"]).mean(numeric_only=True).round(1).to_string())

"""
Four hospitals that write words differently
===========================================

Four hospitals describe patients by the same columns and write them in ways of their own: one wrote
its codes as 1.0 where others have 1, another begins its words with capitals. To a computer these
are other words, so that hospitals differ more than patients do. The patients are made up, of two
kinds, in the form of public heart disease data.
"""

# %%
# Numbers that are equal are one word everywhere, 1.0 and 1 too. Capitals may mean something; they
# are left as they are and told of.
import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import daskfc as fc
from daskfc.metrics import ari

folder = tempfile.mkdtemp()
os.chdir(folder)
sizes = {"a": 120, "b": 90, "c": 70, "d": 40}
codes = {"pain": 4, "slope": 3, "thal": 3}  # and so many kinds of each
answers = ["angina", "sugar", "smoker", "diabetes", "hypertension"]
clients, ill, hospital = {}, [], []
for number, (name, n) in enumerate(sizes.items()):
    random = np.random.default_rng(number)
    kind = random.random(n) < 0.5
    table = pd.DataFrame({"age": random.normal(50 + 8 * kind, 8)})
    table["rate"] = random.normal(150 - 20 * kind, 18)
    for column, k in codes.items():
        often = random.choice(k, n, p=2.0 ** -np.arange(k) / sum(2.0 ** -np.arange(k)))
        table[column] = np.where(kind, k - often, 1 + often) + (0.0 if name == "a" else 0)
    for column in answers:
        word = np.where(random.random(n) < np.where(kind, 0.7, 0.3), "yes", "no")
        table[column] = np.char.capitalize(word) if name == "b" else word
    table.to_csv(f"{name}.csv", index=False)
    source = {"path": f"{folder}/{name}.csv", "categorical": [*codes, *answers]}
    clients[f"hospital-{name}"] = {"source": source}
    ill, hospital = [*ill, *kind], [*hospital, *[f"hospital-{name}"] * n]
print(pd.read_csv("a.csv").head(2).to_string(), pd.read_csv("b.csv").head(2).to_string(), sep="\n")

# %%
# As the files are, the run finds the hospital, and says why that may be.
pipeline = {
    "method": "OmniFC",
    "params": {"n_clusters": 2, "clusterer": "k-means"},
    "prepare": ["one-hot", "standardise"],
    "metrics": [],
}
os.chdir(folder)  # a page of the gallery leaves it after each of its parts
before = fc.run(pipeline, storage={"clients": clients}, name="before")
for warning in before.summary["quality"]["warnings"][:2]:
    print("Note:", warning)

# %%
# A mapping in the storage file mends it, at the hospital that writes otherwise.
clients["hospital-b"]["source"]["words"] = {"Yes": "yes", "No": "no"}
os.chdir(folder)
after = fc.run(pipeline, storage={"clients": clients}, name="after")
runs = {"as the files are": before, "Yes is yes, No is no": after}
fig, axes = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True, layout="constrained")
for ax, (title, run) in zip(axes, runs.items(), strict=True):
    labels = run.labels.values
    sites, kinds = ari(hospital, labels), ari(ill, labels)
    print(
        f"{title}: adjusted Rand index to hospitals {sites:.2f}, to kinds of patients {kinds:.2f}"
    )
    run.plot.sizes(ax).set_title(title)

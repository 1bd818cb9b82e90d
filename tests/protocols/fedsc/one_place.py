"""FedSC's arithmetic in one process, without messages and masks: what a federation must equal."""

import numpy as np
from sklearn.datasets import load_iris

from daskfc import seeds
from daskfc.clustering.kernels.low_rank_similarity import (
    dictionary_root,
    similarity_graph,
    similarity_rows,
)
from daskfc.federation.methods.sample_keys import order_of
from daskfc.protocols.fedsc.maths.dictionary_start import (
    Moments,
    default_atoms,
    first_dictionary,
    mean_distance,
    normal_dictionary,
    parts_of_moments,
)
from daskfc.protocols.fedsc.maths.kernel_dictionary import coefficients, local_update
from daskfc.protocols.fedsc.maths.similarity_spectral import cluster_graph, cluster_rows
from daskfc.protocols.fedsc.similarity.graph import order_of_similar
from daskfc.stores import ClientStore

K = 3
IRIS = load_iris()
ORDER = np.random.default_rng(0).permutation(150)
CUTS = np.split(ORDER, [30, 70, 105])  # clients of different sizes
ROWS = {f"client-{i + 1}": IRIS.data[own] for i, own in enumerate(CUTS)}
TRUTH = np.concatenate([IRIS.target[own] for own in CUTS])


def moments_of(*clients):
    """Return the moments of all clients together, as the server reads them from their sum."""
    count, magnitude = (
        sum(map(len, clients)),
        2.0 ** np.ceil(np.log2(np.abs(np.concatenate(clients)).max())),
    )
    return Moments.of_sum(sum(parts_of_moments(X, magnitude) for X in clients), count, magnitude)


def factors(*, rounds=5, steps=1, uniform=False, active=None, start="moments"):
    """Return the last two dictionaries and the kernel's width."""
    width = np.mean([mean_distance(X) for X in ROWS.values()])
    atoms = max(default_atoms(X, mean_distance(X)) for X in ROWS.values())
    seed = seeds.integer_seed(0, "FedSC")
    if start == "normal":
        Z = normal_dictionary(atoms, 4, len(ROWS), seed)
    else:
        Z = first_dictionary(moments_of(*ROWS.values()), atoms, seed)
    before = Z
    for number in range(rounds):
        who = list(ROWS) if active is None else active[number]
        weights = [1.0 if uniform else len(ROWS[name]) for name in who]
        own = [local_update(ROWS[name], Z, width, 1e-3, steps=steps) for name in who]
        before, Z = Z, np.average(own, axis=0, weights=weights)
    return Z, before, width


def in_one_place(urls, *, stale=False, sparsify=True, **how):
    """Return the labels of all samples, clients in order."""
    Z, before, width = factors(**how)
    root = dictionary_root(Z, width)
    positions = order_of({name: ClientStore.open(url) for name, url in urls.items()})
    B = np.empty((150, len(Z)))
    for name, X in ROWS.items():
        C = coefficients(X, before if stale else Z, width, 1e-3)
        B[positions[name]] = similarity_rows(C, root)
    seed = seeds.integer_seed(0, "FedSC")
    order = order_of_similar(B)
    B = B[order.places]
    if sparsify:
        labels = cluster_graph(similarity_graph(B), K, seed=seed, n_init=50).labels
    else:
        labels = cluster_rows(B, K, seed=seed, n_init=50).labels
    labels = order.back(order.alike(labels))
    return np.concatenate([labels[positions[name]] for name in ROWS])

"""Attacks on what repeats: sums of some clients in many rounds, and noise of many releases."""

import numpy as np
from sklearn.datasets import load_iris

from daskfc.coding import SecretKey
from daskfc.privacy import averaged_releases, terms_of_subset_sums
from daskfc.protocols.fedsc.maths.kernel_dictionary import local_update
from daskfc.protocols.fedsc.privacy.noise import DataNoise


def subset_dictionaries(participation: float, rounds: int = 60) -> tuple[int, float]:
    """Return how many of five clients FedSC's rounds single out, and how far off their terms are.

    On iris. The distance of the dictionaries found from the clients' own is told over that of the
    mean of all, which the server has anyway.
    """
    random, X = np.random.default_rng(0), load_iris().data
    clients = np.array_split(random.permutation(X), 5)
    Z, members, sums, owns, before = X[random.permutation(150)[:12]], [], [], [], []
    for _ in range(rounds):
        active = np.sort(random.permutation(5)[: round(5 * participation)])
        own = [local_update(x, Z, 2.5, 1e-3, steps=1) for x in clients]
        members.append(np.isin(np.arange(5), active).astype(float))
        owns, before = [*owns, own], [*before, Z]
        sums.append(np.sum([own[i] for i in active], axis=0))
        Z = sums[-1] / len(active)
    half = slice(rounds // 2, None)
    found = terms_of_subset_sums(members[half], sums[half], before[half])
    true = np.mean(owns[half], axis=0)
    far = np.linalg.norm(true - true.mean(axis=0))
    return int(found.determined.sum()), float(np.linalg.norm(found.values - true) / far)


def averaged_rows(repeats: int = 16) -> tuple[float, float]:
    """Return the noise left of repeated releases of rows, over σ: fresh in each, and now."""
    X, ids, noise = np.zeros((60, 20)), [str(i) for i in range(60)], DataNoise(2.0)
    runs, kept = [SecretKey.from_os() for _ in range(repeats)], SecretKey.from_os()
    fresh = averaged_releases(noise.applied(X, run, "new") for run in runs)
    same = averaged_releases(noise.of_each_row(X, ids, kept) for _ in runs)
    return float(fresh.std() / 2.0), float(same.std() / 2.0)

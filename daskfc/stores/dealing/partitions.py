"""How the samples of one source are dealt to clients: functions from labels to row indices.

Paper       Yan et al., OmniFC, Section 4.1 and Appendix C.1 (label skew); Hsu, Qi and Brown 2019,
            arXiv 1909.06335, Section 3.1 (Dirichlet).
Notation    paper  here        shape, range
            k*     n_clients   int ≥ 1; the paper has as many clients as clusters, here any number
            p      skew        float in [0, 1]; 0 is IID, 1 gives a client samples of one cluster
Departures  (1) Every sample is dealt exactly once and the clients' sizes differ by at most 1; the
            paper deals evenly and does not say whether samples may be drawn twice.
            (2) The main cluster of client c is number c, round robin, of the clusters in order of
            falling size: with fewer clients than clusters, the small ones are no client's main one.
            (3) Clusters of unequal size make an exact p impossible for some client. Clients whose
            common main cluster is too small share it evenly, and what they lack comes from the
            remainder, which is then no longer uniform: it holds what the large clusters have left.
"""

from collections.abc import Callable

import numpy as np

from daskfc.errors import StoreError
from daskfc.seeds import generator


def client_sizes(n_samples: int, n_clients: int) -> np.ndarray:
    """Return sizes that differ by at most 1, the larger ones first; each is at least 1."""
    if not 1 <= n_clients <= n_samples:
        raise StoreError(
            f"the number of clients of a partition must be in [1, number of samples]; got "
            f"{n_clients} clients for {n_samples} samples. Ask for fewer clients."
        )
    sizes = np.full(n_clients, n_samples // n_clients, dtype=np.int64)
    sizes[: n_samples % n_clients] += 1
    return sizes


def iid(labels: np.ndarray, n_clients: int, *, seed: int) -> list[np.ndarray]:
    """Deal samples at random, whatever the labels; return each client's rows, ascending."""
    sizes = client_sizes(len(labels), n_clients)
    order = generator(seed, "partition", "iid").permutation(len(labels))
    return [np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1])]


def label_skew(labels: np.ndarray, n_clients: int, *, skew: float, seed: int) -> list[np.ndarray]:
    """Deal a fraction `skew` (the paper's p) of each client's samples from one cluster.

    The rest is uniform; each client's rows ascend. Departure (3) is for unequal clusters.
    """
    sizes = client_sizes(len(labels), n_clients)
    random = generator(seed, "partition", "label-skew")
    values, counts = np.unique(labels, return_counts=True)
    by_size = values[np.argsort(-counts, kind="stable")]  # Departure (2)
    wanted = np.rint(skew * sizes).astype(np.int64)  # "the first p·50 datapoints", Appendix C.1
    parts: list[list[np.ndarray]] = [[] for _ in range(n_clients)]
    remainder = []
    for position, value in enumerate(by_size):
        rows = random.permutation(np.flatnonzero(labels == value))
        clients = range(position, n_clients, len(by_size))
        shares = _shares(wanted[list(clients)], len(rows))
        pieces = np.split(rows, np.cumsum(shares))
        for client, piece in zip(clients, pieces[:-1], strict=True):
            parts[client].append(piece)
        remainder.append(pieces[-1])
    left = random.permutation(np.concatenate(remainder))
    missing = sizes - [sum(len(piece) for piece in part) for part in parts]
    for part, piece in zip(parts, np.split(left, np.cumsum(missing)[:-1]), strict=True):
        part.append(piece)  # the (1 - p) part, "randomly sampled from any cluster"
    return [np.sort(np.concatenate(part)) for part in parts]


def _shares(wanted: np.ndarray, available: int) -> np.ndarray:
    """Reduce wanted sizes that differ by at most 1 to even shares of `available`; Departure (3)."""
    if wanted.sum() <= available:
        return wanted
    shares = np.full(len(wanted), available // len(wanted), dtype=np.int64)
    shares[: available % len(wanted)] += 1
    return shares


def dirichlet(labels: np.ndarray, n_clients: int, *, alpha: float, seed: int) -> list[np.ndarray]:
    """Deal every cluster in proportions drawn from a symmetric Dirichlet distribution.

    Returns each client's rows, ascending; a client without rows gets one of the largest client.
    """
    client_sizes(len(labels), n_clients)  # refuses more clients than samples
    random = generator(seed, "partition", "dirichlet")
    parts: list[list[np.ndarray]] = [[] for _ in range(n_clients)]
    for value in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == value))
        shares = random.dirichlet(np.full(n_clients, alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
        for part, piece in zip(parts, np.split(rows, cuts), strict=True):
            part.append(piece)
    dealt = [np.concatenate(part) for part in parts]
    for client in range(n_clients):
        if not len(dealt[client]):
            richest = max(range(n_clients), key=lambda c: len(dealt[c]))
            dealt[client], dealt[richest] = dealt[richest][:1], dealt[richest][1:]
    return [np.sort(rows) for rows in dealt]


PARTITIONS: dict[str, Callable[..., list[np.ndarray]]] = {
    "iid": iid,
    "label-skew": label_skew,
    "dirichlet": dirichlet,
}

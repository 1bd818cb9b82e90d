"""Measure attacks on what parties see, without what protects against them and with it.

It takes seconds, and prints the numbers of docs/attacks.md.
"""

import hashlib
import itertools
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from daskfc.coding import SecretKey
from daskfc.federation.sample_keys import own_digest_key
from daskfc.federation.samples import canonical_positions, content_tag, sample_digests
from daskfc.privacy import (
    averaged_releases,
    guesses_behind,
    holders_by_order,
    rows_by_distances,
    terms_of_subset_sums,
)
from daskfc.protocols.fedsc.maths.kernel_dictionary import local_update
from daskfc.protocols.fedsc.noise import DataNoise
from daskfc.stores import ClientStore, write_store
from daskfc.stores.layout import ContentDigest

SALT = b"daskfc-sample-order\x1f"  # public and constant, of earlier versions


def _store(folder: str, name: str, rows: np.ndarray, ids: list[str]) -> ClientStore:
    url = str(Path(folder) / f"{name}.zarr")
    write_store(url, name, rows, ids)
    return ClientStore.open(url)


def _digests(names: Iterable[str], key: SecretKey) -> list[int]:
    secret = key.to_bytes()
    of = (hashlib.blake2b(one.encode(), digest_size=8, key=secret).digest() for one in names)
    return [int.from_bytes(one, "little") for one in of]


def ids_found(n: int = 300, register: int = 10_000) -> tuple[float, float]:
    """Return the shares of ids that the server finds in a register: by a public salt, and now."""
    names = [f"patient-{i:05d}" for i in range(register)]
    own = [names[i] for i in np.random.default_rng(0).permutation(register)[:n]]

    def salted(name: str) -> str:
        return hashlib.sha256(SALT + name.encode()).hexdigest()[:16]

    with tempfile.TemporaryDirectory() as folder:
        store = _store(folder, "a", np.zeros((n, 1)), own)
        seen = sample_digests(store, own_digest_key(store)).digests.tolist()
    tried = dict(zip(names, _digests(names, SecretKey.from_os()), strict=True))
    before = guesses_behind(map(salted, own), names, salted)
    now = guesses_behind(seen, names, tried.__getitem__)
    return float(np.mean(np.equal(before, own))), float(np.mean(np.equal(now, own)))


def rows_found() -> tuple[bool, bool]:
    """Return whether the server finds a client's two rows of two digits each: before, and now."""
    ids = ["a", "b"]
    with tempfile.TemporaryDirectory() as folder:
        store = _store(folder, "a", np.array([[3.0, 7.0], [1.0, 4.0]]), ids)
        told = store.digest, content_tag(store, SecretKey.from_os())
        dtype = store.dtype

    def bare(guess: Sequence[float]) -> str:
        digest = ContentDigest(dtype, ["x0", "x1"])
        digest.add(np.reshape(guess, (2, 2)), np.array(ids))
        return digest.hexdigest()

    def keyed(guess: Sequence[float]) -> int:
        return key.derive("samples", bare(guess)).fingerprint()

    key, every = SecretKey.from_os(), list(itertools.product(np.arange(10.0), repeat=4))
    found = guesses_behind([told[0]], every, bare) + guesses_behind([told[1]], every, keyed)
    return tuple(one == (3.0, 7.0, 1.0, 4.0) for one in found)


def holders_found(n: int = 100) -> tuple[float, float]:
    """Return the shares of samples whose holder an evaluator tells: by the digests' order, and now.

    It has the clients' key and a list of all ids.
    """
    names = [f"patient-{i:05d}" for i in range(3 * n)]
    mixed = np.random.default_rng(0).permutation(names).tolist()
    own = {client: mixed[i * n : (i + 1) * n] for i, client in enumerate("abc")}
    with tempfile.TemporaryDirectory() as folder:
        stores = {c: _store(folder, c, np.zeros((n, 1)), ids) for c, ids in own.items()}
        key = own_digest_key(stores["a"])
        parts = {c: sample_digests(store, key) for c, store in stores.items()}
    by_digest = np.argsort(np.argsort(np.concatenate([p.digests for p in parts.values()])))
    now = np.concatenate(list(canonical_positions(parts).values()))
    truth, shares = {one: c for c, ids in own.items() for one in ids}, []
    for places in (by_digest, now):
        holders = [""] * len(mixed)
        for one, place in zip(mixed, places, strict=True):
            holders[place] = truth[one]
        guessed = holders_by_order(np.array(_digests(names, key), dtype=np.uint64), holders)
        shares.append(float(np.mean([truth[o] == g for o, g in zip(names, guessed, strict=True)])))
    return tuple(shares)


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
        own = [local_update(x, Z, 2.5, 1e-3, steps=1, kind="preconditioned") for x in clients]
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


SETS = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
KNOWN = (0, 1, 2, 4, 8, 16)


def rows_beside_known(name: str, known: int, draws: int = 100) -> tuple[float, float]:
    """Return how far off rows are that OmniFC's server places beside some that it knows.

    Features are standardised over all samples, so that their mean is known to be zero as well.
    Errors are over a row's distance from the mean: 1 is to know nothing but that.

    Returns
    -------
    float
        The median over all other rows and over draws of the known ones.
    float
        The same over those that lie nearest to what is known, a hundredth of the rows; the distance
        that is left tells the server which they are.
    """
    X = StandardScaler().fit_transform(SETS[name]().data)
    random, all_rows, nearest = np.random.default_rng(0), [], []
    for _ in range(draws):
        own = random.permutation(len(X))[:known]
        points = np.vstack([np.zeros(X.shape[1]), X[own]])
        others = np.delete(X, own, axis=0)
        rows, left = rows_by_distances(points, cdist(others, points, "sqeuclidean"))
        norms = np.linalg.norm(others, axis=1)
        off = np.linalg.norm(rows - others, axis=1) / norms
        all_rows.append(np.median(off))
        nearest.append(np.median(off[np.argsort(left / norms)[: len(off) // 100 or 1]]))
    return float(np.median(all_rows)), float(np.median(nearest))


def main() -> None:
    """Print what each attack finds."""
    print("ids of 300 in a register of 10,000: {:.3f}, now {:.3f}".format(*ids_found()))
    print("two rows of two digits, by their digest: {}, now {}".format(*rows_found()))
    print("who of three holds which id: {:.3f}, now {:.3f}".format(*holders_found()))
    for rounds in (20, 60):
        some, everybody = (subset_dictionaries(part, rounds) for part in (0.6, 1.0))
        print("clients of 5 singled out in {} rounds, error: {}, {:.3f}, now {}, {:.3f}".format(
            rounds, *some, *everybody))  # fmt: skip
    for name in SETS:
        found = (rows_beside_known(name, known) for known in KNOWN)
        told = ", ".join("{}: {:.2f} ({:.2f})".format(*one) for one in
                         ((k, *off) for k, off in zip(KNOWN, found, strict=True)))  # fmt: skip
        print(f"error of rows of {name} by number of known ones (of the nearest): {told}")
    print("noise left of 16 releases, over sigma: {:.3f}, now {:.3f}".format(*averaged_rows()))


if __name__ == "__main__":
    main()

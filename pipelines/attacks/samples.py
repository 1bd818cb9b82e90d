"""Attacks on what stands for samples: digests of their ids and rows, and their order."""

import hashlib
import itertools
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from daskfc.coding import SecretKey
from daskfc.federation.methods.sample_keys import own_digest_key
from daskfc.federation.methods.samples import canonical_positions, content_tag, sample_digests
from daskfc.privacy import guesses_behind, holders_by_order
from daskfc.stores import ClientStore, write_store
from daskfc.stores.layout.layout import ContentDigest

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

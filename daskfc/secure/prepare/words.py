"""Agreement on the words (categories) of columns that enough samples share, hiding who has which.

The clients share the key of a hash, which the server does not have. Each counts its samples by the
hash of their word; the server gets the sums, and selects the hashes that enough samples share. For
these it gets one more sum, counts times the words' bytes, which divided by the sum of counts gives
the bytes. Two words of one hash give a mixture, which no digest fits: then the column is counted
again, with another key.
"""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import Federation, PerClient, Sent
from daskfc.federation.messages.texts import text_arrays, texts_in
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import takes
from daskfc.secure.prepare.before import no_weights
from daskfc.secure.prepare.messages import FittedWords, HashKey, KeptBuckets
from daskfc.secure.sums import Aggregation, Total
from daskfc.secure.sums.few import (
    LARGEST_COUNT,
    counts_and_holder,
    held_counts,
    mark_of,
    marked,
    unmarked,
)
from daskfc.stores import ClientStore
from daskfc.stores.sources.cells import LONGEST_WORD
from daskfc.stores.store.fitted_steps import FittedStep
from daskfc.stores.store.prepared import PreparedStore

_BUCKETS = 1 << 15  # ours
_KEYS = 32  # ours: of a start, for columns of words and for numbers that fill gaps
_TRIES = 8  # ours: with 200 different words all eight keys collide once in 500 times
_DIGEST = 8  # ours: bytes that distinguish a word from a mixture
_MOST = 2.0**40  # public bound on counts times bytes


@dataclass(frozen=True)
class Shared:
    """A word, or a number as text, with its number of samples over all clients."""

    word: str
    count: int


def shared_words(
    federation: Federation,
    summing: Aggregation,
    so_far: Sequence[FittedStep],
    columns: Sequence[str],
    clients: tuple[str, ...],
    *,
    smallest: int,
    most_frequent: bool = False,
) -> tuple[dict[str, list[Shared]], dict[str, int]]:
    """Return the words shared by enough samples, sorted, and numbers of withheld words, by column.

    Words of fewer than `smallest` samples are revealed to nobody; withheld ones have enough samples
    but too few clients. Numbers count as their text in Python. Columns without words are refused.
    """
    found: dict[str, list[Shared]] = {}
    withheld: dict[str, int] = {}
    left = list(columns)
    for _ in range(_TRIES):
        told = _asked_once(federation, summing, so_far, left, clients, smallest, most_frequent)
        words = texts_in(told.word_bytes, told.word_ends)
        collided = {left[i] for i in told.collided.tolist()}
        for i, name in enumerate(left):
            own = [
                Shared(word, count)
                for word, count, column in zip(
                    words, told.counts.tolist(), told.columns.tolist(), strict=True
                )
                if column == i
            ]
            if name not in collided:
                found[name] = sorted(own, key=lambda shared: shared.word)
                withheld[name] = int(told.withheld[i])
        left = [name for name in left if name in collided]
        if not left:
            break
    else:
        raise InvalidInput(
            f"column {left[0]!r} has too many different values for clients to agree on them. Leave "
            "it out, or put fewer kinds in their place."
        )
    if empty := [name for name in columns if not found[name]]:
        raise InvalidInput(
            f"column {empty[0]!r} has no value that at least {smallest} samples share"
            f"{', of as many clients as sites ask for' * (withheld[empty[0]] > 0)}. Leave it out, "
            "or prepare it another way."
        )
    return {name: found[name] for name in columns}, withheld


def _asked_once(
    federation: Federation,
    summing: Aggregation,
    so_far: Sequence[FittedStep],
    columns: Sequence[str],
    clients: tuple[str, ...],
    smallest: int,
    most_frequent: bool,
) -> FittedWords:
    leader = clients[0]
    drawn = federation.exchange(hash_key, uuid.uuid4().hex, clients, clients=[leader],
                                receivers=clients)  # fmt: skip
    keys: PerClient[Sent] = PerClient({name: drawn[name][leader] for name in clients})
    counted = federation.on_clients(bucket_counts, so_far, tuple(columns), keys, clients=clients)
    total = summing.sum(counted, max_abs=LARGEST_COUNT)
    kept = federation.on_server(kept_buckets, total, smallest, most_frequent)
    asked = federation.tell(kept, clients=clients)
    spelt = federation.on_clients(
        spelt_buckets, so_far, tuple(columns), keys, asked, clients=clients
    )
    letters = summing.sum(spelt, max_abs=_MOST)
    return federation.publish(words_of, letters, kept)


def hash_key(tag: str, clients: Sequence[str], secret: SecretKey) -> dict[str, HashKey]:
    """Draw the key of the clients' hash, and send it to all of them."""
    key = np.frombuffer(secret.derive("words", tag).to_bytes(), dtype=np.uint8)
    return {client: HashKey(key.copy()) for client in clients}


def _mark(so_far: Sequence[FittedStep], columns: tuple[str, ...], key: HashKey) -> int:
    return mark_of(repr(so_far), repr(columns), key.key.tobytes().hex())


@takes(so_far=no_weights)
def bucket_counts(
    data: ClientStore,
    so_far: Sequence[FittedStep],
    columns: tuple[str, ...],
    key: HashKey,
    site: SiteRules = FREE,
) -> np.ndarray:
    """Count samples by the hash of their word, and clients with any, (columns, buckets), `marked`.

    A start has few keys: by many, words of few samples would have the hash of a frequent one.
    """
    site.once().hold_few("keys of words", key.key.tobytes(), _KEYS)
    found = np.zeros((len(columns), _BUCKETS))
    for i, counts in enumerate(_counted(data, so_far, columns)):
        for word, count in counts.items():
            found[i, _bucket(word, columns[i], key)] += count
    return marked(counts_and_holder(found), _mark(so_far, columns, key))


def kept_buckets(
    total: Total, smallest: int, most_frequent: bool, site: SiteRules = FREE
) -> KeptBuckets:
    """Send the clients the hashes of enough samples and clients, whose words they shall send."""
    table, mark = unmarked(total)
    held = held_counts(table)
    wanted = held.counts >= smallest
    kept = wanted & held.enough(site.smallest)
    withheld = (wanted & ~kept).sum(axis=1)
    if most_frequent:
        told = np.where(kept, held.counts, 0)
        kept &= told == told.max(axis=1, keepdims=True)
    columns, buckets = np.nonzero(kept)
    return KeptBuckets(
        columns.astype(np.int64), buckets.astype(np.int64), withheld.astype(np.int64), mark
    )


@takes(so_far=no_weights)
def spelt_buckets(
    data: ClientStore,
    so_far: Sequence[FittedStep],
    columns: tuple[str, ...],
    key: HashKey,
    kept: KeptBuckets,
    site: SiteRules = FREE,
) -> np.ndarray:
    """Return, by kept hash, the number of samples times 1 and their word's bytes and digest."""
    if kept.mark != _mark(so_far, columns, key):
        raise PrivacyError(
            "the words to spell were counted in other columns, by another key, or of samples that "
            "were prepared in another way. Nothing was sent; start the run again."
        )
    found = np.zeros((len(kept.columns), 1 + LONGEST_WORD + _DIGEST))
    at = {place: i for i, place in enumerate(zip(kept.columns.tolist(), kept.buckets.tolist(),
                                                 strict=True))}  # fmt: skip
    for i, counts in enumerate(_counted(data, so_far, columns)):
        for word, count in counts.items():
            place = at.get((i, _bucket(word, columns[i], key)))
            if place is not None:
                site.share_word(so_far, columns[i], word)
                found[place] += count * np.array([1, *_spelt(word)], dtype=np.float64)
    return found


def words_of(total: Total, kept: KeptBuckets) -> FittedWords:
    """Report the words, and the columns that have two words of one hash."""
    found = np.rint(total.values)
    words, counts, columns, collided = [], [], [], set()
    for row, column in zip(found, kept.columns.tolist(), strict=True):
        letters = row[1:] / row[0]
        whole = np.rint(letters).astype(np.uint8)
        word = whole[:LONGEST_WORD].tobytes().rstrip(b"\0").decode(errors="replace")
        if (letters == whole).all() and whole.tobytes() == _spelt(word):
            words.append(word)
            counts.append(int(row[0]))
            columns.append(column)
        else:
            collided.add(column)
    return FittedWords(
        np.array(columns, dtype=np.int64),
        np.array(counts, dtype=np.int64),
        *text_arrays(words),
        np.array(sorted(collided), dtype=np.int64),
        kept.withheld,
    )


def _counted(
    data: ClientStore, so_far: Sequence[FittedStep], columns: tuple[str, ...]
) -> list[Mapping[str, int]]:
    """Return the number of a client's samples with each word of each column."""
    store = PreparedStore.of(data, so_far)
    at = [store.feature_names.index(name) for name in columns]
    found: list[dict[float, int]] = [{} for _ in columns]
    for _, block in store.blocks():
        for counts, column in zip(found, block.T[at], strict=True):
            values, times = np.unique(column[~np.isnan(column)] + 0.0, return_counts=True)
            for value, count in zip(values.tolist(), times.tolist(), strict=True):
                counts[value] = counts.get(value, 0) + count
    return [
        {_word(store, name, value): count for value, count in counts.items()}
        for name, counts in zip(columns, found, strict=True)
    ]


def _word(store: ClientStore, column: str, value: float) -> str:
    words = store.categories.get(column)
    return repr(value) if words is None else words[int(value)]


def _bucket(word: str, column: str, key: HashKey) -> int:
    hashed = hashlib.blake2b(f"{column}\0{word}".encode(), key=key.key.tobytes(), digest_size=8)
    return int.from_bytes(hashed.digest(), "little") % _BUCKETS


def _spelt(word: str) -> bytes:
    """Return a word's bytes, padded to a fixed length, and a digest of them."""
    content = word.encode()
    return content.ljust(LONGEST_WORD, b"\0") + hashlib.sha256(content).digest()[:_DIGEST]

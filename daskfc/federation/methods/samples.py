"""The samples of all clients in one order, and labels back to their owners."""

import hashlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation.identity.pseudonyms import stands_for
from daskfc.federation.messages.declaration import Message, array
from daskfc.federation.messages.texts import text_arrays, texts_in
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.handles import Local, PerClient, Sent
from daskfc.stores import ClientStore

_ONE_HAND = bytes(32)


class SampleDigests(
    Message,
    route="client → server",
    reveals="the number of samples, and which sample ids two clients share",
):
    """One pseudonym per sample: 64 bits of a hash of its id, under a key that the server lacks."""

    digests: np.ndarray = array("sample", dtype="uint64")
    share: int  # of the key to the order of all samples; the other clients lack it


class StoreContent(
    Message,
    route="client → server",
    reveals="whether the client's samples are the same as in an earlier run",
):
    """A tag that shows whether samples changed since an earlier start of a fit."""

    tag: int  # under the client's own key


class ClientLabels(
    Message, route="server → client", reveals="to each client the clusters of its own samples"
):
    """The labels of one client's own samples, in the order of its store."""

    labels: np.ndarray = array("sample", dtype="int64")


class LabelledSamples(
    Message, route="client → caller", reveals="to the caller the cluster of every sample id"
):
    """A client's labels with its sample ids (UTF-8, one after the other), for the caller."""

    labels: np.ndarray = array("sample", dtype="int64")
    id_bytes: np.ndarray = array("byte", dtype="uint8")
    id_ends: np.ndarray = array("sample", dtype="int64")

    def sample_ids(self) -> np.ndarray:
        """Return the sample ids as an array of str, ``(sample,)``."""
        return np.array(texts_in(self.id_bytes, self.id_ends), dtype=str)


NewStores: TypeAlias = PerClient[Local[ClientStore]]
Labelled: TypeAlias = PerClient[Sent[LabelledSamples]]


@stands_for(LabelledSamples)
class PseudonymousSamples(
    LabelledSamples,
    reveals="to the caller the cluster of every sample, under a pseudonym of the run",
):
    """Labelled samples with pseudonyms, which only the client can reverse, in place of ids."""


def order_secret(data: ClientStore) -> SecretKey:
    """Return the store's secret, from which the order of samples derives.

    For stores of one storage file it is a constant: their builder has all ids, and building them
    again must give the same labels.
    """
    one_hand = "storage_digest" in data.attributes
    return SecretKey(_ONE_HAND if one_hand else data.id_key())


def sample_digests(data: ClientStore, key: SecretKey) -> SampleDigests:
    """Hash a client's sample ids, by a key that all clients share, to ``(n_samples,)``."""
    secret = key.to_bytes()
    words = [
        hashlib.blake2b(str(name).encode(), digest_size=8, key=secret).digest()
        for name in data.sample_ids()
    ]
    digests = np.frombuffer(b"".join(words), dtype="<u8").astype(np.uint64)
    return SampleDigests(digests, order_secret(data).derive("sample order").fingerprint())


def new_digests(new: ClientStore, key: SecretKey) -> SampleDigests:
    """Hash the ids of new samples."""
    return sample_digests(new, key)


def mixed_digests(parts: Mapping[str, SampleDigests]) -> dict[str, np.ndarray]:
    """Return uint64 pseudonyms, (n_m,) per client, equal where digests are; the server calls it.

    Their key is made of the shares of all clients: from the order of the digests, whose key clients
    have, a client could tell who holds a sample whose id it guesses.
    """
    shares = sorted({int(part.share) for part in parts.values()})
    key = hashlib.sha256(b"daskfc.order" + repr(shares).encode()).digest()
    mixed = {}
    for name, part in parts.items():
        own = [part.digests[i : i + 1].tobytes() for i in range(len(part.digests))]
        words = [hashlib.blake2b(one, digest_size=8, key=key).digest() for one in own]
        mixed[name] = np.frombuffer(b"".join(words), dtype="<u8").astype(np.uint64)
    return mixed


def content_tag(data: ClientStore, durable_secret: SecretKey) -> int:
    """Return 63 bits by which the server sees whether a client's samples are unchanged.

    Privacy: without the client's key nobody can test guesses of the samples.
    """
    return durable_secret.derive("samples", data.digest).fingerprint()


def store_content(data: ClientStore, durable_secret: SecretKey) -> StoreContent:
    """Send the server a tag of the samples: a fit goes on only where they are unchanged."""
    return StoreContent(content_tag(data, durable_secret))


def canonical_positions(parts: Mapping[str, SampleDigests]) -> dict[str, np.ndarray]:
    """Give every sample its place in the order of all pseudonyms, see `mixed_digests`.

    Returns
    -------
    dict of str to numpy.ndarray
        ``(n_samples of the client,)`` int64, together a permutation of ``range(n)``: the same place
        for the same sample, however the samples are spread over clients.

    Raises
    ------
    InvalidInput
        When two clients hold samples with the same id.

    Examples
    --------
    >>> from daskfc.federation.methods.samples import SampleDigests, canonical_positions
    >>> a, b = np.array([7, 1], "uint64"), np.array([3], "uint64")
    >>> canonical_positions({"a": SampleDigests(a, 5), "b": SampleDigests(b, 8)})
    {'a': array([0, 2]), 'b': array([1])}
    """
    digests = np.concatenate(list(mixed_digests(parts).values()))
    owners = np.concatenate([np.repeat(i, len(p.digests)) for i, p in enumerate(parts.values())])
    order = np.argsort(digests, kind="stable")
    same = np.flatnonzero(digests[order][1:] == digests[order][:-1])
    if len(same):
        names = list(parts)
        first, second = names[owners[order[same[0]]]], names[owners[order[same[0] + 1]]]
        raise InvalidInput(
            f"sample ids must be unique over all clients; clients {first!r} and {second!r} share "
            f"some, {len(same)} ids occur twice in all. Rename them or drop the copies."
        )
    positions = np.empty(len(order), dtype=np.int64)
    positions[order] = np.arange(len(order))
    ends = np.cumsum([len(part.digests) for part in parts.values()])[:-1]
    return dict(zip(parts, np.split(positions, ends), strict=True))


def linked_samples(parts: Mapping[str, SampleDigests]) -> int:
    """Return the number of samples of a vertical split, the same in one order at all clients."""
    first, *others = parts
    own = parts[first].digests
    for name, part in parts.items():
        repeated = len(part.digests) - len(np.unique(part.digests))
        if repeated:
            raise InvalidInput(
                f"sample ids must be unique in every client; client {name!r} repeats {repeated} of "
                f"its {len(part.digests)}. Drop the copies."
            )
    for name in others:
        theirs = parts[name].digests
        missing = len(np.setdiff1d(own, theirs, assume_unique=True))
        foreign = len(np.setdiff1d(theirs, own, assume_unique=True))
        if missing or foreign:
            raise InvalidInput(
                f"clients must hold the same samples; client {name!r} lacks {missing} of the "
                f"{len(own)} of client {first!r} and has {foreign} others. Link the records first."
            )
        moved = int((own != theirs).sum())
        if moved:
            raise InvalidInput(
                f"clients must hold the same samples in the same order; {moved} of client {name!r} "
                f"stand elsewhere than in client {first!r}. Sort both by id."
            )
    return len(own)


def labels_of_client(
    labels: np.ndarray, positions: Mapping[str, np.ndarray], *, client: str
) -> ClientLabels:
    """Pick one client's labels out of the canonical order, for that client."""
    return ClientLabels(np.asarray(labels, dtype=np.int64)[positions[client]])


_OF_NEW = (
    "labelling of new samples"  # of a client's own again they may differ from those of the fit
)


def _with_ids(
    data: ClientStore, labels: np.ndarray, site: SiteRules, use: str = "labelling of a store"
) -> LabelledSamples:
    site.check_labels(data, labels, use)
    return LabelledSamples(np.asarray(labels, dtype=np.int64), *text_arrays(data.sample_ids()))


def labelled_samples(
    data: ClientStore, labels: ClientLabels, site: SiteRules = FREE
) -> LabelledSamples:
    """Put a client's sample ids beside the labels that the server sent."""
    return _with_ids(data, labels.labels, site)


def own_labels(data: ClientStore, labels: np.ndarray, site: SiteRules = FREE) -> LabelledSamples:
    """Put a client's sample ids beside labels that it computed itself."""
    return _with_ids(data, labels, site)


def opened(
    url: str, as_prepared: Callable[[ClientStore], ClientStore], site: SiteRules = FREE
) -> ClientStore:
    """Open a store of new samples, prepared as those of the fit; it stays at its client."""
    site.check_store(url)
    return as_prepared(ClientStore.open(url))


def labelled_new(new: ClientStore, labels: ClientLabels, site: SiteRules = FREE) -> LabelledSamples:
    """Put the ids of new samples beside the labels that the server sent."""
    return _with_ids(new, labels.labels, site, _OF_NEW)


def own_new_labels(new: ClientStore, labels: np.ndarray, site: SiteRules = FREE) -> LabelledSamples:
    """Put the ids of new samples beside labels that their client computed itself."""
    return _with_ids(new, labels, site, _OF_NEW)

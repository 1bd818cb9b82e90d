"""The samples of all clients in one order, and labels back to their owners."""

import hashlib
from collections.abc import Callable, Mapping

import numpy as np

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation.messages import Message, array
from daskfc.federation.pseudonyms import stands_for
from daskfc.federation.site_rules import FREE, SiteRules
from daskfc.federation.texts import text_arrays, texts_in
from daskfc.stores import ClientStore

__all__ = [
    "SAMPLE_ORDER",
    "ClientLabels",
    "LabelledSamples",
    "PseudonymousSamples",
    "SampleDigests",
    "StoreContent",
    "canonical_positions",
    "content_tag",
    "labelled_new",
    "labelled_samples",
    "labels_of_client",
    "linked_samples",
    "new_digests",
    "opened",
    "own_labels",
    "sample_digests",
    "store_content",
]

SAMPLE_ORDER = "daskfc-sample-order"
"""The public salt of all pseudonyms: fixed, so that the order depends on no seed and no run."""


class SampleDigests(
    Message,
    route="client → server",
    reveals="the number of samples, and which sample ids two clients share",
):
    """One pseudonym per sample: 64 bits of SHA-256(salt, sample id)."""

    digests: np.ndarray = array("sample", dtype="uint64")


class StoreContent(
    Message,
    route="client → server",
    reveals="whether the client's samples are the same as in an earlier run",
):
    """What tells changed samples from those of an earlier start of a fit."""

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


@stands_for(LabelledSamples)
class PseudonymousSamples(
    LabelledSamples,
    reveals="to the caller the cluster of every sample, under a pseudonym of the run",
):
    """The same with a pseudonym in place of each id, which only the client can take back."""


def sample_digests(data: ClientStore, *, salt: str = SAMPLE_ORDER) -> SampleDigests:
    """Hash a client's sample ids.

    Parameters
    ----------
    data : ClientStore
        The client's samples.
    salt : str
        Public, the same for all clients of a run.

    Returns
    -------
    SampleDigests
        ``(n_samples,)`` pseudonyms, in the order of the store.
    """
    prefix = salt.encode() + b"\x1f"
    words = [hashlib.sha256(prefix + str(name).encode()).digest()[:8] for name in data.sample_ids()]
    return SampleDigests(np.frombuffer(b"".join(words), dtype="<u8").astype(np.uint64))


def new_digests(new: ClientStore) -> SampleDigests:
    """Hash the ids of new samples."""
    return sample_digests(new)


def content_tag(data: ClientStore, durable_secret: SecretKey) -> int:
    """Return 63 bits by which the server sees whether a client's samples are those of before.

    Without the client's key nobody can try out what the samples are.
    """
    return durable_secret.derive("samples", data.digest).fingerprint()


def store_content(data: ClientStore, durable_secret: SecretKey) -> StoreContent:
    """Tell the server a tag of the samples, so that a fit goes on only where they are the same."""
    return StoreContent(content_tag(data, durable_secret))


def canonical_positions(parts: Mapping[str, SampleDigests]) -> dict[str, np.ndarray]:
    """Give every sample its place in the order of all pseudonyms.

    Parameters
    ----------
    parts : mapping of str to SampleDigests
        What each client sent.

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
    >>> import numpy as np
    >>> from daskfc.federation.samples import SampleDigests, canonical_positions
    >>> a, b = np.array([7, 1], "uint64"), np.array([3], "uint64")
    >>> canonical_positions({"a": SampleDigests(a), "b": SampleDigests(b)})
    {'a': array([2, 0]), 'b': array([1])}
    """
    digests = np.concatenate([part.digests for part in parts.values()])
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
    """Check that all clients have the same samples in the same order, as a vertical split needs.

    Parameters
    ----------
    parts : mapping of str to SampleDigests
        What each client sent.

    Returns
    -------
    int
        Number of samples.

    Raises
    ------
    InvalidInput
        Naming the client whose samples are repeated, missing, others, or in another order.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.federation.samples import SampleDigests, linked_samples
    >>> same = SampleDigests(np.array([7, 1], "uint64"))
    >>> linked_samples({"a": same, "b": same})
    2
    """
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


def _with_ids(data: ClientStore, labels: np.ndarray) -> LabelledSamples:
    return LabelledSamples(np.asarray(labels, dtype=np.int64), *text_arrays(data.sample_ids()))


def labelled_samples(data: ClientStore, labels: ClientLabels) -> LabelledSamples:
    """Put a client's sample ids beside the labels that the server told it."""
    return _with_ids(data, labels.labels)


def own_labels(data: ClientStore, labels: np.ndarray) -> LabelledSamples:
    """Put a client's sample ids beside labels that it worked out by itself."""
    return _with_ids(data, labels)


def opened(
    url: str, as_prepared: Callable[[ClientStore], ClientStore], site: SiteRules = FREE
) -> ClientStore:
    """Open a store of new samples, prepared as those of the fit; it stays at its client."""
    site.check_store(url)
    return as_prepared(ClientStore.open(url))


def labelled_new(new: ClientStore, labels: ClientLabels) -> LabelledSamples:
    """Put the ids of new samples beside the labels that the server told."""
    return _with_ids(new, labels.labels)

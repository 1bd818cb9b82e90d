"""Memory that columns of landmarks need of each party; see `memory.check` for the limits.

Letters: n samples, d features, l segments, r primes, K answers, k' = ceil(d / l).
"""

from daskfc.federation.party.process_memory import PROCESS_BYTES
from daskfc.secure.distances.sizing.memory import NOBODY, Needs, Reader

_SCREEN = 400_000_000  # ours: a block of scores in float32, rows for it, pairs of a part of it
_PANELS = 64_000_000  # ours: rows of distances, 16 MiB, in a few copies
_EACH = 12  # ours: bytes of _SCREEN for a pair, where the pairs are fewer than a block
_PAIRS = 2**25 * 8  # pairs within a radius that are kept


def view_bytes(
    keep: str, n_samples: int, n_neighbors: int | None, reader: Reader = NOBODY
) -> int | None:
    """Return the bytes of the view that the server builds of coordinates; None for "rows"."""
    if keep == "rows":
        return None
    if keep == "full":
        return reader.memory + min(n_samples**2 * 24, _PANELS)
    screen = min(_SCREEN, _EACH * n_samples**2)
    if keep == "radius":
        return screen + min(_PAIRS, 8 * n_samples**2)
    k = n_neighbors or 0
    # listed pairs of a row are four times its neighbours at most, in a few copies
    return max(screen + n_samples * (k + 1) * 288, n_samples * k * 12 + reader.memory)


def landmark_needs(
    *,
    n_samples: int,
    n_features: int,
    n_segments: int,
    n_primes: int,
    n_answers: int,
    residue_bytes: int,
    panel: int,
    batch: int,
    window: int,
    kept_bytes: int = 0,
    view_bytes: int | None = None,
    n_keys: int = 0,
    reader: Reader = NOBODY,
) -> Needs:
    """Return what the landmark columns need, `batch` landmarks a round and `window` panels at once.

    `kept_bytes` per distance stay until all columns are there; with `view_bytes` of None the
    clusterer takes as much as the coordinates. Traffic is an upper bound.
    """
    n, d, r = n_samples, n_features, n_primes
    k = -(-d // n_segments)
    share = r * n * k * residue_bytes
    rows, landmarks = min(panel, n), min(batch, n)
    answer = r * rows * landmarks * residue_bytes
    # shares arrive in parts and are put in order: twice their size for a moment; then one panel and
    # the landmarks in float64, their product, the answer and its copies
    evaluating = (rows + landmarks) * (k + 2) * r * 8 + rows * landmarks * 16 + 3 * answer
    rank = min(n, d)
    points = n * rank * 8
    columns = n * landmarks * 8
    # the columns of a round, and a panel of what the coordinates so far do not explain of them
    decoding = window * n_answers * answer + columns + 4 * rows * landmarks * 8
    rounds = -(-(rank + 1) // landmarks) + 2  # two more than the rank asks for, as on MNIST
    kept = n * min(rounds * landmarks, n) * kept_bytes
    # what clusters coordinates makes a copy for a moment, and a few numbers of each sample
    after = points + 128 * n + reader.memory if view_bytes is None else view_bytes
    return Needs(
        operation=f"the landmark columns of {n} samples with {d} features{reader.beside}",
        tile=panel,
        evaluator_bytes=PROCESS_BYTES + share + max(share, evaluating),
        server_bytes=PROCESS_BYTES + points + max(decoding + kept, after),
        server_disk_bytes=reader.disk,
        wire_bytes=(n_answers - n_keys) * share
        + n_answers * rounds * r * n * landmarks * residue_bytes,
        way_out="or lower the number of samples or of features",
    )

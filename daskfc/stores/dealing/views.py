"""Deal views to clients: incomplete views, and several clients of one view.

Paper       Chen et al., ESFMC (ICML 2025, PMLR 267): Sections 3.5 and 5.1 (incomplete views, the
            overlapping rate φ), Section 4.1 (cross-device: several clients of one view).
Notation    paper  here               shape, range
            M      n_views            int ≥ 2
            φ      overlap            float in [0, 1], share of the samples that all views have
            m      round(φ n)         samples that all views have
Departures  (1) The paper removes "some samples from arbitrary views"; here each of the n - m others
            keeps a set of views drawn uniformly among those that are neither empty nor all.
"""

from collections.abc import Sequence

import numpy as np

from daskfc.errors import StoreError
from daskfc.seeds import generator
from daskfc.stores.dealing.partitions import client_sizes


def view_clients(views: Sequence[str], clients_per_view: int, *, by_name: bool) -> tuple[str, ...]:
    """Return the names of clients, view by view: after the views if `by_name`, or client-1, ..."""
    if not by_name:
        return tuple(f"client-{i}" for i in range(1, len(views) * clients_per_view + 1))
    if clients_per_view == 1:
        return tuple(views)
    return tuple(f"{view}-{i}" for view in views for i in range(1, clients_per_view + 1))


def draw_holders(n_samples: int, n_views: int, *, overlap: float, seed: int) -> np.ndarray:
    """Draw which views have which samples, (n_samples, n_views) bool.

    ``round(overlap * n_samples)`` rows are all True; others have both values, uniformly drawn.
    """
    random = generator(seed, "partition", "views", "overlap")
    held = np.ones((n_samples, n_views), dtype=bool)
    order = random.permutation(n_samples)
    left = np.sort(order[round(overlap * n_samples) :])
    while len(left):  # each turn keeps at least half of them
        drawn = random.integers(0, 2, (len(left), n_views)).astype(bool)
        proper = drawn.any(axis=1) & ~drawn.all(axis=1)
        held[left[proper]] = drawn[proper]
        left = left[~proper]
    return held


def deal_to_clients(held: np.ndarray, *, clients_per_view: int, seed: int) -> list[np.ndarray]:
    """Deal each view's samples, `held` (n_samples, n_views), evenly at random to its clients.

    Returns rows, ascending, view by view; clients of a view share none, sizes differ by at most 1.
    """
    dealt = []
    for view in range(held.shape[1]):
        rows = np.flatnonzero(held[:, view])
        order = generator(seed, "partition", "views", "clients", view).permutation(rows)
        ends = np.cumsum(client_sizes(len(rows), clients_per_view))[:-1]
        dealt += [np.sort(part) for part in np.split(order, ends)]
    return dealt


def unlinked_view(held: np.ndarray) -> int | None:
    """Return the first view that `held` (n_samples, n_views) does not link to view 0, or None."""
    counts = held.astype(np.int64)
    common = (counts.T @ counts) > 0  # (n_views, n_views)
    linked = np.zeros(held.shape[1], dtype=bool)
    linked[0] = True
    while (more := common[linked].any(axis=0) & ~linked).any():
        linked |= more
    away = np.flatnonzero(~linked)
    return int(away[0]) if len(away) else None


def check_deal(held: np.ndarray, views: Sequence[str], clients_per_view: int, whose: str) -> None:
    """Raise if `held` (n_samples, n_views) leaves a client no samples, or a view unlinked."""
    for name, count in zip(views, held.sum(axis=0).tolist(), strict=True):
        if count < clients_per_view:
            raise StoreError(
                f"{whose}: every client of a view must get a sample; view {name!r} has {count} "
                f"for {clients_per_view} clients. Lower partition.clients_per_view, or raise "
                "partition.overlap."
            )
    if (away := unlinked_view(held)) is not None:
        raise StoreError(
            f"{whose}: views must have samples in common; nothing links view {views[away]!r} to "
            f"view {views[0]!r}, directly or through another view. Raise partition.overlap, or "
            "see that sample ids mean the same in every file."
        )

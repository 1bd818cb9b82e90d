"""A client's training data: validated, with defaults filled in, and cut into batches."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfc.errors import InvalidInput
from daskfc.protocols.esfmc.networks.units import Units

Array: TypeAlias = Any


class Client(NamedTuple):
    """Rows (n, columns), labels (n,) or -1, assignments (n, K), and whether aligned (n,)."""

    rows: Array
    labels: Array
    assignments: Array
    aligned: Array


def _refuse(what: str, rule: str, got: str, way_out: str) -> InvalidInput:
    return InvalidInput(f"{what} given to the networks must {rule}; got {got}. {way_out}")


def _checked_rows(rows: ArrayLike, units: Units) -> NDArray[np.float32]:
    given, n_columns = np.asarray(rows), len(units.low)
    if given.ndim != 2 or given.shape[1] != n_columns or not len(given):
        rule, got = f"have shape (n, {n_columns}) with n of at least 1", f"shape {given.shape}"
        raise _refuse("rows", rule, got, "Give the view the networks were made for.")
    X = units.applied(given)
    if not np.isfinite(X).all():
        raise _refuse("rows", "be finite", "some that are not", "Remove or impute them.")
    return X


def _checked_labels(labels: ArrayLike | None, n: int, n_clusters: int) -> NDArray[np.int32]:
    if labels is None:
        return np.full(n, -1, np.int32)
    y = np.asarray(labels)
    if y.shape != (n,) or y.dtype.kind not in "iu":
        rule, got = f"be ints of shape ({n},), one for each row", f"{y.dtype} of shape {y.shape}"
        raise _refuse("labels", rule, got, "Give -1 for rows without a label.")
    if y.size and not (y.min() >= -1 and y.max() < n_clusters):
        rule = f"lie in [0, {n_clusters}), or be -1"
        raise _refuse("labels", rule, "others", "Number the clusters from 0.")
    return y.astype(np.int32)


def _checked_assignments(
    assignments: ArrayLike | None, aligned: ArrayLike | None, n: int, n_clusters: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if assignments is None:
        if aligned is not None:
            raise _refuse("aligned", "come with assignments", "none", "Give both or neither.")
        return np.zeros((n, n_clusters), np.float32), np.zeros(n, np.float32)
    Q = np.array(assignments, dtype=np.float32)
    if Q.shape != (n, n_clusters):
        rule = f"have shape ({n}, {n_clusters})"
        raise _refuse("assignments", rule, f"{Q.shape}", "Give a column for each cluster.")
    mask = np.ones(n, bool) if aligned is None else np.asarray(aligned)
    if mask.shape != (n,) or mask.dtype != np.bool_:
        got = f"{mask.dtype} of shape {mask.shape}"
        raise _refuse("aligned", f"be bools of shape ({n},)", got, "Give one for each row.")
    Q[~mask] = 0.0
    if not np.isfinite(Q).all():
        raise _refuse("assignments", "be finite", "others", "Mark such rows as not aligned.")
    return Q, mask.astype(np.float32)


def checked(
    rows: ArrayLike,
    labels: ArrayLike | None,
    assignments: ArrayLike | None,
    aligned: ArrayLike | None,
    units: Units,
    n_clusters: int,
) -> Client:
    """Validate a client's arrays; None means labels of -1, no assignments, all rows aligned."""
    X = _checked_rows(rows, units)
    y = _checked_labels(labels, len(X), n_clusters)
    return Client(X, y, *_checked_assignments(assignments, aligned, len(X), n_clusters))


def batches(chance: np.random.Generator, n: int, size: int) -> NDArray[np.int32]:
    """Return rows 0 to n - 1 in random order as batches (n_batches, b <= `size`), padded by -1."""
    n_batches = -(-n // size)
    order = np.full((-(-n // n_batches), n_batches), -1, np.int32)
    order.ravel()[:n] = chance.permutation(n)
    return np.ascontiguousarray(order.T)  # so that no batch lacks more than one row

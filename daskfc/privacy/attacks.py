"""Attacks on data that a server, a client or a caller sees, to measure what it reveals.

Each is short, and stronger ones may exist: an attack that fails is no guarantee. One that succeeds
shows that the data reveals too much.

Notation    here        meaning
            digests     seen in place of values that an attacker can guess
            members     (q, m), which of m clients are in each of q sums
            sums        (q, ...), the sums that are seen
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfc.arrays import Floats
from daskfc.errors import InvalidInput

Guess = TypeVar("Guess")

_EXACT = 1e-9  # ours: a client with a unit vector this near to the rows of `members` is determined
_ONE_ROW = 1e-7  # ours: of the largest square; a sum of squares this near to a square is of one row


def guesses_behind(
    digests: Iterable[Hashable], guesses: Iterable[Guess], digest: Callable[[Guess], Hashable]
) -> list[Guess | None]:
    """Find by trying guesses the first value behind each digest, or None.

    Parameters
    ----------
    digests : iterable of hashable
        The digests that the attacker saw.
    guesses : iterable
        Possible values behind them: a list of ids, or all rows of small numbers.
    digest : callable
        The attacker's digest of a value; with some other key where it lacks the key.

    Examples
    --------
    >>> from hashlib import sha256
    >>> from daskfc.privacy import guesses_behind
    >>> def public(name): return sha256(name.encode()).hexdigest()
    >>> guesses_behind([public("p7"), "?"], (f"p{i}" for i in range(10)), public)
    ['p7', None]
    """
    seen = list(digests)
    wanted, found = set(seen), dict[Hashable, Guess]()
    for guess in guesses:
        if (key := digest(guess)) in wanted:
            found.setdefault(key, guess)
            if len(found) == len(wanted):
                break
    return [found.get(one) for one in seen]


def holders_by_order(digests: ArrayLike, holders: Sequence[Guess]) -> list[Guess]:
    """Guess who holds which sample from the order of the holders' samples.

    Parameters
    ----------
    digests : array_like of shape (N,)
        The attacker's digest of each guessed id, N at least n.
    holders : sequence of length n
        Who holds the sample at each place, in the order of the samples' true digests.

    Returns
    -------
    list of length N
        For each guessed id the holder of its expected place.

    Raises
    ------
    InvalidInput
        When there are fewer guesses than places, or no place.

    Notes
    -----
    Right for all ids where the guesses are exactly the samples' ids and digests are the true ones.
    With more guesses than samples, places are off by about the root of their number.

    Examples
    --------
    >>> from daskfc.privacy import holders_by_order
    >>> holders_by_order([30, 10, 20], ["a", "b", "b"])
    ['b', 'a', 'b']
    """
    values = np.asarray(digests)
    if values.ndim != 1 or not 0 < len(holders) <= len(values):
        raise InvalidInput(
            f"an attack on an order needs at least one place, and a guess for each; got "
            f"{len(holders)} places and guesses of shape {values.shape}. Give more guesses."
        )
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    places = (2 * ranks + 1) * len(holders) // (2 * len(values))
    return [holders[place] for place in places.tolist()]


@dataclass(frozen=True)
class SubsetTerms:
    """Terms of single clients that sums over changing subsets reveal.

    Parameters
    ----------
    values : ndarray of shape (m, ...)
        The least-squares estimate of each client's term.
    determined : ndarray of bool, shape (m,)
        Whether the subsets determine a client's term; the values of others are no estimate.
    """

    values: Floats
    determined: NDArray[np.bool_]


def terms_of_subset_sums(
    members: ArrayLike, sums: ArrayLike, follows: ArrayLike | None = None
) -> SubsetTerms:
    """Solve sums over changing subsets of clients for the clients' own terms.

    Parameters
    ----------
    members : array_like of shape (q, m)
        Weights of the clients in each sum: 1 for those that took part, 0 for others.
    sums : array_like of shape (q, ...)
        The sums that the server learned, without masks.
    follows : array_like of shape (q, ...), optional
        A known value for each sum, which every client's term follows by one unknown factor: in
        FedSC the dictionary at the start of the round.

    Returns
    -------
    SubsetTerms
        Terms are their means over the sums.

    Raises
    ------
    InvalidInput
        For shapes that do not fit, and values that are not finite.

    Notes
    -----
    Exact where terms change between the sums only as `follows` says. Masks hide a client within a
    single sum only: the term of a client that the subsets determine is known as if it had been sent
    in the clear.

    Examples
    --------
    >>> from daskfc.privacy import terms_of_subset_sums
    >>> found = terms_of_subset_sums([[1, 1, 0], [0, 1, 1], [1, 0, 1]], [3.0, 5.0, 4.0])
    >>> found.values.round(9).tolist(), found.determined.tolist()
    ([1.0, 2.0, 3.0], [True, True, True])
    >>> terms_of_subset_sums([[1, 1, 1]], [6.0]).determined.tolist()
    [False, False, False]
    """
    A, right = np.asarray(members, dtype=np.float64), np.asarray(sums, dtype=np.float64)
    finite = np.isfinite(A).all() and np.isfinite(right).all()
    if A.ndim != 2 or A.size == 0 or right.shape[:1] != A.shape[:1] or not finite:
        raise InvalidInput(
            f"an attack on subset sums needs finite 'members' (q, m) and one sum for each of its "
            f"rows; got shapes {A.shape} and {right.shape}. Give a row for each sum."
        )
    inverse, flat = np.linalg.pinv(A), right.reshape(len(A), -1)  # (m, q), (q, entries)
    moved = np.zeros_like(flat)
    if follows is not None:
        known = np.asarray(follows, dtype=np.float64)
        if known.shape != right.shape or not np.isfinite(known).all():
            raise InvalidInput(
                f"'follows' of an attack must be finite and of the shape of the sums, "
                f"{right.shape}; got shape {known.shape}. Give what each sum's terms follow."
            )
        moved = known.reshape(len(A), -1)
    in_sums = A.sum(axis=1, keepdims=True) * moved
    # the factor that leaves least of the sums once each client has a term of its own
    left, of_moved = flat - A @ (inverse @ flat), in_sums - A @ (inverse @ in_sums)
    size = float((of_moved**2).sum())
    factor = float((left * of_moved).sum()) / size if size > 0 else 0.0
    values = inverse @ (flat - factor * in_sums) + factor * moved.mean(axis=0)
    # row i of A⁺A is the unit vector i exactly where client i's term follows from the sums
    determined = np.abs(inverse @ A - np.eye(A.shape[1])).max(axis=1) < _EXACT
    return SubsetTerms(values.reshape(A.shape[1], *right.shape[1:]), determined)


def averaged_releases(releases: Iterable[ArrayLike]) -> Floats:
    """Average noisy releases of the same values.

    Parameters
    ----------
    releases : iterable of array_like
        Of one shape, aligned by sample.

    Returns
    -------
    ndarray
        Their mean. Independent noise of σ in each of k becomes σ / √k; noise that is the same in
        all of them stays.

    Examples
    --------
    >>> from daskfc.privacy import averaged_releases
    >>> averaged_releases([[1.0, 5.0], [3.0, 5.0]]).tolist()
    [2.0, 5.0]
    """
    arrays = [np.asarray(one, dtype=np.float64) for one in releases]
    if not arrays or len({one.shape for one in arrays}) > 1:
        raise InvalidInput(
            f"releases to be averaged must be one or more arrays of one shape; got "
            f"{sorted({one.shape for one in arrays}) or 'none'}. Align them by sample."
        )
    return np.asarray(np.mean(arrays, axis=0))


def rows_by_distances(known: ArrayLike, squared: ArrayLike) -> tuple[Floats, Floats]:
    """Place rows by their squared distances to known rows, such as an insider's own.

    Parameters
    ----------
    known : array_like of shape (m, d)
        Rows that the attacker knows, or a mean that was revealed.
    squared : array_like of shape (n, m)
        Squared distances of the unknown rows to them.

    Returns
    -------
    rows : ndarray of shape (n, d)
        The nearest point to each row in the affine space that the known rows span. With d + 1 rows
        that span the whole space, the row itself.
    left : ndarray of shape (n,)
        Distance of each row from that point: the attacker knows which rows it has found.

    Raises
    ------
    InvalidInput
        Where shapes do not go together, or numbers are not finite.

    Notes
    -----
    Known rows and distances to a rigid motion: Giannella, Liu and Kargupta, "Breaching Euclidean
    distance-preserving data perturbation using few known inputs" (arXiv 0911.2942), who choose the
    remaining rotation at random, where this function takes the point in the middle.

    Examples
    --------
    >>> from daskfc.privacy import rows_by_distances
    >>> rows, left = rows_by_distances([[0, 0], [2, 0]], [[2, 2], [1, 1]])
    >>> rows.tolist(), left.tolist()
    ([[1.0, 0.0], [1.0, 0.0]], [1.0, 0.0])
    """
    points, distances = np.asarray(known, dtype=np.float64), np.asarray(squared, dtype=np.float64)
    fits = points.ndim == distances.ndim == 2 and points.shape[:1] == distances.shape[1:]
    if not (fits and len(points) and np.isfinite(points).all() and np.isfinite(distances).all()):
        raise InvalidInput(
            "an attack on distances must be given known rows, and for each unknown row a finite "
            f"squared distance to each; got shapes {points.shape} and {distances.shape}. Align "
            "them."
        )
    first, steps = points[0], points[1:] - points[0]
    # |x - p_i|^2 = |x - p_0|^2 - 2 (x - p_0)(p_i - p_0) + |p_i - p_0|^2
    right = (distances[:, :1] - distances[:, 1:] + np.einsum("ij,ij->i", steps, steps)) / 2
    along = right @ np.linalg.pinv(steps).T
    left = np.sqrt(np.maximum(distances[:, 0] - np.einsum("ij,ij->i", along, along), 0.0))
    rows: Floats = first + along
    return rows, left


def rows_between_sums(
    counts: ArrayLike,
    sums: ArrayLike,
    squares: ArrayLike,
    members: Callable[[Floats], ArrayLike] | None = None,
) -> Floats:
    """Find single rows by which two sums differ, as sums of two rounds of k-means may.

    Parameters
    ----------
    counts : array_like of shape (q,)
        Number of rows in each sum.
    sums, squares : array_like of shape (q, d)
        Of the rows, and of their squares entry by entry.
    members : callable, optional
        Which of the sums rows (r, d) are in, as bool (q, r): an attacker that knows the centres of
        a round knows in which cell a row lies. Found rows are then subtracted from all sums, and
        the remainders give others.

    Returns
    -------
    ndarray of shape (r, d)
        Rows that are the only row of a sum, or the only difference of two sums. The assignment of
        rows need not be known: for one row the sum of squares is the square of the sum.

    Raises
    ------
    InvalidInput
        For shapes that do not go together, and numbers that are not finite.

    Examples
    --------
    >>> from daskfc.privacy import rows_between_sums
    >>> rows = np.array([[1.0, 5.0], [2.0, 0.0], [4.0, 3.0]])
    >>> rounds = np.array([[1, 1, 1], [1, 1, 0]])           # the last row moved away
    >>> rows_between_sums(rounds.sum(axis=1), rounds @ rows, rounds @ rows**2).tolist()
    [[4.0, 3.0]]
    """
    n, S, Q = (np.asarray(one, dtype=np.float64) for one in (counts, sums, squares))
    fits = S.ndim == 2 and S.shape == Q.shape and n.shape == S.shape[:1]
    if not (fits and np.isfinite(n).all() and np.isfinite(S).all() and np.isfinite(Q).all()):
        raise InvalidInput(
            "an attack on sums must be given finite counts (q,), and sums and squares (q, d); got "
            f"shapes {n.shape}, {S.shape} and {Q.shape}. Align them."
        )
    found: Floats = np.empty((0, S.shape[1]))
    near = _ONE_ROW * max(float(Q.max(initial=0.0)), 1e-300)
    while True:
        seen = _apart_by_one(np.rint(n), S, Q, near)
        apart = np.square(seen[:, None] - found).max(axis=2).min(axis=1, initial=np.inf)
        new = seen[apart > near]
        found = np.vstack([found, new])
        if members is None or not len(new):
            return found
        inside = np.asarray(members(new), dtype=np.float64)
        n, S, Q = n - inside.sum(axis=1), S - inside @ new, Q - inside @ new**2


def _apart_by_one(n: Floats, S: Floats, Q: Floats, near: float) -> Floats:
    """Return the distinct single rows by which any two sums, or a sum and zero, differ."""
    own = np.column_stack([np.append(0.0, n), np.pad(S, ((1, 0), (0, 0)))])  # and a sum of nothing
    _, first = np.unique(np.round(own / np.sqrt(near)), axis=0, return_index=True)
    n, S, Q = own[first, 0], own[first, 1:], np.pad(Q, ((1, 0), (0, 0)))[first]
    rows = [np.empty((0, S.shape[1]))]
    for i, count in enumerate(n):
        other = np.flatnonzero(n == count + 1)
        more = S[other] - S[i]
        rows.append(more[np.abs(Q[other] - Q[i] - more**2).max(axis=1, initial=0.0) < near])
    every = np.vstack(rows)
    _, first = np.unique(np.round(every / np.sqrt(near)), axis=0, return_index=True)
    return every[first]


def rows_by_centres(weights: ArrayLike, squared: ArrayLike) -> tuple[Floats, Floats]:
    """Place rows, up to a rigid motion, by squared distances to means of them.

    Parameters
    ----------
    weights : array_like of shape (c, n)
        Weight of each row in each mean, known to whoever requested the distances; each mean's
        weights add up to 1.
    squared : array_like of shape (n, c)
        Squared distances of the rows to the means.

    Returns
    -------
    rows : ndarray of shape (n, r)
        Coordinates in the span of the means.
    left : ndarray of shape (n,)
        Distance of each row from the span: the attacker knows which rows it has placed exactly.

    Raises
    ------
    InvalidInput
        Where shapes do not go together, or numbers are not finite.

    Examples
    --------
    >>> from daskfc.privacy import rows_by_centres
    >>> rows, means = np.array([[0.0], [3.0], [9.0]]), np.array([[1, 0, 0], [0, 0.5, 0.5]])
    >>> found, left = rows_by_centres(means, (rows - (means @ rows).T) ** 2)
    >>> np.abs(np.diff(found[:, 0])).round(9).tolist(), bool((left < 1e-6).all())
    ([3.0, 6.0], True)
    """
    A, D = np.asarray(weights, dtype=np.float64), np.asarray(squared, dtype=np.float64)
    fits = A.ndim == 2 and A.size and D.shape == A.shape[::-1]
    if not (fits and np.isfinite(A).all() and np.isfinite(D).all()):
        raise InvalidInput(
            "an attack on distances to means must be given finite weights (c, n), and squared "
            f"distances (n, c); got shapes {A.shape} and {D.shape}. Align them."
        )
    apart, mean = A - A.mean(axis=0), D.mean(axis=1, keepdims=True)
    # of means around their own mean, from -2 x c in the distances: first all inner products
    inner = -apart @ (D - mean) / 2
    inner = (inner + inner.T) / 2
    values, vectors = np.linalg.eigh(inner - inner.mean(axis=0))
    kept = values > _EXACT * max(float(values[-1]), 0.0)
    lengths = np.diag(inner)
    along = (lengths - lengths.mean() - (D - mean)) / 2 @ vectors[:, kept]
    rows: Floats = along / np.sqrt(values[kept])
    off = mean[:, 0] - lengths.mean() - np.square(rows).sum(axis=1)
    return rows, np.sqrt(np.maximum(off, 0.0))

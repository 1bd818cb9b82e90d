"""Clients agree on the width of a kernel, from the average distance of their samples.

Paper       A Communication Efficient Federated Kernel k-means, Section 6.1, which leaves open how
            clients learn the average distance of all samples: here by one sum.
Messages    of the sum      client → server    once; d + 2 numbers, 2 d + 1 for the Laplacian
                                               kernel, 2 for the polynomial one
            KernelWidth     server → client    where the method sends it
"""

import numpy as np
from numpy.typing import NDArray

from daskfc.checks import check_params, one_of
from daskfc.clustering.kernels.features import KERNELS
from daskfc.clustering.kernels.width import width_of_moments
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, Message, Sent
from daskfc.secure.sums.centre import Centre
from daskfc.secure.sums.few import count_unit, power_of_four, sum_unit
from daskfc.secure.sums.total import Aggregation, Total
from daskfc.stores import ClientStore

_RELATIVE = 1e-4  # ours: largest error of the squared width; a width is a rule of thumb
_ROUNDING = 16 * np.finfo(np.float64).eps  # of sums of squares in float64


class KernelWidth(
    Message,
    route=("server → client", "server → caller"),
    reveals="how far all clients' samples lie from each other, or from the origin: one number",
):
    """The width of a kernel, in units of the data."""

    width: float


def agree_on_width(
    federation: Federation,
    sums: Aggregation,
    kernel_kind: str,
    *,
    centre: Sent[Centre] | None = None,
    hidden: float | None = None,
) -> Local[KernelWidth]:
    """Find the width of a kernel over the samples of all clients, by one sum.

    Parameters
    ----------
    federation : Federation
        In a run; clients hold samples with the same features.
    sums : Aggregation
        From `open_sum`; it decides what the server sees besides the sum.
    kernel_kind : {"gaussian", "laplacian", "polynomial"}
        The kernel; see `daskfc.clustering.kernels.width.width_of_moments`.
    centre : Sent, optional
        The point that samples are relative to; by default the origin.
    hidden : float, optional
        The width to use where rounding hides it; by default that is an error.

    Returns
    -------
    Local of KernelWidth
        At the server; ``federation.tell`` sends it to the clients, ``federation.publish`` to the
        caller.

    Raises
    ------
    InvalidInput
        For another kernel.

    Notes
    -----
    Privacy: besides the width the server learns the number of samples and their mean; with the
    Laplacian kernel also the variance of each feature; with the polynomial one the number and the
    mean squared norm only. The squared width is exact to 1e-4; where rounding would leave a larger
    error, because samples are equal, or lie far from the origin and close to each other, the step
    at the server raises InvalidInput.

    Examples
    --------
    >>> from daskfc.secure.sums import open_sum
    >>> from daskfc.secure.sums.interpoint import agree_on_width
    >>> def width_at_clients(federation):
    ...     sums = open_sum(federation, "masked")
    ...     return federation.tell(agree_on_width(federation, sums, "gaussian"))
    """
    check_params("a kernel", {"kind": kernel_kind}, {"kind": one_of(*KERNELS)})
    squares = federation.on_clients(interpoint_moments, kernel_kind, centre)
    most, those = sums.agree(squares)
    bound = power_of_four(most)
    parts = federation.on_clients(interpoint_moments, kernel_kind, centre, bound, clients=those)
    total = sums.sum(parts, max_abs=bound)
    return federation.on_server(width_of_total, total, kernel_kind, bound, hidden=hidden)


def interpoint_moments(
    data: ClientStore, kernel_kind: str, centre: Centre | None = None, bound: float | None = None
) -> NDArray[np.float64]:
    """Return a client's summand for the kernel's width, of rows relative to `centre` or the origin.

    It has n; the sum of all squares, or of each feature's for the Laplacian kernel; the sum of each
    feature, except for the polynomial kernel. `bound`, on the squares, gives n and sums units in
    which they keep their digits, whatever the features' unit; without it there are squares alone.
    """
    d = data.n_features
    firsts, squares = np.zeros(d), np.zeros(d)
    for _, block in data.blocks():
        rows = block if centre is None else block - centre.point
        firsts += rows.sum(axis=0)
        squares += np.einsum("ij,ij->j", rows, rows)
    if kernel_kind != "laplacian":
        squares = np.array([squares.sum()])
    if kernel_kind == "polynomial":
        firsts = firsts[:0]
    if bound is None:
        return squares
    count = data.n_samples * count_unit(bound)
    return np.concatenate([[count], squares, firsts * sum_unit(bound)])


def width_of_total(
    total: Total, kernel_kind: str, bound: float, *, hidden: float | None = None
) -> KernelWidth:
    """Return the width of `interpoint_moments`' sum; where rounding hides it, `hidden` or raise."""
    values, error, unit = total.values.ravel(), total.error_bound, sum_unit(bound)
    n_squares = (len(values) - 1) // 2 if kernel_kind == "laplacian" else 1
    n = max(round(values[0] / count_unit(bound)), 1)
    squares, means = values[1 : 1 + n_squares] / n, values[1 + n_squares :] / unit / n
    if kernel_kind != "laplacian":  # one variance: of all features together
        size, offset = np.abs(means).sum(), np.square(means).sum()
    else:
        size, offset = np.abs(means), np.square(means)
    variances = squares - offset  # of the polynomial kernel, mean squares themselves
    # The most that rounding may have moved them: of squares and means.
    doubt = error * (1.0 + 2.0 * size / unit) / n + _ROUNDING * squares
    variances = np.where(variances > doubt / _RELATIVE, variances, 0.0)
    if not variances.any():
        if hidden is not None:
            return KernelWidth(hidden)
        raise InvalidInput(
            "the kernel width must come from samples that are not all alike; rounding hides how "
            "far these differ. Give kernel_width, or shift and scale the features to about 1."
        )
    return KernelWidth(width_of_moments(kernel_kind, variances, variances))

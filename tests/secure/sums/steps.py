"""Steps for the tests of sums: importable, because worker processes import them."""

import numpy as np

from daskfc.privacy import Noised
from daskfc.secure.sums import Total
from daskfc.secure.sums.messages import MaskedPart
from tests.federation.steps import Vector


def rows(data):
    return data.rows(0, data.n_samples)


def rows_and_one(data):
    return rows(data) + 1.0


def noised(data):
    return Noised(rows(data), 2.5)


def too_large(data):
    return 1e9 * rows(data)


def values_of(total: Total) -> Vector:
    return Vector(np.append(total.values.ravel(), total.error_bound))


def terms_of(total: Total) -> Vector:
    return Vector(np.array([float(name.split("-")[1]) for name in total.terms]))


def masked_values(part: MaskedPart) -> Vector:
    """The upper bits of a masked array, which a float holds."""
    return Vector((part.values >> np.uint64(11)).astype(np.float64).ravel())


def trace(keys) -> Vector:
    """What tells two sets of keys apart, and not what they are."""
    return Vector(np.array([float(key.fingerprint() % 2**50) for key in keys._keys.values()]))


def own_sum(data):
    return rows(data).sum(axis=0)


def beside(data, point: Vector):
    """A part that depends on what the server told."""
    return rows(data).sum(axis=0) - point.values


def told_point(x) -> Vector:
    return Vector(np.asarray(x, dtype=np.float64))


def bare_total(parts, ring) -> Vector:
    """What a server that checks nothing makes of masked parts."""
    return Vector(ring.decode(sum(part.values for part in parts.values())).ravel())

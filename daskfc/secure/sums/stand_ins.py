"""Stubs for the steps of secure sums in a rehearsal: arrays of their shapes, no keys."""

from collections.abc import Mapping

import numpy as np

from daskfc.coding import SHARE_BYTES
from daskfc.federation.planning.sizes import Sizes, StandIns, as_they_are, of_shape
from daskfc.privacy import Part, noise_of_part
from daskfc.secure.sums import (
    centre,
    interpoint,
    masked,
    plain,
    recovering,
    shared,
    total,
    vault,
)
from daskfc.secure.sums.interpoint import KernelWidth
from daskfc.secure.sums.messages import Arrivals, MaskedPart, PlainPart, PublicKeys
from daskfc.secure.sums.shared import Gathered
from daskfc.secure.sums.total import Total, as_matrix
from daskfc.stores import ClientStore

_SEAL = 16  # bytes that ChaCha20-Poly1305 adds to a text


def _summed(parts: Mapping[str, MaskedPart | PlainPart]) -> Total:
    shapes = {message.values.shape for message in parts.values()}
    assert len(shapes) == 1, shapes
    return Total(of_shape(*shapes.pop()), 0.0, tuple(parts))


def _gathered(parts: Mapping[str, MaskedPart], tag: str, terms: tuple[str, ...]) -> Gathered:
    shape = next(iter(parts.values())).values.shape
    return Gathered(of_shape(*shape, dtype="uint64"), tag, "0" * 64, 0, terms)


def _opened(told: Arrivals) -> Sizes:
    return Sizes(tag=told.tag, row=told.n_rows, column=told.n_columns)


def _masked(part: Part, tag: str, n_keys: int) -> Sizes:
    rows, columns = as_matrix(part).shape
    return Sizes(
        tag=tag, told="0" * 64, fraction_bits=0, key=n_keys, row=rows, column=columns,
        noise_multiplier=noise_of_part(part),
    )  # fmt: skip


def _seal(public: Mapping[str, PublicKeys], tags: tuple[str, ...], party: str) -> dict[str, Sizes]:
    content = 2 * SHARE_BYTES * len(tags)
    return {member: Sizes(byte=content + (0 if member == party else _SEAL)) for member in public}


def _moments(data: ClientStore, kernel_kind: str, bound: float | None = None) -> np.ndarray:
    d = data.n_features
    squares = d if kernel_kind == "laplacian" else 1
    if bound is None:
        return of_shape(squares)
    return of_shape(1 + squares + (0 if kernel_kind == "polynomial" else d))


STAND_INS: StandIns = {
    **as_they_are(total.itself, plain.plain_part, shared.announced),
    plain.plain_total: _summed,
    masked.public_key: lambda: Sizes(key=1),
    masked.masked_part: lambda part, tag: _masked(part, tag, 0),
    masked.masked_total: _summed,
    vault.advertise: lambda tags: Sizes(key=1 + len(tags)),
    vault.seal: _seal,
    vault.masked_once: lambda part, tag: _masked(part, tag, 1),
    vault.reveal: lambda tag, present: Sizes(tag=tag, present=len(present), dropped=0),
    recovering.receive: lambda message: message,
    recovering.recovered_total: _summed,
    shared.offered: lambda: Sizes(key=1),
    shared.gathered: _gathered,
    shared.opened: _opened,
    shared.shared_total: lambda there: Total(of_shape(*there.values.shape), 0.0, there.terms),
    centre.sum_of_rows: lambda data: of_shape(data.n_features + 1),
    centre.centre_of_total: lambda total: Sizes(feature=total.values.size - 1),
    interpoint.interpoint_moments: _moments,
    interpoint.width_of_total: lambda: KernelWidth(1.0),
}

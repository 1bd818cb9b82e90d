"""Standardisation with differential privacy: declared ranges of columns, and noise on moments.

With v = (x - low) / (high - low) - 1/2 in [-1/2, 1/2] a client's sums hold v and 3 v² of every
column. To replace one sample moves those of one column by at most 1 in Euclidean norm: with
t = |v - v'| and |v + v'| <= 1 - t, t² + 9 t² (1 - t)² <= 1 for t in [0, 1], as
9 t² (1 - t) <= 4/3 <= 1 + t from t = 1/3 on, and 9 t² <= 1 below. All d columns: √d.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import NARROWEST, Rule, at_most_honest, takes
from daskfc.privacy import (
    REACH_OF_NOISE,
    Noised,
    input_digest,
    noise_label,
    noise_multiplier,
    with_noise_share,
)
from daskfc.privacy.mechanism import MOST_BESIDE_NOISE
from daskfc.secure.prepare.before import of_no_sample
from daskfc.secure.prepare.messages import NoisyScales
from daskfc.secure.prepare.steps import check_shape
from daskfc.secure.sums import Total
from daskfc.stores.store.client import ClientStore
from daskfc.stores.store.fitted_steps import FittedStep
from daskfc.stores.store.prepared import PreparedStore, numbers_of

_SQUARES = 3.0  # reduces the noise on squares to a third, at no cost


@dataclass(frozen=True)
class Declared:
    """Public ranges, to which values are clipped, and the noise multiplier: deviation over √d."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    multiplier: float

    @classmethod
    def of(cls, params: Mapping[str, Any], columns: Sequence[str]) -> "Declared":
        """Return the ranges and noise that a step's parameters declare; refuse bad ranges."""
        low, _ = declared_width(params, columns)
        high = _by_column(params["high"], columns, "high")
        return cls(low, high, noise_multiplier(params["epsilon"], params["delta"]))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on every number of the sum."""
        return self.multiplier * math.sqrt(len(self.low))

    def bound(self, n_samples: int, n_shares: int) -> float:
        """Return a bound on the numbers in a client's noisy sums."""
        return _largest(n_samples) + REACH_OF_NOISE * self.sigma / math.sqrt(n_shares)


def _largest(n_samples: int) -> float:
    """Return a bound on the numbers in a client's sums before noise."""
    return _SQUARES / 4.0 * n_samples


def _is_sound(declared: object, _: object) -> bool:
    if not isinstance(declared, Declared):
        return False
    low, high = declared.low, declared.high
    return (
        all(isinstance(one, float) for one in (*low, *high, declared.multiplier))
        and 0 < declared.multiplier < math.inf
        and 0 < len(low) == len(high)
        and all(NARROWEST <= b - a < math.inf for a, b in zip(low, high, strict=True))
    )


_SOUND = Rule("finite ranges, each with 'low' below 'high', and a multiplier above 0", _is_sound)
"""By ranges of no width, or no numbers, a refusal would tell of values."""


def declared_width(
    params: Mapping[str, Any], columns: Sequence[str]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return each column's declared low and the width of its range; refuse bad ranges."""
    low, high = (_by_column(params[key], columns, key) for key in ("low", "high"))
    width = tuple(above - below for below, above in zip(low, high, strict=True))
    pairs = zip(columns, width, strict=True)
    if odd := [name for name, wide in pairs if not NARROWEST <= wide < math.inf]:
        raise InvalidInput(
            f"the declared range of column {odd[0]!r} must have 'low' below 'high', by "
            f"{NARROWEST} at least, and a finite width. Correct it."
        )
    return low, width


def _by_column(given: Any, columns: Sequence[str], key: str) -> tuple[float, ...]:
    if not isinstance(given, Mapping):
        return (float(given),) * len(columns)
    if lacking := [name for name in columns if name not in given]:
        raise InvalidInput(
            f"{key!r} of a declared range must be one number, or one for each column; column "
            f"{lacking[0]!r} has none. Add it."
        )
    return tuple(float(given[name]) for name in columns)


@takes(n_shares=at_most_honest, so_far=of_no_sample, declared=_SOUND)
def noisy_moments(
    data: ClientStore,
    so_far: Sequence[FittedStep],
    declared: Declared,
    n_shares: int,
    durable_secret: SecretKey,
    site: SiteRules = FREE,
) -> Noised:
    """Return sums of v and 3 v², (2, column), with the client's share of the noise."""
    store = PreparedStore.of(data, so_far)
    low, width = np.array(declared.low), np.subtract(declared.high, declared.low)
    sigma, sensitivity = declared.sigma, math.sqrt(store.n_features)
    inputs = input_digest(data.digest, repr(so_far), low, width, n_shares)
    # before any value is read: what fails from here on may tell of values
    label = noise_label("preparation: standardise", sigma=sigma, clip=1.0, inputs=inputs)
    site.release(sigma / sensitivity, " ".join(map(str, label)))
    if _largest(store.n_samples) > MOST_BESIDE_NOISE * sigma / math.sqrt(n_shares):
        raise PrivacyError(
            f"the noise of a preparation must hide the sums of client {data.name!r} whatever its "
            "values are; it has too many samples for so little noise. Nothing was sent; lower "
            "'epsilon'."
        )
    found = np.zeros((2, store.n_features))
    with np.errstate(all="ignore"):  # whatever steps of the caller's own leave is in the range
        for start in range(0, store.n_samples, store.chunk_rows):
            rows = store.rows_of_any_size(start, min(start + store.chunk_rows, store.n_samples))
            v = np.clip((numbers_of(store, rows) - low) / width, 0.0, 1.0) - 0.5
            v = np.nan_to_num(v)
            found += v.sum(axis=0), _SQUARES * np.square(v).sum(axis=0)
    return with_noise_share(
        found,
        sigma=sigma,
        sensitivity=sensitivity,
        n_shares=n_shares,
        stream=durable_secret.derive(*label).stream(),  # a repetition is no second release
    )


def noisy_scales(total: Total, declared: Declared, n_samples: int) -> NoisyScales:
    """Report to the caller noisy means and deviations, none below that of the noise alone."""
    check_shape(total, fits=total.values.shape == (2, len(declared.low)))
    low, width = np.array(declared.low), np.subtract(declared.high, declared.low)
    mean = np.clip(total.values[0] / n_samples, -0.5, 0.5)
    squares = total.values[1] / (_SQUARES * n_samples)
    least = min(declared.sigma / (_SQUARES * n_samples), 0.25)
    variance = np.clip(squares - np.square(mean), least, 0.25)
    return NoisyScales(low + width * (mean + 0.5), width * np.sqrt(variance))

"""The valid ranges of the parameters of mechanisms, bounds and accountants."""

from daskfc.checks import Constraint, between_0_and_1, check_params, integer, real

_POSITIVE = real(above=0)
_NOT_NEGATIVE = real(0)

_RANGES: dict[str, Constraint] = {
    "delta": between_0_and_1(),
    "failure": between_0_and_1(),
    "epsilon": _POSITIVE,
    "sigma": _POSITIVE,
    "sensitivity": _POSITIVE,
    "noise_multiplier": _POSITIVE,
    "bound": _POSITIVE,
    "width": _POSITIVE,
    "ridge": _POSITIVE,
    "step": _POSITIVE,
    "data_norm": _POSITIVE,
    "clip_norm": _POSITIVE,
    "margin": _POSITIVE,
    "tolerance": _NOT_NEGATIVE,
    "dictionary_norm": _NOT_NEGATIVE,
    "coefficient_norm": _NOT_NEGATIVE,
    "reach": _NOT_NEGATIVE,
    "residual": _NOT_NEGATIVE,
    "data_sigma": _NOT_NEGATIVE,
    "dictionary_sigma": _NOT_NEGATIVE,
    "coefficient_sigma": _NOT_NEGATIVE,
    "count": integer(1),
    "n_rounds": integer(1),
    "n_samples": integer(1),
    "n_features": integer(1),
    "n_atoms": integer(1),
    "n_clusters": integer(1),
    "n_neighbors": integer(1),
    "n_init": integer(1),
    "max_iter": integer(0),
    "seed": integer(0, 2**32 - 1),
}


def check(owner: str, **params: object) -> None:
    """Refuse the first parameter outside its range."""
    check_params(owner, params, _RANGES)

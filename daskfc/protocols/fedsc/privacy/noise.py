"""FedSC's two noise variants: the caller's parameters, and the resulting mechanisms.

Paper       Qiao, Ding, Fan, NeurIPS 2023, Section 3: perturbed data, Eq. (22) and Proposition 3.7;
            perturbed factors, Eq. (32) and Theorem 3.9.
Notation    paper        here
            σ            DataNoise.sigma
            σ_Z, σ_C     FactorNoise.sigma_dictionary, sigma_coefficients
            τ_X          clip of data: largest L2 norm of a row
            α_z, α_c     relative_dictionary, relative_coefficients (Table 5)
Departures  (1) Sensitivities are proven ones (see `privacy.noise_scale`): a client's change of Z is
            clipped, that of C is 1 / √(2λ). (2) All releases of a client are composed exactly; with
            ``formula: published`` σ comes from the paper's statements and the exact ε is reported.
            (3) Noise relative to a factor's own spread, as in the paper's experiment, has no
            (ε, δ): the spread itself is private.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from daskfc.arrays import Floats
from daskfc.checks import Constraint, between_0_and_1, check_params, integer, one_of, real
from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation.steps.rules import Announced, Rule
from daskfc.privacy import (
    REACH_OF_NOISE,
    Accountant,
    GaussianEvent,
    Noised,
    add_gaussian_noise,
    classical_sigma,
    clip_matrix,
    clip_rows,
    input_digest,
    noise_label,
    noise_multiplier,
)
from daskfc.protocols.fedsc.privacy.noise_scale import (
    coefficient_sensitivity,
    composed_sigma,
    perturbed_data_sigma,
)

_NOTHING_LEFT = 1e-6  # ours: a smaller remaining share of a budget counts as none
_ROUNDING = 1.0 + 1e-12  # ours: tolerance for the rounding of multipliers

_POSITIVE = real(above=0)
_FORMULA = one_of("exact", "published")
_DATA: dict[str, Constraint] = {
    "kind": one_of("data"),
    "sigma": _POSITIVE,
    "epsilon": _POSITIVE,
    "delta": between_0_and_1(),
    "clip": _POSITIVE,
    "predictions": integer(low=0),
    "formula": _FORMULA,
}
_FACTORS: dict[str, Constraint] = {
    "kind": one_of("factors"),
    "sigma_dictionary": _POSITIVE,
    "sigma_coefficients": _POSITIVE,
    "relative_dictionary": real(low=0),
    "relative_coefficients": real(low=0),
    "epsilon": _POSITIVE,
    "delta": between_0_and_1(),
    "clip": _POSITIVE,
    "predictions": integer(low=0),
    "formula": _FORMULA,
}


@dataclass(frozen=True)
class DataNoise:
    """Rows are clipped and perturbed once, before anything else (Section 3.1).

    σ and the clip τ_X are in units of the data; without a clip there is no (ε, δ). `budget`, if σ
    follows from it, is the ε of the fit and its predictions together.
    """

    sigma: float
    clip: float | None = None
    delta: float | None = None
    budget: float | None = None

    @property
    def claims(self) -> bool:
        """Whether there is an (ε, δ)."""
        return self.clip is not None

    @property
    def multiplier(self) -> float:
        """σ over the sensitivity 2 τ_X; infinite without a claim, for the ledger."""
        return math.inf if self.clip is None else self.sigma / (2 * self.clip)

    def covers(self, least: Any) -> bool:
        """Return whether it hides as much as another."""
        return bool(self.clip == least.clip and self.sigma * _ROUNDING >= least.sigma)

    def events(self, rounds: int) -> tuple[GaussianEvent, ...]:
        """Return a client's releases."""
        return (GaussianEvent(self.multiplier),) if self.claims else ()

    @property
    def prediction_multiplier(self) -> float:
        """Of what `FedSC.predict` releases of a client's new samples."""
        return self.multiplier

    def applied(self, X: Floats, secret: SecretKey, purpose: str) -> Floats:
        """Return perturbed rows, the same if the party repeats the step (Eq. 22)."""
        rows = X if self.clip is None else clip_rows(X, self.clip)[0]
        label = noise_label(
            "FedSC data", sigma=self.sigma, clip=self.clip, inputs=input_digest(X), purpose=purpose
        )
        return add_gaussian_noise(rows, self.sigma, stream=secret.derive(*label).stream())

    def of_each_row(self, X: Floats, ids: Iterable[str], durable_secret: SecretKey) -> Floats:
        """Return perturbed rows, with the same noise whenever a sample is released again.

        This is for noise without a claim: its releases are not counted, and fresh noise would
        average out. Under a claim it would reveal whether a row is unchanged.
        """
        label = noise_label("FedSC rows", sigma=self.sigma, clip=None, inputs="of each row")
        key, noisy = durable_secret.derive(*label), np.empty_like(X)
        for i, name in enumerate(ids):
            # with the id: equal rows of two samples must get different noise
            own = key.derive(str(name), input_digest(X[i]))
            noisy[i] = add_gaussian_noise(X[i], self.sigma, stream=own.stream())
        return noisy

    def described(self) -> dict[str, Any]:
        """Return the numbers for the caller."""
        return {"kind": "data", "sigma": self.sigma, "clip": self.clip}


@dataclass(frozen=True)
class FactorNoise:
    """The change of Z is clipped and perturbed in every round, C once (Section 3.2).

    Z's σ and clip (a Frobenius norm per client and round) are in units of the data; δ is for all
    releases together.
    """

    sigma_dictionary: float
    sigma_coefficients: float
    clip: float
    ridge: float
    delta: float
    budget: float | None = None

    claims = True

    @property
    def dictionary_multiplier(self) -> float:
        """σ_Z over the sensitivity 2 `clip`."""
        return self.sigma_dictionary / (2 * self.clip)

    @property
    def coefficient_multiplier(self) -> float:
        """σ_C over the sensitivity 1 / √(2λ)."""
        return self.sigma_coefficients / coefficient_sensitivity(self.ridge)

    @property
    def prediction_multiplier(self) -> float:
        """Of what `FedSC.predict` releases of a client's new samples."""
        return self.coefficient_multiplier

    @property
    def largest_entry(self) -> float:
        """Bound on the entries of a perturbed change of Z."""
        return self.clip + REACH_OF_NOISE * self.sigma_dictionary

    def covers(self, least: Any) -> bool:
        """Return whether it hides as much as another."""
        return (
            (self.clip, self.ridge) == (least.clip, least.ridge)
            and self.sigma_dictionary * _ROUNDING >= least.sigma_dictionary
            and self.sigma_coefficients * _ROUNDING >= least.sigma_coefficients
        )

    def events(self, rounds: int) -> tuple[GaussianEvent, ...]:
        """Return a client's releases: Z in every round, and C."""
        last = GaussianEvent(self.coefficient_multiplier)
        return (GaussianEvent(self.dictionary_multiplier, rounds), last)

    def on_dictionary(self, change: Floats, secret: SecretKey, inputs: str, number: int) -> Noised:
        """Return a clipped and perturbed change of Z in a round; `inputs` are those of the step."""
        clipped, _ = clip_matrix(change, self.clip)
        sigma = self.sigma_dictionary
        label = noise_label(
            "FedSC dictionary", sigma=sigma, clip=self.clip, inputs=inputs, round=number
        )
        noisy = add_gaussian_noise(clipped, sigma, stream=secret.derive(*label).stream())
        return Noised(noisy, self.dictionary_multiplier)

    def on_coefficients(self, C: Floats, secret: SecretKey, inputs: str) -> Noised:
        """Return perturbed coefficients; `inputs` are those of the step."""
        sigma = self.sigma_coefficients
        label = noise_label("FedSC coefficients", sigma=sigma, clip=None, inputs=inputs)
        noisy = add_gaussian_noise(C, sigma, stream=secret.derive(*label).stream())
        return Noised(noisy, self.coefficient_multiplier)

    def described(self) -> dict[str, Any]:
        """Return the numbers for the caller."""
        return {
            "kind": "factors",
            "sigma_dictionary": self.sigma_dictionary,
            "sigma_coefficients": self.sigma_coefficients,
            "clip": self.clip,
        }


@dataclass(frozen=True)
class RelativeNoise:
    """Z and C are perturbed in proportion to their own spread, as in Table 5; no (ε, δ)."""

    dictionary: float
    coefficients: float

    claims = False
    delta = None

    def covers(self, least: Any) -> bool:
        """Return whether it hides as much as another."""
        return bool(self == least)

    def events(self, rounds: int) -> tuple[GaussianEvent, ...]:
        """Return no release that could be counted."""
        return ()

    def on_dictionary(self, Z: Floats, secret: SecretKey, inputs: str, number: int) -> Floats:
        """Return a perturbed Z; `inputs` are those of the step."""
        return _relative(Z, self.dictionary, secret, "FedSC relative dictionary", inputs, number)

    def on_coefficients(self, C: Floats, secret: SecretKey, inputs: str) -> Floats:
        """Return perturbed coefficients; `inputs` are those of the step."""
        return _relative(C, self.coefficients, secret, "FedSC relative coefficients", inputs)

    def described(self) -> dict[str, Any]:
        """Return the numbers for the caller."""
        return {
            "kind": "factors",
            "relative_dictionary": self.dictionary,
            "relative_coefficients": self.coefficients,
        }


def _relative(
    values: Floats, share: float, secret: SecretKey, mechanism: str, inputs: str, number: int = 0
) -> Floats:
    sigma = share * float(values.std())
    if sigma == 0:
        return values
    label = noise_label(mechanism, sigma=share, clip=None, inputs=inputs, round=number)
    return add_gaussian_noise(values, sigma, stream=secret.derive(*label).stream())


Noise: TypeAlias = DataNoise | FactorNoise | RelativeNoise


def _refuse(rule: str, got: object) -> InvalidInput:
    return InvalidInput(f"the 'noise' parameter of FedSC must {rule}; got {got!r}.")


def noise_of(
    asked: Mapping[str, Any] | None, *, rounds: int, ridge: float, spent: Accountant | None = None
) -> Noise | None:
    """Return the mechanism for the `noise` of `FedSC`, with `rounds` releases of Z to come.

    Raise PrivacyError if earlier starts `spent` the budget; refuse a formula where it is invalid.
    """
    if asked is None:
        return None
    if not isinstance(asked, Mapping) or asked.get("kind") not in ("data", "factors"):
        raise _refuse("be a mapping with 'kind' of 'data' or 'factors', or None", asked)
    given = {key: value for key, value in asked.items() if value is not None}
    table = _DATA if given["kind"] == "data" else _FACTORS
    check_params("the noise of FedSC", given, table)
    published = given.pop("formula", "exact") == "published"
    if "epsilon" in given and not {"delta", "clip"} <= set(given):
        raise _refuse("have 'delta' and 'clip' beside 'epsilon'", sorted(given))
    if "predictions" in given and ("epsilon" not in given or published):
        raise _refuse("have 'predictions' beside 'epsilon' and by the exact formula", sorted(given))
    left = _Budget(given, spent)
    return _data(given, published, left) if given["kind"] == "data" else _factors(
        given, published, left, rounds, ridge
    )  # fmt: skip


def _is_enough(noise: Any, asked: Announced) -> bool:
    params = asked.parameters
    least = noise_of(params.get("noise"), rounds=params["rounds"], ridge=params["ridge"])
    return type(noise) is type(least) and (noise is None or noise.covers(least))


ANNOUNCED = Rule("the noise that was announced, or stronger", _is_enough)
"""Of what a client is asked to add: less would be less than its site agreed to."""


@dataclass(frozen=True)
class _Budget:
    """(ε, δ) of a fit, and the releases of its earlier starts."""

    given: Mapping[str, Any]
    spent: Accountant | None

    def multiplier(self, releases: int) -> float:
        """Return the noise multiplier of each remaining release."""
        releases += self.given.get("predictions", 0)
        epsilon, delta = self.given["epsilon"], self.given["delta"]
        whole = noise_multiplier(epsilon, delta)  # of one release alone
        before = 0.0 if self.spent is None else self.spent.mu
        if before >= (1.0 - _NOTHING_LEFT) / whole:
            assert self.spent is not None
            raise PrivacyError(
                f"earlier starts of this fit released data for epsilon "
                f"{self.spent.epsilon(delta):.4g} at delta {delta:g}, the whole of its budget of "
                f"{epsilon:g}; noise is never used twice. Start a new run with a budget for both."
            )
        if before == 0.0:
            least = noise_multiplier(epsilon, delta, releases)
        else:
            least = math.sqrt(releases / ((1.0 / whole) ** 2 - before**2))
        return least * _ROUNDING


def _data(given: Mapping[str, Any], published: bool, budget: _Budget) -> DataNoise:
    clip, delta = given.get("clip"), given.get("delta")
    if ("sigma" in given) == ("epsilon" in given):
        raise _refuse("have one of 'sigma' and 'epsilon'", sorted(given))
    if (clip is None) != (delta is None):
        raise _refuse("have both or none of 'clip' and 'delta'", sorted(given))
    if "sigma" in given:
        return DataNoise(given["sigma"], clip, delta)
    assert clip is not None
    assert delta is not None
    epsilon = given["epsilon"]
    least = budget.multiplier(1)  # raises if the budget is spent, for both formulas
    sigma = 2 * clip * least
    if published:
        stated = perturbed_data_sigma(epsilon, delta, clip)
        sigma = stated if budget.spent is None else max(stated, sigma)
    return DataNoise(sigma, clip, delta, epsilon)


def _factors(
    given: Mapping[str, Any], published: bool, budget: _Budget, rounds: int, ridge: float
) -> FactorNoise | RelativeNoise:
    relative = {key for key in given if key.startswith("relative_")}
    if relative:
        if set(given) - relative - {"kind"}:
            raise _refuse("have nothing beside shares of the factors' own spread", sorted(given))
        return RelativeNoise(
            given.get("relative_dictionary", 0.0), given.get("relative_coefficients", 0.0)
        )
    sigmas = {"sigma_dictionary", "sigma_coefficients"} & set(given)
    if not {"clip", "delta"} <= set(given) or (len(sigmas), "epsilon" in given) not in (
        (2, False),
        (0, True),
    ):
        raise _refuse(
            "have 'clip', 'delta' and either 'epsilon' or both of 'sigma_dictionary' and "
            "'sigma_coefficients'",
            sorted(given),
        )
    clip, delta = given["clip"], given["delta"]
    if sigmas:
        return FactorNoise(
            given["sigma_dictionary"], given["sigma_coefficients"], clip, ridge, delta
        )
    of_C = coefficient_sensitivity(ridge)
    z = budget.multiplier(rounds + 1)
    of_both = (2 * clip * z, of_C * z)
    if published:  # Theorem 3.9, half of the budget for each factor
        half = (given["epsilon"] / 2, delta / 2)
        stated = (composed_sigma(*half, 2 * clip, max(rounds, 1)), classical_sigma(*half, of_C))
        # the theorem does not include releases of earlier starts
        of_both = stated if budget.spent is None else (
            max(stated[0], of_both[0]), max(stated[1], of_both[1])
        )  # fmt: skip
    return FactorNoise(*of_both, clip, ridge, delta, given["epsilon"])

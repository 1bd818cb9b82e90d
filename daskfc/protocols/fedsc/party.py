"""A client's steps of FedSC: local steps on the dictionary, and rows of the similarity."""

import math
from dataclasses import replace

import numpy as np

from daskfc.arrays import Floats
from daskfc.clustering.kernels.low_rank_similarity import similarity_rows
from daskfc.clustering.views.order import order_of_rows
from daskfc.coding import SecretKey
from daskfc.errors import PrivacyError
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_announced, takes
from daskfc.privacy import REACH_OF_NOISE, Noised, Part, input_digest
from daskfc.protocols.fedsc.maths.dictionary_start import (
    default_atoms,
    mean_distance,
    parts_of_moments,
    width_and_atoms,
)
from daskfc.protocols.fedsc.maths.kernel_dictionary import coefficients, local_update
from daskfc.protocols.fedsc.messages import (
    Dictionary,
    FinalDictionary,
    KernelPlan,
    KernelSummary,
    SimilarityRows,
)
from daskfc.protocols.fedsc.privacy.noise import ANNOUNCED, DataNoise, FactorNoise, Noise
from daskfc.stores import ClientStore

REACH = 16.0  # ours: bound on atoms, relative to the largest magnitude


def weight_of(n_samples: int, plan: KernelPlan, uniform: bool) -> float:
    """Return the weight of a client's dictionary: N_p over the largest client's, or 1."""
    return 1.0 if uniform else n_samples / plan.largest_client


def largest_entry(plan: KernelPlan, noise: Noise | None) -> float:
    """Return the public bound on the entries of a `weighted_update`."""
    if isinstance(noise, FactorNoise):
        return noise.largest_entry
    relative = 0.0 if noise is None or isinstance(noise, DataNoise) else noise.dictionary
    return REACH * plan.magnitude * (1.0 + REACH_OF_NOISE * relative)


@takes(noise=ANNOUNCED)
def samples_of(
    data: ClientStore,
    noise: Noise | None,
    secret: SecretKey,
    durable_secret: SecretKey,
    site: SiteRules = FREE,
) -> Floats:
    """Return the client's samples, with noise if announced; they stay at the client."""
    return _perturbed(data, noise, secret, durable_secret, "clustered", site)


def _perturbed(
    store: ClientStore,
    noise: Noise | None,
    secret: SecretKey,
    durable_secret: SecretKey,
    purpose: str,
    site: SiteRules,
) -> Floats:
    X = store.rows(0, store.n_samples)
    if not isinstance(noise, DataNoise):
        return X
    if noise.claims:  # counted here, whatever is told of these rows
        site.release(noise.multiplier, f"FedSC {purpose} {noise.sigma!r} {input_digest(X)}")
        return noise.applied(X, secret, purpose)
    return noise.of_each_row(X, store.sample_ids(), durable_secret)


@takes(noise=ANNOUNCED)
def summarise(
    samples: Floats, kernel_width: float | None, n_atoms: int | None, noise: Noise | None
) -> KernelSummary:
    """Return size, mean distance (Eq. 42) and rank; with noise on factors only the size."""
    n, m = samples.shape
    if isinstance(noise, FactorNoise):
        assert kernel_width is not None
        assert n_atoms is not None
        return KernelSummary(n, m, kernel_width, n_atoms, 1.0)
    samples = samples[order_of_rows(samples)]  # a random subset must not depend on their order
    if kernel_width is None and n_atoms is None:
        distance, atoms = width_and_atoms(samples)
    else:
        distance = kernel_width or mean_distance(samples)
        atoms = n_atoms or (default_atoms(samples, distance) if distance > 0 else 1)
    largest = float(np.abs(samples).max(initial=0.0))
    magnitude = 2.0 ** math.ceil(math.log2(largest)) if largest > 0 else 0.0
    multiplier = noise.multiplier if isinstance(noise, DataNoise) else math.inf
    return KernelSummary(n, m, distance, atoms, magnitude, multiplier)


@takes(noise=ANNOUNCED)
def moments(samples: Floats, plan: KernelPlan, noise: Noise | None) -> Floats:
    """Return sums of the features and of their squares, (10, m), for a secure sum."""
    if isinstance(noise, FactorNoise):
        raise PrivacyError(
            "noise on the factors does not protect moments of the samples. Nothing was sent; fit "
            "with start='normal'."
        )
    return parts_of_moments(samples, plan.magnitude)


@takes(noise=ANNOUNCED, ridge=as_announced("ridge"))
def weighted_update(
    samples: Floats,
    dictionary: Dictionary,
    plan: KernelPlan,
    secret: SecretKey,
    *,
    ridge: float,
    steps: int,
    uniform: bool,
    noise: Noise | None,
    number: int,
    site: SiteRules = FREE,
) -> Part:
    """Return the own dictionary (d, m) or its noisy change, times the weight of Eq. (11)."""
    weight = weight_of(len(samples), plan, uniform)
    Z = local_update(samples, dictionary.atoms, plan.width, ridge, steps=steps)
    inputs = "" if noise is None else input_digest(samples, dictionary.atoms, plan, ridge, steps)
    if isinstance(noise, FactorNoise):
        label = f"FedSC dictionary {number} {noise.sigma_dictionary!r} {inputs}"
        site.release(noise.dictionary_multiplier, label)
        part = noise.on_dictionary(Z - dictionary.atoms, secret, inputs, number)
        return Noised(weight * part.values, part.noise_multiplier)
    limit = REACH * plan.magnitude
    Z = np.clip(Z, -limit, limit)
    if noise is not None and not isinstance(noise, DataNoise):
        Z = noise.on_dictionary(Z, secret, inputs, number)
    return weight * Z


@takes(noise=ANNOUNCED, ridge=as_announced("ridge"))
def rows_of(
    samples: Part,
    final: FinalDictionary,
    before: Dictionary | None,
    plan: KernelPlan,
    secret: SecretKey,
    *,
    ridge: float,
    noise: Noise | None,
    site: SiteRules = FREE,
) -> Part:
    """Return the rows (n, d) whose inner products are similarities; they stay at the client.

    Coefficients are for the last dictionary, or for `before`.
    """
    atoms = final.atoms if before is None else before.atoms
    X = samples.values if isinstance(samples, Noised) else samples
    C = coefficients(X, atoms, plan.width, ridge)
    if noise is None or isinstance(noise, DataNoise):
        rows = similarity_rows(C, final.root)
        return replace(samples, values=rows) if isinstance(samples, Noised) else rows
    inputs = input_digest(X, atoms, plan, ridge)
    if isinstance(noise, FactorNoise):
        label = f"FedSC coefficients {noise.sigma_coefficients!r} {inputs}"
        site.release(noise.coefficient_multiplier, label)
    noisy = noise.on_coefficients(C, secret, inputs)
    if isinstance(noisy, Noised):
        return Noised(similarity_rows(noisy.values, final.root), noisy.noise_multiplier)
    return similarity_rows(noisy, final.root)


def tell_rows(rows: Part) -> SimilarityRows:
    """Return the rows, for the server."""
    if isinstance(rows, Noised):
        return SimilarityRows(rows.values, rows.noise_multiplier)
    return SimilarityRows(rows)


@takes(noise=ANNOUNCED)
def new_samples(
    new: ClientStore,
    noise: Noise | None,
    secret: SecretKey,
    durable_secret: SecretKey,
    site: SiteRules = FREE,
) -> Part:
    """Return new samples of the client, perturbed like the clustered ones; a separate release."""
    X = _perturbed(new, noise, secret, durable_secret, "new", site)
    return Noised(X, noise.multiplier) if isinstance(noise, DataNoise) else X

"""A client's steps of FedSC: local steps on the dictionary, and rows of the similarity."""

import math

import numpy as np

from daskfc.arrays import Floats
from daskfc.clustering.kernels.low_rank_similarity import similarity_rows
from daskfc.clustering.views.order import order_of_rows
from daskfc.coding import SecretKey
from daskfc.federation.steps.rules import as_announced, takes
from daskfc.privacy import REACH_OF_NOISE, Noised, Part, input_digest
from daskfc.protocols.fedsc.maths.dictionary_start import (
    default_atoms,
    mean_distance,
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
    data: ClientStore, noise: Noise | None, secret: SecretKey, durable_secret: SecretKey
) -> Floats:
    """Return the client's samples, with noise if announced; they stay at the client."""
    return _perturbed(data, noise, secret, durable_secret, "clustered")


def _perturbed(
    store: ClientStore,
    noise: Noise | None,
    secret: SecretKey,
    durable_secret: SecretKey,
    purpose: str,
) -> Floats:
    X = store.rows(0, store.n_samples)
    if not isinstance(noise, DataNoise):
        return X
    if noise.claims:  # every release counts against the budget
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


def moments(samples: Floats) -> Floats:
    """Return sums of the features and of their squares, (2, m), for a secure sum."""
    return np.stack([samples.sum(axis=0), np.einsum("ij,ij->j", samples, samples)])


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
) -> Part:
    """Return the own dictionary (d, m) or its noisy change, times the weight of Eq. (11)."""
    weight = weight_of(len(samples), plan, uniform)
    Z = local_update(samples, dictionary.atoms, plan.width, ridge, steps=steps)
    inputs = "" if noise is None else input_digest(samples, dictionary.atoms, plan, ridge, steps)
    if isinstance(noise, FactorNoise):
        part = noise.on_dictionary(Z - dictionary.atoms, secret, inputs, number)
        return Noised(weight * part.values, part.noise_multiplier)
    limit = REACH * plan.magnitude
    Z = np.clip(Z, -limit, limit)
    if noise is not None and not isinstance(noise, DataNoise):
        Z = noise.on_dictionary(Z, secret, inputs, number)
    return weight * Z


@takes(noise=ANNOUNCED, ridge=as_announced("ridge"))
def rows_of(
    samples: Floats,
    final: FinalDictionary,
    before: Dictionary | None,
    plan: KernelPlan,
    secret: SecretKey,
    *,
    ridge: float,
    noise: Noise | None,
    new: bool = False,
) -> Part:
    """Return the rows (n, d) whose inner products are similarities; they stay at the client.

    Coefficients are for the last dictionary, or for `before`. Perturbed rows of clustered samples
    count with the first message that reveals them; those of new samples are a separate release.
    """
    atoms = final.atoms if before is None else before.atoms
    C = coefficients(samples, atoms, plan.width, ridge)
    if noise is None or isinstance(noise, DataNoise):
        rows = similarity_rows(C, final.root)
        return Noised(rows, noise.multiplier) if new and noise is not None else rows
    noisy = noise.on_coefficients(C, secret, input_digest(samples, atoms, plan, ridge))
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
    new: ClientStore, noise: Noise | None, secret: SecretKey, durable_secret: SecretKey
) -> Floats:
    """Return new samples of the client, perturbed like the clustered ones."""
    return _perturbed(new, noise, secret, durable_secret, "new")

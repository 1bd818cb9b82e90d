"""ESFMC, Theorem 4.1: how much larger the loss of new samples is, and what bounds it.

Notation    paper              here
            ℓ_m                `losses_of`: reconstruction and cross-entropy of each row
            I(w^m; X^m)        unknown; in nats at most `entropy`, 32 ln 2 for each weight, and at
                               most `Trained.noise_bound`
            C                  the largest loss of a row that was seen

A step w' = w - u + σ ζ, of which u depends on the data, tells at most h(w' | w) - h(σ ζ) ≤ (p / 2)
ln(E|w' - w|² / (p σ²)) of it, a Gaussian having the largest entropy for its variance (Pensia, Jog,
Loh, "Generalization error bounds for noisy, iterative algorithms", 2018); these add up over steps.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.federation import Federation
from daskfc.protocols import ESFMC
from daskfc.protocols.esfmc.networks.batches import batches, checked
from daskfc.protocols.esfmc.networks.epochs import plan_of, rates_of, run_epoch
from daskfc.protocols.esfmc.networks.framework import jax, jnp
from daskfc.protocols.esfmc.networks.layers import apply, initial, shapes, unflatten
from daskfc.protocols.esfmc.networks.optimisers import Moments
from daskfc.protocols.esfmc.networks.units import Units
from daskfc.protocols.esfmc.settings import Recipe, TrainingSettings, recipe
from daskfc.seeds import generator
from daskfc.stores import ClientStore
from pipelines.papers.journal import Record

__all__ = ["DATASETS", "Trained", "entropy", "losses_of", "measured", "theorem", "trained"]

DATASETS = {"Synthetic3d": ("synthetic3d.npz", 3), "HW": ("hw_mfeat.npz", 10)}  # file and K


@dataclass(frozen=True)
class Trained:
    """A client's networks after training: weights, and what the noise of Eq. (7) leaves of I."""

    weights: NDArray[np.float32]
    units: Units
    noise_bound: float


def entropy(n_weights: int) -> float:
    """Return a bound on I(w; X) in nats: a float32 has 32 bits.

    Examples
    --------
    >>> round(entropy(10))
    222
    """
    return 32.0 * math.log(2.0) * n_weights


def theorem(largest: float, limits: list[float], sizes: list[int]) -> float:
    """Return C / M Σ √(I / 2 N_m), the right side of Eq. (15)."""
    pairs = zip(limits, sizes, strict=True)
    return largest * float(np.mean([math.sqrt(one / (2.0 * n)) for one, n in pairs]))


def trained(
    rows: NDArray[Any], labels: NDArray[np.int64], k: int, chosen: Recipe, rounds: int, seed: int
) -> Trained:
    """Train as `ViewModel` does, with the same labels in every round, one step at a time."""
    units = Units.of(rows) if chosen.own_units else Units(np.zeros(rows.shape[1]), 1.0)
    client = jax.device_put(checked(rows, labels, None, None, units, k))
    w = jnp.asarray(initial(shapes(rows.shape[1], k, chosen.network), seed))
    moments = Moments(jnp.zeros_like(w), jnp.zeros_like(w), jnp.asarray(0, jnp.int32))
    alone = replace(chosen.training, label_weight=0.0, dependence_weight=0.0)
    alone = replace(alone, alignment_weight=0.0, reconstruction_weight=1.0)
    phases = [(alone, alone.pretraining_epochs)]
    phases += [(chosen.training, chosen.training.epochs)] * rounds
    told = 0.0
    for number, (settings, epochs) in enumerate(phases):
        plan = plan_of(rows.shape[1], k, chosen.network, settings)
        rates = rates_of(settings, rows.shape[1])
        moves = []
        for epoch in range(epochs):
            chance = generator(seed, "epoch", number, epoch)
            order = batches(chance, len(rows), settings.batch_size)
            words = chance.integers(0, 2**32, 2, dtype=np.uint32)
            key = jax.random.wrap_key_data(words, impl="threefry2x32")
            for batch in order:
                before = w
                w, moments, _, _ = run_epoch(w, moments, client, batch[None], rates, key, plan=plan)
                moves.append(jnp.sum((w - before) ** 2))
        told += _told(np.asarray(jnp.stack(moves)), w.size, settings) if moves else 0.0
    return Trained(np.asarray(w), units, told)


def _told(squares: NDArray[np.float32], p: int, settings: TrainingSettings) -> float:
    """Return the most that steps of these squared lengths tell, in nats."""
    variance = 2.0 * settings.learning_rate * settings.temperature
    return float(p / 2.0 * np.sum(np.log(np.maximum(squares / (p * variance), 1.0))))


def losses_of(
    model: Trained, rows: NDArray[Any], labels: NDArray[np.int64], k: int, chosen: Recipe
) -> NDArray[np.float64]:
    """Return the loss of each row: the terms of Eq. (4) that are means over rows."""
    params = unflatten(model.weights, shapes(rows.shape[1], k, chosen.network))
    X = model.units.applied(rows)
    out = apply(params, X, chosen.network)
    weights = rates_of(chosen.training, rows.shape[1]).weights
    logged = np.asarray(jax.nn.log_softmax(out.logits), dtype=np.float64)
    rebuilt = np.sum((X - np.asarray(out.decoded, dtype=np.float64)) ** 2, axis=1)
    missed = -logged[np.arange(len(rows)), labels]
    return np.asarray(weights.reconstruction * rebuilt + weights.cross_entropy * missed)


def measured(
    federation: Federation,
    stores: Mapping[str, ClientStore],
    k: int,
    recipes: tuple[str, ...],
    rounds: int | None = None,
    **about: Any,
) -> list[Record]:
    """Train on half of the samples and compare with the others; labels are a federation's.

    `rounds` replaces those of the recipe, for a first look.
    """
    model = ESFMC(k, random_state=0).fit(federation)
    label_of = dict(
        zip(model.labels_["sample_id"].to_numpy(), model.labels_.to_numpy(), strict=True)
    )
    found = []
    for name in recipes:
        gaps, largest, entropies, noises, sizes, counts = [], 0.0, [], [], [], []
        for number, store in enumerate(stores.values()):
            ids = store.sample_ids().tolist()
            rows, labels = store.rows(0, len(ids)), np.array([label_of[one] for one in ids])
            places = dict(zip(sorted(ids), range(len(ids)), strict=True))
            ranks = np.array([places[one] for one in ids])  # the same half in every view
            seen = generator(0, "bounds", "half").permutation(len(ids))[ranks] < len(ids) // 2
            chosen = recipe(name, int(seen.sum()), n_columns=rows.shape[1])
            n_rounds = chosen.rounds if rounds is None else rounds
            fit = trained(rows[seen], labels[seen], k, chosen, n_rounds, number)
            old, new = (losses_of(fit, rows[at], labels[at], k, chosen) for at in (seen, ~seen))
            gaps.append(float(new.mean() - old.mean()))
            largest = max(largest, float(old.max()), float(new.max()))
            entropies.append(entropy(fit.weights.size))
            noises.append(fit.noise_bound)
            sizes.append(int(seen.sum()))
            counts.append(int(fit.weights.size))
        record = {"kind": "esfmc", **about, "recipe": name, "M": len(sizes), "N": sizes[0]}
        record |= {"weights": counts, "value": float(np.mean(gaps)), "C": largest}
        record |= {"by bits": theorem(largest, entropies, sizes)}
        best = [min(pair) for pair in zip(entropies, noises, strict=True)]
        record |= {"by noise": theorem(largest, noises, sizes)}
        found.append({**record, "bound": theorem(largest, best, sizes)})
    return found

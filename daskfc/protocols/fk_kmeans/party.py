"""Federated kernel k-means: the steps of clients."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from daskfc.arrays import Floats
from daskfc.coding import SecretKey
from daskfc.federation import LabelledSamples, own_labels
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import (
    as_many_as_announced,
    at_most_honest,
    made_of,
    takes,
)
from daskfc.folders import check_folder_name
from daskfc.linalg.symmetric import packed
from daskfc.privacy import Noised, input_digest
from daskfc.protocols.fk_kmeans.features import (
    FeatureSettings,
    WeightedRows,
    block_rows,
    write_weighted,
)
from daskfc.protocols.fk_kmeans.messages import Eigenpairs, FeaturePlan, LanczosVectors
from daskfc.protocols.fk_kmeans.noise import ANNOUNCED, GramNoise
from daskfc.secure.kmeans import nearest_labels
from daskfc.stores import ClientStore


@dataclass(frozen=True)
class Iterate:
    """An iteration's result at a client: W_t[m]ᵀ W_t[m], (D + r, D + r), and W_t[m].

    `made_of` is the digest of what they were made of, besides the samples.
    """

    gram: Floats
    rows: WeightedRows
    made_of: str


def count_samples(data: ClientStore) -> Floats:
    """Return the client's number of samples, for the sum."""
    return np.array([float(data.n_samples)])


@takes(settings=made_of())
def iterate(
    data: ClientStore,
    before: Iterate | None,
    past: Sequence[Eigenpairs],
    plan: FeaturePlan,
    settings: FeatureSettings,
    run: str,
    workspace: str,
) -> Iterate:
    """Build W_t[m] in one pass, anew if `before` is None (Algorithm 1, lines 7, 8, 12, 13)."""
    check_folder_name("run", run)
    folder = Path(workspace) / f"fk-k-means-rows-{run}"
    if before is None:  # remove files of processes that were killed in earlier fits
        for other in folder.parent.glob("fk-k-means-rows-*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    found = [one.iteration for one in past]
    rows = WeightedRows.new_in(folder, found[-1].number + 1 if found else 1)
    kept = None if before is None else before.rows
    gram: Floats | float = 0.0
    for W in write_weighted(data, settings, plan, found, kept, rows):
        gram = gram + W.T @ W
    earlier = "" if before is None else before.made_of
    told = [part for one in (plan, *past) for part in vars(one).values()]
    return Iterate(np.asarray(gram), rows, input_digest(settings, earlier, *told))


def packed_gram(iterate: Iterate) -> Floats:
    """Return the triangle of W_t[m]ᵀW_t[m], for the sum."""
    return packed(iterate.gram)


@takes(noise=ANNOUNCED, n_shares=at_most_honest)
def noisy_gram(
    data: ClientStore,
    iterate: Iterate,
    past: Sequence[Eigenpairs],
    noise: GramNoise,
    n_shares: int,
    secret: SecretKey,
) -> Noised:
    """Return the triangle with the client's share of the noise, the same if repeated."""
    inputs = input_digest(data.digest, iterate.made_of, n_shares)
    return noise.on_gram(packed(iterate.gram), secret, inputs, len(past) + 1, n_shares)


def product(iterate: Iterate, asked: LanczosVectors) -> Floats:
    """Return W_t[m]ᵀ(W_t[m] c_q) (Section 4.2, step 2)."""
    return np.asarray(iterate.gram @ asked.vectors)


def embedding(last: Iterate, found: Eigenpairs, n_eigenvectors: int) -> Floats:
    """Return H[m] = W_T[m] E, which stays at the client (Algorithm 1, line 17)."""
    E = found.iteration.to_embedding(n_eigenvectors)
    return np.concatenate([W @ E for _, W in last.rows.blocks()])


@takes(centers=as_many_as_announced)
def labelled_new(
    new: ClientStore,
    weights: Floats,
    centers: Floats,
    plan: FeaturePlan,
    settings: FeatureSettings,
    site: SiteRules = FREE,
) -> LabelledSamples:
    """Label new samples by the nearest of centres (k, s), with `feature_weights` (T, D, s)."""
    site.check_model(weights, centers)
    draws = [
        settings.drawn(plan.width, number + 1, new.n_features) for number in range(len(weights))
    ]
    labels = np.empty(new.n_samples, dtype=np.int64)
    for start, rows in new.blocks(block_rows(new.n_features, settings.n_features)):
        seen = settings.seen(rows, plan, new.name, are_new=True)
        H: Floats | float = 0.0
        for draw, weight in zip(draws, weights, strict=True):
            H = H + draw.of(seen) @ weight
        labels[start : start + len(rows)] = nearest_labels(np.asarray(H), centers)
    return own_labels(new, labels)

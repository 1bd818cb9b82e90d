"""ESFMC: the steps of clients. Only steps that use the networks import JAX."""

import hashlib
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.clustering.clusterers.local_labels import LocalLabels, k_means_labels, spectral_labels
from daskfc.clustering.views.order import order_of_rows
from daskfc.coding import SecretKey
from daskfc.errors import StoreError
from daskfc.federation import Checkpoints, ClientLabels, LabelledSamples, own_labels
from daskfc.federation.steps.rules import made_of, takes
from daskfc.protocols.esfmc.maths.grouping import numbering, scaled
from daskfc.protocols.esfmc.messages import (
    Assignments,
    LinkedSamples,
    SharedAssignments,
    SharedFeatures,
    TrainingLosses,
    Votes,
)
from daskfc.protocols.esfmc.networks.units import Units
from daskfc.protocols.esfmc.noise import ANNOUNCED, FeatureNoise
from daskfc.protocols.esfmc.server import TO_VOTE
from daskfc.protocols.esfmc.settings import Recipe, recipe
from daskfc.seeds import integer_seed
from daskfc.stores import ClientStore

SHARED = {"clustering": "z_c", "sample": "z_x", "complete": "z", "assignments": "assignments"}
"""What leaves a client, by the `share` of `ESFMC`: fields of `training.Features`."""

LOSSES = ("reconstruction", "cross_entropy", "dependence", "alignment", "total")

_LEAST_SCORE = 1e-3  # ours: a view without any structure still has some weight
_ALIGNMENT = 0.1  # ours: at 1, as in Eq. (12), rows move towards means of clusters

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ClientSettings:
    """How a client trains, mostly by parameters of `ESFMC`; None takes the value of the recipe."""

    n_clusters: int
    recipe: str
    latent_dim: int | None
    shared_dim: int | None
    separate_encoders: bool
    local_epochs: int | None
    pretraining_epochs: int | None
    alpha: float | None
    dropout: float | None
    loss_weights: Mapping[str, float] | None
    share: str
    device: str
    random_state: int
    aligned: bool
    complete: bool

    def of(self, n_samples: int, n_columns: int) -> Recipe:
        """Return the recipe for a client with so many samples and columns."""
        chosen = recipe(self.recipe, n_samples, n_columns=n_columns, complete=self.complete)
        training = replace(
            chosen.training,
            **_given(
                epochs=self.local_epochs,
                pretraining_epochs=self.pretraining_epochs,
                temperature=self.alpha,
                dropout=self.dropout,
                alignment_weight=_ALIGNMENT if self.aligned and self.recipe == "robust" else None,
            ),
        )
        weights = {f"{term}_weight": one for term, one in (self.loss_weights or {}).items()}
        training = replace(training, **_given(**weights))
        network = replace(
            chosen.network,
            separate_encoders=self.separate_encoders,
            **_given(n_latent=self.latent_dim, n_shared=self.shared_dim),
        )
        return replace(chosen, network=network, training=training)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Trained:
    """A client's model after a round, which stays there; `losses` is (epochs, 5), as `LOSSES`."""

    state: Mapping[str, NDArray[Any]]
    losses: NDArray[np.float64]
    n_samples: int


def _rows(data: ClientStore) -> tuple[NDArray[np.floating], Ints]:
    """Return a client's rows in an order that follows from their values, and this order."""
    rows = data.rows(0, data.n_samples)
    order = order_of_rows(rows)
    return rows[order], order


@takes(settings=made_of())
def first_labels(data: ClientStore, settings: ClientSettings) -> LocalLabels:
    """Cluster a client's own samples, for the labels of the first round."""
    kind = settings.of(data.n_samples, data.n_features).local_labels
    cluster = {"spectral": spectral_labels, "k-means": k_means_labels}[kind]
    seed = integer_seed(settings.random_state, "ESFMC", "local")
    rows, order = _rows(data)
    found = cluster(rows, settings.n_clusters, seed=seed)
    return replace(found, labels=_back(found.labels, order))


def _back(values: NDArray[Any], order: Ints) -> NDArray[Any]:
    """Return values of ordered rows in the order of the store."""
    found = np.empty_like(values)
    found[order] = values
    return found


def confidence(score: float) -> float:
    """Return a view's weight in the first round, from the modularity of its own clusters."""
    return -math.log(1.0 - min(max(score, _LEAST_SCORE), 1.0 - _LEAST_SCORE))


@takes(settings=made_of())
def train(
    data: ClientStore,
    before: Trained | None,
    labels: LocalLabels | ClientLabels,
    shared: SharedAssignments | None,
    links: LinkedSamples,
    settings: ClientSettings,
    number: int,
    workspace: str,
    party: str,
) -> Trained:
    """Train a client's networks for a round, Eqs. (4), (5), (7), (12); keep them for a restart."""
    Q = None if shared is None else shared.probabilities[links.places]
    chosen = settings.of(data.n_samples, data.n_features)
    own = chosen.own_units
    tag = _tag(data.digest, settings, number, party, labels.labels, Q, before, own)
    kept = Checkpoints(Path(workspace) / "esfmc", keep=None)
    with suppress(StoreError):
        state = kept.load(number)
        if str(state.pop("tag", "")) == tag:
            return Trained(state, state.pop("losses"), data.n_samples)
    rows, order = _rows(data)
    if Q is not None:
        Q = Q[order]
    seed = integer_seed(settings.random_state, "ESFMC", "client", party)
    units = Units.of(rows) if own and before is None else None
    model = _model(before, rows.shape[1], len(rows), settings, seed, units)
    if before is None:
        model.pretrain(rows, settings=chosen.training)
    how: dict[str, Any] = {"settings": chosen.training, "round": number}
    losses = model.train(rows, labels.labels[order], assignments=Q, **how)
    table = np.array([astuple(one) for one in losses]).reshape(-1, len(LOSSES))
    kept.save(number, {**model.state(), "losses": table, "tag": np.array(tag)})
    return Trained(model.state(), table, len(rows))


def _tag(*inputs: object) -> str:
    """Return a digest of all inputs of a round's training."""
    digest = hashlib.sha256()
    for one in inputs:
        if isinstance(one, Trained):
            for name, value in sorted(one.state.items()):
                digest.update(name.encode() + value.tobytes())
        else:
            digest.update(one.tobytes() if isinstance(one, np.ndarray) else repr(one).encode())
        digest.update(b";")
    return digest.hexdigest()


def _model(
    trained: Trained | None,
    n_columns: int,
    n_samples: int,
    settings: ClientSettings,
    seed: int = 0,
    units: Units | None = None,
) -> Any:
    from daskfc.protocols.esfmc.networks.training import (
        ViewModel,  # needs an extra: imported only where it is used
    )

    shape = (n_columns, settings.n_clusters, settings.of(n_samples, n_columns).network)
    if trained is None:
        return ViewModel.begin(*shape, seed=seed, device=settings.device, units=units)
    return ViewModel.from_state(trained.state, *shape, seed=seed, device=settings.device)


def _features(data: ClientStore, trained: Trained, settings: ClientSettings) -> Any:
    rows, order = _rows(data)
    found = _model(trained, rows.shape[1], trained.n_samples, settings).features(rows)
    return replace(found, **{name: _back(value, order) for name, value in vars(found).items()})


@takes(noise=ANNOUNCED, settings=made_of())
def tell_features(
    data: ClientStore,
    trained: Trained,
    own: LocalLabels,
    links: LinkedSamples,
    shared: SharedAssignments | None,
    settings: ClientSettings,
    noise: FeatureNoise | None,
    number: int,
    secret: SecretKey,
) -> SharedFeatures:
    """Return the features to share; with Q as `shared`, rows of samples it lacks too (Eq. 13)."""
    found = _features(data, trained, settings)
    rows = getattr(found, SHARED[settings.share]).astype(np.float64)
    if noise is not None:
        noisy = noise.applied(rows, secret, number)
        return SharedFeatures(noisy.values.astype(np.float32), noisy.noise_multiplier)
    if shared is not None:
        model = _model(trained, len(data.feature_names), trained.n_samples, settings)
        every = model.from_assignments(shared.probabilities).astype(np.float64)
        every[links.places] = rows
        rows = every
    if settings.recipe == "robust":
        rows = scaled(rows, confidence(own.score))
    return SharedFeatures(rows.astype(np.float32))


@takes(settings=made_of())
def tell_assignments(data: ClientStore, trained: Trained, settings: ClientSettings) -> Assignments:
    """Return Q^m of the client's samples, for the server."""
    return Assignments(_features(data, trained, settings).assignments)


def tell_losses(trained: Trained) -> TrainingLosses:
    """Return the losses of the training, for the caller."""
    return TrainingLosses(trained.losses)


def _renumbered(
    data: ClientStore, trained: Trained, told: ClientLabels, settings: ClientSettings
) -> tuple[Floats, Ints]:
    """Return the head's assignments of the own samples, and its clusters' numbers at the server."""
    found: Floats = _features(data, trained, settings).assignments
    return found, numbering(found.argmax(axis=1), told.labels, settings.n_clusters)


def _own_labels(
    data: ClientStore, trained: Trained, told: ClientLabels, settings: ClientSettings
) -> Ints:
    found, numbers = _renumbered(data, trained, told, settings)
    return np.asarray(numbers[found.argmax(axis=1)])


@takes(settings=made_of())
def vote(
    data: ClientStore, trained: Trained, told: ClientLabels, settings: ClientSettings
) -> Votes:
    """Return the own labels of samples that the server labels by majority."""
    own = _own_labels(data, trained, told, settings)
    return Votes(own[told.labels == TO_VOTE])


@takes(settings=made_of())
def labelled(
    data: ClientStore, trained: Trained, told: ClientLabels, settings: ClientSettings
) -> LabelledSamples:
    """Publish the server's labels, and the client's own where the server has none."""
    labels = told.labels
    if (labels < 0).any():
        labels = np.where(labels < 0, _own_labels(data, trained, told, settings), labels)
    return own_labels(data, labels)


@takes(settings=made_of())
def new_assignments(
    new: ClientStore,
    data: ClientStore,
    trained: Trained,
    told: ClientLabels,
    settings: ClientSettings,
) -> Assignments:
    """Return the head's assignments of new samples, with clusters numbered as in the fit."""
    _, numbers = _renumbered(data, trained, told, settings)
    found = _features(new, trained, settings).assignments
    renumbered = np.empty_like(found)
    renumbered[:, numbers] = found
    return Assignments(renumbered)


def labelled_new(new: ClientStore, assignments: Assignments) -> LabelledSamples:
    """Publish the labels of new samples that only one client has."""
    return own_labels(new, assignments.probabilities.argmax(axis=1))

"""Stubs for ESFMC's steps in a rehearsal: samples are linked as in a run, no network is trained."""

from collections.abc import Mapping

import numpy as np

from daskfc.federation.methods.linking import Linked
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, as_they_are, of_shape
from daskfc.protocols.esfmc import party as client
from daskfc.protocols.esfmc import server
from daskfc.protocols.esfmc.messages import Assignments, RoundReport, SharedAssignments
from daskfc.protocols.esfmc.noise import FeatureNoise
from daskfc.protocols.esfmc.party import ClientSettings, Trained
from daskfc.protocols.esfmc.server import NONE, Grouping, ServerSettings
from daskfc.stores import ClientStore

_JAX = 340_000_000  # ours: additional bytes of a process once it has trained


def _train(
    data: ClientStore, settings: ClientSettings, party: str, rehearsal: Rehearsal
) -> Trained:
    table = data.n_samples * data.n_features * 4
    needed = rehearsal.process_bytes + _JAX + 2 * table
    rehearsal.foresee({party: needed}, "step 'train', JAX with it")
    epochs = settings.of(data.n_samples, data.n_features).training.epochs
    return Trained({}, of_shape(epochs, len(client.LOSSES)), data.n_samples)


def _tell_features(
    data: ClientStore,
    shared: SharedAssignments | None,
    settings: ClientSettings,
    noise: FeatureNoise | None,
) -> Sizes:
    network = settings.of(data.n_samples, data.n_features).network
    columns = {
        "clustering": network.shared_columns,
        "sample": network.n_latent,
        "complete": network.latent_columns,
        "assignments": settings.n_clusters,
    }[settings.share]
    n = data.n_samples if shared is None else len(shared.probabilities)
    told = Sizes(sample=n, feature=columns)
    return told if noise is None else Sizes(told, noise_multiplier=noise.multiplier)


def _cluster(
    found: Linked,
    assignments: Mapping[str, Assignments] | None,
    previous: Grouping | None,
    settings: ServerSettings,
    filled: bool,
) -> Grouping:
    """Label the samples that the server would label."""
    all_of_them = filled or bool(server.links(found, settings).joins_graphs)
    labels = np.where(found.in_all_views | all_of_them, 0, NONE).astype(np.int64)
    if assignments is not None and settings.recipe == "paper":
        labels[:] = 0
    Q = None if assignments is None else of_shape(found.n_samples, settings.n_clusters)
    return Grouping(1 if previous is None else previous.number + 1, labels, Q, 1.0)


def _report(found: Linked, grouping: Grouping, rehearsal: Rehearsal) -> RoundReport:
    told = server.report(found, grouping)
    last = rehearsal.assume("rounds of training", np.inf, at_most=True)
    change = 0.0 if grouping.number >= last else 1.0
    return RoundReport(told.n_samples, told.n_labelled, told.n_to_vote, change)


STAND_INS: StandIns = {
    **as_they_are(server.link, server.tell_links, server.links),
    **as_they_are(server.labels_after, server.labels_at_last, server.voted),
    client.train: _train,
    client.tell_features: _tell_features,
    client.tell_losses: lambda trained: Sizes(losses=trained.losses),
    client.vote: lambda told: Sizes(sample=int((told.labels == server.TO_VOTE).sum())),
    server.cluster: _cluster,
    server.report: _report,
    server.shared_assignments: lambda grouping: Sizes(
        zip(("sample", "cluster"), grouping.assignments.shape, strict=True)
    ),
}

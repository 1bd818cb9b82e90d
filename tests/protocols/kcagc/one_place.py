"""Weighted k-means on sums in one process: what a federation of participants must equal."""

from daskfc.protocols.kcagc.maths.summed_distances import centres_of, distances_to
from daskfc.protocols.kcagc.maths.weighted_lloyd import advance, begin, begin_from, outcome


def sums_for(state, blocks):
    """Return what the participants, each with a block of columns, sum for the server."""
    k = state.settings.n_clusters
    return sum(distances_to(X, centres_of(state.request, X, state.weights, k)) for X in blocks)


def lloyd_on_sums(blocks, weights, settings, *, labels=None):
    """Return the best restart, from labels (R, n) or from k-means++ seeds."""
    state = begin(settings, weights) if labels is None else begin_from(settings, weights, labels)
    while state.request is not None:
        state = advance(state, sums_for(state, blocks))
    return outcome(state)

"""Graphs of the server's coordinates, with the search for pairs divided among its workers.

Products in float32, n² / 2 of them, show which pairs can matter; every worker computes a share of
the blocks. The server decides these few pairs in float64, so the graph is the same, to the last
bit, whatever the number of workers.
"""

import logging
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from daskfc.clustering import ExactPoints, View
from daskfc.clustering.views.half_distances import HalfDistances
from daskfc.clustering.views.nearest import (
    half_distances,
    nearest_of_points,
    within_radius_of_points,
)
from daskfc.clustering.views.screening import Share, is_worthwhile
from daskfc.federation import SERVER, Local, Message, PerClient, array
from daskfc.federation.party.process_memory import PROCESS_BYTES, fits
from daskfc.secure.distances.secure_distances import SecureDistances
from daskfc.secure.distances.sizing.landmark_memory import view_bytes

Points: TypeAlias = np.ndarray | ExactPoints

log = logging.getLogger("daskfc.secure")

_MOST = 1 << 24  # ours: pairs that one worker lists; with more, the server works alone


class ScoreRows(
    Message,
    route="server → server worker",
    reveals="to the server's own workers what it has: coordinates of all samples, rounded",
):
    """Rows whose products bound the distances, see `HalfDistances.table`; empty if of no use."""

    rows: np.ndarray = array("sample", "column", dtype="float32")
    error: np.ndarray = array("sample", dtype="float32")
    unit: float
    radius2: float  # in squared units of the coordinates; 0 for nearest neighbours


class NearPairs(
    Message,
    route="server worker → server",
    reveals="to the server which samples can be near to one another",
):
    """Pairs of samples that can be neighbours, or within the radius."""

    samples: np.ndarray = array("pair", dtype="int32")
    others: np.ndarray = array("pair", dtype="int32")
    unsure: np.ndarray = array("pair", dtype="bool")
    complete: int  # 0 where float32 is too coarse, or the pairs are too many to list


def graph_of_points(
    distances: SecureDistances,
    points: Local[ExactPoints],
    *,
    n_neighbors: int | None = None,
    radius2: float | None = None,
) -> Local[View]:
    """Make a graph of the server's coordinates, at the server and its workers if it has any.

    Parameters
    ----------
    distances : SecureDistances
        Of the samples.
    points : Local of ExactPoints
        The result of ``distances.all_pairs``, at the server.
    n_neighbors : int, optional
        For a graph of this many nearest neighbours of each sample.
    radius2 : float, optional
        For a graph of the pairs within this squared radius. Exactly one of the two is given.

    Returns
    -------
    Local of NeighbourGraph or RadiusGraph
        At the server; exact.

    Notes
    -----
    Privacy: nothing leaves the server but to its own workers.
    """
    federation = distances.federation
    workers = federation.server_workers
    asked = {"n_neighbors": n_neighbors, "radius2": radius2}
    of = len(workers) + 1
    if not workers or not _helps(distances, n_neighbors):
        return federation.on_server(settled_graph, points, {}, **asked)
    rows = federation.on_server(score_rows, points, radius2=radius2)
    told = federation.hand_out(rows)
    federation.wait(told)  # or the server would do its own share before it sends the rows
    parts = PerClient({worker: number for number, worker in enumerate(workers, start=1)})
    theirs = federation.hand_back(near_pairs, told, n_neighbors=n_neighbors, part=parts, of=of)
    own = federation.on_server(near_pairs, rows, n_neighbors=n_neighbors, part=0, of=of)
    return federation.on_server(settled_graph, points, {SERVER: own, **theirs}, **asked)


def _helps(distances: SecureDistances, n_neighbors: int | None) -> bool:
    """Whether float32 may suffice for the pairs, and every worker has memory for the rows."""
    federation, n, d = distances.federation, distances.n_samples, distances.n_features
    table = n * (d + 2) * 4
    view = view_bytes("radius" if n_neighbors is None else "neighbours", n, n_neighbors) or 0
    limits = federation.limits()
    needs = {name: PROCESS_BYTES + 2 * table + view for name in federation.server_workers}
    needs[SERVER] = PROCESS_BYTES + n * d * 8 + table + view
    for name, needed in needs.items():
        if not fits(needed, limits.get(name)):
            log.info("%s has no room for a share of the graph, which the server makes alone", name)
            return False
    return n_neighbors is None or is_worthwhile(n, n_neighbors)


def score_rows(points: ExactPoints, *, radius2: float | None) -> ScoreRows:
    """Send the server's workers the float32 table of the coordinates."""
    scores, unit = half_distances(points)
    scaled = 0.0 if radius2 is None else radius2 * unit
    if scores is None or (radius2 is not None and not scores.tells(scaled)):
        return ScoreRows(np.empty((0, 0), np.float32), np.empty(0, np.float32), 1.0, 0.0)
    return ScoreRows(scores.table(), scores.error, scores.unit, scaled)


def near_pairs(rows: ScoreRows, *, n_neighbors: int | None, part: int, of: int) -> NearPairs:
    """Return the pairs of one worker's share of the tiles."""
    scores = HalfDistances.of_table(rows.rows, rows.error, rows.unit)
    share = Share(part, of)
    if not scores.n:
        return _none()
    if n_neighbors is not None:
        found = scores.nearest(n_neighbors, share)
        if found is None:
            return _none()
        return NearPairs(*_in_words(*found), np.ones(found[0].size, bool), 1)
    parts = []
    room = _MOST
    for samples, others, unsure in scores.within(rows.radius2, share):
        room -= samples.size
        if room < 0:
            return _none()
        parts.append((*_in_words(samples, others), unsure))
    if not parts:
        return _none(complete=1)
    samples, others, unsure = (np.concatenate(each) for each in zip(*parts, strict=True))
    return NearPairs(samples, others, unsure, 1)


def _in_words(samples: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return samples.astype(np.int32), others.astype(np.int32)


def _none(complete: int = 0) -> NearPairs:
    empty = np.empty(0, np.int32)
    return NearPairs(empty, empty, np.empty(0, bool), complete)


def settled_graph(
    points: Points,
    found: Mapping[str, NearPairs],
    *,
    n_neighbors: int | None,
    radius2: float | None,
) -> View:
    """Return the graph from the pairs of all workers; without them if any list is incomplete."""
    known = [part for part in found.values() if part.complete]
    if not found or len(known) < len(found):
        known = []
    if n_neighbors is not None:
        pairs = None
        if known:
            samples = np.concatenate([part.samples for part in known]).astype(np.int64)
            others = np.concatenate([part.others for part in known]).astype(np.int64)
            pairs = samples, others
        return nearest_of_points(points, n_neighbors, pairs)
    assert radius2 is not None
    maybe = [(part.samples, part.others, part.unsure) for part in known]
    return within_radius_of_points(points, radius2, maybe or None)

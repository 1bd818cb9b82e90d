"""Graphs of the server's coordinates, with the search for pairs divided among its workers.

Products in float32, n² / 2 of them, show which pairs can matter; every worker computes a share of
the blocks. The server decides these few pairs in float64, so the graph is the same, to the last
bit, whatever the number of workers. So it is if pairs of most samples are those that the server
kept of the last fit: a sample that comes later brings no two others nearer to each other.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np

from daskfc.arrays import Ints
from daskfc.clustering import ExactPoints, NeighbourGraph, RadiusGraph, View
from daskfc.clustering.views.half_distances import HalfDistances
from daskfc.clustering.views.nearest import (
    half_distances,
    nearest_of_points,
    nearest_since,
    within_radius_of_points,
    within_radius_since,
    within_reach,
)
from daskfc.clustering.views.screening import Share, is_worthwhile
from daskfc.coding import ResidueSystem
from daskfc.federation import SERVER, Federation, Local, Message, PerClient, Sent, array
from daskfc.federation.party.last_result import LastResult
from daskfc.federation.party.process_memory import PROCESS_BYTES, fits
from daskfc.secure.distances.parties.messages import RowTags
from daskfc.secure.distances.parties.server import RowPlan
from daskfc.secure.distances.secure_distances import SecureDistances
from daskfc.secure.distances.sizing.landmark_memory import view_bytes

Points: TypeAlias = np.ndarray | ExactPoints
_Found: TypeAlias = "dict[str, Local[NearPairs] | Sent[NearPairs]]"

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
    federation, since = distances.federation, distances.since
    asked = {"n_neighbors": n_neighbors, "radius2": radius2}
    found: _Found = {}
    if since is None:
        if federation.server_workers and _helps(distances, n_neighbors):
            found = _pairs_of_all(federation, points, n_neighbors, radius2)
        return federation.on_server(settled_graph, points, found, **asked)
    fit = distances.plan, since.tags
    if since.holds:
        own = federation.on_server(pairs_since, points, *fit, **asked, system=distances.system)
        found = {SERVER: own}
    elif _helps(distances, n_neighbors):
        found = _pairs_of_all(federation, points, n_neighbors, radius2)
    graph = federation.on_server(settled_graph, points, found, **asked)
    kept = federation.on_server(keep_pairs, points, graph, found, *fit, system=distances.system)
    federation.wait(kept)
    return graph


def _pairs_of_all(
    federation: Federation,
    points: Local[ExactPoints],
    n_neighbors: int | None,
    radius2: float | None,
) -> _Found:
    """Have the server and its workers find the pairs that can matter, each of a share."""
    workers = federation.server_workers
    of = len(workers) + 1
    rows = federation.on_server(score_rows, points, radius2=radius2)
    theirs: _Found = {}
    if workers:
        told = federation.hand_out(rows)
        federation.wait(told)  # or the server would do its own share before it sends the rows
        parts = PerClient({worker: number for number, worker in enumerate(workers, start=1)})
        found = federation.hand_back(near_pairs, told, n_neighbors=n_neighbors, part=parts, of=of)
        theirs = dict(found)
    own = federation.on_server(near_pairs, rows, n_neighbors=n_neighbors, part=0, of=of)
    return {SERVER: own, **theirs}


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
    if not scores.n or (n_neighbors is not None and not is_worthwhile(scores.n, n_neighbors)):
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
        return nearest_of_points(points, n_neighbors, _joined(known) if known else None)
    assert radius2 is not None
    maybe = [(part.samples, part.others, part.unsure) for part in known]
    return within_radius_of_points(points, radius2, maybe or None)


def _joined(parts: Sequence[NearPairs]) -> tuple[Ints, Ints]:
    samples = np.concatenate([part.samples for part in parts]).astype(np.int64)
    return samples, np.concatenate([part.others for part in parts]).astype(np.int64)


# -- since the last fit ---------------------------------------------------------------------------


@dataclass(frozen=True)
class KeptPairs:
    """The near pairs of a fit, by client and row of its store; each field is an array."""

    clients: np.ndarray  # (m,) str
    n_rows: np.ndarray  # (m,)
    tags: np.ndarray  # (m,) of all rows
    kind: np.ndarray  # () str: of which graph, on which grid
    samples: np.ndarray  # (pairs,) number among the rows of all clients
    others: np.ndarray  # (pairs,)
    reach: np.ndarray  # (n,) squared distance to the farthest neighbour; empty for a radius

    @classmethod
    def of(
        cls, last_result: LastResult, plan: RowPlan, parts: Mapping[str, RowTags], kind: str
    ) -> "KeptPairs | None":
        """Return what the server kept of the last fit's graph, if its rows are still the first."""
        found = last_result.part(_PART).start()
        if found is None or set(found) != {field.name for field in fields(cls)}:
            return None
        kept = cls(**found)
        tags = [parts[name].first for name in plan.positions]
        alike = kept.clients.tolist() == list(plan.positions) and kept.tags.tolist() == tags
        return kept if alike and str(kept.kind) == kind else None


_PART = "graph"


def _kind(n_neighbors: int | None, radius2: float | None, system: ResidueSystem) -> str:
    return repr((n_neighbors, radius2, system))


def _numbers(points: ExactPoints, plan: RowPlan) -> list[np.ndarray]:
    """Return the samples' numbers among the points, of each client in the order of its store."""
    everyone = np.arange(points.n)
    numbers = everyone if points.order is None else points.order.back(everyone)
    return [numbers[own].astype(np.int32) for own in plan.positions.values()]


def pairs_since(
    points: ExactPoints,
    plan: RowPlan,
    parts: Mapping[str, RowTags],
    last_result: LastResult,
    *,
    n_neighbors: int | None,
    radius2: float | None,
    system: ResidueSystem,
) -> NearPairs:
    """Return the pairs that the server kept of the last fit, and those of new samples."""
    kept = KeptPairs.of(last_result, plan, parts, _kind(n_neighbors, radius2, system))
    if kept is None:
        rows = score_rows(points, radius2=radius2)
        return near_pairs(rows, n_neighbors=n_neighbors, part=0, of=1)
    sizes, numbers = kept.n_rows.tolist(), _numbers(points, plan)
    before = np.concatenate([own[:size] for own, size in zip(numbers, sizes, strict=True)])
    new = np.sort(np.concatenate([own[s:] for own, s in zip(numbers, sizes, strict=True)]))
    samples, others = before[kept.samples], before[kept.others]
    if n_neighbors is not None:
        reach = np.full(points.n, -np.inf)
        reach[before] = kept.reach
        more, theirs = nearest_since(points, new, n_neighbors, reach)
        unsure = np.ones(samples.size + more.size, bool)
    else:
        assert radius2 is not None
        samples, others = np.minimum(samples, others), np.maximum(samples, others)
        listed = list(within_radius_since(points, new, radius2))
        none = (new[:0], new[:0], np.empty(0, bool))
        more, theirs, doubtful = (np.concatenate(each) for each in zip(none, *listed, strict=True))
        unsure = np.concatenate([np.zeros(samples.size, bool), doubtful])
    both = np.concatenate([samples, more]), np.concatenate([others, theirs])
    return NearPairs(*_in_words(*both), unsure, 1)


def keep_pairs(
    points: ExactPoints,
    graph: View,
    found: Mapping[str, NearPairs],
    plan: RowPlan,
    parts: Mapping[str, RowTags],
    last_result: LastResult,
    *,
    system: ResidueSystem,
) -> bool:
    """Keep the near pairs of a graph for the next fit, unless they are too many to list."""
    reach = np.empty(0)
    if isinstance(graph, NeighbourGraph):
        kind = _kind(graph.n_neighbors, None, system)
        known = [part for part in found.values() if part.complete]
        if not known or len(known) < len(found):
            return False
        pairs = _joined(known)
        reach = graph.distances[:, -1]
        near = within_reach(points, pairs, reach)  # equal ones too, of which it has some
        samples, others = pairs[0][near], pairs[1][near]
    else:
        assert isinstance(graph, RadiusGraph)
        kind = _kind(None, graph.radius2, system)
        listed, room = [(np.empty(0, np.int32), np.empty(0, np.int32))], _MOST
        for block in graph:
            room -= block[0].size
            if room < 0:
                return False
            listed.append(_in_words(*block))
        samples, others = (np.concatenate(each) for each in zip(*listed, strict=True))
    numbers = _numbers(points, plan)
    by_row = np.concatenate(numbers)
    rows = np.empty_like(by_row)
    rows[by_row] = np.arange(by_row.size, dtype=by_row.dtype)
    kept = KeptPairs(
        clients=np.array(list(plan.positions)),
        n_rows=np.array([len(own) for own in numbers], dtype=np.int64),
        tags=np.array([parts[name].every for name in plan.positions], dtype=np.int64),
        kind=np.array(kind),
        samples=rows[samples],
        others=rows[others],
        reach=reach[by_row] if reach.size else reach,
    )
    last_result.part(_PART).keep(vars(kept))
    return True

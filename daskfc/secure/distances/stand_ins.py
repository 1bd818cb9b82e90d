"""Stubs for the steps of secure distances in a rehearsal: sizes of messages, no shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskfc.coding import LagrangeCode, ResidueSystem
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, as_they_are, of_shape, sized
from daskfc.linalg import LandmarkEmbedding, squared_distances
from daskfc.secure.distances import graphs
from daskfc.secure.distances.graphs import ScoreRows
from daskfc.secure.distances.parties import by_columns, gaps, party, server
from daskfc.secure.distances.parties.messages import (
    CodedDistances,
    CodedRows,
    DecodedBlock,
    LandmarkStatus,
    LastFit,
    Reach,
    RowTags,
    SampleSummary,
    ServerDisk,
)
from daskfc.secure.distances.parties.server import Columns, RowPlan
from daskfc.secure.distances.routes import columns, divided, last_fit, rows
from daskfc.secure.distances.routes.last_fit import KeptFit
from daskfc.secure.distances.routes.rows import QuantisedRows, RowSummary
from daskfc.stores import ClientStore

_ROOM = 1 << 62  # bytes of the server's disk, which is unknown
# ours: numbers that are read to search for landmarks, 256 MiB; of more, some samples are read
_READ = 1 << 25
_SPAN = "dimensions that the samples span"
_NEW = "samples since the last fit, where start is last"
_SPARES = 8  # landmarks beyond the dimensions and one


# -- shares and answers ---------------------------------------------------------------------------


def _shared_out(
    n_rows: int, n_features: int, code: LagrangeCode, system: ResidueSystem, names: Sequence[str]
) -> dict[str, CodedRows]:
    told = {"n_rows": n_rows, "n_columns": code.n_columns(n_features)}
    dtype, r = np.dtype(system.dtype).name, len(system.primes)
    whole = {"prime": r, "row": n_rows, "column": told["n_columns"], "byte": 0}
    of_key = {"prime": r, "row": 0, "column": 0, "byte": 32}
    shares = [sized(CodedRows, **size, **told, dtype=dtype) for size in (of_key, whole)]
    return {name: shares[j >= code.n_colluding] for j, name in enumerate(names)}


def _answer(shape: tuple[int, int], system: ResidueSystem) -> Sizes:
    dtype = np.dtype(system.dtype).name
    return Sizes(prime=len(system.primes), row=shape[0], column=shape[1], dtype=dtype)


def _nearest_in_block(
    answers: Mapping[str, CodedDistances], i: int, j: int, n_neighbors: int
) -> Sizes:
    rows, columns = _shape_of(answers)
    others = columns - 1 if i == j else columns  # of a row
    below = 0 if i == j else columns
    return Sizes(
        row=rows if others else 0,
        row_rank=min(n_neighbors, max(others, 1)),
        column=below,
        column_rank=min(n_neighbors, rows) if below else 1,
        evaluator=0,
    )


def _shape_of(answers: Mapping[str, CodedDistances]) -> tuple[int, int]:
    _, n_rows, n_columns = next(iter(answers.values())).residues.shape
    return n_rows, n_columns


# -- landmarks ------------------------------------------------------------------------------------


class _PlanOfSamples(RowPlan):
    """A plan for the rows of the clients' stores, which a rehearsal can read."""


@dataclass
class _Search:
    """The state of a search for landmarks, with a real one among samples that can be read."""

    n_samples: int
    n_features: int
    n_landmarks: int = 0
    found: LandmarkEmbedding | None = None
    samples: np.ndarray | None = None


@dataclass(frozen=True)
class _Points:
    """The size of coordinates."""

    n_samples: int
    n_features: int


def _reach_from(data: ClientStore) -> Reach:
    """Report twice the radius about the client's own mean, as the common centre is unknown."""
    middle = sum(rows.sum(axis=0) for _, rows in data.blocks()) / data.n_samples
    radius2 = max(float(np.square(rows - middle).sum(axis=1).max()) for _, rows in data.blocks())
    return Reach(2 * party.rounded_up(radius2**0.5))


def _plan(parts: Mapping[str, SampleSummary]) -> _PlanOfSamples:
    return _PlanOfSamples(**vars(server.plan(parts)))


def _begun(found: LandmarkEmbedding, plan: RowPlan, rehearsal: Rehearsal) -> _Search:
    n, d = plan.n_samples, plan.n_features
    search = _Search(n, d)
    most = min(n, _READ // d)
    if isinstance(plan, _PlanOfSamples) and (most == n or most > 2 * (d + 2)):
        samples = np.empty((n, d)) if most == n else None
        some = []
        for name, positions in plan.positions.items():
            if samples is not None:
                samples[positions] = rehearsal.rows_of(name)
            elif len(positions):
                some.append(rehearsal.rows_of(name, max(1, most * len(positions) // n)))
        search.samples = np.concatenate(some) if samples is None else samples
        search.found = LandmarkEmbedding(
            *search.samples.shape, tolerance=found.tolerance, nearest=found.nearest
        )
    return search


def _start_landmarks(
    plan: RowPlan, tolerance: float, nearest: float, rehearsal: Rehearsal
) -> _Search:
    found = server.start_landmarks(plan, tolerance=tolerance, nearest=nearest)
    return _begun(found, plan, rehearsal)


def _start_search(plan: RowPlan, system: ResidueSystem, rehearsal: Rehearsal) -> _Search:
    return _begun(columns.start_search(plan, system=system), plan, rehearsal)


def _next_landmarks(embedding: _Search, count: int, rehearsal: Rehearsal) -> np.ndarray:
    if embedding.found is not None and not rehearsal.knows(_SPAN):
        return embedding.found.next_landmarks(count)
    left = embedding.n_samples - embedding.n_landmarks
    return of_shape(max(0, min(count, left)), dtype="int64")


def _add_columns(embedding: _Search, landmarks: np.ndarray) -> _Search:
    embedding.n_landmarks += len(landmarks)
    found, samples = embedding.found, embedding.samples
    if found is not None and samples is not None and len(landmarks):
        chosen = found.next_landmarks(len(landmarks))
        if chosen.size:
            found.add_panels(chosen, [squared_distances(samples, samples[chosen])])
    return embedding


def _landmark_status(
    embedding: _Search, system: ResidueSystem, rehearsal: Rehearsal
) -> LandmarkStatus:
    found, n_primes = embedding.found, len(system.primes)
    if found is not None:
        status = server.landmark_status(found, system=system)
        if not rehearsal.knows(_SPAN):
            if status.converged and found.n < embedding.n_samples:
                rehearsal.assume(_SPAN, status.rank)  # as some of them do
            return status
        n_primes = status.n_primes
    most = min(embedding.n_samples - 1, embedding.n_features)
    span = rehearsal.assume(_SPAN, most)
    rank = max(0, min(embedding.n_landmarks - 1, int(span)))
    over = rank >= span or embedding.n_landmarks >= embedding.n_samples
    # with no samples read, all primes: distances from the landmarks are unknown
    return LandmarkStatus(embedding.n_landmarks, rank, 0.0, int(over), n_primes)


def _kept_fit(rehearsal: Rehearsal) -> KeptFit | None:
    """Return the size of what the server kept, if some samples were there before."""
    stores = [rehearsal.contract.readable[name] for name in rehearsal.clients]
    sizes = np.array([store.n_samples for store in stores], dtype=np.int64)
    n, d = int(sizes.sum()), stores[0].n_features
    new = int(rehearsal.assume(_NEW, n))
    before = sizes - new * sizes // n
    if new >= n or before.sum() <= 2 * (d + 2):
        return None
    s = min(int(before.sum()), d + 1 + _SPARES)
    rows = np.linspace(0, int(before.sum()) - 1, s).astype(np.int64)
    owners = np.searchsorted(np.cumsum(before), rows, side="right")
    return KeptFit(
        clients=np.array(rehearsal.clients),
        n_rows=before,
        tags=np.zeros(len(before), dtype=np.int64),
        landmarks=np.stack([owners, rows - (np.cumsum(before) - before)[owners]], axis=1),
        rounds=np.array([s], dtype=np.int64),
        near=of_shape(n, s),
        rest=of_shape(0, 0),
        **dict.fromkeys(("grid", "resolved", "radius", "grids"), np.array(0.0)),
    )


def _last_fit(kept: KeptFit | None, parts: Mapping[str, RowTags], plan: RowPlan) -> LastFit:
    return replace(last_fit.last_fit(kept, parts, plan), alike=1)


def _points_status(rehearsal: Rehearsal) -> Sizes:
    # Where it is not so, blocks of all pairs are computed after the columns.
    certain = rehearsal.assume("columns that leave no distance open, 1 for yes", 1.0)
    return Sizes(certified=int(certain), prime=0)


def _near_pairs(rows: ScoreRows, n_neighbors: int | None, rehearsal: Rehearsal) -> Sizes:
    each = rehearsal.assume("pairs of a sample that are looked at", 2.0 * (n_neighbors or 16))
    return Sizes(pair=int(each * len(rows.rows)), complete=1)


STAND_INS: StandIns = {
    last_fit.kept_fit: _kept_fit,
    last_fit.last_fit: _last_fit,
    last_fit.keep: lambda: True,
    last_fit.landmarks_and_new: lambda data, kept: QuantisedRows(
        of_shape(
            len(kept.landmarks) + data.n_samples - kept.n_rows, data.n_features, dtype="int64"
        ),
        "",
        None,
    ),
    last_fit.columns_of_round: lambda kept, plan, turn: Columns(
        of_shape(plan.n_samples, int(kept.rounds[turn])), of_shape(0, dtype="int64")
    ),
    **as_they_are(last_fit.kept_rows, last_fit.shared_again, last_fit.landmarks_again),
    **as_they_are(last_fit.landmarks_of_round),
    **as_they_are(party.describe, server.public_plan, server.row_positions),
    **as_they_are(party.refuse_far_samples, server.plan_from_centre),
    party.reach_from: _reach_from,
    **as_they_are(by_columns.describe_columns, by_columns.plan_of_columns),
    **as_they_are(by_columns.refuse_far_columns, by_columns.common_order),
    **as_they_are(by_columns.told_modularity, server.told_gaps, gaps.allow_gaps),
    by_columns.own_modularity: lambda: 1.0,
    by_columns.squared_lengths: lambda data: of_shape(data.n_samples, 1),
    by_columns.lengths_in_order: lambda places: of_shape(len(places)),
    by_columns.encode_columns: lambda data, start, stop, code, system, evaluators: _shared_out(
        stop - start, data.n_features, code, system, evaluators
    ),
    **as_they_are(server.told_landmarks, rows.plan_rows),
    server.server_disk: lambda: ServerDisk(_ROOM),
    server.open_tiles: lambda grid: grid,
    server.missing_blocks: lambda tiles: Sizes(
        blocks=np.array(list(tiles.blocks()), dtype=np.int64).reshape(-1, 2)
    ),
    DecodedBlock: lambda: Sizes(evaluator=0),
    divided.nearest_in_block: _nearest_in_block,
    divided.pairs_in_block: lambda answers: Sizes(
        eight_columns=-(-_shape_of(answers)[1] // 8), evaluator=0
    ),
    divided.distances_of_block: lambda answers, system: Sizes(
        evaluator=0, dtype=divided.whole_dtype(system)
    ),
    server.decode_columns: lambda answers: Columns(
        of_shape(*_shape_of(answers)), of_shape(0, dtype="int64")
    ),
    server.plan: _plan,
    server.start_landmarks: _start_landmarks,
    columns.start_search: _start_search,
    server.next_landmarks: _next_landmarks,
    server.add_columns: _add_columns,
    server.landmark_status: _landmark_status,
    columns.points: lambda plan: _Points(plan.n_samples, plan.n_features),
    columns.points_status: _points_status,
    columns.worst_placed: lambda: of_shape(columns.MORE, dtype="int64"),
    graphs.score_rows: lambda points: Sizes(column=points.n_features + 1),
    graphs.near_pairs: _near_pairs,
    party.hiding_key: lambda: Sizes(byte=32),
    party.encode_rows: lambda data, start, stop, code, system, evaluators: _shared_out(
        stop - start, data.n_features, code, system, evaluators
    ),
    party.answer_block: lambda i, j, grid, system: _answer(grid.shape(i, j), system),
    party.answer_columns: lambda landmarks, start, stop, system: _answer(
        (stop - start, len(landmarks.positions)), system
    ),
    rows.summarise_rows: lambda rows, radius: RowSummary(
        len(rows), rows.shape[1], radius or 1.0, 0
    ),
    rows.quantised_rows: lambda rows: QuantisedRows(of_shape(*rows.shape, dtype="int64"), "", None),
    rows.encode_quantised: lambda quantised, start, stop, code, system, evaluators: _shared_out(
        stop - start, quantised.rows.shape[1], code, system, evaluators
    ),
}

"""What the server kept of the last fit like this one: columns of the samples that were there.

Landmarks and new samples are shared out, under masks of this run; distances of the others to the
landmarks are those of the last fit, to the last bit, as long as rows and grid are the same.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from daskfc.arrays import Ints
from daskfc.coding import ResidueSystem, SecretKey, WideIntegers
from daskfc.errors import StoreError
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.party.last_result import LastResult
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import by_message, takes
from daskfc.secure.distances.parties import server
from daskfc.secure.distances.parties.messages import KeptRows, LastFit, RowTags
from daskfc.secure.distances.parties.party import check_grid, seen_from
from daskfc.secure.distances.parties.server import Columns, RowPlan
from daskfc.secure.distances.routes.columns import KeptColumns, Whole, joined_whole, whole_of
from daskfc.secure.distances.routes.evaluation import Evaluation
from daskfc.secure.distances.routes.grids import Place
from daskfc.secure.distances.routes.rows import QuantisedRows, encode_quantised, quantised_rows
from daskfc.secure.sums import Centre
from daskfc.stores import ClientStore

_PRIME = 2**31 - 1
_CHECKED = 16  # ours: landmarks
_NONE = np.empty((0, 0), dtype=np.int64)

# -- a client -------------------------------------------------------------------------------------


@takes(centre=by_message)
def row_tags(
    data: ClientStore, kept: KeptRows, centre: Centre | None, lasting_secret: SecretKey
) -> RowTags:
    """Send tags of the client's first samples and of all, as they are prepared and seen."""
    seen, tags, start = seen_from(centre), [], 0
    digest = hashlib.sha256(repr(list(data.feature_names)).encode())
    for stop in (min(kept.n_rows, data.n_samples), data.n_samples):
        for first in range(start, stop, data.chunk_rows):
            rows = seen.rows(data.rows(first, min(first + data.chunk_rows, stop)))
            digest.update(np.ascontiguousarray(rows).tobytes())
        # without the client's key the server could test guesses of the samples
        key = lasting_secret.derive("samples of a fit", stop, digest.hexdigest())
        tags.append(key.fingerprint())
        start = stop
    return RowTags(*tags)


@takes(centre=by_message)
def landmarks_and_new(
    data: ClientStore,
    kept: KeptRows,
    centre: Centre | None,
    *,
    system: ResidueSystem,
    site: SiteRules = FREE,
) -> QuantisedRows:
    """Round the client's landmarks of the last fit, and its samples since then, to the grid."""
    seen = seen_from(centre)
    check_grid(data, system, seen, site)
    parts = [data.rows(min(kept.n_rows, data.n_samples), data.n_samples)]
    for start in sorted({row - row % data.chunk_rows for row in kept.landmarks.tolist()}):
        own = kept.landmarks[(kept.landmarks >= start) & (kept.landmarks < start + data.chunk_rows)]
        stop = min(start + data.chunk_rows, data.n_samples)
        parts.insert(-1, data.rows(start, stop)[own - start])
    return quantised_rows(seen.rows(np.concatenate(parts)), system=system, purpose="since")


# -- the server -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeptFit:
    """The columns of a fit, by client and row of its store; each field is an array."""

    clients: np.ndarray  # (m,) str
    n_rows: np.ndarray  # (m,)
    tags: np.ndarray  # (m,) of all rows
    landmarks: np.ndarray  # (s, 2) number of the client and row, in the order of the rounds
    rounds: np.ndarray  # landmarks of each
    near: np.ndarray  # (n, s) whole squared distances in units of 1 / S²
    rest: np.ndarray  # of `WideIntegers`, else empty
    grid: np.ndarray  # () str, the residue system
    resolved: np.ndarray  # () the squared distance for which the grid was chosen, 0 for the first
    radius: np.ndarray  # ()
    grids: np.ndarray  # ()

    def own(self, client: str) -> tuple[slice, Ints]:
        """Return a client's rows among all, and its landmarks in the order of its store."""
        number = self.clients.tolist().index(client)
        stop = int(self.n_rows[: number + 1].sum())
        landmarks = self.landmarks[self.landmarks[:, 0] == number, 1]
        return slice(stop - int(self.n_rows[number]), stop), np.sort(landmarks)

    def whole(self, rows: slice | Ints, columns: slice) -> Whole:
        """Return some of the distances."""
        near = self.near[rows, columns]
        return WideIntegers(near, self.rest[rows, columns]) if self.rest.size else near

    def places(self, positions: Mapping[str, Ints]) -> Ints:
        """Return the landmarks' places in an order that has places for all rows of clients."""
        names = self.clients[self.landmarks[:, 0]].tolist()
        found = [positions[n][row] for n, row in zip(names, self.landmarks[:, 1], strict=True)]
        return np.array(found, dtype=np.int64)


def kept_fit(last_result: LastResult) -> KeptFit | None:
    """Return what the server kept of the last fit like this one."""
    found = last_result.start()
    if found is None or set(found) != {field.name for field in fields(KeptFit)}:
        return None  # or of another version
    return KeptFit(**found)


def kept_rows(kept: KeptFit | None, plan: RowPlan) -> dict[str, KeptRows]:
    """Tell each client how many samples it had, and which were landmarks."""
    if kept is None:
        return dict.fromkeys(plan.positions, KeptRows(0, np.empty(0, dtype=np.int64)))
    own = {name: kept.own(name) for name in plan.positions}
    return {n: KeptRows(rows.stop - rows.start, marks) for n, (rows, marks) in own.items()}


def last_fit(kept: KeptFit | None, parts: Mapping[str, RowTags], plan: RowPlan) -> LastFit:
    """Report to the caller what of the last fit still holds."""
    if kept is None:
        none = np.zeros(len(parts), dtype=np.int64)
        return LastFit(none, none[:0], resolved=0.0, alike=0)
    tags = dict(zip(kept.clients.tolist(), kept.tags.tolist(), strict=True))
    sizes = dict(zip(kept.clients.tolist(), kept.n_rows.tolist(), strict=True))
    same = [sizes[n] if part.first == tags[n] else -1 for n, part in parts.items()]
    return LastFit(
        samples=np.array(same, dtype=np.int64),
        rounds=kept.rounds,
        resolved=float(kept.resolved),
        alike=int(kept.radius == plan.radius and kept.grids == plan.grids),
    )


def shared_again(kept: KeptFit, plan: RowPlan) -> RowPlan:
    """Return the plan of new samples and landmarks alone, these last, each in the order of all."""
    marks, new = {}, {}
    for name, positions in plan.positions.items():
        rows, landmarks = kept.own(name)
        marks[name], new[name] = positions[landmarks], positions[rows.stop - rows.start :]
    orders = [np.sort(np.concatenate(list(some.values()))) for some in (marks, new)]
    own = {
        name: np.concatenate(
            [
                len(orders[1]) + np.searchsorted(orders[0], marks[name]),
                np.searchsorted(orders[1], new[name]),
            ]
        )
        for name in plan.positions
    }
    return replace(plan, positions=own)


def landmarks_again(kept: KeptFit, again: RowPlan) -> Ints:
    """Return the landmarks' places among the samples that are shared out again."""
    places = {}
    for name, positions in again.positions.items():
        rows, own = kept.own(name)
        places[name] = np.full(rows.stop - rows.start, -1)
        places[name][own] = positions[: len(own)]
    return kept.places(places)


def landmarks_of_round(kept: KeptFit, plan: RowPlan, *, turn: int) -> Ints:
    """Return the landmarks of one round among all samples."""
    return kept.places(plan.positions)[_columns_of(kept, turn)]


def _columns_of(kept: KeptFit, turn: int) -> slice:
    stop = int(kept.rounds[: turn + 1].sum())
    return slice(stop - int(kept.rounds[turn]), stop)


def columns_of_round(
    kept: KeptFit,
    plan: RowPlan,
    again: RowPlan,
    columns: Sequence[Columns],
    *,
    turn: int,
    system: ResidueSystem,
) -> Columns:
    """Return all samples' distances to the landmarks of one round: kept ones, and those of today.

    Raises StoreError where those of the landmarks that are among today's are not what they were.
    """
    which = _columns_of(kept, turn)
    today = joined_whole([whole_of(part, system) for part in columns])[:, which]
    parts, same = [], str(kept.grid) == repr(system)
    for name, positions in again.positions.items():
        rows, own = kept.own(name)
        before = kept.whole(rows, which)
        marks, new = np.split(positions, [len(own)])
        seen = marks < len(today)
        same = same and bool((before[own[seen]] % _PRIME == today[marks[seen]] % _PRIME).all())
        parts += [before, today[new]]
    if not same:
        raise StoreError(
            "the distances that the server kept of the last fit are not those of its landmarks "
            "today. Remove its folder of last results, or fit with start='anew'."
        )
    order = np.argsort(np.concatenate(list(plan.positions.values())))
    whole = joined_whole(parts)[order]
    wide = whole if isinstance(whole, WideIntegers) else None
    return Columns(system.to_real(np.asarray(whole)), np.empty(0, dtype=np.int64), wide)


def keep(
    columns: KeptColumns,
    plan: RowPlan,
    parts: Mapping[str, RowTags],
    last_result: LastResult,
    *,
    resolved: float,
) -> bool:
    """Keep a fit's columns for the next one."""
    sizes = np.array([len(own) for own in plan.positions.values()], dtype=np.int64)
    places = np.concatenate(list(plan.positions.values()))
    landmarks = np.argsort(places)[np.concatenate(columns.landmarks)]
    owners = np.searchsorted(np.cumsum(sizes), landmarks, side="right")
    whole = columns(places)
    near, rest = (whole.near, whole.rest) if isinstance(whole, WideIntegers) else (whole, _NONE)
    kept = KeptFit(
        clients=np.array(list(plan.positions)),
        n_rows=sizes,
        tags=np.array([parts[name].every for name in plan.positions], dtype=np.int64),
        landmarks=np.stack([owners, landmarks - (np.cumsum(sizes) - sizes)[owners]], axis=1),
        rounds=np.array([len(chosen) for chosen in columns.landmarks], dtype=np.int64),
        near=near,
        rest=rest,
        grid=np.array(repr(columns.system)),
        resolved=np.array(resolved),
        radius=np.array(plan.radius),
        grids=np.array(plan.grids),
    )
    last_result.keep(vars(kept))
    return True


# -- the driver -----------------------------------------------------------------------------------


@dataclass
class SinceLast:
    """What of the last fit like this one still holds; `said` tells what this one starts from."""

    federation: Federation
    place: Place
    kept: Local[KeptFit | None] | None
    told: PerClient[Sent[KeptRows]]
    tags: PerClient[Sent[RowTags]]
    found: LastFit
    resolved: float = 0.0
    holds: bool = True  # whether what the server kept is of the same samples, seen alike
    said: str = ""

    @classmethod
    def asked(cls, federation: Federation, place: Place) -> Self:
        """Have clients tell whether their first samples are those of the last fit."""
        kept = federation.on_server(kept_fit)
        told = federation.tell(kept_rows, kept, place.plan)
        tags = federation.ask(row_tags, told, place.centre)
        found = federation.publish(last_fit, kept, tags, place.plan)
        since = cls(federation, place, kept, told, tags, found)
        others = [n for n, k in zip(federation.clients, found.samples, strict=True) if k < 0]
        if not found.rounds.size:
            since.said = "all anew: the server kept none of a fit like this one"
        elif others:
            since.said = (
                f"all anew: the first samples of {', '.join(others)} are not those of the last "
                "fit, or are prepared or centred otherwise"
            )
        elif not found.alike:
            since.said = "all anew: the samples' range or grid is not that of the last fit"
        since.holds = not since.said
        return since

    def finer(self, resolved: float) -> Self:
        """Return the same for a finer grid, of which nothing is known."""
        told = "all anew: labels depend on smaller distances than those of the last fit"
        said = told if self.holds else self.said
        return replace(self, resolved=resolved, holds=False, said=said)

    def shared(self, evaluation: Evaluation) -> tuple[Local[RowPlan], Local[Ints], int]:
        """Share out landmarks and new samples; return their plan, and the landmarks.

        Also how many of these samples have their distances told: new ones, and a few landmarks,
        which show that kept distances are those of these samples.
        """
        federation = self.federation
        if self.kept is None:  # of an earlier search
            self.kept = federation.on_server(kept_fit)
        again = federation.on_server(shared_again, self.kept, self.place.plan)
        sizes = federation.publish(server.public_plan, again)
        system = evaluation.coding["system"]
        own = federation.on_clients(landmarks_and_new, self.told, self.place.centre, system=system)
        evaluation.encode(sizes, again, encode_quantised, own)
        n_marks = int(self.found.rounds.sum())
        n_told = sizes.n_samples - n_marks + min(n_marks, _CHECKED)
        return again, federation.on_server(landmarks_again, self.kept, again), n_told

    def told_of(self, *, anew: bool) -> None:
        """Note whether all rows were shared out after the landmarks of the last fit, or at once."""
        self.kept = None  # which the server need not hold while it clusters
        if self.holds:
            n_new = int(self.place.public.samples.sum() - self.found.samples.sum())
            self.said = f"the distances of the last fit like this one, and {n_new} new samples"
            if anew:
                self.said += ", which are no mixture of the landmarks: all were shared out"

    def keep(self, columns: Local[KeptColumns] | None) -> None:
        """Have the server keep this fit's columns for the next one."""
        assert columns is not None
        kept = (columns, self.place.plan, self.tags)
        self.federation.wait(self.federation.on_server(keep, *kept, resolved=self.resolved))

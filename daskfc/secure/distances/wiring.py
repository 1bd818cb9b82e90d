"""OmniFC's wiring up to the distances: plan, encode, exchange shares, evaluate, decode."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daskfc.coding import LagrangeCode, ResidueSystem, choose_residues
from daskfc.errors import InvalidInput
from daskfc.federation import SERVER, Federation, Local, PerClient, Sent
from daskfc.pairwise import SymmetricGrid
from daskfc.secure.distances import party, server
from daskfc.secure.distances.landmark_memory import landmark_needs
from daskfc.secure.distances.memory import Workload, check, choose_tile, needs
from daskfc.secure.distances.messages import (
    CodedRows,
    LandmarkStatus,
    PublicPlan,
)
from daskfc.secure.distances.streaming import AnswerStream

__all__ = [
    "CodedSamples",
    "Settings",
    "choose_code",
    "encode_all",
    "plan_run",
    "stream_blocks",
    "stream_columns",
    "stream_new",
]

ENCODED_ROWS = 4096  # ours: rows encoded at once; K r k 4096 bytes, 51 MB for MNIST
LANDMARKS_A_ROUND = 128  # exact-distance study: 6 to 7 rounds on MNIST
COLUMN_ROWS = 8192  # ours: samples of one panel of landmark columns
COPIES_OF_COORDINATES = 1  # the rows of D, in as many coordinates; k-means centres them in place
NEW_ROWS = 8192  # ours: clustered samples of one block against new ones
BLOCK_WINDOW = 3  # blocks under way: one evaluated, one decoded, one asked


@dataclass(frozen=True)
class Settings:
    """The parameters of OmniFC that the distances depend on, or the way to them."""

    tolerance: float
    max_abs: float | None
    hide_segments: bool
    engine: str
    tile: int | None


def choose_code(
    n_clients: int, n_segments: int | None, n_colluding: int | None, n_spares: int | None
) -> LagrangeCode:
    """Return the code for a number of clients, with the most privacy where nothing is given.

    Parameters
    ----------
    n_clients : int
        The paper's m.
    n_segments, n_colluding, n_spares : int, optional
        As for `OmniFC`.

    Returns
    -------
    LagrangeCode
        Its number of evaluators is 2l + 2t - 1 plus the spares.

    Raises
    ------
    InvalidInput
        When there are too few clients.

    Examples
    --------
    >>> from daskfc.secure.distances.wiring import choose_code
    >>> choose_code(10, None, None, None)
    LagrangeCode(n_segments=2, n_colluding=2, n_evaluators=8)
    >>> choose_code(5, None, None, None)
    LagrangeCode(n_segments=1, n_colluding=2, n_evaluators=5)
    """
    most = (n_clients + 1) // 2  # l + t with 2l + 2t - 1 <= m
    t = n_colluding if n_colluding is not None else max(1, min(2, most - (n_segments or 1)))
    l = n_segments if n_segments is not None else max(1, min(2, most - t))  # noqa: E741
    needed = 2 * l + 2 * t - 1
    if n_clients < needed:
        raise InvalidInput(
            f"OmniFC needs 2l + 2t - 1 = {needed} clients with n_segments={l} and n_colluding={t}; "
            f"the federation has {n_clients}. Lower n_segments or n_colluding, or add clients."
        )
    spares = min(1, n_clients - needed) if n_spares is None else n_spares
    if needed + spares > n_clients:
        raise InvalidInput(
            f"the 'n_spares' parameter of OmniFC must be an int in [0, {n_clients - needed}] with "
            f"{n_clients} clients of which {needed} are needed; got {spares}. Lower it."
        )
    return LagrangeCode(l, t, needed + spares)


@dataclass(frozen=True)
class CodedSamples:
    """Where everything is once the shares are exchanged; handles and public numbers only.

    Rows are those of the clients' stores, unless `held` stands for others that stay at the clients
    and `encode` is the step that shares them out, as `party.encode_rows` does.
    """

    federation: Federation
    settings: Settings
    code: LagrangeCode
    system: ResidueSystem
    evaluators: tuple[str, ...]
    plan: Local
    public: PublicPlan
    hiding: PerClient[Sent] | None
    coded: PerClient[Local] | None  # at the evaluators; None until `encode_all`
    held: PerClient[Local] | None = None
    encode: Callable[..., Mapping[str, CodedRows]] | None = None

    @property
    def n_samples(self) -> int:
        """Number of samples of all clients."""
        return int(self.public.samples.sum())

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.public.n_features

    def hiding_at(self, names: Sequence[str]) -> PerClient[Sent | None]:
        """Return the hiding key's handles for some evaluators, or None for each."""
        return PerClient({name: self.hiding[name] if self.hiding else None for name in names})

    def coded_at(self, names: Sequence[str]) -> PerClient[Local]:
        """Return the handles of the coded samples at some evaluators."""
        assert self.coded is not None
        return PerClient({name: self.coded[name] for name in names})


def plan_run(federation: Federation, code: LagrangeCode, settings: Settings) -> CodedSamples:
    """Ask what the code must hold and choose scale and primes; nothing is encoded yet."""
    summaries = federation.ask(party.describe, max_abs=settings.max_abs)
    plan = federation.on_server(server.plan, summaries)
    public = federation.publish(server.public_plan, plan)
    system = choose_residues(
        radius=public.radius,
        n_features=public.n_features,
        tolerance=settings.tolerance,
        grids=public.grids,
        n_columns=code.n_columns(public.n_features),
        n_points=code.n_points,
    )
    evaluators = federation.clients[: code.n_evaluators]
    return CodedSamples(
        federation, settings, code, system, evaluators, plan, public, hiding=None, coded=None
    )


def encode_all(samples: CodedSamples) -> CodedSamples:
    """Have every client share out its rows, tile by tile, and the evaluators put them in order."""
    federation, evaluators = samples.federation, samples.evaluators
    hiding: PerClient[Sent] | None = None
    if samples.settings.hide_segments:
        leader = evaluators[0]
        drawn = federation.exchange(
            party.hiding_key, clients=[leader], receivers=evaluators, evaluators=evaluators
        )
        hiding = PerClient({name: drawn[name][leader] for name in evaluators})
    shares: dict[str, dict[str, list[Sent]]] = {
        name: {client: [] for client in federation.clients} for name in evaluators
    }
    for client, size in zip(federation.clients, samples.public.samples.tolist(), strict=True):
        for start in range(0, size, ENCODED_ROWS):
            parts = federation.exchange(
                samples.encode or party.encode_rows,
                *([samples.held] if samples.held else []),
                clients=[client],
                receivers=evaluators,
                start=start,
                stop=min(start + ENCODED_ROWS, size),
                code=samples.code,
                system=samples.system,
                evaluators=evaluators,
            )
            for name in evaluators:
                shares[name][client].append(parts[name][client])
    positions = federation.tell(server.row_positions, samples.plan, clients=evaluators)
    coded = federation.on_clients(
        party.assemble,
        PerClient(shares),
        positions,
        PerClient({name: hiding[name] if hiding else None for name in evaluators}),
        clients=evaluators,
    )
    _watch(federation, "sharing", [coded[name] for name in evaluators])
    return replace(samples, hiding=hiding, coded=coded)


def _watch(federation: Federation, stage: str, handles: Sequence[Local]) -> None:
    """Wait for handles one after the other, reporting how many are there."""
    for done in range(len(handles)):
        federation.report_progress(stage, done, len(handles))
        federation.wait(handles, count=done + 1)
    federation.report_progress(stage, len(handles), len(handles))


def _limits(samples: CodedSamples) -> tuple[dict[str, int | None], int | None, int | None]:
    limits = samples.federation.limits()
    known = [limits[n] for n in samples.evaluators if limits.get(n) is not None]
    return (
        {name: limits.get(name) for name in (*samples.evaluators, SERVER)},
        min((limit for limit in known if limit is not None), default=None),
        limits.get(SERVER),
    )


def stream_blocks(
    samples: CodedSamples,
    *,
    mode: str,
    n_neighbors: int | None = None,
    radius2: float | None = None,
    in_memory: bool = True,
) -> tuple[CodedSamples, Local, dict[str, str]]:
    """Compute all blocks that the server does not hold yet.

    Parameters
    ----------
    samples : CodedSamples
        As planned; encoded here if a block is missing at all.
    mode : {"full", "neighbours", "radius"}
        What the server keeps.
    n_neighbors, radius2 : int, float, optional
        For the two graphs.
    in_memory : bool
        Whether the server will read all distances at once in mode "full", else panel by panel.

    Returns
    -------
    samples : CodedSamples
        Encoded, unless the server held everything.
    tiles : Local
        The server's group of blocks, complete.
    dropped : dict of str to str
        Evaluators that were left out.

    Raises
    ------
    ResourceRefused
        When a party's memory or the server's disk cannot hold it; before anything is encoded.
    """
    federation, code, system = samples.federation, samples.code, samples.system
    workload = Workload(
        n_samples=samples.n_samples,
        n_features=samples.n_features,
        n_segments=code.n_segments,
        n_primes=len(system.primes),
        n_answers=code.n_evaluators,
        mode=mode,
        n_neighbors=n_neighbors,
        window=BLOCK_WINDOW,
        residue_bytes=np.dtype(system.dtype).itemsize,
        distance_bytes=8,
        in_memory="full" if mode == "full" and in_memory else "nothing",
    )
    limits, evaluator_limit, server_limit = _limits(samples)
    tile = samples.settings.tile or choose_tile(
        workload, evaluator_limit=evaluator_limit, server_limit=server_limit
    )
    disk = federation.publish(server.server_disk)
    check(needs(workload, tile), limits, free_disk=disk.free)
    grid = SymmetricGrid(samples.n_samples, tile)
    what = f"{mode}-{n_neighbors}-{radius2}-{tile}-{system.primes}-{system.scale!r}"
    name = f"{samples.public.problem:016x}-{hashlib.sha256(what.encode()).hexdigest()[:12]}"
    tiles = federation.on_server(
        server.open_tiles, name=name, grid=grid, n_neighbors=n_neighbors, radius2=radius2
    )
    missing = federation.publish(server.missing_blocks, tiles)
    # in squares of 4 x 4 blocks, so that an evaluator prepares a panel for several of them
    blocks = sorted(
        ((int(i), int(j)) for i, j in missing.blocks), key=lambda b: (b[0] // 4, b[1] // 4, b)
    )
    if not blocks:
        return samples, tiles, {}
    samples = encode_all(samples)
    common: dict[str, Any] = {"code": code, "system": system, "evaluators": samples.evaluators}

    def ask(block: tuple[int, int], names: Sequence[str]) -> PerClient[Sent]:
        return federation.ask(
            party.answer_block,
            samples.coded_at(names),
            samples.hiding_at(names),
            clients=names,
            i=block[0],
            j=block[1],
            grid=grid,
            engine=samples.settings.engine,
            **common,
        )

    def decode(block: tuple[int, int], answers: PerClient[Sent]) -> Sent:
        decoded: Sent = federation.publish(
            server.decode_block, tiles, answers, i=block[0], j=block[1], wait=False, **common
        )
        return decoded

    stream = AnswerStream(federation, code, samples.evaluators, ask, decode, window=BLOCK_WINDOW)
    total = sum(grid.shape(*block)[0] * grid.shape(*block)[1] for block in blocks)
    done = 0
    for block in stream.run(blocks):
        done += grid.shape(*block)[0] * grid.shape(*block)[1]
        federation.report_progress("distances", done, total)
    return samples, tiles, stream.dropped


def stream_columns(
    samples: CodedSamples,
    *,
    tolerance: float,
    on_status: Callable[[LandmarkStatus], None] = lambda status: None,
) -> tuple[CodedSamples, Local, dict[str, str]]:
    """Compute the columns of landmarks, round by round, until they span all samples.

    Parameters
    ----------
    samples : CodedSamples
        As planned.
    tolerance : float
        Largest squared distance to the landmarks' span, relative to the mean squared distance.
    on_status : callable
        Told how far the search is after every round.

    Returns
    -------
    samples : CodedSamples
        Encoded.
    embedding : Local
        The server's `LandmarkEmbedding`, converged.
    dropped : dict of str to str
        Evaluators that were left out.

    Raises
    ------
    ResourceRefused
        When a party's memory cannot hold it; before anything is encoded.
    """
    code, system = samples.code, samples.system
    need = landmark_needs(
        n_samples=samples.n_samples,
        n_features=samples.n_features,
        n_segments=code.n_segments,
        n_primes=len(system.primes),
        n_answers=code.n_evaluators,
        residue_bytes=np.dtype(system.dtype).itemsize,
        panel=COLUMN_ROWS,
        batch=LANDMARKS_A_ROUND,
        window=BLOCK_WINDOW,
        copies=COPIES_OF_COORDINATES,
    )
    check(need, _limits(samples)[0])
    samples = encode_all(samples)
    federation = samples.federation
    common: dict[str, Any] = {
        "code": code,
        "system": samples.system,
        "evaluators": samples.evaluators,
    }
    embedding = federation.on_server(server.start_landmarks, samples.plan, tolerance=tolerance)
    n = samples.n_samples
    panels = [(start, min(start + COLUMN_ROWS, n)) for start in range(0, n, COLUMN_ROWS)]
    dropped: dict[str, str] = {}
    number = 0
    while True:
        chosen = federation.tell(
            server.next_landmarks, embedding, count=LANDMARKS_A_ROUND, clients=samples.evaluators
        )
        columns: dict[tuple[int, int], Local] = {}

        def ask(
            panel: tuple[int, int],
            names: Sequence[str],
            chosen: Sent = chosen,
            number: int = number,
        ) -> PerClient[Sent]:
            return federation.ask(
                party.answer_columns,
                samples.coded_at(names),
                samples.hiding_at(names),
                chosen,
                clients=names,
                start=panel[0],
                stop=panel[1],
                turn=number,
                engine=samples.settings.engine,
                **common,
            )

        def decode(
            panel: tuple[int, int],
            answers: PerClient[Sent],
            columns: dict[tuple[int, int], Local] = columns,
            number: int = number,
        ) -> Sent:
            what = f"columns {number} of samples {panel[0]} to {panel[1]}"
            columns[panel] = federation.on_server(
                server.decode_columns, answers, what=what, **common
            )
            return federation.publish(server.decoded_columns, columns[panel], wait=False)

        stream = AnswerStream(
            federation,
            code,
            samples.evaluators,
            ask,
            decode,
            window=BLOCK_WINDOW,
            dropped=dropped,
        )
        for _ in stream.run(panels):
            pass
        embedding = federation.on_server(
            server.add_columns, embedding, chosen, [columns[panel] for panel in panels]
        )
        status = federation.publish(server.landmark_status, embedding)
        federation.report_progress("landmarks", status.n_landmarks, samples.n_features + 2)
        on_status(status)
        number += 1
        if status.converged:
            return samples, embedding, dropped


def stream_new(
    samples: CodedSamples, shared: PerClient[PerClient[Sent]], owner: str, panel: str
) -> list[Local]:
    """Compute the distances of all clustered samples to a panel of new ones.

    Parameters
    ----------
    samples : CodedSamples
        Encoded.
    shared : PerClient of PerClient of Sent
        Shares of the new samples, by evaluator and by owner.
    owner : str
        The client that holds them.
    panel : str
        Names them.

    Returns
    -------
    list of Local
        The server's `Columns`, one block of clustered samples after the other.
    """
    federation, code = samples.federation, samples.code
    common: dict[str, Any] = {
        "code": code,
        "system": samples.system,
        "evaluators": samples.evaluators,
    }
    n = samples.n_samples
    blocks = [(first, min(first + NEW_ROWS, n)) for first in range(0, n, NEW_ROWS)]
    columns: dict[tuple[int, int], Local] = {}

    def ask(block: tuple[int, int], names: Sequence[str]) -> PerClient[Sent]:
        return federation.ask(
            party.answer_new,
            samples.coded_at(names),
            samples.hiding_at(names),
            PerClient({name: shared[name][owner] for name in names}),
            clients=names,
            start=block[0],
            stop=block[1],
            panel=panel,
            engine=samples.settings.engine,
            **common,
        )

    def decode(block: tuple[int, int], answers: PerClient[Sent]) -> Sent:
        what = f"samples {block[0]} to {block[1]} and new samples of {owner}"
        columns[block] = federation.on_server(server.decode_columns, answers, what=what, **common)
        return federation.publish(server.decoded_columns, columns[block], wait=False)

    stream = AnswerStream(federation, code, samples.evaluators, ask, decode)
    for _ in stream.run(blocks):
        pass
    return [columns[block] for block in blocks]

"""Memory and disk that exact distances need of each party, and the refusal of what does not fit.

Letters: n samples, d features, l segments, r primes, K answers per block, b = tile,
k' = ceil(d / l) columns of a coded row.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from daskfc.checks import Constraint, check_params, integer, one_of, optional
from daskfc.errors import InvalidInput, ResourceRefused
from daskfc.federation.party.process_memory import PROCESS_BYTES, USABLE, fits
from daskfc.pairwise.grid import SymmetricGrid

COMFORT = 0.6  # of a limit, for tiles that are chosen by what is free
LARGEST_TILE = 2048  # 4.2 million pairs a task; larger ones save no time and cost memory
SMALLEST_TILE = 64  # below it a round trip through the scheduler costs more than the block

_STEP = 64
_SMALL = 4_000_000  # ours: Python objects, markers, codecs


@dataclass(frozen=True)
class Reader:
    """The clusterer that reads distances or their graph at the server, its memory and disk."""

    name: str = ""
    memory: int = 0  # bytes, including the distances, if it keeps them all
    disk: int = 0  # bytes

    @property
    def beside(self) -> str:
        """The part about it in a sentence on the distances."""
        return f", and {self.name} on them," if self.name else ""


NOBODY = Reader()
"""Or one that reads panels and keeps little of them."""


@dataclass(frozen=True)
class Workload:
    """One computation of all pairwise distances from coded shares."""

    n_samples: int
    n_features: int
    n_segments: int
    n_primes: int
    n_answers: int  # 2l + 2t - 1 and the spares
    mode: str
    n_neighbors: int | None = None
    window: int = 2
    residue_bytes: int = 1
    reader: Reader = NOBODY
    n_keys: int = 0  # evaluators that get the key of their share in place of it
    in_parts: bool = False  # samples lack columns, so that blocks are sums over parts of these

    def __post_init__(self) -> None:
        rules: dict[str, Constraint] = {
            "n_samples": integer(low=1),
            "n_features": integer(low=1),
            "n_segments": integer(low=1),
            "n_primes": integer(low=1),
            "n_answers": integer(low=1),
            "mode": one_of("full", "neighbours", "radius"),
            "n_neighbors": optional(integer(low=1)),
            "window": integer(low=1),
            "residue_bytes": one_of(1, 4),
            "n_keys": integer(low=0),
        }
        check_params("Workload", {name: getattr(self, name) for name in rules}, rules)
        if (self.mode == "neighbours") != (self.n_neighbors is not None):
            raise InvalidInput(
                f"the 'n_neighbors' parameter of Workload must be given with mode 'neighbours' and "
                f"with no other; got {self.n_neighbors!r} with mode {self.mode!r}."
            )
        if self.mode == "radius" and self.reader != NOBODY:
            raise InvalidInput(
                f"the 'reader' parameter of Workload must be left out with mode 'radius'; "
                f"got {self.reader!r}."
            )

    @property
    def n_columns(self) -> int:
        """Columns k' of a coded row."""
        return -(-self.n_features // self.n_segments)

    def __str__(self) -> str:
        what = {
            "full": "the exact distances",
            "neighbours": f"the exact graph of {self.n_neighbors} neighbours",
            "radius": "the exact radius graph",
        }[self.mode]
        size = f"{self.n_samples} samples with {self.n_features} features"
        return f"{what} of {size}{self.reader.beside}"


@dataclass(frozen=True)
class Needs:
    """Peak bytes that a computation needs of each evaluator, the server and its workers."""

    operation: str
    tile: int  # rows of a panel
    evaluator_bytes: int
    server_bytes: int
    server_disk_bytes: int
    wire_bytes: int  # of all shares and answers
    way_out: str = "lower the tile or the number of samples, or use distances='landmark'"
    worker_bytes: int = 0


def needs(workload: Workload, tile: int, decoders: int = 1) -> Needs:
    """Return what a computation needs with `tile` rows a panel; each more decoder adds a block."""
    w = workload
    grid = SymmetricGrid(w.n_samples, tile)
    n, b = w.n_samples, min(tile, w.n_samples)
    block = b * b
    share = w.n_primes * n * w.n_columns * w.residue_bytes  # all samples, of one evaluator
    answer = w.n_primes * block * w.residue_bytes
    # two panels in float64 with two columns of norms, a product and its reduction in float64,
    # the answer, the values that hide it, and its copy as it is sent; with more decoders, more
    # answers that wait for a slow one
    evaluating = 2 * b * (w.n_columns + 2) * 8 + 2 * block * 8 + (2 + decoders) * answer
    if w.in_parts:  # a part beside the sum, and the two of a prime as they are added
        evaluating += answer + 8 * block
    # the sum of the answers, the distances and their comparison or copy, each 8 bytes at most
    window = w.window + decoders - 1
    decoding = -(-window // decoders) * w.n_answers * answer + 3 * block * 8
    part, finding = _part(w, b)
    handed_back = (window - window // decoders) * part if decoders > 1 else 0
    held, disk = _server_state(w, grid)
    return Needs(
        operation=str(w),
        tile=tile,
        # shares arrive in parts and are put in order: twice their size for a moment
        evaluator_bytes=PROCESS_BYTES + _SMALL + share + max(share, evaluating),
        server_bytes=PROCESS_BYTES + _SMALL + max(decoding + handed_back + held[0], held[1]),
        server_disk_bytes=disk,
        # evaluators get every row's share (its own rows' too, which do not travel) or its key, and
        # all answer for every block
        wire_bytes=(w.n_answers - w.n_keys) * share
        + w.n_answers * w.n_primes * grid.n_entries * w.residue_bytes,
        worker_bytes=PROCESS_BYTES + _SMALL + decoding + finding + 2 * part,
    )


def _part(w: Workload, b: int) -> tuple[int, int]:
    """Return the bytes of a worker's result for a block, and of the search for it."""
    if w.mode == "full":
        return b * b * 8, 0
    if w.mode == "radius":
        return b * (-(-b // 8)), b * b
    k = w.n_neighbors
    assert k is not None
    return 2 * b * (min(k, b) * 12 + 4), _sorting(k, b)


def _sorting(k: int, b: int) -> int:
    # at most 2**16 + 2 k b entries a direction, in a few copies while they are sorted
    return 16_000_000 + (2**16 + 2 * k * b) * 128


def _server_state(w: Workload, grid: SymmetricGrid) -> tuple[tuple[int, int], int]:
    """Return the server's memory while blocks arrive and after the last, and its disk."""
    n, b, panels = w.n_samples, min(grid.tile, w.n_samples), grid.n_panels
    if w.mode == "full":
        after = max(b * n * 8, w.reader.memory)
        # a chunk is written whole, at the lower and right edge too
        disk = grid.n_blocks * b * b * 8 + w.reader.disk
        # a block as it is read, compressed, as it comes out and in its place; and the one before
        return (b * b * 8, after + 4 * b * b * 8), disk
    if w.mode == "radius":
        cell = b * (-(-b // 8))
        # a bit and a byte a pair; then a part of 2**18 pairs as row and column numbers, twice
        return (b * b + cell, b * b + cell + 2**18 * 40), grid.n_blocks * cell
    k = w.n_neighbors
    assert k is not None
    cell = b * min(k, b) * 16
    state, graph = n * k * 16, n * k * 12
    sorting = _sorting(k, b)
    # lists of neighbours stay while the graph is made; a few pieces are unpacked at a time
    after = max(state + graph + 6 * cell, graph + w.reader.memory)
    return (state + sorting + 6 * cell, after), panels * panels * cell


def _gb(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.2f} GB"


def check(
    need: Needs,
    memory: Mapping[str, int | None],
    *,
    server: str = "server",
    free_disk: int | None = None,
) -> None:
    """Raise ResourceRefused above `USABLE` of a limit in `memory`, or above the free disk."""
    for party, limit in memory.items():
        needed = need.server_bytes if party == server else need.evaluator_bytes
        if not fits(needed, limit):
            assert limit is not None
            raise ResourceRefused(
                f"{need.operation} would take {_gb(needed)} of memory at party {party!r} with "
                f"tiles of {need.tile} rows, more than the {_gb(USABLE * limit)} it may use "
                f"({USABLE:.0%} of its limit of {_gb(limit)}). Raise its memory limit, "
                f"{need.way_out}."
            )
    if free_disk is not None and need.server_disk_bytes > free_disk:
        raise ResourceRefused(
            f"{need.operation} would take {_gb(need.server_disk_bytes)} of disk at party "
            f"{server!r}, more than the {_gb(free_disk)} that are free. Free some, choose another "
            f"folder, or use distances='landmark'."
        )


def choose_tile(
    workload: Workload, *, evaluator_limit: int | None = None, server_limit: int | None = None
) -> int:
    """Return the largest tile within 60 % of all limits, else the cheapest usable, or refuse.

    It is a multiple of 64 in [64, 2048], not above the next multiple after the number of samples.
    """
    top = min(LARGEST_TILE, -(-workload.n_samples // _STEP) * _STEP)
    limits = {"an evaluator": evaluator_limit, "server": server_limit}
    best, least = SMALLEST_TILE, float("inf")
    for tile in range(top, SMALLEST_TILE - 1, -_STEP):
        need = needs(workload, tile)
        share = max(
            need.evaluator_bytes / evaluator_limit if evaluator_limit else 0.0,
            need.server_bytes / server_limit if server_limit else 0.0,
        )
        if share <= COMFORT:
            return tile
        if share < least:
            best, least = tile, share
    check(needs(workload, best), limits)
    return best

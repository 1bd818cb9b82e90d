"""Blocks of all distances: evaluators answer, the server and its workers decode."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from daskfc.federation import SERVER, Federation, Local, PerClient, Sent
from daskfc.pairwise import SymmetricGrid
from daskfc.secure.distances.parties import party, server
from daskfc.secure.distances.parties.messages import CodedDistances, DecodedBlock
from daskfc.secure.distances.parties.server import RowPlan, Tiles
from daskfc.secure.distances.routes import divided
from daskfc.secure.distances.routes.evaluation import WINDOW, Evaluation

Block = tuple[int, int]


def compute_blocks(
    federation: Federation,
    evaluation: Evaluation,
    tiles: Local[Tiles],
    blocks: Sequence[Block],
    *,
    grid: SymmetricGrid,
    decoders: Sequence[str],
    n_neighbors: int | None,
    radius2: float | None,
    plan: Local[RowPlan] | None = None,
) -> None:
    """Have `blocks` evaluated, in this order, and decoded into the server's `tiles`.

    The server needs the `plan` of samples that lack columns, and decodes their blocks alone.

    Decoders (the server and its workers) take turns; each gets the answers to its own blocks only.
    """
    decoder = dict(zip(blocks, cycle(decoders), strict=False))
    part, asked = divided.block_part(n_neighbors, radius2)
    coding = evaluation.coding
    planned: dict[str, Any] = {} if plan is None else {"plan": plan}

    def ask(block: Block, names: Sequence[str]) -> PerClient[Sent[CodedDistances]]:
        place: dict[str, Any] = {"i": block[0], "j": block[1], "grid": grid}
        return evaluation.answers(party.answer_block, names, receiver=decoder[block], **place)

    def decode(block: Block, answers: PerClient[Sent]) -> Sent[DecodedBlock]:
        worker = decoder[block]
        place: dict[str, Any] = {"i": block[0], "j": block[1]}
        sent: Sent[DecodedBlock]
        if worker == SERVER:
            sent = federation.publish(
                server.decode_block, tiles, answers, **planned, **place, wait=False, **coding
            )
            return sent
        parts = federation.hand_back(
            part, PerClient({worker: answers}), workers=[worker], **place, **asked, **coding
        )
        sent = federation.publish(
            divided.keep_part, tiles, parts[worker], **place, system=coding["system"], wait=False
        )
        return sent

    total = sum(grid.shape(*block)[0] * grid.shape(*block)[1] for block in blocks)
    done = 0
    window = WINDOW + len(decoders) - 1  # each further one decodes a block
    for block in evaluation.stream(ask, decode, window).run(blocks):
        done += grid.shape(*block)[0] * grid.shape(*block)[1]
        federation.report_progress("distances", done, total, "blocks")

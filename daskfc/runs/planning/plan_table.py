"""Print a plan as tables in a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from daskfc.federation.messages.declaration import CALLER
from daskfc.runs.planning.plan import LEFT_OUT, Plan, Planned
from daskfc.runs.report.table import message_rows, noise_in_words, seconds_in_words, titled_table

_ROWS = 24  # ours: parties that have a line in a terminal


def print_plan(found: Plan, console: Console) -> None:
    """Print a plan on a rich console."""
    total = sum(found.n_samples.values())
    seeds = len(found.pipeline.seeds)
    console.print(
        Text.assemble(
            (found.pipeline.method, "bold"),
            f" on {total:,} rows of {len(found.n_samples)} clients, {seeds} seed{'s' * (seeds > 1)}"
            f", {decimal(int(found.network.bandwidth))}/s and {found.network.latency * 1000:g} ms. "
            "Nothing has run.\n",
        )
    )
    console.print(_overview(found))
    own = found.of(found.pipeline.method)
    for part in found.parts:
        if part.refused or part.too_large:
            console.print(Text(f"{part.refused or part.too_large}\n", style="bold"))
    if not own.refused:
        console.print(_messages(own))
        console.print(_parties(own, found.limits))
        _print_words(own, console)
    console.print(Text(LEFT_OUT))


def _overview(found: Plan) -> Table:
    table = titled_table(
        "What a run would do", "part", "fits", "rounds", "in a row", "messages", "payload",
        "on the wire", "network",
    )  # fmt: skip
    for part in found.parts:
        if part.refused:
            table.add_row(Text(part.name), f"{part.fits:,}", *["refused"] * 6)
            continue
        moved = part.communication
        least = "≤ " if any(one.at_most for one in part.assumptions) else ""
        about = least or ("~ " if part.assumptions else "")
        table.add_row(
            Text(part.name), f"{part.fits:,}", f"{about}{part.rounds:,}", f"{about}{part.delays:,}",
            f"{about}{moved['messages']:,}", f"{about}{decimal(moved['payload_bytes'])}",
            f"{about}{decimal(moved['wire_bytes'])}", f"{about}{seconds_in_words(part.seconds)}",
        )  # fmt: skip
    return table


def _messages(part: Planned) -> Table:
    kinds = message_rows(part.communication)[:-1]
    return titled_table(
        f"What would leave a party in one fit of {part.name}, and what it tells",
        "message", "route", "protection", "reveals", "count", "on the wire",
        rows=[[*row[:5], row[6]] for row in kinds], right_from=4,
    )  # fmt: skip


def _parties(part: Planned, limits: Mapping[str, int | None]) -> Table:
    table = titled_table(
        "What each party would send, get and hold", "party", "sends", "gets", "memory", "of"
    )
    table.add_column("for")
    sent, got = (part.ledger.groupby(end)["wire_bytes"].sum() for end in ("sender", "receiver"))
    names = [*limits, CALLER]
    for name in names[:_ROWS]:
        needed, what = part.memory.get(name, (0, ""))
        limit = limits.get(name)
        table.add_row(
            Text(name), decimal(int(sent.get(name, 0))), decimal(int(got.get(name, 0))),
            decimal(needed) if needed else "", decimal(limit) if limit else "", Text(what),
        )  # fmt: skip
    if len(names) > _ROWS:
        table.add_row(f"and {len(names) - _ROWS} more; --json has all", "", "", "", "", "")
    return table


def _print_words(part: Planned, console: Console) -> None:
    for one in part.assumptions:
        kind = "At most" if one.at_most else "Assumed"
        value = f"{one.value:g}" if one.value < float("inf") else "as many as there may be"
        console.print(Text(f"{kind}: {one.what}: {value}."))
    for what, chosen in part.choices.items():
        console.print(Text(f"Chosen {what}: {chosen}"))
    if part.privacy:
        console.print(Text(f"Privacy: {part.privacy}"))
    if part.noise:
        noise: dict[str, Any] = {"fits": 1, **part.noise}
        console.print(Text(f"Noise: {noise_in_words(noise)}"))
    console.print()

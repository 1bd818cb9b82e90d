"""``daskfc audit``."""

import dataclasses
import json
import re
import sys

import click

from daskfc.cli.terminal.exits import FAILED, exits
from daskfc.cli.terminal.output import print_table
from daskfc.errors import InvalidInput
from daskfc.runs import Audit
from daskfc.runs import audit as audited

_SHOWN = 20  # sentences of a kind
_KEY = re.compile(r"[0-9a-fA-F]{64}")


def _pairs(option: str, what: str, given: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in given:
        name, _, value = one.partition("=")
        if not name or not value:
            raise InvalidInput(f"{option} must be NAME={what}; got {one!r}. Correct it.")
        found.setdefault(name, []).append(value)
    return found


def _keys(given: tuple[str, ...]) -> dict[str, str]:
    found = _pairs("--key", "HEX", given)
    for name, values in found.items():
        if len(values) > 1 or not _KEY.fullmatch(values[0]):
            raise InvalidInput(
                f"--key must give one key of 64 hexadecimal digits for {name}; got "
                f"{', '.join(values)}. Correct it."
            )
    return {name: values[0] for name, values in found.items()}


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path())
@click.option(
    "--ledger", "ledgers", multiple=True, metavar="NAME=FILE",
    help="A party's ledger.jsonl, or the folder of its --workspace; for every site.",
)  # fmt: skip
@click.option(
    "--key", "keys", multiple=True, metavar="NAME=HEX",
    help="The public key that was agreed on for a party.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
def audit(run_folder: str, ledgers: tuple[str, ...], keys: tuple[str, ...], as_json: bool) -> None:
    """Check that the parties' ledgers of RUN are whole, and agree on what was sent.

    Each ledger must be a chain of lines that its party signed, and every message that one party
    sent must be what the other received, bit for bit. The folder of a run on this machine has all
    ledgers; sites hand over theirs.

    Exit codes: 0 no finding; 1 findings; 2 bad input.

    \b
    Example:
      daskfc audit runs/a --ledger hospital-a=a.jsonl --ledger server=server.jsonl
    """  # noqa: D301 - click reads \b
    with exits():
        found = audited(run_folder, ledgers=_pairs("--ledger", "FILE", ledgers), keys=_keys(keys))
    if as_json:
        told = {**dataclasses.asdict(found), "holds": found.holds}
        click.echo(json.dumps(told, ensure_ascii=False))
    else:
        _print(found)
    if not found.holds:
        sys.exit(FAILED)


def _print(found: Audit) -> None:
    rows = []
    for party in found.parties:
        counts = (party.files, party.lines, party.sent, party.received)
        keys = ", ".join(key[:16] or "none" for key in party.keys) or "none"
        rows.append([party.name, *(f"{count:,}" for count in counts), keys])
    print_table(("party", "ledgers", "lines", "sent", "received", "keys"), rows)
    for kind, sentences in (("Note", found.notes), ("Found", found.findings)):
        for sentence in sentences[:_SHOWN]:
            click.echo(f"{kind}: {sentence}")
        if len(sentences) > _SHOWN:
            click.echo(f"{kind}: {len(sentences) - _SHOWN:,} more, which --json prints.")
    count = len(found.findings)
    held = "All ledgers are whole, and agree."
    click.echo(held if not count else f"{count:,} finding{'' if count == 1 else 's'}.")

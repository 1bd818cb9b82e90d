"""``daskfc methods``: what a pipeline may name."""

import inspect

import click
from rich import box
from rich.table import Table
from rich.text import Text
from sklearn.base import BaseEstimator

from daskfc.cli.output import stdout_console
from daskfc.runs import known_methods
from daskfc.runs.promises import paper_of, privacy_of

__all__ = ["methods"]


_CLIENTS_HOLD = {
    "samples": "For clients that hold different samples.",
    "columns": "For clients that hold columns of the same samples.",
    "views": "For clients that hold views: columns of their own, of samples they share in part.",
}


def _parameters(kind: type[BaseEstimator]) -> str:
    words = []
    for name, parameter in inspect.signature(kind).parameters.items():
        if name == "random_state":
            continue  # the pipeline's seeds
        default = parameter.default
        needed = default is inspect.Parameter.empty
        words.append(name if needed else f"{name}={default!r}")
    return ", ".join(words)


def _first_sentence(kind: type[BaseEstimator]) -> str:
    return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")


@click.command()
def methods() -> None:
    """List the methods that a pipeline's 'method' and 'compare' may name.

    For each: its paper, what its clients hold, what it promises or reveals, and its parameters with
    their defaults.
    """
    table = Table(box=box.SIMPLE_HEAD, show_lines=True, title_justify="left")
    table.add_column("method", no_wrap=True)
    table.add_column("paper")
    table.add_column("what it does and what it promises")
    table.add_column("parameters")
    for name, kind in known_methods().items():
        told = (_first_sentence(kind), _CLIENTS_HOLD[kind.split], privacy_of(kind))
        promise = " ".join(part for part in told if part)
        table.add_row(
            Text(name, style="bold"),
            Text(paper_of(kind)),
            Text(promise),
            Text(_parameters(kind)),
        )
    stdout_console().print(table)

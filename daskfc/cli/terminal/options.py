"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def options(*given: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options, and arguments, to a command in their order."""

    def added(command: F) -> F:
        """Add to a command its options."""
        for one in reversed(given):
            command = one(command)
        return command

    return added


of_a_run = options(
    click.argument("pipeline", type=click.Path()),
    click.option(
        "--storage", type=click.Path(), help="Whose data: a storage file (storage/*.yaml)."
    ),
    click.option(
        "--cluster",
        type=click.Path(),
        help="Where: a cluster file (cluster-configs/*.yaml). Default: processes on this machine.",
    ),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change the pipeline: a dotted key and a YAML value, e.g. params.n_clusters=7 or "
        "'seeds=[0, 1]'. May be given several times.",
    ),
)
"""Adds to a command the pipeline, storage and cluster of a run, and ``--set``."""

"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["of_a_run"]

F = TypeVar("F", bound=Callable[..., Any])

_WHAT = (
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


def of_a_run(command: F) -> F:
    """Add to a command the pipeline, storage and cluster of a run, and ``--set``."""
    for add in reversed(_WHAT):
        command = add(command)
    return command

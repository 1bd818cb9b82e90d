"""The command line: ``daskfc init``, ``run``, ``resume``, ``labels``, ``party`` and others."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import click

__all__ = ["main"]

# By command its module, imported when it is called, and its line in ``--help``: the first sentence
# of its own docstring.
_COMMANDS: Mapping[str, tuple[str, str]] = {
    "audit": (
        "audit",
        "Check that the parties' ledgers of RUN are whole, and agree on what was sent.",
    ),
    "budget": (
        "sites.budget",
        "Show what noisy releases of a site's data cost in all runs, and grant more.",
    ),
    "card": (
        "runs",
        "Write card.html of RUN: one page about a run for a data protection officer.",
    ),
    "certs": (
        "sites.certs",
        "Certificates for TLS between sites, where there is no authority that issues them.",
    ),
    "compare": (
        "compare",
        "Print runs side by side: what differs, scores, clusters, bytes and seconds.",
    ),
    "demo": (
        "demo",
        "Cluster the patients of three hospitals, which are made up, and show the report.",
    ),
    "init": ("init", "Write the YAML files of an example into FOLDER, this one by default."),
    "labels": (
        "sites.labels",
        "Give this site the clusters of its own samples, under its own ids.",
    ),
    "methods": (
        "methods",
        "List the methods that a pipeline's 'method' and 'compare' may name, or explain NAME.",
    ),
    "new": (
        "sites.new",
        "Make a federation out of the list FILE: an authority, and a folder for each party.",
    ),
    "party": (
        "sites.party",
        "Start the worker of the party NAME and serve runs until it is stopped.",
    ),
    "plan": ("plan", "Tell what 'daskfc run' of PIPELINE would do, and start nothing."),
    "policy": (
        "sites.policy",
        "Say what a site takes part in: a file at the site, which no submitter can loosen.",
    ),
    "predict": (
        "sites.labels",
        "Label new samples by the model of RUN, a run's folder, without clustering again.",
    ),
    "report": ("runs", "Write report.html of RUN, a run's folder, and print its tables."),
    "resume": ("runs", "Continue RUN, the folder of a run that was interrupted or failed."),
    "run": ("runs", "Run the method that PIPELINE names, on a storage and a cluster."),
    "runs": (
        "status",
        "List the runs of a folder, the newest first: what became of them, scores and costs.",
    ),
    "scheduler": (
        "sites.scheduler",
        "Start the scheduler of a federation, and serve until it is stopped.",
    ),
    "status": (
        "status",
        "Tell what became of RUN, a run's folder, so far: while it runs, its stage and what is "
        "left.",
    ),
    "stores": (
        "stores",
        "Make, list and check clients' stores, one by one or all that a storage file names.",
    ),
}

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Begin": ("demo", "init", "methods", "stores", "plan", "run"),
    "Runs": ("runs", "status", "resume", "report", "compare", "predict", "labels"),
    "Privacy": ("card", "audit", "policy", "budget"),
    "Sites": ("new", "certs", "scheduler", "party"),
}


class _Commands(Mapping[str, click.Command]):
    """Commands, each imported when it is called: importing all of them takes seconds."""

    def __getitem__(self, name: str) -> click.Command:
        command = getattr(importlib.import_module(f"{__name__}.{_COMMANDS[name][0]}"), name)
        assert isinstance(command, click.Command)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Group(click.Group):
    """A group that lists its commands without importing them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, _COMMANDS[name][1]) for name in names], col_max=12)


@click.group(
    cls=_Group,
    commands=cast(Any, _Commands()),  # a mapping that nobody changes
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="daskfc", prog_name="daskfc")
def main() -> None:
    """Cluster data that may not be pooled.

    Each client's data stays in its own store, handled by its own worker; only declared messages
    leave a client, and every one of them is counted.

    Exit codes: 0 done; 1 failed after it started (resumable when the last line says so); 2 bad
    input, nothing was started; 75 nothing was started, and the same may succeed later: a scheduler
    or a party is away or busy, or another process carries out the run.
    """

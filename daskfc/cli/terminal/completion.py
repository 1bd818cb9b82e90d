"""What a shell completes of a command, without importing it, which takes seconds."""

import os
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click
from click.shell_completion import CompletionItem

_OF_RUNS = {"audit", "card", "compare", "labels", "predict", "report", "resume", "status"}
_METHODS = (
    "AGC", "CE-PCA", "central", "DSC", "ESFMC", "FederatedGaussianMixture",
    "FederatedKernelKMeans", "FederatedKMeans", "FedMAvg", "FedSC", "FFCM", "GCC", "joined-views",
    "k-FED", "kCAGC", "MUFC", "OmniFC", "one-view", "RFK-k-means",
)  # fmt: skip


def is_completing() -> bool:
    """Return whether a shell asks what a word may become."""
    return bool(os.environ.get("_DASKFC_COMPLETE"))


class StandIn(click.Command):
    """A command that completes words by itself: runs, methods, files; `load` gives its options."""

    def __init__(self, name: str, load: Callable[[], click.Command]) -> None:
        words = click.Argument(["words"], nargs=-1, shell_complete=partial(_completed, name))
        super().__init__(name, params=[words], context_settings={"ignore_unknown_options": True})
        self._load = load

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the options of the command itself."""
        command = self._load()
        own = command.make_context(self.name, [], parent=ctx.parent, resilient_parsing=True)
        return command.shell_complete(own, incomplete)


def _completed(
    name: str, ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return what the word of a command that is not an option may be."""
    last = next(reversed(ctx.params.get("words") or ()), "")
    found: list[str] = []
    if name == "methods":
        found = [one for one in _METHODS if one.casefold().startswith(incomplete.casefold())]
    elif last == "--since" or (name in _OF_RUNS and (last == "--json" or last[:2] != "--")):
        found = list(_runs(incomplete))
    items = [CompletionItem(one) for one in found]
    return items or [CompletionItem(incomplete, type="file")]


def _runs(incomplete: str) -> Iterator[str]:
    """Yield the folders of runs, in ``runs`` by default, whose names begin so; the newest first."""
    folder, begins = os.path.split(incomplete)
    found = Path(folder or "runs").glob("*/run.json")
    for file in sorted(found, key=lambda one: one.stat().st_mtime, reverse=True):
        run = str(file.parent)
        # a shell would put in other names without quotes; files that it completes itself have them
        plain = shlex.quote(run) == run
        if plain and (run.startswith(incomplete) or file.parent.name.startswith(begins)):
            yield run

"""The command line: ``daskfc init``, ``run``, ``resume``, ``labels``, ``party`` and others."""

import ast
import atexit
import gc
import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from daskfc.cli.terminal.completion import StandIn, is_completing

__all__ = ["main"]

atexit.register(gc.freeze)  # to look for garbage in what was imported takes a third of a second

# By command its module, which is imported when the command is called.
_MODULES: Mapping[str, str] = {
    **{
        name: name
        for name in ("audit", "compare", "demo", "init", "methods", "plan", "stores", "suggest")
    },
    **dict.fromkeys(("card", "report", "resume", "run"), "runs"),
    **dict.fromkeys(("runs", "status"), "status"),
    **{one: f"sites.{one}" for one in ("budget", "certs", "new", "party", "policy", "scheduler")},
    **dict.fromkeys(("labels", "predict"), "sites.labels"),
}

_WITH_COMMANDS = {"budget", "certs", "policy", "stores"}
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Begin": ("demo", "init", "methods", "stores", "suggest", "plan", "run"),
    "Runs": ("runs", "status", "resume", "report", "compare", "predict", "labels"),
    "Privacy": ("card", "audit", "policy", "budget"),
    "Sites": ("new", "certs", "scheduler", "party"),
}


def _first_sentence(name: str) -> str:
    """Return how a command's documentation begins, by its source."""
    module = f"{__name__}.{_MODULES[name]}"
    spec = importlib.util.find_spec(module)
    source = cast(Any, spec).loader.get_source(module)
    (found,) = (one for one in ast.parse(source).body if getattr(one, "name", "") == name)
    told = ast.get_docstring(cast(ast.FunctionDef, found)) or ""
    return " ".join(told.partition("\n\n")[0].split())


def _load_early(words: list[str]) -> None:
    """Let what workers are forked from load while a command does, if its words say it needs them.

    It is a guess: the command itself reads its words.
    """
    if words[:1] not in (["run"], ["demo"]) or {"-h", "--help"} & {*words}:
        return
    clusters = [word.partition("=")[2] for word in words if word.startswith("--cluster=")]
    clusters += [after for word, after in pairwise(words) if word == "--cluster"]
    spawn = importlib.import_module("daskfc.deploy.processes.spawn")
    spawn.load_early(clusters[-1] if clusters else None)


class _Commands(Mapping[str, click.Command]):
    """Commands, each imported when it is called: importing all of them takes seconds."""

    def __getitem__(self, name: str) -> click.Command:
        collects = gc.isenabled()
        gc.disable()  # what is imported lasts
        try:
            command = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        finally:
            if collects:
                gc.enable()
        assert isinstance(command, click.Command)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class _Group(click.Group):
    """A group that lists and completes its commands without importing them."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; to a shell that completes, what stands in for it."""
        if is_completing() and cmd_name in {*_MODULES} - _WITH_COMMANDS:
            return StandIn(cmd_name, lambda: self.commands[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, which is imported; workers may need what takes as long."""
        if not is_completing():
            _load_early(args)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that a word may become, or the options."""
        found = [name for name in sorted(_MODULES) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=_first_sentence(name)) for name in found]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, _first_sentence(name)) for name in names], col_max=12)


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

"""``daskfc run``, ``daskfc resume``, ``daskfc report``, ``daskfc card``."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from daskfc.cli.terminal.ending import told_of_the_end
from daskfc.cli.terminal.exits import exits, signals_as_interrupt
from daskfc.cli.terminal.options import of_a_run
from daskfc.cli.terminal.output import stdout_console
from daskfc.cli.terminal.progress import shown_progress
from daskfc.errors import InvalidInput
from daskfc.runs import Run, RunFailed, prepare, print_summary, remove_old_runs
from daskfc.runs.execution.scheduled import (
    changed_settings,
    check_keep,
    find_or_prepare,
    finish,
    name_of_key,
)
from daskfc.runs.outcome.alerts import check_target

_JSON = click.option(
    "--json", "as_json", is_flag=True,
    help="Print the summary as one JSON object on standard output, all else on standard error.",
)  # fmt: skip


def _print(run: Run, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(run.summary, ensure_ascii=False))
    else:
        print_summary(run.summary, run.folder, stdout_console())


def _print_broken_off(run: Run, as_json: bool) -> None:
    if as_json:
        with suppress(InvalidInput):  # its folder is gone
            _print(run, as_json)


def _carry_out(run: Run, as_json: bool, *, or_is_done: bool = False) -> None:
    with exits(run=run), signals_as_interrupt():
        try:
            with shown_progress() as progress:
                (finish if or_is_done else Run.resume)(run, progress=progress)
        except RunFailed:
            _print_broken_off(run, as_json)
            raise
        except KeyboardInterrupt:
            if run.status != "done":  # else nothing was left to interrupt
                _print_broken_off(run, as_json)
                raise
        _print(run, as_json)


@click.command()
@of_a_run
@click.option(
    "--runs-dir", default="runs", show_default=True, type=click.Path(),
    help="Folder that holds the runs' folders.",
)  # fmt: skip
@click.option("--name", help="The run's name and its folder's. Default: pipeline, storage, time.")
@click.option(
    "--run-key",
    metavar="KEY",
    help="In place of --name: {date} in it is today, {hour} this hour, e.g. nightly-{date}.",
)
@click.option(
    "--resume-or-start",
    is_flag=True,
    help="Resume the key's run where it broke off, and do nothing where it is done.",
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Remove the key's older runs but N; never one that could be resumed.",
)
@click.option(
    "--notify",
    "targets",
    multiple=True,
    metavar="TARGET",
    help="Command or https:// address that is told how it ended, as JSON. May be given again.",
)
@click.option(
    "--since", metavar="RUN", type=click.Path(),
    help="Folder of an earlier run: summary and report tell what changed since.",
)  # fmt: skip
@_JSON
def run(
    pipeline: str,
    name: str | None,
    run_key: str | None,
    resume_or_start: bool,
    keep: int | None,
    targets: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Run the method that PIPELINE names, on a storage and a cluster.

    Stores that do not exist yet are built first. The result is a table here, and a folder with the
    labels, the ledger of all messages, summary.json and report.html.

    With --run-key and --resume-or-start a timer may repeat the call: there is one run per key.

    \b
    Examples:
      daskfc run pipelines/omnifc.yaml --storage storage/digits.yaml \\
                 --cluster cluster-configs/local.yaml --set params.n_clusters=10
      daskfc run pipelines/omnifc.yaml --storage storage/digits.yaml \\
                 --run-key 'nightly-{date}' --resume-or-start --keep 30
    """  # noqa: D301 - click reads \b
    # Signals are handled from here to the end, also between the parts: see `serves_until_told`.
    with told_of_the_end() as ending, exits(), signals_as_interrupt():
        with shown_progress() as progress:
            _check_schedule(name, run_key, resume_or_start, keep)
            for target in targets:
                check_target(target)
            ending.targets = targets
            if run_key is not None:
                ending.of_key(given["runs_dir"], name_of_key(run_key, datetime.now()))
            if run_key is not None and resume_or_start:
                found = find_or_prepare(pipeline, run_key=run_key, progress=progress, **given)
            else:
                if run_key is not None:
                    name = name_of_key(run_key, datetime.now())
                found = prepare(pipeline, name=name, run_key=run_key, progress=progress, **given)
            ending.of(found)
            _note(found, pipeline, given["overrides"])
        _carry_out(found, as_json, or_is_done=resume_or_start)
        if run_key is not None and keep is not None:
            remove_old_runs(given["runs_dir"], run_key, keep)


def _check_schedule(
    name: str | None, run_key: str | None, resume_or_start: bool, keep: int | None
) -> None:
    if run_key is not None and name is not None:
        raise InvalidInput("--name and --run-key both name the run. Give one of them.")
    if run_key is None and (resume_or_start or keep is not None):
        raise InvalidInput(
            "--resume-or-start and --keep are of the runs of a key. Add --run-key, for example "
            "--run-key 'nightly-{date}'."
        )
    if run_key is not None and keep is not None:
        check_keep(run_key, keep)


def _note(found: Run, pipeline: str, overrides: Sequence[str]) -> None:
    """Print notes on the run before it starts."""
    notes = list(found.config.get("warnings", ()))
    if found.config.get("started"):
        changed = changed_settings(found, pipeline, overrides)
        notes += [] if changed is None else [changed]
    for note in notes:
        click.echo(f"Note: {note}", err=True)


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path())
@_JSON
def resume(run_folder: str, as_json: bool) -> None:
    """Continue RUN, the folder of a run that was interrupted or failed.

    Finished fits are kept, and the labels are those of an uninterrupted run. A run that is done is
    refused.
    """
    with exits():
        found = Run(run_folder)
    _carry_out(found, as_json)


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path())
@click.option("--title", metavar="TEXT", help="What the page is called, now and later.")
@_JSON
def report(run_folder: str, title: str | None, as_json: bool) -> None:
    """Write report.html of RUN, a run's folder, and print its tables.

    Works for runs that failed as well: the report then says how far they got.
    """
    with exits():
        found = Run(run_folder)
        path = found.write_report(title=title)
        _print(found, as_json)
        click.echo(f"report: {path}", err=as_json)


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path())
@click.option("--title", metavar="TEXT", help="What the page is called, now and later.")
@click.option("--purpose", metavar="TEXT", help="What the run is for, in a sentence; it is kept.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
def card(run_folder: str, title: str | None, purpose: str | None, as_json: bool) -> None:
    """Write card.html of RUN: one page about a run for a data protection officer.

    Purpose, sites, rules, messages, privacy loss, who learned what, versions and digests, from the
    run's folder alone. The run must be done.
    """
    with exits():
        found = Run(run_folder)
        path = found.write_card(title=title, purpose=purpose)
        if as_json:
            click.echo(json.dumps(found.card, ensure_ascii=False))
        click.echo(f"card: {path}", err=as_json)

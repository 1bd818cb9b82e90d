"""``daskfc run``, ``daskfc resume``, ``daskfc report``."""

import json
from contextlib import suppress

import click

from daskfc.cli.exits import exits, signals_as_interrupt
from daskfc.cli.options import of_a_run
from daskfc.cli.output import stdout_console
from daskfc.cli.progress import shown_progress
from daskfc.errors import InvalidInput
from daskfc.runs import Run, RunFailed, prepare, print_summary

__all__ = ["report", "resume", "run"]

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


def _carry_out(run: Run, as_json: bool) -> None:
    with exits(run=run), signals_as_interrupt():
        try:
            with shown_progress() as progress:
                run.resume(progress=progress)
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
    "--since", metavar="RUN", type=click.Path(),
    help="Folder of an earlier run: summary and report tell what changed since.",
)  # fmt: skip
@_JSON
def run(
    pipeline: str,
    storage: str | None,
    cluster: str | None,
    overrides: tuple[str, ...],
    runs_dir: str,
    name: str | None,
    since: str | None,
    as_json: bool,
) -> None:
    """Run the method that PIPELINE names, on a storage and a cluster.

    Stores that do not exist yet are built first. The result is a table here, and a folder with the
    labels, the ledger of all messages, summary.json and report.html.

    \b
    Example:
      daskfc run pipelines/omnifc.yaml --storage storage/digits.yaml \\
                 --cluster cluster-configs/local.yaml --set params.n_clusters=10
    """  # noqa: D301 - click reads \b
    with exits(), signals_as_interrupt(), shown_progress() as progress:
        prepared = prepare(
            pipeline,
            storage=storage,
            cluster=cluster,
            overrides=overrides,
            runs_dir=runs_dir,
            name=name,
            since=since,
            progress=progress,
        )
    for warning in prepared.config.get("warnings", ()):
        click.echo(f"Note: {warning}", err=True)
    _carry_out(prepared, as_json)


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path())
@_JSON
def resume(run_folder: str, as_json: bool) -> None:
    """Continue RUN, the folder of a run that was interrupted or failed.

    What was done is kept, and the labels are those that the run would have had without the
    interruption. A run that is done is refused.
    """
    with exits():
        found = Run(run_folder)
    _carry_out(found, as_json)


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path())
@_JSON
def report(run_folder: str, as_json: bool) -> None:
    """Write report.html of RUN, a run's folder, and print its tables.

    Works for runs that failed as well: the report then says how far they got.
    """
    with exits():
        found = Run(run_folder)
        path = found.write_report()
        _print(found, as_json)
        click.echo(f"report: {path}", err=as_json)

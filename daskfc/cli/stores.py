"""``daskfc stores add|append|build|inspect|check``."""

from collections.abc import Callable, Sequence
from typing import Any

import click
from rich import box
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from daskfc.cli.terminal.exits import exits
from daskfc.cli.terminal.output import stdout_console
from daskfc.cli.terminal.progress import shown_progress
from daskfc.errors import InvalidInput
from daskfc.stores import ClientStore, add_store, append_store, load_storage
from daskfc.stores.layout.spelling import words_apart
from daskfc.stores.store.ranges import column_warnings

__all__ = ["stores"]

_STORAGE = click.argument("storage", type=click.Path())
_ROOT = click.option("--root", help="Folder or URL of the stores, in place of the file's own.")
_OF_FILES = (
    click.option("--id", "ids", help="The column with the samples' ids."),
    click.option("--label", "labels", help="A column with true classes, for scores only."),
    click.option("--columns", help="The features, separated by commas; all others by default."),
    click.option("--categorical", help="Columns that hold words, separated by commas."),
    click.option(
        "--word",
        "words",
        multiple=True,
        metavar="OLD=NEW",
        help="What is written in place of a word, as M=male.",
    ),
    click.option("--dates", help="Columns that hold dates, as 2026-03-31, separated by commas."),
    click.option("--format", "kind", help="csv, parquet, npz, ... where the name does not tell."),
    click.option("--delimiter", help="Between the fields of a csv; a comma by default."),
    click.option("--decimal", help="What begins the fraction of a number in a csv."),
    click.option("--thousands", help="What groups digits in a csv."),
    click.option("--na", "na_values", multiple=True, help="What stands for no value in a csv."),
    click.option("--encoding", help="Of a csv; utf-8 by default."),
    click.option("--no-header", is_flag=True, help="No line of a csv names the columns."),
)


def _of_files(command: Callable[..., None]) -> Callable[..., None]:
    """Add to a command the options for reading files."""
    for option in reversed(_OF_FILES):
        command = option(command)
    return command


def _source(options: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a source that the options set."""
    keys = {**options, "format": options["kind"], "na_values": list(options["na_values"])}
    for name in ("columns", "categorical", "dates"):
        keys[name] = options[name].split(",") if options[name] else None
    keys["words"] = dict(_pair(one) for one in options["words"])
    keys["header"] = False if options["no_header"] else None
    return {
        key: value
        for key, value in keys.items()
        if key not in ("kind", "no_header") and value not in (None, [], {})
    }


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise InvalidInput(f"--word must be OLD=NEW, as M=male; got {text!r}. Correct it.")
    return old, new


@click.group()
def stores() -> None:
    """Make, list and check clients' stores, one by one or all that a storage file names.

    Nothing here starts a worker.
    """


def _show(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("client", no_wrap=True)
    told = [key for key in ("view", "scaling") if any(key in row for row in rows)]
    for title in told:
        table.add_column(title, no_wrap=title == "view")
    for title in ("samples", "features"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("dtype", no_wrap=True)
    for title in ("chunks", "on disk"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("labels")
    table.add_column("store", overflow="fold")
    for row in rows:
        table.add_row(
            Text(row["client"]),
            *(Text(row.get(key, "")) for key in told),
            f"{row['samples']:,}",
            f"{row['features']:,}",
            row["dtype"],
            f"{row['chunks']:,}",
            decimal(row["bytes_on_disk"]),
            "yes" if row["labels"] else "no",
            Text(row["url"]),
        )
    stdout_console().print(table)


@stores.command()
@click.argument("name")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--store", help="URL or path of the store.  [default: stores/NAME.zarr]")
@_of_files
@click.option("--keep-missing", is_flag=True, help="Cells may be empty: a run prepares: [impute].")
@click.option("--dtype", help="Stored type; by default the smallest that holds all values.")
@click.option("--overwrite", is_flag=True, help="Replace a store that is there.")
def add(name: str, files: tuple[str, ...], store: str | None, **options: Any) -> None:
    """Build the store of the client NAME from its files, at its own site.

    Several files are read one after the other and must have the same columns.

    \b
    Example:
      daskfc stores add hospital-a patients.csv --id patient --label diagnosis
    """  # noqa: D301 - click reads \b
    with exits(), shown_progress() as progress:
        layout = {"dtype": options.pop("dtype"), "overwrite": options.pop("overwrite")}
        missing = {"missing": "keep"} if options.pop("keep_missing") else {}
        row = add_store(
            name,
            files,
            store,
            source={**_source(options), **missing},
            progress=lambda done, total: progress("building the store", done, total),
            **layout,
        )
    _show([row])
    click.echo(f"In a storage file:\n  clients:\n    {name}: {{store: {row['url']!r}}}")


@stores.command()
@click.argument("store")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_of_files
def append(store: str, files: tuple[str, ...], **options: Any) -> None:
    """Append the samples of files to the store of a client, at its own site.

    The files have the store's columns in its order, and samples that it does not have. The store is
    written anew beside itself, which takes its size of disk, and then replaces the old one at once.
    A run that is reading it gets an error. Stores with a graph or scaled features are built again.

    \b
    Example:
      daskfc stores append stores/hospital-a.zarr tuesday.csv --id patient --label diagnosis
    """  # noqa: D301 - click reads \b
    with exits(), shown_progress() as progress:
        row = append_store(
            store,
            files,
            source=_source(options),
            progress=lambda done, total: progress("writing the store", done, total),
        )
    _show([row])
    if row["left_out"]:
        names = ", ".join(row["left_out"])
        click.echo(f"Note: clusters of the samples before are left out: {names}.", err=True)
    click.echo(f"{row['appended']:,} samples appended.")


@stores.command()
@_STORAGE
@_ROOT
@click.option("--overwrite", is_flag=True, help="Replace stores that are there.")
def build(storage: str, root: str | None, overwrite: bool) -> None:
    """Write one store per client from the source that STORAGE names.

    Existing stores are refused unless --overwrite is given; an interrupted build leaves nothing
    that could be read by mistake. 'daskfc run' builds missing stores by itself.
    """
    with exits(), shown_progress() as progress:
        found = load_storage(storage)
        found.build(
            root,
            overwrite=overwrite,
            progress=lambda done, total: progress("building the stores", done, total),
        )
    with exits():
        _show(found.inspect(root))


@stores.command()
@_STORAGE
@_ROOT
def inspect(storage: str, root: str | None) -> None:
    """List the stores of STORAGE: views, scaling, samples, features, chunks, bytes.

    Reads no features.
    """
    with exits():
        _show(load_storage(storage).inspect(root))


@stores.command()
@_STORAGE
@_ROOT
def check(storage: str, root: str | None) -> None:
    """Read every store of STORAGE and check it against its checksums and the rules.

    Rules: finite features; and either the same columns everywhere and different sample ids, or
    different columns of the same samples, or views that samples link. Columns of one value, ranges
    that are far apart, and words that differ only in case or that only one client has are noted and
    not refused.
    """
    with exits():
        found = load_storage(storage)
        found.check(root)
        urls = found.client_urls(root)
        for client, url in urls.items():
            click.echo(f"{client}: ok, {url}")
        opened = {name: ClientStore.open(url) for name, url in urls.items()}
        words = words_apart({name: store.categories for name, store in opened.items()})
        for warning in [*column_warnings(opened), *words]:
            click.echo(f"Note: {warning}")

"""``daskfc stores look|add|append|build|inspect|check``."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import yaml
from rich.filesize import decimal
from rich.table import Column
from rich.text import Text

from daskfc.cli.terminal.exits import exits
from daskfc.cli.terminal.options import options
from daskfc.cli.terminal.output import print_table
from daskfc.cli.terminal.progress import shown_progress
from daskfc.errors import InvalidInput
from daskfc.folders import write_once
from daskfc.stores import ClientStore, add_store, append_store, load_storage
from daskfc.stores.building.looking import FileLook, look_at_all
from daskfc.stores.building.paths import moved
from daskfc.stores.layout.spelling import words_apart
from daskfc.stores.sources.cells import Fault
from daskfc.stores.sources.guessing import limits_as
from daskfc.stores.store.ranges import column_warnings

_LIMITS = {"limit": "count as 30", "half": "count as 15", "missing": "are no values"}
_SHOWN = 4  # ours: bad cells of one kind that are told one by one
_STORAGE = click.argument("storage", type=click.Path())
_ROOT = click.option("--root", help="Folder or URL of the stores, in place of the file's own.")
_of_files = options(
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
    click.option("--date-format", help="How dates are written, as %d.%m.%Y."),
    click.option(
        "--rename", multiple=True, metavar="OLD=NEW", help="A column's name, and a new one for it."
    ),
    click.option(
        "--censored",
        type=click.Choice(["limit", "half", "missing"]),
        help="What a cell such as <30 becomes.",
    ),
    click.option(
        "--pivot", metavar="ROWS,NAMES,VALUES", help="Columns of a table with a row a measurement."
    ),
    click.option("--sheet", help="The sheet of a workbook."),
    click.option("--sql", help="A query; FILE is a database, or postgresql://... and the like."),
    click.option("--format", "kind", help="csv, parquet, npz, ... where the name does not tell."),
    click.option("--delimiter", help="Between the fields of a csv; a comma by default."),
    click.option("--decimal", help="What begins the fraction of a number in a csv."),
    click.option("--thousands", help="What groups digits in a csv."),
    click.option("--na", "na_values", multiple=True, help="What stands for no value."),
    click.option("--encoding", help="Of a csv; utf-8 by default."),
    click.option("--no-header", is_flag=True, help="No line of a csv names the columns."),
)


# options wait in this attribute until a command is made of the function
_KNOWN = {
    name for option in vars(_of_files(lambda: None))["__click_params__"] for name in option.opts
}


def _source(options: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a source that the options set."""
    keys = {**options, "format": options["kind"], "na_values": list(options["na_values"])}
    for name in ("columns", "categorical", "dates"):
        keys[name] = options[name].split(",") if options[name] else None
    keys["words"] = dict(_pair(one, "--word") for one in options["words"])
    keys["rename"] = dict(_pair(one, "--rename") for one in options["rename"])
    if options["pivot"]:
        parts = options["pivot"].split(",")
        if len(parts) not in (3, 4):
            raise InvalidInput(
                "--pivot must be the names of three columns, ROWS,NAMES,VALUES, and then perhaps "
                f"what several values become, as mean; got {options['pivot']!r}. Correct it."
            )
        keys["pivot"] = dict(zip(("rows", "names", "values", "several"), parts, strict=False))
    keys["header"] = False if options["no_header"] else None
    return {
        key: value
        for key, value in keys.items()
        if key not in ("kind", "no_header") and value not in (None, [], {})
    }


def _pair(text: str, flag: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise InvalidInput(f"{flag} must be OLD=NEW, as M=male; got {text!r}. Correct it.")
    return old, new


_FLAGS = {"ids": "id", "labels": "label", "words": "word", "na_values": "na"}
_SETTINGS = {
    "source.path": "FILE",
    "source.missing: keep": "--keep-missing",
    "source.header: false": "--no-header",
    "Set source.pivot.several: ": "Add as the fourth part of --pivot: ",
}


def _with_flags(told: str) -> str:
    """Return a sentence on a source with flags in place of keys, where flags are what is typed."""
    for key, flag in _SETTINGS.items():
        told = told.replace(key, flag)

    def flag_of(found: re.Match[str]) -> str:
        flag = f"--{_FLAGS.get(found[1], found[1].replace('_', '-'))}"
        return flag if flag in _KNOWN else found[0]

    return re.sub(r"source\.(\w+):?(?=\W|$)", flag_of, told)


@contextmanager
def _flags() -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise type(error)(_with_flags(str(error))) from error


@click.group()
def stores() -> None:
    """Make, list and check clients' stores, one by one or all that a storage file names.

    Nothing here starts a worker.
    """


def _show(rows: Sequence[dict[str, Any]]) -> None:
    told = [key for key in ("view", "scaling") if any(key in row for row in rows)]
    samples, features, chunks, on_disk = (
        Column(title, justify="right", no_wrap=True)
        for title in ("samples", "features", "chunks", "on disk")
    )
    client, dtype = (Column(title, no_wrap=True) for title in ("client", "dtype"))
    more = [Column(title, no_wrap=title == "view") for title in told]
    print_table(
        (client, *more, samples, features, dtype, chunks, on_disk, "labels",
         Column("store", overflow="fold")),
        (
            (row["client"], *(row.get(key, "") for key in told), f"{row['samples']:,}",
             f"{row['features']:,}", row["dtype"], f"{row['chunks']:,}",
             decimal(row["bytes_on_disk"]), "yes" if row["labels"] else "no", row["url"])
            for row in rows
        ),
    )  # fmt: skip


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
    with exits(), _flags(), shown_progress() as progress:
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
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--client", help="The client's name in the YAML.  [default: the file's]")
@click.option("--out", type=click.Path(), help="A storage file to write.")
@_of_files
def look(files: tuple[str, ...], client: str | None, out: str | None, **options: Any) -> None:
    """Show what a file holds, guess how to read it, and list every cell that is no feature.

    Guesses delimiter, decimal mark, dates, ids, columns of words, codes for missing values and
    limits such as <30; what an option says is not guessed. Prints the storage file that says so,
    and writes it with --out. Values of the file are shown here and nowhere else.

    Each FILE is a client's. Columns that are spelt as the first file's but for case, blanks and
    marks are renamed so; others that not all files have are told.

    \b
    Example:
      daskfc stores look patients.csv --client hospital-a --out storage/hospital-a.yaml
    """  # noqa: D301 - click reads \b
    with exits(), _flags():
        looks = look_at_all(files, _source(options))
        names = [re.sub(r"[^A-Za-z0-9_.-]", "-", Path(f.partition("?")[0]).stem) for f in files]
        names = [client] if client and len(files) == 1 else names
        if len({*names}) < len(names) or (client and len(files) > 1):
            raise InvalidInput(
                f"each file must have a client's name of its own; got {', '.join(names)} and "
                f"--client {client or 'nowhere'}. Rename a file, or look at them one by one."
            )
        clients = {name: {"source": found.keys} for name, found in zip(names, looks, strict=True)}
        for name, known in (load_storage({"clients": clients}).clients or {}).items():
            if out is not None and known.source is not None:
                start = Path(out).parent.resolve()
                own = moved(known.source, partial(os.path.relpath, start=start))
                clients[name] = {"source": {**clients[name]["source"], **own}}
        written = yaml.safe_dump({"clients": clients}, sort_keys=False, allow_unicode=True)
        for found in looks:
            _show_look(found)
            for told in looks[0].apart(found):
                click.echo(f"Note: {told}")
        place = " of this folder" if out is None else ""
        click.echo(f"The storage file{place}:\n{written}")
        if out is not None:
            _write_new(Path(out), written)
        if bad := {found.file: len(found.faults) for found in looks if found.faults}:
            raise InvalidInput(
                f"{', '.join(bad)}: bad cells are listed above, {sum(bad.values())} in all. Mend "
                "them, or change how the file is read."
            )


def _write_new(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = write_once(path, text.encode())
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written ({type(error).__name__}). Choose another --out."
        ) from None
    if not written:
        raise InvalidInput(f"{path} is there already. Choose another --out, or remove it.")


def _show_look(found: FileLook) -> None:
    """Print first rows, what each column seems to be, and faults by column and rule."""
    click.echo(f"{found.file}: {found.format}, {found.n_samples:,} samples")
    columns = []
    for own in found.columns:
        notes = [*(f"{code!r} is no value" for code in own.codes), *map(_with_flags, own.doubts)]
        notes += [f"written as {own.date_format}"] if own.date_format else []
        if own.censored:
            notes.append(f"limits such as <30 {_LIMITS[limits_as(found.keys, own.name)]}")
        columns.append((own.name, own.kind, f"{own.gaps:,}", "; ".join(notes)))
    if columns:
        names = [Column(Text(str(name))) for name in found.head.columns]
        first = found.head.astype("string").fillna("").to_numpy().tolist()
        print_table(names, first, title="First rows, as they are written")
        titles = ("column", "read as", "empty", "note")
        print_table([Column(title, overflow="fold") for title in titles], columns)
    groups: dict[tuple[str, str, str], list[Fault]] = {}
    for fault in found.faults:
        groups.setdefault((fault.column, fault.rule, fault.way_out), []).append(fault)
    for (column, rule, way_out), faults in groups.items():
        cells = ", ".join(f"{found.place(one.row)} {one.cell!r}" for one in faults[:_SHOWN])
        more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        click.echo(f"column {column!r}: {_with_flags(rule)}: {cells}{more}. {_with_flags(way_out)}")


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
    with exits(), _flags(), shown_progress() as progress:
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

"""``daskfc labels`` and ``daskfc predict``: a site's own clusters, and those of new samples."""

import click

from daskfc.cli.terminal.exits import exits, signals_as_interrupt
from daskfc.errors import InvalidInput, StoreError
from daskfc.folders import check_place, write_private
from daskfc.runs import predict_run, site_labels
from daskfc.runs.outcome.csv_cells import csv_text
from daskfc.runs.outcome.labels import beside
from daskfc.stores import ClientStore
from daskfc.stores.store.clusters import check_new_clusters, write_clusters


@click.command()
@click.argument("source", metavar="RUN", type=click.Path())
@click.option("--store", required=True, help="URL or path of this site's store.")
@click.option("--samples", help="The store of new samples, for the labels of 'daskfc predict'.")
@click.option("--out", type=click.Path(dir_okay=False), help="File to write, .csv or .parquet.")
@click.option("--into-store", metavar="NAME", help="Write them into the store as clusters/NAME.")
@click.option("--with", "table", metavar="FILE", help="A table with these ids, to add columns to.")
@click.option("--sheet", help="The sheet of --with, where a workbook has several.")
@click.option("--overwrite", is_flag=True, help="Replace a file, or clusters, that are there.")
def labels(
    source: str,
    store: str,
    samples: str | None,
    table: str | None,
    sheet: str | None,
    out: str | None,
    into_store: str | None,
    overwrite: bool,
) -> None:
    """Give this site the clusters of its own samples, under its own ids.

    RUN is a run's folder, or its labels.csv or labels.parquet, which the caller sends to the sites,
    with labels.keys.json beside it if there is one. Only the key in the site's store resolves
    pseudonyms. Without --out and --into-store the table is printed.

    \b
    Examples:
      daskfc labels labels.csv --store hospital-a.zarr --out clusters.csv
      daskfc labels labels.csv --store hospital-a.zarr --with patients.csv --out grouped.csv
    """  # noqa: D301 - click reads \b
    with exits():
        own = site_labels(source, store, samples=samples)
        of = ClientStore.open(samples or store)
        # check everything before writing anything
        if out is not None:
            if not out.endswith((".csv", ".parquet")):
                raise InvalidInput(f"--out must end in .csv or .parquet; got {out!r}. Rename it.")
            check_place(out, overwrite=overwrite)
        if into_store is not None:
            check_new_clusters(of, into_store, overwrite=overwrite)
        try:
            found = own if table is None else beside(own, table, sheet)
        except StoreError as error:
            raise StoreError(str(error).replace("source.sheet", "--sheet")) from error
        if into_store is not None:
            fits = own.drop(columns="sample_id")
            names = [str(name) for name in fits.columns]
            write_clusters(of, into_store, fits.to_numpy(), names, overwrite=overwrite)
            click.echo(f"{of.url}: clusters/{into_store}", err=True)
        if out is not None:
            data = (
                found.to_parquet(index=False)
                if out.endswith(".parquet")
                else csv_text(found).encode()
            )
            write_private(out, data, overwrite=overwrite)
            click.echo(f"{out}: {len(own):,} samples", err=True)
        if out is None and into_store is None:
            click.echo(csv_text(found), nl=False)


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path())
@click.option(
    "--store", "stores", multiple=True, required=True, metavar="CLIENT=URL",
    help="A client's store of new samples, as that client reads it. May be given several times.",
)  # fmt: skip
@click.option("--method", help="A method of the run.  [default: its own]")
@click.option("--seed", type=int, help="A seed of the run.  [default: its first]")
@click.option("--name", help="What the prediction is called.  [default: the time]")
def predict(
    run_folder: str, stores: tuple[str, ...], method: str | None, seed: int | None, name: str | None
) -> None:
    """Label new samples by the model of RUN, a run's folder, without clustering again.

    It starts the workers of the run, or joins running ones. Labels and ledger are written to
    predictions/NAME in the run's folder; a site turns labels.csv from there into labels of its own
    ids ('daskfc labels --samples'). Methods with a model at the parties are refused.

    \b
    Example:
      daskfc predict runs/night --store hospital-a=new-patients.zarr
    """  # noqa: D301 - click reads \b
    with exits(), signals_as_interrupt():
        pairs = [text.partition("=") for text in stores]
        for client, equals, url in pairs:
            if not (client and equals and url):
                raise InvalidInput(
                    f"--store must be CLIENT=URL; got {client!r}. Name whose samples they are."
                )
        given = {client: url for client, _, url in pairs}
        if len(given) < len(pairs):
            raise InvalidInput("--store names a client twice. Give each one store.")
        target = predict_run(run_folder, given, method=method, seed=seed, name=name)
        click.echo(str(target / "labels.csv"))

"""Label tables: all labels for the caller, and each site's own under its own sample ids."""

import json
import re
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.federation.identity.pseudonyms import Pseudonyms, pseudonyms_of
from daskfc.runs.outcome.csv_cells import csv_text, words_of
from daskfc.runs.outcome.folder import RunFolder
from daskfc.stores import ClientStore
from daskfc.stores.building.looking import cells_at
from daskfc.stores.sources.cells import as_ids

_KEYS = "labels.keys.json"  # where clients share samples: the key of their pseudonyms, wrapped
_NAMES = ("pseudonym", "sample_id")
_PSEUDONYM = re.compile(r"([0-9a-f]{12})-[0-9a-f]{24}")


def name_of_samples(names: Pseudonyms | None) -> str:
    """Return what the column with the samples' names is called."""
    return _NAMES[names is None]


def write_tables(folder: RunFolder, labels: xr.DataArray) -> None:
    """Write ``labels.csv``, ``labels.parquet`` and, where samples are shared, wrapped keys."""
    table, names = _table_of(folder, labels)
    folder.write_text("labels.csv", csv_text(table))
    folder.write_bytes("labels.parquet", table.to_parquet(index=False))
    if names is not None and names.keys:
        folder.write_text(_KEYS, json.dumps(names.as_dict(), indent=2) + "\n")


def _table_of(folder: RunFolder, labels: xr.DataArray) -> tuple[pd.DataFrame, Pseudonyms | None]:
    """Return the labels of all fits, one row a sample, "cluster" the first fit's; and the names."""
    record = folder.record
    names = pseudonyms_of(record.get("pseudonyms"))
    columns: dict[str, Any] = {
        name_of_samples(names): labels["sample_id"].to_numpy().astype(object),
        "client": labels["client"].to_numpy().astype(object),
    }
    own, first = record["pipeline"]["method"], record["pipeline"]["seeds"][0]
    columns["cluster"] = labels.sel(algorithm=own, seed=first).to_numpy()
    for algorithm in labels["algorithm"].to_numpy().tolist():
        for seed in labels["seed"].to_numpy().tolist():
            if (algorithm, seed) != (own, first):
                values = labels.sel(algorithm=algorithm, seed=seed).to_numpy()
                columns[f"{algorithm} seed {seed}"] = values
    return pd.DataFrame(columns), names


def _of_file(path: Path) -> tuple[pd.DataFrame, Pseudonyms | None]:
    try:
        if path.suffix == ".parquet":
            table = pd.read_parquet(path)
        else:
            text = {name: str for name in (*_NAMES, "client")}
            table = pd.read_csv(path, dtype=text, keep_default_na=False, encoding="utf-8-sig")
            for name in text.keys() & set(table.columns):
                table[name] = words_of(table[name])
    except OSError as error:
        raise InvalidInput(
            f"{path}: cannot be read ({error.strerror or type(error).__name__}). Give a run's "
            "folder, or the labels.csv or labels.parquet of one."
        ) from None
    except ValueError:  # of pandas and of pyarrow; the message may quote the file
        raise _no_labels(path, "it is no table") from None
    named = [name for name in _NAMES if name in table.columns]
    fits = table.columns.difference([*_NAMES, "client"])
    if len(named) != 1 or "client" not in table.columns or not len(fits) or not len(table):
        raise _no_labels(path, "it needs rows, and columns 'pseudonym', 'client' and 'cluster'")
    if not all(pd.api.types.is_integer_dtype(table[fit]) for fit in fits):
        raise _no_labels(path, "clusters must be whole numbers")
    return table, _names_in(path, table) if named == ["pseudonym"] else None


def _names_in(path: Path, table: pd.DataFrame) -> Pseudonyms:
    """Return the label and keys of the pseudonyms in a file."""
    found = [_PSEUDONYM.fullmatch(str(name)) for name in table["pseudonym"]]
    labels = {match.group(1) if match else "" for match in found}
    if len(labels) != 1 or "" in labels:
        raise _no_labels(path, "its pseudonyms must be those of one run")
    (label,) = labels
    beside = path.with_name(_KEYS)
    if not beside.exists():
        return Pseudonyms(label)
    try:
        names = pseudonyms_of(json.loads(beside.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        names = None
    if names is None or names.label != label:
        raise InvalidInput(
            f"{beside}: is not of the same run as {path.name}. Put the file of that run beside it; "
            "remove it where the run has none."
        )
    return names


def _no_labels(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path}: holds no labels of a run: {why}. Give a run's folder, or its labels.csv or "
        "labels.parquet as they were written."
    )


def site_labels(
    source: str | PathLike[str], store: str, *, samples: str | None = None
) -> pd.DataFrame:
    """Return the clusters of a client's own samples under its own ids.

    Parameters
    ----------
    source : path
        A run's folder, or its ``labels.csv`` or ``labels.parquet``; where clients share samples
        with its ``labels.keys.json`` beside it.
    store : str
        URL of the client's store, which has the key that resolves pseudonyms.
    samples : str, optional
        URL of another store of the client, with new samples that a run's model labelled.

    Returns
    -------
    pandas.DataFrame
        ``sample_id``, and a column for every fit, in the order of the store; without samples that
        were appended to it since.

    Raises
    ------
    InvalidInput
        For a source without labels, or a store with other samples than the labels are of.

    Notes
    -----
    Privacy: the result shows nothing of other clients' samples beyond what `source` shows anybody.

    Examples
    --------
    >>> from daskfc.runs import site_labels
    >>> site_labels("runs/night/labels.csv", "hospital-a.zarr")  # doctest: +SKIP
    """
    path = Path(fspath(source))
    if path.is_dir():
        folder = RunFolder(path)
        table, names = _table_of(folder, folder.read_labels()["labels"])
    else:
        table, names = _of_file(path)
    own = ClientStore.open(store)
    of = own if samples is None else ClientStore.open(samples)
    if of.name != own.name:
        raise InvalidInput(
            f"{of.url} is a store of client {of.name!r} and {own.url} one of client {own.name!r}. "
            "Give two stores of one client."
        )
    ids = of.sample_ids()
    if names is None:
        key, wanted = "sample_id", ids.tolist()
    else:
        key = "pseudonym"
        wanted = names.of(ids.tolist(), names.key(own.name, own.id_key()))
    index = pd.Index(table[key].astype(str))
    if not index.is_unique:
        raise _no_labels(path, "it has a sample twice")
    at = index.get_indexer(pd.Index(wanted))
    known = int((at >= 0).sum())
    before = [one["samples"] for one in of.attributes.get("appended", ())]
    if known in before and (at[:known] >= 0).all():  # the store grew since the run
        ids, at = ids[:known], at[:known]
    _check_own(table, at, path, of)
    fits = table.drop(columns=[key, "client"]).iloc[at].reset_index(drop=True)
    fits.insert(0, "sample_id", ids.astype(object))
    return fits


def beside(clusters: pd.DataFrame, path: str, sheet: str | None = None) -> pd.DataFrame:
    """Return the table in a file with clusters in new columns, empty for rows of no sample.

    Rows are found by the column that has the ids of all samples. A workbook may need its `sheet`.
    """
    cells = cells_at(path, {} if sheet is None else {"sheet": sheet})
    # stores of tables have ids without blanks around them; those of before differ by these perhaps
    plain = as_ids if as_ids(clusters["sample_id"]).is_unique else lambda ids: ids.astype(str)
    ids = pd.Index(plain(clusters["sample_id"]))
    written = {name: plain(cells[name]) for name in cells.columns}
    having = [name for name in cells.columns if ids.isin(written[name]).all()]
    if any(not cells[name].equals(cells[having[0]]) for name in having):
        raise InvalidInput(
            f"{path}: one column must have the ids of the {len(ids)} samples; {', '.join(having)} "
            "do, and differ. Leave out those that are no ids."
        )
    if not having:
        most = max((int(ids.isin(own).sum()) for own in written.values()), default=0)
        raise InvalidInput(
            f"{path}: a column must have the ids of the {len(ids)} samples; the best one has "
            f"{most}. Give the file that the store was made of."
        )
    fits = clusters.drop(columns="sample_id").astype("Int64")
    double = sorted(set(fits.columns) & set(cells.columns))
    if double:
        raise InvalidInput(
            f"{path}: a new column would have the name of one that is there, "
            f"{', '.join(double)}. Rename that."
        )
    at = ids.get_indexer(pd.Index(written[having[0]]))
    found = fits.reindex(np.where(at >= 0, at, len(ids))).reset_index(drop=True)
    return pd.concat([cells, found], axis=1)


def _check_own(table: pd.DataFrame, at: np.ndarray, path: Path, store: ClientStore) -> None:
    """Raise unless each sample of a store has a label, and each label of its client a sample."""
    own = np.flatnonzero(table["client"].astype(str) == store.name)
    unlabelled = int((at < 0).sum())
    gone = len(np.setdiff1d(own, at))
    if unlabelled == len(at):
        clients = ", ".join(sorted(set(table["client"].astype(str))))
        raise InvalidInput(
            f"{path}: no label is of a sample of client {store.name!r} in {store.url}; it has "
            f"labels of {clients}. Give the store that the run read; with labels.csv of clients "
            f"that share samples, put the run's {_KEYS} beside it."
        )
    if unlabelled or gone:
        raise InvalidInput(
            f"{path}: {unlabelled} of {len(at)} samples in {store.url} have no label, and {gone} "
            f"labels of client {store.name!r} are of no sample there: the store was written again "
            "since the run, or rows were removed. Give both as they were, or run again."
        )

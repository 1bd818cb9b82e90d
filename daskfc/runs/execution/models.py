"""Load fitted methods, keep those of runs, and label new samples by them."""

import shutil
from collections.abc import Mapping
from datetime import datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator

from daskfc.errors import InvalidInput
from daskfc.federation import FederatedClusterer, Ledger
from daskfc.federation.identity.pseudonyms import pseudonyms_of
from daskfc.federation.methods.saving import read_model
from daskfc.folders import check_folder_name, make_private, whole_folder, write_private
from daskfc.runs.outcome.communication import ledger_frame
from daskfc.runs.outcome.csv_cells import csv_text
from daskfc.runs.outcome.fits import folder_name
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.outcome.labels import name_of_samples
from daskfc.runs.pipeline.config import load_pipeline
from daskfc.runs.pipeline.methods import check_pipeline, known_methods
from daskfc.runs.pipeline.parties import open_federation
from daskfc.secure.prepare import Prepared


def load(folder: str | PathLike[str]) -> FederatedClusterer:
    """Read a fitted method that ``model.save(folder)`` wrote.

    Parameters
    ----------
    folder : path
        The model's folder.

    Returns
    -------
    FederatedClusterer
        Of the class of its method.

    Raises
    ------
    InvalidInput
        When no whole model is there, or its method is not registered here.

    Examples
    --------
    >>> import daskfc as fc
    >>> fc.load("/no/such/model")
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: /no/such/model: no model is there (it has no model.json). Give a \
folder that 'save' wrote.
    """
    methods = known_methods().values()
    kinds = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in methods}
    kind, state = read_model(folder, kinds)
    model: FederatedClusterer = kind._of_state(state)  # type: ignore[attr-defined]
    return model


def _place(folder: RunFolder, method: str, seed: int) -> Path:
    return folder.path / "models" / f"{folder_name(method)}-{seed}"


def keep_model(folder: RunFolder, model: BaseEstimator, method: str, seed: int) -> None:
    """Keep the model of a fit in the run's folder, if the caller has it."""
    if hasattr(model, "save") and hasattr(model, "predict") and not model.model_at_parties:
        place = _place(folder, method, seed)
        shutil.rmtree(place, ignore_errors=True)  # of a start that broke off
        try:
            model.save(place)
        except InvalidInput as error:
            if isinstance(error.__cause__, OSError):  # of the run's disk, and not of its input
                raise error.__cause__ from None
            raise


def predict_run(
    folder: str | PathLike[str],
    stores: Mapping[str, str],
    *,
    method: str | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Path:
    """Label new samples by the model of a run, on the run's cluster.

    Parameters
    ----------
    folder : path
        The run's folder.
    stores : mapping of str to str
        For some clients the URL of a store with new samples, readable at that client.
    method : str, optional
        The run's own by default.
    seed : int, optional
        The run's first by default.
    name : str, optional
        Name of the prediction; the time by default.

    Returns
    -------
    pathlib.Path
        ``predictions/<name>`` in the run's folder: ``labels.csv``, ``labels.parquet`` and the
        ledger of all messages.

    Raises
    ------
    InvalidInput
        When the run is not done, the caller has no model of it, or a store does not suit the model.

    Notes
    -----
    Privacy: the caller learns of new samples what it learned of the run's, under pseudonyms if the
    run has them.
    """
    found = RunFolder(folder)
    record = found.done_record("the run has no model yet; its")
    pipeline = load_pipeline(record["pipeline"])
    method = method or pipeline.method
    model = _model_of(found, method, pipeline.seeds[0] if seed is None else seed)
    name = name or datetime.now().strftime("%Y%m%d-%H%M%S")
    check_folder_name("prediction", name)
    target = found.path / "predictions" / name
    if target.exists():
        raise InvalidInput(f"{target}: is there and is not written over. Choose another --name.")
    with open_federation(record, check_pipeline(pipeline)) as federation:
        federation.pseudonyms = names = pseudonyms_of(record.get("pseudonyms"))
        if "prepared" in record:
            federation.preparation = Prepared(record["prepared"], Ledger([]))
        labels = model.predict(federation, stores)
        ledger = ledger_frame(federation.ledger)
    table = pd.DataFrame({
        name_of_samples(names): labels["sample_id"].to_numpy().astype(object),
        "client": labels["client"].to_numpy().astype(object),
        "cluster": labels.to_numpy(),
    })  # fmt: skip
    make_private(target.parent)
    with whole_folder(target) as partial:
        write_private(partial / "ledger.parquet", ledger.to_parquet(index=False))
        write_private(partial / "labels.parquet", table.to_parquet(index=False))
        write_private(partial / "labels.csv", csv_text(table).encode())
    return target


def _model_of(folder: RunFolder, method: str, seed: int) -> Any:
    place = _place(folder, method, seed)
    if place.exists():
        return load(place)
    kept = sorted(path.name for path in (folder.path / "models").glob("*"))
    kind = known_methods().get(method)
    if kind is not None and kind._predict is FederatedClusterer._predict:
        raise InvalidInput(
            f"{method} cannot label new samples: it has no model of them. Run it again with the "
            "new samples among the others, or take a method whose 'predict' there is."
        )
    if kind is not None and kind.model_at_parties:
        raise InvalidInput(
            f"the model of {method} lay with the parties of the run and ended with it. Run it with "
            "the new samples among the others, or in Python call 'predict' within the federation "
            "of 'fit'."
        )
    raise InvalidInput(
        f"{fspath(folder.path)}: has no model of {method} with seed {seed}; it has "
        f"{', '.join(kept) or 'none'}. Name one of those."
    )

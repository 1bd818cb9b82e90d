"""Runs from Python: what ``daskfc run`` and ``daskfc resume`` do."""

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr
from rich.console import Console

from daskfc.errors import InvalidInput
from daskfc.federation.driver.stage import shown_in_cell
from daskfc.federation.identity.pseudonyms import Pseudonyms
from daskfc.runs.execution.execution import execute
from daskfc.runs.outcome.folder import RunFolder, digests_of
from daskfc.runs.outcome.status import KeptProgress
from daskfc.runs.outcome.summary import unfinished_summary
from daskfc.runs.pipeline.config import Pipeline
from daskfc.runs.pipeline.methods import CheckedPipeline, checked_again
from daskfc.runs.pipeline.parties import Progress, Source, locate
from daskfc.runs.pipeline.remarks import check_bound, data_warnings
from daskfc.runs.planning.plan import check_memory
from daskfc.runs.report.card import card_of, write_card
from daskfc.runs.report.changes import earlier_run
from daskfc.runs.report.comparison import comparison
from daskfc.runs.report.plots import Plots
from daskfc.runs.report.report import keep_words, write_report
from daskfc.runs.report.showing import run_in_html, shown_in_browser, shown_in_notebook
from daskfc.runs.report.table import print_summary
from daskfc.runs.report.tracking import log_run

_VERSIONS = ("daskfc", "dask", "distributed", "zarr", "numpy", "scipy", "scikit-learn")


class Run:
    """One run and its results, read from its folder.

    Parameters
    ----------
    folder : path
        The run's folder.

    Attributes
    ----------
    folder : pathlib.Path
        The run's folder.

    Raises
    ------
    InvalidInput
        When no run is there.

    Examples
    --------
    >>> from daskfc.runs import Run
    >>> Run("/no/such/run")
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: /no/such/run: no run is there (it has no run.json). Give the \
folder of a run, for example runs/<name>.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._folder = RunFolder(folder)
        self.folder = self._folder.path
        self._checked: CheckedPipeline | None = None  # what `prepare` made and checked

    def __repr__(self) -> str:
        return f"<Run {self.name!r}: {self.status}, in {self.folder}>"

    @property
    def name(self) -> str:
        """The run's name, its ``run_id``."""
        return str(self.config["run_id"])

    @property
    def status(self) -> str:
        """``running``, ``failed`` or ``done``."""
        return self._folder.status

    @property
    def config(self) -> dict[str, Any]:
        """What ``run.json`` holds: the resolved settings, versions, seeds, status."""
        return self._folder.record

    @property
    def summary(self) -> dict[str, Any]:
        """What ``summary.json`` holds; of a run that is not done, how far it got."""
        summary = self._folder.summary if self.status == "done" else {}
        return summary or unfinished_summary(self.config)

    @property
    def all_labels(self) -> xr.DataArray:
        """Labels over (algorithm, seed, sample), coordinates ``client`` and ``sample_id``.

        Where the pipeline does not say ``ids: clear``, a sample's id is its pseudonym.
        """
        return self._folder.read_labels()["labels"]

    @property
    def labels(self) -> xr.DataArray:
        """``(sample,)`` labels of the run's own method with its first seed, called "cluster"."""
        pipeline = self.config["pipeline"]
        own = self.all_labels.sel(algorithm=pipeline["method"], seed=pipeline["seeds"][0])
        return own.rename("cluster")

    @property
    def ledger(self) -> pd.DataFrame:
        """Every message of every fit, one row each, with the columns ``method`` and ``seed``.

        Messages outside the fits have their step as ``method``, such as "evaluation".
        """
        return self._folder.read_ledger()

    def resume(self, *, progress: Progress | None = None) -> "Run":
        """Continue the run; finished fits are kept, and the labels are those of an unbroken run.

        Parameters
        ----------
        progress : callable, optional
            ``progress(stage, done, total)``; ``total`` is 0 where it is not known.

        Returns
        -------
        Run
            Itself, done.

        Raises
        ------
        InvalidInput
            When the run is done already, another process runs it (`RunHeld`), or its input cannot
            be used.
        RunFailed
            When it breaks off again.
        """
        folder = self._folder
        telling = shown_in_cell(self.name) if progress is None else nullcontext(progress)
        with folder.claim(), telling as told:
            tell = KeptProgress(folder.path, told)
            record = folder.record
            if record["status"] == "done":
                folder.drop_work()  # if it was killed just after it was done
                raise InvalidInput(
                    f"{folder.path}: the run is done; there is nothing to resume. See: daskfc "
                    f"report {folder.path}"
                )
            folder.check_unedited()
            try:
                with folder.logging():
                    checked, self._checked = self._checked, None  # a second attempt makes its own
                    checked, watched = checked or checked_again(record), told is not None
                    execute(folder, record, checked, tell, watched=watched)
            finally:
                # Only resuming needs it; the server's distances are the data up to a rigid motion.
                if folder.is_done:
                    try:
                        folder.drop_work()
                    finally:
                        folder.drop_work()  # in case an interrupt cut the first short
        return self

    @property
    def plot(self) -> Plots:
        """Figures as matplotlib's axes: ``plot.map()``, ``plot.profiles()`` and others.

        They are those of `daskfc.runs.Plots`: map, sizes, profiles, k_curve, silhouette, ledger.
        """
        return Plots(self.name, self.summary, self._folder.read_ledger)

    def log_to_mlflow(self, experiment: str = "daskfc", *, tracking_uri: str | None = None) -> str:
        """Log parameters, scores, sizes, bytes and seconds to MLflow, and the report.

        Parameters
        ----------
        experiment : str
            Name of the experiment, which is made if it is not there.
        tracking_uri : str, optional
            Where MLflow keeps runs; by default as MLflow itself is set.

        Returns
        -------
        str
            MLflow's id of the run.

        Raises
        ------
        InvalidInput
            When the run is not done, or MLflow is not installed (``daskfc[mlflow]``).

        Notes
        -----
        Privacy: ``summary.json`` and ``report.html`` go where MLflow keeps its files; labels and
        ledger do not.
        """
        return log_run(self.folder, self.config, self.summary, experiment, tracking_uri)

    def write_report(self, *, title: str | None = None) -> str:
        """Write ``report.html`` again and return its path.

        Parameters
        ----------
        title : str, optional
            What the page is called, from now on; the run's name if it was never given.

        Raises
        ------
        InvalidInput
            For a title that is no line of 1 to 200 characters.
        """
        keep_words(self._folder, title=title)
        return write_report(self._folder)

    @property
    def card(self) -> dict[str, Any]:
        """The run's facts for a data protection officer, as ``daskfc card --json`` prints them."""
        return card_of(self._folder)

    def write_card(self, *, title: str | None = None, purpose: str | None = None) -> str:
        """Write ``card.html``, the page about the run for a data protection officer.

        Parameters
        ----------
        title, purpose : str, optional
            What the page is called, and what the run is for, in a line each, from now on.

        Returns
        -------
        str
            Path of the page.

        Raises
        ------
        InvalidInput
            When the run is not done, or a text is no line of 1 to 200 characters.
        """
        card_of(self._folder)  # refused before anything is kept
        keep_words(self._folder, title=title, purpose=purpose)
        return write_card(self._folder)

    def show(self) -> str:
        """Show the report: in a notebook below the cell, else in the browser, if there is one.

        Returns
        -------
        str
            Path of the page.
        """
        path = Path(self.write_report()).absolute()
        if not shown_in_notebook(path) and not shown_in_browser(path):
            print_summary(self.summary, self.folder, Console(highlight=False))
        return str(path)

    def compare(self, *others: "Run") -> pd.DataFrame:
        """Return this run beside others: what differs, scores, clusters, bytes and seconds.

        Parameters
        ----------
        *others : Run
            At least one.

        Returns
        -------
        pandas.DataFrame
            One column a run, see ``daskfc.runs.report.comparison``.

        Raises
        ------
        InvalidInput
            When no other run is given.
        """
        runs = (self, *others)
        return comparison(
            [run.name for run in runs],
            [run.config for run in runs],
            [run.summary for run in runs],
            [run.labels if run.status == "done" else None for run in runs],
        )

    def _repr_html_(self) -> str:
        """Return the run's scores and sizes as tables, for notebooks."""
        return run_in_html(self.name, self.summary, str(self.folder))


def _name_of(source: object) -> str:
    return Path(fspath(source)).stem if isinstance(source, str | PathLike) else ""


def _source_of(source: object) -> str | None:
    if source is None:
        return None
    return str(fspath(source)) if isinstance(source, str | PathLike) else "given in Python"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # a source tree on the path
            found[name] = "unknown"
    return found


def prepare(
    pipeline: Source | Pipeline,
    *,
    storage: Source | None = None,
    cluster: Source | None = None,
    params: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    runs_dir: str | PathLike[str] = "runs",
    name: str | None = None,
    run_key: str | None = None,
    since: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Check everything that can be checked before a worker starts, and make the run's folder.

    Parameters
    ----------
    pipeline, storage, cluster, params, overrides, runs_dir, name, since, progress
        See `run`.
    run_key : str, optional
        The key that the name was made from, see `daskfc.runs.start_or_resume`.

    Returns
    -------
    Run
        Not started; its ``resume()`` starts it.

    Raises
    ------
    InvalidInput
        For the first rule that the input breaks; no folder is made then.
    """
    sources = {"pipeline": pipeline, "storage": storage, "cluster": cluster}
    told = {f"{key}_source": _source_of(one) for key, one in sources.items()}
    stems = [_name_of(pipeline), _name_of(storage)]
    if since is not None:
        earlier_run(since, None)
    located = locate(
        pipeline, storage, cluster, params=params, overrides=overrides, progress=progress
    )
    checked, definition = located.checked, located.checked.pipeline
    remarks = {}
    if located.stores is not None:
        check_bound(checked, located.stores)
        remarks["warnings"] = data_warnings(checked, located.stores)
        check_memory(checked, located.stores, located.cluster)
    record = {
        **told,
        "pipeline": definition.as_dict(),
        **located.record,
        "seeds": list(definition.seeds),
        "versions": _versions(),
        **remarks,
    }
    if since is not None:
        record["since"] = earlier_run(since, located.stores)
    if definition.ids == "pseudonyms":
        record["pseudonyms"] = Pseudonyms.fresh().as_dict()
    record["digests"] = digests_of(record)
    if run_key is not None:
        record["run_key"] = run_key
    if name is None:
        now = datetime.now().strftime("%Y%m%d-%H%M%S-%f")[:-3]
        name = "-".join(filter(None, [stems[0] or definition.method, stems[1], now]))
    made = Run(RunFolder.create(runs_dir, name, record).path)
    made._checked = checked
    return made


def run(
    pipeline: Source | Pipeline,
    *,
    storage: Source | None = None,
    cluster: Source | None = None,
    params: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    runs_dir: str | PathLike[str] = "runs",
    name: str | None = None,
    since: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run a pipeline on a storage and a cluster; the same as ``daskfc run``.

    Parameters
    ----------
    pipeline : path, mapping or Pipeline
        What to run.
    storage : path or mapping, optional
        The clients and their stores; missing stores are built. With a running cluster, which has
        its own stores, it says which clients take part; without it, the cluster's file must.
    cluster : path or mapping, optional
        Where to run; by default one process a party on this machine.
    params : mapping, optional
        Parameters of the method, in place of the pipeline's.
    overrides : sequence of str
        As ``--set``: ``dotted.key=value``.
    runs_dir : path
        The folder of all runs.
    name : str, optional
        The run's name; made of pipeline, storage and time if not given.
    since : path, optional
        Folder of an earlier run; summary and report then show what changed since.
    progress : callable, optional
        ``progress(stage, done, total)``.

    Returns
    -------
    Run
        Done.

    Raises
    ------
    InvalidInput, ClusterError
        For bad input, before anything starts; no folder is left.
    RunFailed
        When the run broke off; its folder says why, and whether it can be resumed.

    Examples
    --------
    >>> import daskfc as fc
    >>> fc.run({"method": "OmniFD"}, storage="storage/digits.yaml")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: no method is called 'OmniFD'; there are FederatedKMeans, ... \
Did you mean 'OmniFC'?
    """
    prepared = prepare(
        pipeline,
        storage=storage,
        cluster=cluster,
        params=params,
        overrides=overrides,
        runs_dir=runs_dir,
        name=name,
        since=since,
        progress=progress,
    )
    return prepared.resume(progress=progress)


def resume(folder: str | PathLike[str], *, progress: Progress | None = None) -> Run:
    """Continue a run that was interrupted or failed; the same as ``daskfc resume``.

    Parameters
    ----------
    folder : path
        The run's folder.
    progress : callable, optional
        ``progress(stage, done, total)``.

    Returns
    -------
    Run
        Done.

    Raises
    ------
    InvalidInput
        When no run is there, or it is done already.
    RunFailed
        When it breaks off again.

    Examples
    --------
    >>> import daskfc as fc
    >>> fc.resume("/no/such/run")
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: /no/such/run: no run is there (it has no run.json). Give the \
folder of a run, for example runs/<name>.
    """
    return Run(folder).resume(progress=progress)

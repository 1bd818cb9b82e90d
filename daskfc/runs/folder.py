"""A run's folder: what is in it, and that nothing in it is ever half-written."""

import fcntl
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.folders import check_folder_name

__all__ = ["RunFolder"]

STATUSES = ("running", "failed", "done")


def _plain(value: Any) -> Any:
    """Turn NumPy scalars and paths into what JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinities by None: JSON has no word for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return _without_nan(float(value)) if isinstance(value, np.floating) else value


class RunFolder:
    """The folder of one run: ``run.json``, results, and what a resumed run needs.

    Parameters
    ----------
    path : path
        An existing folder with a ``run.json``.

    Raises
    ------
    InvalidInput
        When there is no run.

    Examples
    --------
    >>> import tempfile
    >>> from daskfc.runs.folder import RunFolder
    >>> folder = RunFolder.create(tempfile.mkdtemp(), "night", {"seeds": [0]})
    >>> folder.status, folder.record["run_id"]
    ('running', 'night')
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(fspath(path))
        if not (self.path / "run.json").is_file():
            raise InvalidInput(
                f"{self.path}: no run is there (it has no run.json). Give the folder of a run, for "
                "example runs/<name>."
            )

    @classmethod
    def create(
        cls, runs_dir: str | PathLike[str], name: str, record: Mapping[str, Any]
    ) -> "RunFolder":
        """Make the folder of a new run; never one that exists.

        Parameters
        ----------
        runs_dir : path
            The folder of all runs; made if missing.
        name : str
            The run's name and identity.
        record : mapping
            What ``run.json`` shall hold beside name, status and time.

        Returns
        -------
        RunFolder
            With status ``running``.

        Raises
        ------
        InvalidInput
            When the name is no folder's name, is taken, or the place cannot be written.
        """
        check_folder_name("run", name)
        path = Path(fspath(runs_dir)) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)  # labels of every sample id lie in it
        except OSError as error:
            if path.is_dir():
                raise InvalidInput(
                    f"{path}: a run of that name exists and is not written over. Choose another "
                    f"--name, or continue it with: daskfc resume {path}"
                ) from None
            raise InvalidInput(
                f"{path}: the run's folder cannot be made ({error.strerror}). Choose another "
                "--runs-dir."
            ) from None
        now = datetime.now(UTC).isoformat(timespec="seconds")
        full = {"run_id": name, "status": "running", "created": now, **record}
        _write_json(path / "run.json", full)
        return cls(path)

    @property
    def record(self) -> dict[str, Any]:
        """What ``run.json`` holds now."""
        text = (self.path / "run.json").read_text(encoding="utf-8")
        try:
            record: dict[str, Any] = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInput(
                f"{self.path / 'run.json'}: not valid JSON (line {error.lineno}); the file was "
                "changed by hand. Restore it."
            ) from None
        return record

    @property
    def status(self) -> str:
        """``running``, ``failed`` or ``done``."""
        return str(self.record["status"])

    def update(self, **changes: Any) -> None:
        """Change entries of ``run.json``, all or none."""
        assert changes.get("status", "done") in STATUSES, changes
        _write_json(self.path / "run.json", {**self.record, **changes})

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Hold the folder for this process; the hold ends with the process, however it ends.

        Raises
        ------
        InvalidInput
            When another process is running this run.
        """
        with (self.path / ".claim").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInput(
                    f"{self.path}: another process runs this run. Wait for it, or end it first."
                ) from None
            yield

    @property
    def summary(self) -> dict[str, Any]:
        """What ``summary.json`` holds; empty before the run ended."""
        path = self.path / "summary.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json``, all or none."""
        _write_json(self.path / "summary.json", summary)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file of the folder, all or none."""
        _write_bytes(self.path / name, text.encode("utf-8"))

    def write_labels(self, labels: xr.Dataset) -> None:
        """Write ``labels.zarr``, all or none.

        Parameters
        ----------
        labels : xarray.Dataset
            ``labels`` over (algorithm, seed, sample), coordinates ``client`` and ``sample_id``.
        """
        partial = Path(tempfile.mkdtemp(dir=self.path, prefix=".labels-"))
        try:
            # Zarr v3 specifies strings of variable length only, hence object arrays.
            text = [name for name, c in labels.coords.items() if c.dtype.kind not in "iufb"]
            plain = labels.assign_coords({n: labels[n].astype(object) for n in text})
            plain.to_zarr(partial / "labels.zarr", mode="w", zarr_format=3, consolidated=False)
            target = self.path / "labels.zarr"
            if target.exists():
                target.rename(partial / "before")
            (partial / "labels.zarr").rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def read_labels(self) -> xr.Dataset:
        """Return ``labels.zarr``, loaded.

        Returns
        -------
        xarray.Dataset
            See `write_labels`.

        Raises
        ------
        InvalidInput
            When the run has no labels yet.
        """
        path = self.path / "labels.zarr"
        if not path.exists():
            raise InvalidInput(
                f"{self.path}: the run has no labels yet; its status is {self.status!r}. "
                f"Continue it with: daskfc resume {self.path}"
            )
        loaded: xr.Dataset = xr.open_zarr(path, consolidated=False).load()
        text = [name for name, c in loaded.coords.items() if c.dtype.kind not in "iufb"]
        return loaded.assign_coords({name: loaded[name].astype(object) for name in text})

    def write_ledger(self, ledger: pd.DataFrame) -> None:
        """Write ``ledger.parquet``, all or none."""
        partial = self.path / ".ledger.parquet"
        ledger.to_parquet(partial, index=False)
        os.replace(partial, self.path / "ledger.parquet")

    def read_ledger(self) -> pd.DataFrame:
        """Return ``ledger.parquet``; empty when the run has none yet."""
        path = self.path / "ledger.parquet"
        return pd.read_parquet(path) if path.exists() else pd.DataFrame()


def _write_bytes(path: Path, data: bytes) -> None:
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o644)  # whom the owner lets into the folder may read what is in it
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(_without_nan(value), indent=2, default=_plain, allow_nan=False)
    _write_bytes(path, (text + "\n").encode("utf-8"))

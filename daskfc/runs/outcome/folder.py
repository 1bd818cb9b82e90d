"""The folder of a run: read and write its files, each whole or not at all."""

import fcntl
import hashlib
import json
import logging
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import xarray as xr

from daskfc.errors import InvalidInput, RunHeld
from daskfc.folders import (
    PrivateLog,
    check_folder_name,
    flush,
    flush_tree,
    make_private,
    whole_folder,
    write_whole,
)

STATUSES = ("running", "failed", "done")

# Not the cluster: limits and deadlines may have to change before a run can go on, and no label
# depends on where it is computed.
_DECIDE = ("pipeline", "seeds", "storage", "contents")

_BEGUN = (  # left behind by a process that was killed while it wrote
    ".partial-*", ".labels-*", ".ledger.parquet*", ".run.json-*", ".summary.json-*",
    ".report.html-*", ".labels.csv-*", ".labels.parquet-*", ".labels.keys.json-*",
    "progress.json", ".progress.json-*",
)  # fmt: skip


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            yield from _leaves(f"{key}.{name}", below)
    else:
        yield key, value


def digests_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return by dotted key a digest of each setting that results depend on."""
    plain = json.loads(json.dumps({key: record.get(key) for key in _DECIDE}))  # as it is read back
    leaves = (leaf for key in _DECIDE for leaf in _leaves(key, plain[key]))
    return {
        key: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for key, value in sorted(leaves)
    }


def _plain(value: Any) -> Any:
    """Turn NumPy scalars and paths into what JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def without_nan(value: Any) -> Any:
    """Return a value with None in place of NaN and infinities, which JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return without_nan(float(value)) if isinstance(value, np.floating) else value


class RunFolder:
    """The folder of one run: ``run.json``, results, and what a resumed run needs."""

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
        """Make a new run's folder with `record` and status ``running``; raise if there is one."""
        check_folder_name("run", name)
        path = Path(fspath(runs_dir)) / name
        now = datetime.now(UTC).isoformat(timespec="seconds")
        full = {"run_id": name, "status": "running", "created": now, **record}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_folder(path) as staged:  # labels of every sample id will lie in it
                _write_json(staged / "run.json", full)
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
        return cls(path)

    @property
    def record(self) -> dict[str, Any]:
        """What ``run.json`` holds now."""
        path = self.path / "run.json"
        try:
            record = _read_json(path)
        except OSError as error:
            raise InvalidInput(
                f"{path}: cannot be read ({error.strerror}). Make it readable, or start a new run."
            ) from None
        except ValueError:
            raise InvalidInput(
                f"{path}: not valid JSON; the file was changed by hand or damaged. Restore it, or "
                "start a new run."
            ) from None
        if "run_id" not in record or record.get("status") not in STATUSES:
            raise InvalidInput(
                f"{path}: key 'run_id' or 'status' is missing or was changed by hand. Restore it, "
                "or start a new run."
            )
        return record

    def done_record(self, why: str) -> dict[str, Any]:
        """Return the record of a run that is done; raise for another, where `why` ends in its."""
        record = self.record
        if record["status"] != "done":
            raise InvalidInput(
                f"{self.path}: {why} status is {record['status']!r}. Continue it with: daskfc "
                f"resume {self.path}"
            )
        return record

    @property
    def status(self) -> str:
        """``running``, ``failed`` or ``done``."""
        return str(self.record["status"])

    @property
    def is_done(self) -> bool:
        """Whether the run is done; False if its folder was removed or damaged."""
        try:
            return self.status == "done"
        except (OSError, InvalidInput):
            return False

    @property
    def settings(self) -> str:
        """One digest of all settings that the run's results depend on."""
        told = json.dumps(digests_of(self.record), sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def check_unedited(self) -> None:
        """Raise if settings changed since the run began, which would mix results."""
        path, record = self.path / "run.json", self.record
        began, now = record.get("digests"), digests_of(record)
        if not isinstance(began, Mapping):
            raise InvalidInput(
                f"{path}: key 'digests', by which changes of the settings are found, is missing. "
                "Restore the file, or start a new run."
            )
        for key in sorted({*began, *now}):
            if began.get(key) != now.get(key):
                raise InvalidInput(
                    f"{path}: {key!r} was changed since the run began, and results of two settings "
                    "are never mixed. Restore it, or start a new run."
                )

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Write daskfc's log also to ``log.txt`` within the context."""
        handler = PrivateLog(self.path / "log.txt", delay=True)
        logger = logging.getLogger("daskfc")
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)
            handler.close()

    def update(self, **changes: Any) -> None:
        """Change entries of ``run.json``, all or none."""
        assert changes.get("status", "done") in STATUSES, changes
        _write_json(self.path / "run.json", {**self.record, **changes})

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Lock the folder, at most until this process ends; raise RunHeld if it is locked."""
        handle = self._locked()
        try:
            self.sweep()
            yield
        finally:
            self.sweep()
            (self.path / ".claim").unlink(missing_ok=True)
            handle.close()

    def _locked(self) -> IO[str]:
        path = self.path / ".claim"
        while True:
            try:
                handle = path.open("w")
            except OSError as error:
                raise InvalidInput(
                    f"{self.path}: the run's folder cannot be written ({error.strerror}). Make it "
                    "writable, and free space if there is none."
                ) from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(handle.fileno()).st_ino == path.stat().st_ino:
                    return handle
            except BlockingIOError:
                held = _is_locked(handle)  # else somebody only looked, see `is_held`
                handle.close()
                if held:
                    raise RunHeld(
                        f"{self.path}: another process runs this run. Wait for it, or end it first."
                    ) from None
            except FileNotFoundError:
                pass
            handle.close()  # its holder has just ended and removed the file: claim the new one

    @property
    def is_held(self) -> bool:
        """Whether a process of this machine carries out the run now."""
        try:
            with (self.path / ".claim").open("rb") as handle:
                return _is_locked(handle)
        except FileNotFoundError:
            return False

    def sweep(self) -> None:
        """Remove unfinished files of any process."""
        for pattern in _BEGUN:
            for left in self.path.glob(pattern):
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)

    def own_ledgers(self) -> dict[str, list[Path]]:
        """Return the files of the parties' own ledgers, by party; empty for parties of sites."""
        found: dict[str, list[Path]] = {}
        for path in sorted((self.path / "work").glob("*/parties/*/ledger.jsonl")):
            found.setdefault(path.parent.name, []).append(path)
        for path in sorted((self.path / "work").glob("*/server/ledger.jsonl")):
            found.setdefault(path.parent.name, []).append(path)
        for path in sorted((self.path / "ledgers").glob("*/*.jsonl")):
            found.setdefault(path.stem, []).append(path)
        return found

    def _keep_ledgers(self) -> None:
        """Move the parties' own ledgers out of the working folder."""
        for party, paths in self.own_ledgers().items():
            for path in paths:
                place = path.relative_to(self.path).parts
                if place[0] == "work":
                    kept = self.path / "ledgers" / place[1] / f"{party}.jsonl"
                    with suppress(OSError):  # the working folder is removed all the same
                        make_private(kept.parent)
                        path.replace(kept)

    def drop_work(self) -> None:
        """Remove what only resuming needs; the parties' ledgers stay."""
        self._keep_ledgers()
        for name in ("fits", "work"):
            shutil.rmtree(self.path / name, ignore_errors=True)

    @property
    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``, empty before the end; InvalidInput if it is damaged."""
        try:
            return _read_json(self.path / "summary.json")
        except (FileNotFoundError, ValueError):
            if self.status != "done":
                return {}
            raise self._damaged("summary.json") from None

    def _damaged(self, name: str) -> InvalidInput:
        return InvalidInput(
            f"{self.path / name}: is missing or damaged, and the run is done. Restore it from a "
            "copy, or run again under another --name."
        )

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json``, all or none."""
        _write_json(self.path / "summary.json", summary)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file of the folder, all or none."""
        self.write_bytes(name, text.encode("utf-8"))

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file of the folder, all or none."""
        # Whoever may enter the folder may read what is in it.
        write_whole(self.path / name, data, mode=0o644)

    def write_labels(self, labels: xr.Dataset) -> None:
        """Write ``labels.zarr``, ``labels`` over (algorithm, seed, sample), all or none."""
        partial = Path(tempfile.mkdtemp(dir=self.path, prefix=".labels-"))
        try:
            # Zarr v3 specifies strings of variable length only, hence object arrays.
            text = [name for name, c in labels.coords.items() if c.dtype.kind not in "iufb"]
            plain = labels.assign_coords({n: labels[n].astype(object) for n in text})
            # A chunk that gets lost would read as label 0 everywhere.
            plain.attrs["sha256"] = _fingerprint(plain)
            with warnings.catch_warnings():
                # Not part of Zarr v3 yet; without it, opening with xarray's defaults warns.
                warnings.filterwarnings("ignore", message="Consolidated metadata is")
                plain.to_zarr(partial / "labels.zarr", mode="w", zarr_format=3, consolidated=True)
            flush_tree(partial)
            target = self.path / "labels.zarr"
            if target.exists():
                target.rename(partial / "before")
            (partial / "labels.zarr").rename(target)
            flush(self.path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def read_labels(self) -> xr.Dataset:
        """Load ``labels.zarr``; raise InvalidInput if it is missing or damaged."""
        path = self.path / "labels.zarr"
        if not path.exists():
            self.done_record("the run has no labels yet; its")
        try:
            loaded: xr.Dataset = xr.open_zarr(path, consolidated=False).load()
        except Exception:  # libraries raise anything for damaged bytes
            raise self._damaged("labels.zarr") from None
        text = [name for name, c in loaded.coords.items() if c.dtype.kind not in "iufb"]
        labels = loaded.assign_coords({name: loaded[name].astype(object) for name in text})
        if labels.attrs.pop("sha256", "") not in ("", _fingerprint(labels)):
            raise self._damaged("labels.zarr")
        return labels

    def write_ledger(self, ledger: pd.DataFrame) -> None:
        """Write ``ledger.parquet``, all or none."""
        data = ledger.to_parquet(index=False, write_page_checksum=True)
        self.write_bytes("ledger.parquet", data)

    def read_ledger(self) -> pd.DataFrame:
        """Return ``ledger.parquet``, empty if the run has none yet; raise if it is damaged."""
        path = self.path / "ledger.parquet"
        if not path.exists() and self.status != "done":
            return pd.DataFrame()
        try:
            return pd.read_parquet(path, page_checksum_verification=True)
        except (OSError, ValueError):  # pyarrow's own errors are either
            raise self._damaged("ledger.parquet") from None


def _is_locked(handle: IO[Any]) -> bool:
    """Return whether a process has an exclusive lock on a file."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(handle, fcntl.LOCK_UN)
    return False


def _fingerprint(labels: xr.Dataset) -> str:
    """Return a digest of all values and coordinates."""
    digest = hashlib.sha256()
    for name in sorted(map(str, labels.variables)):
        values = labels[name].to_numpy()
        plain = values.tolist() if values.dtype.kind in "OUT" else values.astype("<i8").tobytes()
        digest.update(f"{name} {values.shape} ".encode())
        digest.update(json.dumps(plain).encode() if isinstance(plain, list) else plain)
    return digest.hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object; a ValueError for anything else."""
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    return value


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(without_nan(value), indent=2, default=_plain, allow_nan=False)
    write_whole(path, (text + "\n").encode("utf-8"), mode=0o644)

"""What the faults strike: one small run of every protocol, and the labels that it must yield."""

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import xarray as xr
import yaml

from daskfc.protocols import METHODS
from daskfc.runs.progress_file import read_progress
from daskfc.stores import load_storage

DEADLINE = 15
PATIENCE = 240  # seconds beyond which a run counts as hanging, on a busy machine

ROWS = {
    "source": {"dataset": "iris"},
    "partition": {"scheme": "label-skew", "clients": 3, "skew": 0.75, "seed": 0},
}
COLUMNS = {
    "source": {
        "dataset": "digits",
        "graph": {"neighbours": 10},
        "subsample": {"n": 300, "seed": 0},
    },
    "partition": {"scheme": "vertical", "clients": 3},
}
VIEWS = {
    "source": {"dataset": "digits-views", "scaling": "min-max", "subsample": {"n": 200, "seed": 0}},
    "partition": {"scheme": "views", "overlap": 0.7, "seed": 0},
}
CASES = {  # a protocol that is not named here runs on rows with its defaults
    "kCAGC": (COLUMNS, {"n_clusters": 10}),
    "ESFMC": (
        VIEWS,
        {
            "n_clusters": 10,
            "rounds": 4,
            "tolerance": 0.0,
            "local_epochs": 60,
            "pretraining_epochs": 20,
        },
    ),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A pipeline, its stores, the labels it must yield and the seconds that its fits take."""

    method: str
    pipeline: Path
    storage: Path
    urls: dict[str, str]
    labels: np.ndarray
    seconds: float

    @property
    def clients(self):
        return sorted(self.urls)


def environment(temporary):
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(temporary), "PYTHONWARNINGS": ""}


def labels_of(folder):
    with xr.open_zarr(folder / "labels.zarr", consolidated=False) as labels:
        return labels["labels"].to_numpy()


def case_of(method, folder):
    """Build the stores of a method's case and run it undisturbed."""
    storage, params = CASES.get(method, (ROWS, {"n_clusters": 3}))
    folder = folder / method
    folder.mkdir(parents=True)
    files = {
        "pipeline": {"method": method, "params": params, "seeds": [0, 1]},
        "storage": {**storage, "root": str(folder / "stores")},
    }
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    urls = load_storage(folder / "storage.yaml").ensure()
    case = Case(
        method, folder / "pipeline.yaml", folder / "storage.yaml", urls, np.empty(0), PATIENCE
    )
    run = Run(case, folder / "reference")
    run.wait_until_fitting()
    began = time.monotonic()
    code = run.wait()
    if code:
        raise RuntimeError(f"{method} fails undisturbed: {run.said()}")
    seconds = time.monotonic() - began
    return dataclasses.replace(case, labels=labels_of(run.folder), seconds=seconds)


class Run:
    """A driver's process, ``daskfc run``, with temporary files of its own."""

    def __init__(self, case, folder, *, cluster=None, runs=None):
        self.case = case
        self.temporary = folder / "t"
        self.temporary.mkdir(parents=True, exist_ok=True)
        runs = runs or folder / "runs"
        self.folder = runs / "r"
        file = folder / "cluster.yaml"
        file.write_text(
            yaml.safe_dump(cluster or {"cluster": "local", "deadline": DEADLINE, "startup": 200})
        )
        self._output = folder / "output.txt"
        self._start(
            *("run", str(case.pipeline), "--storage", str(case.storage), "--cluster", str(file)),
            *("--runs-dir", str(runs), "--name", "r"),
        )

    def _start(self, *arguments):
        with self._output.open("a") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "daskfc", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(self.temporary),
                start_new_session=True,
            )
        self.began = time.monotonic()

    def resume(self):
        self._start("resume", str(self.folder))

    def said(self):
        return self._output.read_text()

    def wait_until_fitting(self, after=0.0):
        """Wait until parties compute, and then for some seconds more; return whether they do."""
        ends = time.monotonic() + PATIENCE
        # Parties of sites write in folders of their own, and what the driver does is known later.
        while not (
            list(self.folder.glob("work/*/parties/*"))
            or ", seed " in read_progress(self.folder).get("stage", "")
        ):
            if self.process.poll() is not None or time.monotonic() > ends:
                return False
            time.sleep(0.05)
        time.sleep(after)
        return self.process.poll() is None

    def wait(self, seconds=PATIENCE):
        """Return the exit code, or None for a run that hangs."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def worker(self, party):
        """Return the process id of a party's worker of a local run, by the files it holds."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                files = [file.path for file in process.open_files()]
            except psutil.Error:
                continue
            if any(f"/{party}/dask-scratch-space/" in path for path in files):
                return process.pid
        return None

    def children(self):
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.Error:
            return []


def cases_of(folder, method=None):
    return {each: case_of(each, folder) for each in METHODS if method in (None, each)}

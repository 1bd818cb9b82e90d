"""What the faults strike: one small run of every method, and the labels that it must yield."""

import csv
import dataclasses
import hashlib
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import xarray as xr
import yaml
from sklearn.metrics import adjusted_rand_score

from daskfc.deploy.config.values import LEAST_MEMORY
from daskfc.protocols import METHODS
from daskfc.runs import plan
from daskfc.runs.outcome.status import read_progress
from daskfc.stores import load_storage

DEADLINE = 8  # seconds that a party may be away, in faults that wait for it
LONG_DEADLINE = 60  # in those that a run is to survive, on a machine that is busy with others
ROOM = 1.1  # limits of memory are this many times what the plan foresees
PATIENCE = 300  # seconds beyond which a run counts as hanging: starts take long there

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
APART = {  # groups so far apart that noise does not move a sample from one to another
    "source": {"path": "rows.csv", "ids": "id", "labels": "group"},
    "partition": {"scheme": "label-skew", "clients": 3, "skew": 0.75, "seed": 0},
}
BASELINES = ("k-FED", "MUFC", "FFCM", "FedMAvg", "DSC", "RFK-k-means", "CE-PCA")
"""Those whose clients keep their rows; the others pool them, and are runs of one process."""
NOISY, BUDGET = "FedSC, noise", "FedSC, budget"
DELTA = 1e-5
DATA = {"kind": "data", "delta": DELTA, "clip": 12.0}
CASES = {  # a method that is not named here runs on rows with its defaults
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
    # Noise of this size may be released as often as a site allows; a budget is for one fit.
    NOISY: (APART, {"n_clusters": 3, "noise": {**DATA, "sigma": 0.5}}),
    BUDGET: (APART, {"n_clusters": 3, "noise": {**DATA, "epsilon": 1500.0}}),
}
NAMES = (*METHODS, NOISY, BUDGET, *BASELINES)

one_at_a_time = threading.Lock()
"""Held where a job reads with libraries that others may use in another thread."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A pipeline, its stores, the labels it must yield, its fits' seconds, its parties' limits."""

    method: str
    pipeline: Path
    storage: Path
    urls: dict[str, str]
    labels: np.ndarray
    seconds: float
    limits: dict[str, dict[str, int]]  # of memory, as a cluster's file has them

    @property
    def clients(self):
        return sorted(self.urls)

    @property
    def may_refuse(self):
        """Whether a run that broke off may not go on, since what it released spent its budget."""
        return self.method == BUDGET

    def same(self, labels):
        """Return whether labels are those of the undisturbed run.

        Noise is drawn anew in every start, so that under it only the groups are the same.
        """
        if self.method not in (NOISY, BUDGET):
            return np.array_equal(labels, self.labels)
        pairs = zip(labels[0], self.labels[0], strict=True)
        return min(adjusted_rand_score(one, other) for one, other in pairs) > 0.99

    def with_stores_of_its_own(self, folder):
        """Return the case on a copy of its stores, which a fault may change."""
        content = yaml.safe_load(self.storage.read_text())
        shutil.copytree(content["root"], folder)
        storage = folder.with_name("storage.yaml")
        storage.write_text(yaml.safe_dump({**content, "root": str(folder)}))
        with one_at_a_time:
            urls = load_storage(storage).client_urls()
        return dataclasses.replace(self, storage=storage, urls=urls)

    def digest(self):
        """Return a digest of every byte of the stores."""
        digest = hashlib.sha256()
        for url in sorted(self.urls.values()):
            for path in sorted(path for path in Path(url).rglob("*") if path.is_file()):
                digest.update(f"{path} {path.stat().st_size} ".encode() + path.read_bytes())
        return digest.hexdigest()


def environment(temporary, **more):
    """Return the environment of a campaign's processes: by TMPDIR they are found again."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join((str(Path(__file__).with_name("watch")), str(root)))
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {
        **plain, "PYTHONPATH": path, "TMPDIR": str(temporary), "PYTHONWARNINGS": "",
        "DASKFC_CHAOS_KEYS": str(Path(temporary).parent / "keys.txt"), **more,
    }  # fmt: skip


def labels_of(folder):
    with one_at_a_time, xr.open_zarr(folder / "labels.zarr", consolidated=False) as labels:
        return labels["labels"].to_numpy()


def write_rows_apart(path):
    """Write a table of 150 samples in three groups, and return its path."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "group", *(f"c{i}" for i in range(4))])
        for i in range(150):
            group = i % 3
            features = rng.normal(size=4, scale=0.5) + 6.0 * (np.arange(4) == group)
            writer.writerow([f"s{i}", group, *features.round(4)])
    return path


def limits_of(pipeline, storage):
    """Return a limit of memory for each party: a tenth more than the plan of its largest part."""
    most = {}
    for part in plan(pipeline, storage=storage).parts:
        for party, (needed, _) in part.memory.items():
            most[party] = max(needed, most.get(party, 0))
    return {
        name: {"memory_limit": max(math.ceil(ROOM * needed), LEAST_MEMORY)}
        for name, needed in most.items()
    }


def case_of(name, folder):
    """Build the stores of a method's case and run it undisturbed."""
    storage, params = CASES.get(name, (ROWS, {"n_clusters": 3}))
    folder = folder / name.replace(", ", "-")
    folder.mkdir(parents=True)
    method = name.partition(",")[0]
    if storage is APART:
        table = write_rows_apart(folder / "rows.csv")
        storage = {**storage, "source": {**storage["source"], "path": str(table)}}
    files = {
        "pipeline": {"method": method, "params": params, "seeds": [0, 1]},
        "storage": {**storage, "root": str(folder / "stores")},
    }
    for kind, content in files.items():
        (folder / f"{kind}.yaml").write_text(yaml.safe_dump(content))
    with one_at_a_time:
        urls = load_storage(folder / "storage.yaml").ensure()
        limits = limits_of(folder / "pipeline.yaml", folder / "storage.yaml")
    files = (folder / "pipeline.yaml", folder / "storage.yaml")
    case = Case(name, *files, urls, np.empty(0), PATIENCE, limits)
    run = Run(case, folder / "reference", deadline=LONG_DEADLINE)
    run.wait_until_fitting()
    began = time.monotonic()
    code = run.wait()
    if code:
        raise RuntimeError(f"{name} fails undisturbed: {run.said()}")
    seconds = time.monotonic() - began
    return dataclasses.replace(case, labels=labels_of(run.folder), seconds=seconds)


class Run:
    """A driver's process, ``daskfc run``, with temporary files of its own."""

    def __init__(self, case, folder, *, deadline=DEADLINE, cluster=None, runs=None):
        self.case = case
        self.temporary = folder / "t"
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.runs = runs or folder / "runs"
        self.folder = self.runs / "r"
        self.place = folder
        file = folder / "cluster.yaml"
        local = {"cluster": "local", "deadline": deadline, "startup": 120}
        file.write_text(yaml.safe_dump(cluster or {**local, "parties": case.limits}))
        self._output = folder / "output.txt"
        self._words = (
            *("run", str(case.pipeline), "--storage", str(case.storage), "--cluster", str(file)),
            *("--runs-dir", str(self.runs), "--name", "r"),
        )
        self.start_again()

    def _start(self, *arguments):
        with self._output.open("a") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "daskfc", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(self.temporary),
                start_new_session=True,
            )
        return process

    def start_again(self):
        """Start it from the beginning."""
        self.process = self._start(*self._words)

    def resume(self):
        self.process = self._start("resume", str(self.folder))

    def resume_beside(self):
        """Start a resume that is not the run's own, and return its process."""
        return self._start("resume", str(self.folder))

    def said(self):
        return self._output.read_text()

    def sentence(self):
        """Return the last line that the command told as the reason of its end."""
        lines = [line for line in self.said().splitlines() if line.startswith("daskfc:")]
        return lines[-1] if lines else ""

    def wait_until(self, there, seconds=PATIENCE):
        """Wait until something is there, and return whether it is and the run goes on."""
        ends = time.monotonic() + seconds
        while not there():
            if self.process.poll() is not None or time.monotonic() > ends:
                return False
            time.sleep(0.05)
        return self.process.poll() is None

    def wait_until_fitting(self, after=0.0):
        """Wait until parties compute, and then for some seconds more; return whether they do."""
        # Parties of sites write in folders of their own, and what the driver does is known later.
        begun = self.wait_until(
            lambda: (
                list(self.folder.glob("work/*/parties/*"))
                or ", seed " in read_progress(self.folder).get("stage", "")
            )
        )
        if begun:
            time.sleep(after)
        return begun and self.process.poll() is None

    def wait(self, seconds=PATIENCE):
        """Return the exit code, or None for a run that hangs."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def worker(self, party):
        """Return the process id of a party's worker of a local run, by the files it holds."""
        for process in self.children():
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


def cases_of(folder, names=NAMES, jobs=1):
    """Return the case of each method, several made at once."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda name: case_of(name, folder), names))

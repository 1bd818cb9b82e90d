"""What writes files of daskfc, killed at each of its steps on the disk, and what is there then.

``python -m tests.killed FOLDER MOST`` takes each case of `CASES`: a process prepares a folder,
writes, and is killed, before its n-th step (it opens a file, makes a folder, renames, removes) or
in the middle of the bytes that it writes next. Another looks at the folder, writes again as
somebody would who was cut off, and looks again. A line of JSON each; at most MOST n of a case.
"""

import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.own_key import check_side
from daskfc.deploy.certificates.revocation import Revoked
from daskfc.errors import InvalidInput, StoreError
from daskfc.examples import write_example
from daskfc.federation import Checkpoints
from daskfc.federation.ledger.ledger import Ledger
from daskfc.federation.ledger.rows import LedgerFile, LedgerRow
from daskfc.federation.methods.saving import read_model, write_model
from daskfc.folders import write_once, write_private
from daskfc.protocols import OmniFC
from daskfc.protocols.fedsc.journal import Journal
from daskfc.runs.outcome.fits import Fit, FitShelf
from daskfc.runs.outcome.folder import RunFolder
from daskfc.site import SiteState
from daskfc.stores import ClientStore, append_samples, write_store
from daskfc.stores.store.clusters import read_clusters, write_clusters

STEPS = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.chmod"}
ROW = LedgerRow(
    "r", 1, "s", "a", "server", "M", "masked", {"x": [2]}, {"x": "f8"}, 16, 99, 1.0, "t"
)
X = np.arange(12.0).reshape(6, 2)
IDS = [f"p{i}" for i in range(6)]


@dataclass(frozen=True)
class Case:
    """A writer: what was there before, what it does, and what a reader then finds."""

    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    prepare: Callable[[Path], Any] = lambda folder: None
    last: Callable[[Path], Any] = lambda folder: None  # once all is there


def file(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).read_text() if (folder / name).exists() else "absent"


def of_a_store(what: Callable[[ClientStore], Any]) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        try:
            return what(ClientStore.open(str(folder / "a.zarr"), verify=True))
        except (StoreError, InvalidInput) as error:
            if "no clusters" in str(error) or not (folder / "a.zarr").exists():
                return "absent"
            raise

    return read


def rows_of(found: ClientStore) -> Any:
    return found.rows(0, found.n_samples).tolist()


def clusters_of(found: ClientStore) -> Any:
    return read_clusters(found, "c")[0].tolist()


def store(factor: float, **more: Any) -> Callable[[Path], Any]:
    return lambda folder: write_store(str(folder / "a.zarr"), "a", factor * X, IDS, chunk_rows=4,
                                      **more)  # fmt: skip


def clusters(value: int, **more: Any) -> Callable[[Path], Any]:
    def write(folder: Path) -> None:
        opened = ClientStore.open(str(folder / "a.zarr"))
        write_clusters(opened, "c", np.full((6, 1), value), ["fit"], **more)

    return write


def both(*writers: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def write(folder: Path) -> None:
        for one in writers:
            one(folder)

    return write


def model(folder: Path) -> Any:
    place = folder / "model"
    if not place.exists():
        return "absent"
    kinds = {f"{OmniFC.__module__}:{OmniFC.__qualname__}": OmniFC}
    return read_model(place, kinds)[1]["labels_"].tolist()


def checkpoint(folder: Path) -> Any:
    found = Checkpoints(folder / "kept").latest()
    return found and found[1]["x"].tolist()


def run(folder: Path) -> RunFolder:
    return RunFolder(folder / "runs" / "a")


def make_run(folder: Path) -> None:
    RunFolder.create(folder / "runs", "a", {"pipeline": {"method": "FedSC"}})


def of_a_run(what: Callable[[RunFolder], Any]) -> Callable[[Path], Any]:
    return lambda folder: what(run(folder)) if (folder / "runs" / "a").exists() else "absent"


def labels(value: int) -> xr.Dataset:
    own = ("sample", np.array(["a", "b"], dtype=object))
    found = xr.DataArray(np.full(2, value), dims="sample", coords={"client": own, "sample_id": own})
    return xr.Dataset({"labels": found})


def read_labels(found: RunFolder) -> Any:
    if not (found.path / "labels.zarr").exists():
        return "absent"
    return found.read_labels()["labels"].to_numpy().tolist()


def fit(value: int) -> Callable[[Path], Any]:
    told = labels(value)["labels"]
    one = Fit("FedSC", 0, told, pd.DataFrame({"x": [1]}), {"fit": 1.0}, {})
    return lambda folder: FitShelf(folder / "fits").put(one)


def read_fit(folder: Path) -> Any:
    found = FitShelf(folder / "fits").get("FedSC", 0)
    return "absent" if found is None else found.labels.to_numpy().tolist()


def state(folder: Path) -> Any:
    path = folder / "state.sqlite"
    return len(SiteState(path).audit()) if path.exists() else "absent"


def authority(folder: Path) -> Authority:
    return Authority(folder / "ca")


def make_authority(folder: Path) -> None:
    Authority.create(folder / "ca")


def read_authority(folder: Path) -> Any:
    return list(authority(folder).issued()) if (folder / "ca").exists() else "absent"


def issue(folder: Path) -> None:
    authority(folder).issue("client", "a")


def issued(folder: Path) -> Any:
    """Return whether a party has a certificate, and note which: it may be in use from now on."""
    place = authority(folder).folder_of("a")
    if not (place / "cert.pem").exists():
        return "absent"
    with (folder / "serials").open("a") as told:
        told.write(f"{check_side(place).serial}\n")
    return "issued"


def revoke(folder: Path) -> None:
    authority(folder).revoke("a")


def revoked(folder: Path) -> list[bool]:
    known = Revoked(folder / "ca" / "ca.pem")
    return [int(one) in known for one in (folder / "serials").read_text().split()]


def revoke_all(folder: Path) -> None:
    """Revoke a party; no certificate that it ever had is good any more."""
    revoke(folder)
    assert all(told := revoked(folder)), told


def written_ledger(name: str, read: Callable[[Path], pd.DataFrame]) -> Case:
    def rows(folder: Path) -> Any:
        return len(read(folder / name)) if (folder / name).exists() else "absent"

    return Case(lambda folder: Ledger([vars(ROW)] * 3).write(folder / name), rows)


def example(folder: Path) -> Any:
    """Return that the files of an example that are there are whole."""
    for path in folder.rglob("[!.]*.*"):
        assert path.is_dir() or path.read_bytes().endswith(b"\n"), path
        assert path.suffix != ".yaml" or path.read_text() == WHOLE[path.parent.name], path
    return "whole"


def add_missing(folder: Path) -> None:
    """Write an example where nothing of it is, as it asks for."""
    for path in folder.rglob("[!.]*.*"):
        if path.is_file():
            path.unlink()
    write_example("hospitals", folder)


WHOLE = {path.parent.name: path.read_text() for path in
         write_example("hospitals", tempfile.mkdtemp()) if path.suffix == ".yaml"}  # fmt: skip


def rows(folder: Path) -> Any:
    found = LedgerFile(folder / "ledger.jsonl").read("r")
    assert all(set(row) == set(vars(ROW)) for row in found)
    return len(found) and "rows"


def releases(folder: Path) -> Any:
    journal = folder / "journal"
    return Journal(journal).releases().tolist() if journal.exists() else "absent"


def text_of_run(found: RunFolder) -> Any:
    place = found.path / "labels.csv"
    return place.read_text() if place.exists() else "absent"


CASES = {
    "a new file": Case(lambda f: write_private(f / "a", b"x" * 99), file("a")),
    "a file in place of another": Case(
        lambda f: write_private(f / "a", b"x" * 99, overwrite=True), file("a"),
        lambda f: write_private(f / "a", b"y" * 50),
    ),
    "a file that is written once": Case(lambda f: write_once(f / "a", b"x" * 99), file("a")),
    "a store": Case(store(1), of_a_store(rows_of)),
    "a store in place of another": Case(
        store(2, overwrite=True), of_a_store(rows_of), store(1)
    ),
    "a store that grows": Case(
        lambda f: append_samples(str(f / "a.zarr"), X[:2], ["new 1", "new 2"]),
        of_a_store(rows_of), store(1),
    ),
    "clusters in a store": Case(
        clusters(1), of_a_store(clusters_of), store(1)
    ),
    "clusters in place of others": Case(
        clusters(2, overwrite=True), of_a_store(clusters_of),
        both(store(1), clusters(1)),
    ),
    "a model": Case(lambda f: write_model(OmniFC, {"labels_": X}, f / "model"), model),
    "a checkpoint": Case(
        lambda f: Checkpoints(f / "kept").save(2, {"x": X}), checkpoint,
        lambda f: Checkpoints(f / "kept").save(1, {"x": 2 * X}),
    ),
    "a list of releases": Case(lambda f: Journal.opened(f / "journal"), releases),
    "a release": Case(
        lambda f: Journal(f / "journal").expect("b", 2.0), releases,
        lambda f: Journal.opened(f / "journal").expect("a", 1.0),
    ),
    "a run": Case(make_run, of_a_run(lambda run: run.status)),
    "what a run says": Case(
        lambda f: run(f).update(status="done", note="x" * 99), of_a_run(lambda run: run.status),
        make_run,
    ),
    "labels of a run": Case(
        lambda f: run(f).write_labels(labels(2)), of_a_run(read_labels),
        both(make_run, lambda f: run(f).write_labels(labels(1))),
    ),
    "a table of a run": Case(
        lambda f: run(f).write_text("labels.csv", "a,b\n" * 50), of_a_run(text_of_run), make_run
    ),
    "a fit": Case(fit(2), read_fit, fit(1)),
    "a site's state": Case(lambda f: SiteState(f / "state.sqlite"), state),
    "an authority": Case(make_authority, read_authority),
    "a certificate": Case(issue, issued, make_authority, revoke_all),
    "another certificate": Case(
        lambda f: authority(f).renew("a"), issued, both(make_authority, issue), revoke_all
    ),
    "a revocation": Case(
        revoke, lambda f: all(revoked(f)), both(make_authority, issue, issued)
    ),
    "a ledger as Parquet": written_ledger("a.parquet", pd.read_parquet),
    "a ledger as csv": written_ledger("a.csv", pd.read_csv),
    "rows of a party's ledger": Case(
        lambda f: LedgerFile(f / "ledger.jsonl").begin([ROW]), rows,
        lambda f: LedgerFile(f / "ledger.jsonl").begin([ROW]),
    ),
    "an example": Case(add_missing, example),
}  # fmt: skip


def die_at(n: int, how: str, folder: Path) -> list[int]:
    """Have this process killed at a step of its, or in the bytes after it; return a count."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    steps = [0]
    inside = f"{folder}/"

    def step(event: str, args: tuple[Any, ...]) -> None:
        if event not in STEPS or not isinstance(args[0], str | bytes | os.PathLike):
            return
        if not os.path.abspath(os.fsdecode(args[0])).startswith(inside):
            return
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        if event == "open" and not (isinstance(args[2], int) and args[2] & writes):
            return
        steps[0] += 1
        if steps[0] != n:
            return
        if how == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        there = os.path.getsize(args[0]) if os.path.isfile(args[0]) else 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (there + 9, there + 9))

    sys.addaudithook(step)
    return steps


def in_a_process(work: Callable[[], Any]) -> int:
    """Return how a fork of this process ended, which did some work."""
    sys.stdout.flush()
    if (pid := os.fork()) == 0:
        code = 1
        try:
            work()
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def tell(name: str, **told: Any) -> None:
    print(json.dumps({"case": name, **told}), flush=True)


def prepared(case: Case, folder: Path) -> None:
    folder.mkdir(parents=True)
    case.prepare(folder)


def undisturbed(name: str, folder: Path) -> None:
    """Tell what a case finds before and after, and in how many steps."""
    case = CASES[name]
    prepared(case, folder)
    before, steps = case.read(folder), die_at(0, "", folder)
    case.write(folder)
    total = steps[0]
    tell(name, before=before, after=case.read(folder), steps=total)
    folder.with_name("steps").write_text(str(total))


def disturbed(name: str, folder: Path, n: int, how: str) -> None:
    """Write, and be killed."""
    prepared(CASES[name], folder)
    die_at(n, how, folder)
    CASES[name].write(folder)


def look(name: str, folders: Sequence[Path]) -> None:
    """Tell what is left in each folder, and what is there after another try."""
    case = CASES[name]
    for folder in folders:
        told = {"killed": folder.name}
        try:
            told["left"] = case.read(folder)
            with suppress(InvalidInput, StoreError):  # is there already
                case.write(folder)
            told["again"] = case.read(folder)
            case.last(folder)
        except Exception as error:
            told["error"] = f"{type(error).__name__}: {error}"
        tell(name, **told)


def main(root: Path, most: int, names: list[str]) -> None:
    """Kill all cases, or some."""
    for number, name in enumerate(names or CASES):
        place = root / str(number)
        in_a_process(partial(undisturbed, name, place / "whole"))
        total = int((place / "steps").read_text())
        at = np.linspace(1, total, min(most, total)).astype(int).tolist()
        killed = [
            folder
            for n, how in itertools.product(at, ("before", "within"))
            if in_a_process(partial(disturbed, name, folder := place / f"{how} {n}", n, how))
        ]
        in_a_process(partial(look, name, killed))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3:])

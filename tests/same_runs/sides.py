"""One side of a comparison: a copy of a commit's tree, and runs of it in processes of their own."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from tests.mutations.run import ROOT, copy_tree
from tests.same_runs.cases import Case, place_in, write_method_cases

TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit code, its last sentence, its folder and its seconds."""

    code: int | str
    sentence: str
    folder: Path
    seconds: float


class Side:
    """A commit's tree in a folder of its own, with its stores and its runs.

    Parameters
    ----------
    folder : Path
        Made here. Both sides' should have names of one length, lest messages differ by a path.
    commit : str, optional
        Of this repository; the working tree, with what is not yet committed, if not given.
    data : Path, optional
        The folder of data sets.
    """

    def __init__(self, folder: Path, commit: str | None, data: Path | None) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self.tree.mkdir(parents=True)
        (folder / "tmp").mkdir()
        if commit is None:
            copy_tree(self.tree)
        else:
            unpack(commit, self.tree)
        write_method_cases(folder)
        self.env = {
            **os.environ,
            "PYTHONPATH": str(self.tree),
            "TMPDIR": str(folder / "tmp"),
            **({} if data is None else {"DASKFC_DATA": str(data)}),
        }
        self._check_own_package()

    def _check_own_package(self) -> None:
        command = [sys.executable, "-c", "import daskfc; print(daskfc.__file__)"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, check=True, capture_output=True, text=True
        )
        if not Path(done.stdout.strip()).is_relative_to(self.tree):
            raise SystemExit(f"daskfc comes from {done.stdout.strip()} and not from {self.tree}.")

    def _path(self, file: str) -> str:
        return str(self.folder / file if file.startswith("cases/") else place_in(self.tree, file))

    def build(self, storage: str, timeout: float) -> None:
        """Build a storage's stores before runs that start together need them.

        Where that fails, the runs say why.
        """
        command = ["stores", "build", self._path(storage)]
        self._daskfc(command, self.folder / f"build-{Path(storage).stem}", timeout)

    def run(self, case: Case, settings: list[str], timeout: float) -> Outcome:
        """Run a case; its output stays beside its folder."""
        command = ["run", self._path(case.pipeline), "--storage", self._path(case.storage)]
        command += ["--cluster", str(self.tree / "cluster-configs" / "local.yaml")]
        command += ["--runs-dir", str(self.folder / "runs"), "--name", case.run_name, "--json"]
        for setting in [*self._clear_ids(), *settings]:
            command += ["--set", setting]
        began = time.monotonic()
        code, said = self._daskfc(command, self.folder / case.run_name, timeout)
        folder = self.folder / "runs" / case.run_name
        return Outcome(code, self.sentence_of(said), folder, time.monotonic() - began)

    def _clear_ids(self) -> list[str]:
        """Return the setting by which samples have one name on both sides, where there is one."""
        files = (self.tree / "daskfc" / "runs").rglob("config.py")  # wherever a commit has it
        known = any("pseudonyms" in file.read_text(encoding="utf-8") for file in files)
        return ["ids=clear"] if known else []

    def _daskfc(self, arguments: list[str], log: Path, timeout: float) -> tuple[int | str, str]:
        command = [sys.executable, "-m", "daskfc", *arguments]
        out, err = log.with_suffix(".out"), log.with_suffix(".err")
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.env, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            )  # fmt: skip
            try:
                code: int | str = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = TIMED_OUT
            finally:  # with all processes that it started
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return code, err.read_text(encoding="utf-8", errors="replace")

    def sentence_of(self, said: str) -> str:
        """Return the last line about an error, without what names this side's folder."""
        lines = [line for line in said.splitlines() if line.strip()]
        about = [line for line in lines if line.startswith(("daskfc: ", "Error: "))]
        sentence = (about or lines or [""])[-1].replace(str(self.folder), "…")
        return re.sub(r"daskfc-\w+\.log", "daskfc-….log", sentence)

    def forget(self, case: Case) -> None:
        """Remove a run that was compared and found the same."""
        shutil.rmtree(self.folder / "runs" / case.run_name, ignore_errors=True)


def unpack(commit: str, folder: Path) -> None:
    """Write a commit's files into a folder."""
    command = ["git", "archive", "--format=tar", commit]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr.decode(errors="replace").strip())
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")

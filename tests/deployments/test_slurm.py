"""docs/deploy/slurm.md, typed as it stands there, on a SLURM of the test's own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import daskfc as fc
from daskfc.cli import main
from daskfc.runs import Run
from tests.deployments.slurm_cluster import NEEDED, Slurm, until, why_not
from tests.test_three_sites import Terminal, blocks, commands

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deploy" / "slurm.md"
CLIENTS = ("hospital-a", "hospital-b", "hospital-c")
LONGEST_S = 300  # until a job has done what is waited for, on a busy machine

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(why_not(*NEEDED)), reason=why_not(*NEEDED)),
]


@pytest.fixture(scope="module")
def slurm():
    with Slurm() as slurm:
        yield slurm
        assert slurm.jobs() == []


@pytest.fixture
def folder(slurm, tmp_path, monkeypatch):
    """Where one types: with the files that are shipped, and commands on the PATH."""
    monkeypatch.chdir(tmp_path)
    own = {"HOME": "home", "TMPDIR": "tmp"}  # where jobs write what is not theirs alone
    for name, place in own.items():
        (tmp_path / place).mkdir()
        monkeypatch.setenv(name, str(tmp_path / place))
    installed = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", os.pathsep.join([installed, os.environ["PATH"]]))
    monkeypatch.setenv("DASKFC_RUN", "nightly")  # and not by the day, which may change
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    files = tmp_path / "cluster-configs"
    shutil.copytree(ROOT / "cluster-configs", files)
    where = files / "slurm" / "cluster.yaml"
    text = where.read_text()
    assert "deadline: 60s" in text
    where.write_text(text.replace("deadline: 60s", "deadline: 15s"))
    return tmp_path


def section(title):
    """Return what stands below a heading of the page."""
    _, found, rest = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")
    assert found, title
    return rest.partition("\n## ")[0]


def type_section(folder, title, before):
    """Type a section; `before` a command that begins so, wait for what it gives."""
    terminal = Terminal(folder)
    for kind, text in blocks(section(title)):
        if kind == "yaml":
            name = text.partition("\n")[0].removeprefix("# ")
            (folder / name).write_text(text)
            continue
        for place, command, told in commands(text):
            for start, true in before.items():
                if command.startswith(start):
                    until(true, terminal.transcript.copy, limit=LONGEST_S)
            terminal.types(place, command, told)
    assert terminal.code == 0, terminal.transcript


def fits_of(folder):
    """Return how many seeds of the run are done."""
    return len(list((folder / "runs" / "nightly" / "fits").glob("OmniFC-*")))


def in_its_middle(folder):
    return 1 <= fits_of(folder) < 5


def has_broken_off(folder):
    return Run(folder / "runs" / "nightly").status == "failed"


def check_labels(folder):
    """The labels are those of all seeds of a run that nobody disturbed, sample by sample."""
    stores = {name: {"store": str(folder / "stores" / f"{name}.zarr")} for name in CLIENTS}
    undisturbed = fc.run(
        str(folder / "pipeline.yaml"), storage={"clients": stores}, runs_dir=folder / "others"
    )
    run = Run(folder / "runs" / "nightly")
    assert run.status == "done"
    found, wanted = run.all_labels, undisturbed.all_labels
    np.testing.assert_array_equal(found["client"], wanted["client"])
    np.testing.assert_array_equal(found, wanted)
    assert np.unique(found).size == 3


def test_a_party_whose_job_is_cancelled_comes_back_and_the_run_is_resumed(slurm, folder):
    type_section(folder, "Before", {})
    type_section(
        folder,
        "One job a party",
        {
            "scancel --name=hospital-b": lambda: in_its_middle(folder),
            "cat daskfc-run": lambda: has_broken_off(folder) and "daskfc-run" not in slurm.jobs(),
            "squeue": lambda: slurm.jobs() == [],
        },
    )
    assert (folder / "runs" / "nightly" / "log.txt").read_text().count("OmniFC") > 0
    check_labels(folder)


def test_one_job_for_all_leaves_a_run_that_the_same_job_resumes(slurm, folder):
    type_section(folder, "Before", {})
    type_section(
        folder,
        "One job for all",
        {
            "scancel": lambda: in_its_middle(folder),
            "cat daskfc-gang": lambda: slurm.jobs() == [],
        },
    )
    check_labels(folder)


def test_a_job_for_all_that_is_cancelled_without_notice_is_resumed_too(slurm, folder):
    """`scancel` as one types it: all tasks and the driver are ended, in whatever order."""
    type_section(folder, "Before", {})
    subprocess.run(["sbatch", "gang.sbatch"], check=True)
    logs = lambda: [path.read_text() for path in folder.glob("*-*.log")]  # noqa: E731
    until(lambda: in_its_middle(folder), logs, limit=LONGEST_S)
    subprocess.run(["scancel", "--name=daskfc-gang"], check=True)
    until(lambda: slurm.jobs() == [], logs, limit=LONGEST_S)
    assert in_its_middle(folder)
    kept = fits_of(folder)
    done = subprocess.run(["sbatch", "--wait", "gang.sbatch"], check=False)
    assert done.returncode == 0, logs()
    assert Run(folder / "runs" / "nightly").status == "done"
    told = (folder / "runs" / "nightly" / "log.txt").read_text()
    assert told.count("done before, kept") >= kept
    check_labels(folder)


def test_with_certificates_one_job_for_all_talks_over_tls(slurm, folder, monkeypatch):
    type_section(folder, "Before", {})
    for words in (
        "init", "issue --role scheduler scheduler", "issue --role server server",
        "issue --role submitter me",
        *(f"issue --role client {name}" for name in CLIENTS),
    ):  # fmt: skip
        made = CliRunner().invoke(main, ["certs", *words.split()])
        assert made.exit_code == 0, made.output
    monkeypatch.setenv("DASKFC_CERTS", str(folder / "ca" / "parties"))
    where = folder / "cluster.yaml"
    none = "# security: {ca: ca.pem, cert: cert.pem, key: key.pem}"
    files = (f"{key}: ca/parties/me/{key}.pem" for key in ("ca", "cert", "key"))
    own = f"security: {{{', '.join(files)}}}"
    text = where.read_text()
    assert none in text
    where.write_text(text.replace(none, own))
    done = subprocess.run(["sbatch", "--wait", "gang.sbatch"], check=False)
    logs = "\n".join(path.read_text() for path in folder.glob("*-*.log"))
    assert done.returncode == 0, logs
    assert "scheduler: listens at tls://" in logs
    check_labels(folder)

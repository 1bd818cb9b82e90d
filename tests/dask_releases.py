"""Run the tests that hang on the inside of Dask with releases of Dask, and note them on a page.

    python -m tests.dask_releases [RELEASE ...]

Without releases with all: the oldest that daskfc allows, the newest that there is, six between.
Each has a virtual environment of its own, made once, with dask and distributed alone; all other
packages are those of the environment that runs this. Rows of other releases stay as they are.
"""

import os
import re
import subprocess
import sys
import sysconfig
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import Version

from tests.long_checks import commit_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "dask-releases.md"
PLACES = ROOT / ".venv-dask"
BETWEEN = ("2025.3.0", "2025.5.1", "2025.7.0", "2025.10.0", "2025.12.0", "2026.3.0")
# The names from inside of Dask; the guard and other ways out; what comes in; the verbs; kills; a
# scheduler and parties of their own, with TLS; a fit of each method.
TESTS = """
tests/deploy/test_dask_insides.py tests/federation/test_guard.py tests/federation/test_ways_out.py
tests/federation/test_graphs_sent.py tests/federation/test_party_worker.py
tests/federation/test_nanny.py tests/federation/test_verbs.py tests/federation/test_traffic.py
tests/federation/test_recovery.py tests/deploy/test_attacks.py tests/test_every_fit.py
""".split()
LEFT_OUT = "plain_script or revoked_certificate"  # a minute, which hangs less on Dask
HEAD = """\
# Releases of Dask

`make test-dask` writes this page; do not edit. dask and distributed are of one release each time,
all other packages those of the environment. Run is what hangs on the inside of Dask
(`daskfc/deploy/config/dask_insides.py`): the guard and other ways out, what comes in, the verbs,
processes that are killed, a scheduler with parties of their own, and a fit of each method.

| release | last run | commit | Python | passed | failed | skipped | seconds |
|---------|----------|--------|--------|-------:|-------:|--------:|--------:|
"""
_COUNT = re.compile(r"(\d+) (passed|failed|error|skipped)")


def releases() -> tuple[str, ...]:
    """Return the releases to be run, from the oldest to the newest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bound,) = (one for one in project["dependencies"] if one.startswith("distributed"))
    asked = [sys.executable, "-m", "pip", "index", "versions", "distributed"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    newest = re.search(r"\(([\d.]+)\)", told)
    assert newest is not None, told
    oldest = bound.partition(">=")[2]
    return (oldest if oldest.count(".") == 2 else f"{oldest}.0", *BETWEEN, newest[1])


def python_with(release: str) -> Path:
    """Return the interpreter of an environment with a release; it is made where there is none."""
    place = PLACES / release
    python, made = place / "bin" / "python", place / ".made"
    if not made.is_file():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        of_python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = place / "lib" / of_python / "site-packages"
        pins = (f"dask=={release}", f"distributed=={release}")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run([*pip, "--no-deps", "--target", packages, *pins], check=True)
        shared = sysconfig.get_path("purelib")
        (packages / "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
        command = python.with_name("daskfc")  # which sites' scripts start
        command.write_text(f"#!{python}\nfrom daskfc.cli import main\n\nmain()\n")
        command.chmod(0o755)
        made.touch()
    return python


def row(release: str, commit: str, printed: str, seconds: float) -> str:
    """Return a line of the table, by the last line that pytest printed."""
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for number, what in _COUNT.findall(printed.strip().rpartition("\n")[2]):
        counts["failed" if what == "error" else what] += int(number)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    python = ".".join(map(str, sys.version_info[:3]))
    cells = (release, today, commit, python, *map(str, counts.values()), f"{seconds:.0f}")
    return f"| {' | '.join(cells)} |"


def rows_of(page: str) -> dict[str, str]:
    """Return the lines of a page's table by release, from the oldest."""
    lines = [line for line in page.splitlines() if re.match(r"\| \d", line)]
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines}
    return {release: rows[release] for release in sorted(rows, key=Version)}


def with_row(page: str, new: str) -> str:
    """Return the page with a release's row in place of its last one."""
    rows = rows_of(f"{page}\n{new}")
    return HEAD + "".join(f"{line}\n" for line in rows.values())


def main(*asked: str) -> int:
    """Run all, print, note; return whether any failed."""
    commit, worst = commit_of(ROOT), 0
    for release in asked or releases():
        python = python_with(release)
        print(f"dask and distributed {release}", flush=True)
        start, printed = time.monotonic(), ""
        options = ["-q", "-p", "no:cacheprovider", "--tb=short", "-k", f"not ({LEFT_OUT})"]
        command = [python, "-m", "pytest", *options, *TESTS]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                print(line, end="", flush=True)
                printed = line if _COUNT.search(line) and " in " in line else printed
        worst = max(worst, running.returncode)
        page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
        new = row(release, commit, printed, time.monotonic() - start)
        PAGE.write_text(with_row(page, new), encoding="utf-8")
    return worst


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

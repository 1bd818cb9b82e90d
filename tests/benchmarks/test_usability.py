"""A new user's way from an empty folder to a report: commands typed, and seconds waited.

The user starts the example of three hospitals and then types what each command says comes next,
nothing else. Goals: three commands, and less than a minute. Both are printed by
`python tests/benchmarks/test_usability.py`.
"""

import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import pytest

from daskfc.runs import site_labels

COMMANDS = 3
SECONDS = 60.0
FIRST = "daskfc init --example hospitals"


def typed(command: str, folder: Path) -> str:
    """Carry out a command in a folder and return what it prints."""
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def play(folder: Path) -> tuple[list[tuple[str, float]], Path]:
    """Go from nothing to a report.

    Parameters
    ----------
    folder : Path
        Empty.

    Returns
    -------
    list of (str, float)
        Every command that was typed, and its seconds.
    Path
        The report that the last one named.
    """
    waiting, told, steps = [FIRST], "", []
    while waiting:
        command = waiting.pop(0)
        start = time.perf_counter()
        told = typed(command, folder)
        steps.append((command, time.perf_counter() - start))
        waiting += re.findall(r"^ {2}(daskfc .+)$", told.partition("Next\n")[2], re.MULTILINE)
    (report,) = re.findall(r"^The report: +(.+)$", told, re.MULTILINE)
    return steps, folder / report


@pytest.mark.slow
@pytest.mark.benchmark(group="A new user, from csv files to a report")
def test_from_nothing_to_a_report(tmp_path, benchmark):
    steps, report = benchmark.pedantic(play, args=(tmp_path,), rounds=1)
    assert len(steps) == COMMANDS, steps
    page = report.read_text(encoding="utf-8")
    for name in ("hospital-a", "hospital-b", "hospital-c", "CodedRows", "silhouette"):
        assert name.lower() in page.lower()
    for file in sorted(tmp_path.glob("data/*.csv")):  # each takes its own patients back
        store = str(tmp_path / "stores" / "hospitals" / f"{file.stem}.zarr")
        own = site_labels(report.parent / "labels.csv", store)
        assert set(own["sample_id"]) == set(pd.read_csv(file)["patient"])
    benchmark.extra_info["rows"] = [{"command": name, "s": seconds} for name, seconds in steps]
    if benchmark.enabled:  # else the machine may be busy with other tests
        assert sum(seconds for _, seconds in steps) < SECONDS


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        steps, _ = play(Path(folder))
    for command, seconds in steps:
        print(f"{seconds:6.1f} s  {command}")
    total = sum(seconds for _, seconds in steps)
    print(f"{total:6.1f} s  {len(steps)} commands; goals: {SECONDS:.0f} s, {COMMANDS} commands")


if __name__ == "__main__":
    main()

"""Put known bugs into a copy of the tree, one at a time, and see whether their tests fail.

``python tests/mutations/run.py [WORD ...]`` takes the bugs of all ``*.toml`` files of this folder,
or those with one of the words in their name or file. It prints a table and fails unless every bug
was caught. Nothing is written to the tree itself.

A bug is a table ``[[mutation]]`` with a ``name``, the ``file``, ``edits`` (pairs of an old text,
which occurs there exactly once, and a new one) and the ``tests`` that must fail.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TIMEOUT_S = 600
_TIMES = count(1)


@dataclass(frozen=True)
class Mutation:
    """A bug, and the tests that see it."""

    name: str
    file: str
    edits: list[list[str]]
    tests: list[str]

    def applied(self, text: str) -> str:
        """Return a source with the bug in it."""
        for old, new in self.edits:
            if (found := text.count(old)) != 1 or old == new:
                raise ValueError(f"{self.name}: {old!r} occurs {found} times in {self.file}.")
            text = text.replace(old, new)
        return text


def mutations() -> list[Mutation]:
    """Return the bugs of all files."""
    return [
        Mutation(**entry)
        for path in sorted(HERE.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutation", ())
    ]


def copy_tree(target: Path) -> None:
    """Copy what git knows, or would add; a fresh tree has no compiled files to be stale."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(
    tree: Path,
    tests: list[str],
    options: Sequence[str] = (),
    limit_s: float = TIMEOUT_S,
    start: Callable[..., Any] = subprocess.Popen,
) -> str:
    """Return "passed", "hung", "failed" with test and reason, or pytest's own trouble."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p"]
    command += ["no:randomly", *options, *dict.fromkeys(tests)]
    path = os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "COLUMNS": "400"}
    with (tree / "pytest.log").open("w+", encoding="utf-8") as log:
        process = start(command, cwd=tree, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return "hung"
        finally:  # with all processes that it started, of which some have a session of their own
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            for other in psutil.process_iter():
                with suppress(psutil.Error):
                    if Path(other.cwd()) == tree.resolve():
                        other.kill()
        log.seek(0)
        said = log.read()
    reasons = re.findall(r"^(?:FAILED|ERROR) (.*)", said, re.MULTILINE)
    if code == 1 and reasons:
        return f"failed: {reasons[0]!r}"
    return "passed" if code == 0 else f"pytest said {said[-400:]!r}"


def write(source: Path, text: str) -> None:
    """Write a file with a time of its own, by which Python knows that compiled code is stale."""
    source.write_text(text, encoding="utf-8")
    os.utime(source, (number := next(_TIMES), number))


def main(words: list[str]) -> int:
    """Print which bugs are caught; return 1 when one is not, 2 when tests fail without a bug."""
    chosen = [m for m in mutations() if not words or any(w in f"{m.name} {m.file}" for w in words)]
    with tempfile.TemporaryDirectory(prefix="daskfc-mutations-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        outcome = run_tests(tree, [test for m in chosen for test in m.tests])
        if outcome != "passed":
            print(f"without any bug the tests should pass: {outcome}")
            print((tree / "pytest.log").read_text(encoding="utf-8")[-4000:])
            return 2
        missed = 0
        for m in chosen:
            source = tree / m.file
            clean, start = source.read_text(encoding="utf-8"), time.monotonic()
            write(source, m.applied(clean))
            outcome = run_tests(tree, m.tests)
            write(source, clean)
            caught = outcome.startswith(("failed", "hung"))
            missed += not caught
            verdict = f"{'caught' if caught else 'NOT CAUGHT'} {time.monotonic() - start:4.0f} s"
            print(f"{verdict}  {m.file}  {m.name}\n{'':14}{outcome[:200]}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

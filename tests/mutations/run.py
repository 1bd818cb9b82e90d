"""Put known bugs into a copy of the tree, one at a time, and see whether their tests fail.

``python tests/mutations/run.py [WORD ...]`` takes the bugs of all ``*.toml`` files of this folder,
or those with one of the words in their name or file. It prints a table and fails unless every bug
was caught. Nothing is written to the tree itself.

A bug is a table ``[[mutation]]`` with a ``name``, the ``file``, ``edits`` (pairs of an old text,
which occurs there exactly once, and a new one) and the ``tests`` that must fail.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TIMEOUT_S = 600


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
            if (count := text.count(old)) != 1 or old == new:
                raise ValueError(f"{self.name}: {old!r} occurs {count} times in {self.file}.")
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
            shutil.copy(ROOT / name, target / name)


def run_tests(tree: Path, tests: list[str]) -> str:
    """Return "passed", "failed", "hung" or pytest's own trouble."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p"]
    command += ["no:randomly", *dict.fromkeys(tests)]
    path = os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    with (tree / "pytest.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, cwd=tree, env=env, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "hung"
        finally:  # with all processes that it started
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        log.seek(0)
        tail = log.read()[-400:]
    return {0: "passed", 1: "failed"}.get(code, f"pytest said {tail!r}")


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
            source.write_text(m.applied(clean), encoding="utf-8")
            outcome = run_tests(tree, m.tests)
            source.write_text(clean, encoding="utf-8")
            caught = outcome in {"failed", "hung"}
            missed += not caught
            verdict = "caught" if caught else f"NOT CAUGHT ({outcome})"
            seconds = time.monotonic() - start
            print(f"{verdict:<10} {seconds:5.0f} s  {m.file}  {m.name}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

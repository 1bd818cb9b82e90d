"""Run a check that is too long for every change, and note on a page when and how it ended.

    python -m tests.long_checks "make test-lowest" COMMAND ...

The exit code is the command's. Rows of other checks stay as they are.
"""

import platform
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "long-checks.md"
HEAD = """\
# Long checks

Each takes too long to run with every change, and is a command of its own, which writes its row when
it ends. [Faults](chaos.md) and [Benchmarks](benchmarks.md) say so themselves.

| check | last run | commit | Python | minutes | how it ended |
|-------|----------|--------|--------|---------|--------------|
"""
_COUNTS = re.compile(r"\d+ (?:passed|failed|error|skipped)[^=]*? in [0-9.]+s")


def row(check: str, commit: str, minutes: float, ended: str) -> str:
    """Return a line of the table."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    cells = (f"`{check}`", today, commit, platform.python_version(), f"{minutes:.0f}", ended)
    return f"| {' | '.join(cells)} |"


def with_row(page: str, new: str) -> str:
    """Return the page with a check's row in place of its last one; rows by name."""
    rows = {line.split("|")[1]: line for line in page.splitlines() if line.startswith("| `")}
    rows[new.split("|")[1]] = new
    return HEAD + "".join(f"{rows[name]}\n" for name in sorted(rows))


def commit_of(root: Path) -> str:
    """Return the commit of a tree, and whether files are not as they are in it."""

    def git(*words: str) -> str:
        asked = ["git", "-C", str(root), *words]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
        return git("rev-parse", "--short", "HEAD") + (" and changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main(check: str, *command: str) -> int:
    """Run, print, note; return the exit code."""
    start, commit, ended = time.monotonic(), commit_of(ROOT), "no test ended"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            if found := _COUNTS.search(line):
                ended = found[0].partition(" in ")[0]
    minutes = (time.monotonic() - start) / 60
    page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    PAGE.write_text(with_row(page, row(check, commit, minutes, ended)), encoding="utf-8")
    return running.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

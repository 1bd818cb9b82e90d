"""Give every bad input to the command line, and print how it is answered.

python -m tests.bad_inputs.table [NUMBER ...]
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bad_inputs.cases import COMMANDS, RUNS, Case
from tests.bad_inputs.test_bad_inputs import laid_out


def answered(case: Case) -> tuple[int, float, str]:
    """Return the exit code, seconds, and all that is told."""
    with tempfile.TemporaryDirectory() as folder:
        laid_out(case, Path(folder))
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "daskfc", *case.words],
            cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        return done.returncode, time.monotonic() - began, f"{done.stdout}\n{done.stderr}"


def main() -> None:
    """Print a row for each case."""
    wanted, wrong = sys.argv[1:], []
    for number, case in {**COMMANDS, **RUNS}.items():
        if wanted and number not in wanted:
            continue
        code, seconds, told = answered(case)
        found = re.search(case.says, told)
        line = next((x for x in told.splitlines() if re.search(case.says, x)), told[-300:])
        good = code == case.code and found is not None
        print(f"| {number} | {case.what} | {code} | {seconds:.1f} | {line.strip()} |", flush=True)
        if not good:
            wrong.append(number)
    print("all answered" if not wrong else f"not answered as wanted: {', '.join(wrong)}")


if __name__ == "__main__":
    main()

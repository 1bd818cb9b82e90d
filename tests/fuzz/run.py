"""Fuzz for as long as is asked, with other inputs each time, and stop at the first that fails.

python -m tests.fuzz.run [MINUTES]
"""

import os
import secrets
import subprocess
import sys
import time

TIMES = 4  # as many inputs in a round as the tests of every day try


def main() -> int:
    """Return 0 when the time is over, 1 with the failing input and its seed printed."""
    until = time.monotonic() + 60 * float(sys.argv[1] if len(sys.argv) > 1 else 60)
    rounds = 0
    while time.monotonic() < until:
        seed = secrets.randbits(32)
        words = ["-q", "-x", "--timeout", "3600", "--tb", "short", f"--hypothesis-seed={seed}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "tests/fuzz", *words],
            env={**os.environ, "FUZZ_TIMES": str(TIMES)},
            check=False,
        )
        if done.returncode:
            again = f"FUZZ_TIMES={TIMES} pytest tests/fuzz --hypothesis-seed={seed}"
            print(f"Round {rounds + 1} failed. Again: {again}")
            return 1
        rounds += 1
    print(f"{rounds} rounds, nothing found.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

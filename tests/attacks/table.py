"""Make every attempt of the threat model, and print how each ends.

python -m tests.attacks.table [ROW ...]

Exit code 1 when an attempt got through, or was not made.
"""

import sys
from collections import defaultdict

import pytest

from tests.attacks.attempts import ATTEMPTS, Attempt, found


class Outcomes:
    """A plug-in of pytest that keeps how every test ended, by its id without parameters."""

    def __init__(self) -> None:
        self.of: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test, and a fixture that failed before or after it."""
        if report.when == "call" or report.outcome != "passed":
            self.of[report.nodeid.partition("[")[0]].add(report.outcome)

    def told(self, attempt: Attempt) -> str:
        """Return how an attempt ended: as its tests hold, or not so."""
        ended: set[str] = set()
        for test in [one for pattern in attempt.tests for one in found(pattern)]:
            names = [name for name in self.of if name == test or name.startswith(f"{test}::")]
            ended |= set().union(*(self.of[name] for name in names)) if names else {"not run"}
        if "failed" in ended:
            return "GOT THROUGH"
        return attempt.now if ended == {"passed"} else "NOT MADE"


def main() -> int:
    """Print a row for each attempt."""
    wanted = sys.argv[1:]
    attempts = [one for one in ATTEMPTS if not wanted or one.row in wanted]
    tests = {test for one in attempts for pattern in one.tests for test in found(pattern)}
    outcomes = Outcomes()
    pytest.main(["-q", "-p", "no:randomly", *sorted(tests)], plugins=[outcomes])
    print("\n| # | attempt | by | before | now | tests |\n|--:|:--|:--|:--|:--|:--|")
    ends = {one: outcomes.told(one) for one in attempts}
    for one, end in ends.items():
        tests = ", ".join(pattern.removeprefix("tests/") for pattern in one.tests)
        print(f"| {one.row} | {one.what} | {one.position} | {one.before} | {end} | {tests} |")
    wrong = [one for one, end in ends.items() if end != one.now]
    print(f"\n{len(attempts) - len(wrong)} of {len(attempts)} attempts end as they should.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Every row of the threat model has tests, and the program that runs them can fail."""

import re
from types import SimpleNamespace

import pytest

from tests.attacks.attempts import ATTEMPTS, REFUSED, ROOT, Attempt, found
from tests.attacks.table import Outcomes

# Patterns of tests/deploy/test_attacks.py beside others of the same attempt.
_MAY_BE_NONE = {"tests/deploy/test_attacks.py"}


def test_every_row_is_tried():
    assert {one.row for one in ATTEMPTS} == {*map(str, range(1, 26)), "-"}


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda one: f"{one.row}: {one.what}")
def test_every_attempt_has_tests_that_are_there(attempt):
    missing = [one for one in attempt.tests if not found(one)]
    assert len(missing) < len(attempt.tests)
    assert {one.partition("::")[0] for one in missing} <= _MAY_BE_NONE


def test_the_page_has_the_same_attempts():
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    told = re.findall(r"^\| (\d+|-) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    held = [(one.row, one.what, one.position, one.before, one.now) for one in ATTEMPTS]
    assert told == held


def outcome(nodeid, outcome, when="call"):
    return SimpleNamespace(nodeid=nodeid, outcome=outcome, when=when)


HERE = "tests/attacks/test_attempts.py"


@pytest.mark.parametrize(
    ("reports", "told"),
    [
        ([outcome(f"{HERE}::test_every_row_is_tried[a]", "passed")], REFUSED),
        ([], "NOT MADE"),
        ([outcome(f"{HERE}::test_every_row_is_tried", "skipped", "setup")], "NOT MADE"),
        (
            [
                outcome(f"{HERE}::test_every_row_is_tried[a]", "passed"),
                outcome(f"{HERE}::test_every_row_is_tried[b]", "failed"),
            ],
            "GOT THROUGH",
        ),
        ([outcome(f"{HERE}::test_every_row_is_tried", "failed", "setup")], "GOT THROUGH"),
        ([outcome("tests/other.py::test_a", "failed")], "NOT MADE"),
    ],
)
@pytest.mark.parametrize("pattern", [HERE, f"{HERE}::test_every_row_*"])
def test_an_attempt_ends_as_its_tests_do(reports, told, pattern):
    outcomes = Outcomes()
    for report in reports:
        outcomes.pytest_runtest_logreport(report)
    attempt = Attempt("1", "what", "e", "before", REFUSED, (pattern,))
    assert outcomes.told(attempt) == told

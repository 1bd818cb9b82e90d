"""Of a test with the mark `few`, so many cases are no long ones, whatever their order."""

import random

import pytest

from tests.conftest import pytest_collection_modifyitems


class Case:
    """What a case of a test has that pytest has collected."""

    def __init__(self, name, number, *marks):
        self.nodeid, self.number, self.marks = f"{name}[{number}]", number, list(marks)
        self.callspec = self

    @property
    def indices(self):
        return {"number": self.number}

    def get_closest_marker(self, name):
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, mark):
        self.marks.append(getattr(pytest.mark, mark).mark if isinstance(mark, str) else mark.mark)


@pytest.mark.parametrize(
    ("n", "kept"), [(1, {0}), (2, {0, 9}), (4, {0, 3, 6, 9}), (20, {*range(10)})]
)
def test_cases_that_are_kept_are_spread(n, kept):
    cases = [Case("test_a", number, pytest.mark.few(n).mark) for number in range(10)]
    others = [Case("test_b", number) for number in range(3)]
    items = [*cases, *others]
    random.Random(n).shuffle(items)
    pytest_collection_modifyitems(items)
    assert {case.number for case in cases if not case.get_closest_marker("long")} == kept
    assert all(bool(c.get_closest_marker("slow")) == (c.number not in kept) for c in cases)
    assert not any(case.marks for case in others)

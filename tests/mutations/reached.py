"""Which functions of daskfc each test calls in its own process: a plugin of pytest.

A line a test in the file ``DASKFC_REACHED``: its name and the functions, a number
each that a line ``FILE:NAME`` before it gave.
"""

import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

_called: dict[int, CodeType] = {}  # by where they lie: they are kept, so that none takes its place
_codes: dict[int, CodeType] = {}
_numbers: dict[str, int] = {}


def _note(frame: FrameType, event: str, argument: Any) -> None:
    code = frame.f_code
    _called[id(code)] = code


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """Listen to the test, its fixtures included."""
    _called.clear()
    threading.settrace(_note)
    sys.settrace(_note)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        _codes.update(_called)
        _write(item)


def _write(item: pytest.Item) -> None:
    root, found = f"{item.config.rootpath}/daskfc/", []
    lines = []
    for code in list(_called.values()):  # other threads may go on
        if code.co_filename.startswith(root):
            place = f"daskfc/{code.co_filename[len(root) :]}:{code.co_qualname}"
            if place not in _numbers:
                _numbers[place] = len(_numbers)
                lines.append(f"{place}\n")
            found.append(_numbers[place])
    lines.append(f"{item.nodeid}\t{' '.join(map(str, sorted(found)))}\n")
    with Path(os.environ["DASKFC_REACHED"]).open("a", encoding="utf-8") as file:
        file.writelines(lines)

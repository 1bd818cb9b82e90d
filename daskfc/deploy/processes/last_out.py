"""Removes folders of a killed process when the last of its parties has ended.

The process that parties are forked from imports this; it ends after the last of them.
"""

import atexit
import os
import time

from daskfc.deploy.processes.scratch import sweep

__all__: list[str] = []  # imported for its effect

_SELF, _OWNER = os.getpid(), os.getppid()
_LONGEST_S = 5.0  # for a process that is ending


@atexit.register
def _sweep() -> None:
    if os.getpid() != _SELF:  # in a party
        return
    ends = time.monotonic() + _LONGEST_S
    while os.getppid() == _OWNER and time.monotonic() < ends:
        time.sleep(0.01)  # a killed one may hold its folder for a moment longer than its pipes
    sweep()

"""Imported by the process that parties are forked from, which ends when the last of them has.

It is there when the process that owned the parties was killed, and sweeps up after it.
"""

import atexit
import os
import time

from daskfc.deploy.processes.scratch import sweep

__all__: list[str] = []  # who imports it wants what it does

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

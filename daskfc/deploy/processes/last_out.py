"""What the process that parties are forked from does with garbage, and with folders at its end.

It imports this first. It ends after the last of its parties, and removes folders of a killed one.
"""

import atexit
import gc
import os
import sys
import time

from daskfc.deploy.processes.scratch import sweep

__all__: list[str] = []  # imported for its effect

_SELF, _OWNER = os.getpid(), os.getppid()
_LONGEST_S = 5.0  # for a process that is ending

if any("multiprocessing.forkserver" in word for word in sys.orig_argv):
    # What it imports lasts; to look for garbage in it took two fifths of all its time.
    gc.disable()
    os.register_at_fork(before=gc.freeze, after_in_child=gc.enable)
    atexit.register(gc.freeze)


@atexit.register
def _sweep() -> None:
    if os.getpid() != _SELF:  # in a party
        return
    ends = time.monotonic() + _LONGEST_S
    while os.getppid() == _OWNER and time.monotonic() < ends:
        time.sleep(0.01)  # a killed one may hold its folder for a moment longer than its pipes
    sweep()

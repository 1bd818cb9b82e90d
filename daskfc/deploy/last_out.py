"""Imported by the process that parties are forked from, which ends when the last of them has.

It is there when the process that owned the parties was killed, and sweeps up after it.
"""

import atexit
import os

from daskfc.deploy.scratch import sweep

__all__: list[str] = []  # who imports it wants what it does

_SELF = os.getpid()


@atexit.register
def _sweep() -> None:
    if os.getpid() == _SELF:  # and not in a party
        sweep()

"""Imported by the process that worker processes are forked from: they share compiled code."""

import os

from daskfc.coding import warm_up
from daskfc.coding.residues.compiled import is_cached

__all__: list[str] = []

if not is_cached():  # in a process of its own: compiling takes 40 MB, which all would inherit
    child = os.fork()
    if child == 0:
        try:
            warm_up()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
warm_up()

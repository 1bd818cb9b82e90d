"""Who sweeps up after a process that was killed."""

import subprocess
import sys

import pytest

SWEEPS = """
import os, time
from daskfc.deploy.processes import last_out

owner, said = os.getppid(), []
answers = iter({answers})
os.getppid = lambda: owner if (alive := next(answers, None)) is None or alive else 1
last_out._LONGEST_S = 0.2
last_out.sweep = lambda: said.append(len([*answers]))
last_out._sweep()
print(said)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("answers", "left"),
    [([True, True, False, True, True], 2), ([False, True], 1), ([], 0)],
    ids=["which is ending", "which has ended", "which goes on"],
)
def test_it_waits_for_a_moment_for_the_process_that_owned_the_parties(answers, left):
    script = SWEEPS.format(answers=answers)
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout == f"[{left}]\n", told.stderr

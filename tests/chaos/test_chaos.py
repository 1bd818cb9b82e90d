"""A few of the seeded faults; ``python tests/chaos/run.py`` strikes a hundred times."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.chaos.cases import environment


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_first_faults_leave_results_right():
    command = [sys.executable, str(Path(__file__).with_name("run.py")), "--faults", "3"]
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environment(tempfile.gettempdir()), check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr

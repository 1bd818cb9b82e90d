"""A process for many parties may open more than a shell allows at first."""

import subprocess
import sys

import pytest

CODE = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from daskfc.deploy.connections.descriptors import allow_many_descriptors
told = allow_many_descriptors()
print(told, *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("soft", "hard", "allowed"), [(256, 900, 900), (900, 900, 900)])
def test_the_limit_is_raised_as_far_as_it_may(soft, hard, allowed):
    code = CODE.format(soft=soft, hard=hard)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(allowed), str(allowed), str(hard)]

"""Programs that come with Python packages, beside those of the system."""

import os
import shutil
import sys
from pathlib import Path


def which(program):
    """Return a program's path, from this environment's packages first; None where it is not."""
    return shutil.which(program, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")

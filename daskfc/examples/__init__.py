"""Examples that a new user starts from: the YAML files of a run, and data where there is none.

The files are those of the repository, for users who installed only the package.
"""

from daskfc.examples.folder import EXAMPLES, write_example
from daskfc.examples.hospitals import hospital_tables

__all__ = ["EXAMPLES", "hospital_tables", "write_example"]

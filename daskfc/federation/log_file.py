"""A log that nothing fails for."""

import logging
import sys
from contextlib import suppress

__all__ = ["LogFile"]


class LogFile(logging.FileHandler):
    """A log file that is silent where it cannot be written; on a full disk, the work itself tells.

    Parameters
    ----------
    filename : path-like
        Made with the first line.
    """

    def __init__(self, filename: object) -> None:
        super().__init__(str(filename), encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        with suppress(OSError):  # that the file cannot be made
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Tell of errors in a line, not of those of the disk."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # that the rest cannot be written
            super().close()

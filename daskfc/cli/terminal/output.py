"""Where the command line prints results: standard output, wide enough when it is no terminal."""

from rich.console import Console

__all__ = ["stdout_console"]

PIPE_WIDTH = 120  # characters; a pipe or a file has no width of its own


def stdout_console() -> Console:
    """Return the console of results."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)

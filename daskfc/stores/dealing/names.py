"""Which names clients may have."""

import re

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
_SERVER = re.compile(r"server(-[1-9]\d*)?")  # and its further workers


def client_name(name: str) -> str:
    """Return a client's name; raise ValueError for another party's or for unsafe characters."""
    if name in ("clients", "caller") or _SERVER.fullmatch(name):
        raise ValueError(f"a client may not be called {name!r}, which means another party")
    if not _NAME.match(name):
        raise ValueError(
            "a client's name must be 1 to 63 letters, digits, '-', '_' or '.', the first a "
            "letter or digit"
        )
    return name

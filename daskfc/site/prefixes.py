"""Whether the URL of a store lies below one that a site's policy names."""

import os
from collections.abc import Sequence

_LOCAL = "file://"
# Text with another meaning to file systems: chains of file systems, variables, escapes.
_ODD = ("::", "$", "%", "\\", "?", "#")


def is_below(url: str, prefixes: Sequence[str]) -> bool:
    """Return whether a URL or path, links resolved, is one of some prefixes or below one."""
    place = _place(url)
    if place is None:
        return False
    for prefix in prefixes:
        above = _place(prefix)
        if above is not None and (place == above or place.startswith(f"{above.rstrip('/')}/")):
            return True
    return False


def _place(url: str) -> str | None:
    """Return a URL in its one form, or None where it may mean several places."""
    if not url or any(odd in url for odd in _ODD) or url.startswith("~"):
        return None
    if url.startswith(_LOCAL) or "://" not in url:
        return _LOCAL + os.path.realpath(url.removeprefix(_LOCAL))
    protocol, _, rest = url.partition("://")
    parts = rest.rstrip("/").split("/")
    if ".." in parts or "." in parts or "" in parts:
        return None
    return f"{protocol.lower()}://{'/'.join(parts)}"

"""Find the methods, clusterers and sources that other installed packages register."""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

logger = logging.getLogger("daskfc.plugins")

T = TypeVar("T")


def with_plugins(group: str, own: Mapping[str, T], is_one: Callable[[Any], bool]) -> dict[str, T]:
    """Return `own` in order, then plug-ins of the entry-point `group`, sorted by name.

    A plug-in that cannot be loaded, is of another kind, or has a name that is taken is left out
    with a logged warning, so that a broken package stops nothing else.
    """
    found = dict(own)
    for point in sorted(entry_points_of(group), key=lambda point: (point.name, point.value)):
        if point.name in found:
            _left_out(point, "its name is taken")
            continue
        try:
            value = point.load()
        except Exception as error:  # whatever a foreign module raises when it is imported
            _left_out(point, f"it cannot be loaded ({type(error).__name__}: {error})")
            continue
        if is_one(value):
            found[point.name] = value
        else:
            _left_out(point, f"{group} takes no {type(value).__name__} of this kind")
    return found


def entry_points_of(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, cached by search path, as looking them up is slow."""
    return _entry_points(group, tuple(sys.path))


@lru_cache(maxsize=64)
def _entry_points(group: str, search_path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _left_out(point: EntryPoint, why: str) -> None:
    package = "unknown package" if point.dist is None else point.dist.name
    logger.warning("plug-in %r of %s is left out: %s", point.name, package, why)

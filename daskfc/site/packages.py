"""Finding the installed package that a method is of."""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from inspect import getmodulename

from packaging.requirements import Requirement

from daskfc.plugins import entry_points_of

_OWN = "daskfc"


def package_of(module: str) -> tuple[str, str]:
    """Return the installed package that registers methods of a module, and its version.

    Returns
    -------
    tuple of str
        "unknown" and an empty version where no package registers methods of it, or several do; the
        version of a source tree on the path is empty too.

    Examples
    --------
    >>> from daskfc.site import package_of
    >>> package_of("daskfc.protocols.omnifc.estimator")[0], package_of("__main__")
    ('daskfc', ('unknown', ''))
    """
    top = module.partition(".")[0]
    if top == _OWN:
        return _OWN, _own_version()
    found = {
        (point.dist.name, point.dist.version)
        for point in entry_points_of("daskfc.methods")
        if point.dist is not None and point.module.partition(".")[0] == top
    }
    return found.pop() if len(found) == 1 else ("unknown", "")


@cache
def _own_version() -> str:
    try:
        return version(_OWN)
    except PackageNotFoundError:  # a source tree on the path
        return ""


def modules_of(packages: Iterable[str]) -> frozenset[str]:
    """Return the top modules of packages that a policy names; "any" are those with methods."""
    if packages == "any":
        return frozenset(
            point.module.partition(".")[0] for point in entry_points_of("daskfc.methods")
        )
    found: set[str] = set()
    for one in map(Requirement, packages):
        try:
            owner = distribution(one.name)
        except PackageNotFoundError:
            if not one.specifier:
                found.add(one.name)
            continue
        if one.specifier.contains(owner.version, prereleases=True):
            found.update(_modules(owner))
    return frozenset(module for module in found if module.isidentifier())


def _modules(owner: Distribution) -> set[str]:
    """Return the top modules that a package declares, or else has files of."""
    declared = (owner.read_text("top_level.txt") or "").split()
    named = ((file.parts, getmodulename(file.name)) for file in owner.files or ())
    return set(declared) or {parts[0] if len(parts) > 1 else name for parts, name in named if name}
